/* The envelope: see envelope.h. */
#include "envelope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

int envelope_open(struct envelope *envelope, const uint16_t *list, uint32_t channels,
                  uint32_t points, uint64_t frames_per_point)
{
    *envelope = (struct envelope){
        .channels = channels, .points = points, .frames_per_point = frames_per_point};
    envelope->list = calloc(channels, sizeof *envelope->list);
    envelope->values = calloc((size_t)points * channels * 2, sizeof *envelope->values);
    envelope->causes = calloc(points, sizeof *envelope->causes);
    if (envelope->list == NULL || envelope->values == NULL || envelope->causes == NULL)
        return ERROR_MEMORY;
    for (uint32_t c = 0; c < channels; c++)
        envelope->list[c] = list != NULL ? list[c] : (uint16_t)c;
    return 0;
}

void envelope_close(struct envelope *envelope)
{
    free(envelope->list);
    free(envelope->values);
    free(envelope->causes);
    memset(envelope, 0, sizeof *envelope);
}

static float *values_of(const struct envelope *e, uint64_t point)
{
    return e->values + (size_t)(point % e->points) * e->channels * 2;
}

/* Points up to `until` are there, not seen yet. */
static void extend(struct envelope *e, uint64_t until)
{
    if (until - e->next > e->points)
        e->next = until - e->points;
    for (; e->next < until; e->next++) {
        float *values = values_of(e, e->next);
        for (uint32_t c = 0; c < e->channels; c++) {
            values[2 * c] = INFINITY;
            values[2 * c + 1] = -INFINITY;
        }
        e->causes[e->next % e->points] = 0;
    }
}

void envelope_put(struct envelope *e, uint64_t epoch, uint64_t frame, int64_t capture_ns,
                  uint16_t causes, const float *values, uint32_t first_channel, uint32_t count)
{
    const uint64_t point = frame / e->frames_per_point;
    if (!e->begun || epoch != e->epoch || point + e->points < e->next) {
        e->begun = true;
        e->epoch = epoch;
        e->first = e->next = point;
    }
    if (point >= e->next)
        extend(e, point + 1);
    if (point + e->points < e->next || point < e->first)
        return;
    if (point + 1 == e->next)
        e->capture_ns = capture_ns;
    float *out = values_of(e, point);
    e->causes[point % e->points] |= causes;
    for (uint32_t c = 0; c < e->channels; c++) {
        const uint32_t from = e->list[c] - first_channel;
        if (e->list[c] < first_channel || from >= count)
            continue;
        out[2 * c] = fminf(out[2 * c], values[2 * from]);
        out[2 * c + 1] = fmaxf(out[2 * c + 1], values[2 * from + 1]);
    }
}

uint64_t envelope_read(const struct envelope *e, float *values, uint16_t *causes)
{
    const uint64_t oldest = e->next > e->points ? e->next - e->points : 0;
    const uint64_t missing = e->points - (e->next - oldest);
    for (uint32_t p = 0; p < e->points; p++) {
        const uint64_t point = oldest + p - missing;
        const bool seen = p >= missing && point >= e->first;
        const float *from = values_of(e, seen ? point : 0);
        causes[p] = seen ? e->causes[point % e->points] : CAUSE_UNSEEN;
        for (uint32_t c = 0; c < e->channels; c++) {
            const bool any = seen && from[2 * c] <= from[2 * c + 1];
            float *out = values + (size_t)c * 2 * e->points + p;
            out[0] = any ? from[2 * c] : 0;
            out[e->points] = any ? from[2 * c + 1] : 0;
            if (!any)
                causes[p] |= CAUSE_UNSEEN;
        }
    }
    return oldest * e->frames_per_point;
}
