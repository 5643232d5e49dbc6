/*
 * Threshold crossings of one channel, sample by sample: counts, and where hits begin. Exactly the
 * rules of hits (docs/analysis.md), without their features, so that the interval of a quiet channel
 * costs one comparison a stretch of frames.
 *
 * A positive count is an upward crossing of U that follows a sample below 0 (the arm); a negative
 * one mirrors it. At the first frame of an epoch and after invalid frames an arm is set unless that
 * frame lies beyond its threshold: an excursion that began before is no count.
 *
 * One thread at a time; nothing allocates.
 */
#ifndef CONVOLVD_ANALYSIS_CROSSINGS_H
#define CONVOLVD_ANALYSIS_CROSSINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/codec.h"

/* Immutable, of one channel. */
struct crossing_rules {
    double threshold; /* U ≥ 0: above is |x| > U */

    uint64_t hdt, hlt, longest; /* hit definition, lockout, max duration [frames] */
};

struct crossings {
    bool fresh;                           /* no live frame directly before the next one */
    bool armed_up, armed_down, was_above; /* was_above: x > U in the frame before */
    bool open;                            /* a hit */
    uint64_t begin, last;                 /* its first frame, and the last above U */
    uint64_t idle_from;                   /* without one: the next may begin here */
    uint64_t up, down, plain, begun;      /* counted since crossings_take */
};

/* An epoch begins, or frames are missing. The counts stay. */
void crossings_cut(struct crossings *crossings);

/* `frames` consecutive live samples, `stride` floats apart, the first of which is frame `first` of
 * the epoch and least and greatest of which are `low` and `high`. */
void crossings_add(struct crossings *crossings, const struct crossing_rules *rules,
                   const float *samples, uint32_t stride, uint64_t first, uint32_t frames,
                   float low, float high);

void crossings_walk(struct crossings *crossings, struct codec *codec);

#endif
