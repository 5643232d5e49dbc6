/*
 * Losses: which frames of a sink's results no file holds, since the newest frame in one: those
 * missing before a result, those whose results never came, those that the sink or the disk dropped.
 * A file's sidecar lists them before its first frame, or behind its last at the end of an epoch.
 *
 * One thread (the sink's writer thread).
 */
#ifndef CONVOLVD_IO_RECORDING_LOSSES_H
#define CONVOLVD_IO_RECORDING_LOSSES_H

#include <stdbool.h>
#include <stdint.h>

#include "io/recording/sidecar.h"
#include "stream/result.h"

/* Zeroed: nothing has come, and nothing is lost. */
struct losses {
    struct sidecar_losses list;
    bool seen; /* something came; the following say where the newest of it ends */
    uint64_t seen_epoch, seen_until;
};

/* Frames [from, until) of the newest result, or of the file. Nothing when it is empty. */
void losses_add(struct losses *losses, uint64_t epoch, uint64_t from, uint64_t until,
                const char *cause);

/* Frames whose results never come, in the order of the results. */
void losses_never_come(struct losses *losses, const struct sidecar_missing *missing);

/* A result comes: adds what it says is missing before it, and what came neither with a result nor
 * with losses_never_come, as dropped by the queue. */
void losses_result(struct losses *losses, const struct result *result);

/* Moves the list, or what it holds of one epoch, to the end of another. False: there was none. */
bool losses_move(struct losses *losses, struct sidecar_losses *to);
bool losses_move_epoch(struct losses *losses, uint64_t epoch, struct sidecar_losses *to);

#endif
