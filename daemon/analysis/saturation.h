/*
 * Frames that rest on saturated inputs, as the detector of hits needs them: of each column of
 * frames those of each channel as bits. Frames are taken in order, in columns of up to 64 or in
 * longer stretches that nothing looks at.
 *
 * Never allocates after `open`. One owner.
 */
#ifndef CONVOLVD_ANALYSIS_SATURATION_H
#define CONVOLVD_ANALYSIS_SATURATION_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/run.h"
#include "core/codec.h"

struct saturation {
    uint32_t channels;
    uint64_t *bits;  /* [channels], of the column; all 0 while `any` is false */
    uint64_t *until; /* [channels], how far the ranges known reach */
    uint64_t latest; /* the largest of `until` */
    bool any;        /* bits are set */
    uint32_t next;   /* range of the run */
};

/* 0 or ERROR_MEMORY. */
int saturation_open(struct saturation *saturation, uint32_t channels);
void saturation_close(struct saturation *saturation);

/* An epoch begins. */
void saturation_reset(struct saturation *saturation);

/* The next run, whose frames follow. */
static inline void saturation_take(struct saturation *saturation)
{
    saturation->next = 0;
}

/* Sets `bits` for frames [first, first + frames), frames ≤ 64. */
void saturation_column(struct saturation *saturation, const struct analysis_run *run,
                       uint64_t first, uint32_t frames);

/* The column has been looked at. */
void saturation_pass(struct saturation *saturation);

/* Frames before `until` are looked at by nothing. */
void saturation_skip(struct saturation *saturation, const struct analysis_run *run, uint64_t until);

void saturation_walk(struct saturation *saturation, struct codec *codec);

#endif
