/*
 * Swap: the pairs of pipelines of a reload, one that runs and one that takes its place, from the
 * pause of the first to the first result of the second.
 *
 *     old: paused ─► quiet ─► its state goes over, or its epoch ends ─► delivers what it has ─►
 * done made: held ───► resumes ─► reads on from the socket, into its ring ────────────────►
 * released
 *
 * Guarantees, for each pair: the new pipeline hands out nothing before the old one has delivered or
 * dropped everything, so results stay in order and no sequence number, epoch or frame is used
 * twice. Datagrams wait in the kernel no longer than `SWAP_READ_NS`, but for a stream that is
 * behind (below): then the new source reads them, and they wait in the input ring, where they are
 * counted. At each instant one of the two has the numbers that receivers know the stream by
 * (pipeline->predecessor).
 *
 * An old stream that is still computing after SWAP_READ_NS is held: it submits nothing more, and
 * input that waits goes over with its state. When its batches do not come back, or the new stream
 * cannot go on from its state, its epoch ends and it computes what it has. One that has not
 * delivered everything after `drain timeout` has its sinks closed, which drops and counts the rest.
 *
 * Loop thread. No call reads a clock.
 */
#ifndef CONVOLVD_SERVICE_SWAP_H
#define CONVOLVD_SERVICE_SWAP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/clock.h"
#include "pipeline/pipelines.h"

static const int64_t SWAP_READ_NS = 500 * NS_PER_MS, SWAP_STATE_NS = 2000 * NS_PER_MS;

struct swap_pair {
    struct pipeline *old, *made;
    bool paused;   /* the epoch of the old one is open: the new one is to go on in it */
    bool numbered; /* the new one has its epoch, or the number of the next one: it may begin */
    bool started;  /* its source was started; it may have none */
};

struct swap {
    struct pipelines *pipelines;
    struct swap_pair pairs[PIPELINES_MAX]; /* not released yet */
    uint32_t count, failed;                /* failed: sources that could not be started */
    int64_t read_ns, state_ns, cut_ns;     /* the three deadlines above [monotonic] */
    bool stopping;                         /* no source is started any more */
};

void swap_begin(struct swap *swap, struct pipelines *pipelines, int64_t now_ns, int64_t drain_ns);
/* `made` takes the place of `old`, whose epoch is left open when `paused`. Pipelines that are read
 * come before those that read them. Both are of the registry, and `old` is retired. */
void swap_add(struct swap *swap, struct pipeline *old, struct pipeline *made, bool paused);

/* Takes each pair as far as it gets. */
void swap_advance(struct swap *swap, int64_t now_ns);
/* Whether the epoch of some old stream is open: its state has not gone over yet. */
bool swap_has_open_epoch(const struct swap *swap);
/* Whether all new pipelines read, or have failed to. */
bool swap_reads(const struct swap *swap);
/* Whether all new pipelines are released. */
bool swap_is_through(const struct swap *swap);

/* The daemon stops: starts no source from now on. Old pipelines that were stopped end their epochs.
 */
void swap_stop(struct swap *swap);
/* Releases every pair; what an old pipeline has not delivered is dropped and counted. */
void swap_cut(struct swap *swap, int64_t now_ns);

#endif
