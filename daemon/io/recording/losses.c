/* Losses: see losses.h. */
#include "io/recording/losses.h"

#include "io/sink.h"

void losses_add(struct losses *losses, uint64_t epoch, uint64_t from, uint64_t until,
                const char *cause)
{
    if (from < until)
        sidecar_lose(&losses->list, &(struct sidecar_missing){epoch, from, until, cause});
}

static void see(struct losses *losses, uint64_t epoch, uint64_t until)
{
    losses->seen = true;
    losses->seen_epoch = epoch;
    losses->seen_until = until;
}

void losses_never_come(struct losses *losses, const struct sidecar_missing *missing)
{
    losses_add(losses, missing->epoch, missing->from, missing->until, missing->cause);
    if (!losses->seen || losses->seen_epoch != missing->epoch ||
        losses->seen_until < missing->until)
        see(losses, missing->epoch, missing->until);
}

/* Frames between the last that came and the result that none of its ranges covers. */
static void add_uncovered(struct losses *losses, const struct result *result)
{
    uint64_t at = losses->seen_until;
    while (at < result->first_frame) {
        uint64_t until = result->first_frame; /* of the frames from `at` on that no range covers */
        uint64_t covered = at;
        for (uint32_t i = 0; i < result->invalid_count; i++) {
            const struct invalid_range *range = &result->invalid[i];
            if (range->cause == INVALID_UNCERTAIN)
                continue; /* it was delivered */
            if (range->from <= at && range->until > covered)
                covered = range->until;
            else if (range->from > at && range->from < until)
                until = range->from;
        }
        if (covered == at)
            losses_add(losses, result->epoch, at, until, drop_name(DROP_QUEUE));
        at = covered > at ? covered : until;
    }
}

void losses_result(struct losses *losses, const struct result *result)
{
    for (uint32_t i = 0; i < result->invalid_count; i++) {
        const struct invalid_range *range = &result->invalid[i];
        if (range->until <= result->first_frame && range->cause != INVALID_UNCERTAIN)
            losses_add(losses, result->epoch, range->from, range->until,
                       invalid_cause_name(range->cause));
    }
    if (losses->seen && losses->seen_epoch == result->epoch)
        add_uncovered(losses, result);
    see(losses, result->epoch, result->first_frame + result->frames);
}

/* Those of one epoch, or all of them. */
static bool move(struct losses *losses, bool all, uint64_t epoch, struct sidecar_losses *to)
{
    const uint32_t count = losses->list.count;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct sidecar_missing missing = losses->list.ranges[i];
        if (all || missing.epoch == epoch)
            sidecar_lose(to, &missing);
        else
            losses->list.ranges[kept++] = missing;
    }
    losses->list.count = kept;
    return kept < count;
}

bool losses_move(struct losses *losses, struct sidecar_losses *to)
{
    return move(losses, true, 0, to);
}

bool losses_move_epoch(struct losses *losses, uint64_t epoch, struct sidecar_losses *to)
{
    return move(losses, false, epoch, to);
}
