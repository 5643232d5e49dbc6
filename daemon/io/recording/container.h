/*
 * Containers: writes sample data into WAV, RF64 and W64 files. A container is a header of fixed
 * size followed by interleaved frames; this module builds the headers and appends frames to a file.
 *
 *     RIFF size WAVE | JUNK or ds64 (28) | fmt | fact (float) | data size | frames …
 *
 * The header is rewritten in place as the file grows, so a file is readable up to the last frame
 * its header counts, however the process ended, and after a power cut up to the last sync. A WAV
 * reserves 28 bytes (a JUNK chunk) when it is created. Once its sizes no longer fit 32 bits, that
 * chunk becomes a ds64 and the file an RF64 (EBU Tech 3306; ITU-R BS.2088); no sample data moves.
 * The sizes in a growing W64 run up to one second ahead of its data, and readers stop at the end of
 * the file.
 *
 * The module does not write through libsndfile, because a full disk must leave whole frames and
 * every header rewrite must go to a known offset. The tests read the files back with libsndfile.
 *
 * One thread at a time. Every function that writes waits for the disk.
 */
#ifndef CONVOLVD_IO_RECORDING_CONTAINER_H
#define CONVOLVD_IO_RECORDING_CONTAINER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "wire/format.h"

enum container {
    CONTAINER_WAV, /* becomes RF64 when its sizes no longer fit 32 bits */
    CONTAINER_RF64,
    CONTAINER_W64,
    CONTAINERS,
};

/* Finds a container by its name: "wav", "rf64" or "w64". Returns 0 or ERROR_ARGUMENT. */
int container_parse(const char *name, enum container *container);

/* The name that container_parse finds. */
const char *container_name(enum container container);

struct container_spec {
    enum container container;
    uint32_t rate_hz;            /* at most 2^31 - 1: readers store it in an int */
    uint32_t channels;           /* at least 1; a frame has at most 65535 bytes */
    struct sample_format format; /* u8, s16le, s24le, s32le or f32le, all bits */
    uint64_t riff_bytes_max;     /* largest file that stays RIFF; 0: 2^32 - 1; for tests */
};

enum { CONTAINER_HEADER_MAX = 136 };

/* True when a container can hold samples of this format. */
bool container_format_valid(const struct sample_format *format);

/* Size of the header in bytes; it does not depend on the number of frames. */
uint32_t container_header_bytes(const struct container_spec *spec);

/* Builds the header of a file that holds `frames` frames. In a W64 the size fields count
 * `claimed` ≥ frames instead; RIFF and RF64 ignore `claimed`. */
void container_header(const struct container_spec *spec, uint64_t frames, uint64_t claimed,
                      uint8_t header[CONTAINER_HEADER_MAX]);

/* Reads a header that container_header built: its shape in `spec` (riff_bytes_max 0) and the frames
 * that its size fields count. Returns false for any other bytes. `bytes` has `count` of them, from
 * the start of the file. */
bool container_header_read(const uint8_t *bytes, uint64_t count, struct container_spec *spec,
                           uint64_t *frames);

/* ---- a growing file ---------------------------------------------------------------------- */

struct container_file {
    struct container_spec spec;
    int fd; /* -1: not open */
    uint32_t frame_bytes, header_bytes;
    uint64_t frames;           /* written */
    uint64_t frames_in_header; /* that the header counts */
    uint64_t frames_claimed;   /* W64 only: that the size fields of the header count */
};

/* Creates `path` and writes a header for 0 frames. Returns 0, ERROR_NO_FILE when the file exists
 * or cannot be created (errno says which: EEXIST or another), or ERROR_SYSTEM when the header
 * cannot be written. */
int container_create(struct container_file *file, const char *path,
                     const struct container_spec *spec, struct problem *problem);

/* Appends `frames` interleaved frames. Returns how many it wrote: fewer when a write failed (errno
 * says why). The file then ends with the last whole frame. */
uint64_t container_append(struct container_file *file, const uint8_t *bytes, uint64_t frames);

/* Rewrites the header so that it counts every frame written. Returns 0 or ERROR_SYSTEM (errno). */
int container_flush(struct container_file *file);

/* Returns when the disk holds what has been written so far: 0 or ERROR_SYSTEM (errno). */
int container_sync(struct container_file *file);

/* Pads the last chunk, rewrites the header, waits for the disk when `sync` is set, and closes the
 * file. Returns 0 or ERROR_SYSTEM (errno of the first failure). Does nothing to a file that is not
 * open. */
int container_close(struct container_file *file, bool sync);

/* Makes the header of a file that its writer did not close agree with the file's length: cuts off a
 * part of a frame, pads the last chunk and rewrites the header. `fd` is open for reading and
 * writing. Returns 0 and the number of frames, ERROR_SYSTEM (errno), or ERROR_FORMAT when the file
 * ends before its first frame. */
int container_repair(int fd, const struct container_spec *spec, uint64_t *frames);

#endif
