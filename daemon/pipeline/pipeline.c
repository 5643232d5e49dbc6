/* Pipeline: a stream with its source, plan and sinks; see pipeline.h. */
#include "pipeline/pipeline.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/log.h"
#include "pipeline/direct.h"
#include "pipeline/heritage.h"
#include "pipeline/job.h"
#include "pipeline/loopback.h"
#include "pipeline/stream_filters.h"
#include "signal/decimation.h"
#include "stream/ring_size.h"

static const struct pipeline *root_of(const struct pipeline *pipeline)
{
    while (pipeline->upstream != NULL)
        pipeline = pipeline->upstream;
    return pipeline;
}

static bool in_records(const struct pipeline *pipeline)
{
    return root_of(pipeline)->stream_config->source.mode == MODE_RECORD;
}

/* ---- what the source calls --------------------------------------------------------------- */

static enum verdict host_put(void *context, const struct packet *packet)
{
    struct pipeline *pipeline = context;
    enum verdict verdict = VERDICT_ACCEPTED;
    if (packet->frames > 0)
        verdict = stream_put(pipeline->stream, packet);
    else
        stream_end_at(pipeline->stream, packet);
    scheduler_kick(pipeline->scheduler);
    return verdict;
}

static int64_t host_may_read_ns(void *context)
{
    const struct pipeline *pipeline = context;
    return scheduler_may_read_ns(pipeline->scheduler, pipeline->stream);
}

static void host_has_read(void *context, int64_t ns)
{
    const struct pipeline *pipeline = context;
    scheduler_has_read(pipeline->scheduler, pipeline->stream, ns);
}

static uint64_t host_room(void *context)
{
    return stream_room(((const struct pipeline *)context)->stream);
}

static uint8_t *host_vacant(void *context, uint64_t first_frame, uint64_t *frames)
{
    return stream_vacant(((const struct pipeline *)context)->stream, first_frame, frames);
}

static void host_ended(void *context)
{
    struct pipeline *pipeline = context;
    if (pipeline->ended)
        return;
    pipeline->ended = true;
    stream_end(pipeline->stream);
    scheduler_kick(pipeline->scheduler);
    pipeline->changed(pipeline->context);
}

static void host_socket_drops(void *context, uint64_t datagrams)
{
    stream_socket_drops(((struct pipeline *)context)->stream, datagrams);
}

static void host_lost(void *context, uint64_t frames, enum invalid_cause cause)
{
    stream_lost(((struct pipeline *)context)->stream, frames, cause);
}

static void host_unsent(void *context, uint64_t from, uint64_t until)
{
    stream_unsent(((struct pipeline *)context)->stream, from, until);
}

static void host_cut(void *context, const struct source_cut *cut)
{
    struct pipeline *pipeline = context;
    const uint32_t decimate = pipeline->stream_config->decimate;
    event_raise(&(struct event_subject){.kind = EVENT_LOSS,
                                        .severity = LOG_LEVEL_ERROR,
                                        .stream = pipeline->stream_config->name,
                                        .framed = true,
                                        .epoch = stream_next_epoch(pipeline->stream),
                                        .frame = cut->first / (decimate > 1 ? decimate : 1)},
                "%s", cut->sentence);
    pipeline->cut = *cut;
}

/* ---- what the stream calls --------------------------------------------------------------- */

static void sink_flush(void *context)
{
    struct pipeline_sink *sink = context;
    if (sink->sink != NULL && !sink->closing)
        sink->ops->flush(sink->sink);
}

static uint64_t sink_room(void *context)
{
    const struct pipeline_sink *sink = context;
    return sink->sink != NULL && !sink->closing ? sink->ops->room(sink->sink) : UINT64_MAX;
}

static void sink_room_again(void *context)
{
    const struct pipeline_sink *sink = context;
    struct pipeline *pipeline = sink->pipeline;
    if (pipeline->scheduled)
        scheduler_kick(pipeline->scheduler);
    /* The source puts raw input into its sinks itself: it can go on without a completed batch. */
    if (sink->options.raw)
        pipeline_resume(pipeline);
}

