/*
 * Receive trial: decides which receive path (io/receive_path.h) is the cheaper one for a stream, by
 * measuring both on its traffic.
 *
 * A trial runs the two paths in turns, GRO first, RECEIVE_PATH_TURNS times each, and compares the
 * medians of the thread's CPU time per datagram (time in which other threads ran does not count). A
 * turn begins with what arrived after the switch: until then the queue still holds datagrams in the
 * form of the other path. Turns are short, since the more expensive path may be too slow for the
 * traffic; and where one path has cost RECEIVE_PATH_CLEAR times the other in each of the first
 * RECEIVE_PATH_CLEAR_TURNS turns, the trial ends with them. Where the messages of its first turn
 * hold RECEIVE_PATH_TRAIN datagrams on average, it ends with that turn, for GRO: each datagram is
 * shorter than 2 KiB then, and costs the kernel more by itself than its copy does; one by one they
 * would also cost the sender's side far more (the kernel cuts trains before it queues them), in
 * the first milliseconds of a stream of a high rate. The path in use stays unless the other
 * one costs at least RECEIVE_PATH_MARGIN less, so that noise changes nothing. The next trial
 * follows after RECEIVE_PATH_PAUSE_NS; each trial that changes nothing doubles the pause, up to
 * RECEIVE_PATH_PAUSE_MAX_NS.
 *
 * Pure state machine without clock or socket; loop thread.
 */
#ifndef CONVOLVD_IO_NET_RECEIVE_TRIAL_H
#define CONVOLVD_IO_NET_RECEIVE_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/clock.h"
#include "io/receive_path.h"

enum {
    RECEIVE_PATH_TURNS = 5,
    RECEIVE_PATH_CLEAR_TURNS = 2,
    RECEIVE_PATH_CLEAR = 2,
    RECEIVE_PATH_TRAIN = 32,           /* datagrams of a message */
    RECEIVE_PATH_WARM_DATAGRAMS = 64,  /* at the start of a turn, not measured: caches fill */
    RECEIVE_PATH_TURN_DATAGRAMS = 256, /* of a turn, measured */
};
#define RECEIVE_PATH_MARGIN       0.10
#define RECEIVE_PATH_PAUSE_NS     (60 * NS_PER_SECOND)
#define RECEIVE_PATH_PAUSE_MAX_NS (960 * NS_PER_SECOND)

struct receive_trial {
    enum receive_path path;   /* to use now */
    enum receive_path chosen; /* by the last trial */
    bool measuring;           /* receive_trial_note needs CPU times */
    uint32_t turn;            /* 0 … 2 · TURNS - 1: even turns use GRO */
    uint64_t datagrams;       /* of this turn */
    uint64_t measured;        /* of those, after the warm-up */
    uint64_t messages;        /* that held the measured ones */
    int64_t cpu_ns;           /* spent on the measured ones */
    double turns_ns[RECEIVE_PATHS][RECEIVE_PATH_TURNS];
    int64_t next_ns, pause_ns;     /* when the next trial begins, and after which pause */
    double cost_ns[RECEIVE_PATHS]; /* CPU time per datagram as last measured; 0: never */
    uint64_t trials;               /* finished */
};

/* Starts with one path for good, or with a trial when `requested` is RECEIVE_AUTO. */
void receive_trial_reset(struct receive_trial *trial, enum receive_path requested);

/* What one wake-up of the loop read. */
struct receive_wake {
    uint32_t datagrams, messages;
    int64_t cpu_ns; /* of the thread; needed while `measuring` */
    bool settled;   /* its last datagram arrived after the switch to `path` */
};

/* Takes note of a wake-up, and sets `path` for the next one. True when it finished a trial. */
bool receive_trial_note(struct receive_trial *trial, int64_t now_ns,
                        const struct receive_wake *wake);

/* The kernel has no UDP_GRO: recvmmsg from here on, without further trials. */
void receive_trial_refuse(struct receive_trial *trial);

#endif
