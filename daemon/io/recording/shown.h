/*
 * Shown: what the status tells of a recording sink besides its ledger. The writer thread brings it
 * up to date; the loop reads it and never waits: should the writer be at it, the loop takes what it
 * read the last time.
 */
#ifndef CONVOLVD_IO_RECORDING_SHOWN_H
#define CONVOLVD_IO_RECORDING_SHOWN_H

#include <limits.h>
#include <pthread.h>
#include <stdint.h>

#include "io/driver.h"

enum recording_state {
    RECORDING_RUNNING, /* frames go into a file as they come */
    RECORDING_STOPPED, /* by a command, or not begun by one yet */
    RECORDING_PAUSED,  /* by `min free` */
};

/* Of the present file, or the last one. */
struct recording_shown {
    enum recording_state state;
    uint64_t file;             /* counts those of the sink; 0: none has begun */
    uint64_t frames, bytes;    /* of samples written to it */
    double seconds;            /* that these frames last */
    int64_t since_realtime_ns; /* when it began */
    uint64_t free_bytes;       /* on the disk; UINT64_MAX: not known */
    char path[PATH_MAX];
};

struct shown_cell {
    pthread_mutex_t mutex; /* the loop only tries it */
    struct recording_shown now;
    struct recording_shown seen; /* loop: what it read last */
};

/* Before the thread begins; the first begin and end come before the first read. */
void shown_open(struct shown_cell *cell);
void shown_close(struct shown_cell *cell);

/* WRITER. What is shown, to be brought up to date in between. */
struct recording_shown *shown_begin(struct shown_cell *cell);
void shown_end(struct shown_cell *cell);

/* LOOP. */
void shown_read(struct shown_cell *cell, struct recording_shown *shown);

/* The row of sink_ops. */
extern const struct driver_status recording_status;

#endif
