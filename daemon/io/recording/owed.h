/*
 * Owed sidecars: the sidecars of finished recordings that the disk did not take, because it was
 * full, over a quota or read-only. Each is kept as text and written as soon as the disk takes it;
 * what is still owed at the end is named in the log, and the next start repairs it (repair.h).
 *
 * The recording stays open and locked (disk.h) until then, so that no other process repairs it
 * meanwhile. The list is bounded: when it is full, the oldest is left to the next start.
 *
 * One thread (the sink's writer thread); waits for the disk and allocates.
 */
#ifndef CONVOLVD_IO_RECORDING_OWED_H
#define CONVOLVD_IO_RECORDING_OWED_H

#include <stdbool.h>
#include <stdint.h>

#include "io/recording/container.h"

enum { OWED_MAX = 256 };

/* Zeroed: nothing is owed. */
struct owed {
    const char *sink; /* its name, for messages; set by the owner */
    uint32_t count;
    struct owed_sidecar {
        char *recording; /* path */
        char *text;
        int fd; /* of the recording, locked; -1: it could not be opened */
        bool sync;
        bool header; /* the header does not count all frames either; `spec` says what they are */
        struct container_spec spec;
    } list[OWED_MAX];
};

/* Owes `text`, which it takes over, to the recording at this path, in place of a text that it owes
 * already. `spec`: of a recording whose header could not be written; else NULL. `fd`: the
 * recording, locked, which it takes over; -1: it opens it. */
void owed_add(struct owed *owed, const char *recording, char *text, bool sync,
              const struct container_spec *spec, int fd);

/* Drops what is owed to this recording. */
void owed_forget(struct owed *owed, const char *recording);

/* Writes what the disk takes; returns whether nothing is owed any more. */
bool owed_write(struct owed *owed);

/* Tries once more, names in the log what is left to the next start, and frees the list. */
void owed_close(struct owed *owed);

#endif
