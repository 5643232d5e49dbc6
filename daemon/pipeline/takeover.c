/* Takeover by the next device: see takeover.h. preparation.c makes plans and rings there. */
#include "pipeline/takeover.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/event.h"
#include "core/log.h"
#include "core/loop_bell.h"
#include "pipeline/closing.h"
#include "pipeline/job.h"
#include "pipeline/leftover.h"
#include "pipeline/preparation.h"
#include "pipeline/self_check.h"
#include "pipeline/takeover_log.h"
#include "stream/move.h"

enum { TICK_MS = 100 };

/* A device may take so much of its time for streams that it takes over. */
static const double load_max = 0.9;

/* A lost device is tried again so long after, twice as long after each failure. */
static const int64_t backoff_first_ns = NS_PER_SECOND, backoff_most_ns = 60 * NS_PER_SECOND;
/* After so long without a loss the next one counts as the first. */
static const int64_t forgiven_ns = 600 * NS_PER_SECOND;
/* After a change of filters its plan is prepared elsewhere only once the changes pause. */
static const int64_t settled_ns = NS_PER_SECOND;
/* What could not be prepared is tried again so much later. */
static const int64_t refused_again_ns = 60 * NS_PER_SECOND;
/* A thread that is not back by then hangs in the driver. */
static const int64_t preparation_most_ns = 60 * NS_PER_SECOND;

enum { JOB_STANDBY, JOB_REBUILD, JOBS };

struct takeover {
    uv_loop_t *loop;
    const struct config *config;
    struct devices *devices;
    struct pipelines *pipelines;
    struct loop_bell bell; /* a preparation is through */
    uv_timer_t timer;
    struct preparation *jobs[JOBS]; /* one of each kind at a time; NULL: none */
    bool started, closing;
    bool returning; /* streams wait until nothing of them is in flight */
    int open_handles;
};

/* ---- figures ----------------------------------------------------------------------------- */

uint32_t takeover_abandoned(void)
{
    return engines_abandoned() + jobs_left_behind(JOB_ON_DEVICE);
}

/* Set at the close, for good: a thread that comes back later must not find its devices freed. */
static _Atomic bool uses_devices;

void takeover_free_devices(struct devices *devices)
{
    if (!atomic_load(&uses_devices))
        devices_free(devices);
}

bool takeover_left_behind(void)
{
    return atomic_load(&uses_devices) || takeover_abandoned() > 0 || !closings_end(0);
}

static double load_of(const struct pipeline *pipeline, const struct plan *plan)
{
    const uint32_t blocks = pipeline->stream_config->blocks_max;
    if (!stream_is_live(pipeline->stream))
        return 0; /* it waits for the device */
    return (double)plan_cost_ns(plan, blocks) / (blocks * stream_block_period_ns(pipeline->stream));
}

/* What the device computes, or would if it took over all that it stands by for. */
static double promised_load(const struct takeover *takeover, const struct placement *placement)
{
    const struct pipeline *pipeline;
    double load = 0;
    for (uint32_t at = 0;
         (pipeline = pipelines_next(takeover->pipelines, PIPELINES_RUNNING, &at)) != NULL;) {
        if (pipeline->placement == placement)
            load += load_of(pipeline, pipeline->plan);
        else if (pipeline->standby.placement == placement)
            load += pipeline->standby.load;
    }
    return load;
}

static const char *name_of(const struct placement *placement)
{
    return engine_device(placement->engine)->name;
}

/* ---- which device ------------------------------------------------------------------------ */

static bool takes_part(const struct pipeline *pipeline)
{
    return pipeline->scheduled && pipeline->stream != NULL && pipeline->recipe != NULL &&
           !pipeline_direct_only(pipeline);
}

static uint32_t rank_of(const struct pipeline *pipeline, const struct placement *placement)
{
    uint32_t rank = 0;
    while (rank < pipeline->choice_count && pipeline->choices[rank] != placement)
        rank++;
    return rank;
}

/* The device that this stream needs a plan on now: the first that works, besides its own. */
static struct placement *wanted_for(const struct pipeline *pipeline)
{
    for (uint32_t i = 0; i < pipeline->choice_count; i++) {
        struct placement *placement = pipeline->choices[i];
        const bool own = placement == pipeline->placement && !stream_halted(pipeline->stream);
        if (!own && !placement->down && placement->scheduler != NULL)
            return placement;
    }
    return NULL;
}

static bool stands_by(const struct pipeline *pipeline)
{
    const struct standby *standby = &pipeline->standby;
    return standby->placement != NULL && standby->recipe == pipeline->recipe &&
           !standby->placement->down && engine_owns(standby->placement->engine, standby->plan);
}

