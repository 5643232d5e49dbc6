/*
 * Served: whether the server that a link is connected to serves the log. One that is parted from
 * the other servers answers pings and serves nothing: it has no leader to send an append to, or is
 * a leader without followers. An append, a read or a consumer asked for without an outcome for
 * `patience_ns` makes the link connect to another server. Where all of them wait for an election,
 * that does no harm: whatever was under way had no outcome either.
 *
 * An answer to a read says nothing of appends: a leader without followers still answers reads.
 */
#include "io/nats/link_state.h"

#include "core/clock.h"

static const int64_t patience_ns = 4 * NS_PER_SECOND;

void link_asked(struct nats_link *link, enum link_request request)
{
    if (link->asked_ns[request] == 0)
        link->asked_ns[request] = clock_monotonic_ns();
}

void link_served(struct nats_link *link, enum link_request request)
{
    link->asked_ns[request] = 0;
}

static int64_t served_due(const struct nats_link *link)
{
    int64_t due = INT64_MAX;
    for (int i = 0; i < LINK_REQUESTS; i++)
        if (link->asked_ns[i] != 0 && link->asked_ns[i] + patience_ns < due)
            due = link->asked_ns[i] + patience_ns;
    return due;
}

int64_t nats_link_due(const struct nats_link *link)
{
    const int64_t follow = follow_due(link), served = served_due(link);
    return follow < served ? follow : served;
}

void nats_link_tick(struct nats_link *link, int64_t now_ns)
{
    follow_tick(link, now_ns);
    if (now_ns < served_due(link))
        return;
    for (int i = 0; i < LINK_REQUESTS; i++)
        link_served(link, (enum link_request)i);
    if (!link->connected)
        return;
    atomic_store(&link->elsewhere, true);
    sink_thread_wake(&link->thread);
}
