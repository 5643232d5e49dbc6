/*
 * What `--check` and `--design` say of a velocity filter: its fan, what plane waves see of it at
 * the middle of the array, at its ends and on average, always beside the array's wavenumber
 * resolution; a table of levels over velocity and frequency; and the f-k plane as a picture.
 *
 * The main thread, before anything runs.
 */
#ifndef CONVOLVD_REPORT_FK_H
#define CONVOLVD_REPORT_FK_H

#include <stdio.h>

#include "core/error.h"
#include "filter/fk.h"

/* Rows of figures: `label` before the first, `indent` (of the same width) before the others. */
void fk_report_figures(FILE *out, const struct fk_spec *spec, double rate_hz,
                       const struct fk_measure *measure, const char *label, const char *indent);

/* Levels at the middle channel: a row for each velocity, a column for each frequency. ERROR_MEMORY.
 */
int fk_report_table(FILE *out, const struct fk_spec *spec, double rate_hz, struct taps *const *sets,
                    struct problem *problem);

struct fk_picture {
    const char *title, *subtitle; /* one line each */
    const struct fk_spec *spec;
    struct taps *const *sets;
    double rate_hz;
};

/* The level of plane waves at the middle channel over wavenumber and frequency, the fan's edges as
 * lines; `path` ends in .png or .svg. ERROR_SYSTEM when it cannot be written, ERROR_MEMORY. */
int fk_plot(const struct fk_picture *picture, const char *path, struct problem *problem);

#endif
