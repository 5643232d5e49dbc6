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
 * Load follows the order: an owner that another worker with room comes before hands its partition
 * over to that one, once it has been so for a while, and not many partitions at a time.
 *
 * Workers of different configurations would compute different results under the same numbers. One
 * whose configuration is not that of the log's newest record takes nothing while a worker with that
 * configuration is there. When the last of them has left, the new configuration holds.
 *
 * io/nats/presence.h carries what workers tell of themselves.
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
    double load, capacity;    /* shares: 1 is all of its device, or of its loop's time */
    char config[CONFIG_DIGEST];
};

struct candidates {
    struct candidate own;
    int64_t forget_ns;    /* who was not heard for so long is not there */
    int64_t listening_ns; /* since when it hears the others */
    int64_t handed_ns;    /* when it handed a partition over the last time */
    uint32_t count;
    struct {
        struct candidate of;
        int64_t heard_ns;
    } others[CANDIDATES_MAX];
};

void candidates_open(struct candidates *c, const char *worker, uint64_t identity,
                     const char *config, int64_t forget_ns);
/* It begins to hear the others, or does again: who was there before may have left unheard. */
void candidates_listen(struct candidates *c, int64_t now_ns);
/* How much of this worker is in use: it has room while that is below its capacity. */
void candidates_load(struct candidates *c, double load, double capacity);
/* Somebody's presence was received; its own is ignored. False: it is one of too many. */
bool candidates_heard(struct candidates *c, int64_t now_ns, const struct candidate *presence);
/* Somebody has left in good order. */
void candidates_left(struct candidates *c, uint64_t identity);

/* Why a worker may not take a partition. */
enum standing_bar {
    STANDING_FREE,
    STANDING_FULL,    /* it has no room */
    STANDING_DIFFERS, /* workers of the log's configuration are there, which is another one */
    STANDING_LISTENS, /* the log's configuration is another one; whether such workers are there is
                         not known yet */
};

struct standing {
    bool stands;           /* this worker may take the partition */
    enum standing_bar bar; /* else: why not */
    uint32_t rank;         /* how many that may come before it */
    bool first;         /* no other with room comes before it, whether or not it has room itself */
    uint32_t others;    /* workers that are there, of the same configuration */
    uint32_t strangers; /* … and of another one: they never count in the order */
    const char *best;   /* the first of those that come before it; NULL: it is first */
};

/* `log_config`: that of the log's newest record; empty: of none. */
struct standing candidates_standing(const struct candidates *c, int64_t now_ns,
                                    const char *partition, const char *log_config);

/* A worker of this name that is there, of the same configuration; NULL: there is none. */
const struct candidate *candidates_find(const struct candidates *c, int64_t now_ns,
                                        const char *worker);

enum { CANDIDATES_PATIENCE_S = 10, CANDIDATES_PAUSE_S = 2 };

/* The part of one partition in it; zeroed: nothing so far. */
struct candidate_turn {
    bool second;       /* it owns, and another with room comes before it … */
    int64_t second_ns; /* … since then */
};

/* As owner (owns) or not, now and then: whom this worker hands the partition over to now, after 10
 * s of being second, one partition in 2 s; NULL: nobody. The caller does it. */
const char *candidates_hand_over(struct candidates *c, struct candidate_turn *turn, int64_t now_ns,
                                 const struct standing *standing, bool owns);

#endif
