/* The release queue of hits: see hit_queue.h. */
#include "analysis/hit_queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/frame_heap.h"
#include "core/error.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "samples are stored in host order");
_Static_assert(sizeof(struct hit) % sizeof(uint64_t) == 0, "a hit is walked in words");

/* The first block of a hit: this, then samples. */
struct entry {
    struct analysis_event event; /* body and samples point nowhere */
    struct hit hit;
};

enum {
    BLOCK_FLOATS = HIT_QUEUE_BLOCK_BYTES / sizeof(float),
    ENTRY_FLOATS = (HIT_QUEUE_BLOCK_BYTES - sizeof(struct entry)) / sizeof(float),
};
_Static_assert(sizeof(struct entry) <= HIT_QUEUE_BLOCK_BYTES, "a block holds a hit");

union block {
    struct entry entry;
    float samples[BLOCK_FLOATS];
    uint8_t bytes[HIT_QUEUE_BLOCK_BYTES];
};

struct hit_queue {
    uint32_t blocks, samples_max;
    union block *pool;     /* [blocks] */
    uint32_t *next;        /* [blocks], of a hit's chain, or of the free ones */
    uint32_t free, unused; /* the first free block, how many there are */
    struct frame_heap heap;
    struct entry taken;
    float *samples; /* [samples_max], of `taken` */
};

int hit_queue_open(uint32_t blocks, uint32_t samples_max, struct hit_queue **out)
{
    struct hit_queue *q = calloc(1, sizeof *q);
    if (q == NULL)
        return ERROR_MEMORY;
    q->blocks = q->unused = q->heap.capacity = blocks;
    q->samples_max = samples_max;
    q->pool = malloc(blocks * sizeof *q->pool);
    q->next = malloc(blocks * sizeof *q->next);
    q->heap.items = malloc(blocks * sizeof *q->heap.items);
    q->samples = malloc((samples_max > 0 ? samples_max : 1) * sizeof *q->samples);
    if (q->pool == NULL || q->next == NULL || q->heap.items == NULL || q->samples == NULL) {
        hit_queue_close(q);
        return ERROR_MEMORY;
    }
    for (uint32_t i = 0; i < blocks; i++)
        q->next[i] = i + 1;
    *out = q;
    return 0;
}

void hit_queue_close(struct hit_queue *queue)
{
    if (queue == NULL)
        return;
    free(queue->pool);
    free(queue->next);
    free(queue->heap.items);
    free(queue->samples);
    free(queue);
}

uint64_t hit_queue_memory(uint32_t blocks, uint32_t samples_max)
{
    return sizeof(struct hit_queue) + samples_max * sizeof(float) +
           blocks *
               (uint64_t)(sizeof(union block) + sizeof(uint32_t) + sizeof(struct frame_heap_item));
}

uint32_t hit_queue_blocks(uint32_t samples)
{
    return samples <= ENTRY_FLOATS ? 1
                                   : 1 + (samples - ENTRY_FLOATS + BLOCK_FLOATS - 1) / BLOCK_FLOATS;
}

/* Where the samples of a block lie, and how many fit; the first block of a hit begins with it. */
static float *samples_of(struct hit_queue *queue, uint32_t block, bool first, uint32_t *room)
{
    *room = first ? ENTRY_FLOATS : BLOCK_FLOATS;
    return queue->pool[block].samples + (first ? BLOCK_FLOATS - ENTRY_FLOATS : 0);
}

enum hit_queue_answer hit_queue_put(struct hit_queue *queue, const struct analysis_event *event)
{
    uint32_t samples = event->samples != NULL ? event->sample_count : 0;
    enum hit_queue_answer answer = HIT_QUEUE_TAKEN;
    assert(samples <= queue->samples_max && event->body_bytes == sizeof(struct hit));
    if (queue->unused == 0)
        return HIT_QUEUE_FULL;
    if (queue->unused < hit_queue_blocks(samples)) {
        samples = 0;
        answer = HIT_QUEUE_WITHOUT_SAMPLES;
    }
    const uint32_t first = queue->free;
    struct entry *entry = &queue->pool[first].entry;
    entry->event = *event;
    entry->event.sample_count = samples;
    memcpy(&entry->hit, event->body, sizeof entry->hit);
    uint32_t block = first;
    for (uint32_t at = 0;; block = queue->next[block]) {
        uint32_t room;
        float *to = samples_of(queue, block, block == first, &room);
        const uint32_t part = samples - at < room ? samples - at : room;
        if (part > 0)
            memcpy(to, event->samples + at, part * sizeof *to);
        at += part;
        queue->unused--;
        if (at == samples)
            break;
    }
    queue->free = queue->next[block];
    frame_heap_put(&queue->heap, (struct frame_heap_item){event->frame, event->channel, first});
    return answer;
}

