/* A tacho: see tacho.h. */
#include "analysis/tacho.h"

#include <math.h>

void tacho_cut(struct tacho *tacho)
{
    tacho->armed = tacho->known = false;
}

void tacho_clear(struct tacho *tacho)
{
    tacho->count = 0;
    tacho->total = tacho->shortest = tacho->longest = 0;
}

/* `fraction` of the way from the frame to the next one. */
static void pulse(struct tacho *tacho, uint64_t frame, double fraction)
{
    if (tacho->known) {
        const double distance = (double)(frame - tacho->frame) + (fraction - tacho->fraction);
        tacho->shortest = tacho->count == 0 ? distance : fmin(tacho->shortest, distance);
        tacho->longest = fmax(tacho->longest, distance);
        tacho->total += distance;
        tacho->count++;
    }
    tacho->known = true;
    tacho->frame = frame;
    tacho->fraction = fraction;
}

void tacho_add(struct tacho *tacho, const struct tacho_rules *rules, const float *samples,
               uint32_t stride, uint64_t first, uint64_t frames)
{
    for (uint64_t i = 0; i < frames; i++) {
        const double x = samples[i * stride];
        if (tacho->armed && x > rules->level) {
            /* Armed, so the sample before was not above the level. */
            pulse(tacho, first + i - 1, (rules->level - tacho->before) / (x - tacho->before));
            tacho->armed = false;
        }
        tacho->armed = tacho->armed || x < rules->rearm;
        tacho->before = x;
    }
}

double tacho_rate(const struct tacho *tacho)
{
    return tacho->count > 0 ? (double)tacho->count / tacho->total : NAN;
}

double tacho_change(const struct tacho *tacho)
{
    return (tacho->longest - tacho->shortest) * tacho_rate(tacho);
}

void tacho_walk(struct tacho *tacho, struct codec *codec)
{
    codec_bool(codec, &tacho->armed);
    codec_bool(codec, &tacho->known);
    codec_f64(codec, &tacho->before);
    codec_u64(codec, &tacho->frame);
    codec_f64(codec, &tacho->fraction);
    codec_u64(codec, &tacho->count);
    codec_f64(codec, &tacho->total);
    codec_f64(codec, &tacho->shortest);
    codec_f64(codec, &tacho->longest);
}
