/* Tuning: see osc_tuning.h. */
#include "service/osc_tuning.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "service/service_internal.h"

static const double load_max = 0.9;

struct tuning {
    struct tuning *next;
    struct pipeline *pipeline; /* compared, never followed, once it may be gone */
    const struct stream *stream; /* the same; with the hash they tell one pipeline from a later one */
    char hash[CONFIG_HASH_TEXT];
    int filter;                /* index in its configuration; -1: as configured */
    float *gain;               /* [output_count] */
    bool *muted;               /* [output_count] */
    bool wished;               /* since the last change was begun */
    bool pending;              /* an exchange waits for its frame */
    struct plan *old;          /* in use until the exchange is through */
    enum tuning_kind kind;     /* of the last wish */
    bool at_given;
    uint64_t at_frame;
    uint64_t asker;
    struct tunings *owner;
};

struct tunings {
    struct service *service;
    void *context;
    void (*answered)(void *context, const struct tuning_answer *answer);
    struct tuning *list;
    bool stopped;

    /* the change under way */
    bool busy;
    uv_work_t work;
    struct tuning *of;
    struct pipeline *pipeline;
    struct config_stream stream; /* as wished */
    struct config_edge *edges;
    struct plan *plan;
    double delay_frames;
    enum tuning_kind kind;
    bool at_given;
    uint64_t at_frame, asker;
    int error;
    struct problem problem;
};

/* A plan out of use, closed on a worker. */
struct retirement {
    uv_work_t work;
    struct plan *plan;
};

static void begin_next(struct tunings *tunings);

struct tunings *tunings_open(struct service *service, void *context,
                             void (*answered)(void *context, const struct tuning_answer *answer))
{
    struct tunings *tunings = calloc(1, sizeof *tunings);
    if (tunings == NULL)
        return NULL;
    tunings->service = service;
    tunings->context = context;
    tunings->answered = answered;
    tunings->work.data = tunings;
    return tunings;
}

void tunings_stop(struct tunings *tunings)
{
    tunings->stopped = true;
}

static void free_tuning(struct tuning *t)
{
    plan_close(t->old);
    free(t->gain);
    free(t->muted);
    free(t);
}

void tunings_free(struct tunings *tunings)
{
    if (tunings == NULL)
        return;
    assert(!tunings->busy);
    while (tunings->list != NULL) {
        struct tuning *t = tunings->list;
        tunings->list = t->next;
        free_tuning(t);
    }
    free(tunings);
}

/* ---- wishes --------------------------------------------------------------------------------- */

static struct tuning *tuning_of(struct tunings *tunings, struct pipeline *pipeline)
{
    for (struct tuning *t = tunings->list; t != NULL; t = t->next)
        if (t->pipeline == pipeline && t->stream == pipeline->stream &&
            strcmp(t->hash, pipeline->stream_config->hash) == 0)
            return t;
    uint32_t outputs = pipeline->stream_config->output_count;
    struct tuning *t = calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    t->gain = calloc(outputs, sizeof *t->gain);
    t->muted = calloc(outputs, sizeof *t->muted);
    if (t->gain == NULL || t->muted == NULL) {
        free_tuning(t);
        return NULL;
    }
    for (uint32_t o = 0; o < outputs; o++)
        t->gain[o] = 1;
    t->owner = tunings;
    t->pipeline = pipeline;
    t->stream = pipeline->stream;
    memcpy(t->hash, pipeline->stream_config->hash, sizeof t->hash);
    t->filter = -1;
    t->next = tunings->list;
    tunings->list = t;
    return t;
}

static int check_filter(const struct pipeline *pipeline, const char *name, int *index,
                        struct problem *problem)
{
    const struct config *config = pipeline->config;
    const struct config_stream *stream = pipeline->stream_config;
    *index = config_find_filter(config, name);
    if (*index < 0)
        return problem_set(problem, ERROR_ARGUMENT,
                           "there is no filter %s; add a section [filter %s] and reload", name, name);
    bool array = config->filters[*index].spec.type == FILTER_FK;
    for (uint32_t e = 0; e < stream->edge_count; e++)
        array = array || config->filters[stream->edges[e].filter].spec.type == FILTER_FK;
    if (array)
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "filters of arrays (fk) have routes of their own; change the configuration and "
                           "reload");
    return 0;
}

