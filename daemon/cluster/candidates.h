/*
 * Candidates: which workers of a cluster may take a partition, and in which order. Every worker
 * tells the others of itself (its presence), and each works out the order from what it has heard.
 * Two workers may see different orders for a moment: that costs an append that is refused, never a
 * frame (stream/ownership.h).
 *
 * The order is rendezvous hashing (Thaler and Ravishankar, 1998): workers sort by a hash of
 * (partition, worker), so that each partition has an order of its own, and a worker that leaves or
 * comes moves no partition but those that it is first for.
 *
 * Nothing but tests calls this: workers do not tell each other of themselves, and whoever is first
 * takes (docs/cluster.md, "What it does not do yet").
 *
 * Times are monotonic nanoseconds of this process. One thread; never allocates.
 */
#ifndef CONVOLVD_CLUSTER_CANDIDATES_H
#define CONVOLVD_CLUSTER_CANDIDATES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    CANDIDATES_MAX = 64,
    WORKER_NAME = 96,   /* a worker's name, terminated: host and instance */
    CONFIG_DIGEST = 65, /* of its configuration, terminated */
};

/* What a worker tells of itself. */
struct candidate {
    char worker[WORKER_NAME]; /* never empty */
    uint64_t identity;        /* of this run */
    bool room;                /* its load is below its capacity: it would take a partition */
    char config[CONFIG_DIGEST];
};

struct candidates {
    struct candidate own;
    int64_t forget_ns; /* who was not heard for so long is not there */
    uint32_t count;
    struct {
        struct candidate of;
        int64_t heard_ns;
    } others[CANDIDATES_MAX];
};

void candidates_open(struct candidates *c, const char *worker, uint64_t identity,
                     const char *config, int64_t forget_ns);
/* Whether this worker has room. */
void candidates_room(struct candidates *c, bool room);
/* Somebody's presence was received; its own is ignored. False: it is one of too many. */
bool candidates_heard(struct candidates *c, int64_t now_ns, const struct candidate *presence);
/* Somebody has left in good order. */
void candidates_left(struct candidates *c, uint64_t identity);

struct standing {
    bool stands;        /* this worker may take the partition */
    uint32_t rank;      /* how many that may come before it */
    bool first;         /* no other with room comes before it, whether or not it has room itself */
    uint32_t others;    /* workers that are there, of the same configuration */
    uint32_t strangers; /* … and of another one: they never count in the order */
};

struct standing candidates_standing(const struct candidates *c, int64_t now_ns,
                                    const char *partition);

#endif
