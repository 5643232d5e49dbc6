/*
 * Feeds: results of one stream become the input of another without leaving the device. LOOP says
 * which frames of a completed batch go where; the device thread copies them from OUTPUT to INPUT
 * before it launches the next batch.
 *
 *     LOOP           feed ── release of the batch ── submission of whoever reads or reuses it
 *     device thread             feeds_launch ──► launch     (one in-order queue)
 *
 * A feed comes before its batch's release, and so before the slot is submitted again: since
 * every launch enqueues all feeds that wait first, a copy always reads what its batch left, and no
 * batch need be held back. Presence bits follow only when a batch looks at them (launch.c).
 *
 * Nothing here allocates, locks or blocks.
 */
#include "convolve/internal.h"

#include "core/log.h"

bool engine_ring_feed(struct engine *engine, struct ring *ring, uint64_t changed_from,
                      uint64_t position, const void *samples, uint32_t frames)
{
    const uint8_t *from = samples, *output = engine->output.host;
    const uint64_t bytes = (uint64_t)frames * ring->frame_bytes;
    if (from < output || from + bytes > output + engine->output.bytes)
        return false;
    if (!engine->twin || frames == 0)
        return true; /* the ring's memory is the device's */
    struct ring_memory *memory = (struct ring_memory *)ring;
    struct feed *feed = &engine->feeds[engine->feed_next % (2 * FEEDS_MAX)];
    *feed = (struct feed){.ring = memory,
                          .changed_from = changed_from,
                          .position = position,
                          .source_offset = (uint64_t)(from - output),
                          .frames = frames};
    atomic_fetch_add(&memory->feeds_waiting, 1);
    if (!spsc_push(&engine->fed, feed)) {
        atomic_fetch_sub(&memory->feeds_waiting, 1);
        return false;
    }
    engine->feed_next++;
    return true;
}

/* `frames` frames to the slots from `slot` on, without a wrap. */
static cl_int copy_to_slots(struct engine *engine, const struct ring_memory *ring, uint64_t source,
                            uint64_t slot, uint64_t frames)
{
    const uint64_t frame_bytes = ring->ring.frame_bytes;
    if (frames == 0)
        return CL_SUCCESS;
    traffic_add(&engine->traffic.fed, frames * frame_bytes);
    return clEnqueueCopyBuffer(engine->queue, engine->output.device, engine->input.device, source,
                               ring->bytes_offset + slot * frame_bytes, frames * frame_bytes, 0,
                               NULL, NULL);
}

static cl_int feed_launch(struct engine *engine, const struct feed *feed)
{
    struct ring_memory *ring = feed->ring;
    const uint64_t slots = ring->ring.frames, slot = feed->position & (slots - 1);
    const uint64_t first = feed->frames < slots - slot ? feed->frames : slots - slot;
    const uint64_t until = feed->position + feed->frames;
    cl_int code = copy_to_slots(engine, ring, feed->source_offset, slot, first);
    if (code == CL_SUCCESS)
        code = copy_to_slots(engine, ring, feed->source_offset + first * ring->ring.frame_bytes, 0,
                             feed->frames - first);
    if (ring->unseen_from == ring->unseen_until)
        ring->unseen_from = ring->unseen_until = feed->changed_from;
    if (feed->changed_from < ring->unseen_from)
        ring->unseen_from = feed->changed_from;
    if (until > ring->unseen_until)
        ring->unseen_until = until;
    return code;
}

cl_int feeds_launch(struct engine *engine)
{
    cl_int code = CL_SUCCESS;
    struct feed *feed;
    while ((feed = spsc_pop(&engine->fed)) != NULL) {
        struct ring_memory *ring = feed->ring;
        cl_int answer = feed_launch(engine, feed);
        if (answer != CL_SUCCESS && code == CL_SUCCESS)
            log_error("the device refused a copy inside its memory: %s", opencl_error_name(answer));
        code = answer != CL_SUCCESS ? answer : code;
        atomic_fetch_sub(&ring->feeds_waiting, 1);
    }
    return code;
}

void feeds_drop(struct engine *engine)
{
    struct feed *feed;
    while ((feed = spsc_pop(&engine->fed)) != NULL)
        atomic_fetch_sub(&feed->ring->feeds_waiting, 1);
}

void engine_traffic(const struct engine *engine, struct engine_traffic *traffic)
{
    *traffic = (struct engine_traffic){
        .ring_bytes = atomic_load_explicit(&engine->traffic.ring, memory_order_relaxed),
        .presence_bytes = atomic_load_explicit(&engine->traffic.presence, memory_order_relaxed),
        .table_bytes = atomic_load_explicit(&engine->traffic.table, memory_order_relaxed),
        .result_bytes = atomic_load_explicit(&engine->traffic.result, memory_order_relaxed),
        .fed_bytes = atomic_load_explicit(&engine->traffic.fed, memory_order_relaxed),
    };
}
