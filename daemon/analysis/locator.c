/* Locator: see locator.h. */
#include "analysis/locator.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/minima.h"

_Static_assert((int)LOCATOR_ARRIVALS_MAX == (int)MINIMA_ARRIVALS_MAX, "views hold all arrivals");

struct locator {
    struct locator_spec spec; /* but for the sensors */
    struct minima_field field;
};

/* ---- life -------------------------------------------------------------------------------- */

/* Cells along both sides, square as far as whole numbers allow. */
static void grid_shape(const struct locator_spec *spec, uint32_t *columns, uint32_t *rows)
{
    const double width = spec->high.x_m - spec->low.x_m, height = spec->high.y_m - spec->low.y_m;
    const double cell = fmax(width, height) / spec->grid;
    *columns = (uint32_t)fmax(8, ceil(width / cell - 1e-9));
    *rows = (uint32_t)fmax(8, ceil(height / cell - 1e-9));
    if (!spec->plane)
        *columns = *rows = 0;
}

uint64_t locator_memory(const struct locator_spec *spec)
{
    uint32_t columns, rows;
    grid_shape(spec, &columns, &rows);
    return sizeof(struct locator) + spec->count * sizeof(struct point) +
           (spec->count + 1ull) * columns * rows * sizeof(float);
}

static void fill_distances(struct minima_field *f)
{
    float *next = f->distances;
    for (uint32_t s = 0; s < f->count; s++)
        for (uint32_t row = 0; row < f->rows; row++)
            for (uint32_t column = 0; column < f->columns; column++) {
                const struct point at = minima_cell(f, column, row);
                *next++ = (float)hypot(at.x_m - f->sensors[s].x_m, at.y_m - f->sensors[s].y_m);
            }
}

int locator_open(const struct locator_spec *spec, struct locator **out, struct problem *problem)
{
    struct locator *l = calloc(1, sizeof *l);
    if (l == NULL)
        goto no_memory;
    struct minima_field *f = &l->field;
    l->spec = *spec;
    l->spec.sensors = NULL;
    f->plane = spec->plane;
    f->low = spec->low;
    f->high = spec->high;
    f->count = spec->count;
    grid_shape(spec, &f->columns, &f->rows);
    const size_t cells = (size_t)f->columns * f->rows;
    f->sensors = calloc(spec->count, sizeof *f->sensors);
    f->distances = calloc(cells * spec->count + 1, sizeof *f->distances);
    f->costs = calloc(cells + 1, sizeof *f->costs);
    if (f->sensors == NULL || f->distances == NULL || f->costs == NULL)
        goto no_memory;
    memcpy(f->sensors, spec->sensors, spec->count * sizeof *f->sensors);
    fill_distances(f);
    *out = l;
    return 0;

no_memory:
    locator_close(l);
    return problem_set(problem, ERROR_MEMORY, "out of memory for the grid of a location");
}

void locator_close(struct locator *locator)
{
    if (locator == NULL)
        return;
    free(locator->field.sensors);
    free(locator->field.distances);
    free(locator->field.costs);
    free(locator);
}

/* ---- results ----------------------------------------------------------------------------- */

/* What a place rests on: unit vectors from the sensors to it, about their mean. */
struct directions {
    double x[MINIMA_ARRIVALS_MAX], y[MINIMA_ARRIVALS_MAX];
    double mean_x, mean_y, mean_distance;
};

static struct directions directions_at(const struct minima_view *view, const struct minimum *at)
{
    struct directions d = {0};
    for (uint32_t i = 0; i < view->count; i++) {
        const double dx = at->x - view->x[i], dy = at->y - view->y[i];
        const double distance = hypot(dx, dy);
        d.x[i] = distance > 0 ? dx / distance : at->side;
        d.y[i] = distance > 0 ? dy / distance : 0;
        d.mean_x += d.x[i] / view->count;
        d.mean_y += d.y[i] / view->count;
        d.mean_distance += distance / view->count;
    }
    return d;
}

