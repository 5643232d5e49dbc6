/* Reload: see reload.h. reload_work.c prepares, and `release` runs in a job; the rest on the loop
 * thread. */
#include "service/reload.h"

#include <assert.h>
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/event.h"
#include "core/log.h"
#include "core/loop_bell.h"
#include "io/net/handover.h"
#include "pipeline/heritage.h"
#include "pipeline/job.h"
#include "pipeline/succession.h"
#include "service/reload_work.h"
#include "service/swap.h"

enum { CONFIGS_MAX = PIPELINES_MAX + 2 };

enum step {
    STEP_IDLE,
    STEP_PREPARING, /* a job */
    STEP_SWAPPING,  /* new pipelines do not read yet: swap.h */
    STEP_DRAINING,  /* what was replaced comes to its end */
    STEP_CLOSING_SINKS,
    STEP_CLOSING_SOURCES,
    STEP_RELEASING, /* a job */
};

/* Replaced pipelines on their way to be freed. */
struct release {
    struct job job;
    uint32_t count;
    struct pipeline *pipelines[PIPELINES_MAX];
    struct config *configs[PIPELINES_MAX]; /* held, of each */
};

struct reload {
    struct reload_host host;
    struct process *process;
    struct job_watch watch;
    enum step step;
    bool again;               /* another reload was asked for meanwhile */
    struct reload_work *work; /* through; NULL: none */
    struct release *released; /* not started, or under way; NULL: none */

    struct swap swap;
    uint32_t removed, failed;

    struct config *owned[CONFIGS_MAX]; /* configurations read here; freed when nothing uses them */
    uint32_t owned_count;

    /* Work that was left behind and is back: its thread waits until the loop has taken what it
     * made. */
    struct loop_bell back;
    pthread_mutex_t mutex; /* of the following */
    pthread_cond_t taken;
    struct reload_work *returned;
    bool closed;
};

/* ---- swap: loop thread ------------------------------------------------------------------ */

static void begin_retirement(struct reload *reload)
{
    reload->step = STEP_DRAINING;
    reload->host.changed(reload->host.context);
}

/* From here on the registry owns the new pipelines and closes them with the others. */
static void add_made(const struct reload *reload, const struct reload_work *work)
{
    for (uint32_t i = 0; i < work->made_count; i++)
        pipelines_add(reload->process->pipelines, work->made[i]);
}

static void retire_made(struct reload *reload, const struct reload_work *work)
{
    add_made(reload, work);
    for (uint32_t i = 0; i < work->made_count; i++)
        pipelines_retire(work->made[i]);
    begin_retirement(reload);
}

/* The messages as `convolvctl check --json` lists them, at most PROBLEMS_MAX. */
static json_t *list_problems(const struct config_errors *errors)
{
    enum { PROBLEMS_MAX = 256 };
    json_t *list = json_array();
    for (unsigned i = 0; errors != NULL && i < errors->count && i < PROBLEMS_MAX; i++) {
        const struct config_message *message = &errors->messages[i];
        json_array_append_new(
            list,
            json_pack("{s:s, s:o, s:s, s:s}", "file", message->file, "line",
                      message->line > 0 ? json_integer(message->line) : json_null(), "severity",
                      message->warning ? "warning" : "error", "text", message->text));
    }
    return list;
}

/* `errors`: what is wrong with the configuration; NULL: something else. */
static void tell_refused(const struct reload *reload, const struct problem *problem,
                         const struct config_errors *errors)
{
    const bool listed = errors != NULL && errors->count > 0;
    const struct reload_outcome outcome = {.error = problem->error,
                                           .text = problem->text,
                                           .problems = listed ? list_problems(errors) : NULL};
    event_raise(&(struct event_subject){.kind = EVENT_RELOAD, .severity = LOG_LEVEL_ERROR},
                "reload refused: %s; the configuration in use stays", problem->text);
    reload->host.finished(reload->host.context, &outcome);
    json_decref(outcome.problems);
}

static int connect_made(const struct reload *reload)
{
    struct reload_work *work = reload->work;
    int error = devices_connect(reload->process->devices, &work->problem);
    for (uint32_t i = 0; error >= 0 && i < work->made_count; i++)
        error = pipeline_connect(work->made[i], &work->problem);
    return error < 0 ? error : 0;
}

/* Whether another pipeline may go on in this one's epoch: its source is replaced too, and waits. */
static bool may_go_on(const struct reload *reload, const struct pipeline *old)
{
    if (old->upstream == NULL)
        return succession_possible(old);
    for (uint32_t i = 0; i < reload->swap.count; i++)
        if (reload->swap.pairs[i].old == old->upstream)
            return reload->swap.pairs[i].paused && succession_possible(old);
    return false;
}

