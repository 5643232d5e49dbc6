/* The parts of a plot: see plot.h. */
#include "plot.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <cairo-svg.h>

const struct plot_colour plot_ink = {0.15, 0.16, 0.18}, plot_faint = {0.88, 0.89, 0.90},
                         plot_muted = {0.42, 0.44, 0.47}, plot_blue = {0.12, 0.38, 0.68},
                         plot_orange = {0.85, 0.45, 0.10}, plot_grey = {0.55, 0.57, 0.60},
                         plot_red = {0.75, 0.18, 0.18};

void plot_set_colour(cairo_t *cr, struct plot_colour c)
{
    cairo_set_source_rgb(cr, c.r, c.g, c.b);
}

double plot_x(const struct plot_panel *p, double value)
{
    return p->left + (value - p->x_min) / (p->x_max - p->x_min) * (p->right - p->left);
}

double plot_y(const struct plot_panel *p, double value)
{
    return p->bottom - (value - p->y_min) / (p->y_max - p->y_min) * (p->bottom - p->top);
}

/* The smallest of 1, 2, 5 · 10^k that divides `span` into at most `most` parts. */
static double tick_step(double span, int most)
{
    double power = pow(10, floor(log10(span / most)));
    static const double steps[] = {1, 2, 5, 10};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        if (span / (steps[i] * power) <= most)
            return steps[i] * power;
    return 20 * power;
}

void plot_text(cairo_t *cr, double x, double y, enum plot_align align, const char *text)
{
    cairo_text_extents_t extents;
    cairo_text_extents(cr, text, &extents);
    double shift = align == PLOT_LEFT ? 0 : align == PLOT_MIDDLE ? 0.5 : 1;
    cairo_move_to(cr, round(x - shift * extents.x_advance), y);
    cairo_show_text(cr, text);
}

void plot_line(cairo_t *cr, double x0, double y0, double x1, double y1)
{
    cairo_move_to(cr, x0, y0);
    cairo_line_to(cr, x1, y1);
    cairo_stroke(cr);
}

static void tick_text(double value, double step, char *text, size_t bytes)
{
    int decimals = step >= 1 ? 0 : (int)ceil(-log10(step) - 1e-9);
    snprintf(text, bytes, "%.*f", decimals < 12 ? decimals : 12, value == 0 ? 0.0 : value);
}

void plot_axes(cairo_t *cr, const struct plot_panel *p)
{
    char text[32];
    cairo_set_line_width(cr, 1);
    cairo_set_font_size(cr, 13);
    double step = tick_step((p->x_max - p->x_min) / p->x_unit, 10);
    for (double k = ceil(p->x_min / p->x_unit / step - 1e-9);
         k * step * p->x_unit <= p->x_max * (1 + 1e-9); k++) {
        double x = floor(plot_x(p, k * step * p->x_unit)) + 0.5;
        plot_set_colour(cr, plot_faint);
        plot_line(cr, x, p->top, x, p->bottom);
        plot_set_colour(cr, plot_muted);
        plot_line(cr, x, p->bottom, x, p->bottom + 5);
        tick_text(k * step, step, text, sizeof text);
        plot_text(cr, x, p->bottom + 20, PLOT_MIDDLE, text);
    }
    step = tick_step((p->y_max - p->y_min) / p->y_unit, 8);
    for (double k = ceil(p->y_min / p->y_unit / step - 1e-9);
         k * step * p->y_unit <= p->y_max + 1e-9 * (p->y_max - p->y_min); k++) {
        double y = floor(plot_y(p, k * step * p->y_unit)) + 0.5;
        plot_set_colour(cr, plot_faint);
        plot_line(cr, p->left, y, p->right, y);
        plot_set_colour(cr, plot_muted);
        plot_line(cr, p->left - 5, y, p->left, y);
        tick_text(k * step, step, text, sizeof text);
        plot_text(cr, p->left - 9, y + 4, PLOT_RIGHT, text);
    }
    plot_set_colour(cr, plot_muted);
    cairo_rectangle(cr, floor(p->left) + 0.5, floor(p->top) + 0.5, p->right - p->left,
                    p->bottom - p->top);
    cairo_stroke(cr);
    plot_set_colour(cr, plot_ink);
    plot_text(cr, (p->left + p->right) / 2, p->bottom + 40, PLOT_MIDDLE, p->x_label);
    plot_text(cr, p->left, p->top - 9, PLOT_LEFT, p->y_label);
}

