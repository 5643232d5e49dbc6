/*
 * A plot of curves over a power-of-two axis, as an SVG file: speed-up against N, one curve a
 * variant, both axes logarithmic.
 *
 * One thread.
 */
#ifndef CONVOLVD_BENCH_PUBLISHED_PLOT_H
#define CONVOLVD_BENCH_PUBLISHED_PLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

enum { PLOT_CURVES_MAX = 16, PLOT_POINTS_MAX = 32 };

struct plot_curve {
    char name[32];
    bool dashed; /* published */
    bool strong; /* convolvd */
    int colour;  /* curves of one variant share theirs */
    int count;
    double x[PLOT_POINTS_MAX], y[PLOT_POINTS_MAX]; /* > 0, x ascending */
};

struct plot {
    char title[96], x_label[48], y_label[48];
    int count;
    struct plot_curve curves[PLOT_CURVES_MAX];
};

struct plot_curve *plot_curve(struct plot *plot, const char *name, int colour);
void plot_point(struct plot_curve *curve, double x, double y); /* left out unless both > 0 */

/* Returns 0 or ERROR_NO_FILE; a plot without points writes nothing and is 0. */
int plot_write(const struct plot *plot, const char *path, struct problem *problem);

#endif
