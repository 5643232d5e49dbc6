/*
 * Values of events by the table of their fields: finds a field by the name that users write, and
 * reads its value from the body of an event.
 *
 * Pure; any thread.
 */
#ifndef CONVOLVD_ANALYSIS_FIELDS_H
#define CONVOLVD_ANALYSIS_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/analysis.h"

/* What is added up of the events of each channel, where they have such a field: for status and
 * metrics (pipeline/event_totals.h), and for alarms on a sum. */
#define EVENT_TOTAL_TABLE(X)                                                                       \
    X(COUNTS, "counts")                                                                            \
    X(ENERGY, "energy_eu")                                                                         \
    X(STRENGTH, "strength_nvs")

enum event_total {
#define X(name, field) TOTAL_##name,
    EVENT_TOTAL_TABLE(X)
#undef X
        EVENT_TOTALS,
};

/* The field it is the sum of: "energy_eu". */
const char *event_total_field(enum event_total total);
/* Whether a field of this name is added up; *total, which one it is. */
bool event_total_find(const char *field, enum event_total *total);

/* The field of this name, NULL: there is none. "partial_3" is the third value of a repeated field:
 * *index is 2; any other name is the field itself. */
const struct analysis_field *field_find(const struct analysis_field *fields, uint32_t count,
                                        const char *name, uint32_t *index);

/* The field whose name is the nearest, for suggestions; NULL: there are none. */
const struct analysis_field *field_nearest(const struct analysis_field *fields, uint32_t count,
                                           const char *name);

/* True for levels in dB re the reference of the channel's unit; other fields in dB are ratios. */
bool field_is_level(const struct analysis_field *field);

/* Value `index` of the field, 0 … max(repeat, 1) - 1; NAN: not defined. */
double field_value(const struct analysis_field *field, uint32_t index,
                   const struct analysis_event *event);

#endif
