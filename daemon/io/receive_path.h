/*
 * Receive path: how a source that reads datagrams takes them from its socket, and what that costs.
 *
 *     recvmmsg  one message per datagram; a payload can be received straight into its slot
 *     gro       UDP_GRO: the kernel delivers GRO batches, several datagrams ("segments") in one
 *               message, and every payload is copied once
 *
 * Constant data and plain values; any thread.
 */
#ifndef CONVOLVD_IO_RECEIVE_PATH_H
#define CONVOLVD_IO_RECEIVE_PATH_H

#include <stdint.h>

#define RECEIVE_PATH_TABLE(X)                                                                      \
    X(RECVMMSG, "recvmmsg")                                                                        \
    X(GRO, "gro")

enum receive_path {
#define X(name, text) RECEIVE_##name,
    RECEIVE_PATH_TABLE(X)
#undef X
        RECEIVE_PATHS,
    RECEIVE_AUTO = RECEIVE_PATHS, /* as a request only: whichever measures cheaper */
};

/* "recvmmsg", "gro", "auto". */
const char *receive_path_name(enum receive_path path);

struct receive_figures {
    enum receive_path requested; /* by the configuration */
    enum receive_path path;      /* in use now */
    uint64_t messages;          /* of recvmmsg: datagrams or GRO batches; 0: not a network source */
    uint64_t batches;           /* messages that held more than one datagram */
    uint64_t prediction_hits;   /* payloads received straight into their slots … */
    uint64_t prediction_misses; /* … and those that were copied there after a misprediction */
    uint64_t trials;
    double cost_ns[RECEIVE_PATHS]; /* CPU time per datagram as last measured; 0: never */
};

#endif
