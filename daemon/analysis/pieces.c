/* Pieces of runs: see pieces.h. */
#include "analysis/pieces.h"

#include <stddef.h>

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

bool piece_next(const struct analysis_run *run, uint64_t at, uint64_t limit, struct piece *piece)
{
    const uint64_t end = earlier(run->first_frame + run->frames, limit);
    if (at >= end)
        return false;
    *piece = (struct piece){.from = at, .until = end, .live = run->samples != NULL};
    uint64_t dead_until = run->samples != NULL ? at : end;
    uint64_t next = end; /* where the next range begins */
    for (uint32_t i = 0; i < run->invalid_count; i++) {
        const struct invalid_range *range = &run->invalid[i];
        if (range->until <= at)
            continue;
        if (range->from > dead_until) {
            next = earlier(range->from, end);
            break;
        }
        if (range->until > dead_until)
            dead_until = range->until;
    }
    if (dead_until == at) {
        piece->until = next;
        return true;
    }
    piece->live = false;
    piece->until = earlier(dead_until, end);
    for (uint32_t i = 0; i < run->invalid_count && run->invalid[i].from < piece->until; i++)
        if (run->invalid[i].until > at)
            piece->causes |= 1u << run->invalid[i].cause;
    return true;
}
