/*
 * FFT plans (plan/fft_plan.h) in double. The working array holds [re, im] pairs in the order of a
 * transform without lanes; with 16 lanes the first pass has radix 16, and sub-transform k of it is
 * what one lane holds.
 */
#include "convolve/plan/fft_plan.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct complex_value {
    double re, im;
};

static struct complex_value times(struct complex_value a, struct complex_value b)
{
    return (struct complex_value){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* exp(2 pi i turns) */
static struct complex_value unit(double turns)
{
    const double angle = 2 * M_PI * (turns - floor(turns));
    return (struct complex_value){cos(angle), sin(angle)};
}

/* Which sub-transform of the first pass a lane holds. */
static uint32_t lane_child(uint32_t lanes, uint32_t lane)
{
    return lanes == 16 ? (lane >> 2) + 4 * (lane & 3) : lane;
}

/* The angle of a lane's sub-transform, in turns. */
static double lane_angle(uint32_t lanes, uint32_t lane)
{
    return lanes == 1 ? 0.25 : (0.25 + lane_child(lanes, lane)) / lanes;
}

/* Twiddles of sub-transform `node` of the pass with `nodes` of them, then of its children. */
static void fill_twiddles(struct fft_plan *plan, uint32_t lane, double angle, uint64_t radices,
                          uint32_t nodes, uint32_t node)
{
    if (radices == 0)
        return;
    const uint32_t radix = 1u << (radices & 3);
    double *pass = plan->twiddles + (uint64_t)(nodes - 1) * plan->lanes * 2;
    for (uint32_t j = 1; j < radix; j++) {
        const struct complex_value r = unit(angle * j / radix);
        double *twiddle = pass + ((uint64_t)(node * (radix - 1) + j - 1) * plan->lanes + lane) * 2;
        twiddle[0] = r.re;
        twiddle[1] = r.im;
    }
    for (uint32_t k = 0; k < radix; k++)
        fill_twiddles(plan, lane, (angle + k) / radix, radices >> 2, nodes * radix,
                      node * radix + k);
}

static uint32_t log2_exact(uint32_t value)
{
    uint32_t log = 0;
    while ((1u << log) < value)
        log++;
    assert((1u << log) == value);
    return log;
}

/* The odd passes first, where sub-transforms are longest and twiddles fewest; two of radix 4 rather
 * than one of 8 and one of 2. */
static void choose_radices(struct fft_plan *plan, uint32_t radix_max)
{
    const uint32_t step = radix_max == 8 ? 3 : 2;
    uint32_t left = plan->log_points;
    while (left > 0) {
        uint32_t log = left % step != 0 ? left % step : step;
        if (step == 3 && log == 1 && left > 1)
            log = 2;
        plan->radices |= (uint64_t)log << (2 * plan->passes++);
        left -= log;
    }
}

/* The radices that the caller chose. */
static void take_radices(struct fft_plan *plan, uint64_t radices)
{
    uint32_t left = plan->log_points;
    for (plan->radices = radices; radices != 0; radices >>= 2) {
        plan->passes++;
        left -= (uint32_t)radices & 3;
    }
    assert(left == 0);
    (void)left;
}

static int create(uint32_t fft, uint32_t lanes, uint32_t radix_max, uint64_t radices,
                  struct fft_plan **out, struct problem *problem)
{
    assert((lanes == 1 || lanes == 16) && fft >= 4 * lanes && (fft & (fft - 1)) == 0);
    struct fft_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for a transform of %u points",
                           fft);
    plan->fft = fft;
    plan->q = fft / 2;
    plan->lanes = lanes;
    plan->points = plan->q / lanes;
    plan->log_points = log2_exact(plan->points);
    if (radices != 0)
        take_radices(plan, radices);
    else
        choose_radices(plan, radix_max);
    plan->twiddles = calloc((uint64_t)plan->points * lanes * 2, sizeof *plan->twiddles);
    if (plan->twiddles == NULL) {
        fft_plan_free(plan);
        return problem_set(problem, ERROR_MEMORY, "out of memory for a transform of %u points",
                           fft);
    }
    for (uint32_t lane = 0; lane < lanes; lane++)
        fill_twiddles(plan, lane, lane_angle(lanes, lane), plan->radices, 1, 0);
    *out = plan;
    return 0;
}

int fft_plan_create(uint32_t fft, uint32_t lanes, uint32_t radix_max, struct fft_plan **out,
                    struct problem *problem)
{
    return create(fft, lanes, radix_max, 0, out, problem);
}

int fft_plan_create_radices(uint32_t fft, uint64_t radices, struct fft_plan **out,
                            struct problem *problem)
{
    return create(fft, 1, 8, radices, out, problem);
}

void fft_plan_free(struct fft_plan *plan)
{
    if (plan == NULL)
        return;
    free(plan->twiddles);
    free(plan);
}

uint64_t fft_plan_twiddle_floats(const struct fft_plan *plan)
{
    return (uint64_t)plan->points * plan->lanes * 2;
}

void fft_plan_twiddles(const struct fft_plan *plan, float *table)
{
    for (uint32_t entry = 0; entry + 1 < plan->points; entry++)
        for (uint32_t lane = 0; lane < plan->lanes; lane++) {
            const double *twiddle = plan->twiddles + ((uint64_t)entry * plan->lanes + lane) * 2;
            float *out = table + (uint64_t)entry * 2 * plan->lanes + lane;
            out[0] = (float)twiddle[0];
            out[plan->lanes] = (float)twiddle[1];
        }
}

/* One node in place: z[j·s + i]·r^j, summed to R children. `twiddles` holds r^1 … r^(R-1), `stride`
 * pairs apart. */
static void forward_node(struct complex_value *z, uint32_t size, uint32_t radix,
                         const double *twiddles, uint32_t stride)
{
    const uint32_t s = size / radix;
    struct complex_value r[16], roots[16], x[16];
    for (uint32_t k = 0; k < radix; k++)
        roots[k] = unit((double)k / radix);
    r[0] = (struct complex_value){1, 0};
    for (uint32_t j = 1; j < radix; j++)
        r[j] = (struct complex_value){twiddles[(uint64_t)(j - 1) * stride * 2],
                                      twiddles[(uint64_t)(j - 1) * stride * 2 + 1]};
    for (uint32_t i = 0; i < s; i++) {
        for (uint32_t j = 0; j < radix; j++)
            x[j] = times(z[j * s + i], r[j]);
        for (uint32_t k = 0; k < radix; k++) {
            struct complex_value sum = x[0];
            for (uint32_t j = 1; j < radix; j++) {
                const struct complex_value t = times(x[j], roots[j * k % radix]);
                sum.re += t.re;
                sum.im += t.im;
            }
            z[k * s + i] = sum;
        }
    }
}

void fft_plan_spectrum(const struct fft_plan *plan, const double *h, uint32_t count, double *work,
                       float *spectrum)
{
    assert(count <= plan->fft);
    struct complex_value *z = (struct complex_value *)work;
    const uint32_t q = plan->q, lanes = plan->lanes, points = plan->points;
    for (uint32_t n = 0; n < q; n++) {
        z[n].re = n < count ? h[n] : 0;
        z[n].im = n + q < count ? h[n + q] : 0;
    }
    if (lanes > 1) {
        double root[2 * 16];
        for (uint32_t j = 1; j < lanes; j++) {
            const struct complex_value r = unit(0.25 * j / lanes);
            root[2 * (j - 1)] = r.re;
            root[2 * (j - 1) + 1] = r.im;
        }
        forward_node(z, q, lanes, root, 1);
    }
    for (uint32_t lane = 0; lane < lanes; lane++) {
        struct complex_value *part = z + (uint64_t)lane_child(lanes, lane) * points;
        uint32_t nodes = 1, size = points;
        for (uint64_t radices = plan->radices; radices != 0; radices >>= 2) {
            const uint32_t radix = 1u << (radices & 3);
            for (uint32_t node = 0; node < nodes; node++)
                forward_node(part + (uint64_t)node * size, size, radix,
                             plan->twiddles +
                                 ((uint64_t)(nodes - 1 + node * (radix - 1)) * lanes + lane) * 2,
                             lanes);
            nodes *= radix;
            size /= radix;
        }
        for (uint32_t v = 0; v < points; v++) {
            spectrum[(uint64_t)v * 2 * lanes + lane] = (float)(part[v].re / q);
            spectrum[(uint64_t)v * 2 * lanes + lanes + lane] = (float)(part[v].im / q);
        }
    }
}
