/*
 * Looks: the streams that somebody looks at. Each look is attached to its stream (stream/watch.h),
 * notes what was computed while results are handed on, and shows it to the viewers in the turns of
 * the loop that follow (backlog.h). See viewers.h.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control/viewers.h"
#include "control/viewers_internal.h"
#include "core/clock.h"
#include "stream/stream.h"

/* Of the loop's time, and how much of it may be saved up. */
static const double look_share = 0.04;
static const int64_t credit_most_ns = 20 * NS_PER_MS;

static const uint32_t absent_cause = UINT32_C(1) << INVALID_CAUSES;

/* ---- budgets ------------------------------------------------------------------------------- */

int64_t looks_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

static void refill(struct viewers *viewers)
{
    const int64_t now_ns = clock_monotonic_ns(), passed_ns = now_ns - viewers->credited_ns;
    struct backlog_budget *budget = &viewers->budget;
    viewers->credited_ns = now_ns;
    budget->credit_ns += (int64_t)((double)passed_ns * look_share);
    if (budget->credit_ns > credit_most_ns)
        budget->credit_ns = credit_most_ns;
    budget->credit_bytes = fmin(budget->credit_bytes + (double)passed_ns * 1e-9 * VIEWERS_BYTES_S,
                                VIEWERS_BYTES_SAVED);
}

/* ---- noting -------------------------------------------------------------------------------- */

/* A range more; past the last that fits, it covers what lies between as well. */
static void add_range(struct tap_run *run, struct tap_range range)
{
    if (run->range_count < TAP_RANGES_MAX) {
        run->ranges[run->range_count++] = range;
        return;
    }
    struct tap_range *last = &run->ranges[TAP_RANGES_MAX - 1];
    last->from = range.from < last->from ? range.from : last->from;
    last->until = range.until > last->until ? range.until : last->until;
    last->causes |= range.causes;
    last->absent = last->absent || range.absent;
}

static bool is_present(const struct ring *ring, uint64_t position)
{
    const uint32_t slot = (uint32_t)(position & (ring->frames - 1));
    return ring->present[slot / 32] >> (slot % 32) & 1;
}

/* From `position` on: how many of at most `frames` frames are as present as the first. Whole words
 * at once. */
static uint32_t same_presence(const struct ring *ring, uint64_t position, uint32_t frames,
                              bool present)
{
    uint32_t n = 0;
    while (n < frames) {
        const uint32_t slot = (uint32_t)((position + n) & (ring->frames - 1));
        const uint32_t word = ring->present[slot / 32];
        if (slot % 32 == 0 && frames - n >= 32 && word == (present ? UINT32_MAX : 0)) {
            n += 32;
            continue;
        }
        if ((word >> (slot % 32) & 1) != present)
            break;
        n++;
    }
    return n;
}

static void note_absent(const struct watched_input *input, uint32_t from, uint32_t frames,
                        struct tap_run *run)
{
    for (uint32_t n = 0; n < frames;) {
        const uint64_t position = input->position + from + n;
        const bool present = is_present(input->ring, position);
        const uint32_t count = same_presence(input->ring, position, frames - n, present);
        if (!present)
            add_range(run, (struct tap_range){n, n + count, absent_cause, true});
        n += count;
    }
}

/* The ring ends somewhere: the frames become one or two runs. */
static void on_input(void *context, const struct watched_input *input)
{
    struct look *look = context;
    const struct config_stream *config = look->pipeline->stream_config;
    for (uint32_t at = 0, count; at < input->frames; at += count) {
        const struct ring *ring = input->ring;
        const uint32_t slot = (uint32_t)((input->position + at) & (ring->frames - 1));
        const uint32_t left = input->frames - at;
        struct noted_run *noted = backlog_note(&look->backlog, true);
        count = ring->frames - slot < left ? ring->frames - slot : left;
        if (noted == NULL)
            return; /* its frame numbers tell */
        struct tap_run *run = &noted->run;
        noted->ring = ring;
        noted->position = input->position + at;
        run->samples =
            (struct extract){config->source.format, ring->bytes + (size_t)slot * ring->frame_bytes,
                             ring->frame_bytes, config->source.channels};
        run->epoch = input->epoch;
        run->record = input->record;
        run->first_frame = input->first_frame + at;
        run->frames = count;
        run->capture_ns = input->capture_ns + (int64_t)llround((double)at / input->rate_hz * 1e9);
        run->flags = (at == 0 && input->begins ? WATCH_BEGINS : 0) |
                     (at + count == input->frames && input->ends ? WATCH_ENDS : 0);
        note_absent(input, at, count, run);
    }
}