const struct placement *takeover_standby(const struct pipeline *pipeline)
{
    return stands_by(pipeline) ? pipeline->standby.placement : NULL;
}

/* ---- what stands by ---------------------------------------------------------------------- */

static void drop_standby(struct pipeline *pipeline)
{
    struct standby *standby = &pipeline->standby;
    if (standby->placement == NULL)
        return;
    leftover_close(standby->placement->engine, standby->plan, standby->ring, standby->recipe);
    standby->placement = NULL;
    standby->plan = NULL;
    standby->ring = NULL;
    standby->recipe = NULL;
}

static void refuse(struct pipeline *pipeline, const struct placement *placement, const char *why)
{
    if (pipeline->standby.refused != pipeline->recipe)
        log_notice("stream %s: device %d (%s) does not stand by: %s", pipeline->stream_config->name,
                   placement->index, name_of(placement), why);
    pipeline->standby.refused = pipeline->recipe;
    pipeline->standby.refused_ns = clock_monotonic_ns();
}

/* A prepared plan and ring become what stands by, unless the stream has changed meanwhile. */
static void adopt(struct takeover *takeover, struct preparation *job, struct prepared *prepared)
{
    struct pipeline *pipeline;
    for (uint32_t at = 0;
         (pipeline = pipelines_next(takeover->pipelines, PIPELINES_ALL, &at)) != NULL;)
        if (pipeline->recipe == prepared->recipe && takes_part(pipeline))
            break;
    if (pipeline == NULL)
        return;
    if (prepared->error < 0) {
        refuse(pipeline, job->placement, prepared->problem.text);
        return;
    }
    const double load = load_of(pipeline, prepared->plan);
    const bool again = pipeline->standby.placement == job->placement;
    const double before =
        promised_load(takeover, job->placement) - (again ? pipeline->standby.load : 0);
    const bool better = rank_of(pipeline, job->placement) < rank_of(pipeline, pipeline->placement);
    if (!better && load > 0 && before + load > load_max) {
        struct problem problem;
        problem_set(&problem, ERROR_LIMIT, "its load would be %.0f %%, more than %.0f %%",
                    100 * (before + load), 100 * load_max);
        refuse(pipeline, job->placement, problem.text);
        return;
    }
    drop_standby(pipeline);
    pipeline->standby.placement = job->placement;
    pipeline->standby.recipe = prepared->recipe;
    pipeline->standby.plan = prepared->plan;
    pipeline->standby.ring = prepared->ring;
    pipeline->standby.load = load;
    pipeline->standby.refused = NULL;
    prepared->recipe = NULL;
    prepared->plan = NULL;
    prepared->ring = NULL;
}

/* ---- moving ------------------------------------------------------------------------------ */

static void move(struct pipeline *pipeline)
{
    struct standby *standby = &pipeline->standby;
    const struct stream_home to = {standby->placement->engine, standby->plan, standby->ring};
    struct placement *before = pipeline->placement;
    struct stream_home from;
    const bool works = !before->down && !stream_halted(pipeline->stream);
    scheduler_remove(before->scheduler, pipeline->stream);
    stream_move(pipeline->stream, &to, &from);
    pipeline->plan = to.plan;
    pipeline->engine = to.engine;
    pipeline->placement = standby->placement;
    pipeline->scheduler = standby->placement->scheduler;
    int error = scheduler_add(pipeline->scheduler, pipeline->stream);
    if (error < 0)
        log_error("stream %s: its device has too many streams", pipeline->stream_config->name);
    standby->plan = NULL;
    standby->ring = NULL;
    if (works) { /* what it leaves stands by from now on */
        standby->placement = before;
        standby->plan = from.plan;
        standby->ring = from.ring;
        standby->load = load_of(pipeline, from.plan);
    } else {
        standby->placement = NULL;
        leftover_close(from.engine, from.plan, from.ring, standby->recipe);
        standby->recipe = NULL;
    }
}

/* Whether the stream is to go back to a device that it would rather run on. */
static bool returns(const struct pipeline *pipeline)
{
    return stands_by(pipeline) && !stream_changing(pipeline->stream) &&
           rank_of(pipeline, pipeline->standby.placement) < rank_of(pipeline, pipeline->placement);
}

/* Halted streams go where something stands by; the others back to a better device, as soon as
 * nothing of them is in flight. */