void plot_curve(cairo_t *cr, const struct plot_panel *p, const double *value, size_t count,
                double x_first, double x_step, struct plot_colour colour)
{
    cairo_save(cr);
    cairo_rectangle(cr, p->left, p->top - 1, p->right - p->left, p->bottom - p->top + 2);
    cairo_clip(cr);
    plot_set_colour(cr, colour);
    cairo_set_line_width(cr, 1.4);
    cairo_set_line_join(cr, CAIRO_LINE_JOIN_ROUND);
    for (size_t i = 0; i < count;) {
        double column = floor(plot_x(p, x_first + (double)i * x_step));
        double low = value[i], high = value[i];
        size_t from = i;
        while (i < count && floor(plot_x(p, x_first + (double)i * x_step)) == column) {
            low = fmin(low, value[i]);
            high = fmax(high, value[i]);
            i++;
        }
        double x = plot_x(p, x_first + (double)from * x_step);
        if (i - from > 2) { /* many values in one column: a vertical stroke */
            cairo_line_to(cr, x, plot_y(p, value[from]));
            cairo_line_to(cr, x, plot_y(p, low));
            cairo_line_to(cr, x, plot_y(p, high));
            cairo_line_to(cr, x, plot_y(p, value[i - 1]));
        } else {
            for (size_t k = from; k < i; k++)
                cairo_line_to(cr, plot_x(p, x_first + (double)k * x_step), plot_y(p, value[k]));
        }
    }
    cairo_stroke(cr);
    cairo_restore(cr);
}

void plot_marker(cairo_t *cr, const struct plot_panel *p, double value, bool label_left,
                 const char *label)
{
    static const double dashes[] = {4, 4};
    double x = floor(plot_x(p, value)) + 0.5;
    cairo_save(cr);
    plot_set_colour(cr, plot_red);
    cairo_set_line_width(cr, 1);
    cairo_set_dash(cr, dashes, 2, 0);
    plot_line(cr, x, p->top, x, p->bottom);
    cairo_restore(cr);
    plot_set_colour(cr, plot_red);
    cairo_set_font_size(cr, 12);
    enum { ROOM = 130 };
    bool left = (label_left && x > p->left + ROOM) || x > p->right - ROOM;
    plot_text(cr, left ? x - 5 : x + 5, p->top + 15, left ? PLOT_RIGHT : PLOT_LEFT, label);
}

void plot_legend(cairo_t *cr, const struct plot_panel *p, const char *const *names,
                 const struct plot_colour *colours, int count)
{
    cairo_set_font_size(cr, 12);
    enum { ENTRY = 100 };
    double x = p->right - ENTRY * count + 10;
    for (int i = 0; i < count; i++, x += ENTRY) {
        plot_set_colour(cr, colours[i]);
        cairo_set_line_width(cr, 2);
        plot_line(cr, x, p->top - 13, x + 18, p->top - 13);
        plot_set_colour(cr, plot_ink);
        plot_text(cr, x + 23, p->top - 9, PLOT_LEFT, names[i]);
    }
}

double plot_unit(double largest, const char *const names[4], int *which)
{
    static const double units[] = {1e-6, 1e-3, 1, 1e3}; /* micro, milli, one, kilo */
    static const double hertz[] = {1, 1e3, 1e6, 1e9};
    const double *table = strstr(names[0], "Hz") != NULL ? hertz : units;
    int i = 3;
    while (i > 0 && largest < table[i])
        i--;
    *which = i;
    return table[i];
}

/* ---- the page ---------------------------------------------------------------------------- */

static bool is_svg(const char *path)
{
    size_t length = strlen(path);
    return length > 4 && strcasecmp(path + length - 4, ".svg") == 0;
}

cairo_t *plot_open(const char *path, const char *title, const char *subtitle)
{
    cairo_surface_t *surface =
        is_svg(path) ? cairo_svg_surface_create(path, PLOT_WIDTH, PLOT_HEIGHT)
                     : cairo_image_surface_create(CAIRO_FORMAT_RGB24, PLOT_WIDTH, PLOT_HEIGHT);
    cairo_t *cr = cairo_create(surface);
    cairo_surface_destroy(surface); /* cr holds it */
    cairo_set_source_rgb(cr, 1, 1, 1);
    cairo_paint(cr);
    cairo_select_font_face(cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_BOLD);
    cairo_set_font_size(cr, 18);
    plot_set_colour(cr, plot_ink);
    plot_text(cr, 30, 36, PLOT_LEFT, title);
    cairo_select_font_face(cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cr, 13);
    plot_set_colour(cr, plot_muted);
    plot_text(cr, 30, 58, PLOT_LEFT, subtitle);
    return cr;
}

int plot_close(cairo_t *cr, const char *path, int error, struct problem *problem)
{
    cairo_surface_t *surface = cairo_surface_reference(cairo_get_target(cr));
    cairo_status_t status = cairo_status(cr);
    cairo_destroy(cr);
    if (error == 0 && status == CAIRO_STATUS_SUCCESS && !is_svg(path))
        status = cairo_surface_write_to_png(surface, path);
    cairo_surface_finish(surface);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    if (error == 0 && status != CAIRO_STATUS_SUCCESS)
        error = problem_set(problem, ERROR_SYSTEM, "cannot write the plot %s: %s", path,
                            status == CAIRO_STATUS_WRITE_ERROR ? strerror(errno)
                                                               : cairo_status_to_string(status));
    return error;
}