/* The sink cannot deliver any more. The owner decides whether the stream goes on without it. */
static void sink_ended(void *context)
{
    struct pipeline_sink *sink = context;
    sink->ended = true;
    sink->pipeline->changed(sink->pipeline->context);
}

static void chain_put(void *context, const struct result *result)
{
    struct pipeline *pipeline = context;
    struct packet packet = chain_packet(&pipeline->chain, result, clock_offset_ns());
    packet.saturated_count = pipeline_saturated(pipeline->upstream, result, &packet.saturated);
    if (result->frames > 0 || result->flags & RESULT_EPOCH_END)
        (void)host_put(pipeline, &packet);
}

static uint64_t chain_room(void *context)
{
    const struct pipeline *pipeline = context;
    return stream_room(pipeline->stream);
}

/* ---- prepare: worker thread -------------------------------------------------------------- */

static int prepare_stream(struct pipeline *pipeline, struct problem *problem)
{
    const struct config_stream *config = pipeline->stream_config;
    const struct pipeline *upstream = pipeline->upstream;
    struct stream_options options = {
        .name = config->name,
        .rate_hz = config->source.rate_hz,
        .channels = config->source.channels,
        .format = config->source.format,
        .frame_bytes = config->source.frame_bytes,
        .live = config->live,
        .priority = config->priority,
        .records = in_records(pipeline),
        .converter = config->converter,
        .full_scale = config->full_scale,
        .scales = upstream == NULL ? config->scales : NULL,
        .tail = config->tail,
        .align = config->align,
        .delay_frames = pipeline->delay_frames,
        .upstream_delay_frames = pipeline->upstream_delay_frames,
        .reorder_ns = upstream != NULL ? 0 : config->source.reorder_ns,
        .max_gap_ns = config->source.max_gap_ns,
        .idle_flush_ns = upstream == NULL && config->driver->exact ? 0 : config->idle_flush_ns,
        .deadline_ns = config->deadline_ns,
        .blocks_in_flight = engine_batches(pipeline->engine) + config->blocks_max,
        .filters = pipeline->recipe != NULL ? recipe_digest(pipeline->recipe) : NULL,
    };
    if (config->ring_frames > 0) { /* `buffer` is set: never less than the plan needs */
        const struct ring_need need = ring_need_of(&options, plan_info(pipeline->plan));
        const uint64_t least = ring_size_least(&need);
        options.ring_frames_min = config->ring_frames > least ? config->ring_frames : least;
    }
    return stream_open(pipeline->engine, &options, pipeline->plan, &pipeline->stream, problem);
}

static struct engine *engine_now(void *context)
{
    return ((const struct pipeline *)context)->engine;
}

/* Computes a block of the stream again from time to time. */
static int prepare_self_check(struct pipeline *pipeline, struct problem *problem)
{
    const int64_t interval_ns = pipeline->config->device.self_check_ns;
    if (interval_ns == 0)
        return 0;
    const struct self_check_options options = {.stream = pipeline->stream_config->name,
                                               .interval_ns = interval_ns,
                                               .engine = engine_now,
                                               .context = pipeline};
    int error = self_check_open(pipeline->checks, &options, &pipeline->self_check, problem);
    if (error == 0)
        stream_inspect(pipeline->stream, self_check_inspect, pipeline->self_check);
    return error;
}

/* Allocates the driver's status, if it has one. */
static int prepare_status(const struct driver_status *driver, void **status,
                          struct problem *problem)
{
    *status = driver != NULL ? calloc(1, driver->bytes) : NULL;
    return driver == NULL || *status != NULL ? 0
                                             : problem_set(problem, ERROR_MEMORY, "out of memory");
}