static void on_reports(void *context, const struct block_report *reports, uint32_t blocks,
                       uint32_t channels, const struct watched_input *input)
{
    struct look *look = context;
    look->epoch = input->epoch;
    look->frame = input->first_frame;
    look->capture_ns = input->capture_ns;
    for (uint32_t i = 0; i < blocks * channels; i++) {
        const struct block_report *report = &reports[i];
        struct gathered *channel = &look->levels[i % channels];
        channel->frames += report->present;
        channel->sum += (double)report->sum;
        channel->sum_squares += (double)report->sum_squares;
        channel->overloads += report->overload;
        if (report->peak > channel->peak)
            channel->peak = report->peak;
    }
}

static void on_result(void *context, const struct result *result, const struct batch *batch)
{
    static const struct sample_format native = {SAMPLE_FLOAT, 4, 32,
                                                __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__, false};
    struct look *look = context;
    struct noted_run *noted = backlog_note(&look->backlog, false);
    if (noted == NULL)
        return;
    const bool wire = result->wire != NULL;
    const struct sample_format format = wire ? result->wire_format.format : native;
    struct tap_run *run = &noted->run;
    noted->batch = batch;
    run->samples = (struct extract){format, wire ? result->wire : (const uint8_t *)result->samples,
                                    (size_t)result->channels * format.bytes, result->channels};
    run->epoch = result->epoch;
    run->record = result->record;
    run->first_frame = result->first_frame;
    run->frames = result->frames;
    run->capture_ns = result->capture_ns;
    run->latency_ns = result->delivered_ns - result->last_receive_ns;
    run->flags = (result->flags & RESULT_EPOCH_START ? WATCH_BEGINS : 0) |
                 (result->flags & RESULT_EPOCH_END ? WATCH_ENDS : 0);
    for (uint32_t i = 0; i < result->invalid_count; i++) {
        const struct invalid_range *range = &result->invalid[i];
        const uint64_t first = result->first_frame, end = first + result->frames;
        if (range->from >= end || range->until <= first)
            continue; /* what was shed before */
        add_range(run,
                  (struct tap_range){(uint32_t)(range->from > first ? range->from - first : 0),
                                     (uint32_t)((range->until < end ? range->until : end) - first),
                                     UINT32_C(1) << range->cause, false});
    }
}

/* ---- showing ------------------------------------------------------------------------------- */

static bool holds(void *context, const struct noted_run *noted, uint32_t from)
{
    const struct look *look = context;
    return stream_watch_holds(look->pipeline->stream, noted->ring, noted->position + from);
}

static bool on_show(void *context)
{
    struct look *look = context;
    struct viewers *viewers = look->viewers;
    if (pthread_mutex_trylock(&viewers->writing) != 0)
        return true; /* the stream of another loop is shown: in the next turn */
    refill(viewers);
    const bool more = backlog_turn(&look->backlog, &viewers->budget);
    pthread_mutex_unlock(&viewers->writing);
    return more;
}

static bool on_keeps(void *context, const struct batch *batch)
{
    return backlog_keeps(&((const struct look *)context)->backlog, batch);
}

static void on_forget(void *context, const struct batch *batch)
{
    backlog_forget(&((struct look *)context)->backlog, batch);
}

/* ---- levels -------------------------------------------------------------------------------- */

static void write_levels(const struct look *look, struct viewer *viewer)
{
    enum { MOST = WATCH_FLOATS_MAX / WATCH_LEVEL_FLOATS };
    struct watch_head head = {.epoch = look->epoch,
                              .first_frame = look->frame,
                              .capture_ns = look->capture_ns,
                              .rate_hz = look->pipeline->stream_config->source.rate_hz,
                              .kind = WATCH_LEVELS,
                              .flags = WATCH_INPUT,
                              .points = 1,
                              .frames_per_point = 1,
                              .request = viewer->request};
    strncpy(head.stream, look->pipeline->stream_config->name, sizeof head.stream - 1);
    for (uint32_t first = 0; first < look->channels; first += MOST) {
        head.first_channel = first;
        head.channels = look->channels - first < MOST ? look->channels - first : MOST;
        float *out = watch_writer_begin(&viewer->writer);
        for (uint32_t c = 0; c < head.channels; c++) {
            const struct gathered *channel = &look->levels[first + c];
            *out++ = (float)channel->frames;
            *out++ = (float)channel->sum;
            *out++ = (float)channel->sum_squares;
            *out++ = channel->peak;
            *out++ = (float)channel->overloads;
        }
        watch_writer_end(&viewer->writer, &head, NULL);
    }
}

void looks_tick(struct viewers *viewers)
{
    for (struct look *look = viewers->looks; look != NULL; look = look->next) {
        bool any = false;
        for (uint32_t c = 0; c < look->channels; c++)
            any = any || look->levels[c].frames > 0;
        for (uint32_t v = 0; any && v < VIEWERS_MAX; v++)
            if (viewers->all[v].owner != NULL && viewers->all[v].levels)
                write_levels(look, &viewers->all[v]);
        memset(look->levels, 0, look->channels * sizeof *look->levels);
        for (int side = 0; side < 2; side++)
            if (look->backlog.sides[side].tap != NULL)
                tap_flush(look->backlog.sides[side].tap);
    }
}

