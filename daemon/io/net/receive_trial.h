/*
 * Receive trial: decides which receive path (io/receive_path.h) is the cheaper one for a stream, by
 * measuring both on its traffic.
 *
 * A trial runs the two paths in turns, RECEIVE_PATH_TURNS times each, and compares the medians of
 * the thread's CPU time per datagram (time in which other threads ran does not count). A turn
 * begins with what arrived after the switch: until then the queue still holds datagrams in the form
 * of the other path. Turns are short, since the more expensive path may be too slow for the
 * traffic; and where one path has cost RECEIVE_PATH_CLEAR times the other in each of the first
 * RECEIVE_PATH_CLEAR_TURNS turns, the trial ends with them. The path in use stays unless the other
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
    uint32_t turn;            /* 0 … 2 · TURNS - 1: even turns use recvmmsg */
    uint64_t datagrams;       /* of this turn */
    uint64_t measured;        /* of those, after the warm-up */
    int64_t cpu_ns;           /* spent on the measured ones */
    double turns_ns[RECEIVE_PATHS][RECEIVE_PATH_TURNS];
    int64_t next_ns, pause_ns;     /* when the next trial begins, and after which pause */
    double cost_ns[RECEIVE_PATHS]; /* CPU time per datagram as last measured; 0: never */
    uint64_t trials;               /* finished */
};

/* Starts with one path for good, or with a trial when `requested` is RECEIVE_AUTO. */
void receive_trial_reset(struct receive_trial *trial, enum receive_path requested);

/*
 * Takes note of a wake-up: the datagrams it read, the CPU time of the thread it took (needed while
 * `measuring`), and whether its last datagram arrived after the switch to `path` (`settled`). Sets
 * `path` for the next wake-up. True when this wake-up finished a trial.
 */
bool receive_trial_note(struct receive_trial *trial, int64_t now_ns, uint32_t datagrams,
                        int64_t cpu_ns, bool settled);

/* The kernel has no UDP_GRO: recvmmsg from here on, without further trials. */
void receive_trial_refuse(struct receive_trial *trial);

#endif
