/* A gateway that waits: see successor.h. */
#include "io/nats/successor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"

/* Who waits asks every 0.1 s; a question or two may get lost. */
static const int64_t silent_ns = NS_PER_SECOND / 2;

void nats_successor_say(struct nats_successor *s, uint32_t ssrc)
{
    snprintf(s->says, sizeof s->says, "%" PRIu32, ssrc);
}

void nats_successor_hear(struct nats_successor *s, int64_t now_ns,
                         const struct nats_event *question)
{
    const size_t bytes = question->payload_bytes;
    char text[sizeof s->says] = "", *end;
    if (bytes == 0 || bytes >= sizeof text)
        return;
    memcpy(text, question->payload, bytes);
    const unsigned long long ssrc = strtoull(text, &end, 10);
    if (end != text + bytes || text[0] < '0' || text[0] > '9' || ssrc > UINT32_MAX)
        return;
    s->heard = true;
    s->ssrc = (uint32_t)ssrc;
    s->heard_ns = now_ns;
}

bool nats_successor_waits(const struct nats_successor *s, int64_t now_ns, uint32_t ssrc)
{
    return s->heard && s->ssrc == ssrc && now_ns - s->heard_ns < silent_ns;
}
