/*
 * W64 files that libsndfile misreads. Up to version 1.2 it takes a W64 whose fmt chunk is
 * extensible (as ffmpeg writes it above 48 kHz or with more than two channels) for integers, even
 * where the chunk's sub-format says floats, and returns the floats' bits as samples. Readers ask
 * here first.
 *
 * Pure functions over bytes and files, any thread but the loop.
 */
#ifndef CONVOLVD_SIGNAL_SOUND_FILE_H
#define CONVOLVD_SIGNAL_SOUND_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SOUND_HEAD_BYTES = 4096 };

/* True when the file that begins with these bytes (SOUND_HEAD_BYTES suffice) is such a W64. */
bool sound_head_is_w64_float(const uint8_t *head, size_t bytes);

/* The same of a file; false when it cannot be read. */
bool sound_is_w64_float(const char *path);

/* The end of an error message that begins with the file's name. */
#define SOUND_W64_FLOAT_ADVICE                                                                     \
    "is a W64 of floats with an extensible header, which libsndfile takes for integers; write it " \
    "as RF64 (ffmpeg -i IN -c:a pcm_f32le -rf64 always OUT.wav)"

#endif
