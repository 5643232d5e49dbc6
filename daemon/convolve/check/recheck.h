/*
 * Computing a block again: one output of one block of a running plan, from a copy of the input it
 * depends on, in double precision and by another algorithm than the device's. The result is the
 * error relative to the bound of the contract.
 *
 *     whoever checks (LOOP)      recheck_hold ─ recheck_inputs ─ copies input and results
 *     a worker                   recheck_block ─ recheck_release
 */
#ifndef CONVOLVD_CONVOLVE_CHECK_RECHECK_H
#define CONVOLVD_CONVOLVE_CHECK_RECHECK_H

#include <stdint.h>

#include "convolve/plan/spec.h"

/* What a plan has to compute; outlives the plan while held. */
struct plan_reference;

/* ANY. */
struct plan_reference *recheck_reference(const struct plan *plan);
void recheck_hold(struct plan_reference *reference);
/* May free it: not on LOOP. NULL is fine. */
void recheck_release(struct plan_reference *reference);

/* The input channels that an output depends on, each once: returns how many (inputs filled up to
 * `capacity`). *place: the output's first float of a frame; *values: how many floats it has. ANY.
 */
uint32_t recheck_inputs(const struct plan_reference *reference, uint32_t output, uint16_t *inputs,
                        uint32_t capacity, uint32_t *place, uint32_t *values);

struct recheck_block {
    struct plan_reference *reference;
    uint32_t output;
    uint64_t before;        /* frames of input before the block, at least S - 1 */
    uint64_t first_frame;   /* of the block, in its epoch */
    const uint8_t *input;   /* [inputs of recheck_inputs][before + L] samples of the wire */
    const uint8_t *present; /* [before + L]: 0: the frame is absent, or lies before the epoch */
    const uint8_t *results; /* [kept frames][values], in the plan's format */
};

/* *error: the block's error, 1 being the bound; infinite where a result is no number. 0 or
 * ERROR_MEMORY. WORKER, one at a time for each reference. */
int recheck_block(const struct recheck_block *block, double *error);

#endif
