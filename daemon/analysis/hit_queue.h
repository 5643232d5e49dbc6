/*
 * The release queue: hits that have ended and wait, because a hit that began before them is still
 * open. It gives them out in order of (frame, channel), with their transients.
 *
 * Its memory is fixed: blocks of one size from one pool, chained for a transient. A hit that finds
 * no room for its transient waits without it; one that finds no room at all is refused. Both are
 * the caller's to count, and depend on the hits and their order alone.
 *
 * Never allocates after `open`. One owner.
 */
#ifndef CONVOLVD_ANALYSIS_HIT_QUEUE_H
#define CONVOLVD_ANALYSIS_HIT_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/analysis.h"
#include "analysis/hit.h"
#include "core/codec.h"

enum { HIT_QUEUE_BLOCK_BYTES = 1024 };

struct hit_queue;

/* `blocks` ≥ 1 of the pool; `samples_max` of one transient. 0 or ERROR_MEMORY. */
int hit_queue_open(uint32_t blocks, uint32_t samples_max, struct hit_queue **out);
void hit_queue_close(struct hit_queue *queue); /* NULL is fine */
uint64_t hit_queue_memory(uint32_t blocks, uint32_t samples_max);
/* Blocks that a hit with so many samples takes. */
uint32_t hit_queue_blocks(uint32_t samples);

/* Copies a hit with its transient. */
enum hit_queue_answer {
    HIT_QUEUE_TAKEN,
    HIT_QUEUE_WITHOUT_SAMPLES, /* taken, but not its transient */
    HIT_QUEUE_FULL,
};
enum hit_queue_answer hit_queue_put(struct hit_queue *queue, const struct analysis_event *event);

/* The hit with the least (frame, channel), if that is before these, taken out; NULL: there is none.
 * Valid until the next call. */
const struct analysis_event *hit_queue_take(struct hit_queue *queue, uint64_t before_frame,
                                            uint32_t before_channel);

/* All hits that wait. False: what was read cannot be. */
bool hit_queue_walk(struct hit_queue *queue, uint32_t channels, struct codec *codec);

#endif
