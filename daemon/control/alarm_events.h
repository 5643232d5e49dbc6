/*
 * What alarms watch of analyses: how many events a channel had within a window and what they add up
 * to, the extremes of a field, and dead time.
 *
 *     totals, ledgers ──► window ─┐
 *     store ─► events ─► spread ──┴─► figure: a value, nothing beyond a limit, or unknown
 *
 * No events are no value of 0. A figure counts only where it is certain: raised is what the events
 * that were seen say by themselves; that there were none, or too few, is believed only when at
 * least half of the window was live and nothing was lost in it.
 *
 * Loop thread; nothing here allocates but `alarm_events_begin` and alarm_figure_make.
 */
#ifndef CONVOLVD_CONTROL_ALARM_EVENTS_H
#define CONVOLVD_CONTROL_ALARM_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "alarm/alarm.h"
#include "alarm/spread.h"
#include "alarm/window.h"
#include "config/config.h"
#include "pipeline/pipelines.h"

/* One analysis that runs, as it was seen last. */
struct followed_analysis {
    struct followed_analysis *next;
    uint64_t store; /* its id, by which it is known */
    const struct pipeline_analysis *analysis;
    const struct pipeline_analysis *root; /* it, or the one of frames whose events reach it */
    bool seen;                            /* it runs still */
    bool watched;                         /* alarms want the fields of its events: … */
    uint32_t first_item, until_item;      /* … of these instances, and of others between them */
    uint64_t after;                       /* place of the event that was read last */
    uint64_t live, frames;                /* of the root */
    uint64_t lost;                        /* what it or those before it have dropped */
    int64_t lost_ns;                      /* when that grew, or events were missed; 0: never */
};

struct alarm_events {
    struct followed_analysis *all;
};

/* Finds the analyses that run, before instances are made of the configuration. Those that are new
 * are read from their first event on. */
void alarm_events_begin(struct alarm_events *events, const struct pipelines *pipelines);
/* The instances are made: forgets those that are gone. */
void alarm_events_end(struct alarm_events *events);
void alarm_events_close(struct alarm_events *events);
/* The analysis of this name in this pipeline; NULL: it does not run. */
struct followed_analysis *alarm_events_find(const struct alarm_events *events,
                                            const struct pipeline *pipeline, const char *name);

/* What one alarm watches of one channel of an analysis. */
struct alarm_figure {
    struct followed_analysis *of;
    enum alarm_quantity quantity;
    int32_t channel;        /* -1: of all */
    enum event_total total; /* SUM */
    const struct analysis_field *field;
    uint32_t index; /* FIELD */
    int64_t made_ns, within_ns;
    struct window window; /* events or sum, live frames, frames */
    struct spread spread; /* FIELD */
};

/* NULL: no memory, or the analysis that runs has no such quantity or channel. */
struct alarm_figure *alarm_figure_make(struct followed_analysis *of,
                                       const struct config_alarm *alarm, int32_t channel,
                                       int64_t now_ns);

/* Reads what the analyses have counted, and calls `take` for each new event of those that are
 * watched, in their order, at most so many in a call. */
void alarm_events_read(struct alarm_events *events, int64_t now_ns, uint32_t most,
                       void (*take)(void *context, const struct followed_analysis *of,
                                    const struct analysis_event *event),
                       void *context);
/* An event of its analysis. */
void alarm_figure_take(struct alarm_figure *figure, const struct analysis_event *event,
                       int64_t now_ns);

/* The value now: NAN: unknown. *none: nothing is beyond a limit, for certain, though there is no
 * value. `above`: the alarm is active for its upper limit. */
double alarm_figure_value(struct alarm_figure *figure, const struct alarm_rule *rule, bool above,
                          int64_t now_ns, bool *none);

#endif
