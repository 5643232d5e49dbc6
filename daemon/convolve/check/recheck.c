/* Computing a block again, see recheck.h. */
#include "convolve/check/recheck.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "convolve/plan/input_limit.h"
#include "convolve/plan/plan.h"
#include "convolve/plan/reference.h"
#include "convolve/plan/results.h"
#include "signal/decimation.h"
#include "signal/reference.h"

struct plan_reference *recheck_reference(const struct plan *plan)
{
    return plan->reference;
}

void recheck_hold(struct plan_reference *reference)
{
    plan_reference_hold(reference);
}

void recheck_release(struct plan_reference *reference)
{
    plan_reference_release(reference);
}

static int index_of(const uint16_t *inputs, uint32_t count, uint16_t input)
{
    for (uint32_t i = 0; i < count; i++)
        if (inputs[i] == input)
            return (int)i;
    return -1;
}

uint32_t recheck_inputs(const struct plan_reference *r, uint32_t output, uint16_t *inputs,
                        uint32_t capacity, uint32_t *place, uint32_t *values)
{
    uint32_t count = 0;
    *place = 0;
    for (uint32_t o = 0; o < output; o++)
        *place += r->outputs[o] == OUTPUT_COMPLEX ? 2 : 1;
    *values = r->outputs[output] == OUTPUT_COMPLEX ? 2 : 1;
    for (uint32_t e = 0; e < r->edge_count; e++) {
        const struct edge *edge = &r->edges[e];
        const uint32_t known = count < capacity ? count : capacity;
        if (edge->output != output || index_of(inputs, known, edge->input) >= 0)
            continue;
        if (count < capacity)
            inputs[count] = edge->input;
        count++;
    }
    return count;
}

/* What one check works on. */
struct work {
    const struct recheck_block *block;
    uint64_t frames, hop; /* before + L */
    double *x;            /* [frames] of one input, physical */
    double *y;            /* [frames + S - 1] */
    double *sums[2];      /* [hop]: real and imaginary part */
    double *want;         /* [kept] */
    float *got;           /* [kept] */
    double x2, x_max;     /* of all edges, times their max |H| */
};

/* As the first pass of the kernels takes it: absent frames, and samples that are no number or
 * beyond the plan's limit, are zero. */
static void read_input(const struct work *w, uint32_t index, uint16_t channel)
{
    const struct plan_reference *r = w->block->reference;
    const uint8_t *wire = w->block->input + index * w->frames * r->format.bytes;
    const double factor = channel_scale_factor(&r->scales[channel]);
    const struct input_scale limits =
        input_scale_of(&r->format, &r->scales[channel], r->input_limit);
    for (uint64_t n = 0; n < w->frames; n++) {
        const uint8_t *at = wire + n * r->format.bytes;
        const bool taken = w->block->present[n] && input_sample_fits(&limits, &r->format, at);
        w->x[n] = taken ? sample_decode(&r->format, at) * factor - r->scales[channel].offset : 0;
    }
}

static void size_of(const double *x, uint64_t frames, double *norm, double *most)
{
    double squares = 0;
    *most = 0;
    for (uint64_t n = 0; n < frames; n++) {
        squares += x[n] * x[n];
        *most = fmax(*most, fabs(x[n]));
    }
    *norm = sqrt(squares);
}