int tunings_wish(struct tunings *tunings, struct pipeline *pipeline, const struct tuning_wish *wish,
                 struct problem *problem)
{
    const struct config_stream *stream = pipeline->stream_config;
    int filter = -1;
    if (wish->output > stream->output_count)
        return problem_set(problem, ERROR_ARGUMENT, "stream %s has %u outputs, not %u", stream->name,
                           stream->output_count, wish->output);
    if (wish->kind == TUNING_FILTER) {
        int error = check_filter(pipeline, wish->filter, &filter, problem);
        if (error != 0)
            return error;
    }
    if (wish->at_given && wish->at_frame < stream_next_frame(pipeline->stream))
        return problem_set(problem, ERROR_ARGUMENT, "frame %llu is computed already; the next is %llu",
                           (unsigned long long)wish->at_frame,
                           (unsigned long long)stream_next_frame(pipeline->stream));
    struct tuning *t = tuning_of(tunings, pipeline);
    if (t == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    for (uint32_t o = 0; o < stream->output_count; o++) {
        if (wish->output != 0 && o != wish->output - 1)
            continue;
        if (wish->kind == TUNING_GAIN)
            t->gain[o] = wish->factor;
        else if (wish->kind == TUNING_MUTE)
            t->muted[o] = wish->muted;
    }
    if (wish->kind == TUNING_FILTER)
        t->filter = filter;
    t->wished = true;
    t->kind = wish->kind;
    t->at_given = wish->at_given;
    t->at_frame = wish->at_frame;
    t->asker = wish->asker;
    begin_next(tunings);
    return 0;
}

/* ---- the change: worker thread -------------------------------------------------------------- */

static void prepare(uv_work_t *work)
{
    struct tunings *tunings = work->data;
    char *hash = NULL;
    tunings->error = pipeline_make_plan(tunings->pipeline, &tunings->stream, &tunings->plan,
                                        &tunings->delay_frames, &hash, &tunings->problem);
    free(hash);
}

/* ---- the change: loop thread ---------------------------------------------------------------- */

static double load_of(const struct pipeline *pipeline, const struct plan *plan)
{
    uint32_t blocks = pipeline->stream_config->blocks_max;
    return (double)plan_cost_ns(plan, blocks) / (blocks * stream_block_period_ns(pipeline->stream));
}

/* The load of all live streams on its device once `plan` has its place; refused when it rises above the limit. */
static int check_load(struct tunings *tunings)
{
    const struct service *service = tunings->service;
    double before = 0, after = 0;
    for (uint32_t i = 0; i < service->count; i++) {
        const struct pipeline *pipeline = service->pipelines[i];
        if (pipeline->retired || !stream_is_live(pipeline->stream) ||
            pipeline->seat != tunings->pipeline->seat)
            continue;
        double now = load_of(pipeline, pipeline->plan);
        before += now;
        after += pipeline == tunings->pipeline ? load_of(pipeline, tunings->plan) : now;
    }
    if (after <= load_max || after <= before)
        return 0;
    return problem_set(&tunings->problem, ERROR_LIMIT,
                       "the load would be %.0f %%, more than %.0f %%; shorten the filter, or use longer "
                       "blocks",
                       100 * after, 100 * load_max);
}

static void close_plan(uv_work_t *work)
{
    plan_close(((struct retirement *)work->data)->plan);
}

static void after_close(uv_work_t *work, int status)
{
    (void)status;
    free(work->data);
}

/* The stream no longer uses its old plan. */
static void on_retired(void *context, struct plan *old)
{
    struct tuning *t = context;
    struct retirement *retirement = calloc(1, sizeof *retirement);
    t->pending = false;
    assert(t->old == old);
    if (retirement != NULL) { /* else it is closed at the end */
        *retirement = (struct retirement){.work.data = retirement, .plan = old};
        t->old = NULL;
        uv_queue_work(&t->owner->service->loop, &retirement->work, close_plan, after_close);
    }
    begin_next(t->owner);
}

static int exchange(struct tunings *tunings, uint64_t *frame)
{
    struct pipeline *pipeline = tunings->pipeline;
    uint64_t next = stream_next_frame(pipeline->stream);
    *frame = tunings->at_given ? tunings->at_frame : next;
    if (*frame < next)
        return problem_set(&tunings->problem, ERROR_ARGUMENT,
                           "frame %llu was computed while the change was prepared; name a later one",
                           (unsigned long long)*frame);
    /* The stream calls back when it has let go of the old one, perhaps at once. */
    struct plan *old = pipeline->plan;
    tunings->of->old = old;
    tunings->of->pending = true;
    int error = stream_exchange(pipeline->stream, tunings->plan, *frame, tunings->delay_frames,
                                on_retired, tunings->of);
    if (error != 0) {
        tunings->of->old = NULL;
        tunings->of->pending = false;
        return problem_set(&tunings->problem, error,
                           "this filter needs %u frames of history, more than stream %s was started with; start "
                           "it with the longest filter it will use, or change the configuration and reload",
                           plan_info(tunings->plan)->history_frames, pipeline->stream_config->name);
    }
    pipeline->plan = tunings->plan;
    pipeline->delay_frames = tunings->delay_frames;
    tunings->plan = NULL;
    return 0;
}

static void on_prepared(uv_work_t *work, int status)
{
    struct tunings *tunings = work->data;
    struct pipeline *pipeline = tunings->pipeline;
    uint64_t frame = 0;
    (void)status; /* nobody cancels it */
    if (tunings->error == 0 && (pipeline->retired || tunings->stopped || pipeline->ended))
        tunings->error = problem_set(&tunings->problem, ERROR_CLOSED, "the stream is ending");
    if (tunings->error == 0)
        tunings->error = check_load(tunings);
    if (tunings->error == 0)
        tunings->error = exchange(tunings, &frame);
    struct tuning_answer answer = {.stream = pipeline->stream_config->name,
                                   .kind = tunings->kind,
                                   .error = tunings->error,
                                   .text = tunings->problem.text,
                                   .frame = frame,
                                   .asker = tunings->asker};
    if (tunings->error == 0)
        log_notice("stream %s: changed by OSC from output frame %llu on", answer.stream,
                   (unsigned long long)frame);
    if (!tunings->stopped)
        tunings->answered(tunings->context, &answer);
    if (tunings->plan != NULL) { /* refused */
        struct retirement *retirement = calloc(1, sizeof *retirement);
        if (retirement != NULL) {
            *retirement = (struct retirement){.work.data = retirement, .plan = tunings->plan};
            uv_queue_work(&tunings->service->loop, &retirement->work, close_plan, after_close);
        }
        tunings->plan = NULL;
    }
    free(tunings->edges);
    tunings->edges = NULL;
    tunings->busy = false;
    pipeline->closing--;
    pipeline->changed(pipeline->context);
    begin_next(tunings);
}

static int make_edges(struct tunings *tunings, const struct tuning *t)
{
    const struct config_stream *stream = t->pipeline->stream_config;
    tunings->edges = calloc(stream->edge_count, sizeof *tunings->edges);
    if (tunings->edges == NULL)
        return ERROR_MEMORY;
    for (uint32_t e = 0; e < stream->edge_count; e++) {
        struct config_edge *edge = &tunings->edges[e];
        *edge = stream->edges[e];
        edge->gain *= t->muted[edge->output] ? 0 : t->gain[edge->output];
        if (t->filter >= 0)
            edge->filter = (uint16_t)t->filter;
    }
    tunings->stream = *stream;
    tunings->stream.edges = tunings->edges;
    return 0;
}

static bool is_running(const struct tunings *tunings, const struct pipeline *pipeline)
{
    for (uint32_t i = 0; i < tunings->service->count; i++)
        if (tunings->service->pipelines[i] == pipeline)
            return !pipeline->retired;
    return false;
}

static void begin_next(struct tunings *tunings)
{
    struct tuning *t = tunings->list;
    if (tunings->busy || tunings->stopped)
        return;
    while (t != NULL && (!t->wished || t->pending || !is_running(tunings, t->pipeline)))
        t = t->next;
    if (t == NULL || make_edges(tunings, t) != 0)
        return;
    t->wished = false;
    tunings->of = t;
    tunings->pipeline = t->pipeline;
    tunings->kind = t->kind;
    tunings->at_given = t->at_given;
    tunings->at_frame = t->at_frame;
    tunings->asker = t->asker;
    tunings->problem.text[0] = '\0';
    tunings->busy = true;
    /* Keeps it from being freed meanwhile. */
    t->pipeline->closing++;
    uv_queue_work(&tunings->service->loop, &tunings->work, prepare, on_prepared);
}
