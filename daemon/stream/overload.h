/*
 * Overload: in which order streams get the device, and when one of them gives up blocks that wait.
 *
 * As long as the device can compute in time all that waits, the earliest deadline goes first,
 * whatever the priorities. When it cannot, streams rank by
 *
 *   1. whether they keep to their declared rate, or are ahead of it,
 *   2. their priority.
 *
 * Streams of the highest ranks whose deadlines can all be met go first, by their deadlines. The
 * others follow by rank, and within a rank those first that have had the least device time lately
 * (max-min fairness).
 *
 * So the streams of the lowest priority fall behind first, a stream that floods falls behind before
 * any other, and no stream starves beside its equals. A stream that has fallen behind first uses
 * its input ring. It gives up what is overdue when that has lasted too long (overload_gives_up):
 * every frame of it is flagged, and the stream is on time again, if the device can carry it at all.
 * It gives up at once what it cannot compute within `shedding_ns` after a first loss, which bounds
 * how long it takes to recover once there is room again.
 *
 * Pure decisions: no clock, no stream, no device. LOOP; nothing here allocates.
 * Source: Buttazzo and Stankovic, "RED: robust earliest deadline scheduling" (1993), for the order;
 * Abeni and Buttazzo, "Integrating multimedia applications in hard real-time systems" (1998), for
 * streams ahead of their rate.
 */
#ifndef CONVOLVD_STREAM_OVERLOAD_H
#define CONVOLVD_STREAM_OVERLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/limits.h"

/* What a stream has had of the device, and how it kept up. Zeroed: nothing so far. */
struct overload_share {
    double used_ns; /* device time, halved every 250 ms … */
    int64_t used_at_ns;
    int64_t ahead_ns;     /* by which the blocks taken were ahead of the declared rate … */
    int64_t paced_ns;     /* … at this time */
    int64_t caught_up_ns; /* last time that nothing waited, or that waiting was nobody's fault */
    int64_t shed_ns;      /* last time that blocks were given up; 0: never */
};

/* What one stream has waiting. */
struct overload_work {
    uint32_t owner;      /* the caller's */
    bool live;           /* its source does not wait; others come last */
    uint8_t priority;    /* PRIORITY_LEAST … PRIORITY_MOST */
    bool ahead;          /* overload_ahead */
    int64_t deadline_ns; /* of its oldest block */
    int64_t cost_ns;     /* device time of all its blocks */
    int64_t block_ns;    /* of one of them */
    int64_t launch_ns;   /* of none: what a batch of it takes beside its blocks */
    double used_ns;      /* overload_used */
    bool kept;           /* overload_order sets it: in time, although not all may be */
};

/* Puts `work` into the order in which it should be computed. `busy_ns`: how long the device is busy
 * with what it has, and how long a block may wait for others of its batch. */
void overload_order(struct overload_work *work, uint32_t count, int64_t now_ns, int64_t busy_ns);

/* Device time that the stream has had lately [ns]. */
double overload_used(const struct overload_share *share, int64_t now_ns);
/* The same as a share of all time, once it has been steady for a second. */
double overload_load(const struct overload_share *share, int64_t now_ns);
/* Whether the stream has had more blocks than its declared rate gives, by more than a burst. */
bool overload_ahead(const struct overload_share *share, int64_t period_ns, int64_t now_ns);

/* Blocks that last `span_ns` at the declared rate go to the device, which needs `cost_ns`. */
void overload_taken(struct overload_share *share, int64_t span_ns, int64_t cost_ns, int64_t now_ns);
/* Nothing waits; or the device stood still, which is no overload. */
void overload_caught_up(struct overload_share *share, int64_t now_ns);
/* Blocks were given up; what is not overdue may still wait. */
void overload_shed(struct overload_share *share, int64_t now_ns);

/* Whether the stream has to give up its overdue blocks now. `ready_ns`, `deadline_ns`: of its
 * oldest block; `patience_ns`: how far the stream may fall behind before anything is lost. */
bool overload_gives_up(const struct overload_share *share, int64_t ready_ns, int64_t deadline_ns,
                       int64_t patience_ns, int64_t now_ns);

#endif
