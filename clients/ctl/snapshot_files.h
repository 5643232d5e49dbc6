/*
 * Files of a snapshot: NAME-input and NAME-output as .npy or WAV (float32, frames by channels), and
 * NAME.json, which says what they hold. All of them or none; files that exist are never touched.
 *
 * Main thread.
 */
#ifndef CONVOLVCTL_SNAPSHOT_FILES_H
#define CONVOLVCTL_SNAPSHOT_FILES_H

#include <jansson.h>

#include "clients/ctl/gather.h"
#include "clients/ctl/snapshot.h"

/* What the daemon says of one side. */
struct snapshot_side {
    const char *name; /* "input", "output" */
    double rate_hz;
    struct snapshot_channels channels; /* asked for; counted */
    const json_t *units;               /* of all channels of the side; borrowed */
};

struct snapshot_facts {
    const struct snapshot_options *options;
    const struct snapshot_side *input, *output;
    const struct gather *gather; /* whole */
    double delay_frames;         /* of the filters, in frames of the result */
    bool aligned;
};

/* 0, or ERROR_NO_FILE: one of them exists. Asked before the frames are taken. */
int snapshot_files_free(const struct snapshot_options *options, struct problem *problem);

/* Writes them; *sidecar: what NAME.json holds, the caller's. 0, or an error with its sentence. */
int snapshot_files_write(const struct snapshot_facts *facts, json_t **sidecar,
                         struct problem *problem);

#endif
