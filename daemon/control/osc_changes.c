/* Tuning: see osc_tuning.h. */
#include "control/osc_changes.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"
#include "pipeline/direct.h"
#include "service/internal.h"

enum { WISHES_MAX = 32 }; /* waiting, of one stream */

static const double load_max = 0.9;

/* What a stream's edges are made of, beside its configuration. */
struct setting {
    int filter;  /* index in the configuration; -1: as configured */
    float *gain; /* [output_count] */
    bool *muted; /* [output_count] */
};

/* A wish that waits; its name has become an index. */
struct waiting {
    struct tuning_wish wish;
    int filter;
};

/* The filters of some plan; results carry it. */
struct hash_text {
    struct hash_text *next;
    char text[];
};

struct tuning {
    struct tuning *next;
    struct pipeline *pipeline; /* compared, never followed, once it may be gone */
    const struct stream
        *stream; /* the same; with the hash they tell one pipeline from a later one */
    char hash[CONFIG_HASH_TEXT];
    struct setting now;        /* of the plan in use */
    struct setting then;       /* of the one being prepared */
    struct config_edge *edges; /* in use; NULL: as configured */
    struct waiting wishes[WISHES_MAX];
    uint32_t wished;
    bool pending;                         /* an exchange waits for its frame, or fades */
    struct plan *old, *raw_old, *raw_new; /* in use until the exchange is through */
    struct tunings *owner;
};

struct tunings {
    struct service *service;
    void *context;
    void (*answered)(void *context, const struct tuning_answer *answer);
    struct tuning *list;
    struct hash_text *hashes; /* each once, as long as there are sinks */
    bool stopped;

    /* the change under way */
    bool busy;
    uv_work_t work;
    struct tuning *of;
    struct pipeline *pipeline;
    struct tuning_wish wish;
    struct tuning_wish joined[WISHES_MAX]; /* that become true with it */
    uint32_t joined_count;
    struct config_stream stream; /* as wished */
    struct config_stream raw_stream,
        raw_before; /* as wished and as it is, complex where an envelope is */
    enum output_form *raw_forms;
    struct config_edge *edges;
    struct plan *plan, *raw_old, *raw_new;
    struct stream_ring *ring;
    double delay_frames;
    char *taps_hash;
    int filters; /* mode = direct: for the sound card's callback; -1: none */
    int error;
    struct problem problem;
};

/* What is out of use, closed on a worker. */
struct retirement {
    uv_work_t work;
    struct plan *plans[3];
    struct stream_ring *ring;
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
    tunings->filters = -1;
    return tunings;
}

void tunings_stop(struct tunings *tunings)
{
    tunings->stopped = true;
}

static void free_tuning(struct tuning *t)
{
    plan_close(t->old);
    plan_close(t->raw_old);
    plan_close(t->raw_new);
    free(t->now.gain);
    free(t->now.muted);
    free(t->then.gain);
    free(t->then.muted);
    free(t->edges);
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
    while (tunings->hashes != NULL) {
        struct hash_text *hash = tunings->hashes;
        tunings->hashes = hash->next;
        free(hash);
    }
    free(tunings);
}

/* ---- wishes ------------------------------------------------------------------------------ */

static struct setting make_setting(uint32_t outputs)
{
    struct setting setting = {-1, calloc(outputs, sizeof *setting.gain),
                              calloc(outputs, sizeof *setting.muted)};
    for (uint32_t o = 0; setting.gain != NULL && o < outputs; o++)
        setting.gain[o] = 1;
    return setting;
}

static void copy_setting(struct setting *to, const struct setting *from, uint32_t outputs)
{
    to->filter = from->filter;
    memcpy(to->gain, from->gain, outputs * sizeof *to->gain);
    memcpy(to->muted, from->muted, outputs * sizeof *to->muted);
}

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
    t->now = make_setting(outputs);
    t->then = make_setting(outputs);
    if (t->now.gain == NULL || t->now.muted == NULL || t->then.gain == NULL ||
        t->then.muted == NULL) {
        free_tuning(t);
        return NULL;
    }
    t->owner = tunings;
    t->pipeline = pipeline;
    t->stream = pipeline->stream;
    memcpy(t->hash, pipeline->stream_config->hash, sizeof t->hash);
    t->next = tunings->list;
    tunings->list = t;
    return t;
}