static void move_all(struct takeover *takeover)
{
    struct pipeline *pipeline;
    takeover->returning = false;
    for (uint32_t at = 0;
         (pipeline = pipelines_next(takeover->pipelines, PIPELINES_ALL, &at)) != NULL;) {
        if (!takes_part(pipeline))
            continue;
        if (stream_halted(pipeline->stream)) {
            const bool changing =
                stream_changing(pipeline->stream); /* it hands on raw input first */
            if (stands_by(pipeline) && !changing)
                move(pipeline);
            takeover->returning = takeover->returning || changing;
            continue;
        }
        const bool leaves = returns(pipeline);
        stream_pause(pipeline->stream, leaves);
        if (leaves && stream_can_move(pipeline->stream))
            move(pipeline);
        else if (leaves)
            takeover->returning = true;
    }
}

void takeover_progress(struct takeover *takeover, uint32_t loop)
{
    if (takeover->returning && loop == 0)
        move_all(takeover);
    else if (takeover->returning)
        loop_bell_ring(&takeover->bell);
}

/* ---- a loss ------------------------------------------------------------------------------ */

static void note_loss(struct placement *placement, enum engine_loss cause)
{
    const int64_t now_ns = clock_monotonic_ns();
    if (placement->lost_ns == 0 || now_ns - placement->lost_ns > forgiven_ns)
        placement->backoff_ns = backoff_first_ns;
    snprintf(placement->why, sizeof placement->why, "%s", engine_loss_detail(placement->engine));
    placement->losses[cause]++;
    placement->down = true;
    placement->lost_ns = now_ns;
    placement->retry_ns = now_ns + placement->backoff_ns;
}

static void back_off(struct placement *placement)
{
    placement->backoff_ns =
        placement->backoff_ns * 2 < backoff_most_ns ? placement->backoff_ns * 2 : backoff_most_ns;
}

/* The device computed wrong results, and nobody knows since when: flags those that were delivered
 * since the last check that held. */
static void doubt(struct pipeline *pipeline)
{
    struct doubted doubted;
    stream_doubt(pipeline->stream, self_check_held(pipeline->self_check), &doubted);
    self_check_doubted(pipeline->self_check, doubted.position);
    if (doubted.frames > 0)
        takeover_log_doubt(pipeline, &doubted);
}

static void on_lost(void *context, struct placement *placement)
{
    struct takeover *takeover = context;
    const enum engine_loss cause = engine_lost(placement->engine);
    struct pipeline *pipeline;
    note_loss(placement, cause);
    engine_abandon(placement->engine);
    for (uint32_t at = 0;
         (pipeline = pipelines_next(takeover->pipelines, PIPELINES_ALL, &at)) != NULL;) {
        pipeline->lost_from = NULL;
        if (pipeline->standby.placement == placement)
            drop_standby(pipeline);
        if (pipeline->placement != placement || !pipeline->scheduled)
            continue;
        pipeline->lost_from = placement;
        if (cause == ENGINE_LOSS_WRONG_RESULT)
            doubt(pipeline);
        stream_halt(pipeline->stream);
    }
    move_all(takeover);
    takeover_log_loss(takeover->pipelines, placement, cause);
    back_off(placement);
}

void takeover_note_hung(struct takeover *takeover, struct engine *engine)
{
    const struct pipeline *pipeline;
    for (uint32_t at = 0;
         (pipeline = pipelines_next(takeover->pipelines, PIPELINES_RUNNING, &at)) != NULL;)
        if (pipeline->engine == engine && takes_part(pipeline) && !stands_by(pipeline)) {
            takeover_log_tied(pipeline);
            return;
        }
    engine_declare_lost(engine, ENGINE_LOSS_STALLED, "preparing a plan does not come back");
}

/* ---- preparing in the background --------------------------------------------------------- */

static bool is_prepared_by(const struct preparation *job, const struct pipeline *pipeline)
{
    for (uint32_t i = 0; job != NULL && i < job->count; i++)
        if (job->prepared[i].recipe == pipeline->recipe)
            return true;
    return false;
}

static bool needs(const struct takeover *takeover, const struct pipeline *pipeline,
                  const struct placement *placement, int64_t now_ns)
{
    const struct standby *standby = &pipeline->standby;
    return takes_part(pipeline) && !pipeline->retired && !pipeline->ended &&
           wanted_for(pipeline) == placement &&
           !(stands_by(pipeline) && standby->placement == placement) &&
           (stream_halted(pipeline->stream) || now_ns - standby->changed_ns > settled_ns) &&
           (standby->refused != pipeline->recipe ||
            now_ns - standby->refused_ns > refused_again_ns) &&
           !is_prepared_by(takeover->jobs[JOB_REBUILD], pipeline);
}

static void on_prepared(void *context)
{
    struct takeover *takeover = context;
    loop_bell_ring(&takeover->bell);
}

