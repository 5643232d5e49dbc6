/*
 * Change plans: what a running stream needs to take another filter, gain or mute into use: its
 * edges with the new setting, the plan computed from them, and for a cross-fade whose outputs
 * cannot be mixed as they are (envelopes, integers) two more plans whose outputs can. A sound card
 * that filters by itself gets its filters along with it.
 *
 * change_plans_describe runs on the loop, a job then makes the plans, and the loop either hands
 * them to the stream or drops them, which closes them on a worker.
 */
#ifndef CONVOLVD_CONTROL_CHANGE_PLANS_H
#define CONVOLVD_CONTROL_CHANGE_PLANS_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "config/config.h"
#include "core/error.h"
#include "pipeline/job.h"
#include "pipeline/pipeline.h"

/* What the edges of a stream are made of, besides its configuration. */
struct change_setting {
    int filter;  /* index in the configuration, for every edge; -1: as configured */
    float *gain; /* [output_count], factors */
    bool *muted; /* [output_count] */
};

/* Gain 1, nothing muted, filters as configured. 0 or ERROR_MEMORY. */
int change_setting_open(struct change_setting *setting, uint32_t outputs);
void change_setting_copy(struct change_setting *to, const struct change_setting *from,
                         uint32_t outputs);
void change_setting_close(struct change_setting *setting); /* a zeroed one is fine */

/* One change's plans on their way: a job (job.h), which holds all that it uses. */
struct change_plans {
    struct job job;

    /* described on LOOP, then the job's */
    struct config *config; /* held */
    struct plan_terms terms;
    struct ring_like ring_now;
    bool fade;
    bool direct, direct_only;                  /* a sound card filters by itself; and nobody else */
    struct config_stream stream;               /* with the new edges */
    struct config_stream mixed_new, mixed_old; /* both, with outputs that can be mixed … */
    enum output_form *mixed_forms;             /* … and their forms; NULL: not needed */
    struct config_edge *edges;                 /* of the setting */
    struct config_edge *edges_in_use;          /* before the change */

    /* the job's, then LOOP's */
    int error;
    struct problem problem;
    struct plan *plan, *mixed_new_plan, *mixed_old_plan;
    struct stream_ring *ring; /* a larger one; NULL: the stream's is large enough */
    double delay_frames;
    char *taps_hash;
    struct recipe *recipe; /* of `plan` */
    int direct_filters;    /* a descriptor for pipeline_set_direct_filters; -1: none */
};

/* LOOP. `edges`: those in use; NULL: as configured. The job, which reads files, designs filters and
 * makes the plans, is to be started; NULL: out of memory. */
struct change_plans *change_plans_describe(const struct pipeline *pipeline,
                                           const struct config_edge *edges,
                                           const struct change_setting *setting, bool fade);

/* LOOP. Whether one batch holds a block of the old and the new plan, as a cross-fade needs; else
 * ERROR_LIMIT. */
int change_plans_check_fade(const struct change_plans *plans, const struct pipeline *pipeline,
                            struct problem *problem);

/* LOOP. Of a job never started, or through: closes the plans that have not been taken out of the
 * struct, on a thread of their device, and frees the rest. NULL is fine. */
void change_plans_drop(struct change_plans *plans);

/* LOOP. Closes plans and a ring that nothing uses any more on a thread of their device
 * (pipeline/closing.h), which may be unknown; NULLs are fine. False: out of memory, nothing was
 * closed. */
bool change_plans_retire(const struct engine *engine, struct plan *const plans[3],
                         struct stream_ring *ring);

#endif
