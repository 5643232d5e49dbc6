/*
 * A filter as a picture: see design_plot.h. Two panels share one way of drawing axes: a scale
 * maps values to pixels, ticks fall on 1-2-5 steps, long curves are drawn as the range each
 * pixel column covers, so that no ripple between pixels is lost.
 */
#include "service/design_plot.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <cairo-svg.h>
#include <cairo.h>

enum { WIDTH = 1000, HEIGHT = 760 };

struct colour {
    double r, g, b;
};

static const struct colour ink = {0.15, 0.16, 0.18}, faint = {0.88, 0.89, 0.90},
                           muted = {0.42, 0.44, 0.47}, blue = {0.12, 0.38, 0.68},
                           orange = {0.85, 0.45, 0.10}, grey = {0.55, 0.57, 0.60},
                           red = {0.75, 0.18, 0.18};

/* One panel: its place on the page and the values its rims stand for. */
struct panel {
    double left, top, right, bottom;
    double x_min, x_max, y_min, y_max;
    double x_unit, y_unit; /* what one printed number means, e.g. 1e3 for kHz */
    const char *x_label, *y_label;
};

static void set_colour(cairo_t *cr, struct colour c)
{
    cairo_set_source_rgb(cr, c.r, c.g, c.b);
}

static double to_x(const struct panel *p, double value)
{
    return p->left + (value - p->x_min) / (p->x_max - p->x_min) * (p->right - p->left);
}

static double to_y(const struct panel *p, double value)
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

enum align { ALIGN_LEFT, ALIGN_MIDDLE, ALIGN_RIGHT };

static void text_at(cairo_t *cr, double x, double y, enum align align, const char *text)
{
    cairo_text_extents_t extents;
    cairo_text_extents(cr, text, &extents);
    double shift = align == ALIGN_LEFT ? 0 : align == ALIGN_MIDDLE ? 0.5 : 1;
    cairo_move_to(cr, round(x - shift * extents.x_advance), y);
    cairo_show_text(cr, text);
}

static void line(cairo_t *cr, double x0, double y0, double x1, double y1)
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

static void draw_axes(cairo_t *cr, const struct panel *p)
{
    char text[32];
    cairo_set_line_width(cr, 1);
    cairo_set_font_size(cr, 13);
    double step = tick_step((p->x_max - p->x_min) / p->x_unit, 10);
    for (double k = ceil(p->x_min / p->x_unit / step - 1e-9);
         k * step * p->x_unit <= p->x_max * (1 + 1e-9); k++) {
        double x = floor(to_x(p, k * step * p->x_unit)) + 0.5;
        set_colour(cr, faint);
        line(cr, x, p->top, x, p->bottom);
        set_colour(cr, muted);
        line(cr, x, p->bottom, x, p->bottom + 5);
        tick_text(k * step, step, text, sizeof text);
        text_at(cr, x, p->bottom + 20, ALIGN_MIDDLE, text);
    }
    step = tick_step((p->y_max - p->y_min) / p->y_unit, 8);
    for (double k = ceil(p->y_min / p->y_unit / step - 1e-9);
         k * step * p->y_unit <= p->y_max + 1e-9 * (p->y_max - p->y_min); k++) {
        double y = floor(to_y(p, k * step * p->y_unit)) + 0.5;
        set_colour(cr, faint);
        line(cr, p->left, y, p->right, y);
        set_colour(cr, muted);
        line(cr, p->left - 5, y, p->left, y);
        tick_text(k * step, step, text, sizeof text);
        text_at(cr, p->left - 9, y + 4, ALIGN_RIGHT, text);
    }
    set_colour(cr, muted);
    cairo_rectangle(cr, floor(p->left) + 0.5, floor(p->top) + 0.5, p->right - p->left,
                    p->bottom - p->top);
    cairo_stroke(cr);
    set_colour(cr, ink);
    text_at(cr, (p->left + p->right) / 2, p->bottom + 40, ALIGN_MIDDLE, p->x_label);
    text_at(cr, p->left, p->top - 9, ALIGN_LEFT, p->y_label);
}

/* The curve value[0 … count-1] over x[i] = x_first + i·x_step. Each pixel column gets the range it
 * covers. */
