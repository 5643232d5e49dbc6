/* The service: see service.h. */
#include "service/service.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/loop_bell.h"
#include "control/alarms.h"
#include "control/commands.h"
#include "control/osc_control.h"
#include "control/process.h"
#include "control/socket.h"
#include "io/nats/hub.h"
#include "io/net/handover.h"
#include "io/osc/hub.h"
#include "io/sound/card.h"
#include "pipeline/closing.h"
#include "pipeline/devices.h"
#include "pipeline/pipelines.h"
#include "pipeline/run_end.h"
#include "service/hung.h"
#include "service/membership.h"
#include "service/numbers.h"
#include "service/progress.h"
#include "service/reload.h"
#include "service/signals.h"
#include "service/start.h"
#include "service/status_output.h"
#include "service/store.h"
#include "service/watch.h"

enum { TICK_MS = 5 }; /* how often the loop checks whether a drain is through */
static const int64_t close_grace_ns = NS_PER_SECOND; /* of sinks, after the drain's deadline */

/* At the end, how long whoever reads standard output, the log or the disk may take for what is
 * left; after a second signal, how long. */
static const int64_t flush_ns = NS_PER_SECOND, hasty_flush_ns = NS_PER_SECOND / 5,
                     closing_ns = 5 * NS_PER_SECOND;

/* How long sources may take to close: a sound card's process notices after 4 s that it hangs. */
static const int64_t source_grace_ns = 5 * NS_PER_SECOND;

struct service {
    const struct service_options *options;
    struct process process; /* loop thread; config, pipelines: the start's while it prepares */

    /* loop thread */
    int error;       /* why the run fails */
    int exit_status; /* of a run that does not fail: 0 or enum service_exit */
    struct problem problem;
    uv_loop_t loop;
    struct io_environment environment; /* of every source and sink; with osc_hub */
    struct osc_hub osc_hub;
    struct cluster cluster;
    struct nats_hub nats_hub;
    struct replay_clock replays;
    struct signals signals;
    struct loop_bell changed; /* something ended or closed: advance */
    uv_timer_t tick;
    bool abandoned;      /* the drain did not end in time */
    int64_t deadline_ns; /* of the drain; INT64_MAX: none */
    bool natural;        /* all sources have ended by themselves and no signal came since */
    struct run_end end;  /* while `natural` */
    bool by_hand;        /* SIGINT stopped it */
    struct start *start;
    struct reload *reload;
    struct watch *watch;
    struct numbers *numbers;
    struct progress *progress;
    struct status_queue *status;
    struct store *store;
    bool handing; /* the streams wait to be handed over to the next daemon … */
    bool paused;  /* … and their sources are stopped */
    int64_t handing_until_ns;
    struct status_output *output;
    struct osc_control *osc; /* NULL: no OSC */
    struct commands *commands;
    struct control_sockets *sockets; /* NULL: none could be opened */
};

/* ---- status ------------------------------------------------------------------------------ */

static const char *status_path(const struct service *service)
{
    return service->options->status_json != NULL ? service->options->status_json
                                                 : service->process.config->daemon.status_json;
}

/* A run that failed before its pipelines were connected has nothing to show. */
static void print_last_status(const struct service *service)
{
    const struct process *process = &service->process;
    if (process->connected && service->error == 0)
        status_output_write(service->output, process, process->config->daemon.status_on_exit,
                            status_path(service));
}

/* ---- phases: loop thread ----------------------------------------------------------------- */

static void advance_soon(struct service *service);

/* Files have at least so long to be finished. */
static void close_sinks(struct service *service, int64_t grace_ns)
{
    service->process.phase = PROCESS_CLOSING_SINKS;
    reload_cut(service->reload);
    numbers_take_last(service->numbers);
    const int64_t deadline_ns = clock_monotonic_ns() + grace_ns;
    if (service->deadline_ns == INT64_MAX || service->deadline_ns < deadline_ns)
        service->deadline_ns = deadline_ns;
    pipelines_close_sinks(service->process.pipelines, PIPELINES_ALL, service->deadline_ns);
    advance_soon(service);
}

