/* Copies to and from the mirror, see mirror.h. */
#include "convolve/mirror.h"

#include "convolve/plan/plan.h"
#include "convolve/reports.h"
#include "core/clock.h"
#include "signal/decimation.h"

static const uint64_t apart_bytes = 1 << 20;

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

/* What to copy of a ring's positions. */
enum { COPY_BYTES = 1, COPY_PRESENCE = 2 };

/* Bytes of rings that the device has been sent. */
static uint64_t copied_in(const struct engine *engine)
{
    return atomic_load_explicit(&engine->traffic.ring, memory_order_relaxed) +
           atomic_load_explicit(&engine->traffic.presence, memory_order_relaxed);
}

/* Ring slots [from, until) without a wrap. */
static cl_int copy_slots(struct engine *engine, cl_command_queue queue,
                         const struct ring_memory *ring, int what, uint64_t from, uint64_t until)
{
    const uint64_t frame_bytes = ring->ring.frame_bytes;
    cl_int code = CL_SUCCESS;
    if (what & COPY_BYTES)
        code = copy_in(queue, &engine->device.input, ring->bytes_offset + from * frame_bytes,
                       (until - from) * frame_bytes, &engine->traffic.ring);
    if (code == CL_SUCCESS && (what & COPY_PRESENCE) && until > from)
        code = copy_in(
            queue, &engine->device.input, ring->present_offset + from / 32 * sizeof(uint32_t),
            ((until - 1) / 32 - from / 32 + 1) * sizeof(uint32_t), &engine->traffic.presence);
    return code;
}

/* Ring positions [from, until), at most one lap of them. */
static cl_int copy_positions(struct engine *engine, cl_command_queue queue,
                             const struct ring_memory *ring, int what, uint64_t from,
                             uint64_t until)
{
    const uint64_t frames = ring->ring.frames;
    if (until <= from)
        return CL_SUCCESS;
    if (until - from >= frames)
        return copy_slots(engine, queue, ring, what, 0, frames);
    const uint64_t first = from & (frames - 1), last = until & (frames - 1);
    if (first < last)
        return copy_slots(engine, queue, ring, what, first, last);
    cl_int code = copy_slots(engine, queue, ring, what, first, frames);
    return code == CL_SUCCESS ? copy_slots(engine, queue, ring, what, 0, last) : code;
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
    const cl_int code =
        copy_positions(engine, queue, ring, COPY_BYTES | COPY_PRESENCE, from, ring->stale_until);
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
        code = copy_positions(engine, queue, ring, COPY_BYTES, item->fresh_from, item->fresh_until);
    ring_unseen(ring, item->fresh_from, item->fresh_until);
    if (code != CL_SUCCESS || !item->absent)
        return code;
    /* Only from now on do the kernels read presence. */
    code =
        copy_positions(engine, queue, ring, COPY_PRESENCE, ring->unseen_from, ring->unseen_until);
    ring->unseen_from = ring->unseen_until;
    return code;
}

void mirror_skip_item(const struct batch_item *item)
{
    struct ring_memory *ring = (struct ring_memory *)item->ring;
    const uint64_t read_until = item->position + (uint64_t)item->blocks * item->plan->hop;
    const uint64_t until = item->fresh_until > read_until ? item->fresh_until : read_until;
    if (until > ring->mirrored_until)
        ring->mirrored_until = until;
    if (until > ring->stale_until)
        ring->stale_until = until;
}

static cl_int copy_output(struct engine *engine, const void *from, uint64_t bytes)
{
    const uint64_t offset = (uint64_t)((const uint8_t *)from - engine->device.output.host);
    if (bytes == 0)
        return CL_SUCCESS;
    return clEnqueueWriteBuffer(engine->device.queue, engine->device.output.device, CL_FALSE,
                                offset, bytes, from, 0, NULL, NULL);
}

