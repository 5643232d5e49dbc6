/* The watchdog: see watch.h. */
#include "service/watch.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>

#include "core/clock.h"
#include "core/event.h"
#include "core/log.h"
#include "pipeline/losses.h"
#include "service/notify.h"
#include "stream/move.h"

/* One long batch may fill a whole interval, so the log reports a stage only after several. */
enum { CHECK_MS = 1000, STUCK_CHECKS = 3, REALTIME_PRIORITY = 10 };

/* Preparing may take minutes when kernels are compiled for the first time; while it lasts, each
 * check asks systemd for this much more. */
static const uint64_t extend_us = 30 * UINT64_C(1000000);

struct watch {
    const struct process *process;
    uv_timer_t timer;
    uint64_t watchdog_us; /* 0: systemd does not watch */
    bool ready, reloading, stopping;
    bool ready_untold;     /* systemd did not take the message: again at the next check */
    const char *stuck;     /* the stage that made no progress at the last check; NULL: none */
    uint32_t stuck_checks; /* in a row */
};

/* ---- progress --------------------------------------------------------------------------- */

static bool device_stuck(struct pipeline *pipeline, int64_t now_ns)
{
    struct stream_stats stats;
    stream_stats(pipeline->stream, &stats);
    struct pipeline_watch *last = &pipeline->watch;
    bool computing = stats.submitted > 0 || stream_halted(pipeline->stream) ||
                     stats.batches_failed != last->batches_failed ||
                     stream_ready_deadline_ns(pipeline->stream) < now_ns;
    bool stuck = computing && last->computing && stats.batches == last->batches;
    last->computing = computing;
    last->batches = stats.batches;
    last->batches_failed = stats.batches_failed;
    return stuck;
}

static bool reader_stuck(struct pipeline *pipeline)
{
    struct pipeline_watch *last = &pipeline->watch;
    uint64_t done = 0;
    bool reading = pipeline->source != NULL && pipeline->source_ops->working != NULL &&
                   pipeline->source_ops->working(pipeline->source, &done);
    bool stuck = reading && last->reading && done == last->read;
    last->reading = reading;
    last->read = done;
    return stuck;
}

static bool writer_stuck(struct pipeline_sink *sink)
{
    struct sink_ledger ledger;
    pipeline_sink_ledger(sink, &ledger);
    uint64_t done = ledger.delivered;
    for (int drop = 0; drop < DROPS; drop++)
        done += drop == DROP_QUEUE || drop == DROP_STOPPED ? 0 : ledger.dropped[drop];
    bool stuck = ledger.pending > 0 && sink->watched_pending && done == sink->watched_done;
    sink->watched_pending = ledger.pending > 0;
    sink->watched_done = done;
    return stuck;
}

static void note_stuck(const char **first, const char *stage, const char **name,
                       const struct pipeline *pipeline)
{
    if (*first != NULL)
        return;
    *first = stage;
    *name = pipeline->stream_config->name;
}

/* The first stage without progress since the last check, with the stream's *name; NULL: none.
 * Checks every stage, since each check is what the next one compares with. */
static const char *find_stuck(const struct pipelines *pipelines, const char **name)
{
    const char *stuck = NULL;
    int64_t now_ns = clock_monotonic_ns();
    struct pipeline *pipeline;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_ALL, &at)) != NULL;) {
        if (pipeline->scheduled && device_stuck(pipeline, now_ns))
            note_stuck(&stuck, "the device", name, pipeline);
        if (reader_stuck(pipeline))
            note_stuck(&stuck, "the reader of its source", name, pipeline);
        for (uint32_t k = 0; k < pipeline->sink_count; k++) {
            struct pipeline_sink *sink = &pipeline->sinks[k];
            /* A sink without a thread waits for its reader or the network as long as it takes. */
            if (sink->sink == NULL || !sink->config->driver->writes)
                continue;
            if (writer_stuck(sink))
                note_stuck(&stuck, "the writer of a recording", name, pipeline);
        }
    }
    return stuck;
}

static void ping(struct watch *watch)
{
    const char *name = NULL;
    const char *stuck = find_stuck(watch->process->pipelines, &name);
    watch->stuck_checks = stuck != NULL ? watch->stuck_checks + 1 : 0;
    if (watch->stuck_checks == STUCK_CHECKS)
        log_error("stream %s: %s makes no progress%s", name, stuck,
                  watch->watchdog_us > 0 ? "; unless it does, systemd restarts the daemon" : "");
    watch->stuck = stuck;
    if (stuck == NULL && watch->watchdog_us > 0)
        notify_send("WATCHDOG=1");
}