/* Exits without undoing anything: something hangs and still uses what would be freed. */
static _Noreturn void exit_now(struct service *service, int status, int64_t timeout_ns)
{
    status_output_close(service->output, timeout_ns);
    log_stop(timeout_ns);
    _exit(status);
}

static _Noreturn void leave(struct service *service)
{
    if (service->process.connected && service->process.phase < PROCESS_CLOSING_SOURCES) {
        pipelines_flush_losses(service->process.pipelines, PIPELINES_ALL);
        hung_name_sinks(service->process.pipelines);
        print_last_status(service);
    }
    log_warning("%s", service->process.connected
                          ? "stopped with work left over; the table says what was in flight"
                          : "stopped while preparing: files, filters, kernels or sockets took "
                            "longer than `drain timeout`");
    const int cut = service->natural ? SERVICE_EXIT_LOSSES : SERVICE_EXIT_CUT;
    exit_now(service, service->error == 0 ? cut : EXIT_FAILURE, flush_ns);
}

static void close_sources(struct service *service)
{
    if (reload_busy(service->reload)) {
        log_warning("a reload was under way and takes too long; it is cut off");
        leave(service);
    }
    if (service->abandoned)
        leave(service);
    if (service->natural && run_end_losses(&service->end, service->process.pipelines) > 0)
        service->exit_status = SERVICE_EXIT_LOSSES;
    if (service->by_hand && pipelines_interrupted(service->process.pipelines))
        service->exit_status = SERVICE_EXIT_INTERRUPTED;
    /* Sources are closed last, because the status asks them for their counters. */
    print_last_status(service);
    service->process.phase = PROCESS_CLOSING_SOURCES;
    service->deadline_ns = clock_monotonic_ns() + source_grace_ns;
    pipelines_close_sources(service->process.pipelines, PIPELINES_ALL);
    loop_bell_ring(&service->changed);
}

static void close_handles(struct service *service)
{
    service->process.phase = PROCESS_STOPPED;
    hung_limit_close();
    pipelines_unschedule(service->process.pipelines, PIPELINES_ALL);
    takeover_close(service->process.takeover);
    devices_close(service->process.devices);
    watch_close(service->watch);
    numbers_stop(service->numbers);
    progress_close(service->progress);
    control_sockets_close(service->sockets);
    commands_stop(service->commands);
    status_queue_close(service->status);
    alarms_close(service->process.alarms);
    osc_control_close(service->osc);
    signals_unwatch(&service->signals);
    start_stop(service->start);
    reload_stop(service->reload);
    loop_bell_close(&service->changed, NULL);
    uv_close((uv_handle_t *)&service->tick, NULL);
}

static void drain(struct service *service, int64_t deadline_ns)
{
    const int64_t now_ns = clock_monotonic_ns();
    service->process.phase = PROCESS_DRAINING;
    progress_stop(service->progress);
    service->deadline_ns = deadline_ns;
    service->handing_until_ns = now_ns + (deadline_ns - now_ns) / 2;
    if (!service->handing)
        pipelines_stop(service->process.pipelines);
    advance_soon(service);
}

static void drain_within_timeout(struct service *service)
{
    drain(service, clock_monotonic_ns() + service->process.config->daemon.drain_ns);
}

/* Every source has come to its end: the run takes the time that its sinks take. */
static void drain_to_the_end(struct service *service)
{
    const struct process *process = &service->process;
    service->natural = true;
    run_end_begin(&service->end, process->pipelines, process->config->daemon.drain_ns,
                  clock_monotonic_ns());
    drain(service, INT64_MAX);
}

/* False: what goes over to the next daemon is not there yet. What is not there after half of the
 * drain's time drains in the other half. */
