/* The sum of a locator, and its extent: see minima.h. */
#include "analysis/minima.h"

#include <math.h>
#include <stddef.h>

double minima_sum(const struct minima_view *view, double x, double y, double *residuals)
{
    double own[MINIMA_ARRIVALS_MAX], mean = 0, sum = 0;
    double *r = residuals != NULL ? residuals : own;
    for (uint32_t i = 0; i < view->count; i++) {
        r[i] = view->reach[i] - hypot(x - view->x[i], y - view->y[i]);
        mean += r[i];
    }
    mean /= view->count;
    for (uint32_t i = 0; i < view->count; i++) {
        r[i] -= mean;
        sum += r[i] * r[i];
    }
    return sum;
}

bool minima_inside(const struct minima_field *field, double x, double y, double margin)
{
    return x >= field->low.x_m - margin && x <= field->high.x_m + margin &&
           (!field->plane || (y >= field->low.y_m - margin && y <= field->high.y_m + margin));
}
