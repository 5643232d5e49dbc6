/*
 * Events of a log for its reader: which of the events in a record are new, one after the other. It
 * goes by the log's numbers of each analysis, as the reader of samples goes by frame number.
 *
 * Part of libconvolv-nats; one owner.
 */
#ifndef CONVOLV_NATS_EVENTS_H
#define CONVOLV_NATS_EVENTS_H

#include <stdbool.h>

#include "convolv-nats.h"
#include "wire/logged.h"

struct log_events;

/* NULL: no memory. */
struct log_events *log_events_open(void);
void log_events_close(struct log_events *events); /* NULL is fine */

/* A record that was read; it stays where it is until log_events_next has returned 0. */
void log_events_take(struct log_events *events, const struct record *record);
/* The next event of it that is new: 1; 0: there is none; or an error of convolv_log_next_event. */
int log_events_next(struct log_events *events, struct convolv_log_event *event);

#endif
