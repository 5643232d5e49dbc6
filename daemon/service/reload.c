/*
 * Reload: another configuration while the daemon runs. A configuration is an immutable value, so
 * a reload is the difference of two: streams whose hash is the same (their section, filters with
 * the contents of their files, sinks, and the stream they read) run on untouched; changed and new
 * ones are prepared whole on a worker while the old ones run, then swapped in on the loop.
 *
 *     SIGHUP ─► worker: read, prove, compare, prepare ─► loop: connect, stop old, start new
 *                  └ refused: said why, nothing has changed         └► old: drain ─► close sinks
 *                                                                       ─► close source ─► free
 *
 * A stream that is swapped reads on from the socket of the one before it (handover.h), so no
 * datagram is lost; it begins an epoch, whose first S - 1 frames are flagged as settling.
 * [device], [osc] and the directories cannot change while running: such a configuration is refused.
 *
 * Loop thread, but for `prepare` and `release`, which run on workers.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "io/net/handover.h"
#include "service/internal.h"

enum { CONFIGS_MAX = PIPELINES_MAX + 2 };

enum step {
    STEP_IDLE,
    STEP_PREPARING, /* on a worker */
    STEP_DRAINING,  /* what was replaced comes to its end */
    STEP_CLOSING_SINKS,
    STEP_CLOSING_SOURCES,
    STEP_RELEASING, /* on a worker */
};

struct reload {
    struct service *service;
    uv_work_t work;
    enum step step;
    bool again; /* asked for meanwhile */

    /* worker while preparing */
    struct config *config;
    struct pipeline *made[PIPELINES_MAX];
    uint32_t made_count, kept;
    int error;
    struct problem problem;

    /* worker while releasing */
    struct pipeline *released[PIPELINES_MAX];
    uint32_t released_count;

    struct config *owned[CONFIGS_MAX]; /* configurations this file has read and must free */
    uint32_t owned_count;
};

/* ---- prepare: worker thread --------------------------------------------------------------------
 */

/* Its messages go to the log, each with file and line. */
static int read_config(struct reload *reload)
{
    struct config_errors errors = {0};
    const char *path = reload->service->config->path;
    int error = config_load(path, &reload->config, &errors);
    for (unsigned i = 0; i < errors.count; i++) {
        const struct config_message *message = &errors.messages[i];
        log_line(message->warning ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR, "%s:%u: %s", message->file,
                 message->line, message->text);
    }
    if (error < 0)
        problem_set(&reload->problem, error, "%s has %u error%s (see above)", path, errors.errors,
                    errors.errors == 1 ? "" : "s");
    config_errors_free(&errors);
    return error;
}

static int compare_fixed(struct reload *reload)
{
    if (strcmp(reload->config->fixed_hash, reload->service->config->fixed_hash) == 0)
        return 0;
    return problem_set(
        &reload->problem, ERROR_UNSUPPORTED,
        "[device], [osc] or a directory of [daemon] has changed, which only a restart can "
        "take over: systemctl restart convolvd");
}

static struct pipeline *find_made(const struct reload *reload, const char *name)
{
    for (uint32_t i = 0; i < reload->made_count; i++) {
        if (strcmp(reload->made[i]->stream_config->name, name) == 0)
            return reload->made[i];
    }
    return NULL;
}

static bool unchanged(const struct pipeline *pipeline, const struct config_stream *stream)
{
    return pipeline != NULL && strcmp(pipeline->stream_config->hash, stream->hash) == 0;
}

static int make_stream(struct reload *reload, uint32_t index)
{
    struct service *service = reload->service;
    const struct config_stream *stream = &reload->config->streams[index];
    if (unchanged(service_find(service, stream->name), stream)) {
        reload->kept++;
        return 0;
    }
    struct pipeline *upstream = NULL;
    if (stream->upstream >= 0) {
        const char *name = reload->config->streams[stream->upstream].name;
        upstream = find_made(reload, name);
        if (upstream == NULL)
            upstream = service_find(service, name);
        assert(upstream != NULL);
    }
    if (service->count + reload->made_count == PIPELINES_MAX)
        return problem_set(&reload->problem, ERROR_LIMIT,
                           "more streams than there is room for; restart instead");
    struct pipeline *pipeline =
        service_make_pipeline(service, reload->config, index, upstream, &reload->problem);
    if (pipeline == NULL)
        return reload->problem.error != ERROR_NONE ? (int)reload->problem.error : ERROR_MEMORY;
    reload->made[reload->made_count++] = pipeline;
    return pipeline_prepare(pipeline, &reload->problem);
}