static bool handed_over(struct service *service)
{
    struct pipelines *pipelines = service->process.pipelines;
    if (!service->handing)
        return true;
    const bool late = clock_monotonic_ns() > service->handing_until_ns;
    if (!service->paused) { /* an epoch that a reload is handing on goes over first */
        if (!late && reload_has_open_epoch(service->reload))
            return false;
        service->paused = true;
        store_pause(pipelines);
    }
    if (!late && (!reload_settled(service->reload) || !store_ready(pipelines)))
        return false;
    reload_cut(service->reload);
    const bool kept = store_keep(service->store, pipelines);
    if (!late && !kept)
        return false;
    if (!kept)
        store_keep_no_more(service->store);
    service->handing = false;
    pipelines_stop(pipelines);
    return true;
}

static void advance_running(struct service *service)
{
    if (!reload_advance(service->reload))
        uv_timer_stop(&service->tick);
    pipelines_advance(service->process.pipelines);
    if (!reload_busy(service->reload) && pipelines_ended(service->process.pipelines)) {
        log_info("every source has come to its end");
        watch_stopping(service->watch);
        drain_to_the_end(service);
    }
}

static void advance_draining(struct service *service)
{
    const struct pipelines *pipelines = service->process.pipelines;
    const int64_t now_ns = clock_monotonic_ns();
    reload_settle(service->reload);
    if (!handed_over(service))
        return;
    const bool drained = pipelines_drain(service->process.pipelines, PIPELINES_ALL),
               late = service->natural ? run_end_late(&service->end, pipelines, now_ns)
                                       : now_ns > service->deadline_ns;
    if (drained && service->natural && run_end_pending(pipelines) == 0) {
        const int64_t patience_ns = service->end.patience_ns;
        close_sinks(service, patience_ns > close_grace_ns ? patience_ns : close_grace_ns);
    } else if (drained && (!service->natural || late)) {
        close_sinks(service, close_grace_ns);
    } else if (late) {
        service->abandoned = true;
        hung_name_streams(pipelines);
        close_sinks(service, close_grace_ns);
    }
}

static void advance(struct service *service)
{
    struct pipelines *pipelines = service->process.pipelines;
    bool late = clock_monotonic_ns() > service->deadline_ns;
    switch (service->process.phase) {
    case PROCESS_RUNNING:
        advance_running(service);
        break;
    case PROCESS_DRAINING:
        advance_draining(service);
        break;
    case PROCESS_CLOSING_SINKS:
        if (pipelines_closing(pipelines, PIPELINES_ALL) == 0 &&
            (late || !reload_busy(service->reload)))
            close_sources(service);
        else if (late)
            leave(service);
        break;
    case PROCESS_CLOSING_SOURCES:
        if (pipelines_closing(pipelines, PIPELINES_ALL) == 0) {
            close_handles(service);
        } else if (late) {
            hung_name_sources(pipelines);
            leave(service);
        }
        break;
    case PROCESS_PREPARING: /* only a stop sets its deadline */
        if (late)
            leave(service);
        break;
    case PROCESS_STOPPED:
        break;
    }
}

static void on_changed(void *context)
{
    advance(context);
}

/* A pipeline ended or closed something; it may say so from within a call of ours. */
static void on_pipeline_changed(void *context)
{
    struct service *service = context;
    if (service->process.phase != PROCESS_STOPPED)
        loop_bell_ring(&service->changed);
}

static void on_tick(uv_timer_t *timer)
{
    struct service *service = timer->data;
    if (service->process.connected && service->process.phase <= PROCESS_DRAINING)
        devices_kick(service->process.devices);
    advance(service);
}

/* In the next turn of the loop, and again until all is through. */
static void advance_soon(struct service *service)
{
    if (!uv_is_active((uv_handle_t *)&service->tick))
        uv_timer_start(&service->tick, on_tick, TICK_MS, TICK_MS);
    loop_bell_ring(&service->changed);
}