/* Retires the pipeline, but leaves its epoch open. */
static void suspend(struct pipeline *pipeline)
{
    pipeline->retired = true;
    pipeline_pause(pipeline);
}

/* Retires the pipelines whose stream is gone or has changed; the others take what may change while
 * they run. Notes who takes whose place. */
static void retire_old(struct reload *reload)
{
    const struct config *config = reload->work->config;
    assert(config != NULL);
    struct pipeline *pipeline;
    for (uint32_t at = 0;
         (pipeline = pipelines_next(reload->process->pipelines, PIPELINES_RUNNING, &at)) != NULL;) {
        int index = config_find_stream(config, pipeline->stream_config->name);
        if (index >= 0 && strcmp(pipeline->stream_config->hash, config->streams[index].hash) == 0) {
            pipeline_change(pipeline, config, &config->streams[index]);
            continue;
        }
        struct pipeline *made = reload_work_made(reload->work, pipeline->stream_config->name);
        const bool paused = made != NULL && may_go_on(reload, pipeline);
        if (paused)
            suspend(pipeline);
        else
            pipelines_retire(pipeline);
        if (made != NULL)
            swap_add(&reload->swap, pipeline, made, paused);
        else
            reload->removed++;
        pipeline->removed = made == NULL;
    }
}

/* Starts a source, which has all it needs since it was connected. Should it fail all the same, its
 * stream is gone until the next reload. */
static void start(struct reload *reload, struct pipeline *pipeline)
{
    struct problem problem;
    if (pipeline_start(pipeline, &problem) == 0)
        return;
    log_error("reload: %s; the stream does not run until the next reload", problem.text);
    pipelines_retire(pipeline);
    reload->failed++;
}

static bool is_successor(const struct pipeline *made)
{
    return made->predecessor != NULL;
}

/* The new pipelines read; the old ones may still deliver. */
static void end_swap(struct reload *reload)
{
    struct process *process = reload->process;
    reload->failed += reload->swap.failed;
    if (!reload->host.keep_log_level)
        log_set_level(process->config->daemon.log_level);
    const struct reload_outcome outcome = {.kept = reload->work->kept,
                                           .changed = reload->work->made_count - reload->failed,
                                           .removed = reload->removed};
    event_raise(&(struct event_subject){.kind = EVENT_RELOAD, .severity = LOG_LEVEL_NOTICE},
                "reloaded: %u stream%s unchanged, %u changed or new, %u removed", outcome.kept,
                outcome.kept == 1 ? "" : "s", outcome.changed, outcome.removed);
    reload_work_free(reload->work);
    reload->work = NULL;
    begin_retirement(reload);
    reload->host.finished(reload->host.context, &outcome);
}

static void swap(struct reload *reload)
{
    struct process *process = reload->process;
    reload->removed = reload->failed = 0;
    swap_begin(&reload->swap, process->pipelines, clock_monotonic_ns(),
               process->config->daemon.drain_ns);
    /* The old sources read what has reached them and stop; the new ones read on from there. */
    retire_old(reload);
    add_made(reload, reload->work);
    process->config = reload->work->config;
    for (uint32_t i = 0; i < reload->work->made_count; i++)
        if (!is_successor(reload->work->made[i]))
            start(reload, reload->work->made[i]);
    reload->step = STEP_SWAPPING;
    swap_advance(&reload->swap, clock_monotonic_ns());
    pipelines_order(process->pipelines, process->config);
    if (swap_reads(&reload->swap))
        end_swap(reload);
    else
        reload->host.changed(reload->host.context);
}

/* The configuration that was read is in use, or soon nothing uses it. */
static void own_config(struct reload *reload, struct config *config)
{
    if (config != NULL)
        reload->owned[reload->owned_count++] = config;
}

static void on_prepared(struct reload *reload, struct reload_work *work)
{
    reload->work = work;
    own_config(reload, work->config);
    if (work->error == 0 && reload->process->stopping)
        work->error = problem_set(&work->problem, ERROR_CLOSED, "the daemon stops");
    if (work->error == 0)
        work->error = connect_made(reload);
    if (work->error == 0) {
        swap(reload);
        return;
    }
    reload->work = NULL;
    retire_made(reload, work);
    tell_refused(reload, &work->problem, &work->errors);
    reload_work_free(work);
}

static void on_returned(void *context, struct reload_work *work);

