/* Recent levels: see recent.h. */
#include "stream/recent.h"

#include <math.h>
#include <stdlib.h>

enum { BUCKETS = 5 };

static const int64_t bucket_ns = 200000000;

struct bucket {
    int64_t number; /* now_ns / bucket_ns when it was begun */
    uint64_t frames;
    double sum_squares, peak;
};

struct recent {
    uint32_t channels;
    double *held;           /* [channels] */
    struct bucket *buckets; /* [channels][BUCKETS] */
};

struct recent *recent_open(uint32_t channels)
{
    struct recent *recent = calloc(1, sizeof *recent);
    if (recent == NULL)
        return NULL;
    recent->channels = channels;
    recent->held = calloc(channels, sizeof *recent->held);
    recent->buckets = calloc((size_t)channels * BUCKETS, sizeof *recent->buckets);
    if (recent->held != NULL && recent->buckets != NULL)
        return recent;
    recent_close(recent);
    return NULL;
}

void recent_close(struct recent *recent)
{
    if (recent == NULL)
        return;
    free(recent->held);
    free(recent->buckets);
    free(recent);
}

void recent_add(struct recent *recent, uint32_t channel, const struct recent_block *block,
                int64_t now_ns)
{
    const int64_t number = now_ns / bucket_ns;
    struct bucket *bucket = &recent->buckets[(size_t)channel * BUCKETS + number % BUCKETS];
    if (bucket->number != number)
        *bucket = (struct bucket){.number = number};
    bucket->frames += block->frames;
    bucket->sum_squares += block->sum_squares;
    bucket->peak = fmax(bucket->peak, block->peak);
    recent->held[channel] = fmax(recent->held[channel], block->peak);
}

void recent_read(const struct recent *recent, uint32_t channel, int64_t now_ns,
                 struct recent_levels *out)
{
    const int64_t number = now_ns / bucket_ns;
    uint64_t frames = 0;
    double sum_squares = 0;
    *out = (struct recent_levels){.held = recent->held[channel]};
    for (int b = 0; b < BUCKETS; b++) {
        const struct bucket *bucket = &recent->buckets[(size_t)channel * BUCKETS + (size_t)b];
        if (bucket->number <= number - BUCKETS || bucket->frames == 0)
            continue;
        frames += bucket->frames;
        sum_squares += bucket->sum_squares;
        out->peak = fmax(out->peak, bucket->peak);
    }
    out->known = frames > 0;
    out->rms = frames > 0 ? sqrt(sum_squares / (double)frames) : 0;
}

void recent_reset(struct recent *recent)
{
    for (uint32_t c = 0; c < recent->channels; c++)
        recent->held[c] = 0;
}
