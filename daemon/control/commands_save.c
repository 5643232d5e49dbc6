/*
 * The command `save`: what was changed while the daemon ran, as a fragment of the configuration.
 * Filters and gains become `filter` or `route` keys of their streams, with the factors in use to
 * the last bit, a noise floor that was measured becomes `noise floor`, and recordings that commands
 * have started or stopped get a `start`: a restart with the fragment gives the same state. The
 * daemon writes no file: whoever asked does, with his own rights, once the fragment is proven
 * (config_load_with).
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/alarms.h"
#include "control/commands_internal.h"

enum { FLOORS_TEXT = 3800 }; /* a line of the configuration holds 4000 bytes */

/* ---- filters and gains ------------------------------------------------------------------- */

/* Whether the edges are those of the configuration. */
static bool as_configured(const struct config_stream *stream, const struct config_edge *edges)
{
    for (uint32_t e = 0; edges != NULL && e < stream->edge_count; e++)
        if (edges[e].filter != stream->edges[e].filter || edges[e].gain != stream->edges[e].gain)
            return false;
    return true;
}

/* One filter for every channel, each to the output of its number: `filter = NAME` says all. */
static bool is_one_filter(const struct config_stream *stream, const struct config_edge *edges)
{
    for (uint32_t e = 0; e < stream->edge_count; e++)
        if (edges[e].input != e || edges[e].output != e || edges[e].gain != 1 ||
            edges[e].filter != edges[0].filter)
            return false;
    return stream->edge_count == stream->source.channels;
}

static bool has_array(const struct pipeline *pipeline, const struct config_edge *edges)
{
    for (uint32_t e = 0; e < pipeline->stream_config->edge_count; e++)
        if (pipeline->config->filters[edges[e].filter].spec.type == FILTER_FK)
            return true;
    return false;
}

static void print_edges(const struct pipeline *pipeline, const struct config_edge *edges, FILE *out)
{
    const struct config_stream *stream = pipeline->stream_config;
    const struct config_filter *filters = pipeline->config->filters;
    if (has_array(pipeline, edges)) {
        fprintf(out,
                "; stream %s: gains beside a filter of an array (fk) have no key, and are not "
                "saved\n",
                stream->name);
        return;
    }
    if (is_one_filter(stream, edges)) {
        fprintf(out, "bank =\nroute =\nfilter = %s\n", filters[edges[0].filter].name);
        return;
    }
    fprintf(out, "filter =\nbank =\n");
    for (uint32_t e = 0; e < stream->edge_count; e++)
        fprintf(out, "route = %u -> %s %.9g -> %u\n", edges[e].input + 1u,
                filters[edges[e].filter].name, (double)edges[e].gain, edges[e].output + 1u);
}

/* ---- noise floors ------------------------------------------------------------------------ */

/* The value of `noise floor`: one number, where all channels have the same, or one for each. False:
 * it does not fit into a line. */
static bool floors_text(const double *levels, const struct channel_scale *scales, uint32_t channels,
                        char text[FLOORS_TEXT])
{
    bool same = true;
    for (uint32_t c = 1; c < channels; c++)
        same = same && levels[c] == levels[0] && strcmp(scales[c].unit, scales[0].unit) == 0;
    size_t used = 0;
    for (uint32_t c = 0; c < (same ? 1 : channels); c++) {
        const char *unit = level_unit(scales[c].unit);
        used += (size_t)snprintf(text + used, FLOORS_TEXT - used, "%s%.6g%s%s", c > 0 ? ", " : "",
                                 levels[c], unit[0] != '\0' ? " " : "", unit);
        if (used >= FLOORS_TEXT)
            return false;
    }
    return true;
}

static void print_floors(const struct pipeline *pipeline, const double *levels, uint32_t channels,
                         FILE *out)
{
    char text[FLOORS_TEXT];
    if (channels != pipeline->stream_config->source.channels)
        return; /* measured before a reload */
    if (floors_text(levels, pipeline->stream_config->scales, channels, text))
        fprintf(out, "noise floor = %s\n", text);
    else
        fprintf(out,
                "; stream %s: the noise floors of %u channels do not fit into a line, and are "
                "not saved\n",
                pipeline->stream_config->name, channels);
}

/* ---- all --------------------------------------------------------------------------------- */

/* Sinks that commands have changed; how many. */
static unsigned print_sinks(const struct pipeline *pipeline, FILE *out)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < pipeline->sink_count; i++) {
        const struct pipeline_sink *sink = &pipeline->sinks[i];
        const char *lines =
            sink->sink != NULL && sink->ops->saved != NULL ? sink->ops->saved(sink->sink) : NULL;
        if (lines == NULL)
            continue;
        fprintf(out, "\n[sink %s]\n%s", sink->config->name, lines);
        count++;
    }
    return count;
}

/* True: something of it was changed. */
static bool print_stream(const struct commands *commands, const struct pipeline *pipeline,
                         FILE *out)
{
    const struct config_stream *stream = pipeline->stream_config;
    const struct config_edge *edges = changes_edges(commands->changes, pipeline);
    const bool changed = !as_configured(stream, edges);
    uint32_t channels = 0;
    const struct alarms *alarms = commands->process->alarms;
    const double *floors =
        alarms != NULL ? alarms_measured_noise(alarms, stream->name, &channels) : NULL;
    if (changed || floors != NULL)
        fprintf(out, "\n[stream %s]\n", stream->name);
    if (changed)
        print_edges(pipeline, edges, out);
    if (floors != NULL)
        print_floors(pipeline, floors, channels, out);
    return print_sinks(pipeline, out) > 0 || changed || floors != NULL;
}

/* From the root on, without a look at the file system, which may hang. */
static const char *whole_path(const char *path, char whole[2 * PATH_MAX])
{
    char folder[PATH_MAX];
    if (path[0] == '/' || getcwd(folder, sizeof folder) == NULL)
        return path;
    snprintf(whole, 2 * PATH_MAX, "%s/%s", folder, path);
    return whole;
}

json_t *handle_save(struct call *call, const json_t *request)
{
    const struct process *process = call->commands->process;
    struct pipeline *pipeline;
    char *text = NULL, path[2 * PATH_MAX];
    size_t bytes;
    json_t *streams = json_array();
    FILE *out = open_memstream(&text, &bytes);
    (void)request;
    if (out == NULL) {
        json_decref(streams);
        return commands_failure("failed", "out of memory");
    }
    fprintf(out, "; What was changed while convolvd ran, beside %s.\n", process->config->path);
    for (uint32_t at = 0;
         (pipeline = pipelines_next(process->pipelines, PIPELINES_RUNNING, &at)) != NULL;) {
        if (print_stream(call->commands, pipeline, out))
            json_array_append_new(streams, json_string(pipeline->stream_config->name));
    }
    fclose(out);
    json_t *answer = json_pack("{s:b, s:s, s:s, s:o}", "ok", 1, "fragment", text, "config",
                               whole_path(process->config->path, path), "streams", streams);
    free(text);
    return answer;
}
