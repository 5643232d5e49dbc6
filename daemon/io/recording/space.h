/*
 * Space: how much is free on the disk of one recording sink, and whether that is less than it wants
 * to leave (`min free`). It looks a few times a second, and after some megabytes.
 *
 * One thread (the sink's writer thread), which waits for the disk, except where a member says
 * otherwise.
 */
#ifndef CONVOLVD_IO_RECORDING_SPACE_H
#define CONVOLVD_IO_RECORDING_SPACE_H

#include <stdbool.h>
#include <stdint.h>

struct space {
    const char *sink;                /* its name, for the log */
    const char *directory;           /* on the disk */
    _Atomic uint64_t min_free_bytes; /* set by any thread */
    /* Free space of the file system with this directory, for unprivileged users [bytes]. */
    uint64_t (*free_bytes)(const char *directory);

    bool paused;            /* less is free than it should be */
    uint64_t paused_frames; /* dropped since the pause began; counted by the writer */
    uint64_t unused;        /* free at the last look [bytes]; UINT64_MAX: not known */
    int64_t next_look_ns;   /* [monotonic] */
    int64_t next_idle_look_ns;
    uint64_t unseen_bytes; /* written since the last look; counted by the writer */
};

/* Zeroed before; free_bytes NULL: that of the system. */
void space_begin(struct space *space, const char *sink, const char *directory, uint64_t min_free);

/* Looks when it is time. True: less is free than it should be, and space_pause must follow. A pause
 * ends here, once there is some more than that. */
bool space_falls_short(struct space *space);

/* Looks about once a second, for a sink that writes nothing. Returns when it is time again. */
int64_t space_look(struct space *space);

/* The pause begins; the caller has ended its file. */
void space_pause(struct space *space);

#endif
