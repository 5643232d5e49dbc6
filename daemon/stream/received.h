/*
 * Received input: a look at the frames that lie in a stream's input ring, for who inspects what the
 * source sent (flat lines) off the way of the samples. Gaps and zero history are left out.
 *
 * Positions are those of state.h: they ascend over all epochs. Only the newest half of the ring is
 * looked at, because a source that receives into the ring directly may be writing the rest.
 *
 * Loop thread; nothing here allocates or changes the stream.
 */
#ifndef CONVOLVD_STREAM_RECEIVED_H
#define CONVOLVD_STREAM_RECEIVED_H

#include <stdbool.h>
#include <stdint.h>

struct stream;

/* Frames that were received and lie one behind the other. */
struct received_run {
    uint64_t position;    /* of the first */
    uint64_t count;       /* at least 1 */
    const uint8_t *bytes; /* count · frame_bytes, as they came over the wire; valid until the stream
                             gets its next packet */
};

/* The first run at or after position `from`; false: there is none yet. */
bool received_run(const struct stream *stream, uint64_t from, struct received_run *run);

/* The position after the newest frame received; 0: none was. */
uint64_t received_end(const struct stream *stream);

/* The lowest position that is still looked at. */
uint64_t received_begin(const struct stream *stream);

#endif
