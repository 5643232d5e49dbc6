/* The trigger: see trigger.h. */
#include "trigger.h"

static bool crosses(const struct trigger *trigger, float before, float after)
{
    const bool rises = before < trigger->level && after >= trigger->level;
    const bool falls = before > trigger->level && after <= trigger->level;
    return (rises && trigger->slope != SLOPE_FALLING) || (falls && trigger->slope != SLOPE_RISING);
}

static bool find_crossing(const struct trigger *trigger, const struct trace *trace, uint64_t from,
                          uint64_t until, uint64_t *at)
{
    /* The frame before the first belongs to the crossing. */
    if (from <= trace->oldest)
        from = trace->oldest + 1;
    for (uint64_t frame = from; frame < until; frame++) {
        if (trace_causes(trace, frame) != 0 || trace_causes(trace, frame - 1) != 0)
            continue;
        if (crosses(trigger, trace_frame(trace, frame - 1)[trigger->channel],
                    trace_frame(trace, frame)[trigger->channel])) {
            *at = frame;
            return true;
        }
    }
    return false;
}

bool trigger_find(const struct trigger *trigger, const struct trace *trace, uint64_t from,
                  uint64_t until, uint64_t *at)
{
    if (until > trace->next)
        until = trace->next;
    if (trigger->mode == TRIGGER_AUTO || trigger->mode == TRIGGER_LEVEL)
        return find_crossing(trigger, trace, from, until, at);
    const uint64_t frame = trigger->mode == TRIGGER_RECORD ? 0 : trigger->frame;
    if (frame < from || frame >= until || frame < trace->oldest)
        return false;
    *at = frame;
    return true;
}
