/*
 * Which frames of an epoch a stretch must not rest on, where the stretch spans several runs: for
 * each cause the last end of the invalid ranges so far, for each channel that of the saturated
 * ones. So a stretch [from, until) holds an invalid frame exactly when, of all ranges that begin
 * before `until`, one ends behind `from`.
 *
 *     validity_take(&validity, run, until);   // of this run, and of all before it
 *     causes = validity_causes(&validity, from);
 *
 * One thread at a time; nothing but `open` allocates.
 */
#ifndef CONVOLVD_ANALYSIS_VALIDITY_H
#define CONVOLVD_ANALYSIS_VALIDITY_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/run.h"
#include "core/codec.h"

struct validity {
    uint64_t invalid_until[INVALID_CAUSES]; /* 0: none in the epoch */
    uint32_t channels;
    uint64_t *saturated_until; /* [channels] */
};

/* 0 or ERROR_MEMORY. */
int validity_open(struct validity *validity, uint32_t channels);
void validity_close(struct validity *validity);

/* An epoch begins. */
void validity_begin(struct validity *validity);

/* The ranges of the run that begin before frame `until`; calls may repeat, with `until` growing. */
void validity_take(struct validity *validity, const struct analysis_run *run, uint64_t until);

/* 1 << cause for each that a frame in [from, `until` of the last validity_take) is invalid of. */
uint32_t validity_causes(const struct validity *validity, uint64_t from);

/* Whether such a frame of the channel rests on a saturated input sample. */
bool validity_saturated(const struct validity *validity, uint32_t channel, uint64_t from);

void validity_walk(struct validity *validity, struct codec *codec);

#endif
