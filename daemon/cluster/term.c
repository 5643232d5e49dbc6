/* A worker's turn at a partition: see term.h. */
#include "cluster/term.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

/* Blocks begin at multiples of the hop, kept frames at multiples of the decimation: a stream that
 * begins at a multiple of both has the blocks and the kept frames of the whole epoch. */
static uint64_t unit(const struct term_plan *plan)
{
    uint64_t a = plan->hop, b = plan->decimate;
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    const uint64_t frames = plan->hop / a * plan->decimate;
    assert(frames > 0);
    return frames;
}

uint64_t term_start(const struct term_plan *plan, uint64_t next)
{
    const uint64_t input = next * plan->decimate, block = input - input % plan->hop;
    const uint64_t start = block > plan->history ? block - plan->history : 0;
    return start - start % unit(plan);
}

uint64_t term_grid(const struct term_plan *plan, uint64_t frame)
{
    const uint64_t grid = unit(plan);
    return (frame + grid - 1) / grid * grid;
}

void term_begin(struct term *t, const struct term_plan *plan, uint64_t epoch, uint64_t next)
{
    assert(plan->hop > 0 && plan->decimate > 0);
    t->plan = *plan;
    t->open = true;
    t->epoch = epoch;
    t->next = next;
    t->epoch_count = t->mark_count = 0;
}

void term_end(struct term *t)
{
    t->open = false;
}

void term_epoch(struct term *t, const struct term_epoch *epoch)
{
    t->epochs[t->epoch_count++ % TERM_EPOCHS] = *epoch;
}

void term_mark(struct term *t, const struct term_mark *mark)
{
    t->marks[t->mark_count++ % TERM_MARKS] = *mark;
}

/* The newest mark at or before the frame from which a successor reads. Where it has fallen out of
 * the list the oldest is taken: a successor that begins too late flags what it cannot compute. */
uint64_t term_sequence(const struct term *t)
{
    const uint64_t start = term_start(&t->plan, t->next);
    const uint32_t kept = t->mark_count < TERM_MARKS ? t->mark_count : TERM_MARKS;
    uint64_t sequence = 0;
    for (uint32_t i = 1; i <= kept; i++) {
        const struct term_mark *mark = &t->marks[(t->mark_count - i) % TERM_MARKS];
        sequence = mark->sequence;
        if (mark->epoch < t->epoch || (mark->epoch == t->epoch && mark->from <= start))
            break;
    }
    return sequence;
}

const struct term_epoch *term_find(const struct term *t, uint64_t local)
{
    const uint32_t kept = t->epoch_count < TERM_EPOCHS ? t->epoch_count : TERM_EPOCHS;
    for (uint32_t i = 1; i <= kept; i++) {
        const struct term_epoch *epoch = &t->epochs[(t->epoch_count - i) % TERM_EPOCHS];
        if (epoch->local == local)
            return epoch;
    }
    return NULL;
}

struct term_cut term_cut(const struct term *t, uint64_t local, uint64_t first, uint32_t frames)
{
    struct term_cut cut = {.part = TERM_FOREIGN};
    const struct term_epoch *epoch = t->open ? term_find(t, local) : NULL;
    if (epoch == NULL)
        return cut;
    const uint64_t shift = epoch->start / t->plan.decimate;
    const uint64_t known = epoch->epoch == t->epoch  ? t->next
                           : epoch->epoch < t->epoch ? UINT64_MAX
                                                     : 0;
    cut.epoch = epoch->epoch;
    cut.first = first + shift;
    cut.next = cut.first + frames;
    cut.part = cut.next > known ? TERM_NEW : TERM_SEEN;
    if (cut.part == TERM_SEEN)
        return cut;
    cut.from = known;
    if (known > cut.first) {
        cut.skip = (uint32_t)(known - cut.first);
        cut.first = known;
    }
    cut.begins = known == 0;
    cut.input_next = cut.next * t->plan.decimate;
    cut.timeline = epoch->timeline / t->plan.decimate + cut.first;
    cut.sender = epoch->sender;
    return cut;
}

void term_take(struct term *t, const struct term_cut *cut)
{
    t->epoch = cut->epoch;
    t->next = cut->next;
}
