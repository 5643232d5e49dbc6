/*
 * Way: connects the socket of a sink once more, after the interface or the route was not there or
 * has gone. Looking for an interface by its address reads the list of all of them, so a worker does
 * it.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_IO_NET_WAY_H
#define CONVOLVD_IO_NET_WAY_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/log.h"
#include "core/loop_work.h"
#include "io/net/socket.h"

struct way {
    /* set before the first way_find */
    struct socket_send_options options;
    struct address to;
    int fd;
    void (*tried)(void *context, bool found); /* once for each attempt */
    void *context;

    /* loop thread */
    bool busy;       /* an attempt is under way: options, to and fd stay as they are */
    int64_t lost_ns; /* since when there is no way; 0: there is one */
    struct log_limit limit;
    struct loop_work work;

    int error; /* of the attempt; the worker's while busy */
};

/* Begins an attempt, unless one is under way. */
void way_find(struct way *way, uv_loop_t *loop);

#endif
