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
struct invalid_range;
struct result;
struct stream;

/* Hands a result to every port of its kind: raw input (RESULT_RAW) or results. */
void ports_put(struct stream *stream, const struct result *result);

/* Frames, at the input's rate, whose results every port of results can take beside those in
 * flight; UINT64_MAX: no limit, as always for a live source, which drops instead. */
uint64_t ports_room(const struct stream *stream);
/* The same for raw input beyond `waiting` frames that are not handed on yet. */
uint64_t ports_raw_room(const struct stream *stream, uint64_t waiting);

/* The oldest epoch that has ended while its raw input is not handed on whole; NULL: none. At most
 * RAW_EPOCHS_MAX are behind (ingest.c, begin_epoch). */
struct epoch *ports_raw_behind(const struct stream *stream);
/* Hands raw input [e->raw_delivered, until) to the raw ports; every frame is present or given up,
 * and written. No epoch before it is behind. */
void ports_put_raw(struct stream *stream, struct epoch *e, uint64_t until);

/* Turns a range at the input's rate into kept frames; false when it holds none. */
bool ports_range_of_kept(const struct stream *stream, struct invalid_range *range);

/* Moves what was shed of the epoch below frame `until` and not reported yet into ranges[SHEDS_MAX],
 * numbered as results are; returns how many. */
uint32_t ports_take_shed(struct stream *stream, const struct epoch *e, uint64_t until,
                         struct invalid_range *ranges);

/* Epochs that are through, oldest first: tells the ports of the end of each one that no result with
 * RESULT_EPOCH_END has told, by a result without frames, which also reports what was shed last. An
 * epoch all of which was shed begins with it as well. */
void ports_put_ends(struct stream *stream);

#endif
