/*
 * Templates of rows (kernels/row.h): the part of a row that says how an input is read and the part
 * that says where an output goes. A variant adds its own; the launch fills in what an item knows.
 *
 * Worker threads, one at a time.
 */
#ifndef CONVOLVD_CONVOLVE_PLAN_ROWS_H
#define CONVOLVD_CONVOLVE_PLAN_ROWS_H

#include "convolve/plan/build.h"

/* A row that reads an input and writes nothing but its report. */
struct row row_of_input(const struct plan *plan, const struct plan_spec *spec, uint32_t input);

/* Makes the row write an output. After spectra_place. */
void row_to_output(const struct build *build, uint32_t output, struct row *row);

/* FORM_… of kernels/row.h. */
uint32_t row_form(enum output_form form);

#endif
