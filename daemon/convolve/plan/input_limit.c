/* The limit of input samples, see input_limit.h. */
#include "convolve/plan/input_limit.h"

#include <math.h>

static double magnitude_sum(const struct taps *taps)
{
    double sum = 0;
    for (uint32_t k = 0; k < taps->count; k++)
        sum += taps->im == NULL ? fabs(taps->re[k])
                                : sqrt(taps->re[k] * taps->re[k] + taps->im[k] * taps->im[k]);
    return sum;
}

double input_limit(const struct edge *edges, uint32_t edge_count, const struct taps *const *taps,
                   uint32_t taps_count)
{
    double gains[CHANNELS_MAX] = {0}, greatest = 1;
    for (uint32_t t = 0; t < taps_count; t++) {
        const double sum = magnitude_sum(taps[t]);
        for (uint32_t e = 0; e < edge_count; e++)
            if (edges[e].taps == t)
                gains[edges[e].output] += fabs((double)edges[e].gain) * sum;
    }
    for (uint32_t o = 0; o < CHANNELS_MAX; o++)
        greatest = fmax(greatest, gains[o]);
    return INPUT_LIMIT_MOST / greatest;
}

/* Physical value of one code. */
static double code_scale(const struct sample_format *format, const struct channel_scale *scale)
{
    const double factor = channel_scale_factor(scale);
    return format->kind == SAMPLE_FLOAT ? factor : ldexp(factor, 1 - (int)format->bits);
}

struct input_scale input_scale_of(const struct sample_format *format,
                                  const struct channel_scale *scale, double limit)
{
    const double code = code_scale(format, scale), offset = scale->offset / code;
    const double most = fmin(limit, INPUT_LIMIT_MOST * fabs(code));
    struct input_scale made = {
        .scale = (float)code,
        .offset_hi = (float)offset,
        .limit = (float)most,
        .overflow = (float)(fabs(code) / most * 0x1p128 * (1 + 1e-6)),
    };
    made.offset_lo = (float)(offset - (double)made.offset_hi);
    return made;
}

bool input_scale_binds(const struct sample_format *format, const struct channel_scale *scale,
                       double limit)
{
    const struct input_scale made = input_scale_of(format, scale, limit);
    return !(channel_scale_factor(scale) + fabs(scale->offset) <= (double)made.limit * (1 - 1e-6));
}

bool input_sample_fits(const struct input_scale *scale, const struct sample_format *format,
                       const uint8_t *wire)
{
    const double code = format->kind == SAMPLE_FLOAT
                            ? sample_decode(format, wire)
                            : ldexp(sample_decode(format, wire), (int)format->bits - 1);
    const float high = (float)code, low = (float)(code - (double)high);
    const float value = ((high - scale->offset_hi) + (low - scale->offset_lo)) * scale->scale;
    return fabsf(value) <= scale->limit;
}
