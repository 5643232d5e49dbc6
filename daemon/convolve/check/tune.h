/*
 * Choosing by measurement. plan_tune prepares every plan that could do a shape, times them against
 * each other on this device and remembers the outcome as wisdom, which plan_prepare follows from
 * then on. plan_explain says what each variant could do and why not.
 *
 * WORKER threads. While plan_tune runs, the engine must compute nothing else.
 */
#ifndef CONVOLVD_CONVOLVE_CHECK_TUNE_H
#define CONVOLVD_CONVOLVE_CHECK_TUNE_H

#include "convolve/engine.h"
#include "convolve/plan/spec.h"
#include "convolve/plan/wisdom.h"

/* Called before each measurement with what is measured now. */
typedef void tune_progress(void *context, uint32_t done, uint32_t total,
                           const struct candidate *candidate);

/*
 * Measures and remembers. Candidates are every variant of the table (or the one that spec->variant
 * names), the N that suit it, on GPUs several sizes of work-groups, and, when spec->hop_free,
 * several blocks under spec->latency_ns. Each must pass the self-test, keep up with rate_hz (half
 * the time of a block, in full batches) and meet the latency: block + its time alone. Among them
 * the one with the least time per frame is chosen, the geometric mean of a block alone and one in a
 * full batch; kernels that spill registers (spill_harms) count as a twentieth slower. The best ones
 * are timed again in turns, medians count.
 *
 * *out stays good until the next plan_tune. ERROR_UNSUPPORTED when nothing can do the plan.
 */
int plan_tune(struct engine *engine, const struct plan_spec *spec, tune_progress *progress,
              void *context, const struct wisdom_entry **out, struct problem *problem);

/* What is remembered for the spec; NULL: nothing. */
const struct wisdom_entry *plan_wisdom(struct engine *engine, const struct plan_spec *spec);

enum { PLAN_WAY = WISDOM_NAME + 24 };

/* "lanes/16", "fused/256": the variant with the width of its vectors or the size of its
 * work-groups, where they are a choice (not 0). Returns `text`. */
const char *plan_way(char text[PLAN_WAY], const char *variant, uint32_t items, uint32_t vector,
                     uint32_t rows);

/* Every variant as the rule sees it: N and partitions, or in `reason` why it is not for this plan.
 * Returns how many there are (at most `capacity` are filled). Measures nothing. */
uint32_t plan_explain(struct engine *engine, const struct plan_spec *spec,
                      struct candidate *candidates, uint32_t capacity);

#endif
