/*
 * Smallest and largest sample of each channel over some interleaved frames, in one vectorised pass.
 * All that the detector of hits looks at while channels are idle: from the two it knows whether any
 * sample lies above a threshold, and whether any was below 0 or above 0 in between.
 *
 * Exact in any order. Pure functions, any thread.
 */
#ifndef CONVOLVD_ANALYSIS_EXTREMES_H
#define CONVOLVD_ANALYSIS_EXTREMES_H

#include <stddef.h>
#include <stdint.h>

/* smallest[channels], largest[channels] of samples[frames][channels]; frames and channels ≥ 1, no
 * sample is NaN. */
void extremes_find(const float *samples, size_t frames, size_t channels, float *smallest,
                   float *largest);

#endif
