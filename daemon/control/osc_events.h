/*
 * OSC events: passes the events of analyses on to who has subscribed to `events` of their stream,
 * hits when they end. It reads the stores of the analyses that run every 50 ms, so that nothing
 * here is in the way of an analysis; what a subscriber does not get is counted
 * (io/osc/subscriptions.h).
 *
 * Loop thread.
 */
#ifndef CONVOLVD_CONTROL_OSC_EVENTS_H
#define CONVOLVD_CONTROL_OSC_EVENTS_H

#include "control/process.h"
#include "io/osc/server.h"

struct osc_events;

/* `process` and `osc` outlive it, up to osc_events_close. 0 or ERROR_MEMORY. */
int osc_events_open(const struct process *process, struct osc *osc, struct osc_events **out);
/* Reads nothing any more; the loop frees it. NULL is fine. */
void osc_events_close(struct osc_events *events);

/* Tells a peer the names of the fields of each analysis of the stream, in the order of the values
 * of its events. */
void osc_events_tell_fields(const struct pipeline *pipeline, struct osc_peer *peer);

#endif
