/* Sums of channels: see sums.h. */
#include "analysis/sums.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "signal/extract.h"

/* Channels side by side in vectors, which the compiler cuts to what the machine has. */
enum { LANES = 4 };

typedef double doubles __attribute__((vector_size(LANES * sizeof(double))));
typedef float floats __attribute__((vector_size(LANES * sizeof(float))));
typedef uint64_t words __attribute__((vector_size(LANES * sizeof(uint64_t))));

/* A product of samples is logged before it leaves the range of a double: a float adds at most 39
 * decades up or 45 down. */
#define PRODUCT_LEAST 1e-200
#define PRODUCT_MOST  1e200

/* ---- life -------------------------------------------------------------------------------- */

enum { DOUBLES = 8 };

uint64_t sums_memory(uint32_t channels)
{
    return (uint64_t)channels * (DOUBLES * sizeof(double) + sizeof(uint64_t) + 4 * sizeof(float));
}

int sums_open(struct sums *sums, uint32_t channels, bool moments, bool logarithms)
{
    *sums = (struct sums){.channels = channels, .moments = moments, .logarithms = logarithms};
    sums->memory = malloc(sums_memory(channels));
    if (sums->memory == NULL)
        return ERROR_MEMORY;
    double *next = sums->memory;
    double **const arrays[DOUBLES] = {&sums->absolute, &sums->square,   &sums->mean,
                                      &sums->second,   &sums->third,    &sums->fourth,
                                      &sums->product,  &sums->logarithm};
    for (int i = 0; i < DOUBLES; i++, next += channels)
        *arrays[i] = next;
    sums->nonzero = (uint64_t *)(void *)next;
    sums->low = (float *)(void *)(sums->nonzero + channels);
    sums->high = sums->low + channels;
    sums->added_low = sums->high + channels;
    sums->added_high = sums->added_low + channels;
    sums_clear(sums);
    return 0;
}

void sums_close(struct sums *sums)
{
    free(sums->memory);
    *sums = (struct sums){0};
}

void sums_clear(struct sums *sums)
{
    sums->frames = 0;
    memset(sums->memory, 0, sums_memory(sums->channels));
    for (uint32_t c = 0; c < sums->channels; c++) {
        sums->low[c] = INFINITY;
        sums->high[c] = -INFINITY;
        sums->product[c] = 1;
    }
}

/* ---- adding ------------------------------------------------------------------------------ */

#define ALWAYS_INLINE static inline __attribute__((always_inline)) void

/* `lanes` of LANES values; a constant where it is called. */
#define LOAD(vector, from, lanes)                                                                  \
    do {                                                                                           \
        (vector) = (doubles){0};                                                                   \
        memcpy(&(vector), (from), (lanes) * sizeof(double));                                       \
    } while (0)
#define STORE(to, vector, lanes) memcpy((to), &(vector), (lanes) * sizeof(double))

/* The samples of `lanes` channels of one frame. */
#define LOAD_SAMPLES(vector, at, lanes)                                                            \
    do {                                                                                           \
        floats samples_ = {0};                                                                     \
        memcpy(&samples_, (at), (lanes) * sizeof(float));                                          \
        (vector) = __builtin_convertvector(samples_, doubles);                                     \
    } while (0)

/* Channels c … c + lanes - 1. */
ALWAYS_INLINE add_plain(struct sums *sums, uint32_t c, const float *at, uint32_t frames,
                        const uint32_t lanes)
{
    const words magnitude = ~(words){0} >> 1;
    doubles x, absolute, square;
    LOAD(absolute, &sums->absolute[c], lanes);
    LOAD(square, &sums->square[c], lanes);
    for (uint32_t n = 0; n < frames; n++, at += sums->channels) {
        LOAD_SAMPLES(x, at, lanes);
        absolute += (doubles)((words)x & magnitude);
        square += x * x;
    }
    STORE(&sums->absolute[c], absolute, lanes);
    STORE(&sums->square[c], square, lanes);
}

ALWAYS_INLINE add_moments(struct sums *sums, uint32_t c, const float *at, uint32_t frames,
                          const double *reciprocals, const uint32_t lanes)
{
    doubles x, mean, second, third, fourth;
    LOAD(mean, &sums->mean[c], lanes);
    LOAD(second, &sums->second[c], lanes);
    LOAD(third, &sums->third[c], lanes);
    LOAD(fourth, &sums->fourth[c], lanes);
    double before = (double)sums->frames;
    for (uint32_t n = 0; n < frames; n++, before++, at += sums->channels) {
        const double more = before - 1, curve = before * before - before + 1; /* n²-3n+3 */
        LOAD_SAMPLES(x, at, lanes);
        const doubles delta = x - mean;
        const doubles step = delta * reciprocals[n];
        const doubles square = step * step;
        const doubles term = delta * step * before;
        fourth += term * square * curve + 6 * square * second - 4 * step * third;
        third += term * step * more - 3 * step * second;
        second += term;
        mean += step;
    }
    STORE(&sums->mean[c], mean, lanes);
    STORE(&sums->second[c], second, lanes);
    STORE(&sums->third[c], third, lanes);
    STORE(&sums->fourth[c], fourth, lanes);
}

