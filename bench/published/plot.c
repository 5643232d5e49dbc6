/*
 * Plots, see plot.h.
 */
#include "bench/published/plot.h"

#include <math.h>
#include <stdio.h>

#include <cairo-svg.h>

static const double width = 720, height = 440, left = 62, right = 590, top = 36, bottom = 392;

static const double colours[][3] = {
    {0.12, 0.47, 0.71}, {0.20, 0.63, 0.17}, {0.89, 0.10, 0.11},
    {0.60, 0.40, 0.20}, {0.42, 0.24, 0.60}, {1.00, 0.50, 0.00},
    {0.00, 0.62, 0.65}, {0.55, 0.55, 0.55}, {0.10, 0.10, 0.10},
};

enum { COLOURS = sizeof colours / sizeof colours[0] };

struct frame {
    double x_low, x_high, y_low, y_high; /* log2 and log10 */
};

struct plot_curve *plot_curve(struct plot *plot, const char *name, int colour)
{
    struct plot_curve *curve = &plot->curves[plot->count++];
    *curve = (struct plot_curve){.colour = colour};
    snprintf(curve->name, sizeof curve->name, "%s", name);
    return curve;
}

void plot_point(struct plot_curve *curve, double x, double y)
{
    if (x > 0 && y > 0 && curve->count < PLOT_POINTS_MAX) {
        curve->x[curve->count] = x;
        curve->y[curve->count++] = y;
    }
}

static bool find_frame(const struct plot *plot, struct frame *frame)
{
    *frame = (struct frame){INFINITY, -INFINITY, INFINITY, -INFINITY};
    for (int c = 0; c < plot->count; c++)
        for (int i = 0; i < plot->curves[c].count; i++) {
            frame->x_low = fmin(frame->x_low, log2(plot->curves[c].x[i]));
            frame->x_high = fmax(frame->x_high, log2(plot->curves[c].x[i]));
            frame->y_low = fmin(frame->y_low, log10(plot->curves[c].y[i]));
            frame->y_high = fmax(frame->y_high, log10(plot->curves[c].y[i]));
        }
    if (!(frame->x_high >= frame->x_low))
        return false;
    frame->y_low = floor(frame->y_low * 3 + 1e-9) / 3;
    frame->y_high = ceil(frame->y_high * 3 - 1e-9) / 3;
    frame->x_high += frame->x_high == frame->x_low;
    frame->y_high += frame->y_high == frame->y_low;
    return true;
}

static double place_x(const struct frame *frame, double log2_x)
{
    return left + (right - left) * (log2_x - frame->x_low) / (frame->x_high - frame->x_low);
}

static double place_y(const struct frame *frame, double log10_y)
{
    return bottom - (bottom - top) * (log10_y - frame->y_low) / (frame->y_high - frame->y_low);
}

/* `align`: 0 left, 0.5 centre, 1 right of x. */
static void text(cairo_t *cairo, double x, double y, double align, const char *words)
{
    cairo_text_extents_t extents;
    cairo_text_extents(cairo, words, &extents);
    cairo_move_to(cairo, x - align * extents.x_advance, y);
    cairo_show_text(cairo, words);
}

static void line(cairo_t *cairo, double x0, double y0, double x1, double y1)
{
    cairo_move_to(cairo, x0, y0);
    cairo_line_to(cairo, x1, y1);
    cairo_stroke(cairo);
}

static void draw_axes(cairo_t *cairo, const struct plot *plot, const struct frame *frame)
{
    char words[32];
    cairo_set_line_width(cairo, 0.6);
    const int step = frame->x_high - frame->x_low > 12 ? 2 : 1;
    for (int x = (int)ceil(frame->x_low - 1e-9); x <= frame->x_high + 1e-9; x += step) {
        cairo_set_source_rgb(cairo, 0.87, 0.87, 0.87);
        line(cairo, place_x(frame, x), top, place_x(frame, x), bottom);
        cairo_set_source_rgb(cairo, 0, 0, 0);
        if (x < 14)
            snprintf(words, sizeof words, "%.0f", exp2(x));
        else
            snprintf(words, sizeof words, "%.0fk", exp2(x - 10));
        text(cairo, place_x(frame, x), bottom + 16, 0.5, words);
    }
    static const double marks[] = {1, 2, 5};
    for (int decade = (int)floor(frame->y_low); decade <= (int)ceil(frame->y_high); decade++)
        for (int m = 0; m < 3; m++) {
            const double y = decade + log10(marks[m]);
            if (y < frame->y_low - 1e-9 || y > frame->y_high + 1e-9)
                continue;
            const double shade = m == 0 ? 0.75 : 0.9;
            cairo_set_source_rgb(cairo, shade, shade, shade);
            line(cairo, left, place_y(frame, y), right, place_y(frame, y));
            cairo_set_source_rgb(cairo, 0, 0, 0);
            snprintf(words, sizeof words, "%g", marks[m] * pow(10, decade));
            text(cairo, left - 6, place_y(frame, y) + 4, 1, words);
        }
    text(cairo, (left + right) / 2, bottom + 36, 0.5, plot->x_label);
    text(cairo, left - 50, top - 8, 0, plot->y_label);
    cairo_set_font_size(cairo, 14);
    text(cairo, (left + right) / 2 + 20, 20, 0.5, plot->title);
    cairo_set_font_size(cairo, 12);
}

static void draw_curve(cairo_t *cairo, const struct frame *frame, const struct plot_curve *curve,
                       double legend_y)
{
    const double *colour = colours[curve->colour % COLOURS];
    const double dashes[] = {5, 4};
    cairo_set_source_rgb(cairo, colour[0], colour[1], colour[2]);
    cairo_set_line_width(cairo, curve->strong ? 2.8 : 1.6);
    cairo_set_dash(cairo, dashes, curve->dashed ? 2 : 0, 0);
    cairo_new_path(cairo);
    for (int i = 0; i < curve->count; i++)
        cairo_line_to(cairo, place_x(frame, log2(curve->x[i])), place_y(frame, log10(curve->y[i])));
    cairo_stroke(cairo);
    line(cairo, right + 12, legend_y - 4, right + 36, legend_y - 4);
    cairo_set_dash(cairo, NULL, 0, 0);
    for (int i = 0; i < curve->count && !curve->dashed; i++) {
        cairo_new_path(cairo);
        cairo_arc(cairo, place_x(frame, log2(curve->x[i])), place_y(frame, log10(curve->y[i])), 2.4,
                  0, 2 * M_PI);
        cairo_fill(cairo);
    }
    cairo_set_source_rgb(cairo, 0, 0, 0);
    text(cairo, right + 42, legend_y, 0, curve->name);
}

int plot_write(const struct plot *plot, const char *path, struct problem *problem)
{
    struct frame frame;
    if (!find_frame(plot, &frame))
        return 0;
    cairo_surface_t *surface = cairo_svg_surface_create(path, width, height);
    cairo_t *cairo = cairo_create(surface);
    cairo_set_source_rgb(cairo, 1, 1, 1);
    cairo_paint(cairo);
    cairo_select_font_face(cairo, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo, 12);
    draw_axes(cairo, plot, &frame);
    int named = 0;
    for (int c = 0; c < plot->count; c++)
        if (plot->curves[c].count > 0)
            draw_curve(cairo, &frame, &plot->curves[c], top + 12 + 18 * named++);
    cairo_destroy(cairo);
    cairo_surface_finish(surface);
    const cairo_status_t status = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    if (status != CAIRO_STATUS_SUCCESS)
        return problem_set(problem, ERROR_NO_FILE, "%s: %s", path, cairo_status_to_string(status));
    return 0;
}
