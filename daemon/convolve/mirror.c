/* Copies to and from the mirror, see mirror.h. */
#include "convolve/mirror.h"

#include "convolve/plan/plan.h"

static const uint64_t apart_bytes = 256 << 10;

bool mirror_apart(const struct engine *engine, const struct slot *slot)
{
    uint64_t bytes = slot->samples_used * sizeof(float);
    for (uint32_t i = 0; i < slot->batch.count; i++) {
        const struct batch_item *item = &slot->batch.items[i];
        if (item->fresh_until > item->fresh_from)
            bytes += (item->fresh_until - item->fresh_from) * item->ring->frame_bytes;
    }
    return engine->device.in != NULL && (engine->running_count > 0 || bytes >= apart_bytes);
}

cl_int mirror_queue_follows(cl_command_queue before, cl_command_queue after)
{
    cl_event done = NULL;
    cl_int code = clEnqueueMarkerWithWaitList(before, 0, NULL, &done);
    if (code == CL_SUCCESS)
        code = clEnqueueBarrierWithWaitList(after, 1, &done, NULL);
    if (done != NULL)
        clReleaseEvent(done);
    return code;
}

static cl_int copy_in(cl_command_queue queue, struct arena *arena, uint64_t offset, uint64_t bytes,
                      _Atomic uint64_t *figure)
{
    if (bytes == 0)
        return CL_SUCCESS;
    traffic_add(figure, bytes);
    return clEnqueueWriteBuffer(queue, arena->device, CL_FALSE, offset, bytes, arena->host + offset,
                                0, NULL, NULL);
}

/* Ring slots [from, until) without a wrap: presence words, and bytes unless the device has them. */
static cl_int copy_slots(struct engine *engine, cl_command_queue queue,
                         const struct ring_memory *ring, bool bytes, uint64_t from, uint64_t until)
{
    const uint64_t frame_bytes = ring->ring.frame_bytes;
    cl_int code = CL_SUCCESS;
    if (bytes)
        code = copy_in(queue, &engine->device.input, ring->bytes_offset + from * frame_bytes,
                       (until - from) * frame_bytes, &engine->traffic.ring);
    if (code == CL_SUCCESS && until > from)
        code = copy_in(
            queue, &engine->device.input, ring->present_offset + from / 32 * sizeof(uint32_t),
            ((until - 1) / 32 - from / 32 + 1) * sizeof(uint32_t), &engine->traffic.presence);
    return code;
}

/* Ring positions [from, until), at most one lap of them. */
static cl_int copy_positions(struct engine *engine, cl_command_queue queue,
                             const struct ring_memory *ring, bool bytes, uint64_t from,
                             uint64_t until)
{
    const uint64_t frames = ring->ring.frames;
    if (until <= from)
        return CL_SUCCESS;
    if (until - from >= frames)
        return copy_slots(engine, queue, ring, bytes, 0, frames);
    const uint64_t first = from & (frames - 1), last = until & (frames - 1);
    if (first < last)
        return copy_slots(engine, queue, ring, bytes, first, last);
    cl_int code = copy_slots(engine, queue, ring, bytes, first, frames);
    return code == CL_SUCCESS ? copy_slots(engine, queue, ring, bytes, 0, last) : code;
}

/* Copies what the item reads of positions that a failure has made doubtful. What lies before it
 * stays doubtful, for a plan that reads farther back. */
static cl_int copy_stale(struct engine *engine, cl_command_queue queue,
                         const struct batch_item *item)
{
    struct ring_memory *ring = (struct ring_memory *)item->ring;
    if (ring->failure_seen != engine->failures) {
        ring->failure_seen = engine->failures;
        ring->stale_until = ring->mirrored_until;
    }
    const struct plan_info *info = &item->plan->info;
    const uint64_t reach =
        info->history_frames > info->taps_longest ? info->history_frames : info->taps_longest;
    const uint64_t from = item->position > reach ? item->position - reach : 0;
    if (from >= ring->stale_until)
        return CL_SUCCESS;
    const cl_int code = copy_positions(engine, queue, ring, true, from, ring->stale_until);
    ring->stale_until = from;
    return code;
}

static cl_int copy_item(struct engine *engine, cl_command_queue queue,
                        const struct batch_item *item)
{
    struct ring_memory *ring = (struct ring_memory *)item->ring;
    cl_int code = copy_stale(engine, queue, item);
    if (item->fresh_until > ring->mirrored_until)
        ring->mirrored_until = item->fresh_until;
    if (code == CL_SUCCESS)
        code = copy_positions(engine, queue, ring, true, item->fresh_from, item->fresh_until);
    if (code != CL_SUCCESS || !item->absent)
        return code;
    /* What was fed inside the device lacks its presence, which the kernels read from now on. */
    code = copy_positions(engine, queue, ring, false, ring->unseen_from, ring->unseen_until);
    ring->unseen_from = ring->unseen_until;
    return code;
}

cl_int mirror_copy_fresh(struct engine *engine, cl_command_queue queue, const struct batch *batch)
{
    cl_int code = CL_SUCCESS;
    for (uint32_t i = 0; code == CL_SUCCESS && i < batch->count; i++)
        code = copy_item(engine, queue, &batch->items[i]);
    return code;
}

cl_int mirror_copy_rows(struct engine *engine, cl_command_queue queue, const struct slot *slot)
{
    return copy_in(queue, &engine->device.table, slot->rows_offset * sizeof(struct row),
                   slot->rows_used * sizeof(struct row), &engine->traffic.table);
}

static cl_int copy_out(struct engine *engine, cl_command_queue queue, struct slot *slot,
                       uint64_t floats_offset, uint64_t floats)
{
    if (floats == 0)
        return CL_SUCCESS;
    if (slot->event != NULL)
        clReleaseEvent(slot->event);
    slot->event = NULL;
    const uint64_t offset = floats_offset * sizeof(float);
    traffic_add(&engine->traffic.result, floats * sizeof(float));
    return clEnqueueReadBuffer(queue, engine->device.output.device, CL_FALSE, offset,
                               floats * sizeof(float), engine->device.output.host + offset, 0, NULL,
                               &slot->event);
}

cl_int mirror_copy_results(struct engine *engine, cl_command_queue queue, struct slot *slot)
{
    cl_int code =
        copy_out(engine, queue, slot, slot->reports_offset, slot->reports_used * REPORT_FLOATS);
    return code == CL_SUCCESS
               ? copy_out(engine, queue, slot, slot->samples_offset, slot->samples_used)
               : code;
}