ALWAYS_INLINE add_lanes(struct sums *sums, uint32_t c, const float *samples, uint32_t frames,
                        const double *reciprocals, const uint32_t lanes)
{
    add_plain(sums, c, samples + c, frames, lanes);
    if (sums->moments)
        add_moments(sums, c, samples + c, frames, reciprocals, lanes);
}

/* A logarithm for some forty samples instead of one for each. */
static void add_logarithms(struct sums *sums, uint32_t c, const float *at, uint32_t frames)
{
    double product = sums->product[c];
    for (uint32_t n = 0; n < frames; n++, at += sums->channels) {
        if (*at == 0.0f)
            continue;
        product *= fabs((double)*at);
        sums->nonzero[c]++;
        if (!(product > PRODUCT_LEAST && product < PRODUCT_MOST)) {
            sums->logarithm[c] += log(product);
            product = 1;
        }
    }
    sums->product[c] = product;
}

static void add_extremes(struct sums *sums, const float *samples, uint32_t frames)
{
    const struct extract extract = {
        .format = {.kind = SAMPLE_FLOAT,
                   .bytes = sizeof *samples,
                   .bits = 32,
                   .big_endian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__},
        .bytes = (const uint8_t *)samples,
        .stride = sums->channels * sizeof *samples,
        .channels = sums->channels,
    };
    for (uint32_t c = 0; c < sums->channels; c++) {
        sums->added_low[c] = INFINITY;
        sums->added_high[c] = -INFINITY;
    }
    extract_minmax(&extract, frames, sums->added_low, sums->added_high);
    for (uint32_t c = 0; c < sums->channels; c++) {
        sums->low[c] = fminf(sums->low[c], sums->added_low[c]);
        sums->high[c] = fmaxf(sums->high[c], sums->added_high[c]);
    }
}

void sums_add(struct sums *sums, const float *samples, uint32_t frames)
{
    assert(frames <= SUMS_FRAMES);
    add_extremes(sums, samples, frames);
    double reciprocals[SUMS_FRAMES];
    for (uint32_t n = 0; sums->moments && n < frames; n++)
        reciprocals[n] = 1 / (double)(sums->frames + n + 1);
    uint32_t c = 0;
    for (; c + LANES <= sums->channels; c += LANES)
        add_lanes(sums, c, samples, frames, reciprocals, LANES);
    for (; c + 2 <= sums->channels; c += 2)
        add_lanes(sums, c, samples, frames, reciprocals, 2);
    for (; c < sums->channels; c++)
        add_lanes(sums, c, samples, frames, reciprocals, 1);
    for (c = 0; sums->logarithms && c < sums->channels; c++)
        add_logarithms(sums, c, samples + c, frames);
    sums->frames += frames;
}

/* ---- results ----------------------------------------------------------------------------- */

static double per_frame(const struct sums *sums, double sum)
{
    return sums->frames > 0 ? sum / (double)sums->frames : NAN;
}

double sums_rms(const struct sums *sums, uint32_t channel)
{
    return sqrt(per_frame(sums, sums->square[channel]));
}

double sums_peak(const struct sums *sums, uint32_t channel)
{
    return sums->frames > 0
               ? fmax(fabs((double)sums->low[channel]), fabs((double)sums->high[channel]))
               : NAN;
}

double sums_kurtosis(const struct sums *sums, uint32_t channel)
{
    const double variance = per_frame(sums, sums->second[channel]);
    return variance > 0 ? per_frame(sums, sums->fourth[channel]) / (variance * variance) : NAN;
}

double sums_mean_absolute(const struct sums *sums, uint32_t channel)
{
    return per_frame(sums, sums->absolute[channel]);
}

double sums_geometric(const struct sums *sums, uint32_t channel)
{
    const uint64_t count = sums->nonzero[channel];
    return count > 0 ? exp((sums->logarithm[channel] + log(sums->product[channel])) / (double)count)
                     : NAN;
}

void sums_walk(struct sums *sums, struct codec *codec)
{
    codec_u64(codec, &sums->frames);
    for (uint32_t c = 0; c < sums->channels; c++) {
        double low = (double)sums->low[c], high = (double)sums->high[c];
        codec_f64(codec, &low);
        codec_f64(codec, &high);
        if (codec_reads(codec)) {
            sums->low[c] = (float)low;
            sums->high[c] = (float)high;
        }
        codec_f64(codec, &sums->absolute[c]);
        codec_f64(codec, &sums->square[c]);
        codec_f64(codec, &sums->mean[c]);
        codec_f64(codec, &sums->second[c]);
        codec_f64(codec, &sums->third[c]);
        codec_f64(codec, &sums->fourth[c]);
        codec_f64(codec, &sums->logarithm[c]);
        codec_f64(codec, &sums->product[c]);
        codec_u64(codec, &sums->nonzero[c]);
    }
}
