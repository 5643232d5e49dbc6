/*
 * Values of events by the table of their fields: finds a field by the name that users write, and
 * reads its value from the body of an event.
 *
 * Pure; any thread.
 */
#ifndef CONVOLVD_ANALYSIS_FIELDS_H
#define CONVOLVD_ANALYSIS_FIELDS_H

#include <stdint.h>

#include "analysis/analysis.h"

/* The field of this name, NULL: there is none. "partial_3" is the third value of a repeated field:
 * *index is 2; any other name is the field itself. */
const struct analysis_field *field_find(const struct analysis_field *fields, uint32_t count,
                                        const char *name, uint32_t *index);

/* The field whose name is the nearest, for suggestions; NULL: there are none. */
const struct analysis_field *field_nearest(const struct analysis_field *fields, uint32_t count,
                                           const char *name);

/* Value `index` of the field, 0 … max(repeat, 1) - 1; NAN: not defined. */
double field_value(const struct analysis_field *field, uint32_t index,
                   const struct analysis_event *event);

#endif
