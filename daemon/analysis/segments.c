/* Segments of a group of frames: see segments.h. */
#include "analysis/segments.h"

#include <stdlib.h>

#include "core/error.h"

int segments_open(struct segments *s, uint32_t channels, uint32_t points, uint32_t hop,
                  uint64_t length)
{
    *s = (struct segments){0};
    if (validity_open(&s->validity, channels) != 0)
        return ERROR_MEMORY;
    if (points == 0)
        return 0;
    s->points = points;
    s->bins = spectrum_bins(points);
    s->hop = hop;
    s->most = (length - points) / hop + 1;
    s->window = calloc(points, sizeof *s->window);
    if (s->window == NULL || spectrum_plan_open(points, &s->plan) != 0)
        return ERROR_MEMORY;
    spectrum_window(SPECTRUM_HANN, points, s->window);
    return 0;
}

void segments_close(struct segments *s)
{
    spectrum_plan_close(s->plan);
    free(s->window);
    validity_close(&s->validity);
    *s = (struct segments){0};
}

uint64_t segments_memory(uint32_t channels, uint32_t points)
{
    const uint64_t spectrum = points > 0 ? spectrum_memory(points) + points * sizeof(double) : 0;
    return spectrum + channels * sizeof(uint64_t);
}

void segments_begin(struct segments *s)
{
    validity_begin(&s->validity);
    segments_clear(s);
}

void segments_clear(struct segments *s)
{
    s->next = s->summed = 0;
}

void segments_put(struct segments *s, const struct analysis_run *run, uint64_t first,
                  uint64_t until, void (*add)(void *context, const float *samples), void *context)
{
    for (; s->next < s->most; s->next++) {
        const uint64_t from = first + s->next * s->hop, end = from + s->points;
        if (end > until)
            break;
        validity_take(&s->validity, run, end);
        if (validity_causes(&s->validity, from) != 0 || run->samples == NULL ||
            from + run->history < run->first_frame)
            continue;
        const int64_t ahead = (int64_t)from - (int64_t)run->first_frame;
        add(context, run->samples + ahead * (int64_t)run->channels);
        s->summed++;
    }
    validity_take(&s->validity, run, until);
}

void segments_prepare(const struct segments *s, const double *x, double *out)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->points; i++)
        sum += x[i];
    const double mean = sum / s->points;
    for (uint32_t i = 0; i < s->points; i++)
        out[i] = (x[i] - mean) * s->window[i];
}

bool segments_walk(struct segments *s, struct codec *codec)
{
    validity_walk(&s->validity, codec);
    codec_u64(codec, &s->next);
    codec_u64(codec, &s->summed);
    return s->next <= s->most && s->summed <= s->next;
}
