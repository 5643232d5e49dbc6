/*
 * A sound file in memory, read through libsndfile as if it lay on disk.
 *
 * One owner at a time; any thread but the loop.
 */
#ifndef CONVOLVD_SIGNAL_SOUND_MEMORY_H
#define CONVOLVD_SIGNAL_SOUND_MEMORY_H

#include <stdint.h>

#include <sndfile.h>

struct sound_memory {
    const uint8_t *data; /* [bytes]; outlives the SNDFILE, as the struct itself does */
    uint64_t bytes;
    sf_count_t at; /* where libsndfile reads next; 0 at first */
};

/* Opens the file for reading and fills *info. NULL when it is no sound file that libsndfile knows:
 * sf_strerror(NULL) says why. Close with sf_close. */
SNDFILE *sound_open_memory(struct sound_memory *memory, SF_INFO *info);

#endif