/* Begins to prepare what streams need on some device that works. */
static void prepare_standbys(struct takeover *takeover, int64_t now_ns)
{
    struct placement *placement;
    if (takeover->jobs[JOB_STANDBY] != NULL)
        return;
    for (uint32_t i = 0; (placement = devices_at(takeover->devices, i)) != NULL; i++) {
        struct preparation *job = NULL;
        struct pipeline *pipeline;
        for (uint32_t at = 0;
             (pipeline = pipelines_next(takeover->pipelines, PIPELINES_ALL, &at)) != NULL;) {
            if (placement->down || !needs(takeover, pipeline, placement, now_ns))
                continue;
            if (job == NULL)
                job = preparation_new(placement, placement->engine, takeover->config);
            if (job != NULL)
                preparation_add(job, pipeline);
        }
        if (job == NULL)
            continue;
        if (preparation_start(job, on_prepared, takeover) == 0)
            takeover->jobs[JOB_STANDBY] = job;
        return;
    }
}

/* Whether a lost device may be tried again: not while so much is left behind, and what comes to
 * rest is closed. */
static bool may_try(const struct takeover *takeover, struct placement *placement)
{
    if (placement->ended)
        return false;
    const bool full = takeover_abandoned() >= ABANDONED_MAX;
    if (full && !placement->given_up) {
        log_error("device %d (%s) is not tried again: %u lost devices are left behind in this "
                  "process, and their drivers do not answer; restart the daemon to use it",
                  placement->index, name_of(placement), takeover_abandoned());
        placement->given_up = true;
        takeover_log_dead(takeover->pipelines);
    } else if (!full && placement->given_up) {
        log_notice("device %d (%s) is tried again: the driver of one left behind has answered",
                   placement->index, name_of(placement));
        placement->given_up = false;
    }
    return !placement->given_up;
}

/* Begins to open a lost device again, with plans for the streams that would rather run there. */
static void rebuild(struct takeover *takeover, int64_t now_ns)
{
    struct placement *placement;
    for (uint32_t i = 0; (placement = devices_at(takeover->devices, i)) != NULL; i++) {
        struct pipeline *pipeline;
        if (!placement->down || !may_try(takeover, placement))
            continue;
        if (takeover->jobs[JOB_REBUILD] != NULL || now_ns < placement->retry_ns)
            continue;
        struct preparation *job = preparation_new(placement, NULL, takeover->config);
        if (job == NULL)
            return;
        for (uint32_t at = 0;
             (pipeline = pipelines_next(takeover->pipelines, PIPELINES_ALL, &at)) != NULL;) {
            const uint32_t rank = rank_of(pipeline, placement);
            if (takes_part(pipeline) && rank < pipeline->choice_count && !pipeline->retired &&
                (rank < rank_of(pipeline, pipeline->placement) || stream_halted(pipeline->stream)))
                preparation_add(job, pipeline);
        }
        placement->attempts++;
        if (preparation_start(job, on_prepared, takeover) == 0)
            takeover->jobs[JOB_REBUILD] = job;
    }
}

/* A device on which nothing could be prepared is no better than a lost one. */
static bool usable(const struct preparation *job)
{
    bool any = job->count == 0;
    for (uint32_t i = 0; i < job->count; i++)
        any = any || job->prepared[i].error == 0;
    return job->error == 0 && any && engine_lost(job->engine) == ENGINE_WORKS;
}

static void end(const struct takeover *takeover, struct placement *placement, const char *why)
{
    placement->ended = placement->given_up = true;
    snprintf(placement->why, sizeof placement->why, "%s", why);
    log_error("device %d (%s) is not tried again: %s; restart the daemon to use it",
              placement->index, name_of(placement), why);
    takeover_log_dead(takeover->pipelines);
}

static void take_rebuilt(const struct takeover *takeover, struct preparation *job)
{
    struct placement *placement = job->placement;
    if (job->error == ERROR_DRIVER) {
        end(takeover, placement, preparation_why(job));
        return;
    }
    if (!usable(job)) {
        snprintf(placement->why, sizeof placement->why, "%s", preparation_why(job));
        placement->retry_ns = clock_monotonic_ns() + placement->backoff_ns;
        log_warning("device %d (%s) cannot be used yet: %s; tried again in %.0f s",
                    placement->index, name_of(placement), placement->why,
                    (double)placement->backoff_ns / NS_PER_SECOND);
        back_off(placement);
        return;
    }
    devices_replace(placement, job->engine);
    job->engine = NULL;
    placement->down = false;
    placement->returns++;
    event_raise(&(struct event_subject){.kind = EVENT_DEVICE, .severity = LOG_LEVEL_NOTICE},
                "device %d (%s) works again, after %.1f s; its streams return", placement->index,
                name_of(placement),
                (double)(clock_monotonic_ns() - placement->lost_ns) / NS_PER_SECOND);
}

