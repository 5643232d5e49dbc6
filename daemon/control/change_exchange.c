/* A prepared change is taken into use, and whoever asked is answered: see changes_internal.h. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "control/change_checks.h"
#include "control/change_keeper.h"
#include "control/change_tell.h"
#include "control/changes.h"
#include "control/changes_internal.h"
#include "core/clock.h"
#include "stream/move.h"

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
    changes_begin_next(changes);
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

static uint32_t fade_frames_of(const struct changed_stream *s, const struct change_request *request)
{
    const double rate_hz = s->pipeline->stream_config->source.rate_hz;
    return request->resumes == RESUMES_NOT ? (uint32_t)fmax(1, round(request->fade_s * rate_hz))
                                           : s->resume->fade_frames;
}

/* Tells the sink that keeps changes, if there is one; whoever asked is answered once it has. */
static void keep(struct changed_stream *s, const struct keeper_frames *frames,
                 const struct stream_change *change, uint64_t frame)
{
    const struct pipeline_sink *sink = pipeline_keeper(s->pipeline);
    if (sink == NULL)
        return;
    static struct setting_change kept; /* large */
    kept = (struct setting_change){
        .how = (uint8_t)change->how,
        .fade_frames = change->how == CHANGE_FADE ? change->fade_frames : 0,
    };
    change_keeper_reach(s->pipeline, frames, change, frame, &kept);
    change_keeper_write(s->pipeline, &s->now, &kept.before);
    change_keeper_write(s->pipeline, &s->wanted, &kept.after);
    s->unanswered = true;
    s->answer_frame = frame;
    sink->ops->keeper->keep(sink->sink, &kept);
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
    struct keeper_frames frames = {0};
    if (request->resumes == RESUMES_NOT &&
        change_keeper_frames(pipeline, &frames, &changes->problem) != 0)
        return changes->problem.error;
    uint64_t next = change_keeper_next(pipeline, &frames);
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
        .frame = pipeline_input_frame(pipeline, *frame - frames.shift),
        .later = request->resumes == RESUMES_LATER,
        .delay_frames = plans->delay_frames,
        .taps_hash = taps_hash,
        .taps_who = new_filter_who(changes, &s->now),
        .filters = plans->recipe != NULL ? recipe_digest(plans->recipe) : NULL,
        .gains = new_gains(changes),
        .how = request->how,
        .fade_frames = fade_frames_of(s, request),
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
    s->pending[0] = (struct waiting){*request, s->wanted.filter, NULL};
    for (uint32_t i = 0; i < changes->merged_count; i++)
        s->pending[1 + i] = (struct waiting){changes->merged[i], s->wanted.filter, NULL};
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
    if (request->resumes == RESUMES_NOW)
        stream_change_hurry(pipeline->stream);
    else if (request->resumes == RESUMES_NOT)
        keep(s, &frames, &change, *frame);
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
    if (request->resumes != RESUMES_NOT)
        return;
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
    if (changes->request.resumes != RESUMES_NOT) {
        log_info("stream %s: goes on with the filter, gains and mutes that the log names",
                 s->pipeline->stream_config->name);
        return;
    }
    s->pending_epoch = stream_next_epoch(s->pipeline->stream);
    s->pending_frame = frame;
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
    if (changes->request.resumes != RESUMES_NOT && changes->request.ticket != changes->of->resumes)
        return problem_set(&changes->problem, ERROR_CLOSED, "the log tells something else by now");
    int error = 0;
    if (!pipeline_direct_only(pipeline)) {
        error = change_check_delay(pipeline, changes->plans->delay_frames, &changes->problem);
        if (error == 0 && changes->request.resumes == RESUMES_NOT)
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

/* What a log tells is in use, part by part. */
static void finish_resume(struct changes *changes, struct pipeline *pipeline)
{
    struct changed_stream *s = changes->of;
    const struct pipeline_sink *sink = pipeline_keeper(pipeline);
    const bool done = changes->error == 0;
    if (changes->stopped || sink == NULL || changes->request.ticket != s->resumes)
        return;
    if (!done) {
        log_error("stream %s: cannot go on with what the log names: %s",
                  pipeline->stream_config->name, changes->problem.text);
        s->waiting_count = 0;
    }
    if (s->waiting_count == 0)
        sink->ops->keeper->resumed(sink->sink, done);
}

void changes_finish(struct changes *changes)
{
    struct pipeline *pipeline = changes->of->pipeline;
    uint64_t frame = 0;
    if (changes->error == 0)
        changes->error = take_into_use(changes, &frame);
    const bool kept = changes->error == 0 && changes->of->unanswered;
    if (!changes->stopped && !kept) {
        answer(changes, &changes->request, frame);
        for (uint32_t i = 0; i < changes->merged_count; i++)
            answer(changes, &changes->merged[i], frame);
    }
    change_plans_drop(changes->plans);
    changes->plans = NULL;
    changes->busy = false;
    pipeline->closing--;
    pipeline->changed(pipeline->context);
    if (changes->request.resumes != RESUMES_NOT)
        finish_resume(changes, pipeline);
    changes_begin_next(changes);
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
    changes_finish(changes);
}

void changes_on_prepared(void *context, struct job *job)
{
    struct changes *changes = context;
    changes->plans = (struct change_plans *)job;
    changes->error = changes->plans->error;
    changes->problem = changes->plans->problem;
    if (changes->error != 0 || changes->plans->ring == NULL || changes->stopped) {
        changes_finish(changes);
        return;
    }
    if (changes->copying.data == NULL) /* the first time */
        uv_idle_init(changes->process->environment->loop, &changes->copying);
    changes->copying.data = changes;
    uv_idle_start(&changes->copying, copy_more);
}

/* The job was left behind, with its plans. */
void changes_on_late(void *context, const char *stream, const char *step, struct engine *engine)
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
    changes_finish(changes);
}
