/* The RMS of noise: see noise.h. */
#include "analysis/noise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

enum { TILE = 16 }; /* channels whose sums stay in registers */

int noise_open(struct noise *noise, uint32_t channels, uint64_t interval, uint64_t time)
{
    *noise = (struct noise){.interval = interval};
    if (interval == 0)
        return 0;
    noise->channels = channels;
    noise->weight = -expm1(-(double)interval / (double)time);
    noise->square = calloc(channels, sizeof *noise->square);
    noise->mean = calloc(channels, sizeof *noise->mean);
    noise->spoilt = calloc(channels, sizeof *noise->spoilt);
    if (noise->square != NULL && noise->mean != NULL && noise->spoilt != NULL) {
        noise_forget(noise);
        return 0;
    }
    noise_close(noise);
    return ERROR_MEMORY;
}

void noise_close(struct noise *noise)
{
    free(noise->square);
    free(noise->mean);
    free(noise->spoilt);
    *noise = (struct noise){.interval = 0};
}

void noise_restart(struct noise *noise, uint64_t frame)
{
    if (noise->interval == 0)
        return;
    noise->from = frame;
    memset(noise->square, 0, noise->channels * sizeof *noise->square);
    memset(noise->spoilt, 0, noise->channels * sizeof *noise->spoilt);
}

void noise_forget(struct noise *noise)
{
    for (uint32_t channel = 0; channel < noise->channels; channel++)
        noise->mean[channel] = NAN;
}

static void add_tile(double *square, const float *samples, uint32_t frames, size_t stride)
{
    double sums[TILE];
    memcpy(sums, square, sizeof sums);
    for (uint32_t frame = 0; frame < frames; frame++) {
        const float *x = samples + frame * stride;
        for (int i = 0; i < TILE; i++)
            sums[i] += (double)x[i] * (double)x[i];
    }
    memcpy(square, sums, sizeof sums);
}

bool noise_add(struct noise *noise, const float *samples, uint64_t first, uint32_t frames)
{
    if (noise->interval == 0)
        return false;
    uint32_t channel = 0;
    for (; channel + TILE <= noise->channels; channel += TILE)
        add_tile(noise->square + channel, samples + channel, frames, noise->channels);
    for (; channel < noise->channels; channel++) {
        double sum = noise->square[channel];
        const float *x = samples + channel;
        for (uint32_t frame = 0; frame < frames; frame++, x += noise->channels)
            sum += (double)*x * (double)*x;
        noise->square[channel] = sum;
    }
    const uint64_t end = first + frames;
    if (end % noise->interval != 0)
        return false;
    const bool complete = noise->from <= end - noise->interval;
    if (!complete)
        noise_restart(noise, end);
    else
        noise->from = end;
    return complete;
}

double noise_take(struct noise *noise, uint32_t channel)
{
    const double square = noise->square[channel] / (double)noise->interval;
    const bool spoilt = noise->spoilt[channel] != 0;
    double *mean = &noise->mean[channel];
    *mean = isnan(*mean) ? square : *mean + noise->weight * (square - *mean);
    noise->square[channel] = 0;
    noise->spoilt[channel] = 0;
    return spoilt ? (double)NAN : sqrt(square);
}

double noise_average(const struct noise *noise, uint32_t channel)
{
    return sqrt(noise->mean[channel]);
}

void noise_walk(struct noise *noise, struct codec *codec)
{
    if (noise->interval == 0)
        return;
    codec_u64(codec, &noise->from);
    for (uint32_t i = 0; i < noise->channels; i++) {
        codec_f64(codec, &noise->square[i]);
        codec_f64(codec, &noise->mean[i]);
        codec_u8(codec, &noise->spoilt[i]);
    }
}
