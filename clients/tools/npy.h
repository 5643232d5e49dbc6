/*
 * NumPy arrays of shape (frames, channels), little endian: what tests write and read beside
 * recordings, in float64, and snapshots, in float32. Writing is by frame number in any order; the
 * header is made large enough at the start and completed at the end. An array that is there as a
 * whole is written at once.
 *
 * One owner.
 */
#ifndef CONVOLV_TOOLS_NPY_H
#define CONVOLV_TOOLS_NPY_H

#include <stdint.h>

#include "core/error.h"

struct npy;

int npy_create(const char *path, uint32_t channels, struct npy **out, struct problem *problem);
/* Frames [first, first + frames). Frames between the end so far and `first` become NaN: not known.
 */
int npy_write(struct npy *npy, uint64_t first, uint64_t frames, const double *values,
              struct problem *problem);
/* Takes frames from the end, so that at most so many are left. NULL is fine. */
int npy_shorten(struct npy *npy, uint64_t frames, struct problem *problem);
/* Completes the header. NULL is fine. */
int npy_close(struct npy *npy, struct problem *problem);

/* The whole array values[frames][channels] as float32 into an empty file; `path`: for messages. 0,
 * or ERROR_SYSTEM. The descriptor stays the caller's. */
int npy_write_floats(int descriptor, const char *path, const float *values, uint64_t frames,
                     uint32_t channels, struct problem *problem);

/* Reads float32 or float64, shape (frames) or (frames, channels), C order, as doubles. Free
 * *values. */
int npy_read(const char *path, double **values, uint64_t *frames, uint32_t *channels,
             struct problem *problem);

#endif
