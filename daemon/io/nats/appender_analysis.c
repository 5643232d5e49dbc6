/* What an appender appends of analyses: see appender.h. */
#include "core/clock.h"
#include "io/nats/appender_state.h"

void nats_appender_log_events(struct nats_appender *s)
{
    s->events = true;
}

uint64_t nats_appender_tail(const struct nats_appender *s)
{
    return s->o.tail.sequence;
}

bool nats_appender_analysis(struct nats_appender *s, const uint8_t *bytes, uint32_t count,
                            uint64_t *token, uint64_t *sequence)
{
    struct log_end expect;
    struct record record = appender_bare(s, RECORD_ANALYSIS);
    record.analysis = (struct record_span){bytes, count};
    const uint64_t room = record_bytes(&record) + s->carried.count + 3 * (uint64_t)TEXT_MOST;
    if (nats_link_room(s->link) < 2 * room ||
        !ownership_append(&s->o, clock_monotonic_ns(), &expect, token))
        return false;
    *sequence = expect.sequence + 1;
    return appender_send(s, &expect, *token, &record);
}

void nats_appender_checkpoint(struct nats_appender *s, uint64_t sequence)
{
    s->checkpoint = sequence;
}