static int prepare_sink(struct pipeline *pipeline, struct pipeline_sink *sink,
                        struct problem *problem)
{
    const struct config_stream *config = pipeline->stream_config;
    const struct plan_info *info = plan_info(pipeline->plan);
    const struct device_info *device = engine_device(pipeline->engine);
    sink->ops = sink->config->driver;
    sink->options = sink->config->options;
    sink->options.stream = (struct sink_stream){
        .name = config->name,
        .rate_hz = config->output_rate_hz,
        .decimate = config->decimate_total,
        .channels = info->output_floats,
        .units = config->units,
        .delay_frames = decimation_delay_frames(
            config->decimate, pipeline->delay_frames + pipeline->upstream_delay_frames),
        .aligned = config->align,
        .taps_longest = info->taps_longest,
        .taps_hash = pipeline->taps_hash,
        .config_hash = pipeline->config->hash,
        .device = device->name,
        .driver = device->driver,
        .loss_detectable = config->loss_detectable,
        .input_format = config->source.format,
        .input_channels = config->source.channels,
        .input_rate_hz = config->source.rate_hz,
        .input_max_gap_ns = config->source.max_gap_ns,
        .input_scales = config->scales,
        .excitation = excitation_decimated(config->source.excitation, config->decimate),
        .input_excitation = config->source.excitation,
    };
    if (pipeline->direct != NULL && sink->options.own == config->source.own)
        sink->options.own = pipeline->direct;
    sink->options.room_again = sink_room_again;
    sink->options.ended = sink_ended;
    sink->options.room_context = sink;
    pipeline_sink_hosts(pipeline, &sink->options);
    sink->options.identity = heritage_sink(pipeline->heritage, sink->config->name);
    sink->options.block_bytes =
        info->hop *
        (sink->options.raw ? config->source.frame_bytes : info->output_floats * sizeof(float));
    int error = prepare_status(sink->ops->status, &sink->status, problem);
    if (error == 0)
        error = sink->ops->open(&sink->options, &pipeline->environment, &sink->sink, problem);
    sink->options.identity = NULL;
    if (error < 0)
        problem_prefix(problem, error, "%s:%u: sink %s", sink->config->place.file,
                       sink->config->place.line, sink->config->name);
    return error;
}

