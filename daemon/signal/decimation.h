/*
 * Decimation: which frames a stream keeps that computes one output frame of every D, how frame
 * numbers and delays change with the rate, and what a chain of such streams makes of both. Every
 * part of the daemon asks here, so the device, the stream, the sinks and the reports agree to the
 * frame.
 *
 * Frames are numbered from 0 at an epoch's start. The kept frames are n ≡ phase (mod D); output
 * frame m is the kept frame number m, which is input frame m·D + phase. The phase is 0 unless
 * `align = yes` applies a delay: then output frame m carries the number of the input frame it
 * answers, delay frames earlier, and that number is the multiple of D.
 *
 *   input frame    0  1  2  3  4  5  6  7  8  9     D = 3, phase 1
 *   output frame      0        1        2
 *
 * Pure functions, any thread. Every D is at least 1; D = 1 keeps every frame.
 */
#ifndef CONVOLVD_SIGNAL_DECIMATION_H
#define CONVOLVD_SIGNAL_DECIMATION_H

#include <stdbool.h>
#include <stdint.h>

/* The largest D of one stream, and of all streams of a chain multiplied. */
enum { DECIMATE_MAX = 65535 };

struct decimation {
    uint32_t factor; /* D, 1 … DECIMATE_MAX */
    uint32_t phase;  /* 0 … D - 1 */
};

/* What an aligned stream keeps: applied_frames is the delay that its frame numbers apply [frames
 * at the input's rate, ≥ 0; the fraction of a frame is ignored], 0 without `align`. */
struct decimation decimation_aligned(uint32_t factor, double applied_frames);

/* ---- frame numbers ------------------------------------------------------------------------- */

/* The output frame of an input frame that is kept; of any other the next one that is. It is also
 * the number of kept frames before `frame`. */
uint64_t decimation_output(const struct decimation *decimation, uint64_t frame);
/* The input frame that output frame `output` is. The product must fit into 64 bits. */
uint64_t decimation_input(const struct decimation *decimation, uint64_t output);
/* Frames from `frame` to the first one kept at or after it, 0 … D - 1. */
uint32_t decimation_first(const struct decimation *decimation, uint64_t frame);
/* How many of the frames [from, from + frames) are kept. */
uint64_t decimation_kept(const struct decimation *decimation, uint64_t from, uint64_t frames);

/* The most that any run of so many frames keeps: ceil(frames / D). */
uint64_t decimation_kept_most(uint32_t factor, uint64_t frames);
/* The longest run of frames that never keeps more than `kept`: kept · D, at most UINT64_MAX. */
uint64_t decimation_span(uint32_t factor, uint64_t kept);
/* The least multiple of D at or after `frame`, where the timeline of an epoch may begin. */
uint64_t decimation_grid(uint32_t factor, uint64_t frame);

/* ---- rates and delays ---------------------------------------------------------------------- */

/* The output's rate [Hz]. */
double decimation_rate_hz(uint32_t factor, double input_rate_hz);
/* A delay in frames at the output's rate; parts of a frame remain. */
double decimation_delay_frames(uint32_t factor, double input_delay_frames);
/* How many whole output frames an aligned stream takes off its frame numbers for that delay. */
uint64_t decimation_shift(uint32_t factor, double input_delay_frames);

/* The delay that the next stream of a chain inherits, in frames at its input's rate: what this
 * stream's filters and those before it delay, or 0 where `align` has applied it. */
double decimation_inherited_frames(uint32_t factor, double delay_frames, bool aligned);
/* D of a chain: `before` is that of the streams so far (1: none). False, with *total unchanged,
 * when the product exceeds DECIMATE_MAX. */
bool decimation_chain(uint32_t before, uint32_t factor, uint32_t *total);

#endif
