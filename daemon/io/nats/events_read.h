/*
 * The beginning of a term for the events of a log: its records from the newest checkpoint on are
 * read twice. The first time for the checkpoint and for what the log has of events, the second time
 * for its data, which goes into the analyses. And what a checkpoint is made of. Part of events.h.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_IO_NATS_EVENTS_READ_H
#define CONVOLVD_IO_NATS_EVENTS_READ_H

#include "io/nats/events.h"

/* The analyses are idle: begins to read. */
void nats_events_read(struct nats_events *e);
/* Takes what has come. */
void nats_events_read_on(struct nats_events *e);
/* Nothing is read: what comes is of a term before. */
void nats_events_read_none(struct nats_events *e);
/* All is read: the term goes on (events.c). */
void nats_events_live(struct nats_events *e);

/* While idle: what the analyses hold, and how far the log has their events; the caller frees it.
 * NULL: no memory. */
uint8_t *nats_events_write_state(const struct nats_events *e, uint32_t *bytes);

/* Head and name of a part whose bytes are in place. */
void nats_events_write_head(const struct logged_part *part, uint8_t *out);

#endif
