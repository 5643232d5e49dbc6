/* Change requests: see changes.h. change_plans.c makes the plans; here are the queue, the checks
 * and the exchange. */
#include "control/changes.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "control/change_gains.h"
#include "control/change_checks.h"
#include "control/change_tell.h"
#include "control/change_plans.h"
#include "control/change_who.h"
#include "core/clock.h"
#include "core/log.h"
#include "stream/move.h"

enum { WAITING_MAX = 32 }; /* requests of one stream */

static const double overtake_s = 1; /* a filter this far ahead can be prepared again */

/* A request that waits; the name of its filter has become an index. */
struct waiting {
    struct change_request request;
    int filter;
};

/* Text that results carry: the hash of a plan's filters. */
struct hash_text {
    struct hash_text *next;
    char text[];
};

/* The changes of one stream. */
struct changed_stream {
    struct changed_stream *next;
    struct changes *changes;
    /* Pointers that may be stale: compared, not followed, until the pipeline is found running. With
     * the hash they tell a pipeline from a later one at the same address. */
    struct pipeline *pipeline;
    const struct stream *stream;
    char hash[CONFIG_HASH_TEXT];
    struct change_setting now;    /* of the plan in use */
    struct change_setting wanted; /* of the plan being prepared */
    struct config_edge *edges;    /* in use; NULL: as configured */
    struct change_gains gains;
    struct change_who filter_who; /* who asked for the filter */
    struct waiting waiting[WAITING_MAX];
    uint32_t waiting_count;
    struct log_limit limits[2];          /* of lines about gains, and about mutes */
    bool exchanging;                     /* an exchange waits for its frame, or fades */
    struct waiting pending[WAITING_MAX]; /* its requests, and what to go back to when it is
                                            cancelled */
    uint32_t pending_count;
    struct change_setting before;
    struct config_edge *edges_before;
    double delay_before_frames;
    struct pipeline_filter filter_before;
    struct plan *replaced[3]; /* used until the exchange is through; plan, mixed old and new */
};

struct changes {
    const struct process *process;
    void *context;
    void (*answered)(void *context, const struct change_answer *answer);
    struct changed_stream *streams;
    struct hash_text *hashes; /* each text once, as long as there are sinks */
    bool stopped, held;

    /* the change under way, and the job that prepares it */
    bool busy;
    struct job_watch watch;
    uv_idle_t copying; /* into a larger ring, before the exchange; its data NULL: not open */
    struct changed_stream *of;
    struct change_request request;
    struct change_request merged[WAITING_MAX]; /* take effect with it */
    uint32_t merged_count;
    struct change_plans *plans; /* through; NULL: none */
    int error;
    struct problem problem;
};

static void begin_next(struct changes *changes);
static void on_prepared(void *context, struct job *job);
static void on_late(void *context, const char *stream, const char *step, struct engine *engine);

/* ---- life -------------------------------------------------------------------------------- */

int changes_open(const struct process *process,
                 void (*answered)(void *context, const struct change_answer *answer), void *context,
                 struct changes **out)
{
    struct changes *changes = calloc(1, sizeof *changes);
    if (changes == NULL)
        return ERROR_MEMORY;
    changes->process = process;
    changes->context = context;
    changes->answered = answered;
    changes->watch.done = on_prepared;
    changes->watch.late = on_late;
    changes->watch.context = changes;
    job_watch_open(&changes->watch, process->environment->loop);
    *out = changes;
    return 0;
}

void changes_stop(struct changes *changes)
{
    changes->stopped = true;
    change_plans_drop((struct change_plans *)job_watch_close(&changes->watch));
    if (changes->copying.data != NULL)
        uv_close((uv_handle_t *)&changes->copying, NULL);
}

static void free_stream(struct changed_stream *s)
{
    for (int i = 0; i < 3; i++)
        plan_close(s->replaced[i]);
    change_setting_close(&s->now);
    change_setting_close(&s->wanted);
    change_setting_close(&s->before);
    change_gains_close(&s->gains);
    free(s->edges);
    free(s->edges_before);
    free(s);
}

