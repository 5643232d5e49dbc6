/*
 * A filter as a picture: see design_plot.h. Two panels, magnitude over frequency and the impulse
 * response over time.
 */
#include "panels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "plot.h"

static int draw_magnitude(cairo_t *cr, const struct response_picture *picture,
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
    struct plot_panel p = {.left = 80,
                           .right = PLOT_WIDTH - 30,
                           .top = 100,
                           .bottom = 420,
                           .x_min = two_sided ? -picture->rate_hz / 2 : 0,
                           .x_max = picture->rate_hz / 2,
                           .y_max = 10 * ceil((top_db + 3) / 10),
                           .y_unit = 1,
                           .y_label = "magnitude [dB]"};
    p.y_min = 20 * floor((top_db - reach) / 20);
    int which;
    p.x_unit = plot_unit(p.x_max, labels, &which);
    p.x_label = labels[which];
    plot_axes(cr, &p);
    double step = picture->rate_hz / points;
    plot_curve(cr, &p, level, count, p.x_min, step, plot_blue);
    free(level);
    const double edges[] = {r->edge_low_hz, r->edge_high_hz};
    for (int i = 0; i < 2; i++) {
        char text[48];
        if (isnan(edges[i]))
            continue;
        snprintf(text, sizeof text, "-6 dB: %.5g %s", edges[i] / p.x_unit, units[which]);
        plot_marker(cr, &p, edges[i], i == 0, text);
    }
    return 0;
}

static int draw_impulse(cairo_t *cr, const struct response_picture *picture,
                        struct problem *problem)
{
    static const char *const labels[] = {"time [us]", "time [ms]", "time [s]", "time [ks]"};
    static const char *const units[] = {"us", "ms", "s", "ks"};
    static const char *const names[] = {"real", "imaginary", "magnitude"};
    static const struct plot_colour colours[] = {
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
    struct plot_panel p = {.left = 80,
                           .right = PLOT_WIDTH - 30,
                           .top = 510,
                           .bottom = PLOT_HEIGHT - 60,
                           .x_min = 0,
                           .x_max = fmax(taps->count - 1.0, 1) * step,
                           .y_min = -1.08 * largest,
                           .y_max = 1.08 * largest,
                           .y_unit = 1,
                           .y_label = "impulse response"};
    int which;
    p.x_unit = plot_unit(p.x_max, labels, &which);
    p.x_label = labels[which];
    plot_axes(cr, &p);
    if (taps->im != NULL) {
        plot_curve(cr, &p, magnitude, taps->count, 0, step, plot_grey);
        plot_curve(cr, &p, taps->im, taps->count, 0, step, plot_orange);
        plot_legend(cr, &p, names, colours, 3);
    }
    plot_curve(cr, &p, taps->re, taps->count, 0, step, plot_blue);
    if (taps->count <= 64) { /* few taps: the samples themselves */
        plot_set_colour(cr, plot_blue);
        for (uint32_t n = 0; n < taps->count; n++) {
            cairo_arc(cr, plot_x(&p, n * step), plot_y(&p, taps->re[n]), 3, 0, 2 * M_PI);
            cairo_fill(cr);
        }
    }
    if (taps->delay_frames * step <= p.x_max) {
        char text[48];
        snprintf(text, sizeof text, "delay: %.5g %s", taps->delay_frames * step / p.x_unit,
                 units[which]);
        plot_marker(cr, &p, taps->delay_frames * step, false, text);
    }
    free(magnitude);
    return 0;
}

int response_plot(const struct response_picture *picture, const char *path, struct problem *problem)
{
    cairo_t *cr = plot_open(path, picture->title, picture->subtitle);
    int error = draw_magnitude(cr, picture, problem);
    if (error == 0)
        error = draw_impulse(cr, picture, problem);
    return plot_close(cr, path, error, problem);
}
