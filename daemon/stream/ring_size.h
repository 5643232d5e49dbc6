/*
 * The size of an input ring: how many frames it has to hold so that nothing a batch reads is
 * overwritten, and how long a gap it can bridge. With S − 1 frames of history, L frames a block,
 * and B blocks in batches (those in flight and the largest J):
 *
 *   R ≥ (S − 1) + 2 · reorder window + (B + 4) · L        one epoch
 *         + 2 · (S − 1) + L                               tail and history of zeros between two
 *
 * The reorder window counts twice: frames wait for the hole before them while as many new ones
 * arrive. To this the default adds the time that results may wait for the device (0.5 s or eight
 * blocks) and the longest gap to bridge (up to 64 MiB). Where the input memory has no room for
 * that, a ring by rule gives way, down to R.
 *
 * Pure functions, any thread. All sizes are frames at the input's rate.
 */
#ifndef CONVOLVD_STREAM_RING_SIZE_H
#define CONVOLVD_STREAM_RING_SIZE_H

#include <stdint.h>

#include "stream/stream.h"

struct ring_need {
    double rate_hz;
    uint32_t frame_bytes;
    uint32_t hop;              /* L */
    uint32_t history;          /* frames before a block that its result reads, at least S */
    uint32_t blocks_in_flight; /* B */
    int64_t reorder_ns;
    int64_t max_gap_ns;
};

/* Frames before a block that such a plan may read. */
uint32_t ring_history_of(const struct plan_info *info);

/* What a plan asks of a stream's ring. */
struct ring_need ring_need_of(const struct stream_options *options, const struct plan_info *info);

/* R as above: the least that keeps a stream running without a gap. */
uint64_t ring_size_least(const struct ring_need *need);

/* What the ring is to hold when the user names no size. The engine rounds up to a power of two. */
uint64_t ring_size_default(const struct ring_need *need);

/* The next smaller ring for one of `frames` by rule that has no room: a power of two, at least R;
 * 0: there is none. */
uint64_t ring_size_smaller(const struct ring_need *need, uint64_t frames);

/* How long the stream may be behind before it gives up blocks: 0.5 s, or as long as the
 * `frames_min` that the user names last (0: none); at least eight blocks. In a ring by rule that
 * gave way to `frames`, what lies beyond R, at least a block. [ns] */
int64_t ring_patience_ns(const struct ring_need *need, uint64_t frames_min, uint64_t frames);

/* A size that was enough for `before` frames of history, for `need->history` in their stead. */
uint64_t ring_size_grown(const struct ring_need *need, uint64_t frames, uint32_t before);

/* The longest gap that a ring of `frames` bridges; a longer one is a discontinuity. */
uint64_t ring_size_gap_max(const struct ring_need *need, uint64_t frames);

/* The least ring that bridges a gap of so many frames. */
uint64_t ring_size_of_gap(const struct ring_need *need, uint64_t gap);

#endif