/* ---- status ----------------------------------------------------------------------------- */

/* "3 streams, load 12 %, latency 1.2 ms (p99)": the highest of all. */
static void send_status(const struct watch *watch)
{
    const struct pipelines *pipelines = watch->process->pipelines;
    const struct pipeline *pipeline;
    double load = 0, latency_ms = 0;
    uint32_t streams = 0;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_RUNNING, &at)) != NULL;) {
        struct stream_stats stats;
        stream_stats(pipeline->stream, &stats);
        streams++;
        load += stats.load;
        if (stats.total->count > 0)
            latency_ms =
                fmax(latency_ms, (double)histogram_quantile(stats.total, 0.99) / NS_PER_MS);
    }
    notify_send("STATUS=%s%s%" PRIu32 " stream%s, load %.0f %%, latency %.3g ms (p99)",
                watch->stuck != NULL ? watch->stuck : "", watch->stuck != NULL ? " is stuck; " : "",
                streams, streams == 1 ? "" : "s", 100 * load, latency_ms);
}

static void on_timer(uv_timer_t *timer)
{
    struct watch *watch = timer->data;
    const struct process *process = watch->process;
    if (process->phase == PROCESS_PREPARING) {
        notify_send("EXTEND_TIMEOUT_USEC=%" PRIu64 "\nSTATUS=preparing: filters, kernels, sockets",
                    extend_us);
        return;
    }
    if (!process->connected || process->phase > PROCESS_DRAINING)
        return;
    if (watch->ready_untold)
        watch->ready_untold = !notify_send("READY=1");
    int64_t now_ns = clock_monotonic_ns();
    struct pipeline *pipeline;
    for (uint32_t at = 0;
         (pipeline = pipelines_next(process->pipelines, PIPELINES_RUNNING, &at)) != NULL;)
        losses_tell(pipeline, now_ns);
    ping(watch);
    if (!watch->stopping && !watch->reloading)
        send_status(watch);
}

/* ---- priority and memory ---------------------------------------------------------------- */

/* Raises the threads of the loops alone: compute threads in real time would take every core from
 * it. Threads made later start with the usual priority (SCHED_RESET_ON_FORK). Whoever starts the
 * whole daemon in real time has decided for all its threads, so that is left as it is. */
static void ask_for_priority(struct loops *loops)
{
    struct rlimit limit = {0};
    getrlimit(RLIMIT_RTPRIO, &limit);
    const int before = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
    if (limit.rlim_cur > 0 && before != SCHED_RR && before != SCHED_FIFO) {
        struct sched_param wanted = {.sched_priority = limit.rlim_cur < REALTIME_PRIORITY
                                                           ? (int)limit.rlim_cur
                                                           : REALTIME_PRIORITY};
        int failed = pthread_setschedparam(pthread_self(), SCHED_RR | SCHED_RESET_ON_FORK, &wanted);
        if (failed == 0)
            failed = loops_prioritise(loops, SCHED_RR | SCHED_RESET_ON_FORK, &wanted);
        if (failed != 0)
            log_notice("real-time priority %d refused (%s); does the unit set RestrictRealtime=?",
                       wanted.sched_priority, strerror(failed));
    }
    int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
    struct sched_param got = {0};
    sched_getparam(0, &got);
    if (policy == SCHED_RR || policy == SCHED_FIFO)
        log_info("priority: real time, %s %d",
                 policy == SCHED_RR ? "round robin" : "first in first out", got.sched_priority);
    else
        log_info("priority: usual, nice %d; the limit of real time is %llu here, LimitRTPRIO=%d in "
                 "the unit "
                 "raises it",
                 getpriority(PRIO_PROCESS, 0), (unsigned long long)limit.rlim_cur,
                 REALTIME_PRIORITY);
}

/* What a file of /proc/self says behind `name` [KiB]; 0: nothing. */
static long read_kib(const char *path, const char *name)
{
    long kib = 0;
    char line[128];
    const size_t length = strlen(name);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, length) == 0)
            kib = strtol(line + length, NULL, 10);
    if (file != NULL)
        fclose(file);
    return kib;
}