static void prepare(uv_work_t *work)
{
    struct reload *reload = work->data;
    reload->config = NULL;
    reload->problem = (struct problem){0};
    reload->made_count = reload->kept = 0;
    reload->error = read_config(reload);
    if (reload->error == 0)
        reload->error = compare_fixed(reload);
    handover_share(reload->service->environment.handover, true);
    for (uint32_t i = 0; reload->error == 0 && i < reload->config->stream_count; i++)
        reload->error = make_stream(reload, i);
    handover_share(reload->service->environment.handover, false);
}

/* ---- swap: loop thread
 * --------------------------------------------------------------------------- */

/* From here on it only comes to its end. */
static void retire(struct pipeline *pipeline)
{
    pipeline->retired = true;
    if (pipeline->upstream == NULL) {
        pipeline_stop(pipeline);
    } else if (!pipeline->upstream->retired) {
        if (pipeline->scheduler != NULL)
            pipeline_disconnect(pipeline);
        pipeline_stop(pipeline);
    } /* else it ends when what it reads has */
    pipeline->ended = pipeline->ended || pipeline->stream == NULL;
}

static void begin_retirement(struct reload *reload)
{
    reload->step = STEP_DRAINING;
    service_start_tick(reload->service);
    service_changed(reload->service);
}

/* They join the others, to be closed with them. */
static void add_made(struct reload *reload)
{
    struct service *service = reload->service;
    for (uint32_t i = 0; i < reload->made_count; i++)
        service->pipelines[service->count++] = reload->made[i];
    reload->made_count = 0;
}

static void refuse(struct reload *reload)
{
    log_error("reload refused: %s; the configuration in use stays", reload->problem.text);
    uint32_t first = reload->service->count, made = reload->made_count;
    add_made(reload);
    for (uint32_t i = first; i < first + made; i++)
        retire(reload->service->pipelines[i]);
    begin_retirement(reload);
}

static int connect_made(struct reload *reload)
{
    int connected = devices_connect(reload->service->devices, &reload->problem);
    if (connected < 0)
        return connected;
    for (uint32_t i = 0; i < reload->made_count; i++) {
        int error = pipeline_connect(reload->made[i], &reload->problem);
        if (error < 0)
            return error;
    }
    return 0;
}

/* Old pipelines whose stream is no more, or another. Returns how many are gone for good. */
static uint32_t retire_old(struct reload *reload)
{
    struct service *service = reload->service;
    const struct config *config = reload->config;
    assert(config != NULL);
    uint32_t removed = 0;
    for (uint32_t i = 0; i < service->count; i++) {
        struct pipeline *pipeline = service->pipelines[i];
        int index = config_find_stream(config, pipeline->stream_config->name);
        if (pipeline->retired || (index >= 0 && unchanged(pipeline, &config->streams[index])))
            continue;
        removed += index < 0;
        retire(pipeline);
    }
    return removed;
}

static void start_made(struct reload *reload, uint32_t first)
{
    struct service *service = reload->service;
    for (uint32_t i = first; i < service->count; i++) {
        struct problem problem;
        if (pipeline_start(service->pipelines[i], &problem) < 0) {
            log_error("reload: %s", problem.text);
            retire(service->pipelines[i]);
        }
    }
}

/* Those that run in the order of their configuration, then those on their way out. */
static void put_in_order(struct service *service)
{
    struct pipeline *ordered[PIPELINES_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < service->config->stream_count; i++) {
        struct pipeline *pipeline = service_find(service, service->config->streams[i].name);
        if (pipeline != NULL)
            ordered[count++] = pipeline;
    }
    for (uint32_t i = 0; i < service->count; i++) {
        if (service->pipelines[i]->retired)
            ordered[count++] = service->pipelines[i];
    }
    assert(count == service->count);
    memcpy(service->pipelines, ordered, count * sizeof(struct pipeline *));
}

static void swap(struct reload *reload)
{
    struct service *service = reload->service;
    uint32_t made = reload->made_count, kept = reload->kept, first = service->count;
    /* Old sources read what has reached them and stop; new ones read on where they ended. */
    uint32_t removed = retire_old(reload);
    add_made(reload);
    start_made(reload, first);
    service->config = reload->config;
    put_in_order(service);
    if (!service->options->keep_log_level)
        log_set_level(service->config->daemon.log_level);
    log_notice("reloaded: %u stream%s unchanged, %u changed or new, %u removed", kept,
               kept == 1 ? "" : "s", made, removed);
    begin_retirement(reload);
}

static void on_prepared(uv_work_t *work, int status)
{
    struct reload *reload = work->data;
    struct service *service = reload->service;
    (void)status; /* nobody cancels it */
    if (reload->config != NULL)
        reload->owned[reload->owned_count++] = reload->config;
    if (reload->error == 0 && service->stopping)
        reload->error = problem_set(&reload->problem, ERROR_CLOSED, "the daemon stops");
    if (reload->error == 0)
        reload->error = connect_made(reload);
    if (reload->error == 0)
        swap(reload);
    else
        refuse(reload);
    if (service->stopping)
        service_stop_now(service);
    else
        watch_ready(service);
}

