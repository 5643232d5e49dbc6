/*
 * The f-k plane of a velocity filter: the level of plane waves at the middle channel over
 * wavenumber and frequency as colours, the edges of the fan as dashed lines.
 */
#include "panels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "plot.h"

enum { CELLS_ACROSS = 384, CELLS_UP = 256, LEVEL_MIN_DB = -60 };

/* Level to colour: dark blue at the bottom through green to pale yellow at 0 dB, so that it reads
 * in grey, too. */
static unsigned char shade(double db, int channel)
{
    static const double stops[5][3] = {{0.16, 0.09, 0.32},
                                       {0.19, 0.31, 0.55},
                                       {0.13, 0.55, 0.55},
                                       {0.48, 0.78, 0.36},
                                       {0.99, 0.96, 0.66}};
    double at = fmin(fmax(1 - db / LEVEL_MIN_DB, 0), 1) * 4;
    int below = at >= 4 ? 3 : (int)at;
    double value =
        stops[below][channel] + (at - below) * (stops[below + 1][channel] - stops[below][channel]);
    return (unsigned char)lround(255 * value);
}

/* The plane, one cell a pixel of an image; row 0 is the highest frequency. */
static cairo_surface_t *make_image(const struct array_picture *picture, const struct plot_panel *p)
{
    const struct fk_spec *spec = picture->spec;
    cairo_surface_t *image = cairo_image_surface_create(CAIRO_FORMAT_RGB24, CELLS_ACROSS, CELLS_UP);
    double *spectra = malloc(2 * (2 * (size_t)spec->channels - 1) * sizeof *spectra);
    if (cairo_surface_status(image) != CAIRO_STATUS_SUCCESS || spectra == NULL) {
        free(spectra);
        cairo_surface_destroy(image);
        return NULL;
    }
    unsigned char *data = cairo_image_surface_get_data(image);
    int stride = cairo_image_surface_get_stride(image);
    double gains[FK_CHANNELS_MAX];
    for (int y = 0; y < CELLS_UP; y++) {
        double f = p->y_max * (CELLS_UP - y - 0.5) / CELLS_UP;
        fk_spectra(spec, picture->sets, picture->rate_hz, f, spectra);
        for (int x = 0; x < CELLS_ACROSS; x++) {
            double k = p->x_min + (p->x_max - p->x_min) * (x + 0.5) / CELLS_ACROSS;
            fk_gains(spec, spectra, k, gains);
            double db = 20 * log10(fmax(gains[spec->channels / 2], 1e-15));
            unsigned char *pixel = data + y * stride + 4 * x; /* 0x00rrggbb, native order */
            unsigned value =
                (unsigned)shade(db, 0) << 16 | (unsigned)shade(db, 1) << 8 | (unsigned)shade(db, 2);
            *(unsigned *)(void *)pixel = value;
        }
    }
    cairo_surface_mark_dirty(image);
    free(spectra);
    return image;
}

static void draw_image(cairo_t *cr, const struct plot_panel *p, cairo_surface_t *image)
{
    cairo_save(cr);
    cairo_translate(cr, p->left, p->top);
    cairo_scale(cr, (p->right - p->left) / CELLS_ACROSS, (p->bottom - p->top) / CELLS_UP);
    cairo_set_source_surface(cr, image, 0, 0);
    cairo_pattern_set_filter(cairo_get_source(cr), CAIRO_FILTER_BILINEAR);
    cairo_pattern_set_extend(cairo_get_source(cr), CAIRO_EXTEND_PAD);
    cairo_rectangle(cr, 0, 0, CELLS_ACROSS, CELLS_UP);
    cairo_fill(cr);
    cairo_restore(cr);
}