/* In a turn of this loop. */
static void on_progress(void *context, uint32_t loop)
{
    struct service *service = context;
    takeover_progress(service->process.takeover, loop);
    pipelines_resume(service->process.pipelines, loop);
    if (service->process.phase == PROCESS_DRAINING)
        loop_bell_ring(&service->changed);
}

/* ---- start: loop thread ------------------------------------------------------------------ */

static int connect_all(struct service *service)
{
    int error = devices_connect(service->process.devices, &service->problem);
    if (error == 0)
        error = pipelines_connect(service->process.pipelines, &service->problem);
    service->process.connected = error == 0;
    return error;
}

static void on_prepared(void *context, int error, const struct problem *problem)
{
    struct service *service = context;
    struct process *process = &service->process;
    service->error = error;
    service->problem = *problem;
    if (service->error == 0 && !process->stopping)
        service->error = connect_all(service);
    if (service->error == 0 && !process->stopping && process->config->osc.used)
        service->error =
            osc_control_open(process, service->commands, &service->osc, &service->problem);
    if (service->error != 0 || process->stopping) {
        close_sinks(service, close_grace_ns);
        return;
    }
    handover_drop_unused(service->environment.handover);
    process->phase = PROCESS_RUNNING;
    store_give(service->store, process->pipelines);
    watch_ask(service->watch);
    service->error = pipelines_start(process->pipelines, &service->problem);
    if (service->error != 0) {
        drain_within_timeout(service);
        return;
    }
    takeover_start(process->takeover);
    numbers_start(service->numbers);
    progress_start(service->progress);
    watch_ready(service->watch);
    loop_bell_ring(&service->changed); /* a short file may have ended already */
}

/* Nothing runs that could be saved, and the next process may fare better. */
static void on_start_hangs(void *context, const struct problem *problem)
{
    struct service *service = context;
    log_error("%s; the daemon ends", problem->text);
    exit_now(service, EXIT_FAILURE, flush_ns);
}

/* ---- reload: loop thread ----------------------------------------------------------------- */

static void on_reload_started(void *context)
{
    struct service *service = context;
    commands_reload_started(service->commands);
    watch_reloading(service->watch);
}

static void on_reload_finished(void *context, const struct reload_outcome *outcome)
{
    struct service *service = context;
    membership_reloaded(service->process.config, &service->cluster);
    commands_reloaded(service->commands, outcome);
    if (!service->process.stopping)
        watch_ready(service->watch);
    else if (service->process.phase == PROCESS_CLOSING_SINKS) /* also what it has made */
        pipelines_close_sinks(service->process.pipelines, PIPELINES_ALL, service->deadline_ns);
}

static void on_reload_changed(void *context)
{
    struct service *service = context;
    if (service->process.phase == PROCESS_STOPPED)
        return;
    commands_forget(service->commands);
    advance_soon(service);
}

/* ---- signals ----------------------------------------------------------------------------- */

static void on_stop(void *context, const struct signalfd_siginfo *info)
{
    struct service *service = context;
    struct process *process = &service->process;
    if (process->stopping) {
        log_warning("second signal: leaving at once");
        exit_now(service, 128 + (int)info->ssi_signo, hasty_flush_ns);
    }
    process->stopping = true;
    service->by_hand = info->ssi_signo == SIGINT;
    event_raise(&(struct event_subject){.kind = EVENT_STOP, .severity = LOG_LEVEL_NOTICE},
                "%s: stopping", strsignal((int)info->ssi_signo));
    watch_stopping(service->watch);
    if (process->phase == PROCESS_RUNNING) {
        service->handing = info->ssi_signo == SIGUSR2 && store_available();
        drain_within_timeout(service);
    } else if (process->phase <= PROCESS_DRAINING) {
        service->natural = false;
        service->deadline_ns = clock_monotonic_ns() + process->config->daemon.drain_ns;
        advance_soon(service);
    }
}

