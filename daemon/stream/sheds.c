/* Sheds: see sheds.h. */
#include "stream/sheds.h"

#include <stdbool.h>
#include <string.h>

static bool comes_before(const struct shed_run *a, const struct shed_run *b)
{
    return a->epoch != b->epoch ? a->epoch < b->epoch : a->range.from < b->range.from;
}

static void remove_at(struct sheds *sheds, uint32_t index)
{
    sheds->count--;
    memmove(&sheds->runs[index], &sheds->runs[index + 1],
            (sheds->count - index) * sizeof sheds->runs[0]);
}

/* Joins run `index` with the next one, which is of the same epoch. */
static void join_next(struct sheds *sheds, uint32_t index)
{
    struct invalid_range *into = &sheds->runs[index].range;
    const struct invalid_range *next = &sheds->runs[index + 1].range;
    into->until = next->until;
    if (next->cause != into->cause)
        into->cause = INVALID_UPSTREAM;
    remove_at(sheds, index + 1);
}

static bool touch(const struct shed_run *run, const struct shed_run *next)
{
    return run->epoch == next->epoch && run->range.cause == next->range.cause &&
           run->range.until == next->range.from;
}

/* Makes room by joining two neighbours of one epoch: those with the least distance, of one cause
 * where the distance is the same. */
static void join_closest(struct sheds *sheds)
{
    uint32_t best = 0;
    uint64_t best_cost = UINT64_MAX;
    for (uint32_t i = 0; i + 1 < sheds->count; i++) {
        const struct shed_run *run = &sheds->runs[i], *next = &sheds->runs[i + 1];
        if (run->epoch != next->epoch)
            continue;
        uint64_t cost =
            2 * (next->range.from - run->range.until) + (next->range.cause != run->range.cause);
        if (cost < best_cost) {
            best_cost = cost;
            best = i;
        }
    }
    join_next(sheds, best);
}

void sheds_add(struct sheds *sheds, uint64_t epoch, struct invalid_range range)
{
    if (range.from >= range.until)
        return;
    if (sheds->count == SHEDS_MAX)
        join_closest(sheds);
    const struct shed_run run = {epoch, range};
    uint32_t at = sheds->count;
    while (at > 0 && comes_before(&run, &sheds->runs[at - 1]))
        at--;
    /* A run joined for want of room may reach over this one already. */
    if (at > 0 && sheds->runs[at - 1].epoch == epoch &&
        sheds->runs[at - 1].range.until >= range.until)
        return;
    memmove(&sheds->runs[at + 1], &sheds->runs[at], (sheds->count - at) * sizeof sheds->runs[0]);
    sheds->runs[at] = run;
    sheds->count++;
    if (at + 1 < sheds->count && touch(&sheds->runs[at], &sheds->runs[at + 1]))
        join_next(sheds, at);
    if (at > 0 && touch(&sheds->runs[at - 1], &sheds->runs[at]))
        join_next(sheds, at - 1);
}

uint32_t sheds_take(struct sheds *sheds, uint64_t epoch, uint64_t until, struct invalid_range *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sheds->count;) {
        if (sheds->runs[i].epoch == epoch && sheds->runs[i].range.until <= until) {
            out[count++] = sheds->runs[i].range;
            remove_at(sheds, i);
        } else {
            i++;
        }
    }
    return count;
}
