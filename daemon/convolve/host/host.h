/*
 * A convolver that runs on the CPU without OpenCL: overlap-save with the engine's FFT
 * (kernels/fft.clh) in native vectors, one channel a lane. It serves batches so small that an
 * OpenCL launch would take longer than the work, and audio callbacks, which must answer within
 * their own period.
 *
 *     in [frames][inputs] ──► forward ──► delay line of spectra ──► Σ × partitions ──► inverse
 *                                                                        │
 *     out [frames][output_floats] ◄──────────────────────────────────────┘
 *
 * A convolver serves one thread at a time. It adds no delay: output frame n of a call depends on
 * input up to frame n of the same call. Filters longer than a block are cut into partitions of one
 * block, whose spectra are multiplied with a delay line of input spectra, for several blocks at
 * once where that reads less memory (host/ahead.h).
 *
 * Create, measure and destroy on a worker thread: they allocate. Execute, reset and the accessors
 * may run in an audio callback: they do not allocate, lock, log, call the system or branch on
 * sample values, so the time of a call depends on its number of frames alone, denormal numbers
 * included.
 */
#ifndef CONVOLVD_CONVOLVE_HOST_HOST_H
#define CONVOLVD_CONVOLVE_HOST_HOST_H

#include <stdint.h>

#include "convolve/plan/spec.h"
#include "core/error.h"
#include "filter/taps.h"

enum { HOST_BLOCK_MAX = 1 << 16 };

struct host_convolver;

/* Fields named as in struct plan_spec mean the same. The convolver copies what it needs. */
struct host_convolver_spec {
    uint32_t inputs;                /* channels of an input frame, 1…1024 */
    const struct taps *const *taps; /* [taps_count] */
    uint32_t taps_count;
    const struct edge *edges; /* [edge_count]: banks and matrices too */
    uint32_t edge_count;
    const enum output_form *outputs; /* [outputs_count]: floats of an output frame, in this order */
    uint32_t outputs_count;          /* 1…1024; an output without an edge is silent */
    uint32_t block_frames;           /* B, the usual frames of a call, 1…HOST_BLOCK_MAX */
    const char *isa;                 /* NULL: the widest of this CPU; else a host_isa_name */
    /* R, blocks whose sums over partitions are computed at once: 0: chosen by counting bytes; else,
     * to test and to compare, a power of two up to 32, less where the FFT is short. */
    uint32_t ahead_blocks;
};

struct host_convolver_info {
    const char *isa; /* "avx512", "avx2" … */
    uint32_t lanes;  /* channels of a vector */
    uint32_t block_frames;
    uint32_t fft;                   /* N, frames of a window */
    uint32_t partitions;            /* of the longest filter */
    uint32_t ahead_blocks;          /* R, blocks whose sums are computed at once; 1: each its own */
    uint32_t inputs, output_floats; /* floats of an input and of an output frame */
    uint64_t memory_bytes;          /* spectra, delay lines and scratch */
};

/* What calls of block_frames took on this machine, on one thread. */
struct host_convolver_times {
    int64_t median_ns, worst_ns; /* processor time of this thread */
    int64_t longest_ns; /* wall-clock time, other threads' share of the processor included */
    uint32_t calls;
};

/* 0, ERROR_ARGUMENT (the problem says what to change), ERROR_UNSUPPORTED (isa) or ERROR_MEMORY. The
 * input before the first frame counts as zero. */
int host_convolver_create(const struct host_convolver_spec *spec, struct host_convolver **out,
                          struct problem *problem);
void host_convolver_destroy(struct host_convolver *convolver); /* NULL is fine */

/* Forgets all input: what precedes the next frame counts as zero. */
void host_convolver_reset(struct host_convolver *convolver);

/*
 * Convolves `frames` more frames, any number: in[frames][inputs], out[frames][output_floats]; the
 * two must not overlap. Calls of exactly block_frames are cheapest: after a call that ends inside a
 * block, the next call computes that block again. Samples that are not finite, or beyond the limit
 * of plan/input_limit.h, count as 0 (see host_convolver_nonfinite). The result is the linear
 * convolution within the error bound of docs/engine.md, and the same to the bit for the same
 * sequence of calls.
 */
void host_convolver_execute(struct host_convolver *convolver, const float *in, float *out,
                            uint32_t frames);

/* The number of samples so far that were NaN, infinite or beyond the limit. */
uint64_t host_convolver_nonfinite(const struct host_convolver *convolver);

const struct host_convolver_info *host_convolver_info(const struct host_convolver *convolver);

/*
 * Times calls of block_frames with noise. Before every third call it overwrites the caches, as
 * other work does between two periods of a sound card. Takes at least 64 and at most 4096 calls,
 * for half a second. Worker thread, before the convolver is in use; ends with a reset. Run it at
 * the priority that the callback will have.
 */
void host_convolver_measure(struct host_convolver *convolver, struct host_convolver_times *times);

/* The index-th instruction set built in that this CPU has, widest first; NULL past the end. */
const char *host_isa_name(int index);

#endif
