/*
 * Opening: a recording as the source `file` reads it. Finds the encoding of its samples, refuses in
 * words of its own what cannot be read, and compares the length that the header announces with what
 * the file holds (signal/sound_header.h).
 *
 * Any thread that may wait for a disk.
 */
#ifndef CONVOLVD_IO_RECORDING_OPENING_H
#define CONVOLVD_IO_RECORDING_OPENING_H

#include <stdbool.h>
#include <stdint.h>

#include <sndfile.h>

#include "core/error.h"
#include "signal/sound_input.h"
#include "wire/format.h"

/* At one address while it is open. */
struct recording_file {
    const char *path;
    struct sound_input input;
    SNDFILE *file;
    SF_INFO info;
    struct sample_format format; /* of its samples in a stream: little endian, as wide as here */
    bool words;                  /* 32-bit samples are copied unchanged */
    bool rounded;                /* 64-bit floats become 32-bit ones */
    uint64_t expected;           /* frames that reading should yield; UINT64_MAX: not known */
};

/* Opens a recording (WAV, W64, RF64, FLAC, AIFF, CAF, AU). Returns 0, ERROR_NO_FILE, ERROR_FORMAT
 * (not a recording, or no samples) or ERROR_UNSUPPORTED (samples that cannot be taken as they are).
 */
int recording_file_open(struct recording_file *file, const char *path, struct problem *problem);

/* Begins again with the first frame. False: it cannot. */
bool recording_file_rewind(struct recording_file *file);

/* Frames that the file holds, of a FLAC those that it announces; UINT64_MAX: not known. */
uint64_t recording_file_frames(const struct recording_file *file);

/* Closes it; one that was zeroed with input.fd -1 is fine. */
void recording_file_close(struct recording_file *file);

enum { RECORDING_NOTE_BYTES = 400 };

/* A sentence about a header that disagrees with the file's length, with both figures and what to
 * do. False: they agree, or the header leaves the length open. */
bool recording_file_note(const struct recording_file *file, char text[RECORDING_NOTE_BYTES]);

/* "192000 frames (4 s)". Returns `text`. */
const char *recording_length_text(uint64_t frames, double rate_hz, char *text, size_t bytes);

#endif
