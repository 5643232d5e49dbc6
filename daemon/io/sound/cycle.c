/* Cycle: see cycle.h. */
#include "io/sound/cycle.h"

struct sound_cycle_step sound_cycle_next(struct sound_cycle *cycle, uint32_t start, uint32_t period,
                                         uint32_t frames, int64_t now_ns)
{
    struct sound_cycle_step step = {.begins = !cycle->begun || start != cycle->start};
    if (step.begins) {
        /* JACK 2 counts the last cycle before a change of the period by the new period. */
        const bool grown = period != cycle->period && period > cycle->frames;
        const uint32_t counted = grown ? period : cycle->frames;
        const int32_t lost = (int32_t)(start - cycle->start - counted);
        step.lost = cycle->begun && lost > 0 ? (uint64_t)lost : 0;
        *cycle = (struct sound_cycle){
            .begun = true, .start = start, .period = period, .callback_ns = now_ns};
    }
    cycle->frames += frames;
    step.behind = period > cycle->frames ? period - cycle->frames : 0;
    step.ends = step.behind == 0;
    return step;
}