static void draw_curve(cairo_t *cr, const struct panel *p, const double *value, size_t count,
                       double x_first, double x_step, struct colour colour)
{
    cairo_save(cr);
    cairo_rectangle(cr, p->left, p->top - 1, p->right - p->left, p->bottom - p->top + 2);
    cairo_clip(cr);
    set_colour(cr, colour);
    cairo_set_line_width(cr, 1.4);
    cairo_set_line_join(cr, CAIRO_LINE_JOIN_ROUND);
    for (size_t i = 0; i < count;) {
        double column = floor(to_x(p, x_first + (double)i * x_step));
        double low = value[i], high = value[i];
        size_t from = i;
        while (i < count && floor(to_x(p, x_first + (double)i * x_step)) == column) {
            low = fmin(low, value[i]);
            high = fmax(high, value[i]);
            i++;
        }
        double x = to_x(p, x_first + (double)from * x_step);
        if (i - from > 2) { /* many values in one column: a vertical stroke */
            cairo_line_to(cr, x, to_y(p, value[from]));
            cairo_line_to(cr, x, to_y(p, low));
            cairo_line_to(cr, x, to_y(p, high));
            cairo_line_to(cr, x, to_y(p, value[i - 1]));
        } else {
            for (size_t k = from; k < i; k++)
                cairo_line_to(cr, to_x(p, x_first + (double)k * x_step), to_y(p, value[k]));
        }
    }
    cairo_stroke(cr);
    cairo_restore(cr);
}

/* A vertical line at `value`, its label on the wanted side where there is room. */
static void dashed_marker(cairo_t *cr, const struct panel *p, double value, bool label_left,
                          const char *label)
{
    static const double dashes[] = {4, 4};
    double x = floor(to_x(p, value)) + 0.5;
    cairo_save(cr);
    set_colour(cr, red);
    cairo_set_line_width(cr, 1);
    cairo_set_dash(cr, dashes, 2, 0);
    line(cr, x, p->top, x, p->bottom);
    cairo_restore(cr);
    set_colour(cr, red);
    cairo_set_font_size(cr, 12);
    enum { ROOM = 130 };
    bool left = (label_left && x > p->left + ROOM) || x > p->right - ROOM;
    text_at(cr, left ? x - 5 : x + 5, p->top + 15, left ? ALIGN_RIGHT : ALIGN_LEFT, label);
}

static void legend(cairo_t *cr, const struct panel *p, const char *const *names,
                   const struct colour *colours, int count)
{
    cairo_set_font_size(cr, 12);
    enum { ENTRY = 100 };
    double x = p->right - ENTRY * count + 10;
    for (int i = 0; i < count; i++, x += ENTRY) {
        set_colour(cr, colours[i]);
        cairo_set_line_width(cr, 2);
        line(cr, x, p->top - 13, x + 18, p->top - 13);
        set_colour(cr, ink);
        text_at(cr, x + 23, p->top - 9, ALIGN_LEFT, names[i]);
    }
}

/* Divides by 10^3k so that the axis shows 1 … 999 of a prefixed unit. */
static double axis_unit(double largest, const char *const names[4], int *which)
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

/* ---- the panels
 * -------------------------------------------------------------------------------------- */

static int draw_magnitude(cairo_t *cr, const struct design_picture *picture,
                          struct problem *problem)
{
    static const char *const labels[] = {"frequency [Hz]", "frequency [kHz]", "frequency [MHz]",
                                         "frequency [GHz]"};
    static const char *const units[] = {"Hz", "kHz", "MHz", "GHz"};
    const struct response *r = picture->response;
    bool two_sided = picture->taps->im != NULL;
    uint32_t points = r->grid;
    double *grid;
    int error = response_grid(picture->taps, points, &grid, problem);
    if (error != 0)
        return error;
    uint32_t count = two_sided ? points + 1 : points / 2 + 1;
    double *level = malloc(count * sizeof *level);
    if (level == NULL) {
        free(grid);
        return problem_set(problem, ERROR_MEMORY, "no memory for the plot");
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = two_sided ? (i + points / 2) % points : i;
        level[i] = 20 * log10(fmax(grid[k], 1e-20));
    }
    free(grid);

