/* The spectrum: see spectrum.h. */
#include "spectrum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "signal/reference.h"

/* Cosine sums, periodic: a0 - a1 cos x + a2 cos 2x - …, from F. J. Harris, Proc. IEEE 66, 1978; the
 * flat top is that of ISO 18431-2. */
static const double windows[][5] = {
    [WINDOW_HANN] = {0.5, 0.5},
    [WINDOW_RECTANGULAR] = {1},
    [WINDOW_BLACKMAN_HARRIS] = {0.35875, 0.48829, 0.14128, 0.01168},
    [WINDOW_FLAT_TOP] = {1, 1.933, 1.286, 0.388, 0.0322},
};

static double window_at(enum window window, double x)
{
    double value = 0;
    for (int k = 0; k < 5; k++)
        value += (k % 2 == 0 ? 1 : -1) * windows[window][k] * cos(k * x);
    return value;
}

int spectrum_open(struct spectrum *spectrum, uint32_t fft, enum window window, double rate_hz,
                  const uint16_t *list, uint32_t channels)
{
    const size_t bins = fft / 2 + 1;
    *spectrum = (struct spectrum){.fft = fft, .channels = channels, .epoch = UINT64_MAX};
    memcpy(spectrum->list, list, channels * sizeof *list);
    spectrum->window = calloc(fft, sizeof *spectrum->window);
    spectrum->sums = calloc(bins * channels, sizeof *spectrum->sums);
    spectrum->work = calloc(2 * (size_t)fft, sizeof *spectrum->work);
    if (spectrum->window == NULL || spectrum->sums == NULL || spectrum->work == NULL)
        return ERROR_MEMORY;
    double power = 0;
    for (uint32_t n = 0; n < fft; n++) {
        spectrum->window[n] = window_at(window, 2 * M_PI * n / fft);
        power += spectrum->window[n] * spectrum->window[n];
    }
    spectrum->scale = 2 / (rate_hz * power);
    return 0;
}

void spectrum_close(struct spectrum *spectrum)
{
    free(spectrum->window);
    free(spectrum->sums);
    free(spectrum->work);
    memset(spectrum, 0, sizeof *spectrum);
}

void spectrum_clear(struct spectrum *spectrum)
{
    spectrum->averages = 0;
    memset(spectrum->sums, 0,
           (size_t)spectrum->channels * (spectrum->fft / 2 + 1) * sizeof *spectrum->sums);
}

/* Two real channels in one complex transform: Z = X + iY, X and Y its even and odd parts. */
static void add_pair(struct spectrum *s, const struct trace *trace, uint64_t first, uint32_t a,
                     uint32_t b)
{
    const uint32_t n = s->fft, bins = n / 2 + 1;
    double *z = s->work, *sum_a = s->sums + (size_t)a * bins, *sum_b = s->sums + (size_t)b * bins;
    for (uint32_t i = 0; i < n; i++) {
        const float *frame = trace_frame(trace, first + i);
        z[2 * i] = (double)frame[s->list[a]] * s->window[i];
        z[2 * i + 1] = a != b ? (double)frame[s->list[b]] * s->window[i] : 0;
    }
    if (reference_fft(z, n, -1) != 0)
        return;
    for (uint32_t k = 0; k < bins; k++) {
        const double *p = z + 2 * (size_t)k, *q = z + 2 * (size_t)((n - k) & (n - 1));
        const double xr = (p[0] + q[0]) / 2, xi = (p[1] - q[1]) / 2;
        const double yr = (p[1] + q[1]) / 2, yi = (q[0] - p[0]) / 2;
        sum_a[k] += xr * xr + xi * xi;
        if (a != b)
            sum_b[k] += yr * yr + yi * yi;
    }
}

static bool is_valid(const struct trace *trace, uint64_t first, uint32_t frames)
{
    for (uint32_t n = 0; n < frames; n++)
        if (trace_causes(trace, first + n) != 0)
            return false;
    return true;
}

uint32_t spectrum_take(struct spectrum *s, const struct trace *trace, uint32_t most)
{
    const uint32_t step = s->fft / 2;
    uint32_t added = 0;
    if (trace->epoch != s->epoch || s->position > trace->next) {
        s->epoch = trace->epoch;
        s->position = trace->oldest;
    }
    if (s->position < trace->oldest)
        s->position = trace->oldest;
    const uint64_t room = (uint64_t)s->fft + (uint64_t)step * most;
    if (trace->next - s->position > room)
        s->position = trace->next - room;
    for (; s->position + s->fft <= trace->next && added < most; s->position += step) {
        if (!is_valid(trace, s->position, s->fft))
            continue;
        for (uint32_t c = 0; c < s->channels; c += 2)
            add_pair(s, trace, s->position, c, c + 1 < s->channels ? c + 1 : c);
        s->averages++;
        added++;
    }
    return added;
}

void spectrum_read(const struct spectrum *s, float *density)
{
    const uint32_t bins = s->fft / 2 + 1;
    for (uint32_t c = 0; c < s->channels; c++) {
        const double *sums = s->sums + (size_t)c * bins;
        for (uint32_t k = 0; k < bins; k++) {
            const double both = k == 0 || k == s->fft / 2 ? 0.5 : 1;
            *density++ = (float)(sums[k] * s->scale * both / s->averages);
        }
    }
}
