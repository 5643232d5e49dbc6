/*
 * Validity: what the sidecar beside a recording says of its frames, for a replay: which of them are
 * invalid and why, which part of which epoch they are, and what people marked. The text is not
 * trusted: ranges are clipped to the file, and a sidecar of another length is not used at all.
 *
 * Any thread that may wait for a disk; one owner.
 */
#ifndef CONVOLVD_IO_RECORDING_VALIDITY_H
#define CONVOLVD_IO_RECORDING_VALIDITY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "io/source.h"

struct recording_validity {
    bool found;       /* there is a sidecar that can be read … */
    bool fits;        /* … and it counts the frames of the file; the following are then set */
    bool complete;    /* its writer finished file and sidecar */
    uint64_t counted; /* frames by the sidecar; set where it is found */
    uint64_t epoch, first_frame; /* of the stream that was recorded: of the file's first frame */
    uint32_t range_count;
    struct invalid_range *ranges; /* in frames of the file, by `from`; of one cause none touch */
    uint64_t invalid_frames;      /* in at least one of them */
    uint32_t mark_count;
    struct source_mark *marks; /* in frames of the file, by frame */
};

/* Reads RECORDING.json beside a recording of so many frames (UINT64_MAX: not known, so that none
 * fits). Returns 0 also where there is none; ERROR_FORMAT where it cannot be understood,
 * ERROR_MEMORY. */
int recording_validity_load(const char *recording, uint64_t frames,
                            struct recording_validity *validity, struct problem *problem);

/* Safe for one that was zeroed. */
void recording_validity_free(struct recording_validity *validity);

#endif
