/*
 * Presence bits of the input ring: one bit a slot says whether the frame there was received. A
 * position's bit is valid from the moment when it was cleared for the first time in this lap of
 * the ring (presence_clear_until) to the moment when the next lap clears it.
 *
 * Positions are those of state.h. Every run [from, until) spans at most one lap. Loop thread.
 */
#ifndef CONVOLVD_STREAM_PRESENCE_H
#define CONVOLVD_STREAM_PRESENCE_H

#include <stdbool.h>
#include <stdint.h>

struct stream;

/* First position in [from, until) whose bit equals `present`; `until` when there is none. */
uint64_t presence_find(const struct stream *stream, uint64_t from, uint64_t until, bool present);

/* Sets or clears the bits of [from, until). */
void presence_mark(struct stream *stream, uint64_t from, uint64_t until, bool present);

/* Makes the bits of all positions below `until` valid: those beyond stream.cleared_until become
 * absent. */
void presence_clear_until(struct stream *stream, uint64_t until);

#endif