/* The larger of what is given and of what the residuals say. */
static double sigma_t(const struct locator *l, const struct minima_view *view,
                      const struct minimum *at)
{
    const uint32_t unknowns = l->spec.plane ? 3 : 2;
    if (view->count <= unknowns)
        return l->spec.sigma_t_s;
    return fmax(l->spec.sigma_t_s,
                sqrt(fmax(0, at->sum) / (view->count - unknowns)) / l->spec.velocity_m_s);
}

/* C and the variance of the origin, see locator.h. False: the directions do not fix the place. */
static bool set_covariance(const struct locator *l, const struct minima_view *view,
                           const struct minimum *at, struct place *place)
{
    const struct directions d = directions_at(view, at);
    const double v = l->spec.velocity_m_s, arrival_s = sigma_t(l, view, at);
    const double timing = v * arrival_s;
    double xx = 0, xy = 0, yy = 0, tx = 0, ty = 0;
    for (uint32_t i = 0; i < view->count; i++) {
        const double x = d.x[i] - d.mean_x, y = d.y[i] - d.mean_y;
        xx += x * x;
        xy += x * y;
        yy += y * y;
        tx += x * view->reach[i] / v;
        ty += y * view->reach[i] / v;
    }
    if (!l->spec.plane) {
        xy = 0;
        yy = 1;
        ty = 0;
    }
    const double determinant = xx * yy - xy * xy;
    if (!(determinant > 1e-15 * (xx + yy) * (xx + yy)))
        return false;
    const double cxx = yy / determinant, cxy = -xy / determinant;
    const double cyy = l->spec.plane ? xx / determinant : 0;
    const double by_v_x = cxx * tx + cxy * ty, by_v_y = cxy * tx + cyy * ty; /* dp/dv */
    const double vv = l->spec.sigma_v_m_s * l->spec.sigma_v_m_s, tt = timing * timing;
    place->xx_m2 = tt * cxx + vv * by_v_x * by_v_x;
    place->xy_m2 = tt * cxy + vv * by_v_x * by_v_y;
    place->yy_m2 = tt * cyy + vv * by_v_y * by_v_y;
    const double spread =
        d.mean_x * d.mean_x * cxx + 2 * d.mean_x * d.mean_y * cxy + d.mean_y * d.mean_y * cyy;
    const double origin_by_v =
        d.mean_distance / (v * v) - (d.mean_x * by_v_x + d.mean_y * by_v_y) / v;
    place->origin_variance_s2 =
        arrival_s * arrival_s * (1.0 / view->count + spread) + vv * origin_by_v * origin_by_v;
    return true;
}

static void set_times(const struct locator *l, const struct minima_view *view, struct place *place)
{
    const double v = l->spec.velocity_m_s;
    double residuals[MINIMA_ARRIVALS_MAX], distance[MINIMA_ARRIVALS_MAX];
    minima_sum(view, place->x_m, place->y_m, residuals);
    double origin = 0, squares = 0;
    for (uint32_t i = 0; i < view->count; i++) {
        distance[i] = hypot(place->x_m - view->x[i], place->y_m - view->y[i]);
        origin += (view->reach[i] - distance[i]) / v / view->count;
        place->residuals_s[i] = residuals[i] / v;
    }
    for (uint32_t i = 1; i < view->count; i++) {
        const double difference = distance[i] - distance[0] - (view->reach[i] - view->reach[0]);
        squares += difference * difference;
    }
    place->origin_s = view->start_s + origin;
    place->lucy_m = sqrt(squares / (view->count - 1));
}

/* The best minimum whose place is fixed, and whether another is as good. */
static bool choose(const struct locator *l, const struct minima_view *view,
                   const struct minima *minima, struct place *place)
{
    const struct minimum *best = NULL, *second = NULL;
    for (uint32_t i = 0; i < minima->count; i++) {
        const struct minimum *each = &minima->list[i];
        if ((best == NULL || each->sum < best->sum) && set_covariance(l, view, each, place))
            best = each;
    }
    if (best == NULL)
        return false;
    set_covariance(l, view, best, place);
    place->x_m = best->x;
    place->y_m = best->y;
    const double timing = l->spec.velocity_m_s * l->spec.sigma_t_s;
    for (uint32_t i = 0; i < minima->count; i++) {
        const struct minimum *each = &minima->list[i];
        if (each != best && each->sum <= best->sum + 4 * timing * timing &&
            (second == NULL || each->sum < second->sum))
            second = each;
    }
    if (second != NULL) {
        place->ambiguous = true;
        place->second_x_m = second->x;
        place->second_y_m = second->y;
    }
    return true;
}

