/*
 * The RMS of each channel over frames [kI, (k+1)I) of the epoch, all of them valid, in two forms.
 * The RMS of noise is that of the last interval in which nothing lay above the threshold and no hit
 * was open. The average is that of all intervals, with hits or without: the first interval's mean
 * square m, and at each later one M + (1 - exp(-I/T)) (m - M) with the averaging time T. Squares
 * are added in double, in the order of frames. With an interval of 0 nothing is measured and every
 * function returns at once.
 *
 * Never allocates after `open`. One owner.
 */
#ifndef CONVOLVD_ANALYSIS_NOISE_H
#define CONVOLVD_ANALYSIS_NOISE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/codec.h"

struct noise {
    uint32_t channels;
    uint64_t interval; /* I; 0: nothing is measured */
    double weight;     /* of a new interval in the average: 1 - exp(-I/T) */
    double *square;    /* [channels] */
    double *mean;      /* [channels]: M; NAN: no interval has ended */
    uint8_t *spoilt;   /* [channels] */
    uint64_t from;     /* first valid frame that is summed */
};

enum { noise_channel_bytes = 2 * sizeof(double) + sizeof(uint8_t) };

/* time: T in frames, at least 1. 0 or ERROR_MEMORY. */
int noise_open(struct noise *noise, uint32_t channels, uint64_t interval, uint64_t time);
void noise_close(struct noise *noise);

/* Valid frames begin with `frame`. */
void noise_restart(struct noise *noise, uint64_t frame);

/* An epoch begins: the average has no past. */
void noise_forget(struct noise *noise);

/* The interval that holds `frame` ends there, or `until` if that comes first. */
static inline uint64_t noise_limit(const struct noise *noise, uint64_t frame, uint64_t until)
{
    if (noise->interval == 0)
        return until;
    const uint64_t end = (frame / noise->interval + 1) * noise->interval;
    return end < until ? end : until;
}

/* The channel's interval is not noise alone. */
static inline void noise_spoil(struct noise *noise, uint32_t channel)
{
    if (noise->interval > 0)
        noise->spoilt[channel] = 1;
}

/* Adds samples[frames][channels], of frame `first` on, within one interval. True: it is complete,
 * and noise_take follows for every channel. */
bool noise_add(struct noise *noise, const float *samples, uint64_t first, uint32_t frames);

/* The RMS of the interval, NAN when it was spoilt; the channel's next begins. */
double noise_take(struct noise *noise, uint32_t channel);

/* The RMS of all intervals that noise_take has ended, averaged over time. */
double noise_average(const struct noise *noise, uint32_t channel);

void noise_walk(struct noise *noise, struct codec *codec);

#endif
