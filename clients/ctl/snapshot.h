/*
 * Snapshots: so many consecutive frames of what a stream takes in and of its results, as two arrays
 * or WAV files and a JSON sidecar, written with the rights of whoever runs convolvctl.
 *
 * The frames come out of the daemon's watch ring (docs/web.md), whose budget bounds how many
 * channels of how fast a stream are shown. What was skipped or overwritten there makes the snapshot
 * begin again, a few times at most. The frames are held in memory, SNAPSHOT_BYTES_MOST at most, and
 * no file is written before all of them are there; files that exist are never touched.
 *
 * Main thread; blocks.
 */
#ifndef CONVOLVCTL_SNAPSHOT_H
#define CONVOLVCTL_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "control/client.h"
#include "control/tap.h"

enum { SNAPSHOT_BYTES_MOST = 256 << 20, SNAPSHOT_PATH_BYTES = 4096 };

/* Channels of one side, counted from 0. */
struct snapshot_channels {
    uint16_t list[TAP_CHANNELS_MAX];
    uint32_t count; /* 0: all */
};

struct snapshot_options {
    const char *stream;
    uint64_t frames; /* of each side */
    struct snapshot_channels input, output;
    char stem[SNAPSHOT_PATH_BYTES]; /* "NAME" of NAME-input.npy, NAME-output.npy, NAME.json */
    bool wav;
};

/* words[0] is "snapshot". 0, or ERROR_ARGUMENT with what to write. */
int snapshot_options_read(int count, char *const *words, struct snapshot_options *options,
                          struct problem *problem);

/* Takes it, and says on standard output what was written: the sidecar's JSON, or a few lines. 0, or
 * an error with its sentence: no file was written. */
int snapshot_run(const struct client_options *client, const struct snapshot_options *options,
                 bool json, struct problem *problem);

#endif
