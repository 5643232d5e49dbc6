/* The registry of pipelines: see pipelines.h. */
#include "pipeline/pipelines.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "pipeline/losses.h"
#include "pipeline/loop_choice.h"
#include "pipeline/parameter_links.h"

struct pipelines {
    struct pipelines_options options;
    struct pipeline_changer changer;
    _Atomic bool placing; /* a job is in `make`; one that was left behind there may come back */
    struct self_checks *checks; /* WORKER: NULL until a configuration asks for them */
    struct pipeline *list[PIPELINES_MAX];
    uint32_t count;
    uint64_t version;
};

int pipelines_open(const struct pipelines_options *options, struct pipelines **out,
                   struct problem *problem)
{
    struct pipelines *pipelines = calloc(1, sizeof *pipelines);
    if (pipelines == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    pipelines->options = *options;
    *out = pipelines;
    return 0;
}

struct pipeline_changer *pipelines_changer(struct pipelines *pipelines)
{
    return &pipelines->changer;
}

void pipelines_close(struct pipelines *pipelines)
{
    if (pipelines == NULL)
        return;
    while (pipelines->count > 0)
        pipelines_destroy(pipelines->list[--pipelines->count]);
    self_checks_close(pipelines->checks);
    free(pipelines);
}

/* ---- one pipeline ------------------------------------------------------------------------ */

/* What a stream asks of its loop: bytes a second. */
static double weight_of(const struct config_stream *stream)
{
    return stream->source.rate_hz * stream->source.frame_bytes;
}

static int make(struct pipelines *pipelines, const struct config *config, uint32_t index,
                struct pipeline *upstream, struct pipeline **out, struct problem *problem)
{
    const struct pipelines_options *options = &pipelines->options;
    const struct config_stream *stream = &config->streams[index];
    if (config->device.self_check_ns > 0 && pipelines->checks == NULL) {
        int failed = self_checks_open(&pipelines->checks, problem);
        if (failed < 0)
            return failed;
    }
    struct pipeline *pipeline = calloc(1, sizeof *pipeline);
    if (pipeline == NULL)
        return problem_set(problem, ERROR_MEMORY, "stream %s: out of memory", stream->name);
    struct placement *placement;
    struct plan *plan;
    double load;
    const double weight = upstream == NULL ? weight_of(stream) : 0;
    const bool main_loop = stream_needs_main_loop(config, stream) != NULL;
    const uint32_t loop = upstream != NULL ? upstream->loop
                          : main_loop      ? 0
                                           : loops_choose(options->loops, weight);
    int error = devices_place(options->devices, config, stream, options->variant, loop,
                              upstream != NULL ? upstream->placement : NULL, &placement, &load,
                              &plan, problem);
    if (error < 0) {
        loops_leave(options->loops, loop, weight);
        free(pipeline);
        return error;
    }
    *pipeline = (struct pipeline){
        .config = config,
        .stream_config = stream,
        .upstream = upstream,
        .loops = options->loops,
        .loop = loop,
        .loop_weight = weight,
        .environment = *options->environment,
        .placement = placement,
        .placed = placement,
        .engine = placement->engine,
        .placement_load = load,
        .placement_plan = plan,
        .variant = options->variant,
        .checks = pipelines->checks,
        .changed = options->changed,
        .context = options->context,
        .changer = &pipelines->changer,
    };
    pipeline->environment.loop = loops_at(options->loops, loop);
    if (upstream != NULL && stream->device == NULL) {
        memcpy(pipeline->choices, upstream->choices, sizeof pipeline->choices);
        pipeline->choice_count = upstream->choice_count;
    } else {
        pipeline->choice_count =
            devices_choices(options->devices, config, stream, placement, pipeline->choices);
    }
    *out = pipeline;
    return 0;
}

int pipelines_make(struct pipelines *pipelines, const struct config *config, uint32_t index,
                   struct pipeline *upstream, struct pipeline **out, struct problem *problem)
{
    if (atomic_exchange(&pipelines->placing, true))
        return problem_set(
            problem, ERROR_DEVICE,
            "stream %s: an earlier reload hangs while it opens a device; restart the "
            "daemon to change streams",
            config->streams[index].name);
    const int error = make(pipelines, config, index, upstream, out, problem);
    atomic_store(&pipelines->placing, false);
    return error;
}

void pipelines_destroy(struct pipeline *pipeline)
{
    if (pipeline == NULL)
        return;
    pipeline_free(pipeline);
    devices_displace(pipeline->placed, pipeline->placement_load);
    loops_leave(pipeline->loops, pipeline->loop, pipeline->loop_weight);
    free(pipeline);
}

void pipelines_add(struct pipelines *pipelines, struct pipeline *pipeline)
{
    assert(pipelines->count < PIPELINES_MAX);
    pipelines->list[pipelines->count++] = pipeline;
    pipelines->version++;
}

void pipelines_retire(struct pipeline *pipeline)
{
    pipeline->retired = true;
    if (pipeline->upstream == NULL) {
        pipeline_stop(pipeline);
    } else if (!pipeline->upstream->retired) {
        if (pipeline->scheduler != NULL)
            pipeline_disconnect(pipeline);
        pipeline_stop(pipeline);
    }
    pipeline->ended = pipeline->ended || pipeline->stream == NULL;
}

/* ---- queries ----------------------------------------------------------------------------- */

static bool is_of(const struct pipeline *pipeline, enum pipelines_which which)
{
    return which == PIPELINES_ALL || pipeline->retired == (which == PIPELINES_RETIRED);
}

struct pipeline *pipelines_next(const struct pipelines *pipelines, enum pipelines_which which,
                                uint32_t *at)
{
    while (*at < pipelines->count) {
        struct pipeline *pipeline = pipelines->list[(*at)++];
        if (is_of(pipeline, which))
            return pipeline;
    }
    return NULL;
}

uint64_t pipelines_version(const struct pipelines *pipelines)
{
    return pipelines->version;
}

uint32_t pipelines_count(const struct pipelines *pipelines, enum pipelines_which which)
{
    uint32_t count = 0;
    for (uint32_t at = 0; pipelines_next(pipelines, which, &at) != NULL;)
        count++;
    return count;
}

double pipelines_load(const struct pipelines *pipelines)
{
    const int64_t now_ns = clock_monotonic_ns();
    double loads[PLACEMENTS_MAX] = {0}, most = 0;
    struct pipeline *pipeline;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_ALL, &at)) != NULL;) {
        const struct placement *placement = pipeline->placement;
        if (pipeline->stream == NULL || placement == NULL)
            continue;
        double *load = &loads[placement->number];
        *load += stream_load(pipeline->stream, now_ns);
        most = *load > most ? *load : most;
    }
    return most;
}

