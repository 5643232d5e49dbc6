/*
 * What the benches of the engine share: its doorbell, and the work of nearly all rows, a filter of
 * its own for every channel ("diagonal": channel c through filter c to output c) over a ring full
 * of noise, checked against the definition in double.
 *
 * One thread, which plays the loop.
 */
#ifndef CONVOLVD_BENCH_DIAGONAL_H
#define CONVOLVD_BENCH_DIAGONAL_H

#include <stdint.h>

#include "convolve/engine.h"
#include "core/doorbell.h"
#include "core/random.h"

/* ---- the doorbell of the engine (core/doorbell.h) ------------------------------------------ */

void ring_bell(void *bell); /* struct engine_options.wake; its context is the int */
/* The next completed batch; NULL when the device was silent for two minutes. */
struct batch *wait_for_batch(int bell, struct engine *engine);

/* ---- a filter for every channel ------------------------------------------------------------ */

/* Plans `spec`, of which format, hop, blocks and the like are given, with a filter for each
 * channel. */
int diagonal_plan(struct engine *engine, const struct plan_spec *spec, struct taps *const *taps,
                  uint32_t channels, struct plan **plan, struct problem *problem);

enum { DIAGONAL_CHANNELS_MOST = 64 };

/* Interleaved floats in and out. */
struct diagonal {
    uint32_t channels, taps_count, hop, blocks; /* asked for: taps of a filter, blocks of a batch */
    uint32_t ring_blocks;                       /* that the ring holds beside the history */
    const char *variant;                        /* NULL: the engine's own choice */
    bool tuned; /* of vectors and rows of "lanes" with N = 2 hop the best is measured first */
    struct taps *taps[DIAGONAL_CHANNELS_MOST];
    struct plan *plan;
    struct ring *ring; /* full of noise */
};

int diagonal_open(struct engine *engine, struct diagonal *diagonal, struct random_state *noise,
                  struct problem *problem);
/* ||e|| / ||y|| of what was computed for an item, at random frames. */
double diagonal_error(const struct diagonal *diagonal, const struct batch_item *item,
                      struct random_state *noise);
void diagonal_close(struct engine *engine, struct diagonal *diagonal); /* half open is fine */

#endif
