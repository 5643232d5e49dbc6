/*
 * Repair into a copy, for `convolvd --repair FILE`: a recording whose recorder died, or that was
 * cut, gets a header that fits its samples. The file itself is not changed. The copy has the bytes
 * of the file up to its last whole frame, with the size fields that belong there
 * (signal/sound_header.h); where the recording has a sidecar, the copy gets one that counts its
 * frames, and the frames that the first sidecar did not count are invalid (`unflushed`).
 *
 * A file that another process has open for writing is refused.
 *
 * Main thread; waits for the disk and allocates.
 */
#ifndef CONVOLVD_IO_RECORDING_REPAIR_COPY_H
#define CONVOLVD_IO_RECORDING_REPAIR_COPY_H

#include <limits.h>
#include <stdint.h>

#include "core/error.h"

struct repaired_copy {
    char path[PATH_MAX]; /* FILE-repaired.SUFFIX, which must not exist */
    uint64_t announced;  /* frames by the header of the file */
    uint64_t frames;     /* in the copy */
    double rate_hz;
};

/* Returns 0, ERROR_ARGUMENT (there is nothing to repair), ERROR_FORMAT, ERROR_UNSUPPORTED,
 * ERROR_FULL (another process writes the file), ERROR_NO_FILE, ERROR_SYSTEM or ERROR_MEMORY. */
int recording_repair_copy(const char *path, struct repaired_copy *copy, struct problem *problem);

#endif