static int prepare_sinks(struct pipeline *pipeline, struct problem *problem)
{
    const struct config *config = pipeline->config;
    pipeline->sinks =
        calloc(config->sink_count > 0 ? config->sink_count : 1, sizeof *pipeline->sinks);
    if (pipeline->sinks == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for the sinks");
    for (uint32_t i = 0; i < config->sink_count; i++) {
        if (&config->streams[config->sinks[i].stream] != pipeline->stream_config)
            continue;
        struct pipeline_sink *sink = &pipeline->sinks[pipeline->sink_count++];
        *sink = (struct pipeline_sink){.config = &config->sinks[i], .pipeline = pipeline};
        int error = prepare_sink(pipeline, sink, problem);
        if (error < 0)
            return error;
    }
    return 0;
}

static int prepare_source(struct pipeline *pipeline, struct problem *problem)
{
    const struct config_stream *config = pipeline->stream_config;
    if (pipeline->upstream != NULL)
        return 0;
    const struct source_host host = {.context = pipeline,
                                     .put = host_put,
                                     .room = host_room,
                                     .vacant = host_vacant,
                                     .ended = host_ended,
                                     .socket_drops = host_socket_drops,
                                     .lost = host_lost,
                                     .unsent = host_unsent,
                                     .cut = host_cut,
                                     .mark = pipeline_replay_mark,
                                     .may_read_ns = host_may_read_ns,
                                     .has_read = host_has_read,
                                     .epoch = pipeline_epoch,
                                     .plan = pipeline_source_plan};
    pipeline->source_ops = config->driver;
    const struct source_options *options = &config->source;
    if (pipeline->direct != NULL) {
        pipeline->direct_source = config->source;
        pipeline->direct_source.own = pipeline->direct;
        options = &pipeline->direct_source;
    }
    int error = prepare_status(pipeline->source_ops->status, &pipeline->source_status, problem);
    if (error == 0)
        error = pipeline->source_ops->open(options, &pipeline->environment, &host,
                                           &pipeline->source, problem);
    if (error < 0)
        problem_prefix(problem, error, "%s:%u: stream %s", config->place.file, config->place.line,
                       config->name);
    return error;
}

/* Begins a step of the job that prepares it. ERROR_CLOSED: the job was left behind, and touches
 * nothing any more that others have. */
static int step(const struct pipeline *pipeline, const char *what, struct problem *problem)
{
    return job_step(pipeline->job, pipeline->stream_config->name, what, NULL)
               ? 0
               : problem_set(problem, ERROR_CLOSED, "it was left behind");
}

/* The plan, unless `plan` has one already, and the stream with its ring, on the device in use. */
static int prepare_here(struct pipeline *pipeline, struct plan *plan, struct problem *problem)
{
    const struct plan_terms terms = pipeline_plan_terms(pipeline, pipeline->job);
    int error = pipeline_make_plan(&terms, pipeline->stream_config, &plan, &pipeline->delay_frames,
                                   &pipeline->taps_hash, &pipeline->recipe, problem);
    pipeline->plan = plan;
    if (error < 0 || (error = step(pipeline, "its input ring is made", problem)) < 0)
        return error;
    return prepare_stream(pipeline, problem);
}

/* On the device it was placed on, or on one that stands by if that one fails. A device that fails
 * before anything runs on it is lost. */
static int prepare_somewhere(struct pipeline *pipeline, struct problem *problem)
{
    struct plan *plan = pipeline->placement_plan;
    pipeline->placement_plan = NULL;
    int error = prepare_here(pipeline, plan, problem);
    for (uint32_t i = 0; error == ERROR_DEVICE && i < pipeline->choice_count; i++) {
        struct placement *next = pipeline->choices[i];
        if (next == pipeline->placement || engine_lost(next->engine) != ENGINE_WORKS)
            continue;
        log_warning("%s; it starts on device %d (%s)", problem->text, next->index,
                    engine_device(next->engine)->name);
        if (pipeline->placement->scheduler == NULL)
            engine_declare_lost(pipeline->engine, ENGINE_LOSS_FAILED, "it failed at the start");
        plan_close(pipeline->plan);
        recipe_drop(pipeline->recipe);
        free(pipeline->taps_hash);
        pipeline->plan = NULL;
        pipeline->recipe = NULL;
        pipeline->taps_hash = NULL;
        pipeline->placement = next;
        pipeline->engine = next->engine;
        error = prepare_here(pipeline, NULL, problem);
    }
    return error;
}

int pipeline_prepare(struct pipeline *pipeline, struct problem *problem)
{
    int error;
    pipeline->told_channels =
        calloc(pipeline->stream_config->source.channels, sizeof *pipeline->told_channels);
    if (pipeline->told_channels == NULL)
        return problem_set(problem, ERROR_MEMORY, "stream %s: out of memory",
                           pipeline->stream_config->name);
    pipeline->chain.records = in_records(pipeline);
    const struct pipeline *upstream = pipeline->upstream;
    if (upstream != NULL)
        pipeline->upstream_delay_frames =
            decimation_inherited_frames(upstream->stream_config->decimate,
                                        upstream->delay_frames + upstream->upstream_delay_frames,
                                        upstream->stream_config->align);
    if (upstream == NULL) {
        pipeline->round_trip_frames =
            loopback_declared(pipeline->stream_config, pipeline->config->device.cache_dir);
        pipeline->upstream_delay_frames = (double)pipeline->round_trip_frames;
    }
    if ((error = prepare_somewhere(pipeline, problem)) < 0 ||
        (error = prepare_self_check(pipeline, problem)) < 0 ||
        (error = step(pipeline, "its filters are read or designed", problem)) < 0 ||
        (error = direct_prepare(pipeline->config, pipeline->stream_config, NULL, &pipeline->direct,
                                problem)) < 0)
        return error;
    pipeline->direct_only =
        pipeline->direct != NULL && direct_only(pipeline->config, pipeline->stream_config);
    if ((error = step(pipeline, "its sinks are opened", problem)) < 0 ||
        (error = prepare_sinks(pipeline, problem)) < 0 ||
        (error = pipeline_prepare_analyses(pipeline, problem)) < 0 ||
        (error = step(pipeline, "its source is opened", problem)) < 0 ||
        (error = prepare_source(pipeline, problem)) < 0)
        return error;
    return step(pipeline, NULL, problem);
}

/* ---- run: loop thread -------------------------------------------------------------------- */

static int connect_port(struct pipeline *pipeline, const struct result_port *port,
                        struct problem *problem)
{
    if (stream_add_port(pipeline->stream, port) == 0)
        return 0;
    const struct config_stream *config = pipeline->stream_config;
    return problem_set(
        problem, ERROR_LIMIT,
        "%s:%u: stream %s has too many sinks and streams that read it; give it at most 16",
        config->place.file, config->place.line, config->name);
}

static int at_stream(const struct pipeline *pipeline, int error, struct problem *problem)
{
    const struct config_stream *config = pipeline->stream_config;
    return problem_prefix(problem, error, "%s:%u: stream %s", config->place.file,
                          config->place.line, config->name);
}

int pipeline_connect(struct pipeline *pipeline, struct problem *problem)
{
    struct scheduler *scheduler = pipeline->placement->scheduler;
    bool live = pipeline->stream_config->live;
    pipeline->scheduler = scheduler;
    for (uint32_t i = 0; i < 2 * pipeline->sink_count; i++) {
        const bool keeps = i >= pipeline->sink_count; /* a keeper gets what the others have had */
        struct pipeline_sink *sink = &pipeline->sinks[keeps ? i - pipeline->sink_count : i];
        if ((sink->ops->keeper != NULL) != keeps)
            continue;
        struct result_port port = {
            .context = sink,
            .put = pipeline_sink_put,
            .flush = sink->ops->flush != NULL ? sink_flush : NULL,
            /* A source that can wait waits for room; else the sink drops and counts. */
            .room = live || sink->ops->room == NULL ? NULL : sink_room,
            .raw = sink->options.raw,
        };
        int error = connect_port(pipeline, &port, problem);
        if (error < 0)
            return error;
    }
    if (pipeline->upstream != NULL) {
        struct result_port port = {
            .context = pipeline, .put = chain_put, .room = live ? NULL : chain_room};
        int error = connect_port(pipeline->upstream, &port, problem);
        if (error < 0)
            return error;
    }
    int error = pipeline_connect_analyses(pipeline, problem);
    if (error < 0)
        return error;
    error = scheduler_add(scheduler, pipeline->stream);
    if (error < 0)
        return problem_set(problem, error, "stream %s: the scheduler takes no more streams",
                           pipeline->stream_config->name);
    pipeline->scheduled = true;
    if (pipeline->source == NULL || pipeline->source_ops->arm == NULL)
        return 0;
    error = pipeline->source_ops->arm(pipeline->source, problem);
    return error < 0 ? at_stream(pipeline, error, problem) : 0;
}

int pipeline_start(struct pipeline *pipeline, struct problem *problem)
{
    pipeline_start_sinks(pipeline);
    return pipeline_start_source(pipeline, problem);
}

void pipeline_start_sinks(struct pipeline *pipeline)
{
    for (uint32_t i = 0; i < pipeline->sink_count; i++)
        if (pipeline->sinks[i].sink != NULL && pipeline->sinks[i].ops->start != NULL)
            pipeline->sinks[i].ops->start(pipeline->sinks[i].sink);
}

int pipeline_start_source(struct pipeline *pipeline, struct problem *problem)
{
    const struct config_stream *config = pipeline->stream_config;
    if (pipeline->source == NULL)
        return 0;
    int error = pipeline->source_ops->start(pipeline->source, problem);
    if (error < 0)
        return at_stream(pipeline, error, problem);
    pipeline->source_started = true;
    if (pipeline->source_ops->port != NULL && pipeline->source_ops->port(pipeline->source) != 0)
        log_info("stream %s: receiving on port %u", config->name,
                 pipeline->source_ops->port(pipeline->source));
    return 0;
}

void pipeline_disconnect(struct pipeline *pipeline)
{
    if (pipeline->upstream != NULL)
        stream_remove_port(pipeline->upstream->stream, pipeline);
}

void pipeline_resume(struct pipeline *pipeline)
{
    if (pipeline->source_started && !pipeline->ended && pipeline->source_ops->resume != NULL)
        pipeline->source_ops->resume(pipeline->source);
}

void pipeline_pause(struct pipeline *pipeline)
{
    if (pipeline->source_started) {
        pipeline->source_started = false;
        pipeline->source_ops->stop(pipeline->source);
    }
}

bool pipeline_progress(const struct pipeline *pipeline, uint64_t *done, uint64_t *all)
{
    return pipeline->source != NULL && pipeline->source_ops->progress != NULL &&
           pipeline->source_ops->progress(pipeline->source, done, all);
}

/* The source was stopped. */
static void note_interruption(struct pipeline *pipeline)
{
    uint64_t done, all;
    if (!pipeline_progress(pipeline, &done, &all))
        return;
    pipeline->interrupted = true;
    if (done > 0)
        log_warning("stream %s: interrupted; the last frame read is %" PRIu64 " of %" PRIu64,
                    pipeline->stream_config->name, done - 1, all);
    else
        log_warning("stream %s: interrupted before its first frame", pipeline->stream_config->name);
}

void pipeline_stop(struct pipeline *pipeline)
{
    pipeline_pause(pipeline);
    if (pipeline->ended || pipeline->stream == NULL)
        return;
    note_interruption(pipeline);
    pipeline->ended = true;
    stream_end(pipeline->stream);
    if (pipeline->scheduled)
        scheduler_kick(pipeline->scheduler);
}

bool pipeline_drained(const struct pipeline *pipeline)
{
    if (!pipeline->ended || (pipeline->stream != NULL && !stream_drained(pipeline->stream)))
        return false;
    for (uint32_t i = 0; i < pipeline->sink_count; i++) {
        const struct pipeline_sink *sink = &pipeline->sinks[i];
        struct sink_ledger ledger = {0};
        if (sink->sink == NULL || sink->closing || !sink->ops->drains)
            continue;
        sink->ops->ledger(sink->sink, &ledger);
        if (ledger.pending > 0)
            return false;
    }
    return pipeline->stream_config->live || pipeline_analyses_idle(pipeline);
}

/* ---- close: loop thread ------------------------------------------------------------------ */

void pipeline_log_cut(const struct pipeline_sink *sink)
{
    struct sink_ledger ledger = sink->ledger;
    if (sink->sink != NULL)
        sink->ops->ledger(sink->sink, &ledger);
    const uint64_t cut = ledger.dropped[DROP_STOPPED] - sink->stopped + ledger.pending;
    if (sink->closing && cut > 0)
        log_warning("sink %s: %" PRIu64 " frames were not delivered in time before it was closed, "
                    "and are dropped as `stopped`",
                    sink->config->name, cut);
}

/* The thread of the sink was abandoned: its successor lists the frames that it had. */
static void pass_losses_on(const struct pipeline_sink *sink)
{
    struct sink_missing runs[MISSING_RUNS_MAX];
    if (sink->ledger.pending > 0 && sink->heir != NULL && sink->heir->sink != NULL &&
        sink->ops->undelivered != NULL) {
        const uint32_t count = sink->ops->undelivered(sink->sink, runs);
        sink->ops->lost_before(sink->heir->sink, runs, count);
    }
}

static void sink_closed(void *context)
{
    struct pipeline_sink *sink = context;
    struct pipeline *pipeline = sink->pipeline;
    sink->ops->ledger(sink->sink, &sink->ledger);
    if (sink->status != NULL)
        sink->ops->read_status(sink->sink, sink->status);
    if (sink->ops->identity != NULL)
        sink->ops->identity(sink->sink, &sink->identity);
    pipeline_log_cut(sink);
    pass_losses_on(sink);
    sink->sink = NULL;
    pipeline_end_elder(sink);
    pipeline->closing--;
    pipeline->changed(pipeline->context);
}

/* Reports to the sink that the input of its stream, or of the first one of its chain, was cut. */
static void pass_cut(const struct pipeline *pipeline, const struct pipeline_sink *sink)
{
    struct source_cut cut = root_of(pipeline)->cut;
    const uint32_t decimate = pipeline->stream_config->decimate_total;
    if (cut.missing == 0 || sink->ops->cut == NULL)
        return;
    if (decimate > 1 && !sink->options.raw) {
        cut.first = (cut.first + decimate - 1) / decimate;
        cut.until = (cut.until + decimate - 1) / decimate;
    }
    sink->ops->cut(sink->sink, &cut);
}

void pipeline_close_sink(struct pipeline_sink *sink, int64_t deadline_ns)
{
    struct sink_ledger ledger = {0};
    if (sink->sink == NULL || sink->closing)
        return;
    sink->closing = true;
    sink->pipeline->closing++;
    sink->ops->ledger(sink->sink, &ledger);
    sink->stopped = ledger.dropped[DROP_STOPPED];
    pass_cut(sink->pipeline, sink);
    if (sink->ops->interrupted != NULL && root_of(sink->pipeline)->interrupted)
        sink->ops->interrupted(sink->sink);
    sink->ops->close(sink->sink, deadline_ns, sink_closed, sink);
}

void pipeline_close_sinks(struct pipeline *pipeline, int64_t deadline_ns)
{
    if (pipeline->sinks_closing)
        return;
    pipeline->sinks_closing = true;
    for (uint32_t i = 0; i < pipeline->sink_count; i++)
        pipeline_close_sink(&pipeline->sinks[i], deadline_ns);
    pipeline_close_analyses(pipeline, deadline_ns);
}

static void source_closed(void *context)
{
    struct pipeline *pipeline = context;
    pipeline->source = NULL;
    pipeline->closing--;
    pipeline->changed(pipeline->context);
}

void pipeline_close_source(struct pipeline *pipeline)
{
    if (pipeline->source == NULL || pipeline->source_closing)
        return;
    pipeline->source_closing = true;
    pipeline_pause(pipeline);
    /* A stopped source counts nothing more: this ledger is final. */
    pipeline->source_ops->ledger(pipeline->source, &pipeline->source_ledger);
    if (pipeline->source_status != NULL)
        pipeline->source_ops->read_status(pipeline->source, pipeline->source_status);
    pipeline->closing++;
    pipeline->source_ops->close(pipeline->source, source_closed, pipeline);
}

void pipeline_free(struct pipeline *pipeline)
{
    assert(pipeline->source == NULL && pipeline->closing == 0);
    self_check_close(pipeline->self_check);
    stream_close(pipeline->stream);
    plan_close(pipeline->plan);
    plan_close(pipeline->placement_plan);
    plan_close(pipeline->standby.plan);
    stream_ring_free(pipeline->standby.ring);
    recipe_drop(pipeline->standby.recipe);
    recipe_drop(pipeline->recipe);
    free(pipeline->taps_hash);
    free(pipeline->heritage);
    free(pipeline->pin);
    free(pipeline->told_channels);
    if (pipeline->direct != NULL)
        pipeline->stream_config->driver->direct->free(pipeline->direct);
    for (uint32_t i = 0; i < pipeline->sink_count; i++)
        free(pipeline->sinks[i].status);
    free(pipeline->sinks);
    pipeline_free_analyses(pipeline);
    free(pipeline->source_status);
}