void changes_forget(struct changes *changes)
{
    for (struct changed_stream **link = &changes->streams; *link != NULL;) {
        struct changed_stream *s = *link;
        if (pipelines_hold(changes->process->pipelines, s->pipeline)) {
            link = &s->next;
            continue;
        }
        *link = s->next;
        /* The plans of an exchange that was never through; the stream is gone. */
        if (change_plans_retire(NULL, s->replaced, NULL))
            memset(s->replaced, 0, sizeof s->replaced);
        free_stream(s);
    }
}

void changes_close(struct changes *changes)
{
    if (changes == NULL)
        return;
    assert(!changes->busy);
    while (changes->streams != NULL) {
        struct changed_stream *s = changes->streams;
        changes->streams = s->next;
        free_stream(s);
    }
    while (changes->hashes != NULL) {
        struct hash_text *hash = changes->hashes;
        changes->hashes = hash->next;
        free(hash);
    }
    free(changes);
}

/* ---- requests ---------------------------------------------------------------------------- */

static bool is_entry_of(const struct changed_stream *s, const struct pipeline *pipeline)
{
    return s->pipeline == pipeline && s->stream == pipeline->stream &&
           strcmp(s->hash, pipeline->stream_config->hash) == 0;
}

/* The entry of this pipeline, made when it is new; NULL: out of memory. */
static struct changed_stream *entry_of(struct changes *changes, struct pipeline *pipeline)
{
    for (struct changed_stream *s = changes->streams; s != NULL; s = s->next)
        if (is_entry_of(s, pipeline))
            return s;
    uint32_t outputs = pipeline->stream_config->output_count;
    struct changed_stream *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    if (change_setting_open(&s->now, outputs) < 0 || change_setting_open(&s->wanted, outputs) < 0 ||
        change_setting_open(&s->before, outputs) < 0 || change_gains_open(&s->gains, outputs) < 0) {
        free_stream(s);
        return NULL;
    }
    s->changes = changes;
    s->pipeline = pipeline;
    s->stream = pipeline->stream;
    memcpy(s->hash, pipeline->stream_config->hash, sizeof s->hash);
    s->next = changes->streams;
    changes->streams = s;
    return s;
}

static int check_filter(const struct pipeline *pipeline, const char *name, int *index,
                        struct problem *problem)
{
    const struct config *config = pipeline->config;
    const struct config_stream *stream = pipeline->stream_config;
    *index = config_find_filter(config, name);
    if (*index < 0)
        return problem_set(problem, ERROR_ARGUMENT,
                           "there is no filter %s; add a section [filter %s] and reload", name,
                           name);
    bool array = config->filters[*index].spec.type == FILTER_FK;
    for (uint32_t e = 0; e < stream->edge_count; e++)
        array = array || config->filters[stream->edges[e].filter].spec.type == FILTER_FK;
    if (array)
        return problem_set(
            problem, ERROR_UNSUPPORTED,
            "filters of arrays (fk) have routes of their own; change the configuration and "
            "reload");
    return 0;
}

