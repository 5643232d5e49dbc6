/*
 * Room in the input ring. A live source does not wait: when the device falls behind, the stream
 * sheds the oldest blocks that no batch holds yet, whole, and reports them downstream as overload:
 * when the ring is full, and when overload.h says that the stream has been behind for too long.
 *
 * Loop thread; nothing here allocates, locks or logs.
 */
#ifndef CONVOLVD_STREAM_ROOM_H
#define CONVOLVD_STREAM_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "stream/packet.h"
#include "stream/stream.h"

struct epoch;

/* Makes room for positions below `until`, by shedding where the source is live. False: batches in
 * flight still read those slots, the source waits by itself, or the run is longer than the ring. */
bool room_make(struct stream *stream, uint64_t until);

/* Counts output frames [from, until) of the epoch (at the input's rate) as shed; the next result
 * of the epoch reports them with `cause`. */
void room_shed(struct stream *stream, struct epoch *e, uint64_t from, uint64_t until, enum shed why,
               enum invalid_cause cause);

/* Sheds the oldest blocks that no batch holds, as far as they are past their deadline. */
void room_shed_overdue(struct stream *stream, int64_t now_ns);

#endif