/* Copies the hit in the chain that begins with `first` to `taken`. Returns the chain's last block.
 */
static uint32_t copy_out(struct hit_queue *queue, uint32_t first)
{
    queue->taken = queue->pool[first].entry;
    struct analysis_event *event = &queue->taken.event;
    event->body = &queue->taken.hit;
    event->body_bytes = sizeof queue->taken.hit;
    event->samples = event->sample_count > 0 ? queue->samples : NULL;
    uint32_t block = first;
    for (uint32_t at = 0;; block = queue->next[block]) {
        uint32_t room;
        const float *from = samples_of(queue, block, block == first, &room);
        const uint32_t left = event->sample_count - at, part = left < room ? left : room;
        if (part > 0)
            memcpy(queue->samples + at, from, part * sizeof *from);
        at += part;
        if (at == event->sample_count)
            return block;
    }
}

const struct analysis_event *hit_queue_take(struct hit_queue *queue, uint64_t before_frame,
                                            uint32_t before_channel)
{
    if (queue->heap.count == 0 ||
        !frame_before(queue->heap.items[0].frame, queue->heap.items[0].channel, before_frame,
                      before_channel))
        return NULL;
    const uint32_t first = frame_heap_take(&queue->heap).value;
    const uint32_t last = copy_out(queue, first);
    queue->next[last] = queue->free;
    queue->free = first;
    queue->unused += hit_queue_blocks(queue->taken.event.sample_count);
    return &queue->taken.event;
}

/* ---- state ------------------------------------------------------------------------------- */

static void walk_event(struct codec *codec, struct analysis_event *event, struct hit *hit)
{
    codec_u64(codec, &event->number);
    codec_u32(codec, &event->channel);
    codec_u64(codec, &event->epoch);
    codec_u64(codec, &event->record);
    codec_u64(codec, &event->frame);
    codec_i64(codec, &event->capture_ns);
    uint32_t clock = event->clock;
    codec_u32(codec, &clock);
    event->clock = clock < CLOCK_SOURCES ? clock : CLOCK_SOURCE_RECEIVE;
    codec_i64(codec, &event->clock_error_ns);
    codec_f64(codec, &event->delay_frames);
    codec_i64(codec, &event->arrival_ns);
    codec_u32(codec, &event->flags);
    codec_u32(codec, &event->causes);
    codec_u32(codec, &event->sample_count);
    codec_i64(codec, &event->first_sample);
    uint64_t words[sizeof *hit / sizeof(uint64_t)];
    memcpy(words, hit, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        codec_u64(codec, &words[i]);
    memcpy(hit, words, sizeof words);
}

static bool read_hit(struct hit_queue *queue, uint32_t channels, struct codec *codec)
{
    struct hit hit = {.counts = 0};
    struct analysis_event event = {
        .kind = ANALYSIS_HIT, .ordered = true, .body = &hit, .body_bytes = sizeof hit};
    walk_event(codec, &event, &hit);
    if (codec->failed || event.channel >= channels || event.sample_count > queue->samples_max)
        return false;
    const uint8_t *bytes = NULL;
    codec_span(codec, &bytes, event.sample_count * sizeof *queue->samples);
    if (codec->failed)
        return false;
    if (event.sample_count > 0) {
        memcpy(queue->samples, bytes, event.sample_count * sizeof *queue->samples);
        event.samples = queue->samples;
    }
    return hit_queue_put(queue, &event) == HIT_QUEUE_TAKEN;
}

bool hit_queue_walk(struct hit_queue *queue, uint32_t channels, struct codec *codec)
{
    uint32_t count = queue->heap.count;
    codec_u32(codec, &count);
    if (codec->failed || count > queue->blocks)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (codec_reads(codec)) {
            if (!read_hit(queue, channels, codec))
                return false;
            continue;
        }
        copy_out(queue, queue->heap.items[i].value);
        walk_event(codec, &queue->taken.event, &queue->taken.hit);
        const uint8_t *bytes = (const uint8_t *)queue->samples;
        codec_span(codec, &bytes, queue->taken.event.sample_count * sizeof *queue->samples);
    }
    return !codec->failed;
}