/* Locks memory only if there is no limit: past a limit every later allocation would fail. The
 * kernel locks each page when it is first touched, but counts all address space as locked (VmLck):
 * with NVIDIA's driver, which reserves a lot of it, 16 to 20 GiB. */
static void ask_for_memory(void)
{
    struct rlimit limit = {0};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur == RLIM_INFINITY && mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0)
        log_notice("locked memory refused (%s)", strerror(errno));
    const long space_kib = read_kib("/proc/self/status", "VmLck:");
    if (space_kib > 0)
        log_info("memory: %ld MiB locked so far, of %ld MiB of address space",
                 read_kib("/proc/self/smaps_rollup", "Locked:") / 1024, space_kib / 1024);
    else
        log_info("memory: not locked; the limit is %llu KiB here, LimitMEMLOCK=infinity in the "
                 "unit raises it",
                 (unsigned long long)limit.rlim_cur / 1024);
}

void watch_ask(struct watch *watch)
{
    ask_for_priority(watch->process->loops);
    ask_for_memory();
}

/* ---- life ------------------------------------------------------------------------------- */

int watch_open(const struct process *process, struct watch **out)
{
    struct watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL)
        return ERROR_MEMORY;
    watch->process = process;
    uint64_t interval_ms = CHECK_MS;
    if (sd_watchdog_enabled(0, &watch->watchdog_us) <= 0)
        watch->watchdog_us = 0;
    else if (watch->watchdog_us / 4000 < interval_ms)
        interval_ms = watch->watchdog_us / 4000 > 0 ? watch->watchdog_us / 4000 : 1;
    uv_timer_init(process->environment->loop, &watch->timer);
    watch->timer.data = watch;
    uv_timer_start(&watch->timer, on_timer, interval_ms, interval_ms);
    *out = watch;
    return 0;
}

static void closed(uv_handle_t *handle)
{
    free(handle->data);
}

void watch_close(struct watch *watch)
{
    if (watch != NULL)
        uv_close((uv_handle_t *)&watch->timer, closed);
}

static uint32_t streams_on(const struct pipelines *pipelines, const struct placement *placement)
{
    const struct pipeline *pipeline;
    uint32_t streams = 0;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_RUNNING, &at)) != NULL;)
        streams += pipeline->placement == placement;
    return streams;
}

static void log_running(const struct process *process)
{
    const struct placement *placement;
    for (uint32_t i = 0; (placement = devices_at(process->devices, i)) != NULL; i++) {
        const struct device_info *device = engine_device(placement->engine);
        uint32_t streams = streams_on(process->pipelines, placement);
        if (engine_lost(placement->engine) != ENGINE_WORKS)
            log_warning("not in use yet: %s (%s): %s; it is tried again", device->name,
                        device->platform, engine_loss_detail(placement->engine));
        else if (streams == 0 && i > 0)
            log_info("standing by: %s (%s)", device->name, device->platform);
        else
            event_raise(&(struct event_subject){.kind = EVENT_START, .severity = LOG_LEVEL_NOTICE},
                        "running: %u stream%s on %s (%s)%s", streams, streams == 1 ? "" : "s",
                        device->name, device->platform,
                        placement->loop > 0 ? ", by a loop of their own" : "");
    }
}

/* Sockets are bound and read, kernels are built, and each plan has computed a block (its
 * self-test). */
void watch_ready(struct watch *watch)
{
    int64_t now_ns = clock_monotonic_ns();
    if (!watch->ready) {
        log_running(watch->process);
        log_info("ready after %.0f ms", (double)(now_ns - watch->process->started_ns) / NS_PER_MS);
    }
    watch->ready = true;
    watch->reloading = false;
    /* The compiler inside a CPU driver (LLVM) catches SIGABRT to remove its scratch files, and then
     * goes on: the watchdog's signal has to end the process. */
    signal(SIGABRT, SIG_DFL);
    watch->ready_untold = !notify_send("READY=1");
    send_status(watch);
}

void watch_reloading(struct watch *watch)
{
    watch->reloading = true;
    notify_send("RELOADING=1\nMONOTONIC_USEC=%" PRId64 "\nSTATUS=reading the configuration again",
                clock_monotonic_ns() / NS_PER_US);
}

void watch_stopping(struct watch *watch)
{
    watch->stopping = true;
    notify_send("STOPPING=1\nSTATUS=stopping: the last frames are on their way");
}

void watch_raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}
