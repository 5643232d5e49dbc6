/* The watch ring: see watch_ring.h. */
#include "wire/watch_ring.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

enum { HEADER_BYTES = 4096 };

static const uint32_t magic = 0x52565643; /* "CVVR" */

struct header {
    uint32_t magic, version, slot_bytes, slots;
    _Atomic uint64_t written; /* records begun and ended */
};

struct slot {
    _Atomic uint64_t sequence;
    struct watch_head head;
    struct watch_range ranges[WATCH_RANGES_MAX];
    uint8_t spare[WATCH_HEAD_BYTES - sizeof(struct watch_head) -
                  WATCH_RANGES_MAX * sizeof(struct watch_range) +
                  (WATCH_SLOT_BYTES - 8 - WATCH_HEAD_BYTES - 4 * WATCH_FLOATS_MAX)];
    float values[WATCH_FLOATS_MAX];
};

_Static_assert(sizeof(struct slot) == WATCH_SLOT_BYTES, "a slot is 4 KiB");
_Static_assert(sizeof(struct watch_head) == 144, "the layout is that of WATCH_RING_VERSION");

size_t watch_ring_bytes(uint32_t slots)
{
    return HEADER_BYTES + (size_t)slots * WATCH_SLOT_BYTES;
}

size_t watch_record_floats(const struct watch_head *head)
{
    static const uint8_t per_point[WATCH_KINDS] = {WATCH_LEVEL_FLOATS, 2, 1};
    if (head->kind >= WATCH_KINDS || head->points > WATCH_FLOATS_MAX ||
        head->channels > WATCH_FLOATS_MAX)
        return 0;
    const uint64_t floats = (uint64_t)head->points * head->channels * per_point[head->kind];
    return floats <= WATCH_FLOATS_MAX ? (size_t)floats : 0;
}

/* ---- writer ------------------------------------------------------------------------------ */

static struct slot *slot_of(const struct watch_writer *writer)
{
    const size_t index = writer->next & (writer->slots - 1);
    return (struct slot *)(void *)(writer->memory + HEADER_BYTES + index * WATCH_SLOT_BYTES);
}

void watch_writer_open(struct watch_writer *writer, void *memory, uint32_t slots)
{
    assert(slots >= WATCH_SLOTS_LEAST && slots <= WATCH_SLOTS_MOST && (slots & (slots - 1)) == 0);
    struct header *header = memory;
    header->magic = magic;
    header->version = WATCH_RING_VERSION;
    header->slot_bytes = WATCH_SLOT_BYTES;
    header->slots = slots;
    *writer = (struct watch_writer){.memory = memory, .slots = slots};
}

float *watch_writer_begin(struct watch_writer *writer)
{
    struct slot *slot = slot_of(writer);
    atomic_store_explicit(&slot->sequence, 2 * writer->next + 1, memory_order_relaxed);
    /* The odd number is seen before anything of the new record. */
    atomic_thread_fence(memory_order_release);
    return slot->values;
}

void watch_writer_end(struct watch_writer *writer, const struct watch_head *head,
                      const struct watch_range *ranges)
{
    struct slot *slot = slot_of(writer);
    struct header *header = (struct header *)(void *)writer->memory;
    assert(watch_record_floats(head) > 0 && head->range_count <= WATCH_RANGES_MAX);
    slot->head = *head;
    if (head->range_count > 0)
        memcpy(slot->ranges, ranges, head->range_count * sizeof *ranges);
    atomic_store_explicit(&slot->sequence, 2 * writer->next + 2, memory_order_release);
    writer->next++;
    atomic_store_explicit(&header->written, writer->next, memory_order_release);
}

/* ---- reader ------------------------------------------------------------------------------ */

static uint64_t written(const struct watch_reader *reader)
{
    const struct header *header = (const struct header *)(const void *)reader->memory;
    return atomic_load_explicit(&header->written, memory_order_acquire);
}

bool watch_reader_open(struct watch_reader *reader, const void *memory, size_t bytes)
{
    struct header header;
    if (bytes < HEADER_BYTES)
        return false;
    memcpy(&header, memory, sizeof header);
    if (header.magic != magic || header.version != WATCH_RING_VERSION ||
        header.slot_bytes != WATCH_SLOT_BYTES || header.slots < WATCH_SLOTS_LEAST ||
        header.slots > WATCH_SLOTS_MOST || (header.slots & (header.slots - 1)) != 0 ||
        watch_ring_bytes(header.slots) > bytes)
        return false;
    *reader = (struct watch_reader){.memory = memory, .slots = header.slots};
    reader->next = written(reader);
    return true;
}

/* No stream is slower, 1 Hz with the largest decimation, and none has so many frames or was
 * captured so far from 1970 that sums of a few such times overflow. */
static const double rate_least_hz = 1.0 / 65536;
static const uint64_t frame_most = UINT64_C(1) << 62;
static const int64_t capture_most_ns = INT64_C(1) << 62;

static bool good(const struct watch_record *record)
{
    const struct watch_head *head = &record->head;
    if (watch_record_floats(head) == 0 || head->range_count > WATCH_RANGES_MAX ||
        head->frames_per_point == 0 || head->channels > WATCH_CHANNELS_MAX ||
        head->first_channel > WATCH_CHANNELS_MAX - head->channels ||
        memchr(head->stream, '\0', sizeof head->stream) == NULL ||
        !(head->rate_hz >= rate_least_hz) || !(head->rate_hz < 1e12) ||
        head->first_frame > frame_most || head->capture_ns > capture_most_ns ||
        head->capture_ns < -capture_most_ns)
        return false;
    for (uint32_t i = 0; i < head->range_count; i++) {
        const struct watch_range *range = &record->ranges[i];
        if (range->from > head->points || range->points > head->points - range->from)
            return false;
    }
    return true;
}

bool watch_reader_next(struct watch_reader *reader, struct watch_record *record)
{
    for (;;) {
        const uint64_t until = written(reader);
        if (until < reader->next) { /* no writer does that */
            reader->bad++;
            reader->next = until;
        }
        if (until == reader->next)
            return false;
        /* Far behind: go on half a ring before the writer, who is about to overwrite the oldest. */
        if (until - reader->next > reader->slots - 1) {
            const uint64_t from = until - reader->slots / 2;
            reader->lost += from - reader->next;
            reader->next = from;
        }
        const uint64_t number = reader->next++;
        const struct slot *slot =
            (const struct slot *)(const void *)(reader->memory + HEADER_BYTES +
                                                (number & (reader->slots - 1)) * WATCH_SLOT_BYTES);
        const uint64_t before = atomic_load_explicit(&slot->sequence, memory_order_acquire);
        record->head = slot->head;
        memcpy(record->ranges, slot->ranges, sizeof record->ranges);
        const size_t floats = watch_record_floats(&record->head);
        memcpy(record->values, slot->values, floats * sizeof(float));
        /* All of the copy is done before the sequence is read again. */
        atomic_thread_fence(memory_order_acquire);
        const uint64_t after = atomic_load_explicit(&slot->sequence, memory_order_relaxed);
        if (before != 2 * number + 2 || after != before)
            reader->lost++;
        else if (!good(record))
            reader->bad++;
        else
            return true;
    }
}