/* The samples that the item writes, and its reports. */
static cl_int copy_computed_item(struct engine *engine, const struct batch_item *item)
{
    const struct plan *plan = item->plan;
    const struct decimation kept = {plan->info.decimate, plan_kept_first(plan, item->epoch_block)};
    const uint64_t first = decimation_output(&kept, item->write_from),
                   until = decimation_output(&kept, item->write_until);
    const uint64_t frame_bytes = plan->info.output_floats * plan->info.sample_bytes;
    cl_int code = copy_output(engine, item->reports,
                              (uint64_t)item->blocks * plan->report_rows * sizeof *item->reports);
    if (code == CL_SUCCESS && until > first)
        code = copy_output(engine, (const uint8_t *)item->samples + first * frame_bytes,
                           (until - first) * frame_bytes);
    return code;
}

cl_int mirror_copy_computed(struct engine *engine, const struct slot *slot, const struct plan *plan)
{
    cl_int code = CL_SUCCESS;
    for (uint32_t i = 0; code == CL_SUCCESS && i < slot->batch.count; i++)
        if (slot->batch.items[i].plan == plan)
            code = copy_computed_item(engine, &slot->batch.items[i]);
    return code;
}

cl_int mirror_copy_fresh(struct engine *engine, cl_command_queue queue, const struct batch *batch,
                         bool *any)
{
    const uint64_t before = copied_in(engine);
    cl_int code = CL_SUCCESS;
    for (uint32_t i = 0; code == CL_SUCCESS && i < batch->count; i++)
        code = copy_item(engine, queue, &batch->items[i]);
    *any |= copied_in(engine) != before;
    return code;
}

/* Floats of OUTPUT [offset, offset + count), after what `waits` says. */
static cl_int copy_out(struct engine *engine, cl_command_queue queue, cl_bool blocking,
                       uint64_t offset, uint64_t count, const cl_event *waits, cl_event *event)
{
    traffic_add(&engine->traffic.result, count * sizeof(float));
    return clEnqueueReadBuffer(queue, engine->device.output.device, blocking,
                               offset * sizeof(float), count * sizeof(float),
                               engine->device.output.host + offset * sizeof(float), waits != NULL,
                               waits, event);
}

/* Batches after one with full reports that get theirs with their results: most of what makes
 * reports full, such as a sensor at full scale, comes in runs. */
enum { FULL_FOR_BATCHES = 256 };

/* Of the plans that pack their reports; counts down. */
static bool full_lately(const struct slot *slot)
{
    bool any = false;
    for (uint32_t i = 0; i < slot->batch.count; i++) {
        const struct batch_item *item = &slot->batch.items[i];
        if (item->packed == NULL || item->plan->full_lately == 0)
            continue;
        item->plan->full_lately--;
        any = true;
    }
    return any;
}

cl_int mirror_copy_results(struct engine *engine, cl_command_queue queue, struct slot *slot)
{
    const uint64_t reports = slot->reports_used * REPORT_FLOATS;
    const cl_event kernels = slot->event;
    const cl_event *waits = queue != engine->device.queue ? &kernels : NULL;
    cl_int code = CL_SUCCESS;
    if (reports + slot->samples_used == 0)
        return CL_SUCCESS;
    slot->event = NULL;
    slot->full_copied = full_lately(slot);
    if (slot->full_copied)
        code = copy_out(engine, queue, CL_FALSE, slot->full_offset, slot->full_used * REPORT_FLOATS,
                        waits, NULL);
    if (code == CL_SUCCESS)
        code = copy_out(engine, queue, CL_FALSE, slot->samples_offset - reports,
                        reports + slot->samples_used, waits, &slot->event);
    clReleaseEvent(kernels);
    return code;
}

cl_int mirror_fetch_full(struct engine *engine, struct slot *slot)
{
    bool any = false;
    for (uint32_t i = 0; i < slot->batch.count; i++) {
        const struct batch_item *item = &slot->batch.items[i];
        if (!reports_any_full(item))
            continue;
        item->plan->full_lately = FULL_FOR_BATCHES;
        any = true;
    }
    if (!any || slot->full_copied)
        return CL_SUCCESS;
    const cl_int code = copy_out(engine, engine->device.late, CL_TRUE, slot->full_offset,
                                 slot->full_used * REPORT_FLOATS, NULL, NULL);
    slot->done_ns = clock_monotonic_ns();
    return code;
}
