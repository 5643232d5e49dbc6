/*
 * The command `response`: what the filters of the configuration do on a stream: taps, delay,
 * magnitude over frequency. The loop names the filters and holds the configuration; a job makes
 * their taps anew, measures them and writes the answer, so that no design, however long, delays a
 * block. A filter that does not come back, such as a file on a disk that hangs, is cut off after
 * `prepare timeout`: its thread is left behind (job.h), and no more than a few of them.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/commands_internal.h"
#include "core/log.h"
#include "filter/response.h"

enum {
    CURVE_POINTS = 1024, /* of a response: more are reduced to the largest of each piece */
    TAP_VALUES = 2048,
    GRID_POINTS = 8192, /* at least, and twice the taps */
    FILTERS_MAX = 64,
};

/* The job's while it runs; the loop's before and after. */
struct response_work {
    struct job job;
    struct config *config; /* held */
    const struct config_stream *stream;
    uint32_t filters[FILTERS_MAX]; /* indices into config */
    bool curves[FILTERS_MAX];      /* of this one, all figures; of the others none */
    uint32_t count;
    json_t *answer; /* NULL: no memory */
};

/* ---- the job's thread -------------------------------------------------------------------- */

static double decibels(double magnitude)
{
    return magnitude > 1e-20 ? 20 * log10(magnitude) : -400;
}

/* Real taps: 0 … rate/2; complex ones from -rate/2 on. */
static void add_curve(json_t *object, const struct taps *taps, double rate_hz)
{
    uint32_t points = GRID_POINTS;
    double *grid;
    struct problem problem;
    while (points < 2 * (uint64_t)taps->count)
        points *= 2;
    if (response_grid(taps, points, &grid, &problem) < 0) {
        json_object_set_new(object, "error", json_string(problem.text));
        return;
    }
    const uint32_t used = taps->im != NULL ? points : points / 2;
    const uint32_t first = taps->im != NULL ? points / 2 : 0, piece = used / CURVE_POINTS;
    json_t *magnitudes = json_array();
    for (uint32_t p = 0; p < CURVE_POINTS; p++) {
        double largest = 0;
        for (uint32_t k = p * piece; k < (p + 1) * piece; k++)
            largest = fmax(largest, grid[(first + k) % points]);
        json_array_append_new(magnitudes, json_real(decibels(largest)));
    }
    free(grid);
    json_object_set_new(object, "first_hz", json_real(taps->im != NULL ? -rate_hz / 2 : 0));
    json_object_set_new(object, "step_hz", json_real(rate_hz / points * piece));
    json_object_set_new(object, "magnitude_db", magnitudes);
}

/* The real parts; of more than TAP_VALUES the extreme one of each piece. */
static void add_taps(json_t *object, const struct taps *taps)
{
    const uint32_t piece = (taps->count + TAP_VALUES - 1) / TAP_VALUES;
    json_t *values = json_array();
    for (uint32_t n = 0; n < taps->count; n += piece) {
        double extreme = taps->re[n];
        for (uint32_t i = n; i < n + piece && i < taps->count; i++)
            if (fabs(taps->re[i]) > fabs(extreme))
                extreme = taps->re[i];
        json_array_append_new(values, json_real(extreme));
    }
    json_object_set_new(object, "tap_step", json_integer(piece));
    json_object_set_new(object, "tap_values", values);
}

static bool is_used(const struct config_stream *stream, uint32_t filter)
{
    for (uint32_t e = 0; e < stream->edge_count; e++)
        if (stream->edges[e].filter == filter)
            return true;
    return false;
}

static json_t *filter_json(const struct response_work *work, uint32_t i)
{
    const struct config_filter *filter = &work->config->filters[work->filters[i]];
    const double rate_hz = work->stream->source.rate_hz;
    const struct filter_spec spec = config_filter_spec(filter, work->stream);
    struct problem problem;
    struct taps **sets;
    uint32_t count;
    json_t *object = json_pack("{s:s, s:b, s:f}", "name", filter->name, "configured",
                               is_used(work->stream, work->filters[i]), "rate_hz", rate_hz);
    if (filter_make(&spec, rate_hz, &sets, &count, NULL, &problem) < 0) {
        json_object_set_new(object, "error", json_string(problem.text));
        return object;
    }
    const struct taps *taps = sets[0];
    json_object_set_new(object, "taps", json_integer(taps->count));
    json_object_set_new(object, "sets", json_integer(count));
    json_object_set_new(object, "complex", json_boolean(taps->im != NULL));
    json_object_set_new(object, "delay_frames", json_real(taps->delay_frames));
    json_object_set_new(object, "hash", json_string(taps->hash));
    if (work->curves[i]) {
        add_curve(object, taps, rate_hz);
        add_taps(object, taps);
    }
    taps_sets_free(sets, count);
    return object;
}

