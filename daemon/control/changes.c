/* Change requests: see changes.h. */
#include "control/changes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/change_keeper.h"
#include "control/changes_internal.h"

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
    changes->watch.done = changes_on_prepared;
    changes->watch.late = changes_on_late;
    changes->watch.context = changes;
    job_watch_open(&changes->watch, process->environment->loop);
    if (process->pipelines != NULL)
        *pipelines_changer(process->pipelines) =
            (struct pipeline_changer){changes, changes_on_resume, changes_on_told};
    *out = changes;
    return 0;
}

void changes_stop(struct changes *changes)
{
    changes->stopped = true;
    if (changes->process->pipelines != NULL)
        *pipelines_changer(changes->process->pipelines) = (struct pipeline_changer){0};
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
    free(s->resume);
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

bool changes_is_entry(const struct changed_stream *s, const struct pipeline *pipeline)
{
    return s->pipeline == pipeline && s->stream == pipeline->stream &&
           strcmp(s->hash, pipeline->stream_config->hash) == 0;
}

struct changed_stream *changes_entry(struct changes *changes, struct pipeline *pipeline)
{
    for (struct changed_stream *s = changes->streams; s != NULL; s = s->next)
        if (changes_is_entry(s, pipeline))
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

/* While a change of a stream that another daemon may go on with waits for a frame far ahead, none
 * comes before it: the log tells one change. */
static int check_ahead(const struct changed_stream *s, uint64_t next, struct problem *problem)
{
    const struct change_request *pending = &s->pending[0].request;
    if (pipeline_keeper(s->pipeline) == NULL || !s->exchanging || !pending->at_given)
        return 0;
    const double ahead = (double)pending->at_frame - (double)next;
    if (ahead < CHANGES_OVERTAKE_S * s->pipeline->stream_config->output_rate_hz)
        return 0;
    return problem_set(problem, ERROR_UNSUPPORTED,
                       "a change of stream %s waits for frame %llu, and the log tells one at a "
                       "time: send it behind that frame",
                       s->pipeline->stream_config->name, (unsigned long long)pending->at_frame);
}

static int check(struct changes *changes, struct pipeline *pipeline,
                 const struct change_request *request, uint32_t others, int *filter,
                 struct problem *problem)
{
    const struct config_stream *stream = pipeline->stream_config;
    struct keeper_frames frames;
    int error = change_keeper_frames(pipeline, &frames, problem);
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
    uint64_t next = change_keeper_next(pipeline, &frames);
    if (request->at_given && request->at_frame < next)
        return problem_set(problem, ERROR_ARGUMENT,
                           "frame %llu is computed already; the next is %llu",
                           (unsigned long long)request->at_frame, (unsigned long long)next);
    const struct changed_stream *s = changes_entry(changes, pipeline);
    if (s == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    if (s->waiting_count + others >= WAITING_MAX)
        return problem_set(problem, ERROR_FULL,
                           "%d changes of stream %s wait already; send them more slowly",
                           WAITING_MAX, stream->name);
    return check_ahead(s, next, problem);
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
    struct changed_stream *s = changes_entry(changes, pipeline);
    struct waiting *waiting = &s->waiting[s->waiting_count++];
    *waiting = (struct waiting){*request, filter, NULL};
    waiting->request.filter = NULL; /* belongs to the caller */
    changes_begin_next(changes);
    return 0;
}

void changes_hold(struct changes *changes)
{
    changes->held = true;
}

void changes_release(struct changes *changes)
{
    changes->held = false;
    changes_begin_next(changes);
}

const struct config_edge *changes_edges(const struct changes *changes,
                                        const struct pipeline *pipeline)
{
    for (const struct changed_stream *s = changes->streams; s != NULL; s = s->next)
        if (changes_is_entry(s, pipeline))
            return s->edges;
    return NULL;
}
