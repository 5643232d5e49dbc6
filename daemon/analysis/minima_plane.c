/*
 * Minima on a plane: the sum at the middle of every cell of the grid, the cells that are lower than
 * their neighbours, and from the lowest of those damped Gauss–Newton steps.
 */
#include <math.h>

#include "analysis/minima.h"

enum {
    BLOCK = 64,  /* cells in the cache at once */
    BASINS = 16, /* lowest cells followed */
    STARTS = 64, /* cells near a minimum followed */
    STEPS = 100,
};

#define STEP_LEAST_M 1e-10 /* steps end here; places are good to 1e-9 m */
#define SAME_PLACE_M 1e-6

/* ---- grid -------------------------------------------------------------------------------- */

/* With r_i less r_1, which changes no deviation from the mean and keeps the digits of a float. */
static void block_costs(const struct minima_field *f, const struct minima_view *view, size_t first,
                        size_t count, float *costs)
{
    const size_t cells = (size_t)f->columns * f->rows;
    float sums[BLOCK] = {0}, squares[BLOCK] = {0};
    const float *nearest = f->distances + view->sensor[0] * cells + first;
    for (uint32_t i = 1; i < view->count; i++) {
        const float *distance = f->distances + view->sensor[i] * cells + first;
        const float reach = (float)view->reach[i];
        for (size_t k = 0; k < count; k++) {
            const float r = reach - (distance[k] - nearest[k]);
            sums[k] += r;
            squares[k] += r * r;
        }
    }
    const float share = 1 / (float)view->count;
    for (size_t k = 0; k < count; k++)
        costs[k] = squares[k] - sums[k] * sums[k] * share;
}

static void grid_costs(const struct minima_field *f, const struct minima_view *view)
{
    const size_t cells = (size_t)f->columns * f->rows;
    for (size_t first = 0; first < cells; first += BLOCK)
        block_costs(f, view, first, cells - first < BLOCK ? cells - first : BLOCK,
                    f->costs + first);
}

static double cost_at(const struct minima_field *f, uint32_t column, uint32_t row)
{
    return (double)f->costs[(size_t)row * f->columns + column];
}

static bool is_lowest_around(const struct minima_field *f, uint32_t column, uint32_t row)
{
    const float own = f->costs[(size_t)row * f->columns + column];
    const uint32_t left = column > 0 ? column - 1 : 0, top = row > 0 ? row - 1 : 0;
    for (uint32_t r = top; r <= row + 1 && r < f->rows; r++)
        for (uint32_t c = left; c <= column + 1 && c < f->columns; c++)
            if (f->costs[(size_t)r * f->columns + c] < own)
                return false;
    return true;
}

struct starts {
    uint32_t count, most;        /* ≤ STARTS */
    struct minimum list[STARTS]; /* by sum, ascending */
};

static void add_start(struct starts *starts, struct point at, double sum)
{
    uint32_t place = starts->most - 1;
    if (starts->count < starts->most)
        place = starts->count++;
    else if (starts->list[place].sum <= sum)
        return;
    for (; place > 0 && starts->list[place - 1].sum > sum; place--)
        starts->list[place] = starts->list[place - 1];
    starts->list[place] = (struct minimum){.x = at.x_m, .y = at.y_m, .sum = sum};
}

/* ---- steps ------------------------------------------------------------------------------- */

struct normal {
    double xx, xy, yy, x, y; /* JᵀJ and -Jᵀr */
};

static struct normal normal_at(const struct minima_view *view, double x, double y,
                               const double *residuals)
{
    double ux[MINIMA_ARRIVALS_MAX], uy[MINIMA_ARRIVALS_MAX], mean_x = 0, mean_y = 0;
    for (uint32_t i = 0; i < view->count; i++) {
        const double dx = x - view->x[i], dy = y - view->y[i], distance = hypot(dx, dy);
        ux[i] = distance > 0 ? dx / distance : 0;
        uy[i] = distance > 0 ? dy / distance : 0;
        mean_x += ux[i] / view->count;
        mean_y += uy[i] / view->count;
    }
    struct normal n = {0};
    for (uint32_t i = 0; i < view->count; i++) {
        const double jx = ux[i] - mean_x, jy = uy[i] - mean_y;
        n.xx += jx * jx;
        n.xy += jx * jy;
        n.yy += jy * jy;
        n.x += jx * residuals[i];
        n.y += jy * residuals[i];
    }
    return n;
}

