/* Reload: see reload.h. `prepare` and `release` run on workers, the rest on the loop thread. */
#include "service/reload.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/event.h"
#include "core/host_memory.h"
#include "core/log.h"
#include "core/quantity.h"
#include "io/net/handover.h"
#include "pipeline/heritage.h"
#include "pipeline/succession.h"
#include "report/check.h"
#include "report/memory.h"

enum { CONFIGS_MAX = PIPELINES_MAX + 2, PACKETS_AHEAD = 4096 };

enum step {
    STEP_IDLE,
    STEP_PREPARING,  /* on a worker */
    STEP_SUCCEEDING, /* what changed streams have received is on its way to their sinks */
    STEP_DRAINING,   /* what was replaced comes to its end */
    STEP_CLOSING_SINKS,
    STEP_CLOSING_SOURCES,
    STEP_RELEASING, /* on a worker */
};

/* Successors begin when their predecessors have handed everything on, but no later than this: their
 * datagrams wait in the kernel's buffer meanwhile. */
static const int64_t succession_ns = 500 * NS_PER_MS;

/* A stream that has changed, and what takes its place. */
struct pair {
    struct pipeline *old, *made;
    bool paused; /* the epoch of the old one is open: the new one is to go on in it */
};

struct reload {
    struct reload_host host;
    struct process *process;
    uv_work_t work;
    enum step step;
    bool again; /* another reload was asked for meanwhile */

    /* worker while preparing */
    struct config *config;
    struct pipeline *made[PIPELINES_MAX];
    uint32_t made_count, kept;
    int error;
    struct problem problem;
    struct heritage *heritages; /* of the running pipelines as the worker began */
    uint32_t heritage_count;

    /* loop, STEP_SUCCEEDING */
    struct pair pairs[PIPELINES_MAX];
    uint32_t pair_count, removed, failed;
    int64_t succession_deadline_ns;

    /* worker while releasing */
    struct pipeline *released[PIPELINES_MAX];
    uint32_t released_count;

    struct config *owned[CONFIGS_MAX]; /* configurations read here; freed when nothing uses them */
    uint32_t owned_count;
};

/* ---- prepare: worker thread --------------------------------------------------------------------
 */

