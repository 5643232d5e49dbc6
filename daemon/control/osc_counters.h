/*
 * The OSC server's counters: one table of name, sentence and field, from which the status, its JSON
 * form, `convolvd --help-osc` and docs/osc.md are printed.
 *
 * Loop thread, or after the loop has ended; the table is constant.
 */
#ifndef CONVOLVD_CONTROL_OSC_COUNTERS_H
#define CONVOLVD_CONTROL_OSC_COUNTERS_H

#include <jansson.h>
#include <stdio.h>

struct osc_hub;

/* Rows for people: all that is not zero. Nothing when there is no OSC server. */
void osc_counters_print(const struct osc_hub *hub, FILE *out);
/* Every counter by its name; NULL when there is no OSC server. */
json_t *osc_counters_json(const struct osc_hub *hub);
/* The table as text. */
void osc_counters_help(FILE *out);

#endif
