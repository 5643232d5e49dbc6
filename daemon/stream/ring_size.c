/* The size of an input ring: see ring_size.h. */
#include "stream/ring_size.h"

#include <math.h>

#include "core/power.h"

enum {
    HISTORIES = 3,            /* one before a block, two between two epochs */
    WAITING_BLOCKS = 8,       /* results may wait this long for the device, or … */
    GAP_BYTES_MAX = 64 << 20, /* 1 s of 16 channels at 1 MHz and 32 bits */
    RING_FRAMES_MIN = 64      /* of the engine's rings */
};
static const double waiting_s = 0.5; /* … this long */

uint32_t ring_history_of(const struct plan_info *info)
{
    return info->history_frames > info->taps_longest ? info->history_frames : info->taps_longest;
}

struct ring_need ring_need_of(const struct stream_options *options, const struct plan_info *info)
{
    return (struct ring_need){
        .rate_hz = options->rate_hz,
        .frame_bytes = options->frame_bytes,
        .hop = info->hop,
        .history = ring_history_of(info),
        .blocks_in_flight = options->blocks_in_flight,
        .reorder_ns = options->reorder_ns,
        .max_gap_ns = options->max_gap_ns,
    };
}

static uint64_t frames_of_ns(const struct ring_need *need, int64_t ns)
{
    return (uint64_t)ceil((double)ns * need->rate_hz / 1e9);
}

/* What one epoch occupies beside what waits for the device, and beside a gap. */
static uint64_t one_epoch(const struct ring_need *need)
{
    return need->history + 2 * frames_of_ns(need, need->reorder_ns) +
           (uint64_t)(need->blocks_in_flight + 4) * need->hop;
}

uint64_t ring_size_least(const struct ring_need *need)
{
    return one_epoch(need) + (HISTORIES - 1) * (uint64_t)need->history + need->hop;
}

/* Frames that may wait for the device. */
static uint64_t waiting_frames(const struct ring_need *need, uint64_t wanted)
{
    const uint64_t least = WAITING_BLOCKS * (uint64_t)need->hop;
    if (wanted == 0)
        wanted = (uint64_t)ceil(waiting_s * need->rate_hz);
    return wanted > least ? wanted : least;
}

uint64_t ring_size_smaller(const struct ring_need *need, uint64_t frames)
{
    const uint64_t half = power_of_two_from(RING_FRAMES_MIN, frames) / 2;
    return half >= RING_FRAMES_MIN && half >= ring_size_least(need) ? half : 0;
}

int64_t ring_patience_ns(const struct ring_need *need, uint64_t frames_min, uint64_t frames)
{
    const uint64_t least = ring_size_least(need);
    uint64_t waiting = waiting_frames(need, frames_min);
    if (frames_min == 0 && frames < least + waiting)
        waiting = frames > least + need->hop ? frames - least : need->hop;
    return (int64_t)((double)waiting * 1e9 / need->rate_hz);
}

uint64_t ring_size_default(const struct ring_need *need)
{
    const uint64_t waiting = waiting_frames(need, 0);
    uint64_t gap = frames_of_ns(need, need->max_gap_ns);
    if (gap > GAP_BYTES_MAX / need->frame_bytes)
        gap = GAP_BYTES_MAX / need->frame_bytes;
    return ring_size_least(need) + waiting + gap;
}

uint64_t ring_size_grown(const struct ring_need *need, uint64_t frames, uint32_t before)
{
    return frames + HISTORIES * (uint64_t)(need->history - before);
}

uint64_t ring_size_gap_max(const struct ring_need *need, uint64_t frames)
{
    const uint64_t kept = one_epoch(need);
    return frames > 2 * kept ? frames - kept : frames / 2;
}

uint64_t ring_size_of_gap(const struct ring_need *need, uint64_t gap)
{
    const uint64_t kept = one_epoch(need);
    return gap > kept ? kept + gap : 2 * gap;
}
