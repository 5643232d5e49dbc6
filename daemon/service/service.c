/* Service: the daemon's life; see service.h. */
#include "service/service.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <uv.h>

#include "core/clock.h"
#include "core/log.h"
#include "io/net/handover.h"
#include "control/osc_control.h"
#include "service/internal.h"

/* How often a drain is looked at. */
enum { TICK_MS = 5 };

/* After the drain's deadline the sinks get this long to close their files. */
static const int64_t close_grace_ns = NS_PER_SECOND;

struct signal_row {
    int number;
    void (*handle)(struct service *service, const struct signalfd_siginfo *info);
};

static const char *const phase_names[] = {
    [PHASE_PREPARING] = "preparing",     [PHASE_RUNNING] = "running",
    [PHASE_DRAINING] = "stopping",       [PHASE_CLOSING_SINKS] = "stopping",
    [PHASE_CLOSING_SOURCES] = "stopped", [PHASE_STOPPED] = "stopped",
};

/* ---- table ------------------------------------------------------------------------------- */

struct status_source service_status(const struct service *service)
{
    return (struct status_source){
        .pipelines = service->pipelines,
        .count = service->count,
        .devices = service->devices,
        .osc = &service->osc_hub,
        .state = phase_names[service->phase],
        .started_ns = service->started_ns,
    };
}

static void print_status(const struct service *service, bool table)
{
    const struct status_source source = service_status(service);
    if (table) {
        status_print(&source, stdout);
        fflush(stdout);
    }
    const char *path = service->options->status_json != NULL ? service->options->status_json
                                                             : service->config->daemon.status_json;
    struct problem problem;
    if (path != NULL && status_write_json(&source, path, &problem) < 0)
        log_warning("%s", problem.text);
}

/* A run that never came to work has nothing to show. */
static void print_last_status(const struct service *service)
{
    if (service->connected && service->error == 0)
        print_status(service, service->config->daemon.status_on_exit);
}

/* ---- prepare: worker thread -------------------------------------------------------------- */

struct pipeline *service_find(const struct service *service, const char *name)
{
    for (uint32_t i = 0; i < service->count; i++) {
        if (!service->pipelines[i]->retired &&
            strcmp(service->pipelines[i]->stream_config->name, name) == 0)
            return service->pipelines[i];
    }
    return NULL;
}

struct pipeline *service_make_pipeline(struct service *service, const struct config *config,
                                       uint32_t index, struct pipeline *upstream,
                                       struct problem *problem)
{
    struct pipeline *pipeline = calloc(1, sizeof *pipeline);
    if (pipeline == NULL) {
        problem_set(problem, ERROR_MEMORY, "stream %s: out of memory", config->streams[index].name);
        return NULL;
    }
    struct placement *placement;
    struct plan *plan;
    double load;
    if (devices_place(service->devices, config, &config->streams[index], service->options->variant,
                      upstream != NULL ? upstream->placement : NULL, &placement, &load, &plan,
                      problem) < 0) {
        free(pipeline);
        return NULL;
    }
    *pipeline = (struct pipeline){
        .config = config,
        .stream_config = &config->streams[index],
        .upstream = upstream,
        .environment = &service->environment,
        .placement = placement,
        .engine = placement->engine,
        .placement_load = load,
        .placement_plan = plan,
        .variant = service->options->variant,
        .changed = service_changed,
        .context = service,
    };
    return pipeline;
}

void service_free_pipeline(struct pipeline *pipeline)
{
    if (pipeline == NULL)
        return;
    pipeline_free(pipeline);
    devices_displace(pipeline->placement, pipeline->placement_load);
    free(pipeline);
}

static void prepare(uv_work_t *work)
{
    struct service *service = work->data;
    const struct config *config = service->config;
    service->error = devices_prepare(service->devices, config, &service->problem);
    /* A chain's stream stands after the one it reads. */
    for (uint32_t i = 0; i < config->stream_count && service->error == 0; i++) {
        int upstream = config->streams[i].upstream;
        assert(upstream < (int)i);
        struct pipeline *pipeline = service_make_pipeline(
            service, config, i, upstream >= 0 ? service->pipelines[upstream] : NULL,
            &service->problem);
        if (pipeline == NULL) {
            service->error =
                service->problem.error != ERROR_NONE ? (int)service->problem.error : ERROR_MEMORY;
            break;
        }
        service->pipelines[service->count++] = pipeline;
        service->error = pipeline_prepare(pipeline, &service->problem);
    }
}

/* ---- phases: loop thread ----------------------------------------------------------------- */

