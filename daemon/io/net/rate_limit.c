/* Rate limits: see rate_limit.h. */
#include "io/net/rate_limit.h"

#include "core/clock.h"
#include "io/net/address.h"

void rate_limit_set(struct rate_limit *limit, uint64_t packets_per_s, uint64_t bytes_per_s)
{
    *limit = (struct rate_limit){0};
    if (packets_per_s > 0)
        limit->packet_ns = (double)NS_PER_SECOND / (double)packets_per_s;
    if (bytes_per_s > 0)
        limit->byte_ns = (double)NS_PER_SECOND / (double)bytes_per_s;
}

static struct rate_source *source_of(struct rate_limit *limit, const struct sockaddr_storage *from)
{
    struct rate_source *found = &limit->sources[limit->newest];
    if (found->heard_ns != 0 && address_same_host(&found->from, from))
        return found;
    unsigned oldest = 0;
    for (unsigned i = 0; i < RATE_SOURCES; i++) {
        struct rate_source *source = &limit->sources[i];
        if (source->heard_ns != 0 && address_same_host(&source->from, from)) {
            limit->newest = i;
            return source;
        }
        if (source->heard_ns < limit->sources[oldest].heard_ns)
            oldest = i;
    }
    limit->newest = oldest;
    limit->sources[oldest].from = *from; /* with the clocks of its predecessor */
    return &limit->sources[oldest];
}

/* Whether a clock would still be in time when it starts at now_ns at least. */
static bool in_time(int64_t clock_ns, int64_t now_ns)
{
    return clock_ns - now_ns <= RATE_BURST_MS * NS_PER_MS;
}

static void advance(int64_t *clock_ns, int64_t now_ns, double share_ns)
{
    if (share_ns > 0)
        *clock_ns = (*clock_ns > now_ns ? *clock_ns : now_ns) + (int64_t)(share_ns + 0.5);
}

bool rate_limit_take(struct rate_limit *limit, const struct sockaddr_storage *from, size_t bytes,
                     int64_t now_ns)
{
    if (limit->packet_ns == 0 && limit->byte_ns == 0)
        return true;
    struct rate_source *source = source_of(limit, from);
    source->heard_ns = now_ns;
    if (!in_time(source->packets_ns, now_ns) || !in_time(source->bytes_ns, now_ns))
        return false;
    advance(&source->packets_ns, now_ns, limit->packet_ns);
    advance(&source->bytes_ns, now_ns, (double)bytes * limit->byte_ns);
    return true;
}
