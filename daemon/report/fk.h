/*
 * What `--check` and `--design` print about a velocity filter: its fan, the levels of plane waves
 * at the middle of the array, at its ends and on average, beside the array's wavenumber resolution;
 * and a table of levels over velocity and frequency.
 *
 * Main thread, before anything runs.
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

#endif
