/*
 * What a stream shed and no result has reported yet: runs of output frames, each with its cause, in
 * the order of epochs and frames. Neighbours with one cause are one run. The list is bounded: when
 * it is full, the two runs of one epoch with the least distance become one, which reports more
 * frames, never fewer; where their causes differ, as INVALID_UPSTREAM. Nothing is forgotten.
 *
 * Frames are numbered as the caller numbers them. Never allocates; one owner.
 */
#ifndef CONVOLVD_STREAM_SHEDS_H
#define CONVOLVD_STREAM_SHEDS_H

#include <stdint.h>

#include "stream/packet.h"

/* More than there are live epochs (EPOCHS_MAX), so that a full list holds two runs of one epoch. */
enum { SHEDS_MAX = 128 };

struct shed_run {
    uint64_t epoch;
    struct invalid_range range;
};

struct sheds {
    uint32_t count;
    struct shed_run runs[SHEDS_MAX];
};

/* Adds frames [from, until) of an epoch, which overlap no other run; ignores an empty range. */
void sheds_add(struct sheds *sheds, uint64_t epoch, struct invalid_range range);

/* Moves the runs of the epoch that end at or before `until` to out[SHEDS_MAX]; returns how many. */
uint32_t sheds_take(struct sheds *sheds, uint64_t epoch, uint64_t until, struct invalid_range *out);

#endif