void reload_start(struct reload *reload)
{
    struct process *process = reload->process;
    struct problem problem;
    if (reload->step != STEP_IDLE) {
        reload->again = true;
        return;
    }
    log_notice("reading %s again", process->config->path);
    reload->host.started(reload->host.context);
    if (jobs_left_behind(JOB_OF_CHANGE) >= JOBS_LEFT_MAX) {
        problem_set(&problem, ERROR_LIMIT,
                    "%d changes or reloads hang already and were left behind; restart the daemon",
                    JOBS_LEFT_MAX);
        tell_refused(reload, &problem, NULL);
        return;
    }
    struct reload_work *work = reload_work_new(process, reload->host.numbers, on_returned, reload);
    if (work != NULL &&
        job_watch_start(&reload->watch, &work->job, process->config->daemon.prepare_ns) == 0) {
        reload->step = STEP_PREPARING;
        return;
    }
    reload_work_free(work);
    problem_set(&problem, ERROR_SYSTEM, "no thread or no memory for it");
    tell_refused(reload, &problem, NULL);
}

bool reload_busy(const struct reload *reload)
{
    return reload->step == STEP_PREPARING;
}

/* ---- replaced pipelines ------------------------------------------------------------------ */

static void release(struct job *job)
{
    struct release *released = (struct release *)job;
    for (; released->count > 0; released->count--) {
        struct pipeline *pipeline = released->pipelines[released->count - 1];
        job_step(job, pipeline->stream_config->name, "it is freed", pipeline->engine);
        pipelines_destroy(pipeline);
        job_step(job, "", NULL, NULL);
        config_free(released->configs[released->count - 1]);
    }
}

static void free_release(struct job *job)
{
    job_close(job);
    free(job);
}

/* False: no memory. */
static bool take_retired(struct reload *reload)
{
    struct pipelines *pipelines = reload->process->pipelines;
    struct release *released = calloc(1, sizeof *released);
    if (released == NULL)
        return false;
    job_open(&released->job, JOB_OF_CHANGE, release, free_release);
    pipelines_unschedule(pipelines, PIPELINES_RETIRED);
    released->count = pipelines_take_retired(pipelines, released->pipelines);
    for (uint32_t i = 0; i < released->count; i++)
        numbers_keep_retired(reload->host.numbers, released->pipelines[i]);
    for (uint32_t i = 0; i < released->count; i++)
        released->configs[i] = config_hold(released->pipelines[i]->config);
    reload->released = released;
    return true;
}

static void free_configs(struct reload *reload)
{
    const struct process *process = reload->process;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < reload->owned_count; i++) {
        struct config *config = reload->owned[i];
        if (config == process->config || pipelines_use_config(process->pipelines, config))
            reload->owned[kept++] = config;
        else
            config_free(config);
    }
    reload->owned_count = kept;
}

/* What hung and is back goes the way of what is replaced. What it reads may be gone. */
static bool retire_returned(struct reload *reload)
{
    pthread_mutex_lock(&reload->mutex);
    struct reload_work *work = reload->returned;
    if (work != NULL) {
        own_config(reload, work->config);
        for (uint32_t i = 0; i < work->made_count; i++)
            work->made[i]->upstream = NULL;
        retire_made(reload, work);
        reload->returned = work->next;
        work->made_count = 0;
        work->pipelines = NULL; /* taken */
        pthread_cond_broadcast(&reload->taken);
    }
    pthread_mutex_unlock(&reload->mutex);
    return work != NULL;
}

/* Nothing is under way: whatever waits comes next. */
static void rest(struct reload *reload)
{
    reload->step = STEP_IDLE;
    if (reload->process->phase != PROCESS_RUNNING || reload->process->stopping)
        return;
    if (!retire_returned(reload) && reload->again) {
        reload->again = false;
        reload_start(reload);
    }
}

static void on_released(struct reload *reload)
{
    free_configs(reload);
    rest(reload);
    reload->host.changed(reload->host.context);
}

static void close_retired_sinks(struct reload *reload)
{
    const struct process *process = reload->process;
    pipelines_close_sinks(process->pipelines, PIPELINES_RETIRED,
                          clock_monotonic_ns() + process->config->daemon.drain_ns);
}

void reload_settle(struct reload *reload)
{
    swap_stop(&reload->swap);
    swap_advance(&reload->swap, clock_monotonic_ns());
}

bool reload_has_open_epoch(const struct reload *reload)
{
    return swap_has_open_epoch(&reload->swap);
}

bool reload_settled(const struct reload *reload)
{
    return swap_is_through(&reload->swap);
}

void reload_cut(struct reload *reload)
{
    swap_cut(&reload->swap, clock_monotonic_ns());
}

