/*
 * The right-angle transform in double, see plan/fft_plan.h and kernels/tree.clh.
 *
 * Work is kept as [re, im] pairs in the order of the tree without lanes: the root of 16
 * lanes is then a first level of radix 16, and its children are the lanes.
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

/* The child of the root that a lane holds. */
static uint32_t lane_child(uint32_t lanes, uint32_t lane)
{
    return lanes == 16 ? (lane >> 2) + 4 * (lane & 3) : lane;
}

/* The angle of the subtree in a lane, in turns. */
static double lane_angle(uint32_t lanes, uint32_t lane)
{
    return lanes == 1 ? 0.25 : (0.25 + lane_child(lanes, lane)) / lanes;
}

/* Factors of the node at `node` of the level with `nodes` nodes, then of its children. */
static void fill_factors(struct tree *tree, uint32_t lane, double angle, uint64_t radices,
                         uint32_t nodes, uint32_t node)
{
    if (radices == 0)
        return;
    const uint32_t radix = 1u << (radices & 3);
    double *level = tree->factors + (uint64_t)(nodes - 1) * tree->lanes * 2;
    for (uint32_t j = 1; j < radix; j++) {
        const struct complex_value r = unit(angle * j / radix);
        double *place = level + ((uint64_t)(node * (radix - 1) + j - 1) * tree->lanes + lane) * 2;
        place[0] = r.re;
        place[1] = r.im;
    }
    for (uint32_t k = 0; k < radix; k++)
        fill_factors(tree, lane, (angle + k) / radix, radices >> 2, nodes * radix,
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

/* The odd levels first, where a node is longest and its factors are fewest; two of radix 4 rather
 * than one of 8 and one of 2. */
static void choose_radices(struct tree *tree, uint32_t radix_max)
{
    const uint32_t step = radix_max == 8 ? 3 : 2;
    uint32_t left = tree->log_points;
    while (left > 0) {
        uint32_t log = left % step != 0 ? left % step : step;
        if (step == 3 && log == 1 && left > 1)
            log = 2;
        tree->radices |= (uint64_t)log << (2 * tree->levels++);
        left -= log;
    }
}

/* As the caller wants them. */
static void take_radices(struct tree *tree, uint64_t radices)
{
    uint32_t left = tree->log_points;
    for (tree->radices = radices; radices != 0; radices >>= 2) {
        tree->levels++;
        left -= (uint32_t)radices & 3;
    }
    assert(left == 0);
    (void)left;
}

static int create(uint32_t fft, uint32_t lanes, uint32_t radix_max, uint64_t radices,
                  struct tree **out, struct problem *problem)
{
    assert((lanes == 1 || lanes == 16) && fft >= 4 * lanes && (fft & (fft - 1)) == 0);
    struct tree *tree = calloc(1, sizeof *tree);
    if (tree == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for a transform of %u points",
                           fft);
    tree->fft = fft;
    tree->q = fft / 2;
    tree->lanes = lanes;
    tree->points = tree->q / lanes;
    tree->log_points = log2_exact(tree->points);
    if (radices != 0)
        take_radices(tree, radices);
    else
        choose_radices(tree, radix_max);
    tree->factors = calloc((uint64_t)tree->points * lanes * 2, sizeof *tree->factors);
    if (tree->factors == NULL) {
        tree_free(tree);
        return problem_set(problem, ERROR_MEMORY, "out of memory for a transform of %u points",
                           fft);
    }
    for (uint32_t lane = 0; lane < lanes; lane++)
        fill_factors(tree, lane, lane_angle(lanes, lane), tree->radices, 1, 0);
    *out = tree;
    return 0;
}

int tree_create(uint32_t fft, uint32_t lanes, uint32_t radix_max, struct tree **out,
                struct problem *problem)
{
    return create(fft, lanes, radix_max, 0, out, problem);
}

int tree_create_levels(uint32_t fft, uint64_t radices, struct tree **out, struct problem *problem)
{
    return create(fft, 1, 8, radices, out, problem);
}

void tree_free(struct tree *tree)
{
    if (tree == NULL)
        return;
    free(tree->factors);
    free(tree);
}

uint64_t tree_factor_floats(const struct tree *tree)
{
    return (uint64_t)tree->points * tree->lanes * 2;
}

void tree_factors(const struct tree *tree, float *table)
{
    for (uint32_t entry = 0; entry + 1 < tree->points; entry++)
        for (uint32_t lane = 0; lane < tree->lanes; lane++) {
            const double *factor = tree->factors + ((uint64_t)entry * tree->lanes + lane) * 2;
            float *place = table + (uint64_t)entry * 2 * tree->lanes + lane;
            place[0] = (float)factor[0];
            place[tree->lanes] = (float)factor[1];
        }
}

/* One node in place: z[j·s + i]·r^j, summed to R children. `factors` holds r^1 … r^(R-1), `stride`
 * pairs apart. */
static void forward_node(struct complex_value *z, uint32_t size, uint32_t radix,
                         const double *factors, uint32_t stride)
{
    const uint32_t s = size / radix;
    struct complex_value r[16], roots[16], x[16];
    for (uint32_t k = 0; k < radix; k++)
        roots[k] = unit((double)k / radix);
    r[0] = (struct complex_value){1, 0};
    for (uint32_t j = 1; j < radix; j++)
        r[j] = (struct complex_value){factors[(uint64_t)(j - 1) * stride * 2],
                                      factors[(uint64_t)(j - 1) * stride * 2 + 1]};
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

void tree_spectrum(const struct tree *tree, const double *h, uint32_t count, double *work,
                   float *spectrum)
{
    assert(count <= tree->fft);
    struct complex_value *z = (struct complex_value *)work;
    const uint32_t q = tree->q, lanes = tree->lanes, points = tree->points;
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
        for (uint64_t radices = tree->radices; radices != 0; radices >>= 2) {
            const uint32_t radix = 1u << (radices & 3);
            for (uint32_t node = 0; node < nodes; node++)
                forward_node(part + (uint64_t)node * size, size, radix,
                             tree->factors +
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
