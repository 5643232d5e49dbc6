/*
 * Minima on a line, in closed form. Between two neighbouring sensors each distance grows or falls
 * with x, with the sign σ_i, and the sum is the parabola of least squares
 *
 *     r_i = a_i - σ_i x - mean,  a_i = v (t_i - t_1) + σ_i s_i
 *     x*  = sum (a_i - ā) (σ_i - σ̄) / sum (σ_i - σ̄)²
 *
 * A minimum lies where x* lies between the two sensors, or at a sensor from whose both sides x*
 * lies across it. Beyond the outer sensors the sum is constant: a source there is known by its side
 * alone.
 */
#include <math.h>

#include "analysis/minima.h"

/* x* between sensors `rank` and rank + 1 of `order`; the sum is taken for an x in between. */
static double parabola(const struct minima_view *view, const uint32_t *order, uint32_t rank)
{
    double a[MINIMA_ARRIVALS_MAX], side[MINIMA_ARRIVALS_MAX], mean_a = 0, mean_side = 0;
    for (uint32_t k = 0; k < view->count; k++) {
        const uint32_t i = order[k];
        side[k] = k <= rank ? 1 : -1;
        a[k] = view->reach[i] + side[k] * view->x[i];
        mean_a += a[k] / view->count;
        mean_side += side[k] / view->count;
    }
    double up = 0, down = 0;
    for (uint32_t k = 0; k < view->count; k++) {
        up += (a[k] - mean_a) * (side[k] - mean_side);
        down += (side[k] - mean_side) * (side[k] - mean_side);
    }
    return up / down;
}

static void add(const struct minima_field *f, const struct minima_view *view, double x, double side,
                struct minima *minima)
{
    if (minima_inside(f, x, 0, 0) && minima->count < MINIMA_MAX)
        minima->list[minima->count++] =
            (struct minimum){.x = x, .sum = minima_sum(view, x, 0, NULL), .side = side};
}

void minima_line(const struct minima_field *f, const struct minima_view *view,
                 struct minima *minima)
{
    uint32_t order[MINIMA_ARRIVALS_MAX];
    for (uint32_t i = 0; i < view->count; i++) {
        uint32_t k = i;
        for (; k > 0 && view->x[order[k - 1]] > view->x[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    double left = -INFINITY; /* x* of the stretch before the sensor */
    for (uint32_t rank = 0; rank < view->count; rank++) {
        const double here = view->x[order[rank]];
        const bool last = rank + 1 == view->count;
        const double right = last ? INFINITY : parabola(view, order, rank);
        if (rank == 0 && right <= here) {
            add(f, view, here, 1, minima);
            add(f, view, f->low.x_m, 1, minima);
        } else if (last && left >= here) {
            add(f, view, here, -1, minima);
            add(f, view, f->high.x_m, -1, minima);
        } else if (rank > 0 && !last && left >= here && right <= here) {
            add(f, view, here, 1, minima);
        }
        if (!last && right > here && right < view->x[order[rank + 1]])
            add(f, view, right, 0, minima);
        left = right;
    }
}
