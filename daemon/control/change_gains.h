/*
 * The gains and mutes that control has set on a running stream, as its results carry them and
 * status shows them, with who asked for them. Results in flight carry at most those in force and,
 * until its exchange is through, those of one change: two sets take turns.
 *
 * Loop thread; allocates in open.
 */
#ifndef CONVOLVD_CONTROL_CHANGE_GAINS_H
#define CONVOLVD_CONTROL_CHANGE_GAINS_H

#include <stdint.h>

#include "control/change_plans.h"
#include "pipeline/pipeline.h"

struct change_gains {
    struct {
        struct result_gains gains;
        float *factors; /* [outputs] */
        bool *muted;
        char who[EVENT_WHO_BYTES];
    } sets[2];
    uint32_t outputs, changes;
    /* before the change taken last */
    uint32_t changes_before;
    struct pipeline_gains before;
};

/* 0 or ERROR_MEMORY; close either way. */
int change_gains_open(struct change_gains *gains, uint32_t outputs);
void change_gains_close(struct change_gains *gains); /* a zeroed one is fine */

/* The gains of a change to this setting, which `who` asked for; it may still fail. */
const struct result_gains *change_gains_next(struct change_gains *gains,
                                             const struct change_setting *setting, const char *who);

/* The change is in use from this output frame on; `next` is NULL when it leaves the gains. */
void change_gains_take(struct change_gains *gains, struct pipeline *pipeline,
                       const struct result_gains *next, uint64_t frame);

/* The change taken last was cancelled. */
void change_gains_take_back(struct change_gains *gains, struct pipeline *pipeline);

#endif