/* From `at` to the minimum of its basin. False: it leads far out of the extent. */
static bool descend(const struct minima_field *f, const struct minima_view *view,
                    struct minimum *at)
{
    const double room = hypot(f->high.x_m - f->low.x_m, f->high.y_m - f->low.y_m);
    double residuals[MINIMA_ARRIVALS_MAX], damping = 1e-3;
    at->sum = minima_sum(view, at->x, at->y, residuals);
    struct normal n = normal_at(view, at->x, at->y, residuals);
    for (int step = 0; step < STEPS && damping < 1e9; step++) {
        const double added = damping * fmax(n.xx + n.yy, 1e-30);
        const double xx = n.xx + added, yy = n.yy + added, determinant = xx * yy - n.xy * n.xy;
        const double dx = (yy * n.x - n.xy * n.y) / determinant;
        const double dy = (xx * n.y - n.xy * n.x) / determinant;
        double next_residuals[MINIMA_ARRIVALS_MAX];
        const double sum = minima_sum(view, at->x + dx, at->y + dy, next_residuals);
        if (!(sum < at->sum)) {
            if (hypot(dx, dy) < STEP_LEAST_M)
                return true;
            damping *= 8;
            continue;
        }
        at->x += dx;
        at->y += dy;
        at->sum = sum;
        if (!minima_inside(f, at->x, at->y, room))
            return false;
        if (hypot(dx, dy) < STEP_LEAST_M && damping <= 1e-3)
            return true;
        damping = fmax(damping / 8, 1e-15);
        n = normal_at(view, at->x, at->y, next_residuals);
    }
    return true;
}

/* ---- minima ------------------------------------------------------------------------------ */

static void add_minimum(struct minima *minima, const struct minimum *found)
{
    for (uint32_t i = 0; i < minima->count; i++) {
        struct minimum *known = &minima->list[i];
        if (hypot(known->x - found->x, known->y - found->y) < SAME_PLACE_M) {
            if (found->sum < known->sum)
                *known = *found;
            return;
        }
    }
    if (minima->count < MINIMA_MAX)
        minima->list[minima->count++] = *found;
}

/* Descends from each start and keeps the minima that lie in the extent. */
static void follow(const struct minima_field *f, const struct minima_view *view,
                   struct starts *starts, double margin, struct minima *minima)
{
    for (uint32_t i = 0; i < starts->count; i++)
        if (descend(f, view, &starts->list[i]) &&
            minima_inside(f, starts->list[i].x, starts->list[i].y, margin))
            add_minimum(minima, &starts->list[i]);
}

static double best_sum(const struct minima *minima)
{
    double best = INFINITY;
    for (uint32_t i = 0; i < minima->count; i++)
        best = fmin(best, minima->list[i].sum);
    return best;
}

/*
 * First the basins that the grid shows, then every cell that may hide one between its corners:
 * within a cell of half a diagonal h each distance differs by at most h from that at the middle, so
 * a cell that holds a minimum as good as the best known one has a root of the sum of at most that
 * one's plus h sqrt(n).
 */
void minima_plane(const struct minima_field *f, const struct minima_view *view,
                  struct minima *minima)
{
    const double width = minima_cell_m(f->low.x_m, f->high.x_m, f->columns);
    const double height = minima_cell_m(f->low.y_m, f->high.y_m, f->rows);
    const double half = hypot(width, height) / 2, margin = fmax(width, height) / 2;
    struct starts lowest = {.most = BASINS}, near = {.most = STARTS};
    grid_costs(f, view);
    for (uint32_t row = 0; row < f->rows; row++)
        for (uint32_t column = 0; column < f->columns; column++)
            if (is_lowest_around(f, column, row))
                add_start(&lowest, minima_cell(f, column, row), cost_at(f, column, row));
    follow(f, view, &lowest, margin, minima);
    const double root = sqrt(best_sum(minima)) + half * sqrt(view->count);
    for (uint32_t row = 0; row < f->rows; row++)
        for (uint32_t column = 0; column < f->columns; column++)
            if (cost_at(f, column, row) <= root * root)
                add_start(&near, minima_cell(f, column, row), cost_at(f, column, row));
    follow(f, view, &near, margin, minima);
}
