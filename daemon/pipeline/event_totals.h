/*
 * Event totals: what the events of one analysis add up to on each channel, since it began and over
 * the last TOTALS_SECONDS: how many there were, and the sums of EVENT_TOTAL_TABLE. They are the
 * events that leave the analysis, each once, as soon as it is known (hits when they end).
 *
 * Time is the daemon's clock as the analysis runs, so a replay faster than real time has the rates
 * of the replay.
 *
 * Nobody waits or locks: the thread of the analysis writes (WRITER), any thread reads (ANY). The
 * numbers of one reading may be those of two events in a row; each of them is whole.
 */
#ifndef CONVOLVD_PIPELINE_EVENT_TOTALS_H
#define CONVOLVD_PIPELINE_EVENT_TOTALS_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/fields.h"

enum { TOTALS_SECONDS = 10 };

struct event_sums {
    uint64_t events;
    double sums[EVENT_TOTALS]; /* NAN: no event has had such a value */
};

struct event_totals;

/* Any thread. `own` outlives it. 0 or ERROR_MEMORY. */
int event_totals_open(const struct analysis_ops *ops, const struct analysis_options *own,
                      struct event_totals **out);
void event_totals_close(struct event_totals *totals); /* NULL is fine */
uint64_t event_totals_bytes(const struct analysis_ops *ops, const struct analysis_options *own);

/* WRITER. At a time [monotonic] that never goes back. */
void event_totals_add(struct event_totals *totals, const struct analysis_event *event,
                      int64_t now_ns);

/* ANY. How many rows there are: one a channel, or one for sources, which are of no channel. */
uint32_t event_totals_rows(const struct event_totals *totals);
/* ANY. Whether the events have such a field. */
bool event_totals_has(const struct event_totals *totals, enum event_total total);
/* ANY. Since it began. */
void event_totals_read(const struct event_totals *totals, uint32_t row, struct event_sums *sums);
/* ANY. Over the last TOTALS_SECONDS whole seconds. */
void event_totals_recent(const struct event_totals *totals, uint32_t row, int64_t now_ns,
                         struct event_sums *sums);

#endif
