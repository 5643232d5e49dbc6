/* A-scans: see ascan.h. */
#include "ascan.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"

int ascan_open(struct ascan *ascan, uint32_t frames, uint64_t period, uint32_t average,
               const uint16_t *list, uint32_t channels)
{
    *ascan = (struct ascan){
        .frames = frames, .channels = channels, .average = average, .period = period};
    memcpy(ascan->list, list, channels * sizeof *list);
    ascan->sums = calloc((size_t)channels * frames, sizeof *ascan->sums);
    ascan->causes = calloc(frames, sizeof *ascan->causes);
    return ascan->sums != NULL && ascan->causes != NULL ? 0 : ERROR_MEMORY;
}

void ascan_close(struct ascan *ascan)
{
    free(ascan->sums);
    free(ascan->causes);
    memset(ascan, 0, sizeof *ascan);
}

void ascan_clear(struct ascan *ascan)
{
    ascan->averages = 0;
    memset(ascan->sums, 0, (size_t)ascan->channels * ascan->frames * sizeof *ascan->sums);
    memset(ascan->causes, 0, ascan->frames * sizeof *ascan->causes);
}

static void add(struct ascan *ascan, const struct trace *trace, uint64_t first)
{
    for (uint32_t n = 0; n < ascan->frames; n++) {
        const float *frame = trace_frame(trace, first + n);
        ascan->causes[n] |= trace_causes(trace, first + n);
        for (uint32_t c = 0; c < ascan->channels; c++)
            ascan->sums[(size_t)c * ascan->frames + n] += (double)frame[ascan->list[c]];
    }
    ascan->averages++;
    ascan->first_epoch = trace->epoch;
    ascan->first_frame = first;
}

bool ascan_take(struct ascan *ascan, const struct trace *trace)
{
    if (ascan->averages >= ascan->average)
        return false; /* complete, and not cleared yet */
    if (!ascan->begun || trace->epoch != ascan->epoch) {
        ascan->begun = true;
        ascan->epoch = trace->epoch;
        ascan->next = 0;
    }
    /* What the trace has lost is left out, whole A-scans at a time. */
    if (ascan->next < trace->oldest && ascan->period == 0)
        return false;
    if (ascan->next < trace->oldest)
        ascan->next = (trace->oldest + ascan->period - 1) / ascan->period * ascan->period;
    if (ascan->next + ascan->frames > trace->next || ascan->next == UINT64_MAX)
        return false;
    add(ascan, trace, ascan->next);
    ascan->next = ascan->period == 0 ? UINT64_MAX - ascan->frames : ascan->next + ascan->period;
    return ascan->averages == ascan->average;
}

void ascan_read(const struct ascan *ascan, float *values)
{
    const size_t count = (size_t)ascan->channels * ascan->frames;
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(ascan->sums[i] / ascan->averages);
}
