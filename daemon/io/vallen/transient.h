/*
 * Transients as files hold them: 16-bit codes, raw little-endian or as a whole mono FLAC file.
 *
 * The rate in the FLAC header means nothing (44100, as the instruments write): libsndfile refuses
 * rates beyond 655350, and the column SampleRate of the record is right.
 *
 * Pure but for memory; any thread.
 */
#ifndef CONVOLVD_IO_VALLEN_TRANSIENT_H
#define CONVOLVD_IO_VALLEN_TRANSIENT_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

/* The column DataFormat. */
enum vallen_format {
    VALLEN_RAW = 0,
    VALLEN_FLAC = 2,
};

/* codes[i] = samples[i] / step, rounded to nearest even, clipped to 16 bits; what is no number
 * becomes 0. step > 0, in the samples' unit. Returns how many were clipped or no number. */
uint64_t vallen_quantise(const float *samples, size_t count, double step, int16_t *codes);

/* A growing buffer; all zero: empty. */
struct vallen_blob {
    uint8_t *bytes;
    size_t count, capacity;
};

void vallen_blob_free(struct vallen_blob *blob);

/* Encodes codes as a FLAC file into `blob`, replacing what it held. 0, ERROR_MEMORY, or
 * ERROR_FORMAT where the encoder refuses. */
int vallen_flac_encode(const int16_t *codes, size_t count, struct vallen_blob *blob);

/*
 * Decodes a record that declares `samples` samples into codes[samples]. The bytes are not trusted.
 * Returns 0, or ERROR_FORMAT: not exactly so many 16-bit samples of one channel, damaged, or in a
 * format that is neither VALLEN_RAW nor VALLEN_FLAC.
 */
int vallen_decode(int64_t format, const uint8_t *bytes, size_t count, size_t samples,
                  int16_t *codes);

#endif
