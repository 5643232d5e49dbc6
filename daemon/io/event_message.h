/*
 * Event messages: events and marks on their way from an analysis' thread to another thread, as
 * messages of a ring (core/message_ring.h). A message holds the event's structure, its body and,
 * where they are wanted, its samples.
 *
 * One producing and one consuming thread for each ring, as for the ring itself; neither waits or
 * allocates.
 */
#ifndef CONVOLVD_IO_EVENT_MESSAGE_H
#define CONVOLVD_IO_EVENT_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/analysis.h"
#include "core/message_ring.h"
#include "io/sink.h"

struct event_message {
    enum {
        EVENT_MESSAGE_EVENT,
        EVENT_MESSAGE_MARK,
        EVENT_MESSAGE_ADVANCE, /* analysis_options.advance */
        EVENT_MESSAGE_LIVE,    /* analysis_ops.live: `event` is a head */
    } kind;
    union {
        struct analysis_event event; /* its body and samples lie behind this structure */
        struct sink_mark mark;
        struct {
            uint64_t epoch, frame;
        } advance;
    };
};

/* What a message of the event takes of a ring at most [bytes]. */
uint64_t event_message_bytes(const struct analysis_event *event, bool samples);

/* Producer: passes on a message, an event's samples only with `samples`. False: there is no room
 * now. The caller wakes the other side. */
bool event_message_put(struct message_ring *ring, const struct analysis_event *event, bool samples);
bool event_message_put_mark(struct message_ring *ring, const struct sink_mark *mark);
bool event_message_put_advance(struct message_ring *ring, uint64_t epoch, uint64_t frame);
bool event_message_put_live(struct message_ring *ring, const struct analysis_event *head);

/* Consumer: the oldest message, NULL: none. Valid until message_ring_release. */
const struct event_message *event_message_peek(struct message_ring *ring);

#endif
