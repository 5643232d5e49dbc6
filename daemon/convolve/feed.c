/* Feeds, see feed.h. */
#include "convolve/feed.h"

#include "convolve/rings.h"
#include "convolve/traffic.h"
#include "core/log.h"
#include "device/device.h"

bool feeds_add(struct feeds *feeds, struct ring *ring, uint64_t changed_from, uint64_t position,
               const void *samples, uint32_t frames)
{
    const uint8_t *from = samples, *output = feeds->device->output.host;
    const uint64_t bytes = (uint64_t)frames * ring->frame_bytes;
    if (from < output || from + bytes > output + feeds->device->output.bytes)
        return false;
    if (!feeds->device->mirrored || frames == 0)
        return true; /* the ring's memory is the device's */
    struct ring_memory *memory = (struct ring_memory *)ring;
    struct feed *feed = &feeds->feeds[feeds->next % (2 * FEEDS_MAX)];
    *feed = (struct feed){.ring = memory,
                          .changed_from = changed_from,
                          .position = position,
                          .source_offset = (uint64_t)(from - output),
                          .frames = frames};
    atomic_fetch_add(&memory->feeds_waiting, 1);
    if (!spsc_push(&feeds->waiting, feed)) {
        atomic_fetch_sub(&memory->feeds_waiting, 1);
        return false;
    }
    feeds->next++;
    return true;
}

/* `frames` frames to the slots from `slot` on, without a wrap. */
static cl_int copy_to_slots(struct feeds *feeds, const struct ring_memory *ring, uint64_t source,
                            uint64_t slot, uint64_t frames)
{
    const uint64_t frame_bytes = ring->ring.frame_bytes;
    if (frames == 0)
        return CL_SUCCESS;
    traffic_add(&feeds->traffic->fed, frames * frame_bytes);
    return clEnqueueCopyBuffer(
        feeds->device->compute[0], feeds->device->output.device, feeds->device->input.device,
        source, ring->bytes_offset + slot * frame_bytes, frames * frame_bytes, 0, NULL, NULL);
}

static cl_int feed_launch(struct feeds *feeds, const struct feed *feed)
{
    struct ring_memory *ring = feed->ring;
    const uint64_t slots = ring->ring.frames, slot = feed->position & (slots - 1);
    const uint64_t first = feed->frames < slots - slot ? feed->frames : slots - slot;
    const uint64_t until = feed->position + feed->frames;
    if (until > ring->mirrored_until)
        ring->mirrored_until = until;
    cl_int code = copy_to_slots(feeds, ring, feed->source_offset, slot, first);
    if (code == CL_SUCCESS)
        code = copy_to_slots(feeds, ring, feed->source_offset + first * ring->ring.frame_bytes, 0,
                             feed->frames - first);
    ring_unseen(ring, feed->changed_from, until);
    return code;
}

cl_int feeds_launch(struct feeds *feeds, bool *any)
{
    cl_int code = CL_SUCCESS;
    struct feed *feed;
    while ((feed = spsc_pop(&feeds->waiting)) != NULL) {
        struct ring_memory *ring = feed->ring;
        *any = true;
        cl_int answer = feed_launch(feeds, feed);
        if (answer != CL_SUCCESS && code == CL_SUCCESS)
            log_error("the device refused a copy inside its memory: %s", opencl_error_name(answer));
        code = answer != CL_SUCCESS ? answer : code;
        atomic_fetch_sub(&ring->feeds_waiting, 1);
    }
    return code;
}

void feeds_drop(struct feeds *feeds)
{
    struct feed *feed;
    while ((feed = spsc_pop(&feeds->waiting)) != NULL)
        atomic_fetch_sub(&feed->ring->feeds_waiting, 1);
}
