/*
 * Gains and mutes of results on their way into sidecars: copied into the sink's message, and kept
 * by the writer until the frame from which they hold is written.
 *
 *     result ─► recorded_gains_copy ─► message ─► recorded_gains_take ─► recorded_gains_add ─►
 * sidecar loop thread                            writer thread
 */
#ifndef CONVOLVD_IO_RECORDING_GAINS_H
#define CONVOLVD_IO_RECORDING_GAINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/recording/sidecar.h"
#include "stream/result.h"

/* Bytes that a copy takes, at any alignment of uint64_t. */
size_t recorded_gains_bytes(const struct result_gains *gains);
/* Copies them with what they point to into `to`, which holds recorded_gains_bytes. */
const struct result_gains *recorded_gains_copy(const struct result_gains *gains, void *to);

struct recorded_gains_set {
    struct sidecar_gains gains; /* its pointers lead to the next three */
    float *factors;             /* [outputs_max] */
    bool *muted;                /* likewise */
    char who[EVENT_WHO_BYTES];
};

struct recorded_gains {
    uint32_t outputs_max;
    struct recorded_gains_set now;  /* of the newest frame written */
    struct recorded_gains_set next; /* brought by a result, in force from their frame on … */
    bool waiting;                   /* … which has not been written yet */
    uint64_t epoch, from;
};

/* For streams of at most so many outputs. 0 or ERROR_MEMORY; close either way. */
int recorded_gains_open(struct recorded_gains *recorded, uint32_t outputs_max);
void recorded_gains_close(struct recorded_gains *recorded); /* a zeroed one is fine */

/* Gains that the result brings hold from their frame on, also when the frames until then are
 * dropped. */
void recorded_gains_take(struct recorded_gains *recorded, const struct result *result);

/* Adds to the sidecar, which has room for two, the gains of frames [first, until) of an epoch. */
void recorded_gains_add(struct recorded_gains *recorded, struct sidecar *sidecar, uint64_t epoch,
                        uint64_t first, uint64_t until);

#endif