struct pipeline *pipelines_find(const struct pipelines *pipelines, const char *name)
{
    struct pipeline *pipeline;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_RUNNING, &at)) != NULL;) {
        if (strcmp(pipeline->stream_config->name, name) == 0)
            return pipeline;
    }
    return NULL;
}

bool pipelines_running(const struct pipelines *pipelines, const struct pipeline *pipeline)
{
    for (uint32_t i = 0; i < pipelines->count; i++) {
        if (pipelines->list[i] == pipeline)
            return !pipeline->retired;
    }
    return false;
}

bool pipelines_hold(const struct pipelines *pipelines, const struct pipeline *pipeline)
{
    for (uint32_t i = 0; i < pipelines->count; i++) {
        if (pipelines->list[i] == pipeline)
            return true;
    }
    return false;
}

bool pipelines_use_config(const struct pipelines *pipelines, const struct config *config)
{
    for (uint32_t i = 0; i < pipelines->count; i++) {
        if (pipelines->list[i]->config == config)
            return true;
    }
    return false;
}

bool pipelines_ended(const struct pipelines *pipelines)
{
    const struct pipeline *pipeline;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_RUNNING, &at)) != NULL;) {
        if (pipeline->upstream == NULL && !pipeline->ended)
            return false;
    }
    return true;
}

bool pipelines_interrupted(const struct pipelines *pipelines)
{
    for (uint32_t i = 0; i < pipelines->count; i++)
        if (pipelines->list[i]->interrupted)
            return true;
    return false;
}

uint32_t pipelines_closing(const struct pipelines *pipelines, enum pipelines_which which)
{
    const struct pipeline *pipeline;
    uint32_t closing = 0;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, which, &at)) != NULL;)
        closing += pipeline->closing;
    return closing;
}

/* ---- phases ------------------------------------------------------------------------------ */

int pipelines_connect(struct pipelines *pipelines, struct problem *problem)
{
    int error = 0;
    for (uint32_t i = 0; i < pipelines->count && error == 0; i++)
        error = pipeline_connect(pipelines->list[i], problem);
    if (error == 0)
        parameter_links_update(pipelines);
    return error;
}

int pipelines_start(struct pipelines *pipelines, struct problem *problem)
{
    int error = 0;
    for (uint32_t i = 0; i < pipelines->count && error == 0; i++)
        error = pipeline_start(pipelines->list[i], problem);
    return error;
}

void pipelines_resume(struct pipelines *pipelines, uint32_t loop)
{
    for (uint32_t i = 0; i < pipelines->count; i++)
        if (pipelines->list[i]->loop == loop)
            pipeline_resume(pipelines->list[i]);
}

void pipelines_stop(struct pipelines *pipelines)
{
    for (uint32_t i = 0; i < pipelines->count; i++) {
        if (pipelines->list[i]->upstream == NULL)
            pipeline_stop(pipelines->list[i]);
    }
}