/* ---- attaching ----------------------------------------------------------------------------- */

/* The scale of each channel of the side. NULL: out of memory. */
static struct tap *open_tap(const struct pipeline *pipeline, bool input)
{
    const struct config_stream *config = pipeline->stream_config;
    const uint32_t channels =
        input ? config->source.channels : plan_info(pipeline->plan)->output_floats;
    double *factor = calloc(2 * (size_t)channels, sizeof *factor);
    struct tap *tap = NULL;
    if (factor == NULL)
        return NULL;
    double *offset = factor + channels;
    const double results = config->results.factor != 0 ? config->results.factor : 1;
    for (uint32_t c = 0; c < channels; c++) {
        factor[c] = input ? channel_scale_factor(&config->scales[c]) : 1 / results;
        offset[c] = input ? config->scales[c].offset : 0;
    }
    const struct tap_options options = {
        .stream = config->name,
        .input = input,
        .rate_hz = input ? config->source.rate_hz : config->output_rate_hz,
        .channels = channels,
        .factor = factor,
        .offset = offset,
    };
    (void)tap_open(&options, &tap);
    free(factor);
    return tap;
}

/* Lets the viewer see this side of the look's stream, if there is memory for it. */
static void add_seen(struct look *look, struct viewer *viewer, struct seen *seen)
{
    struct tap **tap = &look->backlog.sides[seen->input].tap;
    struct tap_viewer wants = {.writer = &viewer->writer,
                               .request = viewer->request,
                               .minmax = seen->minmax,
                               .list_count = seen->list_count};
    memcpy(wants.list, seen->list, sizeof wants.list);
    if (*tap == NULL)
        *tap = open_tap(look->pipeline, seen->input);
    seen->found = *tap != NULL && tap_add(*tap, &wants) == 0;
}

/* Whether anybody wants to see this stream; what they see of it becomes part of the look. */
static bool is_wanted(struct viewers *viewers, struct look *look)
{
    const char *name = look->pipeline->stream_config->name;
    bool wanted = false;
    for (uint32_t v = 0; v < VIEWERS_MAX; v++) {
        struct viewer *viewer = &viewers->all[v];
        if (viewer->owner == NULL)
            continue;
        wanted = wanted || viewer->levels;
        for (uint32_t i = 0; i < viewer->seen_count; i++) {
            struct seen *seen = &viewer->seen[i];
            if (strcmp(seen->stream, name) != 0)
                continue;
            add_seen(look, viewer, seen);
            wanted = wanted || seen->found;
        }
    }
    return wanted;
}

static void free_look(struct look *look)
{
    tap_close(look->backlog.sides[false].tap);
    tap_close(look->backlog.sides[true].tap);
    free(look->levels);
    free(look);
}

static void attach(struct viewers *viewers, struct pipeline *pipeline)
{
    const uint32_t channels = pipeline->stream_config->source.channels;
    struct look *look = calloc(1, sizeof *look);
    if (look == NULL)
        return;
    look->viewers = viewers;
    look->pipeline = pipeline;
    look->channels = channels;
    look->levels = calloc(channels, sizeof *look->levels);
    look->backlog.holds = holds;
    look->backlog.context = look;
    if (look->levels == NULL || !is_wanted(viewers, look)) {
        free_look(look);
        return;
    }
    look->watch =
        (struct stream_watch){look, on_input, on_reports, on_result, on_show, on_keeps, on_forget};
    look->next = viewers->looks;
    viewers->looks = look;
    stream_watch(pipeline->stream, &look->watch);
}

void looks_drop(struct viewers *viewers)
{
    struct look *look;
    while ((look = viewers->looks) != NULL) {
        viewers->looks = look->next;
        /* One that a reload has freed is not touched. */
        if (pipelines_hold(viewers->process->pipelines, look->pipeline))
            stream_watch(look->pipeline->stream, NULL);
        free_look(look);
    }
    for (uint32_t v = 0; v < VIEWERS_MAX; v++) {
        struct viewer *viewer = &viewers->all[v];
        for (uint32_t s = 0; s < viewer->seen_count; s++)
            viewer->seen[s].found = false;
    }
}

void looks_make(struct viewers *viewers)
{
    const struct pipelines *pipelines = viewers->process->pipelines;
    struct pipeline *pipeline;
    looks_drop(viewers);
    viewers->version = pipelines_version(pipelines);
    if (viewers->count == 0 || !viewers->process->connected)
        return;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_RUNNING, &at)) != NULL;)
        if (pipeline->stream != NULL)
            attach(viewers, pipeline);
}
