/*
 * The SDP file of a sink, which is there as long as the sink is: whoever waits for the file finds a
 * daemon that sends. A sink that takes the place of another writes its own file under the same
 * name, and the other one leaves that alone.
 *
 * The sink holds a shared lock on its file (flock(2)). After a crash the file stays without it:
 * `flock -n FILE true` succeeds for a reader, and the next start removes it from the runtime
 * directory, or replaces it.
 */
#ifndef CONVOLVD_IO_NET_SDP_FILE_H
#define CONVOLVD_IO_NET_SDP_FILE_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "core/error.h"
#include "core/loop_work.h"
#include "io/net/sdp.h"

/* Zeroed: there is none. */
struct sdp_file {
    const char *path; /* outlives it */
    dev_t device;
    ino_t inode;
    int lock; /* the locked file; -1: it cannot be locked */
    struct loop_work work;
    void (*removed)(void *context);
    void *context;
};

/* WORKER. 0, or an error as sdp_write. */
int sdp_file_write(struct sdp_file *file, const struct sdp_media *media, const char *path,
                   struct problem *problem);

/* WORKER. Removes the SDP files in this directory that convolvd has written and that nobody holds
 * locked. */
void sdp_file_sweep(const char *directory);

/* LOOP. Removes it on a worker, unless another has taken its name, and calls `removed` then. False:
 * there is none, and `removed` is not called. */
bool sdp_file_remove(struct sdp_file *file, uv_loop_t *loop, void (*removed)(void *context),
                     void *context);

#endif