static void close_sinks(struct service *service)
{
    service->phase = PHASE_CLOSING_SINKS;
    int64_t deadline_ns = clock_monotonic_ns() + close_grace_ns;
    if (service->deadline_ns == INT64_MAX || service->deadline_ns < deadline_ns)
        service->deadline_ns = deadline_ns;
    for (uint32_t i = 0; i < service->count; i++)
        pipeline_close_sinks(service->pipelines[i], service->deadline_ns);
    service_start_tick(service);
    uv_async_send(&service->changed);
}

/* Ends without undoing anything: a device or a disk hangs, and what it holds may not be freed. */
static void leave(const struct service *service)
{
    print_last_status(service);
    log_warning(
        "stopped with work left over; the table counts it as waiting, submitted or in flight");
    _exit(service->error == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

static void close_sources(struct service *service)
{
    if (service->abandoned)
        leave(service);
    /* Sources go last, so that the table can ask them. */
    print_last_status(service);
    service->phase = PHASE_CLOSING_SOURCES;
    for (uint32_t i = 0; i < service->count; i++)
        pipeline_close_source(service->pipelines[i]);
    uv_async_send(&service->changed);
}

static void close_handles(struct service *service)
{
    service->phase = PHASE_STOPPED;
    for (uint32_t i = 0; i < service->count; i++) {
        if (service->pipelines[i]->scheduled)
            scheduler_remove(service->pipelines[i]->scheduler, service->pipelines[i]->stream);
        service->pipelines[i]->scheduled = false;
    }
    devices_close(service->devices);
    watch_close(service->watch);
    control_close(service->control);
    osc_control_close(service->osc);
    uv_close((uv_handle_t *)&service->signals, NULL);
    uv_close((uv_handle_t *)&service->changed, NULL);
    uv_close((uv_handle_t *)&service->tick, NULL);
}

/* deadline_ns INT64_MAX: a run that ends by itself takes the time its files take. */
static void drain(struct service *service, int64_t deadline_ns)
{
    service->phase = PHASE_DRAINING;
    service->deadline_ns = deadline_ns;
    for (uint32_t i = 0; i < service->count; i++) {
        if (service->pipelines[i]->upstream == NULL)
            pipeline_stop(service->pipelines[i]);
    }
    service_start_tick(service);
    uv_async_send(&service->changed);
}

static bool all_ended(const struct service *service)
{
    for (uint32_t i = 0; i < service->count; i++) {
        const struct pipeline *pipeline = service->pipelines[i];
        if (!pipeline->retired && pipeline->upstream == NULL && !pipeline->ended)
            return false;
    }
    return true;
}

/* A chain's stream ends when the one it reads has handed everything on. */
static bool all_drained(struct service *service)
{
    bool drained = true;
    for (uint32_t i = 0; i < service->count; i++) {
        struct pipeline *pipeline = service->pipelines[i];
        if (pipeline->upstream != NULL && pipeline_drained(pipeline->upstream))
            pipeline_stop(pipeline);
        drained = drained && pipeline_drained(pipeline);
    }
    return drained;
}

static uint32_t still_closing(const struct service *service)
{
    uint32_t closing = 0;
    for (uint32_t i = 0; i < service->count; i++)
        closing += service->pipelines[i]->closing;
    return closing;
}

static void give_up(struct service *service)
{
    service->abandoned = true;
    for (uint32_t i = 0; i < service->count; i++) {
        if (!pipeline_drained(service->pipelines[i]))
            log_warning("stream %s: not processed to its end within the drain timeout; raise "
                        "`drain timeout` "
                        "in [daemon] if its last frames matter",
                        service->pipelines[i]->stream_config->name);
    }
    close_sinks(service);
}

static void advance(struct service *service)
{
    bool late = clock_monotonic_ns() > service->deadline_ns;
    switch (service->phase) {
    case PHASE_RUNNING:
        reload_advance(service);
        if (!reload_busy(service) && all_ended(service)) {
            log_info("every source has come to its end");
            watch_stopping(service);
            drain(service, INT64_MAX);
        }
        break;
    case PHASE_DRAINING:
        if (all_drained(service))
            close_sinks(service);
        else if (late)
            give_up(service);
        break;
    case PHASE_CLOSING_SINKS:
        if (still_closing(service) == 0)
            close_sources(service);
        else if (late)
            leave(service);
        break;
    case PHASE_CLOSING_SOURCES:
        if (still_closing(service) == 0)
            close_handles(service);
        break;
    case PHASE_PREPARING:
    case PHASE_STOPPED:
        break;
    }
}

static void on_changed(uv_async_t *async)
{
    advance(async->data);
}

/* Pipelines tell of an end or a close here; also from within their own calls. */
void service_changed(void *context)
{
    struct service *service = context;
    if (service->phase != PHASE_STOPPED)
        uv_async_send(&service->changed);
}

static void on_tick(uv_timer_t *timer)
{
    struct service *service = timer->data;
    if (service->connected && service->phase <= PHASE_DRAINING)
        devices_kick(service->devices);
    advance(service);
}

void service_start_tick(struct service *service)
{
    if (!uv_is_active((uv_handle_t *)&service->tick))
        uv_timer_start(&service->tick, on_tick, TICK_MS, TICK_MS);
}

static void on_progress(void *context)
{
    struct service *service = context;
    for (uint32_t i = 0; i < service->count; i++)
        pipeline_resume(service->pipelines[i]);
    if (service->phase == PHASE_DRAINING)
        uv_async_send(&service->changed);
}

/* ---- start: loop thread ------------------------------------------------------------------ */

static int connect_all(struct service *service)
{
    int error = devices_connect(service->devices, &service->problem);
    if (error < 0)
        return error;
    for (uint32_t i = 0; i < service->count; i++) {
        error = pipeline_connect(service->pipelines[i], &service->problem);
        if (error < 0)
            return error;
    }
    service->connected = true;
    return 0;
}

static int start_all(struct service *service)
{
    for (uint32_t i = 0; i < service->count; i++) {
        int error = pipeline_start(service->pipelines[i], &service->problem);
        if (error < 0)
            return error;
    }
    return 0;
}

static void on_prepared(uv_work_t *work, int status)
{
    struct service *service = work->data;
    (void)status; /* nobody cancels it */
    if (service->error == 0 && !service->stopping)
        service->error = connect_all(service);
    if (service->error == 0 && !service->stopping && service->config->osc.used)
        service->error = osc_control_open(service, &service->osc, &service->problem);
    if (service->error != 0 || service->stopping) {
        close_sinks(service);
        return;
    }
    handover_warn_unused(service->environment.handover);
    service->phase = PHASE_RUNNING;
    service->error = start_all(service);
    if (service->error != 0) {
        drain(service, clock_monotonic_ns() + service->config->daemon.drain_ns);
        return;
    }
    const struct placement *placement;
    for (uint32_t i = 0; (placement = devices_at(service->devices, i)) != NULL; i++) {
        const struct device_info *device = engine_device(placement->engine);
        uint32_t streams = 0;
        for (uint32_t k = 0; k < service->count; k++)
            streams += service->pipelines[k]->placement == placement;
        log_notice("running: %u stream%s on %s (%s)", streams, streams == 1 ? "" : "s",
                   device->name, device->platform);
    }
    watch_ready(service);
    uv_async_send(&service->changed); /* a short file may have ended already */
}

/* ---- signals ----------------------------------------------------------------------------- */

void service_stop_now(struct service *service)
{
    if (service->phase == PHASE_RUNNING)
        drain(service, clock_monotonic_ns() + service->config->daemon.drain_ns);
}

static void on_stop(struct service *service, const struct signalfd_siginfo *info)
{
    if (service->stopping) {
        log_warning("second signal: leaving at once");
        _exit(128 + (int)info->ssi_signo);
    }
    service->stopping = true;
    log_notice("%s: stopping", strsignal((int)info->ssi_signo));
    watch_stopping(service);
    if (service->phase == PHASE_DRAINING)
        service->deadline_ns = clock_monotonic_ns() + service->config->daemon.drain_ns;
    else if (!reload_busy(service)) /* else it goes on when the reload is through */
        service_stop_now(service);
}

/* A hang-up that the kernel sends means that the terminal is gone: files and tails are finished.
 * One that somebody sends asks for the configuration to be read again. */
static void on_hangup(struct service *service, const struct signalfd_siginfo *info)
{
    if (info->ssi_code == SI_KERNEL)
        on_stop(service, info);
    else if (service->phase == PHASE_RUNNING && !service->stopping)
        reload_start(service);
    else
        log_notice("reload: not now, the daemon is %s", phase_names[service->phase]);
}

static void on_status(struct service *service, const struct signalfd_siginfo *info)
{
    (void)info;
    if (service->connected)
        print_status(service, true);
    else
        log_info("still preparing: nothing to show yet");
}

static const struct signal_row signal_table[] = {
    {SIGTERM, on_stop},
    {SIGINT, on_stop},
    {SIGHUP, on_hangup},
    {SIGUSR1, on_status},
};

enum { SIGNALS = sizeof signal_table / sizeof *signal_table };

static void on_signals(uv_poll_t *poll, int status, int events)
{
    struct service *service = poll->data;
    (void)status;
    (void)events;
    struct signalfd_siginfo info;
    while (read(service->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        for (int i = 0; i < SIGNALS; i++) {
            if (signal_table[i].number == (int)info.ssi_signo)
                signal_table[i].handle(service, &info);
        }
    }
}

static void fill_set(sigset_t *set)
{
    sigemptyset(set);
    for (int i = 0; i < SIGNALS; i++)
        sigaddset(set, signal_table[i].number);
}

/*
 * A signalfd and not handlers: the compiler inside a CPU driver (LLVM) installs handlers of its own
 * for these signals when it first builds a kernel. Blocked before any other thread is made, so that
 * all inherit it.
 */
static int open_signals(struct service *service, struct problem *problem)
{
    sigset_t set;
    fill_set(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of its write */
    service->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (service->signal_fd < 0)
        return problem_set(problem, ERROR_SYSTEM,
                           "no signalfd: %s; raise the limit of open files (ulimit -n)",
                           strerror(errno));
    return 0;
}

/* From here on a signal ends the process by default, should a driver hang while it is closed. Twice
 * is fine. */
static void close_signals(struct service *service)
{
    sigset_t set;
    if (service->signal_fd < 0)
        return;
    fill_set(&set);
    close(service->signal_fd);
    service->signal_fd = -1;
    for (int i = 0; i < SIGNALS; i++)
        signal(signal_table[i].number, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* ---- life -------------------------------------------------------------------------------- */

static void open_handles(struct service *service)
{
    uv_poll_init(&service->loop, &service->signals, service->signal_fd);
    service->signals.data = service;
    uv_poll_start(&service->signals, UV_READABLE, on_signals);
    uv_async_init(&service->loop, &service->changed, on_changed);
    uv_timer_init(&service->loop, &service->tick);
    service->changed.data = service->tick.data = service->work.data = service;
}

int service_run(const struct service_options *options, struct problem *problem)
{
    if (options->config->stream_count == 0)
        return problem_set(problem, ERROR_CONFIG,
                           "%s: no stream; add a section [stream NAME] (convolvd --help-config)",
                           options->config->path);
    struct service *service = calloc(1, sizeof *service);
    if (service == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    service->options = options;
    service->config = options->config;
    service->deadline_ns = INT64_MAX;
    service->started_ns = clock_monotonic_ns();
    service->environment =
        (struct io_environment){.loop = &service->loop, .osc = &service->osc_hub};
    int error = handover_open(&service->environment.handover, problem);
    if (error < 0)
        goto free_service;
    handover_adopt(service->environment.handover);
    error = open_signals(service, problem);
    if (error < 0)
        goto close_handover;
    if (uv_loop_init(&service->loop) != 0) {
        error = problem_set(problem, ERROR_SYSTEM,
                            "no event loop; raise the limit of open files (ulimit -n)");
        goto close_signals;
    }
    error = devices_open(&service->loop, on_progress, service, options->kernels_dir,
                         &service->devices, problem);
    if (error < 0)
        goto close_loop;
    open_handles(service);
    if (reload_open(service) < 0 || watch_open(service) < 0) {
        error = problem_set(problem, ERROR_MEMORY, "out of memory");
        goto close_handles;
    }
    error = control_open(service, problem);
    if (error < 0)
        goto close_handles;
    uv_queue_work(&service->loop, &service->work, prepare, on_prepared);
    uv_run(&service->loop, UV_RUN_DEFAULT);
    assert(service->phase == PHASE_STOPPED);
    close_signals(service);

    for (uint32_t i = service->count; i-- > 0;)
        service_free_pipeline(service->pipelines[i]);
    osc_control_free(service->osc);
    devices_free(service->devices);
    error = service->error;
    if (error < 0 && problem != NULL)
        *problem = service->problem;
    reload_close(service->reload);
    goto close_loop;

close_handles:
    close_handles(service);
    uv_run(&service->loop, UV_RUN_DEFAULT);
    devices_free(service->devices);
    reload_close(service->reload);
close_loop:;
    int closed = uv_loop_close(&service->loop);
    assert(closed == 0);
    (void)closed;
close_signals:
    close_signals(service);
close_handover:
    handover_close(service->environment.handover);
free_service:
    free(service);
    return error;
}
