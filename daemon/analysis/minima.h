/*
 * The minima of a locator's sum (locator.h) over an extent, on a plane (minima_plane.c) and on a
 * line (minima_line.c). Arrivals are lengths here: times times the velocity.
 *
 * minima_plane and minima_line never allocate; one thread at a time.
 */
#ifndef CONVOLVD_ANALYSIS_MINIMA_H
#define CONVOLVD_ANALYSIS_MINIMA_H

#include <stdbool.h>
#include <stdint.h>

#include "core/point.h"

enum { MINIMA_ARRIVALS_MAX = 16 };

/* Where sources are looked for. */
struct minima_field {
    bool plane;
    struct point low, high;
    struct point *sensors; /* [count] */
    uint32_t count;
    uint32_t columns, rows; /* of the grid; 0 on a line */
    float *distances;       /* [count][rows][columns] m, from the middle of each cell */
    float *costs;           /* [rows][columns]: the sum there, of one event */
};

/* The arrivals of one event. */
struct minima_view {
    uint32_t count;
    double start_s; /* the first arrival */
    uint32_t sensor[MINIMA_ARRIVALS_MAX];
    double x[MINIMA_ARRIVALS_MAX], y[MINIMA_ARRIVALS_MAX];
    double reach[MINIMA_ARRIVALS_MAX]; /* v (t_i - t_1) [m] */
};

struct minimum {
    double x, y;
    double sum;  /* m² */
    double side; /* on a line, at a sensor: the direction from it that the sum is taken for */
};

/* Minima in the extent, no two in one place. */
enum { MINIMA_MAX = 2 * MINIMA_ARRIVALS_MAX + 4 };
struct minima {
    uint32_t count;
    struct minimum list[MINIMA_MAX];
};

static inline double minima_cell_m(double low, double high, uint32_t cells)
{
    return (high - low) / cells;
}

/* The middle of a cell. */
static inline struct point minima_cell(const struct minima_field *field, uint32_t column,
                                       uint32_t row)
{
    return (struct point){
        field->low.x_m +
            (column + 0.5) * minima_cell_m(field->low.x_m, field->high.x_m, field->columns),
        field->low.y_m + (row + 0.5) * minima_cell_m(field->low.y_m, field->high.y_m, field->rows),
        2};
}

/* The sum at a place; its residuals when not NULL [m]. */
double minima_sum(const struct minima_view *view, double x, double y, double *residuals);

/* Within the extent, widened by `margin` metres. */
bool minima_inside(const struct minima_field *field, double x, double y, double margin);

void minima_plane(const struct minima_field *field, const struct minima_view *view,
                  struct minima *minima);
void minima_line(const struct minima_field *field, const struct minima_view *view,
                 struct minima *minima);

#endif
