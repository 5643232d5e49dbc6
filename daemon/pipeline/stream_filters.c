/* The filters of one stream: see stream_filters.h. */
#include "pipeline/stream_filters.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"

/* What one filter of the configuration became for this stream. */
struct made {
    struct taps **sets;
    uint32_t count;
    uint32_t *place; /* [count] of the set among the taps used, counted from 1; 0: not used */
};

static void made_free(struct made *made, uint32_t filters)
{
    for (uint32_t f = 0; made != NULL && f < filters; f++) {
        for (uint32_t s = 0; made[f].sets != NULL && s < made[f].count; s++)
            taps_free(made[f].sets[s]); /* those taken over are NULL here */
        free(made[f].sets);
        free(made[f].place);
    }
    free(made);
}

/* A file has taps for all channels, or for each: more are taken for none of the channels they were
 * made for. More channels than taps is what (taps, channels) looks like. */
static int check_sets(const struct config_filter *filter, const struct config_stream *stream,
                      const struct made *made, struct problem *problem)
{
    const uint32_t channels = stream->source.channels, taps = made->sets[0]->count;
    if (filter->spec.type == FILTER_FK || made->count <= 1 || made->count <= channels)
        return 0;
    return problem_set(problem, ERROR_CONFIG,
                       "%s:%u: filter %s: its file has taps for %u channels (%u each), and stream "
                       "%s has %u; %s",
                       filter->place.file, filter->place.line, filter->name, made->count, taps,
                       stream->name, channels,
                       taps < made->count
                           ? "the shape of an .npy is (channels, taps): save its transpose"
                           : "save one set for all, or one for each channel");
}

/* Faders send many gains: what the log says of a filter is not repeated for each. */
static enum log_level level_of(enum log_level level, bool is_known)
{
    return is_known ? LOG_LEVEL_DEBUG : level;
}

static bool knows_filter(const struct config_stream *stream, const struct config_edge *known,
                         uint16_t filter)
{
    for (uint32_t e = 0; known != NULL && e < stream->edge_count; e++)
        if (known[e].filter == filter)
            return true;
    return false;
}

static bool knows_all(const struct config_stream *stream, const struct config_edge *known)
{
    for (uint32_t e = 0; e < stream->edge_count; e++)
        if (!knows_filter(stream, known, stream->edges[e].filter))
            return false;
    return true;
}

static int make_one(const struct config_filter *filter, const struct config_stream *stream,
                    bool is_known, struct made *made, struct problem *problem)
{
    struct filter_measure measure;
    struct filter_spec spec = config_filter_spec(filter, stream);
    int error =
        filter_make(&spec, stream->source.rate_hz, &made->sets, &made->count, &measure, problem);
    if (error < 0)
        return problem_prefix(problem, error, "%s:%u: filter %s", filter->place.file,
                              filter->place.line, filter->name);
    if (measure.warning[0] != '\0')
        log_line(level_of(LOG_LEVEL_WARNING, is_known), "filter %s: %s", filter->name,
                 measure.warning);
    assert(made->count > 0);
    error = check_sets(filter, stream, made, problem);
    if (error < 0)
        return error;
    made->place = calloc(made->count, sizeof *made->place);
    if (made->place == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for the taps of filter %s",
                           filter->name);
    return 0;
}

/* Which set of its filter an edge means. A filter of an array leads from every channel to every
 * channel; in a bank the outputs of one channel stand together. */
static uint32_t set_of(const struct config_stream *stream, const struct config_edge *edge,
                       const struct config_filter *filter, uint32_t sets)
{
    if (filter->spec.type == FILTER_FK)
        return fk_set(stream->source.channels, edge->input,
                      edge->output / (stream->output_count / stream->source.channels));
    return sets > 1 ? edge->input : 0;
}

/* Makes every filter the edges name and gives each set in use its place in out->taps. */
static int make_used(const struct config *config, const struct config_stream *stream,
                     const struct config_edge *known, struct made *made, struct stream_filters *out,
                     struct problem *problem)
{
    for (uint32_t e = 0; e < stream->edge_count; e++) {
        const struct config_edge *edge = &stream->edges[e];
        const struct config_filter *filter = &config->filters[edge->filter];
        struct made *one = &made[edge->filter];
        if (one->sets == NULL) {
            int error =
                make_one(filter, stream, knows_filter(stream, known, edge->filter), one, problem);
            if (error < 0)
                return error;
        }
        uint32_t set = set_of(stream, edge, filter, one->count);
        if (set >= one->count)
            return problem_set(
                problem, ERROR_CONFIG,
                "%s:%u: stream %s uses filter %s for channel %u, but its file has taps for "
                "%u channels; write one channel for all, or one for each",
                stream->place.file, stream->place.line, stream->name, filter->name,
                edge->input + 1u, one->count);
        if (one->place[set] == 0) {
            out->taps[out->count++] = one->sets[set];
            one->place[set] = out->count;
            one->sets[set] = NULL; /* the stream's from here on */
        }
        out->edges[e] = (struct edge){.input = edge->input,
                                      .output = edge->output,
                                      .taps = (uint16_t)(one->place[set] - 1),
                                      .gain = edge->gain};
    }
    return 0;
}

