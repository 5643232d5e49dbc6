/*
 * Limits: which events of an analysis leave it, by the values of their fields, as in
 * `keep = peak_db > 45, duration_us > 50`: all of them must hold. A value that is not defined holds
 * no limit.
 *
 * Pure; any thread.
 */
#ifndef CONVOLVD_ANALYSIS_LIMITS_H
#define CONVOLVD_ANALYSIS_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/analysis.h"

/* One limit, its field found in the table of the analysis. */
struct analysis_limit {
    const struct analysis_field *field;
    uint32_t index; /* of a repeated field, from 0 */
    enum { LIMIT_ABOVE, LIMIT_AT_LEAST, LIMIT_BELOW, LIMIT_AT_MOST } relation;
    double value;
};

/* The parser of an option row: whether the text reads as FIELD > NUMBER, >=, < or <=. A field
 * in the channel's unit takes any level (core/level.h); one whose name carries its unit takes a
 * number with or without that unit. */
int limit_option(const struct option_row *row, const char *text, struct option_value *value,
                 struct problem *problem);

/* Such a text against the fields of an analysis. 0, or ERROR_CONFIG: there is no such field, or its
 * unit is another. */
int limit_find(const char *text, const struct analysis_field *fields, uint32_t field_count,
               const struct analysis_stream *stream, struct analysis_limit *out,
               struct problem *problem);

/* Whether all of them hold for the event. */
bool limits_hold(const struct analysis_limit *limits, uint32_t count,
                 const struct analysis_event *event);

#endif