/* Messages about the configuration go to the log, each with file and line. */
static int read_config(struct reload *reload)
{
    struct config_errors errors = {0};
    const char *path = reload->process->config->path;
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
    if (strcmp(reload->config->fixed_hash, reload->process->config->fixed_hash) == 0)
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

/* Receivers are to know the new pipeline as they knew the one of the same name. */
static void introduce(struct reload *reload, struct pipeline *pipeline)
{
    for (uint32_t i = 0; i < reload->heritage_count; i++) {
        const struct heritage *heritage = &reload->heritages[i];
        if (strcmp(heritage->stream, pipeline->stream_config->name) != 0)
            continue;
        pipeline->heritage = malloc(sizeof *heritage);
        if (pipeline->heritage != NULL)
            *pipeline->heritage = *heritage;
        return;
    }
}

/* Old and new streams must fit into memory together: what the new ones take at most, against what
 * is left beside those that run. */
static int check_memory(struct reload *reload)
{
    const struct config *config = reload->config;
    struct memory_figure figure = {0};
    for (uint32_t i = 0; i < config->stream_count; i++) {
        const struct config_stream *stream = &config->streams[i];
        struct check_plan plan;
        if (unchanged(pipelines_find(reload->process->pipelines, stream->name), stream))
            continue;
        int error = check_plan_make(config, stream, NULL, &plan, &reload->problem);
        if (error < 0)
            return error;
        const struct memory_plan planned = check_memory_plan(&plan);
        memory_add_stream(&figure, config, i, &planned);
    }
    const uint64_t left = host_memory_available("");
    if (memory_total(&figure) <= left)
        return 0;
    char needed_text[48], left_text[48];
    return problem_set(
        &reload->problem, ERROR_MEMORY,
        "the changed and new streams take up to %s beside those that run, and %s are left; make "
        "`queue` or `buffer` smaller (convolvd --check says what takes how much), or restart",
        quantity_print(DIMENSION_MEMORY, (double)memory_total(&figure), needed_text,
                       sizeof needed_text),
        quantity_print(DIMENSION_MEMORY, (double)left, left_text, sizeof left_text));
}

static int make_stream(struct reload *reload, uint32_t index)
{
    struct pipelines *pipelines = reload->process->pipelines;
    const struct config_stream *stream = &reload->config->streams[index];
    if (unchanged(pipelines_find(pipelines, stream->name), stream)) {
        reload->kept++;
        return 0;
    }
    struct pipeline *upstream = NULL;
    if (stream->upstream >= 0) {
        const char *name = reload->config->streams[stream->upstream].name;
        upstream = find_made(reload, name);
        if (upstream == NULL)
            upstream = pipelines_find(pipelines, name);
        assert(upstream != NULL);
    }
    if (pipelines_count(pipelines, PIPELINES_ALL) + reload->made_count == PIPELINES_MAX)
        return problem_set(&reload->problem, ERROR_LIMIT,
                           "more streams than there is room for; restart instead");
    struct pipeline *pipeline;
    int error =
        pipelines_make(pipelines, reload->config, index, upstream, &pipeline, &reload->problem);
    if (error < 0)
        return error;
    reload->made[reload->made_count++] = pipeline;
    introduce(reload, pipeline);
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
    if (reload->error == 0)
        reload->error = check_memory(reload);
    handover_share(reload->process->environment->handover, true);
    for (uint32_t i = 0; reload->error == 0 && i < reload->config->stream_count; i++)
        reload->error = make_stream(reload, i);
    handover_share(reload->process->environment->handover, false);
}

/* ---- swap: loop thread ------------------------------------------------------------------ */

static void begin_retirement(struct reload *reload)
{
    reload->step = STEP_DRAINING;
    reload->host.changed(reload->host.context);
}

/* From here on the registry owns the new pipelines and closes them with the others. */
static void add_made(struct reload *reload)
{
    for (uint32_t i = 0; i < reload->made_count; i++)
        pipelines_add(reload->process->pipelines, reload->made[i]);
}

static void refuse(struct reload *reload)
{
    event_raise(&(struct event_subject){.kind = EVENT_RELOAD, .severity = LOG_LEVEL_ERROR},
                "reload refused: %s; the configuration in use stays", reload->problem.text);
    add_made(reload);
    for (uint32_t i = 0; i < reload->made_count; i++)
        pipelines_retire(reload->made[i]);
    begin_retirement(reload);
}

static int connect_made(struct reload *reload)
{
    int connected = devices_connect(reload->process->devices, &reload->problem);
    if (connected < 0)
        return connected;
    for (uint32_t i = 0; i < reload->made_count; i++) {
        int error = pipeline_connect(reload->made[i], &reload->problem);
        if (error < 0)
            return error;
    }
    return 0;
}

/* Whether another pipeline may go on in this one's epoch: its source is replaced too, and waits. */
static bool may_go_on(const struct reload *reload, const struct pipeline *old)
{
    if (old->upstream == NULL)
        return succession_possible(old);
    for (uint32_t i = 0; i < reload->pair_count; i++)
        if (reload->pairs[i].old == old->upstream)
            return reload->pairs[i].paused && succession_possible(old);
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
    const struct config *config = reload->config;
    assert(config != NULL);
    struct pipeline *pipeline;
    for (uint32_t at = 0;
         (pipeline = pipelines_next(reload->process->pipelines, PIPELINES_RUNNING, &at)) != NULL;) {
        int index = config_find_stream(config, pipeline->stream_config->name);
        if (index >= 0 && unchanged(pipeline, &config->streams[index])) {
            pipeline_change(pipeline, config, &config->streams[index]);
            continue;
        }
        struct pipeline *made = find_made(reload, pipeline->stream_config->name);
        const bool paused = made != NULL && may_go_on(reload, pipeline);
        if (made != NULL)
            reload->pairs[reload->pair_count++] = (struct pair){pipeline, made, paused};
        else
            reload->removed++;
        if (paused)
            suspend(pipeline);
        else
            pipelines_retire(pipeline);
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

/* The new pipeline goes on with the numbers of the old one. `ahead`: packets that the old one may
 * still send. */
static void succeed(const struct pair *pair, uint16_t ahead)
{
    struct heritage heritage;
    pipeline_leave(pair->old, &heritage);
    for (uint32_t i = 0; i < heritage.sink_count; i++)
        heritage.sinks[i].identity.sequence += ahead;
    pipeline_inherit(pair->made, &heritage);
}

static bool is_successor(const struct reload *reload, const struct pipeline *made)
{
    for (uint32_t i = 0; i < reload->pair_count; i++)
        if (reload->pairs[i].made == made)
            return true;
    return false;
}

/*
 * The packets of a successor have the SSRC of its predecessor and follow its last one. So its
 * source starts when everything before has been sent. A stream that reads one that runs on gets
 * results at once.
 */
static bool waits(const struct pair *pair)
{
    const struct pipeline *made = pair->made;
    while (made->upstream != NULL)
        made = made->upstream;
    return !made->source_started;
}

static void begin_succession(struct reload *reload)
{
    for (uint32_t i = 0; i < reload->pair_count; i++)
        if (!waits(&reload->pairs[i]))
            succeed(&reload->pairs[i], PACKETS_AHEAD);
    for (uint32_t i = 0; i < reload->made_count; i++)
        if (!is_successor(reload, reload->made[i]))
            start(reload, reload->made[i]);
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < reload->pair_count; i++) {
        const struct pair pair = reload->pairs[i];
        if (waits(&pair))
            reload->pairs[waiting++] = pair;
        else
            start(reload, pair.made);
    }
    reload->pair_count = waiting;
    reload->succession_deadline_ns = clock_monotonic_ns() + succession_ns;
    reload->step = STEP_SUCCEEDING;
}

static void end_succession(struct reload *reload)
{
    struct process *process = reload->process;
    for (uint32_t i = 0; i < reload->pair_count; i++)
        if (!reload->pairs[i].made->resumed)
            succeed(&reload->pairs[i], 0);
    for (uint32_t i = 0; i < reload->pair_count; i++)
        start(reload, reload->pairs[i].made);
    reload->pair_count = 0;
    if (!reload->host.keep_log_level)
        log_set_level(process->config->daemon.log_level);
    const struct reload_outcome outcome = {.kept = reload->kept,
                                           .changed = reload->made_count - reload->failed,
                                           .removed = reload->removed};
    event_raise(&(struct event_subject){.kind = EVENT_RELOAD, .severity = LOG_LEVEL_NOTICE},
                "reloaded: %u stream%s unchanged, %u changed or new, %u removed", outcome.kept,
                outcome.kept == 1 ? "" : "s", outcome.changed, outcome.removed);
    reload->made_count = 0;
    begin_retirement(reload);
    reload->host.finished(reload->host.context, &outcome);
}

static void swap(struct reload *reload)
{
    struct process *process = reload->process;
    reload->pair_count = reload->removed = reload->failed = 0;
    /* The old sources read what has reached them and stop; the new ones read on from there. */
    retire_old(reload);
    add_made(reload);
    process->config = reload->config;
    begin_succession(reload);
    pipelines_order(process->pipelines, process->config);
    if (reload->pair_count == 0)
        end_succession(reload);
    else
        reload->host.changed(reload->host.context);
}

/* The new pipeline goes on in the epoch of the old one, or that one ends. */
static void go_on(struct pair *pair)
{
    struct problem problem;
    size_t count = 0;
    uint8_t *record = succession_writable(pair->old) ? succession_write(pair->old, &count) : NULL;
    int error = problem_set(&problem, ERROR_MEMORY, "its state cannot be carried over");
    if (record != NULL)
        error = succession_read(pair->made, record, count, true, &problem);
    free(record);
    pair->paused = false;
    if (error == 0) {
        succession_leave(pair->old, pair->made);
        return;
    }
    log_notice("stream %s begins a new epoch: %s", pair->made->stream_config->name, problem.text);
    pipelines_retire(pair->old);
}

/* False while a paused pipeline still computes what it has received. */
static bool all_went_on(struct reload *reload, bool late)
{
    for (uint32_t i = 0; !late && i < reload->pair_count; i++)
        if (reload->pairs[i].paused && !succession_ready(reload->pairs[i].old))
            return false;
    for (uint32_t i = 0; i < reload->pair_count; i++)
        if (reload->pairs[i].paused)
            go_on(&reload->pairs[i]);
    return true;
}

static bool handed_on(const struct reload *reload)
{
    for (uint32_t i = 0; i < reload->pair_count; i++)
        if (!pipeline_drained(reload->pairs[i].old))
            return false;
    return true;
}

static void on_prepared(uv_work_t *work, int status)
{
    struct reload *reload = work->data;
    (void)status; /* nobody cancels it */
    if (reload->config != NULL)
        reload->owned[reload->owned_count++] = reload->config;
    if (reload->error == 0 && reload->process->stopping)
        reload->error = problem_set(&reload->problem, ERROR_CLOSED, "the daemon stops");
    if (reload->error == 0)
        reload->error = connect_made(reload);
    free(reload->heritages);
    reload->heritages = NULL;
    if (reload->error == 0) {
        swap(reload);
        return;
    }
    refuse(reload);
    reload->made_count = 0;
    const struct reload_outcome outcome = {.error = reload->error, .text = reload->problem.text};
    reload->host.finished(reload->host.context, &outcome);
}

static void take_heritages(struct reload *reload)
{
    const struct pipelines *pipelines = reload->process->pipelines;
    const struct pipeline *pipeline;
    reload->heritage_count = 0;
    reload->heritages =
        malloc(pipelines_count(pipelines, PIPELINES_RUNNING) * sizeof *reload->heritages);
    for (uint32_t at = 0; reload->heritages != NULL &&
                          (pipeline = pipelines_next(pipelines, PIPELINES_RUNNING, &at)) != NULL;)
        pipeline_leave(pipeline, &reload->heritages[reload->heritage_count++]);
}

void reload_start(struct reload *reload)
{
    struct process *process = reload->process;
    if (reload->step != STEP_IDLE) {
        reload->again = true;
        return;
    }
    log_notice("reading %s again", process->config->path);
    reload->host.started(reload->host.context);
    take_heritages(reload);
    reload->step = STEP_PREPARING;
    uv_queue_work(process->environment->loop, &reload->work, prepare, on_prepared);
}

bool reload_busy(const struct reload *reload)
{
    return reload->step == STEP_PREPARING;
}

/* ---- replaced pipelines ------------------------------------------------------------------ */

static void release(uv_work_t *work)
{
    struct reload *reload = work->data;
    while (reload->released_count > 0)
        pipelines_destroy(reload->released[--reload->released_count]);
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

static void on_released(uv_work_t *work, int status)
{
    struct reload *reload = work->data;
    (void)status; /* nobody cancels it */
    free_configs(reload);
    reload->step = STEP_IDLE;
    if (reload->again && reload->process->phase == PROCESS_RUNNING && !reload->process->stopping) {
        reload->again = false;
        reload_start(reload);
    }
    reload->host.changed(reload->host.context);
}

static void close_retired_sinks(struct reload *reload)
{
    const struct process *process = reload->process;
    pipelines_close_sinks(process->pipelines, PIPELINES_RETIRED,
                          clock_monotonic_ns() + process->config->daemon.drain_ns);
}

bool reload_advance(struct reload *reload)
{
    struct process *process = reload->process;
    struct pipelines *pipelines = process->pipelines;
    if (reload->step == STEP_SUCCEEDING) {
        const bool late = clock_monotonic_ns() > reload->succession_deadline_ns;
        const bool went_on = all_went_on(reload, late);
        pipelines_drain(pipelines, PIPELINES_RETIRED);
        if ((went_on && handed_on(reload)) || late)
            end_succession(reload);
    }
    if (reload->step == STEP_DRAINING && pipelines_drain(pipelines, PIPELINES_RETIRED)) {
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
        reload->step = STEP_RELEASING;
        pipelines_unschedule(pipelines, PIPELINES_RETIRED);
        reload->released_count = pipelines_take_retired(pipelines, reload->released);
        uv_queue_work(process->environment->loop, &reload->work, release, on_released);
    }
    return reload->step == STEP_SUCCEEDING || reload->step == STEP_DRAINING ||
           reload->step == STEP_CLOSING_SINKS || reload->step == STEP_CLOSING_SOURCES;
}

/* ---- life -------------------------------------------------------------------------------- */

int reload_open(const struct reload_host *host, struct reload **out)
{
    struct reload *reload = calloc(1, sizeof *reload);
    if (reload == NULL)
        return ERROR_MEMORY;
    reload->host = *host;
    reload->process = host->process;
    reload->work.data = reload;
    *out = reload;
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