/* Counts, in the first pipeline of each chain, the sinks of the whole chain. */
static void count_sinks(const struct pipelines *pipelines)
{
    for (uint32_t i = 0; i < pipelines->count; i++)
        pipelines->list[i]->chain_sinks = pipelines->list[i]->chain_sinks_ended = 0;
    for (uint32_t i = 0; i < pipelines->count; i++) {
        const struct pipeline *pipeline = pipelines->list[i];
        struct pipeline *root = pipelines->list[i];
        while (root->upstream != NULL)
            root = root->upstream;
        root->chain_sinks += pipeline->sink_count + pipeline->analysis_count;
        for (uint32_t k = 0; k < pipeline->sink_count; k++)
            root->chain_sinks_ended += pipeline->sinks[k].ended;
    }
}

/* Whether sinks take the results of a chain, and all have ended. */
static bool is_deserted(const struct pipeline *root)
{
    return root->chain_sinks > 0 && root->chain_sinks_ended == root->chain_sinks;
}

void pipelines_advance(struct pipelines *pipelines)
{
    struct pipeline *pipeline;
    parameter_links_update(pipelines);
    count_sinks(pipelines);
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_RUNNING, &at)) != NULL;) {
        if (pipeline->upstream != NULL || pipeline->ended || !is_deserted(pipeline))
            continue;
        log_notice("stream %s: all sinks of its results have ended, so it stops",
                   pipeline->stream_config->name);
        pipeline_stop(pipeline);
    }
}

bool pipelines_drain(struct pipelines *pipelines, enum pipelines_which which)
{
    struct pipeline *pipeline;
    bool drained = true;
    parameter_links_update(pipelines);
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, which, &at)) != NULL;) {
        const struct pipeline *upstream = pipeline->upstream;
        if (upstream != NULL && is_of(upstream, which) && pipeline_drained(upstream))
            pipeline_stop(pipeline);
        drained = drained && pipeline_drained(pipeline);
    }
    return drained;
}

void pipelines_close_sinks(struct pipelines *pipelines, enum pipelines_which which,
                           int64_t deadline_ns)
{
    struct pipeline *pipeline;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, which, &at)) != NULL;)
        pipeline_close_sinks(pipeline, deadline_ns);
}

void pipelines_flush_losses(const struct pipelines *pipelines, enum pipelines_which which)
{
    struct pipeline *pipeline;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, which, &at)) != NULL;)
        losses_flush(pipeline);
}

void pipelines_close_sources(struct pipelines *pipelines, enum pipelines_which which)
{
    struct pipeline *pipeline;
    pipelines_flush_losses(pipelines, which);
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, which, &at)) != NULL;)
        pipeline_close_source(pipeline);
}

void pipelines_unschedule(struct pipelines *pipelines, enum pipelines_which which)
{
    struct pipeline *pipeline;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, which, &at)) != NULL;) {
        if (pipeline->scheduled)
            scheduler_remove(pipeline->scheduler, pipeline->stream);
        pipeline->scheduled = false;
    }
}

uint32_t pipelines_take_retired(struct pipelines *pipelines, struct pipeline **out)
{
    uint32_t kept = 0, taken = 0;
    for (uint32_t i = 0; i < pipelines->count; i++) {
        struct pipeline *pipeline = pipelines->list[i];
        if (pipeline->retired)
            out[taken++] = pipeline;
        else
            pipelines->list[kept++] = pipeline;
    }
    pipelines->count = kept;
    pipelines->version++;
    parameter_links_remove(pipelines, out, taken);
    return taken;
}

/* The pipeline in use that has this name, searched for from *at on and around: names that come in
 * about the order of the registry are found at once. */
static struct pipeline *find_from(const struct pipelines *pipelines, const char *name, uint32_t *at)
{
    for (uint32_t i = 0; i < pipelines->count; i++) {
        struct pipeline *pipeline = pipelines->list[(*at + i) % pipelines->count];
        if (!pipeline->retired && strcmp(pipeline->stream_config->name, name) == 0) {
            *at += i + 1;
            return pipeline;
        }
    }
    return NULL;
}

void pipelines_order(struct pipelines *pipelines, const struct config *config)
{
    struct pipeline *ordered[PIPELINES_MAX], *pipeline;
    uint32_t count = 0, from = 0;
    for (uint32_t i = 0; i < config->stream_count; i++) {
        pipeline = find_from(pipelines, config->streams[i].name, &from);
        if (pipeline != NULL)
            ordered[count++] = pipeline;
    }
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_RETIRED, &at)) != NULL;)
        ordered[count++] = pipeline;
    assert(count == pipelines->count);
    memcpy(pipelines->list, ordered, count * sizeof(struct pipeline *));
    pipelines->version++;
}