bool reload_advance(struct reload *reload)
{
    struct process *process = reload->process;
    struct pipelines *pipelines = process->pipelines;
    swap_advance(&reload->swap, clock_monotonic_ns());
    if (reload->step == STEP_SWAPPING && swap_reads(&reload->swap))
        end_swap(reload);
    if (reload->step == STEP_DRAINING && pipelines_drain(pipelines, PIPELINES_RETIRED) &&
        swap_is_through(&reload->swap)) {
        reload->step = STEP_CLOSING_SINKS;
        close_retired_sinks(reload);
    }
    if (reload->step == STEP_CLOSING_SINKS &&
        pipelines_closing(pipelines, PIPELINES_RETIRED) == 0) {
        reload->step = STEP_CLOSING_SOURCES;
        pipelines_close_sources(pipelines, PIPELINES_RETIRED);
    }
    if (reload->step == STEP_CLOSING_SOURCES &&
        pipelines_closing(pipelines, PIPELINES_RETIRED) == 0) {
        if (reload->released == NULL && !take_retired(reload))
            return true; /* the next tick tries again, and so below */
        if (job_watch_start(&reload->watch, &reload->released->job,
                            process->config->daemon.prepare_ns) == 0)
            reload->step = STEP_RELEASING;
    }
    return reload->step == STEP_SWAPPING || reload->step == STEP_DRAINING ||
           reload->step == STEP_CLOSING_SINKS || reload->step == STEP_CLOSING_SOURCES;
}

/* ---- jobs -------------------------------------------------------------------------------- */

static void on_done(void *context, struct job *job)
{
    struct reload *reload = context;
    if (reload->step == STEP_PREPARING) {
        on_prepared(reload, (struct reload_work *)job);
        return;
    }
    free_release(job);
    reload->released = NULL;
    on_released(reload);
}

/* The job was left behind, with all it has. */
static void on_late(void *context, const char *stream, const char *step, struct engine *engine)
{
    struct reload *reload = context;
    struct problem problem;
    const bool named = stream != NULL && stream[0] != '\0';
    problem_set(&problem, engine != NULL ? ERROR_DEVICE : ERROR_SYSTEM,
                "%s%s%sit hangs: %s, for longer than `prepare timeout`; its thread is left behind "
                "(%u of at most %d)",
                named ? "stream " : "", named ? stream : "", named ? ": " : "",
                step != NULL ? step : "it does not begin", jobs_left_behind(JOB_OF_CHANGE),
                JOBS_LEFT_MAX);
    if (engine != NULL)
        takeover_note_hung(reload->process->takeover, engine);
    if (reload->step == STEP_PREPARING) {
        handover_share(reload->process->environment->handover, false);
        tell_refused(reload, &problem, NULL);
    } else {
        log_error("what a reload has replaced cannot be freed: %s", problem.text);
        reload->released = NULL;
    }
    on_released(reload);
}

/* The thread of work that was left behind. */
static void on_returned(void *context, struct reload_work *work)
{
    struct reload *reload = context;
    pthread_mutex_lock(&reload->mutex);
    work->next = reload->returned;
    reload->returned = work;
    if (!reload->closed)
        loop_bell_ring(&reload->back);
    while (work->pipelines != NULL) /* at the end of the process for ever */
        pthread_cond_wait(&reload->taken, &reload->mutex);
    pthread_mutex_unlock(&reload->mutex);
    reload_work_free(work);
}

static void on_back(void *context)
{
    struct reload *reload = context;
    if (reload->step == STEP_IDLE)
        rest(reload);
}

/* ---- life -------------------------------------------------------------------------------- */

int reload_open(const struct reload_host *host, struct reload **out)
{
    struct reload *reload = calloc(1, sizeof *reload);
    if (reload == NULL)
        return ERROR_MEMORY;
    reload->host = *host;
    reload->process = host->process;
    reload->watch.done = on_done;
    reload->watch.late = on_late;
    reload->watch.context = reload;
    job_watch_open(&reload->watch, host->process->environment->loop);
    loop_bell_open(&reload->back, host->process->environment->loop, on_back, reload);
    pthread_mutex_init(&reload->mutex, NULL);
    pthread_cond_init(&reload->taken, NULL);
    *out = reload;
    return 0;
}

void reload_stop(struct reload *reload)
{
    if (reload == NULL)
        return;
    pthread_mutex_lock(&reload->mutex);
    reload->closed = true;
    pthread_mutex_unlock(&reload->mutex);
    loop_bell_close(&reload->back, NULL);
    assert(reload->step != STEP_PREPARING);
    if (reload->step == STEP_SWAPPING)
        log_warning("reload cut off: the daemon stops");
    struct job *job = job_watch_close(&reload->watch);
    if (job != NULL) /* pipelines that were freed just now */
        free_release(job);
}

void reload_close(struct reload *reload)
{
    if (reload == NULL)
        return;
    for (uint32_t i = 0; i < reload->owned_count; i++)
        config_free(reload->owned[i]);
    reload_work_free(reload->work); /* a stop cut its succession off */
    pthread_cond_destroy(&reload->taken);
    pthread_mutex_destroy(&reload->mutex);
    free(reload);
}
