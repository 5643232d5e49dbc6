/*
 * Following a log: an ephemeral push consumer without acknowledgements, with flow control and
 * heartbeats, opened again where it is silent, where a delivery is missing, and whenever the
 * connection comes back. Before it goes on, it asks what the log has, and whether the record before
 * the next one is still the one that was delivered: a log that went back is told, not read on.
 *
 * Heartbeats are no proof that a consumer delivers. Servers place it beside any replica, which may
 * be parted from the log's leader, or hold less than the leader believes (nats-server 2.9, after
 * servers came back with older states). So a consumer without records is held against the leader's
 * own figures once a second; where it keeps back what the leader has, records are fetched from the
 * leader one by one for a while, before another consumer is tried.
 *
 * Defines the functions of link.h that follow, and the one that asks how long a log is. Loop
 * thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "io/nats/link_state.h"

enum { REQUEST_BYTES = 1024, CHECKSUM_AT = 12, CHECKSUM_BYTES = 4 };

static const int64_t silent_ns = 1500 * NS_PER_MS;
static const int64_t idle_ns = 1 * NS_PER_SECOND;   /* without a record: the leader is asked */
static const int64_t poll_ns = 20 * NS_PER_MS;      /* between fetches at the end of the log */
static const int64_t fetch_ns = 30 * NS_PER_SECOND; /* then another consumer is tried */
static const int64_t retry_ns = 100 * NS_PER_MS;    /* what a server could not do yet */
static const int64_t heartbeat_ns = 500 * NS_PER_MS;

/* ---- requests ---------------------------------------------------------------------------- */

static void consumer_name(const struct nats_link *link, uint32_t generation,
                          char name[NATS_INBOX_BYTES + 16])
{
    const char *unique = strrchr(link->connection.inbox, '.');
    snprintf(name, NATS_INBOX_BYTES + 16, "%s-%u",
             unique != NULL ? unique + 1 : link->connection.inbox, generation);
}

/* $JS.API.VERB.STREAM[.CONSUMER] */
static bool ask_api(struct nats_link *link, const char *verb, const char *consumer,
                    enum answer_kind reply, const char *request)
{
    char subject[2 * NATS_SUBJECT_BYTES];
    snprintf(subject, sizeof subject, "$JS.API.%s.%.200s%s%s", verb, link->options.log.stream,
             consumer != NULL ? "." : "", consumer != NULL ? consumer : "");
    return link_publish(link, subject, reply, link->follow.generation, request);
}

bool nats_link_ask_length(struct nats_link *link)
{
    return ask_api(link, "STREAM.INFO", NULL, ANSWER_LENGTH, "");
}

void link_ask_kept(struct nats_link *link)
{
    (void)ask_api(link, "STREAM.INFO", NULL, ANSWER_KEPT, "");
}

static void delete_consumer(struct nats_link *link, uint32_t generation)
{
    char name[NATS_INBOX_BYTES + 16];
    consumer_name(link, generation, name);
    ask_api(link, "CONSUMER.DELETE", name, ANSWER_NOBODY, "");
}

static void heard(struct follow *f)
{
    f->heard_ns = clock_monotonic_ns();
}

static void ask_log(struct nats_link *link)
{
    struct follow *f = &link->follow;
    if (f->state == FOLLOW_OPEN || f->state == FOLLOW_OPENING) {
        delete_consumer(link, f->generation);
        f->reopened++;
    }
    f->generation++;
    f->state = FOLLOW_ASKING;
    f->probing = false;
    heard(f);
    link_asked(link, REQUEST_FOLLOW);
    ask_api(link, "STREAM.INFO", NULL, ANSWER_INFO, "");
}

/* A consumer delivers: the server has the log, and others that keep it. */
static void opened(struct nats_link *link)
{
    struct follow *f = &link->follow;
    f->state = FOLLOW_OPEN;
    f->probed = 0;
    heard(f);
    f->probe_ns = f->heard_ns + idle_ns;
    link_served(link, REQUEST_FOLLOW);
}

/* Soon, as if it had been silent since long. */
static void retry(struct follow *f)
{
    f->heard_ns = clock_monotonic_ns() - silent_ns + retry_ns;
}

