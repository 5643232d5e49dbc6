/*
 * The two kinds of page that filter_plot chooses from. Private to convolv-design.
 */
#ifndef CONVOLV_DESIGN_PANELS_H
#define CONVOLV_DESIGN_PANELS_H

#include "core/error.h"
#include "filter/filter.h"
#include "filter/fk.h"
#include "filter/taps.h"

/* One set of taps with its measured response. */
struct response_picture {
    const char *title, *subtitle; /* one line each */
    const struct taps *taps;
    const struct response *response;
    double rate_hz;
};

int response_plot(const struct response_picture *picture, const char *path,
                  struct problem *problem);

/* A velocity filter: `sets` as filter_make returns them. */
struct array_picture {
    const char *title, *subtitle;
    const struct fk_spec *spec;
    struct taps *const *sets;
    double rate_hz;
};

int array_plot(const struct array_picture *picture, const char *path, struct problem *problem);

#endif
