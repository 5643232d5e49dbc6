/* Event messages: see event_message.h. */
#include "io/event_message.h"

#include <stddef.h>
#include <string.h>

/* Bodies and samples begin at multiples of this. */
enum { ALIGNMENT = 16 };

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Bytes of a message before the samples. */
static uint64_t head_bytes(const struct analysis_event *event)
{
    return aligned(sizeof(struct event_message)) + aligned(event->body_bytes);
}

static uint64_t message_bytes(const struct analysis_event *event, bool samples)
{
    return head_bytes(event) + (samples ? event->sample_count * sizeof *event->samples : 0);
}

uint64_t event_message_bytes(const struct analysis_event *event, bool samples)
{
    return message_bytes(event, samples) + MESSAGE_OVERHEAD;
}

bool event_message_put(struct message_ring *ring, const struct analysis_event *event, bool samples)
{
    uint8_t *bytes = message_ring_reserve(ring, message_bytes(event, samples));
    if (bytes == NULL)
        return false;
    struct event_message *message = (struct event_message *)(void *)bytes;
    message->kind = EVENT_MESSAGE_EVENT;
    message->event = *event;
    uint8_t *body = bytes + aligned(sizeof *message);
    memcpy(body, event->body, event->body_bytes);
    message->event.body = body;
    if (samples && event->sample_count > 0) {
        uint8_t *to = bytes + head_bytes(event);
        memcpy(to, event->samples, event->sample_count * sizeof *event->samples);
        message->event.samples = (const float *)(void *)to;
    } else {
        message->event.samples = NULL;
        message->event.sample_count = 0;
    }
    message_ring_commit(ring);
    return true;
}

bool event_message_put_mark(struct message_ring *ring, const struct sink_mark *mark)
{
    struct event_message *message = message_ring_reserve(ring, sizeof *message);
    if (message == NULL)
        return false;
    message->kind = EVENT_MESSAGE_MARK;
    message->mark = *mark;
    message_ring_commit(ring);
    return true;
}

bool event_message_put_advance(struct message_ring *ring, uint64_t epoch, uint64_t frame)
{
    struct event_message *message = message_ring_reserve(ring, sizeof *message);
    if (message == NULL)
        return false;
    message->kind = EVENT_MESSAGE_ADVANCE;
    message->advance.epoch = epoch;
    message->advance.frame = frame;
    message_ring_commit(ring);
    return true;
}

bool event_message_put_live(struct message_ring *ring, const struct analysis_event *head)
{
    struct event_message *message = message_ring_reserve(ring, sizeof *message);
    if (message == NULL)
        return false;
    message->kind = EVENT_MESSAGE_LIVE;
    message->event = *head;
    message_ring_commit(ring);
    return true;
}

const struct event_message *event_message_peek(struct message_ring *ring)
{
    uint64_t bytes;
    return message_ring_peek(ring, &bytes);
}
