/*
 * Recent levels: RMS and peak of each input channel over the last second, and the peak held since
 * it was last let go. The blocks' reports are gathered in buckets of a fifth of a second each, by
 * the time at which they came.
 *
 *     buckets  ──►  │ 4/5 s ago │ 3/5 │ 2/5 │ 1/5 │ now │      read: all that are no older than 1 s
 *
 * Nothing is allocated once it is open. Pure: time comes as an argument. One owner.
 */
#ifndef CONVOLVD_STREAM_RECENT_H
#define CONVOLVD_STREAM_RECENT_H

#include <stdbool.h>
#include <stdint.h>

struct recent;

/* What one block adds to a channel: present frames, the sum of their squares, the largest
 * magnitude. */
struct recent_block {
    uint64_t frames;
    double sum_squares, peak;
};

struct recent_levels {
    bool known; /* frames came within the last second; else the next two are 0 */
    double rms, peak;
    double held; /* the largest since recent_reset */
};

/* NULL: out of memory. */
struct recent *recent_open(uint32_t channels);
void recent_close(struct recent *recent); /* NULL is fine */

void recent_add(struct recent *recent, uint32_t channel, const struct recent_block *block,
                int64_t now_ns);
void recent_read(const struct recent *recent, uint32_t channel, int64_t now_ns,
                 struct recent_levels *out);
/* Lets the held peaks go. */
void recent_reset(struct recent *recent);

#endif
