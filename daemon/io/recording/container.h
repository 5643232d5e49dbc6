/*
 * Containers: the headers of WAV, RF64 and W64 recordings, and a file that grows behind one.
 *
 * The header stands at the file's start with a fixed size and is rewritten in place, so a file
 * is readable up to the frame its header names however the process ended; the sizes of a W64 that
 * grows run up to a second ahead of it, and readers take the file's end. A WAV keeps 28 bytes
 * (JUNK) from its first moment on in which it becomes RF64 once a 32-bit size no longer holds
 * (EBU Tech 3306; ITU-R BS.2088): no byte of data moves.
 *
 *     RIFF size WAVE | JUNK or ds64 (28) | fmt | fact (float) | data size | frames …
 *
 * Written here rather than through libsndfile because a disk that fills up must leave whole
 * frames, and the place of every rewrite must be known; libsndfile reads them back in the tests.
 * One thread at a time.
 */
#ifndef CONVOLVD_IO_RECORDING_CONTAINER_H
#define CONVOLVD_IO_RECORDING_CONTAINER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "wire/format.h"

enum container {
    CONTAINER_WAV, /* RF64 when it grows past what RIFF can say */
    CONTAINER_RF64,
    CONTAINER_W64,
    CONTAINERS,
};

/* "wav", "rf64", "w64". Returns 0 or ERROR_ARGUMENT. */
int container_parse(const char *name, enum container *container);

struct container_spec {
    enum container container;
    uint32_t rate_hz;            /* at most 2^31 - 1: what readers take */
    uint32_t channels;           /* frame bytes at most 65535 */
    struct sample_format format; /* u8, s16le, s24le, s32le or f32le, all bits */
    uint64_t riff_bytes_max;     /* largest size RIFF may say; 0: 2^32 - 1 */
};

enum { CONTAINER_HEADER_MAX = 136 };

/* True when the format can stand in a container. */
bool container_format_valid(const struct sample_format *format);

/* Bytes of the header: the same for any number of frames. */
uint32_t container_header_bytes(const struct container_spec *spec);

/* The header of a file of `frames` frames. */
void container_header(const struct container_spec *spec, uint64_t frames,
                      uint8_t header[CONTAINER_HEADER_MAX]);

/* ---- a growing file ---------------------------------------------------------------------- */

struct container_file {
    struct container_spec spec;
    int fd; /* -1: not open */
    uint32_t frame_bytes, header_bytes;
    uint64_t frames; /* written */
    uint64_t frames_in_header;
    uint64_t frames_claimed; /* W64 only: frames that the sizes in its header speak of */
};

/* Creates `path`, which must not exist (ERROR_NO_FILE with errno kept), and writes a header of 0
 * frames. */
int container_create(struct container_file *file, const char *path,
                     const struct container_spec *spec, struct problem *problem);

/* Appends whole frames. Returns how many were written: fewer than asked when the disk failed (errno
 * says why); the file then ends after them. */
uint64_t container_append(struct container_file *file, const uint8_t *bytes, uint64_t frames);

/* Makes the header name every frame written. Returns 0 or ERROR_SYSTEM (errno). */
int container_flush(struct container_file *file);

/* Pads, rewrites the header, closes. Returns 0 or ERROR_SYSTEM (errno). A file that is not open is
 * fine. */
int container_close(struct container_file *file);

#endif