    double top_db = 20 * log10(fmax(r->peak_gain, 1e-20));
    double reach = isnan(r->attenuation_db) ? 80 : fmin(fmax(r->attenuation_db + 30, 40), 200);
    struct panel p = {.left = 80,
                      .right = WIDTH - 30,
                      .top = 100,
                      .bottom = 420,
                      .x_min = two_sided ? -picture->rate_hz / 2 : 0,
                      .x_max = picture->rate_hz / 2,
                      .y_max = 10 * ceil((top_db + 3) / 10),
                      .y_unit = 1,
                      .y_label = "magnitude [dB]"};
    p.y_min = 20 * floor((top_db - reach) / 20);
    int which;
    p.x_unit = axis_unit(p.x_max, labels, &which);
    p.x_label = labels[which];
    draw_axes(cr, &p);
    double step = picture->rate_hz / points;
    draw_curve(cr, &p, level, count, p.x_min, step, blue);
    free(level);
    const double edges[] = {r->edge_low_hz, r->edge_high_hz};
    for (int i = 0; i < 2; i++) {
        char text[48];
        if (isnan(edges[i]))
            continue;
        snprintf(text, sizeof text, "-6 dB: %.5g %s", edges[i] / p.x_unit, units[which]);
        dashed_marker(cr, &p, edges[i], i == 0, text);
    }
    return 0;
}

static int draw_impulse(cairo_t *cr, const struct design_picture *picture, struct problem *problem)
{
    static const char *const labels[] = {"time [us]", "time [ms]", "time [s]", "time [ks]"};
    static const char *const units[] = {"us", "ms", "s", "ks"};
    static const char *const names[] = {"real", "imaginary", "magnitude"};
    static const struct colour colours[] = {
        {0.12, 0.38, 0.68}, {0.85, 0.45, 0.10}, {0.55, 0.57, 0.60}};
    const struct taps *taps = picture->taps;
    double largest = 0, *magnitude = malloc(taps->count * sizeof *magnitude);
    if (magnitude == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for the plot");
    for (uint32_t n = 0; n < taps->count; n++) {
        magnitude[n] = hypot(taps->re[n], taps->im == NULL ? 0 : taps->im[n]);
        largest = fmax(largest, magnitude[n]);
    }
    if (largest == 0)
        largest = 1;
    double step = 1 / picture->rate_hz;
    struct panel p = {.left = 80,
                      .right = WIDTH - 30,
                      .top = 510,
                      .bottom = HEIGHT - 60,
                      .x_min = 0,
                      .x_max = fmax(taps->count - 1.0, 1) * step,
                      .y_min = -1.08 * largest,
                      .y_max = 1.08 * largest,
                      .y_unit = 1,
                      .y_label = "impulse response"};
    int which;
    p.x_unit = axis_unit(p.x_max, labels, &which);
    p.x_label = labels[which];
    draw_axes(cr, &p);
    if (taps->im != NULL) {
        draw_curve(cr, &p, magnitude, taps->count, 0, step, grey);
        draw_curve(cr, &p, taps->im, taps->count, 0, step, orange);
        legend(cr, &p, names, colours, 3);
    }
    draw_curve(cr, &p, taps->re, taps->count, 0, step, blue);
    if (taps->count <= 64) { /* few taps: the samples themselves */
        set_colour(cr, blue);
        for (uint32_t n = 0; n < taps->count; n++) {
            cairo_arc(cr, to_x(&p, n * step), to_y(&p, taps->re[n]), 3, 0, 2 * M_PI);
            cairo_fill(cr);
        }
    }
    if (taps->delay_frames * step <= p.x_max) {
        char text[48];
        snprintf(text, sizeof text, "delay: %.5g %s", taps->delay_frames * step / p.x_unit,
                 units[which]);
        dashed_marker(cr, &p, taps->delay_frames * step, false, text);
    }
    free(magnitude);
    return 0;
}

int design_plot(const struct design_picture *picture, const char *path, struct problem *problem)
{
    size_t length = strlen(path);
    bool svg = length > 4 && strcasecmp(path + length - 4, ".svg") == 0;
    cairo_surface_t *surface = svg ? cairo_svg_surface_create(path, WIDTH, HEIGHT)
                                   : cairo_image_surface_create(CAIRO_FORMAT_RGB24, WIDTH, HEIGHT);
    cairo_t *cr = cairo_create(surface);
    cairo_set_source_rgb(cr, 1, 1, 1);
    cairo_paint(cr);
    cairo_select_font_face(cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_BOLD);
    cairo_set_font_size(cr, 18);
    set_colour(cr, ink);
    text_at(cr, 30, 36, ALIGN_LEFT, picture->title);
    cairo_select_font_face(cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cr, 13);
    set_colour(cr, muted);
    text_at(cr, 30, 58, ALIGN_LEFT, picture->subtitle);

    int error = draw_magnitude(cr, picture, problem);
    if (error == 0)
        error = draw_impulse(cr, picture, problem);
    cairo_status_t status = cairo_status(cr);
    cairo_destroy(cr);
    if (error == 0 && status == CAIRO_STATUS_SUCCESS && !svg)
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