/* A line of constant velocity from the origin to the rim, its velocity beside its end. */
static void draw_velocity(cairo_t *cr, const struct plot_panel *p, double velocity)
{
    static const double dashes[] = {6, 4};
    double k = copysign(fmin(p->x_max, p->y_max / fabs(velocity)), velocity);
    double x = plot_x(p, k), y = plot_y(p, fmin(k * velocity, p->y_max));
    char text[48];
    cairo_save(cr);
    plot_set_colour(cr, (struct plot_colour){1, 1, 1});
    cairo_set_line_width(cr, 1.4);
    cairo_set_dash(cr, dashes, 2, 0);
    plot_line(cr, plot_x(p, 0), plot_y(p, 0), x, y);
    cairo_restore(cr);
    plot_set_colour(cr, plot_ink);
    cairo_set_font_size(cr, 12);
    snprintf(text, sizeof text, "%.6g m/s", velocity);
    if (fabs(k) < p->x_max)
        plot_text(cr, x, p->top - 8, velocity > 0 ? PLOT_LEFT : PLOT_RIGHT, text);
    else
        plot_text(cr, velocity > 0 ? p->right + 8 : p->left + 8, y + 4, PLOT_LEFT, text);
}

/* The scale of levels at the right. */
static void draw_scale(cairo_t *cr, const struct plot_panel *p)
{
    double left = p->right + 92, width = 16, height = p->bottom - p->top;
    cairo_save(cr);
    cairo_set_antialias(cr, CAIRO_ANTIALIAS_NONE); /* else seams show between the cells */
    for (int i = 0; i < CELLS_UP; i++) {
        double db = LEVEL_MIN_DB * (i + 0.5) / CELLS_UP;
        cairo_set_source_rgb(cr, shade(db, 0) / 255.0, shade(db, 1) / 255.0, shade(db, 2) / 255.0);
        cairo_rectangle(cr, left, p->top + height * i / CELLS_UP, width, height / CELLS_UP + 0.5);
        cairo_fill(cr);
    }
    cairo_restore(cr);
    plot_set_colour(cr, plot_muted);
    cairo_set_font_size(cr, 12);
    for (int db = 0; db >= LEVEL_MIN_DB; db -= 10) {
        char text[16];
        snprintf(text, sizeof text, "%d dB", db);
        plot_text(cr, left + width + 6, p->top + height * db / LEVEL_MIN_DB + 4, PLOT_LEFT, text);
    }
}

int array_plot(const struct array_picture *picture, const char *path, struct problem *problem)
{
    static const char *const labels[] = {"frequency [Hz]", "frequency [kHz]", "frequency [MHz]",
                                         "frequency [GHz]"};
    const struct fk_spec *spec = picture->spec;
    double nyquist = 1 / (2 * spec->spacing_m);
    double band = spec->high_hz > 0 ? 1.5 * spec->high_hz : picture->rate_hz / 2;
    struct plot_panel p = {.left = 80,
                           .right = PLOT_WIDTH - 170,
                           .top = 110,
                           .bottom = PLOT_HEIGHT - 70,
                           .x_min = -nyquist,
                           .x_max = nyquist,
                           .y_min = 0,
                           .y_max = fmin(band, picture->rate_hz / 2),
                           .x_unit = 1,
                           .x_label = "wavenumber along the array [1/m], positive towards higher "
                                      "channels"};
    int which;
    p.y_unit = plot_unit(p.y_max, labels, &which);
    p.y_label = labels[which];
    cairo_t *cr = plot_open(path, picture->title, picture->subtitle);
    cairo_surface_t *image = make_image(picture, &p);
    int error = 0;
    if (image == NULL) {
        error = problem_set(problem, ERROR_MEMORY, "no memory for the plot");
    } else {
        plot_axes(cr, &p);
        draw_image(cr, &p, image);
        draw_velocity(cr, &p, spec->velocity_low);
        draw_velocity(cr, &p, spec->velocity_high != 0 ? spec->velocity_high : -spec->velocity_low);
        draw_scale(cr, &p);
        cairo_surface_destroy(image);
    }
    return plot_close(cr, path, error, problem);
}
