/* Threshold crossings: see crossings.h. */
#include "analysis/crossings.h"

#include <math.h>

void crossings_cut(struct crossings *crossings)
{
    crossings->fresh = true;
    crossings->open = false;
    crossings->idle_from = 0;
}

/* Frame n lies above: it continues the open hit, falls into a lockout or begins a hit. */
static void put_above(struct crossings *w, const struct crossing_rules *rules, uint64_t n)
{
    if (w->open) {
        const uint64_t quiet = w->last + rules->hdt, full = w->begin + rules->longest - 1;
        if (n <= quiet && n <= full) {
            w->last = n;
            return;
        }
        w->open = false;
        w->idle_from = quiet < full ? quiet + rules->hlt + 1 : full + 1;
    }
    if (n < w->idle_from)
        return;
    w->open = true;
    w->begin = w->last = n;
    w->begun++;
}

void crossings_add(struct crossings *crossings, const struct crossing_rules *rules,
                   const float *samples, uint32_t stride, uint64_t first, uint32_t frames,
                   float low, float high)
{
    struct crossings *w = crossings;
    const double threshold = rules->threshold;
    if (!w->fresh && (double)high <= threshold && -(double)low <= threshold) {
        w->armed_up = w->armed_up || low < 0;
        w->armed_down = w->armed_down || high > 0;
        w->was_above = false;
        return;
    }
    if (w->fresh) {
        const double x = (double)samples[0];
        w->armed_up = x <= threshold;
        w->armed_down = x >= -threshold;
        w->was_above = x > threshold;
        w->fresh = false;
    }
    for (uint32_t i = 0; i < frames; i++, samples += stride) {
        const double x = (double)*samples;
        w->armed_up = w->armed_up || x < 0;
        w->armed_down = w->armed_down || x > 0;
        const bool above = x > threshold, below = x < -threshold;
        if (above && w->armed_up) {
            w->up++;
            w->armed_up = false;
        }
        if (below && w->armed_down) {
            w->down++;
            w->armed_down = false;
        }
        w->plain += above && !w->was_above;
        w->was_above = above;
        if (above || below)
            put_above(w, rules, first + i);
    }
}

void crossings_walk(struct crossings *crossings, struct codec *codec)
{
    codec_bool(codec, &crossings->fresh);
    codec_bool(codec, &crossings->armed_up);
    codec_bool(codec, &crossings->armed_down);
    codec_bool(codec, &crossings->was_above);
    codec_bool(codec, &crossings->open);
    codec_u64(codec, &crossings->begin);
    codec_u64(codec, &crossings->last);
    codec_u64(codec, &crossings->idle_from);
    codec_u64(codec, &crossings->up);
    codec_u64(codec, &crossings->down);
    codec_u64(codec, &crossings->plain);
    codec_u64(codec, &crossings->begun);
}
