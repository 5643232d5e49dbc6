/*
 * Sums over the samples of each channel: what RMS, average signal level, energy, crest factor and
 * kurtosis are made of. In double and in the order of frames, so that the sums of a stretch of
 * frames are the same to the last bit however it is cut.
 *
 * The moments about the mean are updated sample by sample (P. Pébay, Formulas for robust, one-pass
 * parallel computation of covariances and arbitrary-order statistical moments, Sandia
 * SAND2008-6212, 2008, eq. 3.1), so a constant far above the noise, or a loud first sample, costs
 * no digits.
 *
 * sums_add never allocates. One thread at a time.
 */
#ifndef CONVOLVD_ANALYSIS_SUMS_H
#define CONVOLVD_ANALYSIS_SUMS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/codec.h"

struct sums {
    uint32_t channels;
    bool moments, logarithms; /* whether those are summed; each takes time */
    uint64_t frames;          /* summed, the same for all channels */
    /* Each [channels]. */
    float *low, *high;                      /* least and greatest sample; INFINITY, -INFINITY */
    float *added_low, *added_high;          /* the same of the frames that were added last */
    double *absolute, *square;              /* of |x|, of x² */
    double *mean, *second, *third, *fourth; /* sums of (x - mean)², ³, ⁴ */
    /* Of ln |x| over the samples that are not 0: ln of a product that has grown too long, the
     * product since, and how many. */
    double *logarithm, *product;
    uint64_t *nonzero;
    void *memory;
};

/* Bytes that sums_open takes. */
uint64_t sums_memory(uint32_t channels);

/* 0 or ERROR_MEMORY. Empty sums. */
int sums_open(struct sums *sums, uint32_t channels, bool moments, bool logarithms);
void sums_close(struct sums *sums);

void sums_clear(struct sums *sums);

/* samples[frames][channels], at most SUMS_FRAMES: few enough to stay in the cache for all passes.
 */
enum { SUMS_FRAMES = 128 };
void sums_add(struct sums *sums, const float *samples, uint32_t frames);

/* Of one channel; all NAN without a frame. */
double sums_rms(const struct sums *sums, uint32_t channel);
double sums_peak(const struct sums *sums, uint32_t channel);     /* largest |x| */
double sums_kurtosis(const struct sums *sums, uint32_t channel); /* NAN too when all are equal */
double sums_mean_absolute(const struct sums *sums, uint32_t channel);
/* The geometric mean of |x| over the samples that are not 0; NAN when all are. */
double sums_geometric(const struct sums *sums, uint32_t channel);

/* All but what sums_open was given. */
void sums_walk(struct sums *sums, struct codec *codec);

#endif
