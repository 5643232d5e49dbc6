/*
 * Budget: how long the device, or the loop with reading, may be busy with one stream while others
 * wait. Kernels are not preempted, so a block that comes meanwhile waits for all that the device
 * has begun and for what is queued behind that. What a stream may put there is therefore
 *
 *   - half the shortest block period of the other live streams, in batches of which `depth` fit. A
 *     stream whose oldest block is overdue waits for its own backlog anyway, so for this its period
 *     counts as longer by as much: where all fall behind, batches grow with the backlog, which
 *     costs fewer launches a block, and where one is in time they stay short for it;
 *   - in overload, for streams that fall behind, a sixteenth of the shortest block period of the
 *     live streams of higher priority, in one batch. A block of those waits for one such batch, and
 *     may have to share its own with blocks that take as long: an eighth of its period at most;
 *   - `alone_ns` a batch where there is no other live stream.
 *
 * Nothing is gained by batches whose launch takes longer than their blocks: a stream that could not
 * put more there would fall behind on a device that is idle most of the time. So a batch may always
 * take 200 us and twice its launch, and a second such batch may wait behind it, so that the device
 * does not wait for the loop. Only below streams of higher priority it is 200 us and no second one.
 *
 * A block that takes longer goes to an idle device. Where live streams of higher priority could
 * need it meanwhile, the block goes in parts of one batch's budget, and theirs overtake it.
 *
 * Pure figures: no clock, no stream, no device. LOOP; nothing here allocates.
 */
#ifndef CONVOLVD_STREAM_BUDGET_H
#define CONVOLVD_STREAM_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "core/limits.h"

/* The shortest block period of a set of streams and whose it is, and the shortest of all others. */
struct budget_shortest {
    int64_t first_ns, second_ns;
    uint32_t owner;
};

/* The live streams of one scheduler. */
struct budget_streams {
    struct budget_shortest all;
    struct budget_shortest waiting;      /* of the periods and what is overdue */
    int64_t above_ns[PRIORITY_MOST + 2]; /* the shortest of a priority, or of higher ones */
};

struct budget {
    int64_t batch_ns; /* one batch at most, and … */
    int64_t total_ns; /* … with what the device already has */
};

/* Fills `streams` with none. */
void budget_begin(struct budget_streams *streams);
/* A live stream; `owner` is the caller's. `overdue_ns` >= 0: by which its oldest block is late. */
void budget_add(struct budget_streams *streams, uint32_t owner, uint8_t priority, int64_t period_ns,
                int64_t overdue_ns);
/* All have been added. */
void budget_end(struct budget_streams *streams);

/* Whether there is a stream of higher priority than this. */
bool budget_is_above(const struct budget_streams *streams, uint8_t priority);

/* Whose budget. */
struct budget_request {
    uint32_t owner;
    uint8_t priority;
    bool behind;       /* it falls behind while others are kept in time, or is ahead of its rate
                        * (overload.h) */
    int64_t launch_ns; /* what a batch of it takes beside its blocks */
};

/* How long one turn of the loop may still read for the stream, when it has read for `spent_ns` for
 * streams that others wait for already: a sixteenth of the shortest block period of higher
 * priorities in all, or of all others where the stream is ahead of its rate; INT64_MAX: there are
 * none. */
int64_t budget_reading_ns(const struct budget_streams *streams,
                          const struct budget_request *request, int64_t spent_ns);

/* What its blocks may take. `depth`: batches in the device's queue. */
struct budget budget_of(const struct budget_streams *streams, const struct budget_request *request,
                        int64_t alone_ns, uint32_t depth);

#endif
