/*
 * Receive path: which of the two ways of reading a socket is the cheaper one here, found by
 * measuring both on the traffic there is.
 *
 *     recvmmsg  one message a datagram; payloads go straight to where they probably belong
 *     gro       UDP_GRO: the kernel hands over trains of datagrams, one copy for each payload
 *
 * A trial runs the paths in turns, TURNS times each, and compares the medians of the thread's CPU
 * time for a datagram (time in which other threads ran is not in it). A turn begins with what came
 * in after the switch: the queue still holds datagrams the way the other path takes them. Turns
 * are short, since the dearer path may be too slow for the traffic. The path in use stays
 * unless the other one costs at least MARGIN less, so that noise moves nothing. Trials come
 * again after REST_NS, and twice as seldom (to REST_MAX_NS) each time that nothing changes.
 *
 * Pure state machine without clock or socket; loop thread.
 */
#ifndef CONVOLVD_IO_NET_RECEIVE_PATH_H
#define CONVOLVD_IO_NET_RECEIVE_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/clock.h"

#define RECEIVE_PATH_TABLE(X)                                                                      \
    X(RECVMMSG, "recvmmsg")                                                                        \
    X(GRO, "gro")

enum receive_path {
#define X(name, text) RECEIVE_##name,
    RECEIVE_PATH_TABLE(X)
#undef X
        RECEIVE_PATHS,
    RECEIVE_AUTO = RECEIVE_PATHS, /* of wishes alone: whichever measures better */
};

/* "recvmmsg", "gro", "auto". */
const char *receive_path_name(enum receive_path path);

enum {
    RECEIVE_PATH_TURNS = 5,
    RECEIVE_PATH_WARM_DATAGRAMS =
        64, /* of a turn, not measured: code and buffers come into the caches */
    RECEIVE_PATH_TURN_DATAGRAMS = 256, /* of a turn, measured */
};
#define RECEIVE_PATH_MARGIN      0.10
#define RECEIVE_PATH_REST_NS     (60 * NS_PER_SECOND)
#define RECEIVE_PATH_REST_MAX_NS (960 * NS_PER_SECOND)

struct receive_trial {
    enum receive_path path; /* in use now */
    enum receive_path home; /* the last verdict */
    bool measuring;         /* receive_trial_note wants CPU times */
    uint32_t turn;          /* 0 … 2 · TURNS: even ones are recvmmsg's */
    uint64_t datagrams;     /* of this turn */
    uint64_t measured;
    int64_t cpu_ns;
    double turns_ns[RECEIVE_PATHS][RECEIVE_PATH_TURNS];
    int64_t next_ns, rest_ns;
    double cost_ns[RECEIVE_PATHS]; /* CPU time for a datagram as last measured; 0: never */
    uint64_t trials;
};

/* Forced to one path, or free to choose when `wish` is RECEIVE_AUTO. */
void receive_trial_reset(struct receive_trial *trial, enum receive_path wish);

/*
 * After every wake-up: what it read, the thread's CPU time it took (looked at while
 * `measuring`), and whether the last of it came in after the switch to `path`. Sets `path`, which
 * the next wake-up is to use. True when a trial has ended with this one.
 */
bool receive_trial_note(struct receive_trial *trial, int64_t now_ns, uint32_t datagrams,
                        int64_t cpu_ns, bool settled);

/* The kernel refuses trains: recvmmsg from here on, without more trials. */
void receive_trial_refuse(struct receive_trial *trial);

#endif
