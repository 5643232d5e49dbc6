/*
 * Shared by the files that read taps (taps_file.c, taps_npy.c, taps_text.c) and by nobody else: the
 * file in memory, and the sets of taps that it becomes. The bytes are not trusted: each reader
 * checks every length before it uses it.
 *
 * Worker threads.
 */
#ifndef CONVOLVD_FILTER_TAPS_READING_H
#define CONVOLVD_FILTER_TAPS_READING_H

#include "filter/taps.h"

enum { TAPS_SETS_MAX = 1024 /* as many as a stream has channels */ };

/* The file being read and where the taps go. */
struct reading {
    const char *name;
    const uint8_t *data;
    uint64_t bytes;
    struct taps **sets;
    uint32_t count;
    struct problem *problem;
};

/* Makes so many sets of zeroed taps. Returns 0, ERROR_FORMAT (none), ERROR_LIMIT or ERROR_MEMORY.
 */
int reading_create(struct reading *r, uint32_t sets, uint64_t taps, bool complex_taps);

/* .npy (NumPy enhancement proposal 1), and one tap a line. */
int reading_npy(struct reading *r);
int reading_text(struct reading *r);

#endif
