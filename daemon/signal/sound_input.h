/*
 * Sound input: a sound file on disk or in memory, read through libsndfile with the size fields that
 * its header should have (sound_header.h). A recording whose writer died is thus read to its end,
 * and a truncated one as far as it goes, whatever libsndfile makes of such headers. The caller
 * compares what came with what `header` announces.
 *
 * One owner at a time; any thread but the loop.
 */
#ifndef CONVOLVD_SIGNAL_SOUND_INPUT_H
#define CONVOLVD_SIGNAL_SOUND_INPUT_H

#include <stdint.h>

#include <sndfile.h>

#include "signal/sound_header.h"

/* Outlives the SNDFILE that is opened with it, at the same address. */
struct sound_input {
    const uint8_t *data; /* in memory: [bytes]; else NULL */
    int fd;              /* on disk; else -1 */
    uint64_t bytes;
    sf_count_t at; /* next byte that libsndfile reads */
    struct sound_header header;
};

/* Opens a regular file and reads its header. Returns 0, or errno. Close with sound_input_close. */
int sound_input_file(struct sound_input *input, const char *path);

/* The same of bytes in memory, which outlive it; cannot fail. */
void sound_input_memory(struct sound_input *input, const void *data, uint64_t bytes);

/* Opens it for reading from the first frame on and fills *info, whose `frames` is SF_COUNT_MAX for
 * a FLAC. NULL when libsndfile cannot read it: sf_strerror(NULL) says why. Close with sf_close. */
SNDFILE *sound_input_open(struct sound_input *input, SF_INFO *info);

/* Copies bytes with the right size fields; false when they cannot be read. */
bool sound_input_read(struct sound_input *input, uint64_t at, void *to, uint64_t bytes);

/* Closes the file. Safe for one that was zeroed with fd -1. */
void sound_input_close(struct sound_input *input);

#endif
