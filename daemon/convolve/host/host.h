/*
 * Convolution on the CPU without OpenCL: the right-angle overlap-save of the engine in native
 * vectors, a channel in each lane. For work so small that a launch would cost more than the
 * work, and for an audio callback that has to answer within its own period.
 *
 *     in [frames][inputs] ──► forward ──► delay line of spectra ──► Σ × partitions ──► inverse
 *                                                                        │
 *     out [frames][output_floats] ◄──────────────────────────────────────┘
 *
 * A convolver is one object for one thread at a time. It adds no frame: output frame n of a call
 * answers input up to frame n of the same call. Filters of any length are cut into partitions of
 * one block (uniform, a frequency-domain delay line).
 *
 * Create, measure and destroy on a WORKER (they allocate and take their time). Execute, reset and
 * what only reads may run in an AUDIO CALLBACK: no allocation, lock, system call, log or branch on
 * the samples' values; the time of a call depends on its frames alone, denormal numbers included.
 */
#ifndef CONVOLVD_CONVOLVE_HOST_HOST_H
#define CONVOLVD_CONVOLVE_HOST_HOST_H

#include <stdint.h>

#include "convolve/engine.h"
#include "core/error.h"
#include "filter/taps.h"

enum { HOST_BLOCK_MAX = 1 << 16 };

struct host_convolver;

/* Fields that a plan_spec has too mean the same. Nothing is kept: all is copied as spectra. */
struct host_convolver_spec {
    uint32_t inputs;                /* channels of an input frame, 1…1024 */
    const struct taps *const *taps; /* [taps_count] */
    uint32_t taps_count;
    const struct edge *edges; /* [edge_count]: banks and matrices too */
    uint32_t edge_count;
    const enum output_form *outputs; /* [outputs_count]: floats of an output frame, in this order */
    uint32_t outputs_count;          /* 1…1024; an output without an edge is silent */
    uint32_t block_frames;           /* the usual frames of a call, 1…HOST_BLOCK_MAX */
    const char *isa;                 /* NULL: the widest of this CPU; else a host_isa_name */
};

struct host_convolver_info {
    const char *isa; /* "avx512", "avx2" … */
    uint32_t lanes;  /* channels of a vector */
    uint32_t block_frames;
    uint32_t fft;                   /* N, frames of a window */
    uint32_t partitions;            /* of the longest filter */
    uint32_t inputs, output_floats; /* floats of an input and of an output frame */
    uint64_t memory_bytes;          /* spectra, delay lines and scratch */
};

/* What calls of block_frames took on this machine, on one thread. */
struct host_convolver_times {
    int64_t median_ns,
        worst_ns;       /* of the processor's time: without what it did for others meanwhile */
    int64_t longest_ns; /* by the clock: with it, as a thread without priority meets it */
    uint32_t calls;
};

/* 0, ERROR_ARGUMENT (with what to change), ERROR_UNSUPPORTED (isa) or ERROR_MEMORY. The first
 * output frame belongs to the first input frame; before it was silence. */
int host_convolver_create(const struct host_convolver_spec *spec, struct host_convolver **out,
                          struct problem *problem);
void host_convolver_destroy(struct host_convolver *convolver); /* NULL is fine */

/* Silence before the next frame. */
void host_convolver_reset(struct host_convolver *convolver);

/*
 * `frames` more frames, any number: in[frames][inputs], out[frames][output_floats]; they must not
 * overlap. Calls of block_frames, from the first on, are the cheap ones: a call that ends inside a
 * block computes this block again in the next. Samples that are not finite count as 0, see
 * host_convolver_nonfinite. The result of a frame is the linear convolution within the design's
 * error bound, and the same to the bit for the same sequence of calls.
 */
void host_convolver_execute(struct host_convolver *convolver, const float *in, float *out,
                            uint32_t frames);

/* Samples so far that were NaN or infinite. */
uint64_t host_convolver_nonfinite(const struct host_convolver *convolver);

const struct host_convolver_info *host_convolver_info(const struct host_convolver *convolver);

/*
 * Measures calls of block_frames with noise: two thirds of them one after another, one third with
 * the caches taken by other work before each, as between the periods of a sound card. At least 64
 * calls and until half a second is over (4096 calls at most). WORKER, before the convolver is in
 * use; ends with a reset. Run it at the priority that the callback will have.
 */
void host_convolver_measure(struct host_convolver *convolver, struct host_convolver_times *times);

/* The instruction sets that were built in and that this CPU has, widest first; NULL past the end.
 */
const char *host_isa_name(int index);

#endif
