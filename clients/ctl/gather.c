/* Gathering: see gather.h. */
#include "clients/ctl/gather.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "stream/packet.h"

static const uint32_t absent_cause = UINT32_C(1) << INVALID_CAUSES;

int gather_open(struct gather *gather, uint64_t frames, uint32_t input_channels,
                uint32_t output_channels, uint32_t decimation)
{
    *gather = (struct gather){.frames = frames, .decimation = decimation};
    gather->input.channels = input_channels;
    gather->output.channels = output_channels;
    gather->input.values = calloc(frames, input_channels * sizeof(float));
    gather->output.values = calloc(frames, output_channels * sizeof(float));
    if (gather->input.values != NULL && gather->output.values != NULL)
        return 0;
    gather_close(gather);
    return ERROR_MEMORY;
}

void gather_close(struct gather *gather)
{
    free(gather->input.values);
    free(gather->output.values);
    gather->input.values = gather->output.values = NULL;
}

static void begin_side(struct gather_side *side, uint64_t first_frame)
{
    side->first_frame = first_frame;
    side->frames = side->range_count = 0;
    side->capture_ns = 0;
}

void gather_reset(struct gather *gather)
{
    const bool whole = gather->input.frames == gather->frames;
    const uint64_t in_a_row = whole ? gather->output.frames : gather->input.frames;
    if (gather->begun && in_a_row > gather->longest)
        gather->longest = in_a_row;
    gather->begun = false;
}

/* The input begins with this record. */
static void begin(struct gather *gather, const struct watch_head *head)
{
    const uint64_t first = head->first_frame, step = gather->decimation;
    gather->begun = true;
    gather->epoch = head->epoch;
    gather->record = head->record;
    begin_side(&gather->input, first);
    begin_side(&gather->output, first / step + (first % step != 0));
}

static void add_range(struct gather_side *side, uint64_t from, uint64_t until, uint32_t causes)
{
    struct gather_range *last = side->range_count > 0 ? &side->ranges[side->range_count - 1] : NULL;
    if (last != NULL && last->until == from && last->causes == causes) {
        last->until = until;
    } else if (side->range_count < GATHER_RANGES_MAX) {
        side->ranges[side->range_count++] = (struct gather_range){from, until, causes};
    } else {
        last->from = from < last->from ? from : last->from;
        last->until = until > last->until ? until : last->until;
        last->causes |= causes;
    }
}

/* `frames` frames from point `from` of the record on. */
static void append(struct gather_side *side, const struct watch_record *record, uint32_t from,
                   uint32_t frames)
{
    const struct watch_head *head = &record->head;
    const uint32_t channels = side->channels;
    float *values = side->values + side->frames * channels;
    if (side->frames == 0 && head->capture_ns != 0)
        side->capture_ns = head->capture_ns + clock_round_ns((double)from / head->rate_hz * 1e9);
    memcpy(values, record->values + (size_t)from * channels,
           (size_t)frames * channels * sizeof *values);
    for (uint32_t i = 0; i < head->range_count; i++) {
        const struct watch_range *range = &record->ranges[i];
        const uint32_t end = range->from + range->points, until = from + frames;
        const uint32_t first = range->from > from ? range->from : from;
        const uint32_t last = end < until ? end : until;
        if (first >= last)
            continue;
        add_range(side, head->first_frame + first, head->first_frame + last, range->causes);
        for (size_t n = (size_t)(first - from) * channels;
             (range->causes & absent_cause) != 0 && n < (size_t)(last - from) * channels; n++)
            values[n] = NAN;
    }
    side->frames += frames;
}

/* Whether the record goes on with the side; *from: at which of its points. */
static bool follows(const struct gather *gather, const struct gather_side *side,
                    const struct watch_head *head, uint32_t *from)
{
    const uint64_t next = side->first_frame + side->frames;
    if (head->epoch != gather->epoch || head->first_frame > next)
        return false;
    if (head->first_frame < next && side->frames > 0)
        return false;
    *from = (uint32_t)(next - head->first_frame);
    return true;
}

enum gather_state gather_put(struct gather *gather, const struct watch_record *record)
{
    const struct watch_head *head = &record->head;
    const bool input = (head->flags & WATCH_INPUT) != 0;
    struct gather_side *side = input ? &gather->input : &gather->output;
    enum gather_state state = GATHER_MORE;
    uint32_t from = 0;
    if (head->kind != WATCH_FRAMES || head->channels != side->channels)
        return GATHER_MORE;
    if (gather->begun && side->frames == gather->frames)
        return GATHER_MORE; /* the other side is not there yet */
    const bool before =
        !input &&
        (!gather->begun || head->epoch < gather->epoch ||
         (head->epoch == gather->epoch && head->first_frame + head->points <= side->first_frame));
    if (before)
        return GATHER_MORE;
    if (gather->begun && !follows(gather, side, head, &from)) {
        gather_reset(gather);
        state = head->epoch == gather->epoch ? GATHER_SKIPPED : GATHER_BROKEN;
        if (!input)
            return state;
    }
    if (!gather->begun)
        begin(gather, head);
    const uint64_t left = gather->frames - side->frames, there = head->points - from;
    append(side, record, from, (uint32_t)(there < left ? there : left));
    return gather->input.frames == gather->frames && gather->output.frames == gather->frames
               ? GATHER_WHOLE
               : state;
}
