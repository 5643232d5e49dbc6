/*
 * The parts of a plot, drawn with cairo as PNG or SVG: a page with a title, panels with axes on
 * 1-2-5 ticks, curves, markers and legends. A curve with several values in one pixel column is
 * drawn as the range of these values, so that no ripple between pixels is lost.
 *
 * One thread.
 */
#ifndef CONVOLV_DESIGN_PLOT_H
#define CONVOLV_DESIGN_PLOT_H

#include <stdbool.h>
#include <stddef.h>

#include <cairo.h>

#include "core/error.h"

enum { PLOT_WIDTH = 1000, PLOT_HEIGHT = 760 };

struct plot_colour {
    double r, g, b;
};

extern const struct plot_colour plot_ink, plot_faint, plot_muted, plot_blue, plot_orange, plot_grey,
    plot_red;

/* One panel: its edges on the page [points] and the values at these edges. */
struct plot_panel {
    double left, top, right, bottom;
    double x_min, x_max, y_min, y_max;
    double x_unit, y_unit; /* what one printed number means, e.g. 1e3 for kHz */
    const char *x_label, *y_label;
};

enum plot_align { PLOT_LEFT, PLOT_MIDDLE, PLOT_RIGHT };

/* An empty page with its two lines at the top; `path` ends in .png or .svg. */
cairo_t *plot_open(const char *path, const char *title, const char *subtitle);

/* Writes and frees the page; `error` as drawing ended, returned unless writing fails. ERROR_SYSTEM
 * when the file cannot be written. */
int plot_close(cairo_t *cr, const char *path, int error, struct problem *problem);

void plot_set_colour(cairo_t *cr, struct plot_colour colour);
double plot_x(const struct plot_panel *panel, double value);
double plot_y(const struct plot_panel *panel, double value);
void plot_text(cairo_t *cr, double x, double y, enum plot_align align, const char *text);
void plot_line(cairo_t *cr, double x0, double y0, double x1, double y1);
void plot_axes(cairo_t *cr, const struct plot_panel *panel);

/* The curve value[0 … count-1] over x[i] = x_first + i·x_step. */
void plot_curve(cairo_t *cr, const struct plot_panel *panel, const double *value, size_t count,
                double x_first, double x_step, struct plot_colour colour);

/* A vertical line at `value`, its label on the wanted side where there is room. */
void plot_marker(cairo_t *cr, const struct plot_panel *panel, double value, bool label_left,
                 const char *label);

void plot_legend(cairo_t *cr, const struct plot_panel *panel, const char *const *names,
                 const struct plot_colour *colours, int count);

/* Divides by 10^3k so that the axis shows 1 … 999 of a prefixed unit; *which of the four names. */
double plot_unit(double largest, const char *const names[4], int *which);

#endif
