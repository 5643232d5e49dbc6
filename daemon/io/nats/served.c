/*
 * Served: whether the server that a link is connected to serves the log. One that is parted from
 * the other servers answers pings and serves nothing: it has no leader to send an append to, or is
 * a leader without followers. An append, a read or a consumer asked for without an outcome for
 * `patience_ns` makes the link connect to another server. Where all of them wait for an election,
 * that does no harm: whatever was under way had no outcome either.
 *
 * An answer to a read says nothing of appends: a leader without followers still answers reads.
 *
 * A server that leads a log again may pass over appends without an answer. The source of
 * nats-server 2.9 and 2.10 suggests why, and no test shows it: it numbers what it proposes as if
 * nothing had been stored since it led last, and each
 * proposal brings it one number further; a log in which appends were ever refused stays so until
 * those numbers have been used up. So where an append has no outcome for `mute_ns`, and the leader
 * hears from its followers, appends that no log can store use the numbers up: the first answer to
 * one says that it is done, and that what was appended before was passed over.
 */
#include "io/nats/link_state.h"

#include <stdio.h>

#include "core/clock.h"

enum { NUDGES = 32 }; /* at once */

static const int64_t patience_ns = 4 * NS_PER_SECOND;
static const int64_t mute_ns = 500 * NS_PER_MS;
static const int64_t nudge_every_ns = 10 * NS_PER_MS;
static const int64_t nudge_for_ns = 3 * NS_PER_SECOND;

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

/* ---- a leader that passes over appends ----------------------------------------------------- */

void served_kept(struct nats_link *link, const struct nats_answer *answer)
{
    const int64_t now_ns = clock_monotonic_ns(), asked_ns = link->asked_ns[REQUEST_APPEND];
    if (answer->replicas < 2 || !answer->led || asked_ns == 0 || now_ns - asked_ns < mute_ns ||
        link->nudge_ns != INT64_MAX)
        return;
    link->nudge_ns = now_ns;
    link->nudge_until_ns = now_ns + nudge_for_ns;
}

bool served_nudged(struct nats_link *link, struct nats_event *event)
{
    if (link->nudge_ns == INT64_MAX)
        return false;
    link->nudge_ns = INT64_MAX;
    link_served(link, REQUEST_APPEND);
    event->kind = LINK_UNSTORED;
    event->token = link->newest_token;
    snprintf(event->text, sizeof event->text, "the log's leader has passed over it");
    return true;
}

static int64_t ask_kept_due(const struct nats_link *link)
{
    const int64_t asked_ns = link->asked_ns[REQUEST_APPEND];
    if (asked_ns == 0 || !link->connected)
        return INT64_MAX;
    return asked_ns + mute_ns > link->ask_kept_ns ? asked_ns + mute_ns : link->ask_kept_ns;
}

static void nudge(struct nats_link *link, int64_t now_ns)
{
    if (now_ns >= ask_kept_due(link)) {
        link->ask_kept_ns = now_ns + mute_ns;
        link_ask_kept(link);
    }
    if (now_ns < link->nudge_ns)
        return;
    link->nudge_ns = now_ns + nudge_every_ns;
    if (link->asked_ns[REQUEST_APPEND] == 0 || now_ns >= link->nudge_until_ns)
        link->nudge_ns = INT64_MAX;
    for (int i = 0; i < NUDGES && link->nudge_ns != INT64_MAX; i++)
        (void)link_nudge(link);
}

int64_t nats_link_due(const struct nats_link *link)
{
    int64_t due = follow_due(link);
    const int64_t others[] = {served_due(link), ask_kept_due(link), link->nudge_ns};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        due = due < others[i] ? due : others[i];
    return due;
}

void nats_link_tick(struct nats_link *link, int64_t now_ns)
{
    follow_tick(link, now_ns);
    nudge(link, now_ns);
    if (now_ns < served_due(link))
        return;
    for (int i = 0; i < LINK_REQUESTS; i++)
        link_served(link, (enum link_request)i);
    if (!link->connected)
        return;
    atomic_store(&link->elsewhere, true);
    sink_thread_wake(&link->thread);
}
