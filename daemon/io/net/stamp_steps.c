/* Stamp steps: see stamp_steps.h. */
#include "io/net/stamp_steps.h"

static void count_pair(struct stamp_steps *s, uint32_t step)
{
    bool same = s->pairs > 0 && (uint64_t)step * s->payload == (uint64_t)s->step * s->frames;
    if (!same) {
        s->settled = s->settled || s->pairs > 0 || step == s->frames;
        s->pairs = 0;
        s->began = true;
        s->step = step;
        s->payload = s->frames;
    }
    if (s->pairs < STAMP_PAIRS)
        s->pairs++;
    if (s->pairs == STAMP_PAIRS)
        s->wrong = s->step != s->payload;
}

enum stamp_verdict stamp_steps_next(struct stamp_steps *s, const struct stamp_packet *packet,
                                    uint64_t sequence_mask, bool records)
{
    uint32_t step = (uint32_t)packet->timestamp - s->timestamp;
    bool next = s->started && ((packet->sequence - s->sequence - 1) & sequence_mask) == 0;
    bool forward = step > 0 && step <= INT32_MAX;
    s->began = false;
    bool pause = records && (packet->begins_record || step > s->frames);
    if (next && forward && !pause)
        count_pair(s, step);
    s->started = true;
    s->sequence = packet->sequence;
    s->timestamp = (uint32_t)packet->timestamp;
    s->frames = packet->frames;
    if (s->wrong)
        return STAMPS_WRONG;
    bool differs = s->pairs > 0 && s->step != s->payload;
    return differs && (s->pairs > 1 || !s->settled) ? STAMPS_SUSPECT : STAMPS_FIT;
}
