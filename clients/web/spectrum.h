/*
 * The spectrum: power density by Welch's method (P. D. Welch, IEEE Trans. Audio Electroacoust. 15,
 * 1967): segments of `fft` frames that overlap by half, windowed, transformed in double and
 * averaged. One-sided, in unit²/Hz: its sum over all bins times the bins' width is the mean square
 * of the signal. Segments with an invalid frame are left out.
 *
 * One owner; allocates in open only.
 */
#ifndef CONVOLV_WEB_SPECTRUM_H
#define CONVOLV_WEB_SPECTRUM_H

#include "trace.h"
#include "want.h"

struct spectrum {
    uint32_t fft, channels;
    uint16_t list[WANT_SPECTRUM_CHANNELS]; /* of the trace */
    double *window;                        /* [fft] */
    double scale; /* |X|² to unit²/Hz, of bins that stand for both signs of their frequency */
    double *sums; /* [channels][fft / 2 + 1] */
    double *work; /* [2 fft] */
    uint32_t averages;        /* segments in `sums` */
    uint64_t epoch, position; /* the next segment's first frame */
};

/* 0 or ERROR_MEMORY; close either way. */
int spectrum_open(struct spectrum *spectrum, uint32_t fft, enum window window, double rate_hz,
                  const uint16_t *list, uint32_t channels);
void spectrum_close(struct spectrum *spectrum); /* a zeroed one is fine */

/* Averages at most `most` of the segments that have become whole; older ones than the trace keeps,
 * or than those, are left out. Returns how many it has added. */
uint32_t spectrum_take(struct spectrum *spectrum, const struct trace *trace, uint32_t most);
/* density[channels][fft / 2 + 1] of the average; `averages` is at least 1. */
void spectrum_read(const struct spectrum *spectrum, float *density);
void spectrum_clear(struct spectrum *spectrum); /* the average begins anew */

#endif