static bool start_reload(void *context)
{
    struct service *service = context;
    if (service->process.phase != PROCESS_RUNNING || service->process.stopping)
        return false;
    reload_start(service->reload);
    return true;
}

/* The kernel sends SIGHUP when the terminal is gone: the daemon stops and finishes its files. When
 * another process sends it, the daemon reads its configuration again. */
static void on_hangup(void *context, const struct signalfd_siginfo *info)
{
    struct service *service = context;
    if (info->ssi_code == SI_KERNEL)
        on_stop(service, info);
    else if (!start_reload(service))
        log_notice("reload: not now, the daemon is %s", process_phase_name(service->process.phase));
}

static void on_status(void *context, const struct signalfd_siginfo *info)
{
    const struct service *service = context;
    (void)info;
    if (service->process.connected)
        status_output_request(service->output, service->status, true, status_path(service));
    else
        log_info("still preparing: nothing to show yet");
}

static const struct signal_row signal_table[] = {
    {SIGTERM, on_stop}, {SIGUSR2, on_stop}, /* the next daemon goes on (RestartKillSignal=) */
    {SIGINT, on_stop},  {SIGHUP, on_hangup}, {SIGUSR1, on_status},
};
enum { SIGNALS = sizeof signal_table / sizeof *signal_table };

/* ---- life -------------------------------------------------------------------------------- */

static void open_handles(struct service *service)
{
    signals_watch(&service->signals, &service->loop);
    loop_bell_open(&service->changed, &service->loop, on_changed, service);
    uv_timer_init(&service->loop, &service->tick);
    service->tick.data = service;
}

/* The loops, the devices that serve them and the registry of what runs on both. */
static int open_streams(struct service *service, struct problem *problem)
{
    struct process *process = &service->process;
    int error = loops_open(&service->loop, process->config->device.loops, &process->loops, problem);
    const struct devices_options devices = {.loops = process->loops,
                                            .kernels_dir = service->options->kernels_dir,
                                            .progress = on_progress,
                                            .context = service};
    if (error == 0)
        error = devices_open(&devices, &process->devices, problem);
    const struct pipelines_options pipelines = {.environment = &service->environment,
                                                .loops = process->loops,
                                                .devices = process->devices,
                                                .variant = service->options->variant,
                                                .changed = on_pipeline_changed,
                                                .context = service};
    return error < 0 ? error : pipelines_open(&pipelines, &process->pipelines, problem);
}

static void *wait_for_mutex(void *context)
{
    pthread_mutex_lock(context);
    pthread_mutex_unlock(context);
    return NULL;
}

/* "out of memory", unless threads run out: the calls that fail say no more than that. As many as
 * the rest of the start may want are tried at once. */
static int describe_shortage(struct problem *problem)
{
    enum { TRIED = 8 };
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_t threads[TRIED];
    int count = 0;
    pthread_mutex_lock(&mutex);
    while (count < TRIED && pthread_create(&threads[count], NULL, wait_for_mutex, &mutex) == 0)
        count++;
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    if (count == TRIED)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    return problem_set(problem, ERROR_SYSTEM,
                       "no more threads can be started; raise the limit of processes and threads "
                       "(ulimit -u; LimitNPROC= or TasksMax= in the unit)");
}

