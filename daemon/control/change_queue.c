/* Which request is next, and what it changes: see changes_internal.h. */
#include <stdlib.h>
#include <string.h>

#include "control/change_keeper.h"
#include "control/change_tell.h"
#include "control/changes.h"
#include "control/changes_internal.h"

static void apply(struct changed_stream *s, const struct waiting *waiting, uint32_t outputs)
{
    const struct change_request *request = &waiting->request;
    struct change_setting *setting = &s->wanted;
    if (request->resumes != RESUMES_NOT) { /* changes_on_resume has seen that it can be read */
        change_keeper_read(s->pipeline, waiting->setting, setting);
        return;
    }
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
    if (first->resumes != RESUMES_NOT || next->resumes != RESUMES_NOT)
        return false;
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
    apply(s, &s->waiting[0], outputs);
    while (taken < s->waiting_count && can_merge(&changes->request, &s->waiting[taken].request)) {
        changes->merged[changes->merged_count++] = s->waiting[taken].request;
        apply(s, &s->waiting[taken++], outputs);
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
    if (pipeline_keeper(pipeline) != NULL) /* the log has the change that waits */
        return false;
    uint64_t at = first->at_given ? first->at_frame : pipeline_next_output(pipeline);
    if (!pending->at_given || pending->at_frame <= at || pipeline->direct != NULL)
        return false;
    double ahead_s = (double)(pending->at_frame - at) / pipeline->stream_config->output_rate_hz;
    return first->kind == CHANGE_FILTER || ahead_s >= CHANGES_OVERTAKE_S;
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

/* Events of the exchange that waits were published when it was prepared. */
static void tell_cancelled(const struct changed_stream *s, const char *who, const char *why)
{
    for (uint32_t i = 0; i < s->pending_count; i++) {
        const int filter = s->pending[i].filter;
        const char *name = filter >= 0 ? s->pipeline->config->filters[filter].name : "";
        change_tell_cancelled(s->pipeline, &s->pending[i].request, name, s->pending_epoch,
                              s->pending_frame, who, why);
    }
}

/* Cancels the exchange that waits: a filter replaces it, a gain has it prepared again afterwards.
 * False: the request waits too. */
static bool overtake(struct changes *changes, struct changed_stream *s)
{
    if (!goes_first(s) || stream_change_cancel(s->pipeline->stream) != 0)
        return false;
    take_back(s);
    const bool again = s->waiting[0].request.kind != CHANGE_FILTER &&
                       s->waiting_count + s->pending_count <= WAITING_MAX;
    tell_cancelled(s, s->waiting[0].request.who,
                   again ? "and is prepared once more behind a change for an earlier frame"
                         : "but is replaced by a request for an earlier frame");
    if (again) {
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
        changes_finish(changes);
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
    changes_finish(changes);
}

void changes_begin_next(struct changes *changes)
{
    struct changed_stream *s = changes->streams;
    if (changes->busy || changes->stopped || changes->held)
        return;
    while (s != NULL &&
           (s->waiting_count == 0 || !pipelines_running(changes->process->pipelines, s->pipeline) ||
            (s->waiting[0].request.resumes == RESUMES_NOT && !change_keeper_settled(s->pipeline)) ||
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