static void open_consumer(struct nats_link *link)
{
    struct follow *f = &link->follow;
    char name[NATS_INBOX_BYTES + 16], subject[NATS_INBOX_BYTES + 16], request[REQUEST_BYTES];
    consumer_name(link, f->generation, name);
    snprintf(subject, sizeof subject, "%s%c.%u", link->connection.inbox, ANSWER_DELIVERY,
             f->generation);
    snprintf(request, sizeof request,
             "{\"stream_name\":\"%s\",\"config\":{\"name\":\"%s\",\"deliver_subject\":\"%s\","
             "\"deliver_policy\":\"by_start_sequence\",\"opt_start_seq\":%" PRIu64
             ",\"ack_policy\":\"none\",\"replay_policy\":\"instant\",\"flow_control\":true,"
             "\"idle_heartbeat\":%" PRId64 ",\"mem_storage\":true,\"num_replicas\":1}}",
             link->options.log.stream, name, subject, f->next, heartbeat_ns);
    f->state = FOLLOW_OPENING;
    f->delivered = 0;
    heard(f);
    link_subscribe(link, NATS_DELIVERIES, subject);
    ask_api(link, "CONSUMER.CREATE", name, ANSWER_OPEN, request);
}

void nats_link_follow(struct nats_link *link, uint64_t sequence)
{
    struct follow *f = &link->follow;
    if (f->state == FOLLOW_OPEN || f->state == FOLLOW_OPENING)
        delete_consumer(link, f->generation);
    f->generation++;
    f->state = FOLLOW_NOTHING;
    f->next = sequence;
    f->checksum_known = f->barren = false;
    link_served(link, REQUEST_FOLLOW); /* nothing is awaited any more */
    if (sequence > 0)
        ask_log(link);
    else
        link_subscribe(link, NATS_DELIVERIES, "");
}

void follow_again(struct nats_link *link)
{
    if (link->follow.state != FOLLOW_NOTHING)
        ask_log(link);
}

int64_t follow_due(const struct nats_link *link)
{
    const struct follow *f = &link->follow;
    const int64_t silent = f->heard_ns + silent_ns;
    switch (f->state) {
    case FOLLOW_NOTHING:
        return INT64_MAX;
    case FOLLOW_OPEN:
        return !f->probing && f->probe_ns < silent ? f->probe_ns : silent;
    case FOLLOW_FETCHING:
        return f->poll_at_ns < silent ? f->poll_at_ns : silent;
    default:
        return silent;
    }
}

static void fetch(struct nats_link *link)
{
    struct follow *f = &link->follow;
    char request[64];
    f->poll_at_ns = INT64_MAX;
    heard(f);
    link_asked(link, REQUEST_FOLLOW);
    snprintf(request, sizeof request, "{\"seq\":%" PRIu64 "}", f->next);
    ask_api(link, "STREAM.MSG.GET", NULL, ANSWER_FETCH, request);
}

/* What the leader has, beside a consumer that is open. */
static void probe(struct nats_link *link)
{
    link->follow.probing = true;
    link_asked(link, REQUEST_FOLLOW);
    ask_api(link, "STREAM.INFO", NULL, ANSWER_PROBE, "");
}

void follow_tick(struct nats_link *link, int64_t now_ns)
{
    struct follow *f = &link->follow;
    if (now_ns < follow_due(link))
        return;
    if (now_ns < f->heard_ns + silent_ns && f->state == FOLLOW_OPEN) {
        probe(link);
        return;
    }
    if (now_ns < f->heard_ns + silent_ns && f->state == FOLLOW_FETCHING &&
        now_ns < f->fetch_until_ns) {
        fetch(link);
        return;
    }
    f->barren = f->state == FOLLOW_OPENING || (f->state == FOLLOW_OPEN && f->delivered == 0);
    ask_log(link);
}

/* ---- answers ----------------------------------------------------------------------------- */

static bool lapsed(struct nats_link *link, uint64_t first, uint64_t last, struct nats_event *event)
{
    struct follow *f = &link->follow;
    link_served(link, REQUEST_FOLLOW);
    f->state = FOLLOW_NOTHING;
    f->generation++;
    event->kind = LINK_LAPSED;
    event->sequence = f->next;
    event->first = first;
    event->last = last;
    return true;
}

