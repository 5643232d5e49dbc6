/*
 * The peer that the benches compare the engine with: FFTW 3 (single precision, FFTW_MEASURE). Three
 * methods: overlap-add and overlap-save with real-to-complex transforms, and overlap-save with the
 * engine's algorithm, a weighted complex DFT of half the length for negacyclic convolution. All
 * read the same frames from the same ring, filter each channel with its own taps on as many
 * threads, and write the same interleaved floats.
 *
 * De-interleaving and conversion go through 16 × 16 transposes, so that FFTW is not made
 * to wait for strided loads. Without FFTW, peer_open says so.
 *
 * One thread calls; it is one of the `threads` that work.
 */
#ifndef CONVOLVD_BENCH_PEER_H
#define CONVOLVD_BENCH_PEER_H

#include <stdint.h>

#include "convolve/engine.h"

enum peer_method { PEER_OVERLAP_ADD, PEER_OVERLAP_SAVE, PEER_NEGACYCLIC, PEER_METHODS };

const char *peer_name(enum peer_method method);

enum peer_sample { PEER_F32LE, PEER_F32BE, PEER_S16LE, PEER_S16BE };

struct peer_shape {
    const struct ring *ring; /* frames · channels samples; a multiple of hop frames */
    enum peer_sample sample;
    float scale; /* value = sample · scale (s16: code / 32768 · scale) */
    uint32_t channels;
    uint32_t fft; /* N */
    uint32_t hop; /* L = N / 2 */
    uint32_t threads;
    uint32_t blocks_max;
    const float *const *taps; /* [channels][taps_count] */
    uint32_t taps_count;      /* 1…hop + 1 */
};

struct peer;

/* 0, or ERROR_UNSUPPORTED without FFTW, ERROR_MEMORY. */
int peer_open(const struct peer_shape *shape, struct peer **out, struct problem *problem);
void peer_close(struct peer *peer); /* NULL is fine */

/* Blocks of L frames from ring position `position` (a multiple of L, at least L) into
 * output[blocks·L][channels]. Overlap-add keeps its tails from call to call when positions
 * continue. */
void peer_run(struct peer *peer, enum peer_method method, uint64_t position, uint32_t blocks,
              float *output);

#endif