static void measure(struct job *job)
{
    struct response_work *work = (struct response_work *)job;
    json_t *filters = json_array();
    for (uint32_t i = 0; i < work->count; i++) {
        if (!job_step(job, NULL, "a filter is read or designed", NULL))
            break;
        json_array_append_new(filters, filter_json(work, i));
    }
    work->answer =
        json_pack("{s:b, s:s, s:o}", "ok", 1, "stream", work->stream->name, "filters", filters);
}

/* ---- loop -------------------------------------------------------------------------------- */

static void free_work(struct response_work *work)
{
    json_decref(work->answer);
    config_free(work->config);
    job_close(&work->job);
    free(work);
}

/* The job's thread, too, once it was left behind. */
static void discard(struct job *job)
{
    free_work((struct response_work *)job);
}

static void on_measured(void *context, struct job *job)
{
    const struct response_slot *slot = context;
    struct response_work *work = (struct response_work *)job;
    struct call *call = call_find(slot->commands, slot->call);
    if (call != NULL)
        call_finish(call, json_incref(work->answer));
    free_work(work);
}

/* The job was left behind, with all it has. */
static void on_late(void *context, const char *stream, const char *step, struct engine *engine)
{
    const struct response_slot *slot = context;
    struct call *call = call_find(slot->commands, slot->call);
    struct problem problem;
    (void)stream, (void)engine; /* none */
    problem_set(&problem, ERROR_SYSTEM,
                "the response hangs: %s, for longer than `prepare timeout`; it is cut off",
                step != NULL ? step : "it does not begin");
    log_error("stream %s: %s; its thread is left behind (%u of at most %d)", slot->stream,
              problem.text, jobs_left_behind(JOB_OF_RESPONSE), JOBS_LEFT_MAX);
    if (call != NULL)
        call_finish(call, answer_error(&problem));
}

void responses_open(struct commands *commands)
{
    for (int i = 0; i < RESPONSES_MAX; i++) {
        struct response_slot *slot = &commands->responses[i];
        slot->commands = commands;
        slot->watch.done = on_measured;
        slot->watch.late = on_late;
        slot->watch.context = slot;
        job_watch_open(&slot->watch, commands->process->environment->loop);
    }
}

void responses_stop(struct commands *commands)
{
    for (int i = 0; i < RESPONSES_MAX; i++) {
        struct job *job = job_watch_close(&commands->responses[i].watch);
        if (job != NULL)
            discard(job);
    }
}

static struct response_slot *free_slot(struct commands *commands)
{
    for (int i = 0; i < RESPONSES_MAX; i++)
        if (commands->responses[i].watch.job == NULL)
            return &commands->responses[i];
    return NULL;
}

/* All filters by name, with the curves of those that the stream is configured with; or one. */
static bool name_filters(struct response_work *work, const char *name)
{
    for (uint32_t f = 0; f < work->config->filter_count && work->count < FILTERS_MAX; f++) {
        if (name != NULL && strcmp(work->config->filters[f].name, name) != 0)
            continue;
        work->curves[work->count] = name != NULL || is_used(work->stream, f);
        work->filters[work->count++] = f;
    }
    return work->count > 0 || name == NULL;
}

json_t *handle_response(struct call *call, const json_t *request)
{
    struct commands *commands = call->commands;
    const char *name = json_string_value(json_object_get(request, "filter"));
    json_t *failure;
    const struct pipeline *pipeline = stream_of(call, request, &failure);
    if (pipeline == NULL)
        return failure;
    struct response_slot *slot = free_slot(commands);
    if (slot == NULL || commands->stopped)
        return answer_busy();
    if (jobs_left_behind(JOB_OF_RESPONSE) >= JOBS_LEFT_MAX) {
        struct problem problem;
        problem_set(&problem, ERROR_LIMIT,
                    "%d responses hang already and were left behind; restart the daemon",
                    JOBS_LEFT_MAX);
        return answer_error(&problem);
    }
    struct response_work *work = calloc(1, sizeof *work);
    if (work == NULL)
        return commands_failure("failed", "no memory for a response");
    job_open(&work->job, JOB_OF_RESPONSE, measure, discard);
    work->config = config_hold(pipeline->config);
    work->stream = pipeline->stream_config;
    if (!name_filters(work, name)) {
        free_work(work);
        return commands_failure("filter",
                                "there is no such filter; {\"command\": \"streams\"} names them");
    }
    struct call *kept = call_keep(call);
    if (kept == NULL) {
        free_work(work);
        return answer_busy();
    }
    slot->call = kept->number;
    snprintf(slot->stream, sizeof slot->stream, "%s", work->stream->name);
    if (job_watch_start(&slot->watch, &work->job, commands->process->config->daemon.prepare_ns) ==
        0)
        return NULL;
    call_drop(kept);
    free_work(work);
    return commands_failure("failed", "no thread can be started for it");
}
