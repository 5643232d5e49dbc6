/*
 * Sound header: how many frames the header of a sound file announces, how many bytes of them the
 * file holds, and the size fields that would make both agree. libsndfile reports the smaller of the
 * two figures and no difference between them, so readers ask here.
 *
 * Reads WAV (RIFF, RIFX), RF64, BW64, W64, AIFF, AIFF-C, CAF, AU and the STREAMINFO of FLAC. The
 * bytes are not trusted: every size is checked before it is used, and a walk over chunks is
 * bounded.
 *
 * Pure functions over a reader of bytes; any thread but the loop.
 */
#ifndef CONVOLVD_SIGNAL_SOUND_HEADER_H
#define CONVOLVD_SIGNAL_SOUND_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes of a file, wherever they are. */
struct sound_bytes {
    void *context;
    uint64_t length;
    /* Copies `bytes` bytes from offset `at` on; false when they cannot be read. */
    bool (*read)(void *context, uint64_t at, void *to, size_t bytes);
};

enum sound_container {
    SOUND_OTHER, /* none of the following */
    SOUND_WAV,
    SOUND_RF64,
    SOUND_W64,
    SOUND_AIFF,
    SOUND_CAF,
    SOUND_AU,
    SOUND_FLAC,
};

/* "WAV", "RF64" …; "" for SOUND_OTHER. */
const char *sound_container_name(enum sound_container container);

enum sound_length {
    SOUND_LENGTH_UNKNOWN,    /* the header leaves it open, as of a file written through a pipe */
    SOUND_LENGTH_WHOLE,      /* the file holds what its header announces */
    SOUND_LENGTH_SHORT,      /* the file ends before what its header announces */
    SOUND_LENGTH_UNFINISHED, /* more samples follow than the header counts: its writer died */
};

/* Bytes that belong at an offset of the file. */
struct sound_patch {
    uint64_t at;
    uint32_t bytes;
    uint8_t value[16];
};

enum { SOUND_PATCHES_MAX = 8 };

struct sound_header {
    enum sound_container container;
    enum sound_length length;
    uint32_t channels, bits; /* 0: not known */
    bool floats;
    uint64_t rate_hz;     /* as the header says, rounded; may be beyond what libsndfile reads */
    uint32_t frame_bytes; /* 0: compressed samples, or not known */
    uint64_t data_at;     /* byte offset of the first frame */
    uint64_t announced;   /* frames; 0 where the length is unknown */
    uint64_t held;        /* frames in the file; FLAC: as announced, which only reading proves */
    bool two_data_chunks;
    bool no_data; /* a container without a chunk of samples */
    /* The size fields of a header that fits the file; none if it fits, or if its fields are too
     * small (`unpatchable`). */
    uint32_t patch_count;
    struct sound_patch patches[SOUND_PATCHES_MAX];
    bool unpatchable;
};

/* Fills *header; a file that is none of the above is SOUND_OTHER with an unknown length. */
void sound_header_read(const struct sound_bytes *bytes, struct sound_header *header);

#endif