void reload_start(struct service *service)
{
    struct reload *reload = service->reload;
    if (reload->step != STEP_IDLE) {
        reload->again = true;
        return;
    }
    log_notice("reading %s again", service->config->path);
    watch_reloading(service);
    reload->step = STEP_PREPARING;
    uv_queue_work(&service->loop, &reload->work, prepare, on_prepared);
}

bool reload_busy(const struct service *service)
{
    return service->reload->step == STEP_PREPARING;
}

/* ---- what was replaced
 * --------------------------------------------------------------------------- */

static void release(uv_work_t *work)
{
    struct reload *reload = work->data;
    while (reload->released_count > 0)
        service_free_pipeline(reload->released[--reload->released_count]);
}

static bool in_use(const struct service *service, const struct config *config)
{
    bool used = service->config == config;
    for (uint32_t i = 0; i < service->count; i++)
        used = used || service->pipelines[i]->config == config;
    return used;
}

static void free_configs(struct reload *reload)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < reload->owned_count; i++) {
        if (in_use(reload->service, reload->owned[i]))
            reload->owned[kept++] = reload->owned[i];
        else
            config_free(reload->owned[i]);
    }
    reload->owned_count = kept;
}

static void on_released(uv_work_t *work, int status)
{
    struct reload *reload = work->data;
    struct service *service = reload->service;
    (void)status; /* nobody cancels it */
    free_configs(reload);
    reload->step = STEP_IDLE;
    if (reload->again && service->phase == PHASE_RUNNING && !service->stopping) {
        reload->again = false;
        reload_start(service);
    }
    service_changed(service);
}

/* Takes the retired ones out of the service's list. */
static void take_retired(struct reload *reload)
{
    struct service *service = reload->service;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < service->count; i++) {
        struct pipeline *pipeline = service->pipelines[i];
        if (!pipeline->retired) {
            service->pipelines[kept++] = pipeline;
            continue;
        }
        if (pipeline->scheduled)
            scheduler_remove(pipeline->scheduler, pipeline->stream);
        pipeline->scheduled = false;
        reload->released[reload->released_count++] = pipeline;
    }
    service->count = kept;
}

static bool retired_drained(const struct service *service)
{
    bool drained = true;
    for (uint32_t i = 0; i < service->count; i++) {
        struct pipeline *pipeline = service->pipelines[i];
        if (!pipeline->retired)
            continue;
        if (pipeline->upstream != NULL && pipeline->upstream->retired &&
            pipeline_drained(pipeline->upstream))
            pipeline_stop(pipeline);
        drained = drained && pipeline_drained(pipeline);
    }
    return drained;
}

static uint32_t retired_closing(const struct service *service)
{
    uint32_t closing = 0;
    for (uint32_t i = 0; i < service->count; i++)
        closing += service->pipelines[i]->retired ? service->pipelines[i]->closing : 0;
    return closing;
}

static void close_retired(struct service *service, void (*close)(struct pipeline *, int64_t))
{
    int64_t deadline_ns = clock_monotonic_ns() + service->config->daemon.drain_ns;
    for (uint32_t i = 0; i < service->count; i++) {
        if (service->pipelines[i]->retired)
            close(service->pipelines[i], deadline_ns);
    }
}

static void close_source(struct pipeline *pipeline, int64_t deadline_ns)
{
    (void)deadline_ns;
    pipeline_close_source(pipeline);
}

void reload_advance(struct service *service)
{
    struct reload *reload = service->reload;
    if (reload->step == STEP_DRAINING && retired_drained(service)) {
        reload->step = STEP_CLOSING_SINKS;
        close_retired(service, pipeline_close_sinks);
    }
    if (reload->step == STEP_CLOSING_SINKS && retired_closing(service) == 0) {
        reload->step = STEP_CLOSING_SOURCES;
        close_retired(service, close_source);
    }
    if (reload->step == STEP_CLOSING_SOURCES && retired_closing(service) == 0) {
        reload->step = STEP_RELEASING;
        uv_timer_stop(&service->tick);
        take_retired(reload);
        uv_queue_work(&service->loop, &reload->work, release, on_released);
    }
}

/* ---- life
 * ------------------------------------------------------------------------------------------ */

int reload_open(struct service *service)
{
    struct reload *reload = calloc(1, sizeof *reload);
    if (reload == NULL)
        return ERROR_MEMORY;
    reload->service = service;
    reload->work.data = reload;
    service->reload = reload;
    return 0;
}

void reload_close(struct reload *reload)
{
    if (reload == NULL)
        return;
    for (uint32_t i = 0; i < reload->owned_count; i++)
        config_free(reload->owned[i]);
    free(reload);
}
