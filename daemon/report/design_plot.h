/*
 * A filter as a picture: magnitude in dB over frequency, and below it the impulse response over
 * time, drawn with cairo as PNG or SVG.
 *
 * The main thread, before anything runs.
 */
#ifndef CONVOLVD_REPORT_DESIGN_PLOT_H
#define CONVOLVD_REPORT_DESIGN_PLOT_H

#include "core/error.h"
#include "filter/filter.h"
#include "filter/taps.h"

struct design_picture {
    const char *title, *subtitle; /* one line each */
    const struct taps *taps;
    const struct response *response;
    double rate_hz;
};

/* `path` ends in .png or .svg. ERROR_SYSTEM when it cannot be written. */
int design_plot(const struct design_picture *picture, const char *path, struct problem *problem);

#endif