/* Opens what has handles of its own; on failure close_handles closes those that were opened. */
static int open_watchers(struct service *service, struct problem *problem)
{
    if (numbers_open(&service->process, &service->numbers) < 0)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    const struct reload_host host = {
        .process = &service->process,
        .numbers = service->numbers,
        .keep_log_level = service->options->keep_log_level,
        .context = service,
        .started = on_reload_started,
        .finished = on_reload_finished,
        .changed = on_reload_changed,
    };
    const struct start_host start_host = {
        .process = &service->process,
        .numbers = service->numbers,
        .store = service->store,
        .context = service,
        .prepared = on_prepared,
        .hangs = on_start_hangs,
    };
    const struct commands_host commands_host = {.context = service, .reload = start_reload};
    if (start_open(&start_host, &service->start) < 0 || reload_open(&host, &service->reload) < 0 ||
        watch_open(&service->process, &service->watch) < 0 ||
        status_output_open(&service->output) < 0 ||
        progress_open(&service->process, &service->progress) < 0 ||
        takeover_open(&service->loop, service->options->config, service->process.devices,
                      service->process.pipelines, &service->process.takeover) < 0 ||
        status_queue_open(&service->process, &service->status) < 0 ||
        alarms_open(&service->process, &service->process.alarms) < 0 ||
        commands_open(&service->process, service->status, &commands_host, &service->commands) < 0)
        return describe_shortage(problem);
    int passed[ROLES];
    for (int role = 0; role < ROLES; role++)
        passed[role] = store_take_listener(service->store, (enum command_role)role);
    return control_sockets_open(&service->process, service->commands, passed, &service->sockets,
                                problem);
}

/* The loop has ended. */
static void free_parts(struct service *service)
{
    status_output_close(service->output, flush_ns);
    pipelines_close(service->process.pipelines);
    osc_control_free(service->osc);
    commands_close(service->commands);
    takeover_free_devices(service->process.devices);
    reload_close(service->reload);
    start_close(service->start);
    numbers_close(service->numbers);
}

static void introduce(struct service *service, const struct config *config)
{
    service->environment = (struct io_environment){.loop = &service->loop,
                                                   .osc = &service->osc_hub,
                                                   .nats = &service->nats_hub,
                                                   .replays = &service->replays};
    service->process = (struct process){
        .environment = &service->environment, .config = config, .started_ns = clock_monotonic_ns()};
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
    watch_raise_descriptors();
    service->options = options;
    service->deadline_ns = INT64_MAX;
    introduce(service, options->config);
    int error = membership_of(&service->process, &service->environment, &service->cluster, problem);
    if (error == 0)
        error = handover_open(&service->environment.handover, problem);
    if (error < 0)
        goto free_service;
    error = store_open(service->environment.handover, &service->store, problem);
    if (error == 0)
        error = sound_cards_open(&service->environment.cards, problem);
    if (error < 0)
        goto close_handover;
    error = signals_open(&service->signals, signal_table, SIGNALS, service, problem);
    if (error < 0)
        goto close_cards;
    if (uv_loop_init(&service->loop) != 0) {
        error = problem_set(problem, ERROR_SYSTEM,
                            "no event loop; raise the limit of open files (ulimit -n)");
        goto close_signals;
    }
    error = open_streams(service, problem);
    if (error < 0)
        goto free_parts;
    open_handles(service);
    error = open_watchers(service, problem);
    if (error == 0 && (error = start_begin(service->start)) < 0)
        describe_shortage(problem);
    if (error < 0)
        close_handles(service);
    loops_run(service->process.loops);
    if (error == 0) {
        assert(service->process.phase == PROCESS_STOPPED);
        signals_close(&service->signals);
        error = service->error < 0 ? service->error : service->exit_status;
        if (error < 0 && problem != NULL)
            *problem = service->problem;
    }
    loops_stop(service->process.loops);
    if (!closings_end(closing_ns)) { /* in use */
        status_output_close(service->output, flush_ns);
        numbers_close(service->numbers);
        return error;
    }
free_parts:
    free_parts(service);
    loops_close(service->process.loops);
    int closed = uv_loop_close(&service->loop);
    assert(closed == 0);
    (void)closed;
close_signals:
    signals_close(&service->signals);
close_cards:
    sound_cards_close(service->environment.cards);
close_handover:
    handover_close(service->environment.handover);
    store_close(service->store);
free_service:
    free(service);
    return error;
}
