/* Changes of streams that another daemon goes on with: see changes_internal.h and io/keeper.h. */
#include <stdlib.h>
#include <string.h>

#include "control/change_keeper.h"
#include "control/changes.h"
#include "control/changes_internal.h"

static void answer_closed(struct changes *changes, const struct changed_stream *s,
                          const struct change_request *request, const char *text)
{
    const struct change_answer answer = {.stream = s->pipeline->stream_config->name,
                                         .kind = request->kind,
                                         .error = ERROR_CLOSED,
                                         .text = text,
                                         .ticket = request->ticket};
    if (request->resumes == RESUMES_NOT && !changes->stopped)
        changes->answered(changes->context, &answer);
}

/* Nothing that waits is of use: another daemon goes on, or this one with what the log tells. */
static void refuse_waiting(struct changes *changes, struct changed_stream *s)
{
    const uint32_t count = s->waiting_count;
    struct waiting refused[WAITING_MAX];
    memcpy(refused, s->waiting, count * sizeof *refused);
    s->waiting_count = 0;
    for (uint32_t i = 0; i < count; i++)
        answer_closed(changes, s, &refused[i].request,
                      "this daemon has lost the partition; send it to the one that owns it now");
}

void changes_on_told(void *context, struct pipeline *pipeline, enum keeper_news news)
{
    struct changes *changes = context;
    struct changed_stream *s = changes->streams;
    while (s != NULL && !changes_is_entry(s, pipeline))
        s = s->next;
    if (s == NULL)
        return;
    const bool unanswered = s->unanswered && news != KEEPER_SETTLED;
    s->unanswered = s->unanswered && !unanswered;
    for (uint32_t i = 0; unanswered && i < s->pending_count; i++) {
        const struct change_request request = s->pending[i].request;
        const struct change_answer answer = {.stream = pipeline->stream_config->name,
                                             .kind = request.kind,
                                             .frame = s->answer_frame,
                                             .ticket = request.ticket};
        if (news == KEEPER_LOST)
            answer_closed(changes, s, &request,
                          "this daemon has lost the partition, and whether its log has the change "
                          "is not known; ask the one that owns it now");
        else if (!changes->stopped)
            changes->answered(changes->context, &answer);
    }
    if (news == KEEPER_LOST)
        refuse_waiting(changes, s);
    changes_begin_next(changes);
}

static void wait_to_resume(struct changed_stream *s, const struct setting *setting, bool later)
{
    struct waiting *waiting = &s->waiting[s->waiting_count++];
    *waiting = (struct waiting){
        .request = {.kind = CHANGE_GAIN,
                    .resumes = later ? RESUMES_LATER : RESUMES_NOW,
                    .how = later ? (enum change_how)s->resume->how : CHANGE_HARD,
                    .ticket = s->resumes,
                    .who = "the log"},
        .setting = setting,
    };
}

/* Whether the stream has this setting already, and nothing is about to change it. */
static bool has_setting(const struct changes *changes, const struct changed_stream *s,
                        const struct setting *setting)
{
    static struct setting now; /* large */
    now = (struct setting){0};
    change_keeper_write(s->pipeline, &s->now, &now);
    return (!changes->busy || changes->of != s) && setting_equal(&now, setting);
}

void changes_on_resume(void *context, struct pipeline *pipeline,
                       const struct setting_change *change, bool past)
{
    struct changes *changes = context;
    struct changed_stream *s = changes_entry(changes, pipeline);
    const struct pipeline_sink *sink = pipeline_keeper(pipeline);
    if (sink == NULL)
        return;
    if (s != NULL && s->resume == NULL)
        s->resume = malloc(sizeof *s->resume);
    if (s == NULL || s->resume == NULL || !change_keeper_knows(pipeline, &change->after) ||
        !change_keeper_knows(pipeline, &change->before)) {
        sink->ops->keeper->resumed(sink->sink, false);
        return;
    }
    refuse_waiting(changes, s);
    *s->resume = *change;
    s->resumes++;
    if (s->exchanging) /* of a term that is over */
        stream_change_hurry(pipeline->stream);
    const struct setting *now = past ? &s->resume->after : &s->resume->before;
    if (!has_setting(changes, s, now))
        wait_to_resume(s, now, false);
    if (!past)
        wait_to_resume(s, &s->resume->after, true);
    if (s->waiting_count == 0)
        sink->ops->keeper->resumed(sink->sink, true);
    else
        changes_begin_next(changes);
}
