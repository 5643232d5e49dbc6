/*
 * Ports of a stream: the sinks and downstream streams that take its results, or its raw input. A
 * port gets every result in frame order, and raw input as soon as no frame of it is awaited any
 * more.
 *
 * stream_add_port, stream_remove_port and stream_flush_ports (stream.h) are defined here as well.
 * Loop thread; nothing here allocates, locks or logs.
 */
#ifndef CONVOLVD_STREAM_PORTS_H
#define CONVOLVD_STREAM_PORTS_H

#include <stdbool.h>
#include <stdint.h>

struct epoch;
struct result;
struct stream;

/* Hands a result to every port of its kind: raw input (RESULT_RAW) or results. */
void ports_put(const struct stream *stream, const struct result *result);

/* Frames, at the input's rate, whose results every port of results can take beside those in
 * flight; UINT64_MAX: no limit, as always for a live source, which drops instead. */
uint64_t ports_room(const struct stream *stream);
/* The same for raw input beyond `waiting` frames that are not handed on yet. */
uint64_t ports_raw_room(const struct stream *stream, uint64_t waiting);

/* Hands raw input [e->raw_delivered, until) to the raw ports; every frame is present or given up.
 */
void ports_put_raw(struct stream *stream, struct epoch *e, uint64_t until);

/* The epoch has ended after its last frame was handed on: tells the ports by a result without
 * frames. Does nothing while frames with the flag RESULT_EPOCH_END are still to come, or when
 * nothing of the epoch was ever handed on. */
void ports_put_end(struct stream *stream, const struct epoch *e);

#endif