static bool read_answer(natsMsg *message, struct nats_answer *answer)
{
    const int bytes = natsMsg_GetDataLength(message);
    *answer = (struct nats_answer){0};
    return bytes > 0 && nats_answer_read(natsMsg_GetData(message), (size_t)bytes, answer);
}

static bool take_length(natsMsg *message, struct nats_event *event)
{
    struct nats_answer answer;
    const bool read = read_answer(message, &answer) && answer.has_state;
    event->kind = read                                 ? LINK_LENGTH
                  : answer.code == NATS_CODE_NO_STREAM ? LINK_ABSENT
                                                       : LINK_UNREAD;
    event->first = answer.first;
    event->sequence = answer.last;
    snprintf(event->text, sizeof event->text, "%s", answer.text);
    return true;
}

/* After what the log has is known, and that it goes on where the reader stands. */
static void go_on(struct nats_link *link)
{
    struct follow *f = &link->follow;
    if (!f->barren || f->last < f->next) {
        open_consumer(link);
        return;
    }
    f->barren = false;
    f->state = FOLLOW_FETCHING;
    f->fetch_until_ns = clock_monotonic_ns() + fetch_ns;
    link_subscribe(link, NATS_DELIVERIES, "");
    fetch(link);
}

static bool take_info(struct nats_link *link, natsMsg *message, struct nats_event *event)
{
    struct follow *f = &link->follow;
    struct nats_answer answer;
    char request[64];
    if (f->state != FOLLOW_ASKING)
        return false;
    if (!read_answer(message, &answer) || answer.failed) {
        if (answer.code == NATS_CODE_NO_STREAM)
            link_served(link, REQUEST_FOLLOW); /* nobody has made the log yet */
        retry(f);
        return false;
    }
    if (answer.last + 1 < f->next)
        return lapsed(link, answer.first, answer.last, event);
    f->last = answer.last;
    if (!f->checksum_known || f->next <= answer.first) {
        f->next = f->next < answer.first ? answer.first : f->next;
        go_on(link);
        return false;
    }
    f->state = FOLLOW_VERIFYING;
    heard(f);
    snprintf(request, sizeof request, "{\"seq\":%" PRIu64 "}", f->next - 1);
    ask_api(link, "STREAM.MSG.GET", NULL, ANSWER_VERIFY, request);
    return false;
}

/* The sum over the whole record, as it stands in its header. */
static bool checksum_of(const uint8_t *data, size_t bytes, uint32_t *checksum)
{
    if (bytes < CHECKSUM_AT + CHECKSUM_BYTES)
        return false;
    memcpy(checksum, data + CHECKSUM_AT, CHECKSUM_BYTES);
    return true;
}

static bool take_verified(struct nats_link *link, natsMsg *message, struct nats_event *event)
{
    struct follow *f = &link->follow;
    struct nats_answer answer;
    uint32_t checksum;
    if (f->state != FOLLOW_VERIFYING)
        return false;
    if (!read_answer(message, &answer)) {
        retry(f);
        return false;
    }
    const bool other = answer.data == NULL || !checksum_of(answer.data, answer.bytes, &checksum) ||
                       checksum != f->checksum;
    free(answer.data);
    if (!other) {
        go_on(link);
        return false;
    }
    if (answer.failed && answer.code != NATS_CODE_NO_MESSAGE) {
        retry(f);
        return false;
    }
    return lapsed(link, 0, 0, event);
}

static bool take_opened(struct nats_link *link, natsMsg *message)
{
    struct follow *f = &link->follow;
    struct nats_answer answer;
    if (f->state != FOLLOW_OPENING)
        return false;
    if (!read_answer(message, &answer) || answer.failed) {
        f->state = FOLLOW_ASKING; /* there is no consumer to delete */
        f->barren = true;
        retry(f);
        return false;
    }
    opened(link);
    return false;
}

/* Twice the same: the leader has records since a second that the consumer has not brought. */
static void take_probed(struct nats_link *link, natsMsg *message)
{
    struct follow *f = &link->follow;
    struct nats_answer answer;
    if (f->state != FOLLOW_OPEN || !f->probing || !read_answer(message, &answer) || answer.failed)
        return;
    link_served(link, REQUEST_FOLLOW);
    f->probing = false;
    f->probe_ns = clock_monotonic_ns() + idle_ns;
    if (answer.last + 1 != f->next && f->probed == f->next) {
        f->barren = answer.last >= f->next;
        ask_log(link);
    }
    f->probed = answer.last + 1 != f->next ? f->next : 0;
}

