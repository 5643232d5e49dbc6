/*
 * The exact frames of a ring that a plan's kernels took as zero because they are no number or
 * beyond the plan's limit; kernels report only the first and the last of a block. LOOP: reads the
 * ring's memory of the host, sample by sample.
 */
#include "convolve/engine.h"

#include <endian.h>
#include <math.h>
#include <string.h>

#include "convolve/plan/input_limit.h"
#include "convolve/plan/plan.h"
#include "convolve/plan/reference.h"

static bool is_present(const struct ring *ring, uint64_t slot)
{
    return (__atomic_load_n(&ring->present[slot / 32], __ATOMIC_RELAXED) >> (slot % 32) & 1) != 0;
}

/* What of a channel is read. */
struct scan {
    struct input_scale scale;
    struct sample_format format;
    uint32_t least; /* bits of a float code's magnitude that any greater one has at least */
    bool any;       /* some code is beyond the limit */
};

static void scan_open(struct scan *scan, const struct plan_reference *reference, uint32_t input)
{
    const struct input_scale scale =
        input_scale_of(&reference->format, &reference->scales[input], reference->input_limit);
    const float offset = fabsf(scale.offset_hi) + fabsf(scale.offset_lo);
    const float least = (scale.limit / fabsf(scale.scale) - offset) * (1 - 1e-6f);
    *scan = (struct scan){.scale = scale, .format = reference->format};
    scan->any =
        reference->format.kind == SAMPLE_FLOAT ||
        input_scale_binds(&reference->format, &reference->scales[input], reference->input_limit);
    if (reference->format.kind == SAMPLE_FLOAT && least > 0)
        memcpy(&scan->least, &least, sizeof scan->least);
}

static bool sample_fits(const struct scan *scan, const uint8_t *wire)
{
    if (scan->least > 0) { /* nearly all floats are smaller, which takes no arithmetic to see */
        uint32_t word;
        memcpy(&word, wire, sizeof word);
        word = scan->format.big_endian ? be32toh(word) : le32toh(word);
        if ((word & 0x7fffffffu) < scan->least)
            return true;
    }
    return input_sample_fits(&scan->scale, &scan->format, wire);
}

/* Adds a frame: to the last range where it is nearer than `apart` or there is no space for another.
 */
static uint32_t add_frame(uint64_t at, uint64_t apart, struct ring_range *ranges, uint32_t count,
                          uint32_t capacity)
{
    if (count > 0 && (at - ranges[count - 1].until < apart || count == capacity)) {
        ranges[count - 1].until = at + 1;
        return count;
    }
    ranges[count] = (struct ring_range){at, at + 1};
    return count + 1;
}

uint32_t engine_nonfinite(const struct plan *plan, const struct ring *ring, uint32_t input,
                          uint64_t from, uint64_t until, uint64_t apart, struct ring_range *ranges,
                          uint32_t capacity)
{
    struct scan scan;
    scan_open(&scan, plan->reference, input);
    const uint8_t *channel = ring->bytes + (size_t)input * scan.format.bytes;
    uint32_t count = 0;
    if (!scan.any)
        return 0;
    for (uint64_t at = from; at < until; at++) {
        const uint64_t slot = at & (ring->frames - 1);
        if (is_present(ring, slot) && !sample_fits(&scan, channel + slot * ring->frame_bytes))
            count = add_frame(at, apart, ranges, count, capacity);
    }
    return count;
}