bool locator_find(struct locator *locator, const struct arrival *arrivals, uint32_t count,
                  struct place *place)
{
    const bool plane = locator->spec.plane;
    assert(count >= (plane ? 3 : 2) && count <= MINIMA_ARRIVALS_MAX);
    struct minima_view view = {.count = count, .start_s = arrivals[0].time_s};
    for (uint32_t i = 0; i < count; i++) {
        assert(arrivals[i].sensor < locator->spec.count);
        view.sensor[i] = arrivals[i].sensor;
        view.x[i] = locator->field.sensors[arrivals[i].sensor].x_m;
        view.y[i] = locator->field.sensors[arrivals[i].sensor].y_m;
        view.reach[i] = locator->spec.velocity_m_s * (arrivals[i].time_s - arrivals[0].time_s);
    }
    *place = (struct place){.second_x_m = NAN, .second_y_m = NAN};
    struct minima minima = {0};
    if (plane)
        minima_plane(&locator->field, &view, &minima);
    else
        minima_line(&locator->field, &view, &minima);
    if (!choose(locator, &view, &minima, place))
        return false;
    set_times(locator, &view, place);
    return true;
}

/* ---- layouts ----------------------------------------------------------------------------- */

double locator_span(const struct point *sensors, uint32_t count)
{
    double span = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = i + 1; k < count; k++)
            if (sensors[i].coordinates > 0 && sensors[k].coordinates > 0)
                span = fmax(
                    span, hypot(sensors[i].x_m - sensors[k].x_m, sensors[i].y_m - sensors[k].y_m));
    return span;
}

/* The largest distance of a sensor from the line through the first and the one farthest from it. */
static double breadth(const struct point *sensors, uint32_t count)
{
    uint32_t first = 0, far = 0;
    while (first < count && sensors[first].coordinates == 0)
        first++;
    double length = 0, most = 0;
    for (uint32_t i = first; i < count; i++) {
        const double distance =
            hypot(sensors[i].x_m - sensors[first].x_m, sensors[i].y_m - sensors[first].y_m);
        if (sensors[i].coordinates > 0 && distance > length) {
            length = distance;
            far = i;
        }
    }
    for (uint32_t i = first; i < count && length > 0; i++)
        if (sensors[i].coordinates > 0)
            most = fmax(most, fabs((sensors[far].x_m - sensors[first].x_m) *
                                       (sensors[i].y_m - sensors[first].y_m) -
                                   (sensors[far].y_m - sensors[first].y_m) *
                                       (sensors[i].x_m - sensors[first].x_m)) /
                                  length);
    return most;
}

int locator_layout(const struct point *sensors, uint32_t count, bool plane, struct problem *problem)
{
    uint32_t present = 0;
    for (uint32_t i = 0; i < count; i++) {
        present += sensors[i].coordinates > 0;
        for (uint32_t k = 0; k < i; k++)
            if (sensors[i].coordinates > 0 && sensors[k].coordinates > 0 &&
                sensors[i].x_m == sensors[k].x_m && sensors[i].y_m == sensors[k].y_m)
                return problem_set(problem, ERROR_CONFIG,
                                   "the sensors of channels %u and %u are in one place", k + 1,
                                   i + 1);
    }
    if (present < (plane ? 3 : 2))
        return problem_set(problem, ERROR_CONFIG, "%u sensor%s: a %s needs at least %d", present,
                           present == 1 ? "" : "s", plane ? "plane" : "line", plane ? 3 : 2);
    if (plane && breadth(sensors, count) < 1e-3 * locator_span(sensors, count))
        return problem_set(problem, ERROR_CONFIG,
                           "all sensors lie in one line, so both sides of it fit as well: write "
                           "one coordinate for each, or move a sensor");
    return 0;
}
