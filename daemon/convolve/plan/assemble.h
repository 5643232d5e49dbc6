/*
 * Making plans: a specification and a layout become memory and, by the variant's own functions,
 * spectra, stages and the templates of the rows that each item fills in.
 *
 * Worker threads holding planner.workers, unless said otherwise.
 */
#ifndef CONVOLVD_CONVOLVE_PLAN_ASSEMBLE_H
#define CONVOLVD_CONVOLVE_PLAN_ASSEMBLE_H

#include "convolve/plan/build.h"

/* A plan that is not yet tested, in the planner's list of plans. On error nothing remains. */
int plan_build(struct planner *planner, const struct plan_spec *spec, const struct layout *layout,
               struct plan **out, struct problem *problem);
/* What plan_close does without the mutex. */
void plan_discard(struct plan *plan);
/* Its owner is through with it, but the device may still use it: it stays. ANY. */
void plan_leave(struct plan *plan);
/* Frees the plans that were left, and the list. */
void plans_free_left(struct planner *planner);

/* Whether the planner's list of plans is full. */
bool plans_full(const struct planner *planner);

/*
 * For a variant's `fill`: adds a stage with room for `capacity` rows and the kernel `function` of
 * `file`, built with LANES and ITEMS of the device, GLOBAL_SCRATCH where the layout says so, and
 * `options` ("-D X=1 …", NULL: none); file NULL: the caller sets `run`. `items` is the layout's,
 * group_blocks and block_groups are 1, local_bytes what the layout's planes need; the caller may
 * change them
 * ("-D ITEMS=n" and "-D LANES=n" among its options replace the device's). Stages added before stay
 * where they are.
 */
int plan_stage(struct build *build, const char *file, const char *function, const char *options,
               uint32_t capacity, struct stage **out, struct problem *problem);
/* The stage's second program (stage.rare). */
int plan_stage_rare(struct build *build, struct stage *stage, const char *file,
                    const char *function, const char *options, struct problem *problem);

#endif