static int check(struct changes *changes, struct pipeline *pipeline,
                 const struct change_request *request, uint32_t others, int *filter,
                 struct problem *problem)
{
    const struct config_stream *stream = pipeline->stream_config;
    int error = change_check_exact(pipeline, problem);
    *filter = -1;
    if (error != 0)
        return error;
    if (request->output > stream->output_count)
        return problem_set(problem, ERROR_ARGUMENT, "stream %s has %u outputs, not %u",
                           stream->name, stream->output_count, request->output);
    if (request->kind == CHANGE_FILTER) {
        error = check_filter(pipeline, request->filter, filter, problem);
        if (error != 0)
            return error;
    }
    if (request->at_given && pipeline_direct_only(pipeline))
        return problem_set(
            problem, ERROR_UNSUPPORTED,
            "`mode = direct` takes a change as soon as it is prepared; leave the frame out");
    uint64_t next = pipeline_next_output(pipeline);
    if (request->at_given && request->at_frame < next)
        return problem_set(problem, ERROR_ARGUMENT,
                           "frame %llu is computed already; the next is %llu",
                           (unsigned long long)request->at_frame, (unsigned long long)next);
    const struct changed_stream *s = entry_of(changes, pipeline);
    if (s == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    if (s->waiting_count + others >= WAITING_MAX)
        return problem_set(problem, ERROR_FULL,
                           "%d changes of stream %s wait already; send them more slowly",
                           WAITING_MAX, stream->name);
    return 0;
}

int changes_check(struct changes *changes, struct pipeline *pipeline,
                  const struct change_request *request, uint32_t others, struct problem *problem)
{
    int filter;
    return check(changes, pipeline, request, others, &filter, problem);
}

int changes_request(struct changes *changes, struct pipeline *pipeline,
                    const struct change_request *request, struct problem *problem)
{
    int filter;
    int error = check(changes, pipeline, request, 0, &filter, problem);
    if (error != 0)
        return error;
    struct changed_stream *s = entry_of(changes, pipeline);
    struct waiting *waiting = &s->waiting[s->waiting_count++];
    *waiting = (struct waiting){*request, filter};
    waiting->request.filter = NULL; /* belongs to the caller */
    begin_next(changes);
    return 0;
}

void changes_hold(struct changes *changes)
{
    changes->held = true;
}

void changes_release(struct changes *changes)
{
    changes->held = false;
    begin_next(changes);
}

const struct config_edge *changes_edges(const struct changes *changes,
                                        const struct pipeline *pipeline)
{
    for (const struct changed_stream *s = changes->streams; s != NULL; s = s->next)
        if (is_entry_of(s, pipeline))
            return s->edges;
    return NULL;
}

/* ---- exchange ---------------------------------------------------------------------------- */

/* A copy of the text that lives as long as `changes`; NULL: out of memory. */
static const char *keep_hash(struct changes *changes, const char *taps_hash)
{
    for (const struct hash_text *hash = changes->hashes; hash != NULL; hash = hash->next)
        if (strcmp(hash->text, taps_hash) == 0)
            return hash->text;
    size_t bytes = strlen(taps_hash) + 1;
    struct hash_text *hash = malloc(sizeof *hash + bytes);
    if (hash == NULL)
        return NULL;
    memcpy(hash->text, taps_hash, bytes);
    hash->next = changes->hashes;
    changes->hashes = hash;
    return hash->text;
}

/* The stream no longer uses its old plan. */
static void on_retired(void *context, struct plan *old)
{
    struct changed_stream *s = context;
    struct changes *changes = s->changes;
    s->exchanging = false;
    assert(s->replaced[0] == old);
    (void)old;
    struct stream_ring *ring = stream_ring_replaced(s->pipeline->stream);
    if (change_plans_retire(s->pipeline->engine, s->replaced, ring))
        memset(s->replaced, 0, sizeof s->replaced); /* else free_stream closes them */
    begin_next(changes);
}

/* Who asked for the filter of the change under way, or for its gains and mutes; empty: it has none.
 */
static const char *who_of(const struct changes *changes, bool filter, char name[EVENT_WHO_BYTES])
{
    return change_who_of(&changes->request, changes->merged, changes->merged_count, filter, name);
}

/* The gains that the change under way brings; NULL: it leaves them. */
static const struct result_gains *new_gains(struct changes *changes)
{
    char who[EVENT_WHO_BYTES];
    struct changed_stream *s = changes->of;
    if (who_of(changes, false, who)[0] == '\0')
        return NULL;
    return change_gains_next(&s->gains, &s->wanted, who);
}

/* Who asked for the filter that the stream has with the change under way; `before`: the setting
 * that it changes. */
static const char *new_filter_who(struct changes *changes, const struct change_setting *before)
{
    char who[EVENT_WHO_BYTES];
    struct changed_stream *s = changes->of;
    if (s->wanted.filter == before->filter)
        return change_who_now(&s->filter_who);
    return change_who_next(&s->filter_who, who_of(changes, true, who));
}

static int exchange(struct changes *changes, uint64_t *frame)
{
    struct changed_stream *s = changes->of;
    struct pipeline *pipeline = s->pipeline;
    struct change_plans *plans = changes->plans;
    const struct change_request *request = &changes->request;
    if (!engine_owns(pipeline->engine, plans->plan) || stream_halted(pipeline->stream))
        return problem_set(&changes->problem, ERROR_DEVICE,
                           "the device of stream %s was lost or came back while the change was "
                           "prepared; send it again",
                           pipeline->stream_config->name);
    uint64_t next = pipeline_next_output(pipeline);
    *frame = request->at_given ? request->at_frame : next;
    if (*frame < next)
        return problem_set(
            &changes->problem, ERROR_ARGUMENT,
            "frame %llu was computed while the change was prepared; name a later one",
            (unsigned long long)*frame);
    const char *taps_hash = keep_hash(changes, plans->taps_hash);
    if (taps_hash == NULL)
        return problem_set(&changes->problem, ERROR_MEMORY, "out of memory");
    const struct stream_change change = {
        .plan = plans->plan,
        .frame = pipeline_input_frame(pipeline, *frame),
        .delay_frames = plans->delay_frames,
        .taps_hash = taps_hash,
        .taps_who = new_filter_who(changes, &s->now),
        .filters = plans->recipe != NULL ? recipe_digest(plans->recipe) : NULL,
        .gains = new_gains(changes),
        .how = request->how,
        .fade_frames =
            (uint32_t)fmax(1, round(request->fade_s * pipeline->stream_config->source.rate_hz)),
        .raw_old = plans->mixed_old_plan,
        .raw_new = plans->mixed_new_plan,
        .forms = pipeline->stream_config->outputs,
        .forms_count = pipeline->stream_config->output_count,
        .ring = plans->ring,
        .retired = on_retired,
        .context = s,
    };
    /* on_retired may be called from within. */
    s->replaced[0] = pipeline->plan;
    s->replaced[1] = plans->mixed_old_plan;
    s->replaced[2] = plans->mixed_new_plan;
    s->exchanging = true;
    s->pending_count = 1 + changes->merged_count;
    s->pending[0] = (struct waiting){*request, s->wanted.filter};
    for (uint32_t i = 0; i < changes->merged_count; i++)
        s->pending[1 + i] = (struct waiting){changes->merged[i], s->wanted.filter};
    s->delay_before_frames = pipeline->delay_frames;
    int error = stream_change(pipeline->stream, &change);
    if (error != 0) {
        memset(s->replaced, 0, sizeof s->replaced);
        s->exchanging = false;
        return problem_set(
            &changes->problem, error,
            "the plan for this change differs from the one in use; set `variant` in the "
            "configuration, and reload");
    }
    pipeline->plan = plans->plan;
    pipeline->delay_frames = plans->delay_frames;
    pipeline_take_recipe(pipeline, plans->recipe);
    plans->recipe = NULL;
    plans->plan = plans->mixed_old_plan = plans->mixed_new_plan = NULL;
    plans->ring = NULL;
    return 0;
}

/* What status shows of the filter. */
static void keep_filter(struct changes *changes, uint64_t frame)
{
    struct changed_stream *s = changes->of;
    struct pipeline *pipeline = s->pipeline;
    s->filter_before = pipeline->filter;
    const char *who = new_filter_who(changes, &s->before);
    change_who_take(&s->filter_who, s->wanted.filter != s->before.filter);
    if (s->wanted.filter < 0 || s->wanted.filter == s->before.filter)
        return;
    const char *hash = changes->plans->taps_hash;
    pipeline->filter =
        (struct pipeline_filter){.name = pipeline->config->filters[s->wanted.filter].name,
                                 .hash = hash != NULL ? keep_hash(changes, hash) : NULL,
                                 .who = who,
                                 .epoch = stream_next_epoch(pipeline->stream),
                                 .frame = frame,
                                 .framed = !pipeline_direct_only(pipeline),
                                 .realtime_ns = clock_realtime_ns()};
}

/* The new setting is what the next change starts from, and what status shows. */
static void keep_setting(struct changes *changes, uint64_t frame)
{
    struct changed_stream *s = changes->of;
    struct change_plans *plans = changes->plans;
    uint32_t outputs = s->pipeline->stream_config->output_count;
    change_gains_take(&s->gains, s->pipeline, new_gains(changes), frame);
    change_setting_copy(&s->before, &s->now, outputs);
    change_setting_copy(&s->now, &s->wanted, outputs);
    free(s->edges_before);
    s->edges_before = s->edges;
    s->edges = plans->edges;
    plans->edges = NULL;
    keep_filter(changes, frame);
    memcpy(s->pipeline->changed_by, changes->request.who, sizeof s->pipeline->changed_by);
    if (plans->direct_filters >= 0)
        pipeline_set_direct_filters(s->pipeline, plans->direct_filters);
    plans->direct_filters = -1;
}

/* ---- one change -------------------------------------------------------------------------- */

static void answer(struct changes *changes, const struct change_request *request, uint64_t frame)
{
    const struct change_answer answer = {.stream = changes->of->pipeline->stream_config->name,
                                         .kind = request->kind,
                                         .error = changes->error,
                                         .text = changes->problem.text,
                                         .frame = frame,
                                         .ticket = request->ticket};
    changes->answered(changes->context, &answer);
}

static void tell_change(struct changes *changes, uint64_t frame)
{
    struct changed_stream *s = changes->of;
    const int filter = s->wanted.filter;
    const char *name = filter >= 0 ? s->pipeline->config->filters[filter].name : "";
    change_tell(s->pipeline, &changes->request, name, frame, s->limits);
    for (uint32_t i = 0; i < changes->merged_count; i++)
        change_tell(s->pipeline, &changes->merged[i], name, frame, s->limits);
}

/* Takes the prepared change into use; *frame: from this output frame on. */
static int take_into_use(struct changes *changes, uint64_t *frame)
{
    struct pipeline *pipeline = changes->of->pipeline;
    if (pipeline->retired || changes->stopped || pipeline->ended)
        return problem_set(&changes->problem, ERROR_CLOSED, "the stream is ending");
    int error = 0;
    if (!pipeline_direct_only(pipeline)) {
        error = change_check_delay(pipeline, changes->plans->delay_frames, &changes->problem);
        if (error == 0)
            error = change_check_load(changes->process, pipeline, changes->plans->plan,
                                      &changes->problem);
        if (error == 0)
            error = change_plans_check_fade(changes->plans, pipeline, &changes->problem);
        if (error == 0)
            error = exchange(changes, frame);
        if (error == 0)
            tell_change(changes, *frame);
    }
    if (error == 0)
        keep_setting(changes, *frame);
    return error;
}

static void finish_change(struct changes *changes)
{
    struct pipeline *pipeline = changes->of->pipeline;
    uint64_t frame = 0;
    if (changes->error == 0)
        changes->error = take_into_use(changes, &frame);
    if (!changes->stopped) {
        answer(changes, &changes->request, frame);
        for (uint32_t i = 0; i < changes->merged_count; i++)
            answer(changes, &changes->merged[i], frame);
    }
    change_plans_drop(changes->plans);
    changes->plans = NULL;
    changes->busy = false;
    pipeline->closing--;
    pipeline->changed(pipeline->context);
    begin_next(changes);
}

static void copy_more(uv_idle_t *idle)
{
    enum { TURN_BYTES = 1 << 20 }; /* a ring may have many megabytes */
    struct changes *changes = idle->data;
    const struct pipeline *pipeline = changes->of->pipeline;
    if (!pipeline->retired && !pipeline->ended &&
        !stream_ring_copy(pipeline->stream, changes->plans->ring, TURN_BYTES))
        return;
    uv_idle_stop(idle);
    finish_change(changes);
}

static void on_prepared(void *context, struct job *job)
{
    struct changes *changes = context;
    changes->plans = (struct change_plans *)job;
    changes->error = changes->plans->error;
    changes->problem = changes->plans->problem;
    if (changes->error != 0 || changes->plans->ring == NULL || changes->stopped) {
        finish_change(changes);
        return;
    }
    if (changes->copying.data == NULL) /* the first time */
        uv_idle_init(changes->process->environment->loop, &changes->copying);
    changes->copying.data = changes;
    uv_idle_start(&changes->copying, copy_more);
}

/* The job was left behind, with its plans. */
static void on_late(void *context, const char *stream, const char *step, struct engine *engine)
{
    struct changes *changes = context;
    (void)stream; /* the change's */
    changes->error = problem_set(
        &changes->problem, engine != NULL ? ERROR_DEVICE : ERROR_SYSTEM,
        "the change hangs: %s, for longer than `prepare timeout`; it is cut off, and the stream "
        "runs on as before",
        step != NULL ? step : "it does not begin");
    log_error("stream %s: %s; its thread is left behind (%u of at most %d)",
              changes->of->pipeline->stream_config->name, changes->problem.text,
              jobs_left_behind(JOB_OF_CHANGE), JOBS_LEFT_MAX);
    if (engine != NULL)
        takeover_note_hung(changes->process->takeover, engine);
    finish_change(changes);
}

/* ---- queue ------------------------------------------------------------------------------- */

static void apply(struct change_setting *setting, const struct waiting *waiting, uint32_t outputs)
{
    const struct change_request *request = &waiting->request;
    for (uint32_t o = 0; o < outputs; o++) {
        if (request->output != 0 && o != request->output - 1)
            continue;
        if (request->kind == CHANGE_GAIN)
            setting->gain[o] = request->factor;
        else if (request->kind == CHANGE_MUTE)
            setting->muted[o] = request->muted;
    }
    if (request->kind == CHANGE_FILTER)
        setting->filter = waiting->filter;
}

/* Gains and mutes for the next block are merged, as faders send many, and so is a group. */
static bool can_merge(const struct change_request *first, const struct change_request *next)
{
    if (first->group != 0 || next->group != 0)
        return first->group == next->group;
    return first->kind != CHANGE_FILTER && next->kind != CHANGE_FILTER && !first->at_given &&
           !next->at_given;
}

/* Moves the first waiting request, and those that merge with it, into the change under way. */
static void take_requests(struct changes *changes, struct changed_stream *s)
{
    uint32_t outputs = s->pipeline->stream_config->output_count, taken = 1;
    change_setting_copy(&s->wanted, &s->now, outputs);
    changes->request = s->waiting[0].request;
    changes->merged_count = 0;
    apply(&s->wanted, &s->waiting[0], outputs);
    while (taken < s->waiting_count && can_merge(&changes->request, &s->waiting[taken].request)) {
        changes->merged[changes->merged_count++] = s->waiting[taken].request;
        apply(&s->wanted, &s->waiting[taken++], outputs);
    }
    s->waiting_count -= taken;
    memmove(s->waiting, s->waiting + taken, s->waiting_count * sizeof *s->waiting);
}

/* Whether the first request goes before the exchange that waits for its frame. A sound card that
 * filters by itself has the new filters already. */
static bool goes_first(const struct changed_stream *s)
{
    const struct change_request *first = &s->waiting[0].request, *pending = &s->pending[0].request;
    const struct pipeline *pipeline = s->pipeline;
    uint64_t at = first->at_given ? first->at_frame : pipeline_next_output(pipeline);
    if (!pending->at_given || pending->at_frame <= at || pipeline->direct != NULL)
        return false;
    double ahead_s = (double)(pending->at_frame - at) / pipeline->stream_config->output_rate_hz;
    return first->kind == CHANGE_FILTER || ahead_s >= overtake_s;
}

/* Goes back to the plan before. */
static void take_back(struct changed_stream *s)
{
    struct pipeline *pipeline = s->pipeline;
    struct plan *const unused[3] = {pipeline->plan, s->replaced[1], s->replaced[2]};
    pipeline->plan = s->replaced[0];
    pipeline->delay_frames = s->delay_before_frames;
    change_gains_take_back(&s->gains, pipeline);
    change_who_take_back(&s->filter_who);
    pipeline->filter = s->filter_before;
    change_setting_copy(&s->now, &s->before, pipeline->stream_config->output_count);
    free(s->edges);
    s->edges = s->edges_before;
    s->edges_before = NULL;
    memset(s->replaced, 0, sizeof s->replaced);
    s->exchanging = false;
    (void)change_plans_retire(pipeline->engine, unused, NULL);
}

/* Cancels the exchange that waits: a filter replaces it, a gain has it prepared again afterwards.
 * False: the request waits too. */
static bool overtake(struct changes *changes, struct changed_stream *s)
{
    if (!goes_first(s) || stream_change_cancel(s->pipeline->stream) != 0)
        return false;
    take_back(s);
    if (s->waiting[0].request.kind != CHANGE_FILTER &&
        s->waiting_count + s->pending_count <= WAITING_MAX) {
        memcpy(&s->waiting[s->waiting_count], s->pending, s->pending_count * sizeof *s->pending);
        s->waiting_count += s->pending_count;
        return true;
    }
    for (uint32_t i = 0; i < s->pending_count; i++) {
        const struct change_answer answer = {.stream = s->pipeline->stream_config->name,
                                             .kind = s->pending[i].request.kind,
                                             .error = ERROR_CLOSED,
                                             .text = "replaced by a request for an earlier frame",
                                             .ticket = s->pending[i].request.ticket};
        changes->answered(changes->context, &answer);
    }
    return true;
}

static void begin_job(struct changes *changes)
{
    struct changed_stream *s = changes->of;
    changes->error = 0;
    if (jobs_left_behind(JOB_OF_CHANGE) >= JOBS_LEFT_MAX) {
        changes->error = problem_set(&changes->problem, ERROR_LIMIT,
                                     "%d changes hang already and were left behind; restart the "
                                     "daemon",
                                     JOBS_LEFT_MAX);
        finish_change(changes);
        return;
    }
    struct change_plans *plans = change_plans_describe(s->pipeline, s->edges, &s->wanted,
                                                       changes->request.how == CHANGE_FADE);
    if (plans == NULL)
        changes->error = problem_set(&changes->problem, ERROR_MEMORY, "out of memory");
    else if (job_watch_start(&changes->watch, &plans->job,
                             changes->process->config->daemon.prepare_ns) == 0)
        return;
    else
        changes->error =
            problem_set(&changes->problem, ERROR_SYSTEM, "no thread can be started for it");
    changes->plans = plans;
    finish_change(changes);
}

static void begin_next(struct changes *changes)
{
    struct changed_stream *s = changes->streams;
    if (changes->busy || changes->stopped || changes->held)
        return;
    while (s != NULL &&
           (s->waiting_count == 0 || !pipelines_running(changes->process->pipelines, s->pipeline) ||
            (s->exchanging && !overtake(changes, s))))
        s = s->next;
    if (s == NULL)
        return;
    changes->of = s;
    changes->problem.text[0] = '\0';
    changes->busy = true;
    s->pipeline->closing++; /* keeps the pipeline from being freed meanwhile */
    take_requests(changes, s);
    begin_job(changes);
}
