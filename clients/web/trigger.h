/*
 * The trigger: finds the frame at which a scope's picture is aligned.
 *
 * Level: the channel crosses the level with the slope asked for, from one valid frame to the next
 * one: rising x[n-1] < level ≤ x[n], falling x[n-1] > level ≥ x[n]. Record: the first frame of the
 * epoch. External: the frame with the number given. Auto: level.
 *
 * Pure functions.
 */
#ifndef CONVOLV_WEB_TRIGGER_H
#define CONVOLV_WEB_TRIGGER_H

#include "trace.h"
#include "want.h"

struct trigger {
    enum trigger_mode mode;
    enum trigger_slope slope;
    float level;
    uint32_t channel; /* of the trace */
    uint64_t frame;   /* external */
};

/* The first frame that triggers, from `from` on and below `until`; both may lie outside of the
 * trace. False: none does. */
bool trigger_find(const struct trigger *trigger, const struct trace *trace, uint64_t from,
                  uint64_t until, uint64_t *at);

#endif