/* The same taps behind `zeros` zeros: the same filter, later by as many frames. */
static int delayed(struct taps **taps, uint32_t zeros, struct problem *problem)
{
    struct taps *from = *taps, *to;
    int error = taps_create(from->count + zeros, from->im != NULL, &to, problem);
    if (error < 0)
        return error;
    memcpy(to->re + zeros, from->re, from->count * sizeof *to->re);
    if (from->im != NULL)
        memcpy(to->im + zeros, from->im, from->count * sizeof *to->im);
    to->delay_frames = from->delay_frames + zeros;
    to->delay_source = from->delay_source;
    memcpy(to->hash, from->hash, sizeof to->hash); /* names the filter, not its place */
    taps_free(from);
    *taps = to;
    return 0;
}

static int share_delay(const struct config_stream *stream, bool is_known,
                       struct stream_filters *filters, struct problem *problem)
{
    assert(filters->count > 0 && filters->taps[0] != NULL);
    double longest = filters->taps[0]->delay_frames;
    for (uint32_t t = 1; t < filters->count; t++)
        longest = fmax(longest, filters->taps[t]->delay_frames);
    for (uint32_t t = 0; t < filters->count; t++) {
        double behind = longest - filters->taps[t]->delay_frames;
        if (behind < 1e-9)
            continue;
        if (fabs(behind - round(behind)) > 1e-9)
            return problem_set(
                problem, ERROR_CONFIG,
                "%s:%u: the filters of stream %s are delayed by %g and %g frames; all channels "
                "share one delay, so give them all an odd number of taps, or set `delay`",
                stream->place.file, stream->place.line, stream->name, longest,
                filters->taps[t]->delay_frames);
        if (behind > TAPS_MAX)
            return problem_set(
                problem, ERROR_CONFIG,
                "%s:%u: the delays of stream %s's filters differ by %g frames, more than %d; "
                "correct the `delay` of one",
                stream->place.file, stream->place.line, stream->name, behind, TAPS_MAX);
        log_line(level_of(LOG_LEVEL_NOTICE, is_known),
                 "stream %s: a filter delayed by %g frames is delayed by %g, as the longest of "
                 "the stream, "
                 "so that all outputs share one delay",
                 stream->name, filters->taps[t]->delay_frames, longest);
        int error = delayed(&filters->taps[t], (uint32_t)round(behind), problem);
        if (error < 0)
            return problem_prefix(problem, error, "stream %s", stream->name);
    }
    filters->delay_frames = longest;
    return 0;
}

static int join_hashes(struct stream_filters *filters, struct problem *problem)
{
    size_t each = TAPS_HASH_TEXT; /* 64 digits and a comma or the end */
    filters->hash = malloc(filters->count * each);
    if (filters->hash == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for the taps' hashes");
    char *at = filters->hash;
    for (uint32_t t = 0; t < filters->count; t++) {
        size_t length = strnlen(filters->taps[t]->hash, each - 1);
        memcpy(at, filters->taps[t]->hash, length);
        at += length;
        *at++ = ',';
    }
    at[-1] = '\0';
    return 0;
}

int stream_filters_make(const struct config *config, const struct config_stream *stream,
                        const struct config_edge *known, struct stream_filters *out,
                        struct problem *problem)
{
    assert(stream->edge_count > 0);
    memset(out, 0, sizeof *out);
    int error = ERROR_MEMORY;
    struct made *made = calloc(config->filter_count, sizeof *made);
    out->taps = calloc(stream->edge_count, sizeof(struct taps *));
    out->edges = calloc(stream->edge_count, sizeof *out->edges);
    if (made == NULL || out->taps == NULL || out->edges == NULL)
        problem_set(problem, ERROR_MEMORY, "no memory for the filters of stream %s", stream->name);
    else if ((error = make_used(config, stream, known, made, out, problem)) == 0 &&
             (error = share_delay(stream, knows_all(stream, known), out, problem)) == 0)
        error = join_hashes(out, problem);
    made_free(made, config->filter_count);
    if (error < 0)
        stream_filters_free(out);
    return error;
}

struct plan_spec stream_plan_spec(const struct config_stream *stream,
                                  const struct stream_filters *filters, const char *variant)
{
    return (struct plan_spec){
        .inputs = stream->source.channels,
        .format = stream->source.format,
        .scales = stream->scales,
        .taps = (const struct taps *const *)filters->taps,
        .taps_count = filters->count,
        .edges = filters->edges,
        .edge_count = stream->edge_count,
        .outputs = stream->outputs,
        .outputs_count = stream->output_count,
        .results = stream->results,
        .hop = stream->hop_frames,
        .hop_free = stream->hop_free,
        .decimate = stream->decimate,
        .blocks_max = stream->blocks_max,
        .fft = stream->fft,
        .variant = variant != NULL ? variant : stream->variant,
        .rate_hz = stream->source.rate_hz,
        .latency_ns = stream->latency_ns,
    };
}

void stream_filters_free(struct stream_filters *filters)
{
    for (uint32_t t = 0; filters->taps != NULL && t < filters->count; t++)
        taps_free(filters->taps[t]);
    free(filters->taps);
    free(filters->edges);
    free(filters->hash);
    memset(filters, 0, sizeof *filters);
}