static void finish_jobs(struct takeover *takeover)
{
    for (int k = 0; k < JOBS; k++) {
        struct preparation *job = takeover->jobs[k];
        if (job == NULL || !job_through(&job->job))
            continue;
        takeover->jobs[k] = NULL;
        if (k == JOB_REBUILD)
            take_rebuilt(takeover, job);
        const bool current =
            !job->placement->down && (k == JOB_REBUILD || job->engine == job->placement->engine);
        for (uint32_t i = 0; current && i < job->count; i++)
            adopt(takeover, job, &job->prepared[i]);
        preparation_close_later(job);
    }
}

static void leave_hung_jobs(struct takeover *takeover, int64_t now_ns)
{
    for (int k = 0; k < JOBS; k++) {
        struct preparation *job = takeover->jobs[k];
        if (job == NULL || now_ns - job->begun_ns < preparation_most_ns)
            continue;
        struct placement *placement = job->placement;
        if (!job_leave(&job->job))
            continue; /* through just now */
        takeover->jobs[k] = NULL;
        log_warning("device %d (%s): preparing plans there does not come back; its thread is left "
                    "behind",
                    placement->index, name_of(placement));
        if (k == JOB_REBUILD) {
            placement->retry_ns = now_ns + placement->backoff_ns;
            back_off(placement);
        } else {
            engine_declare_lost(placement->engine, ENGINE_LOSS_STALLED,
                                "preparing a plan does not come back");
        }
    }
}

/* Streams that have ended and that nothing can compute any more come to their end. */
static void give_up(struct takeover *takeover)
{
    struct pipeline *pipeline;
    for (uint32_t at = 0;
         (pipeline = pipelines_next(takeover->pipelines, PIPELINES_ALL, &at)) != NULL;) {
        bool hope = !takes_part(pipeline) || !stream_halted(pipeline->stream) || !pipeline->ended;
        for (uint32_t i = 0; i < pipeline->choice_count; i++)
            hope = hope || !pipeline->choices[i]->down || !pipeline->choices[i]->given_up;
        if (!hope)
            stream_give_up(pipeline->stream);
    }
}

static void advance(struct takeover *takeover)
{
    if (!takeover->started || takeover->closing)
        return;
    const int64_t now_ns = clock_monotonic_ns();
    engines_reclaim();
    finish_jobs(takeover);
    leave_hung_jobs(takeover, now_ns);
    move_all(takeover);
    rebuild(takeover, now_ns);
    prepare_standbys(takeover, now_ns);
    give_up(takeover);
}

static void on_rung(void *context)
{
    advance(context);
}

static void on_timer(uv_timer_t *timer)
{
    advance(timer->data);
}

/* ---- life -------------------------------------------------------------------------------- */

int takeover_open(uv_loop_t *loop, const struct config *config, struct devices *devices,
                  struct pipelines *pipelines, struct takeover **out)
{
    struct takeover *takeover = calloc(1, sizeof *takeover);
    if (takeover == NULL)
        return ERROR_MEMORY;
    *takeover = (struct takeover){
        .loop = loop, .config = config, .devices = devices, .pipelines = pipelines};
    loop_bell_open(&takeover->bell, loop, on_rung, takeover);
    uv_timer_init(loop, &takeover->timer);
    takeover->timer.data = takeover;
    devices_on_lost(devices, on_lost, takeover);
    *out = takeover;
    return 0;
}

void takeover_start(struct takeover *takeover)
{
    takeover->started = true;
    uv_timer_start(&takeover->timer, on_timer, TICK_MS, TICK_MS);
}

static void on_closed(uv_handle_t *handle)
{
    struct takeover *takeover = handle->data;
    if (--takeover->open_handles == 0)
        free(takeover);
}

void takeover_close(struct takeover *takeover)
{
    if (takeover == NULL)
        return;
    takeover->closing = true;
    for (int k = 0; k < JOBS; k++) {
        if (takeover->jobs[k] != NULL && job_leave(&takeover->jobs[k]->job))
            atomic_store(&uses_devices, true);
        else if (takeover->jobs[k] != NULL)
            preparation_close_later(takeover->jobs[k]);
        takeover->jobs[k] = NULL;
    }
    takeover->open_handles = 2;
    loop_bell_close(&takeover->bell, on_closed);
    uv_close((uv_handle_t *)&takeover->timer, on_closed);
}