/* Nobody but a sound card's callback wants the results: none are made, and no plan is exchanged. */
static bool direct_alone(const struct pipeline *pipeline)
{
    return pipeline->direct != NULL && pipeline->direct->direct_alone;
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

int tunings_wish(struct tunings *tunings, struct pipeline *pipeline, const struct tuning_wish *wish,
                 struct problem *problem)
{
    const struct config_stream *stream = pipeline->stream_config;
    int filter = -1;
    if (wish->output > stream->output_count)
        return problem_set(problem, ERROR_ARGUMENT, "stream %s has %u outputs, not %u",
                           stream->name, stream->output_count, wish->output);
    if (wish->kind == TUNING_FILTER) {
        int error = check_filter(pipeline, wish->filter, &filter, problem);
        if (error != 0)
            return error;
    }
    if (wish->at_given && direct_alone(pipeline))
        return problem_set(
            problem, ERROR_UNSUPPORTED,
            "`mode = direct` takes a change as soon as it is prepared; leave the frame out");
    uint64_t next = pipeline_next_output(pipeline);
    if (wish->at_given && wish->at_frame < next)
        return problem_set(problem, ERROR_ARGUMENT,
                           "frame %llu is computed already; the next is %llu",
                           (unsigned long long)wish->at_frame, (unsigned long long)next);
    struct tuning *t = tuning_of(tunings, pipeline);
    if (t == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    if (t->wished == WISHES_MAX)
        return problem_set(problem, ERROR_FULL,
                           "%d changes of stream %s wait already; send them more slowly",
                           WISHES_MAX, stream->name);
    t->wishes[t->wished] = (struct waiting){*wish, filter};
    t->wishes[t->wished++].wish.filter = NULL; /* the message's */
    begin_next(tunings);
    return 0;
}

/* ---- the change: worker thread ----------------------------------------------------------- */

static int prepare_fade(struct tunings *tunings)
{
    const struct pipeline *pipeline = tunings->pipeline;
    struct problem *problem = &tunings->problem;
    double delay_frames;
    char *hash = NULL;
    int error = 0;
    if (tunings->raw_forms != NULL) {
        error = pipeline_make_plan(pipeline, &tunings->raw_before, &tunings->raw_old, &delay_frames,
                                   &hash, problem);
        free(hash);
        hash = NULL;
        if (error == 0)
            error = pipeline_make_plan(pipeline, &tunings->raw_stream, &tunings->raw_new,
                                       &delay_frames, &hash, problem);
        free(hash);
    }
    const struct plan *old = tunings->raw_old != NULL ? tunings->raw_old : pipeline->plan;
    const struct plan *new = tunings->raw_new != NULL ? tunings->raw_new : tunings->plan;
    if (error == 0 && !engine_batch_holds(pipeline->engine, old, new))
        error = problem_set(
            problem, ERROR_LIMIT,
            "the blocks of stream %s are too large to compute two at once for a cross-fade; "
            "write s hard, or set a shorter `block`",
            pipeline->stream_config->name);
    return error;
}

static void prepare(uv_work_t *work)
{
    struct tunings *tunings = work->data;
    const struct pipeline *pipeline = tunings->pipeline;
    struct problem *problem = &tunings->problem;
    tunings->error = pipeline->direct == NULL ? 0
                                              : direct_filters(pipeline->config, &tunings->stream,
                                                               &tunings->filters, problem);
    if (tunings->error != 0 || direct_alone(pipeline))
        return;
    int error = pipeline_make_plan(pipeline, &tunings->stream, &tunings->plan,
                                   &tunings->delay_frames, &tunings->taps_hash, problem);
    if (error == 0 && tunings->wish.how == CHANGE_FADE)
        error = prepare_fade(tunings);
    if (error == 0) {
        error = stream_ring_prepare(pipeline->stream, tunings->plan, &tunings->ring, problem);
        if (error != 0)
            problem_prefix(
                problem, error,
                "this filter needs %u frames of history and a larger ring, for which there is no "
                "memory (`input memory` in [device])",
                plan_info(tunings->plan)->history_frames);
    }
    tunings->error = error;
}

/* ---- the change: loop thread ------------------------------------------------------------- */

static double load_of(const struct pipeline *pipeline, const struct plan *plan)
{
    uint32_t blocks = pipeline->stream_config->blocks_max;
    return (double)plan_cost_ns(plan, blocks) / (blocks * stream_block_period_ns(pipeline->stream));
}

/* The load of all live streams on its device once `plan` has its place; refused when it rises above
 * the limit. */
static int check_load(struct tunings *tunings)
{
    const struct service *service = tunings->service;
    double before = 0, after = 0;
    for (uint32_t i = 0; i < service->count; i++) {
        const struct pipeline *pipeline = service->pipelines[i];
        if (pipeline->retired || !stream_is_live(pipeline->stream) ||
            pipeline->placement != tunings->pipeline->placement)
            continue;
        double now = load_of(pipeline, pipeline->plan);
        before += now;
        after += pipeline == tunings->pipeline ? load_of(pipeline, tunings->plan) : now;
    }
    if (after <= load_max || after <= before)
        return 0;
    return problem_set(
        &tunings->problem, ERROR_LIMIT,
        "the load would be %.0f %%, more than %.0f %%; shorten the filter, or use longer "
        "blocks",
        100 * after, 100 * load_max);
}

static void close_retired(uv_work_t *work)
{
    struct retirement *retirement = work->data;
    for (int i = 0; i < 3; i++)
        plan_close(retirement->plans[i]);
    stream_ring_free(retirement->ring);
}

static void after_close(uv_work_t *work, int status)
{
    (void)status;
    free(work->data);
}

/* NULLs are fine. False: out of memory, nothing was closed. */
static bool retire(struct tunings *tunings, struct plan *a, struct plan *b, struct plan *c,
                   struct stream_ring *ring)
{
    struct retirement *retirement = calloc(1, sizeof *retirement);
    if (retirement == NULL)
        return false;
    *retirement = (struct retirement){.work.data = retirement, .plans = {a, b, c}, .ring = ring};
    uv_queue_work(&tunings->service->loop, &retirement->work, close_retired, after_close);
    return true;
}

/* The stream no longer uses its old plan. */
static void on_retired(void *context, struct plan *old)
{
    struct tuning *t = context;
    t->pending = false;
    assert(t->old == old);
    (void)old;
    struct stream_ring *ring = stream_ring_replaced(t->pipeline->stream);
    if (retire(t->owner, t->old, t->raw_old, t->raw_new, ring))
        t->old = t->raw_old = t->raw_new = NULL; /* else they are closed at the end */
    begin_next(t->owner);
}

/* With `align` the numbers of frames follow the delay: another one would say some twice. */
static int check_delay(struct tunings *tunings)
{
    const struct pipeline *pipeline = tunings->pipeline;
    if (!pipeline->stream_config->align || tunings->delay_frames == pipeline->delay_frames)
        return 0;
    return problem_set(
        &tunings->problem, ERROR_UNSUPPORTED,
        "stream %s is aligned, and this filter delays by %g frames where the one in use delays by "
        "%g; give both one delay, or set `align = no`",
        pipeline->stream_config->name, tunings->delay_frames, pipeline->delay_frames);
}

/* NULL: out of memory. */
static const char *keep_hash(struct tunings *tunings)
{
    for (const struct hash_text *hash = tunings->hashes; hash != NULL; hash = hash->next)
        if (strcmp(hash->text, tunings->taps_hash) == 0)
            return hash->text;
    size_t bytes = strlen(tunings->taps_hash) + 1;
    struct hash_text *hash = malloc(sizeof *hash + bytes);
    if (hash == NULL)
        return NULL;
    memcpy(hash->text, tunings->taps_hash, bytes);
    hash->next = tunings->hashes;
    tunings->hashes = hash;
    return hash->text;
}

static int exchange(struct tunings *tunings, uint64_t *frame)
{
    struct pipeline *pipeline = tunings->pipeline;
    struct tuning *t = tunings->of;
    const struct tuning_wish *wish = &tunings->wish;
    uint64_t next = pipeline_next_output(pipeline);
    *frame = wish->at_given ? wish->at_frame : next;
    if (*frame < next)
        return problem_set(
            &tunings->problem, ERROR_ARGUMENT,
            "frame %llu was computed while the change was prepared; name a later one",
            (unsigned long long)*frame);
    const char *taps_hash = keep_hash(tunings);
    if (taps_hash == NULL)
        return problem_set(&tunings->problem, ERROR_MEMORY, "out of memory");
    const struct stream_change change = {
        .plan = tunings->plan,
        .frame = pipeline_input_frame(pipeline, *frame),
        .delay_frames = tunings->delay_frames,
        .taps_hash = taps_hash,
        .how = wish->how,
        .fade_frames =
            (uint32_t)fmax(1, round(wish->fade_s * pipeline->stream_config->source.rate_hz)),
        .raw_old = tunings->raw_old,
        .raw_new = tunings->raw_new,
        .forms = pipeline->stream_config->outputs,
        .forms_count = pipeline->stream_config->output_count,
        .ring = tunings->ring,
        .retired = on_retired,
        .context = t,
    };
    /* The stream calls back when it has let go of the old one. */
    t->old = pipeline->plan;
    t->raw_old = tunings->raw_old;
    t->raw_new = tunings->raw_new;
    t->pending = true;
    int error = stream_change(pipeline->stream, &change);
    if (error != 0) {
        t->old = t->raw_old = t->raw_new = NULL;
        t->pending = false;
        return problem_set(
            &tunings->problem, error,
            "the plan for this change differs from the one in use; set `variant` in the "
            "configuration, and reload");
    }
    pipeline->plan = tunings->plan;
    pipeline->delay_frames = tunings->delay_frames;
    tunings->plan = tunings->raw_old = tunings->raw_new = NULL;
    tunings->ring = NULL;
    return 0;
}

/* What was wished for is what the next change starts from. */
static void keep_setting(struct tunings *tunings)
{
    struct tuning *t = tunings->of;
    copy_setting(&t->now, &t->then, tunings->pipeline->stream_config->output_count);
    free(t->edges);
    t->edges = tunings->edges;
    tunings->edges = NULL;
    if (tunings->filters >= 0)
        sound_card_set_filters(tunings->pipeline->direct, tunings->filters);
    tunings->filters = -1;
}

static void answer(struct tunings *tunings, const struct tuning_wish *wish, uint64_t frame)
{
    const struct tuning_answer answer = {.stream = tunings->pipeline->stream_config->name,
                                         .kind = wish->kind,
                                         .error = tunings->error,
                                         .text = tunings->problem.text,
                                         .frame = frame,
                                         .asker = wish->asker};
    tunings->answered(tunings->context, &answer);
}

static void on_prepared(uv_work_t *work, int status)
{
    struct tunings *tunings = work->data;
    struct pipeline *pipeline = tunings->pipeline;
    uint64_t frame = 0;
    (void)status; /* nobody cancels it */
    if (tunings->error == 0 && (pipeline->retired || tunings->stopped || pipeline->ended))
        tunings->error = problem_set(&tunings->problem, ERROR_CLOSED, "the stream is ending");
    const bool alone = direct_alone(pipeline);
    if (tunings->error == 0 && !alone)
        tunings->error = check_delay(tunings);
    if (tunings->error == 0 && !alone)
        tunings->error = check_load(tunings);
    if (tunings->error == 0 && !alone)
        tunings->error = exchange(tunings, &frame);
    if (tunings->error == 0)
        keep_setting(tunings);
    if (tunings->error == 0 && !alone)
        log_notice("stream %s: changed by OSC from output frame %llu on",
                   pipeline->stream_config->name, (unsigned long long)frame);
    if (!tunings->stopped) {
        answer(tunings, &tunings->wish, frame);
        for (uint32_t i = 0; i < tunings->joined_count; i++)
            answer(tunings, &tunings->joined[i], frame);
    }
    if (tunings->plan != NULL || tunings->ring != NULL) /* refused */
        retire(tunings, tunings->plan, tunings->raw_old, tunings->raw_new, tunings->ring);
    tunings->plan = tunings->raw_old = tunings->raw_new = NULL;
    tunings->ring = NULL;
    if (tunings->filters >= 0)
        close(tunings->filters);
    tunings->filters = -1;
    free(tunings->edges);
    free(tunings->raw_forms);
    free(tunings->taps_hash);
    tunings->edges = NULL;
    tunings->raw_forms = NULL;
    tunings->taps_hash = NULL;
    tunings->busy = false;
    pipeline->closing--;
    pipeline->changed(pipeline->context);
    begin_next(tunings);
}

static void apply(struct setting *setting, const struct waiting *waiting, uint32_t outputs)
{
    const struct tuning_wish *wish = &waiting->wish;
    for (uint32_t o = 0; o < outputs; o++) {
        if (wish->output != 0 && o != wish->output - 1)
            continue;
        if (wish->kind == TUNING_GAIN)
            setting->gain[o] = wish->factor;
        else if (wish->kind == TUNING_MUTE)
            setting->muted[o] = wish->muted;
    }
    if (wish->kind == TUNING_FILTER)
        setting->filter = waiting->filter;
}

/* Gains and mutes for the next block, as faders send them, join the one before. */
static bool joins(const struct tuning_wish *first, const struct tuning_wish *wish)
{
    return first->kind != TUNING_FILTER && wish->kind != TUNING_FILTER && !first->at_given &&
           !wish->at_given;
}

static void take_wishes(struct tunings *tunings, struct tuning *t)
{
    uint32_t outputs = t->pipeline->stream_config->output_count, taken = 1;
    copy_setting(&t->then, &t->now, outputs);
    tunings->wish = t->wishes[0].wish;
    tunings->joined_count = 0;
    apply(&t->then, &t->wishes[0], outputs);
    while (taken < t->wished && joins(&tunings->wish, &t->wishes[taken].wish)) {
        tunings->joined[tunings->joined_count++] = t->wishes[taken].wish;
        apply(&t->then, &t->wishes[taken++], outputs);
    }
    t->wished -= taken;
    memmove(t->wishes, t->wishes + taken, t->wished * sizeof *t->wishes);
}

/* For a cross-fade whose parts cannot be mixed as they are: forms with complex numbers where there
 * are envelopes, results in floats; NULL when it needs neither. */
static int make_forms(struct tunings *tunings)
{
    const struct config_stream *stream = &tunings->stream;
    uint32_t envelopes = 0;
    for (uint32_t o = 0; o < stream->output_count; o++)
        envelopes += stream->outputs[o] == OUTPUT_ENVELOPE;
    if (tunings->wish.how != CHANGE_FADE ||
        (envelopes == 0 && result_format_native(&stream->results)))
        return 0;
    tunings->raw_forms = calloc(stream->output_count, sizeof *tunings->raw_forms);
    if (tunings->raw_forms == NULL)
        return ERROR_MEMORY;
    for (uint32_t o = 0; o < stream->output_count; o++)
        tunings->raw_forms[o] =
            stream->outputs[o] == OUTPUT_ENVELOPE ? OUTPUT_COMPLEX : stream->outputs[o];
    tunings->raw_before = *stream;
    tunings->raw_before.edges =
        tunings->of->edges != NULL ? tunings->of->edges : tunings->pipeline->stream_config->edges;
    tunings->raw_before.outputs = tunings->raw_forms;
    tunings->raw_before.results = (struct result_format){0};
    tunings->raw_before.output_floats += envelopes;
    tunings->raw_stream = tunings->raw_before;
    tunings->raw_stream.edges = tunings->edges;
    return 0;
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
        edge->gain *= t->then.muted[edge->output] ? 0 : t->then.gain[edge->output];
        if (t->then.filter >= 0)
            edge->filter = (uint16_t)t->then.filter;
    }
    tunings->stream = *stream;
    tunings->stream.edges = tunings->edges;
    tunings->stream.hop_frames = plan_info(t->pipeline->plan)->hop;
    return make_forms(tunings);
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
    while (t != NULL && (t->wished == 0 || t->pending || !is_running(tunings, t->pipeline)))
        t = t->next;
    if (t == NULL)
        return;
    tunings->of = t;
    tunings->pipeline = t->pipeline;
    tunings->problem.text[0] = '\0';
    tunings->busy = true;
    /* Keeps it from being freed meanwhile. */
    t->pipeline->closing++;
    take_wishes(tunings, t);
    if (make_edges(tunings, t) != 0) {
        tunings->error = problem_set(&tunings->problem, ERROR_MEMORY, "out of memory");
        on_prepared(&tunings->work, 0);
        return;
    }
    uv_queue_work(&tunings->service->loop, &tunings->work, prepare, on_prepared);
}
