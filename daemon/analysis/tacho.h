/*
 * A tacho: pulses of a shaft on a channel of its own, timed between samples, and the speed that
 * follows from their distances. A pulse begins where the signal rises through the level, after it
 * has been below the level by the hysteresis.
 *
 * One thread at a time; nothing allocates.
 */
#ifndef CONVOLVD_ANALYSIS_TACHO_H
#define CONVOLVD_ANALYSIS_TACHO_H

#include <stdbool.h>
#include <stdint.h>

#include "core/codec.h"

struct tacho_rules {
    double level, rearm; /* in the channel's unit; rearm ≤ level */
};

struct tacho {
    bool armed, known; /* known: a pulse came, and no frame has been missing since */
    double before;     /* the last sample */
    uint64_t frame;    /* of the last pulse: it lies `fraction` of a frame behind */
    double fraction;
    /* Distances between pulses that end since tacho_clear [frames]. */
    uint64_t count;
    double total, shortest, longest;
};

/* An epoch begins, or frames are missing: the next pulse has none before it. */
void tacho_cut(struct tacho *tacho);
void tacho_clear(struct tacho *tacho);

/* `frames` consecutive live samples, `stride` floats apart, the first of which is frame `first`. */
void tacho_add(struct tacho *tacho, const struct tacho_rules *rules, const float *samples,
               uint32_t stride, uint64_t first, uint64_t frames);

/* Pulses a frame; NAN: no two of them came. */
double tacho_rate(const struct tacho *tacho);
/* (longest - shortest) / mean distance; NAN likewise. */
double tacho_change(const struct tacho *tacho);

void tacho_walk(struct tacho *tacho, struct codec *codec);

#endif
