/*
 * The command `response`: what the filters of the configuration do on a stream: taps, delay,
 * magnitude over frequency. The loop names the filters and holds the configuration; a worker makes
 * their taps anew, measures them and writes the answer, so that no design, however long, delays a
 * block.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "control/commands_internal.h"
#include "filter/response.h"

enum {
    CURVE_POINTS = 1024, /* of a response: more are reduced to the largest of each piece */
    TAP_VALUES = 2048,
    GRID_POINTS = 8192, /* at least, and twice the taps */
    FILTERS_MAX = 64,
    AT_ONCE = 2, /* workers that designs may keep from changes and reloads */
};

/* Owned by the worker between uv_queue_work and its return, else by the loop. */
struct response_work {
    uv_work_t work;
    struct commands *commands;
    uint64_t call;
    struct config *config; /* held */
    const struct config_stream *stream;
    uint32_t filters[FILTERS_MAX]; /* indices into config */
    bool curves[FILTERS_MAX];      /* of this one, all figures; of the others none */
    uint32_t count;
    json_t *answer; /* NULL: no memory */
};

/* ---- worker ------------------------------------------------------------------------------ */

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

static void measure(uv_work_t *uv_work)
{
    struct response_work *work = uv_work->data;
    json_t *filters = json_array();
    for (uint32_t i = 0; i < work->count; i++)
        json_array_append_new(filters, filter_json(work, i));
    work->answer =
        json_pack("{s:b, s:s, s:o}", "ok", 1, "stream", work->stream->name, "filters", filters);
}

/* ---- loop -------------------------------------------------------------------------------- */

static void on_measured(uv_work_t *uv_work, int status)
{
    struct response_work *work = uv_work->data;
    struct commands *commands = work->commands;
    struct call *call = call_find(commands, work->call);
    (void)status; /* nobody cancels it */
    commands->responses--;
    if (call != NULL)
        call_finish(call, work->answer);
    else
        json_decref(work->answer);
    config_free(work->config);
    free(work);
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
    if (commands->responses == AT_ONCE || commands->stopped)
        return answer_busy();
    struct response_work *work = calloc(1, sizeof *work);
    if (work == NULL)
        return commands_failure("failed", "no memory for a response");
    work->config = config_hold(pipeline->config);
    work->stream = pipeline->stream_config;
    if (!name_filters(work, name)) {
        failure = commands_failure(
            "filter", "there is no such filter; {\"command\": \"streams\"} names them");
        goto refuse;
    }
    struct call *kept = call_keep(call);
    if (kept == NULL) {
        failure = answer_busy();
        goto refuse;
    }
    work->commands = commands;
    work->call = kept->number;
    work->work.data = work;
    commands->responses++;
    uv_queue_work(commands->process->environment->loop, &work->work, measure, on_measured);
    return NULL;

refuse:
    config_free(work->config);
    free(work);
    return failure;
}
