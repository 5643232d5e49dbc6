/*
 * Levels as options: an amplitude that a user writes in a unit ("100 uV") or in dB ("40 dB",
 * dB(AE): re 1 uV, other units re the reference of ISO 1683). A row of type OPTION_OWN takes one
 * with
 * `.parse = level_parse`.
 *
 * Pure functions, any thread.
 */
#ifndef CONVOLVD_ANALYSIS_LEVEL_H
#define CONVOLVD_ANALYSIS_LEVEL_H

#include "core/option.h"

#define LEVEL_WORDS "level, such as 40 dB or 100 uV"

/* Of option_row: a number of at least 0 with a unit of amplitude or none, or any level in dB. */
int level_parse(const struct option_row *row, const char *text, struct option_value *value,
                struct problem *problem);

/* A proven level in `unit`. False when reported, because its unit does not fit. */
bool level_amplitude(const struct option_check *check, const char *key,
                     const struct option_value *value, const char *unit, double *out);

#endif
