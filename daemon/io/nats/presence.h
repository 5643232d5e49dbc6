/*
 * Presence: what this worker tells the others of its cluster, and what it makes of what they tell.
 * Every 0.5 s each worker publishes its name, the identity of its run, its load, its capacity and
 * the hash of what all workers share of their configuration, as JSON on a subject of its own. From
 * these each works out which of them takes a partition (cluster/candidates.h). Who has not been
 * heard for 2 s is not there.
 *
 *     worker a ──┐                            ┌──► worker b: rank, room, configuration
 *     worker b ──┼─► convolvd.NAME.presence.* ┼──► worker a
 *                                             └──► convolvctl cluster
 *
 * Presence decides who takes and when, never what the log holds: one that is lost, late or forged
 * costs an append that is refused, or a hand-over that nobody needed.
 *
 * One for the process, shared by the appenders at LOG of its partitions; the link of one of them
 * carries it. Loop thread.
 */
#ifndef CONVOLVD_IO_NATS_PRESENCE_H
#define CONVOLVD_IO_NATS_PRESENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/candidates.h"
#include "cluster/cluster.h"
#include "io/environment.h"
#include "io/nats/link.h"

enum { NATS_PRESENCE_BYTES = 768 };

/* One appender's part in it. */
struct nats_presence_part {
    struct nats_presence_part *next;
    struct nats_link *link;
    struct candidate_turn turn;
};

/* Starts zeroed. */
struct nats_presence {
    bool open; /* it was joined once */
    const struct cluster *cluster;
    struct io_environment environment;
    struct candidates candidates;
    struct nats_presence_part *parts; /* the first one carries it */
    int64_t told_ns;
    int64_t loop_ns, measured_ns; /* processor time of the loop, and when it was read */
    double loop_share;
    char subject[NATS_SUBJECT_BYTES];
};

/* What a worker tells; `leaves`: it goes, in order. Text that no JSON takes is left out. */
void nats_presence_write(const struct candidate *of, bool leaves, char text[NATS_PRESENCE_BYTES]);
/* What was told under a subject that ends in `word`. False: it is no presence, or that of a worker
 * whose subject is another one. */
bool nats_presence_read(const char *word, const char *text, size_t bytes, struct candidate *of,
                        bool *leaves);

/* An appender begins to take part; it goes. */
void nats_presence_join(struct nats_presence *p, struct nats_presence_part *part,
                        struct nats_link *link, const struct cluster *cluster,
                        const struct io_environment *environment);
void nats_presence_leave(struct nats_presence *p, struct nats_presence_part *part);

/* The part's link is connected, or was told something. */
void nats_presence_connected(struct nats_presence *p, const struct nats_presence_part *part);
void nats_presence_heard(struct nats_presence *p, const struct nats_event *told);

/* Whether the worker is there and would take a partition of this one; false: as *problem says. */
bool nats_presence_takes(const struct nats_presence *p, const char *worker,
                         struct problem *problem);

/* By each part, about every 0.1 s: tells the others when it is time, and says where this worker
 * stands for a partition. */
struct standing nats_presence_tick(struct nats_presence *p, const struct nats_presence_part *part,
                                   int64_t now_ns, const char *partition, const char *log_config);

#endif
