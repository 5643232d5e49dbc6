/* The rings of an engine, see rings.h. */
#include "convolve/rings.h"

#include <stdlib.h>

#include "core/power.h"
#include "device/device.h"

int rings_take(struct rings *rings, uint64_t frames_min, uint32_t frame_bytes, struct ring **out,
               struct problem *problem)
{
    struct device *device = rings->device;
    const uint64_t frames = power_of_two_from(64, frames_min);
    if (frames > UINT64_C(1) << 31 || frame_bytes == 0)
        return problem_set(
            problem, ERROR_LIMIT,
            "a ring of %llu frames of %u bytes cannot be made: use shorter filters or blocks",
            (unsigned long long)frames_min, frame_bytes);
    struct ring_memory *ring = calloc(1, sizeof *ring);
    if (ring == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for a ring");
    int error = arena_take(&device->input, device->upload, frames * frame_bytes,
                           &ring->bytes_offset, problem);
    if (error == 0) {
        error =
            arena_take(&device->input, device->upload, frames / 8, &ring->present_offset, problem);
        if (error < 0)
            arena_give(&device->input, ring->bytes_offset);
    }
    if (error < 0) {
        free(ring);
        return error;
    }
    arena_populate(&device->input, ring->bytes_offset, frames * frame_bytes);
    arena_populate(&device->input, ring->present_offset, frames / 8);
    ring->ring.bytes = device->input.host + ring->bytes_offset;
    ring->ring.present = (uint32_t *)(void *)(device->input.host + ring->present_offset);
    ring->ring.frames = (uint32_t)frames;
    ring->ring.frame_bytes = frame_bytes;
    ring->serial = ++rings->serial;
    rings->open++;
    *out = &ring->ring;
    return 0;
}

void rings_give(struct rings *rings, struct ring *ring)
{
    if (ring == NULL)
        return;
    struct device *device = rings->device;
    struct ring_memory *memory = (struct ring_memory *)ring;
    arena_give(&device->input, memory->bytes_offset);
    arena_give(&device->input, memory->present_offset);
    rings->open--;
    free(memory);
}

void ring_unseen(struct ring_memory *ring, uint64_t from, uint64_t until)
{
    if (until <= from)
        return;
    if (ring->unseen_from == ring->unseen_until)
        ring->unseen_from = ring->unseen_until = from;
    if (from < ring->unseen_from)
        ring->unseen_from = from;
    if (until > ring->unseen_until)
        ring->unseen_until = until;
}
