/*
 * What a caller asks of a plan, and what it gets: the public types of plans. A plan computes one
 * stream on one device: blocks of L frames of every input channel, filtered along a list of edges
 * (input, taps, gain, output) into output frames.
 *
 * Plain data, any thread. convolve/check/prepare.h makes a plan of a specification.
 */
#ifndef CONVOLVD_CONVOLVE_PLAN_SPEC_H
#define CONVOLVD_CONVOLVE_PLAN_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "filter/taps.h"
#include "signal/decimation.h"
#include "wire/format.h"

struct plan;

enum {
    FFT_MIN = 64,
    FFT_MAX = 1 << 21, /* so that 2^20 taps fit one transform */
    HOP_MAX = 1 << 19,
    BLOCKS_MAX = 4096,
    CHANNELS_MAX = 1024,
    ROWS_MOST = 2, /* of channels that one group computes */
};

enum output_form {
    OUTPUT_REAL,     /* one float a frame: the real part */
    OUTPUT_COMPLEX,  /* two floats a frame: re, im */
    OUTPUT_ENVELOPE, /* one float a frame: magnitude, taken after all sums */
};

/* input channel → taps → gain → output. A plan's edges may repeat inputs (bank) and outputs
 * (matrix). */
struct edge {
    uint16_t input;  /* < inputs */
    uint16_t output; /* < outputs */
    uint16_t taps;   /* < taps_count */
    float gain;
};

struct plan_spec {
    uint32_t inputs; /* channels of the ring's frame, 1…CHANNELS_MAX */
    struct sample_format format;
    const struct channel_scale *scales; /* [inputs] */
    const struct taps *const *taps;     /* [taps_count], any lengths; copied as spectra, not kept */
    uint32_t taps_count;
    const struct edge *edges; /* [edge_count] */
    uint32_t edge_count;
    const enum output_form *outputs; /* [outputs_count]: floats of an output frame, in this order */
    uint32_t outputs_count;
    struct result_format results; /* asked for; plan_info says what the plan gives */
    uint32_t hop;                 /* L, frames of a block, 1…HOP_MAX */
    /* Of an epoch's frames only n ≡ decimate_phase (mod decimate) are computed and written, see
     * batch_item.samples. D is 1…DECIMATE_MAX, 0 means 1; the phase is 0…D-1. */
    uint32_t decimate, decimate_phase;
    uint32_t blocks_max; /* largest J an item will ask for, 1…BLOCKS_MAX */
    uint32_t fft;        /* N (real points, power of two, FFT_MIN…FFT_MAX); 0: chosen by rule */
    const char *variant; /* NULL: by wisdom, else by rule; else its name */
    uint32_t items;      /* work-items of a group, a power of two; 0: the variant's own */
    uint32_t vector; /* "lanes": lanes of a vector, 16, 8 or 4; 0: as wide as the device's own */
    /* "lanes": rows of channels that a group computes, up to ROWS_MOST where their number allows;
     * 0: as measured, else one. Changes no result. */
    uint32_t rows;
    /* For choosing only: */
    double rate_hz;     /* frames a second, 0: unknown */
    int64_t latency_ns; /* most time from a block's first frame to its result; 0: any */
    bool hop_free;      /* `hop` is a suggestion: wisdom may replace it */
};

/* How a plan came to be. */
enum plan_choice {
    PLAN_BY_RULE,   /* the first of the table that can */
    PLAN_BY_NAME,   /* variant or N were asked for */
    PLAN_BY_WISDOM, /* measured before, see check/tune.h */
};

struct plan_info {
    const char *variant;
    uint32_t hop, fft, partitions;
    uint32_t vector; /* lanes of a vector where the variant has a choice; 0: it has none */
    uint32_t items;  /* work-items of a group */
    uint32_t rows;   /* rows of channels that a group computes; 0: the variant has no choice */
    uint32_t decimate, decimate_phase; /* as asked for, at least 1 */
    uint32_t taps_longest;             /* S: the longest of the edges' taps */
    double input_limit;      /* samples beyond it count as not finite, see input_limit.h */
    uint32_t history_frames; /* frames before a block that its result needs: the ring must hold them
                                (≥ S-1) */
    uint32_t inputs, outputs, output_floats; /* floats of an output frame */
    /* As asked for, to the bit what sample_encode_block makes of the floats; or all zero: the
     * variant, or a device without double, leaves the encoding to whoever wants it. */
    struct result_format results;
    uint32_t sample_bytes; /* of a sample of an output frame: 4, or as `results` say */
    enum plan_choice choice;
    bool on_host;           /* computed by the device thread, from the ring in the host's memory */
    double self_test_error; /* ||e||2 / bound's reference, from the self-test */
    /* The most bytes that a work-item keeps in memory for want of registers, of the kernels that
     * compute every block (not of those for rare ones); SPILL_UNKNOWN: the compiler does not tell
     */
    int32_t spilled_bytes;
};

/* ANY. */
const struct plan_info *plan_info(const struct plan *plan);

/* Expected device time of an item of `blocks` blocks [ns], learnt from the self-test and smoothed
 * over completed batches. ANY, lock-free. */
int64_t plan_cost_ns(const struct plan *plan, uint32_t blocks);

/* WORKER; no batch may use it; NULL is fine. */
void plan_close(struct plan *plan);

#endif