/* A message without a payload: flow control, or a heartbeat. */
static bool take_status(struct nats_link *link, natsMsg *message)
{
    struct follow *f = &link->follow;
    const char *reply = natsMsg_GetReply(message), *header = NULL;
    if (reply != NULL) {
        link_publish(link, reply, 0, 0, ""); /* what came before has been fetched */
        return false;
    }
    if (natsMsgHeader_Get(message, "Nats-Consumer-Stalled", &header) == NATS_OK)
        link_publish(link, header, 0, 0, "");
    if (f->state == FOLLOW_OPEN &&
        natsMsgHeader_Get(message, "Nats-Last-Consumer", &header) == NATS_OK &&
        strtoull(header, NULL, 10) != f->delivered)
        ask_log(link); /* something has not come */
    return false;
}

/* The next record, by a consumer or fetched. */
static bool record_came(struct nats_link *link, uint64_t sequence, const uint8_t *data,
                        size_t bytes, struct nats_event *event)
{
    struct follow *f = &link->follow;
    f->next = sequence + 1;
    f->checksum_known = checksum_of(data, bytes, &f->checksum);
    link->received++;
    link->bytes_received += (uint64_t)bytes;
    event->sequence = sequence;
    const enum record_fault fault = record_read(data, bytes, &event->record);
    event->kind = fault == RECORD_FAULT_NONE ? LINK_RECORD : LINK_DAMAGED;
    snprintf(event->text, sizeof event->text, "%s", record_fault_sentence(fault));
    return true;
}

static bool take_delivery(struct nats_link *link, natsMsg *message, struct nats_event *event)
{
    struct follow *f = &link->follow;
    struct nats_place place;
    const int bytes = natsMsg_GetDataLength(message);
    const uint8_t *data = (const uint8_t *)natsMsg_GetData(message);
    if (f->state == FOLLOW_OPENING)
        opened(link); /* the answer comes behind */
    if (f->state != FOLLOW_OPEN)
        return false;
    heard(f);
    if (bytes == 0)
        return take_status(link, message);
    if (!nats_place_read(natsMsg_GetReply(message), &place))
        return false;
    f->probe_ns = f->heard_ns + idle_ns;
    if (place.delivered != f->delivered + 1 || place.sequence < f->next) {
        ask_log(link);
        return false;
    }
    f->delivered = place.delivered;
    return record_came(link, place.sequence, data, (size_t)bytes, event);
}

static bool take_fetched(struct nats_link *link, natsMsg *message, struct nats_event *event)
{
    struct follow *f = &link->follow;
    struct nats_answer answer;
    if (f->state != FOLLOW_FETCHING || !read_answer(message, &answer))
        return false;
    heard(f);
    if (answer.failed || answer.data == NULL || answer.sequence != f->next) {
        free(answer.data);
        f->poll_at_ns = f->heard_ns + poll_ns;
        return false;
    }
    link_served(link, REQUEST_FOLLOW);
    link->current_data = answer.data;
    (void)record_came(link, answer.sequence, answer.data, answer.bytes, event);
    if (f->heard_ns < f->fetch_until_ns)
        fetch(link);
    else
        ask_log(link);
    return true;
}

bool follow_take(struct nats_link *link, enum answer_kind kind, uint32_t generation,
                 natsMsg *message, struct nats_event *event)
{
    if (generation != link->follow.generation)
        return false;
    switch (kind) {
    case ANSWER_INFO:
        return take_info(link, message, event);
    case ANSWER_VERIFY:
        return take_verified(link, message, event);
    case ANSWER_OPEN:
        return take_opened(link, message);
    case ANSWER_PROBE:
        take_probed(link, message);
        return false;
    case ANSWER_FETCH:
        return take_fetched(link, message, event);
    case ANSWER_DELIVERY:
        return take_delivery(link, message, event);
    case ANSWER_LENGTH:
        return take_length(message, event);
    default:
        return false;
    }
}
