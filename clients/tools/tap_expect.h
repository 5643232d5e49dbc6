/*
 * Expectation: the output frames that ought to come, and how far those that came are from them.
 * Frame n of the file is output frame n of one epoch: frame numbers decide, nothing is aligned,
 * scaled or searched.
 *
 * The bound, e = got - want over the frames compared:
 *     ||e||_2 <= 1e-6 max(||want||_2, input_norm) + half an LSB (rms) of an integer wire format
 *     max|e|  <= 5e-6 max(max|want|, input_peak) + half an LSB
 *
 * One owner.
 */
#ifndef CONVOLV_TOOLS_TAP_EXPECT_H
#define CONVOLV_TOOLS_TAP_EXPECT_H

#include <stdbool.h>
#include <stdint.h>

#include "convolv.h"
#include "core/error.h"

struct expect_options {
    const char *path;  /* .npy (float64, float32) or a recording */
    uint32_t channels; /* of the stream: the file's must agree */
    uint64_t epoch;
    bool skip_invalid; /* flagged frames are not compared */
    double input_norm; /* max|H| ||x||_2, 0: the output alone sets the bound */
    double input_peak; /* max|H| max|x| */
    double lsb;        /* of an integer wire format in physical units, 0: float */
};

struct expect_verdict {
    uint64_t frames; /* of the file */
    uint64_t compared, skipped;
    uint64_t beyond;  /* received after the file's last frame */
    uint64_t missing; /* of the file, up to `until`, never received */
    double e2, e_max, limit2, limit_max;
    uint64_t worst_frame; /* of e_max */
    uint32_t worst_channel;
    bool within; /* the bound holds and something was compared */
};

struct expect;

int expect_open(const struct expect_options *options, struct expect **out, struct problem *problem);
void expect_close(struct expect *expect); /* NULL is fine */
void expect_put(struct expect *expect, const struct convolv_block *block);

/* Frames up to `until` ought to have come; UINT64_MAX: the whole file; 0: as far as any came. */
struct expect_verdict expect_judge(const struct expect *expect, uint64_t until);

#endif
