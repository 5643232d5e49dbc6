/* Traces: see trace.h. */
#include "trace.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"

int trace_open(struct trace *trace, uint32_t channels, uint32_t frames, double rate_hz)
{
    uint32_t capacity = 1;
    while (capacity < frames)
        capacity *= 2;
    *trace = (struct trace){.channels = channels, .capacity = capacity, .rate_hz = rate_hz};
    trace->values = calloc((size_t)capacity * channels, sizeof *trace->values);
    trace->causes = calloc(capacity, sizeof *trace->causes);
    return trace->values != NULL && trace->causes != NULL ? 0 : ERROR_MEMORY;
}

void trace_close(struct trace *trace)
{
    free(trace->values);
    free(trace->causes);
    memset(trace, 0, sizeof *trace);
}

bool trace_restarts(const struct trace *trace, uint64_t epoch, uint64_t first_frame)
{
    return !trace->begun || epoch != trace->epoch || first_frame < trace->next;
}

/* Room for frames up to `until`, the oldest going. */
static void make_room(struct trace *trace, uint64_t until)
{
    if (until > trace->capacity && until - trace->capacity > trace->oldest)
        trace->oldest = until - trace->capacity;
}

static void fill_unseen(struct trace *trace, uint64_t until)
{
    if (until - trace->next > trace->capacity)
        trace->next = until - trace->capacity;
    for (; trace->next < until; trace->next++) {
        const size_t slot = trace->next & (trace->capacity - 1);
        memset(trace->values + slot * trace->channels, 0, trace->channels * sizeof *trace->values);
        trace->causes[slot] = CAUSE_UNSEEN;
    }
    make_room(trace, until);
}

void trace_put(struct trace *trace, uint64_t epoch, uint64_t first_frame, uint32_t frames,
               const float *values)
{
    if (trace_restarts(trace, epoch, first_frame)) {
        trace->begun = true;
        trace->ended = false;
        trace->epoch = epoch;
        trace->oldest = trace->next = first_frame;
        trace->from_start = first_frame == 0;
    }
    if (frames > trace->capacity) {
        values += (size_t)(frames - trace->capacity) * trace->channels;
        first_frame += frames - trace->capacity;
        frames = trace->capacity;
    }
    fill_unseen(trace, first_frame);
    for (uint32_t n = 0; n < frames; n++) {
        const size_t slot = (first_frame + n) & (trace->capacity - 1);
        memcpy(trace->values + slot * trace->channels, values + (size_t)n * trace->channels,
               trace->channels * sizeof *values);
        trace->causes[slot] = 0;
    }
    trace->next = first_frame + frames;
    make_room(trace, trace->next);
}

void trace_mark(struct trace *trace, uint64_t from, uint64_t until, uint16_t causes)
{
    from = from > trace->oldest ? from : trace->oldest;
    until = until < trace->next ? until : trace->next;
    for (uint64_t frame = from; frame < until; frame++)
        trace->causes[frame & (trace->capacity - 1)] |= causes;
}

int64_t trace_capture_ns(const struct trace *trace, uint64_t frame)
{
    if (trace->capture_ns == 0)
        return 0;
    const double frames = frame >= trace->capture_frame ? (double)(frame - trace->capture_frame)
                                                        : -(double)(trace->capture_frame - frame);
    return trace->capture_ns + clock_round_ns(frames / trace->rate_hz * 1e9);
}