/* Adds one edge's part of the output. */
static int add_edge(struct work *w, const struct edge *edge)
{
    struct plan_reference *r = w->block->reference;
    const struct taps *taps = r->taps[edge->taps];
    /* only the frames that the block depends on count for its bound */
    const uint64_t reach = taps->count - 1 < w->block->before ? taps->count - 1 : w->block->before;
    const double *x = w->x + (w->block->before - reach);
    const uint64_t frames = reach + w->hop;
    const bool complex_taps = taps->im != NULL && r->outputs[w->block->output] != OUTPUT_REAL;
    if (r->peaks[edge->taps] == 0)
        r->peaks[edge->taps] = taps_peak_response(taps->re, taps->im, taps->count);
    double norm, most;
    size_of(x, frames, &norm, &most);
    const double gain = fabs((double)edge->gain) * r->peaks[edge->taps];
    w->x2 += gain * norm;
    w->x_max += gain * most;
    for (int part = 0; part < (complex_taps ? 2 : 1); part++) {
        const double *h = part == 0 ? taps->re : taps->im;
        if (reference_convolve(x, frames, h, taps->count, w->y) != 0)
            return ERROR_MEMORY;
        for (uint64_t n = 0; n < w->hop; n++)
            w->sums[part][n] += (double)edge->gain * w->y[reach + n];
    }
    return 0;
}

/* The larger of both errors, each relative to its limit. */
static double compare(struct work *w)
{
    const struct plan_reference *r = w->block->reference;
    const struct plan_info *info = &r->info;
    const enum output_form form = r->outputs[w->block->output];
    const struct decimation kept = {info->decimate, info->decimate_phase};
    const uint64_t first = w->block->first_frame, before = decimation_output(&kept, first);
    const uint64_t count = decimation_kept(&kept, first, w->hop);
    const uint32_t values = form == OUTPUT_COMPLEX ? 2 : 1;
    double worst = 0;
    for (uint32_t v = 0; v < values; v++) {
        for (uint64_t k = 0; k < count; k++) {
            const uint64_t n = decimation_input(&kept, before + k) - first;
            const uint8_t *result = w->block->results + (k * values + v) * info->sample_bytes;
            w->want[k] =
                form == OUTPUT_ENVELOPE ? hypot(w->sums[0][n], w->sums[1][n]) : w->sums[v][n];
            w->got[k] = (float)results_value(&info->results, result, w->want[k]);
        }
        struct error_bound bound;
        const bool good = error_bound_check(w->got, 1, w->want, count, w->x2, w->x_max, 1, &bound);
        double error = bound.limit2 > 0 ? bound.e2 / bound.limit2 : 0;
        if (bound.limit_max > 0)
            error = fmax(error, bound.e_max / bound.limit_max);
        if (!good && !(error > 1)) /* no number, or not zero where all is zero */
            error = INFINITY;
        worst = fmax(worst, error);
    }
    return worst;
}

int recheck_block(const struct recheck_block *block, double *error)
{
    const struct plan_reference *r = block->reference;
    const uint64_t hop = r->info.hop, frames = block->before + hop;
    struct work w = {.block = block, .frames = frames, .hop = hop};
    uint16_t *inputs = calloc(r->info.inputs, sizeof *inputs);
    w.x = malloc(frames * sizeof *w.x);
    w.y = malloc((frames + r->info.taps_longest) * sizeof *w.y);
    w.sums[0] = calloc(hop, sizeof *w.sums[0]);
    w.sums[1] = calloc(hop, sizeof *w.sums[1]);
    w.want = malloc(hop * sizeof *w.want);
    w.got = malloc(hop * sizeof *w.got);
    int status = ERROR_MEMORY;
    if (inputs == NULL || w.x == NULL || w.y == NULL || w.sums[0] == NULL || w.sums[1] == NULL ||
        w.want == NULL || w.got == NULL)
        goto done;
    uint32_t place, values;
    const uint32_t count =
        recheck_inputs(r, block->output, inputs, r->info.inputs, &place, &values);
    status = 0;
    for (uint32_t i = 0; i < count && status == 0; i++) {
        read_input(&w, i, inputs[i]);
        for (uint32_t e = 0; e < r->edge_count && status == 0; e++)
            if (r->edges[e].output == block->output && r->edges[e].input == inputs[i])
                status = add_edge(&w, &r->edges[e]);
    }
    if (status == 0)
        *error = compare(&w);
done:
    free(inputs);
    free(w.x);
    free(w.y);
    free(w.sums[0]);
    free(w.sums[1]);
    free(w.want);
    free(w.got);
    return status;
}
