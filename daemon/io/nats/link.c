/*
 * Link: see link.h. The loop puts what is to be sent into a message ring; the publishing thread
 * sends it. libnats' delivery thread puts what arrives into a ring of pointers; the loop looks at
 * it there, and gives the messages to the publishing thread to be destroyed.
 */
#include "io/nats/link_state.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/doorbell.h"
#include "core/log.h"

enum {
    ARRIVALS = 1 << 16, /* messages; what does not fit is delivered again, or has no outcome */
    SPENT = 1 << 12,
    UNSENT = 1 << 12,
    REPLY_BYTES = 40,
    ROUNDS_AWAY = 20, /* of all servers without a connection, until a line says so */
};

/* A server that restarts reads identities no older than its duplicate window (logs.c); half of it
 * leaves room for clocks that differ. */
static const int64_t identity_kept_ns = 60 * NS_PER_SECOND;

/* Between two rounds of the servers, where none answers and where one refuses this user. */
static const int64_t away_ns = 100 * NS_PER_MS;
static const int64_t refused_ns = 1 * NS_PER_SECOND;
/* Between two lines of one kind. */
static const int64_t refusals_ns = 60 * NS_PER_SECOND;

/* In the ring. */
struct outgoing {
    enum outgoing_kind {
        OUT_MESSAGE,
        OUT_APPEND,
        OUT_NUDGE,     /* an append that can never be stored */
        OUT_SUBSCRIBE, /* to `subject`; empty: to none */
    } kind;
    enum nats_interest interest; /* SUBSCRIBE */
    uint64_t token;
    struct log_end expect; /* APPEND */
    bool with_identity;    /* of `expect` */
    uint64_t term, owner;  /* of the record */
    char subject[NATS_SUBJECT_BYTES];
    char reply[REPLY_BYTES]; /* behind the inbox; empty: none */
    uint64_t bytes;
    uint8_t payload[];
};

/* ---- libnats' threads -------------------------------------------------------------------- */

static void message_arrived(void *context, natsMsg *message)
{
    struct nats_link *link = context;
    if (!spsc_push(&link->arrivals, message))
        natsMsg_Destroy(message);
    sink_thread_ring(&link->thread);
}

static void connection_changed(void *context)
{
    struct nats_link *link = context;
    if (atomic_load(&link->connection.lost) || atomic_load(&link->connection.denied))
        doorbell_ring(link->thread.wake_fd); /* the publishing thread acts on it */
    sink_thread_ring(&link->thread);
}

/* ---- the publishing thread --------------------------------------------------------------- */

static natsStatus set_number(natsMsg *message, const char *header, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return natsMsgHeader_Set(message, header, text);
}

static natsStatus set_condition(natsMsg *message, const struct outgoing *o)
{
    char id[NATS_ID_BYTES];
    nats_id(id, o->expect.sequence + 1, o->term, o->owner);
    natsStatus s = natsMsgHeader_Set(message, "Nats-Msg-Id", id);
    s = s != NATS_OK ? s : set_number(message, "Nats-Expected-Last-Sequence", o->expect.sequence);
    if (s != NATS_OK || !o->with_identity)
        return s;
    nats_id(id, o->expect.sequence, o->expect.term, o->expect.owner);
    return natsMsgHeader_Set(message, "Nats-Expected-Last-Msg-Id", id);
}

/* On a condition that no log fulfils. */
static natsStatus set_impossible(natsMsg *message)
{
    return set_number(message, "Nats-Expected-Last-Sequence", UINT64_C(1) << 62);
}

static bool send_now(struct nats_link *link, const struct outgoing *o)
{
    char reply[NATS_INBOX_BYTES + REPLY_BYTES];
    natsMsg *message = NULL;
    snprintf(reply, sizeof reply, "%s%s", link->connection.inbox, o->reply);
    if (natsMsg_Create(&message, o->subject, o->reply[0] != '\0' ? reply : NULL,
                       (const char *)o->payload, (int)o->bytes) != NATS_OK)
        return false;
    if ((o->kind == OUT_APPEND && set_condition(message, o) != NATS_OK) ||
        (o->kind == OUT_NUDGE && set_impossible(message) != NATS_OK)) {
        natsMsg_Destroy(message);
        return false;
    }
    if (!nats_connection_send(&link->connection, message))
        return false;
    atomic_fetch_add(&link->published, 1);
    atomic_fetch_add(&link->bytes_published, o->bytes);
    return true;
}

static void take_outgoing(struct nats_link *link, const struct outgoing *o)
{
    if (o->kind == OUT_SUBSCRIBE) {
        nats_connection_subscribe(&link->connection, o->interest,
                                  o->subject[0] != '\0' ? o->subject : NULL);
    } else if (!send_now(link, o) && o->kind == OUT_APPEND) {
        spsc_push(&link->unsent, (void *)(uintptr_t)o->token); /* full: it has no outcome */
        sink_thread_ring(&link->thread);
    }
}

static void destroy_spent(struct nats_link *link)
{
    natsMsg *message;
    while ((message = spsc_pop(&link->spent)) != NULL)
        natsMsg_Destroy(message);
}

/* Takes back what still waits to be sent: it belongs to an earlier connection. */
static void return_unsent(struct nats_link *link)
{
    uint64_t bytes;
    const struct outgoing *o;
    while ((o = message_ring_peek(&link->thread.ring, &bytes)) != NULL) {
        take_outgoing(link, o);
        message_ring_release(&link->thread.ring);
    }
}

static void report_attempt(struct nats_link *link, enum nats_attempt attempt,
                           const struct problem *problem)
{
    link->refused = link->refused || attempt == NATS_ATTEMPT_REFUSED;
    if (attempt == NATS_ATTEMPT_REFUSED)
        log_limited(&link->refusals, refusals_ns, LOG_LEVEL_ERROR, "%s: no connection to NATS: %s",
                    link->options.name, problem->text);
    else if (link->rounds == ROUNDS_AWAY)
        log_limited(&link->away, refusals_ns, LOG_LEVEL_WARNING,
                    "%s: no connection to NATS yet: %s; tried again every 0.1 s",
                    link->options.name, problem->text);
}

/* When to try the next server: those of the list one after the other, then after a pause. */
static int64_t next_attempt(struct nats_link *link, int64_t now_ns)
{
    if (++link->tried < nats_connection_servers(&link->connection))
        return now_ns;
    const int64_t pause_ns = link->refused ? refused_ns : away_ns;
    link->tried = 0;
    link->rounds++;
    link->refused = false;
    return now_ns + pause_ns;
}

/* Tries a server where there is no connection and it is time. Returns when to look again
 * [monotonic]. */
static int64_t keep_connected(struct nats_link *link, int64_t again_ns)
{
    struct problem problem = {0};
    const int64_t now_ns = clock_monotonic_ns();
    const bool elsewhere =
        atomic_exchange(&link->elsewhere, false) && !atomic_load(&link->connection.lost);
    if (elsewhere)
        log_limited(&link->moves, refusals_ns, LOG_LEVEL_WARNING,
                    "%s: the server it is connected to does not serve the log; trying another",
                    link->options.name);
    else if (!atomic_load(&link->connection.lost))
        return INT64_MAX;
    if (!elsewhere && again_ns == INT64_MAX && now_ns - link->connected_ns < refused_ns)
        again_ns = link->connected_ns + refused_ns; /* let in, and turned out at once */
    if (!elsewhere && again_ns != INT64_MAX && now_ns < again_ns)
        return again_ns;
    const enum nats_attempt attempt = nats_connection_begin(&link->connection, &problem);
    if (attempt != NATS_ATTEMPT_CONNECTED) {
        report_attempt(link, attempt, &problem);
        return next_attempt(link, clock_monotonic_ns());
    }
    link->tried = link->rounds = 0;
    link->refused = false;
    link->connected_ns = clock_monotonic_ns();
    return_unsent(link);
    nats_connection_ready(&link->connection);
    return INT64_MAX;
}

static void report_denial(struct nats_link *link)
{
    struct problem problem = {0};
    if (nats_connection_denial(&link->connection, &problem))
        log_limited(&link->denials, refusals_ns, LOG_LEVEL_ERROR, "%s: %s", link->options.name,
                    problem.text);
}

static void publish(void *context)
{
    struct nats_link *link = context;
    struct sink_thread *thread = &link->thread;
    int64_t again_ns = 0;
    link->connected_ns = INT64_MIN / 2;
    while (!sink_thread_ends(thread) ||
           (!sink_thread_empty(thread) && !sink_thread_must_end(thread))) {
        uint64_t bytes;
        const struct outgoing *o;
        again_ns = keep_connected(link, again_ns);
        report_denial(link);
        while (!sink_thread_must_end(thread) &&
               (o = message_ring_peek(&thread->ring, &bytes)) != NULL) {
            take_outgoing(link, o);
            message_ring_release(&thread->ring);
        }
        destroy_spent(link);
        if (again_ns == INT64_MAX && atomic_load(&link->connection.lost))
            continue;
        sink_thread_wait(thread, again_ns, NULL);
    }
    link->abandoned = !nats_connection_close(&link->connection);
    destroy_spent(link);
}

/* ---- life -------------------------------------------------------------------------------- */

static void destroy(struct nats_link *link)
{
    natsMsg *message;
    while (link->arrivals.slots != NULL && (message = spsc_pop(&link->arrivals)) != NULL)
        natsMsg_Destroy(message);
    if (link->current != NULL)
        natsMsg_Destroy(link->current);
    free(link->current_data);
    spsc_close(&link->arrivals);
    spsc_close(&link->spent);
    spsc_close(&link->unsent);
    sink_thread_free(&link->thread);
    free(link);
}

static void rung(void *context)
{
    struct nats_link *link = context;
    link->options.rung(link->options.context);
}

static void hung(void *context)
{
    const struct nats_link *link = context;
    log_error("%s: the connection to NATS does not end; it is abandoned", link->options.name);
}

static void freed(void *context)
{
    struct nats_link *link = context;
    if (!link->abandoned)
        destroy(link);
}

int nats_link_open(const struct nats_link_options *options, struct nats_link **out,
                   struct problem *problem)
{
    struct nats_link *link = calloc(1, sizeof *link);
    if (link == NULL)
        return problem_set(problem, ERROR_MEMORY, "%s: out of memory", options->name);
    link->options = *options;
    link->connection.context = link;
    link->connection.message = message_arrived;
    link->connection.changed = connection_changed;
    const struct sink_thread_options thread = {
        .loop = options->loop,
        .context = link,
        .run = publish,
        .rung = rung,
        .hung = hung,
        .freed = freed,
    };
    int error = sink_thread_open(&link->thread, &thread, options->queue_bytes);
    if (error != 0 || spsc_open(&link->arrivals, ARRIVALS) != 0 ||
        spsc_open(&link->spent, SPENT) != 0 || spsc_open(&link->unsent, UNSENT) != 0)
        error = problem_set(problem, ERROR_MEMORY, "%s: out of memory", options->name);
    else
        error = nats_connection_open(&link->connection, &options->servers, options->name, problem);
    if (error != 0) {
        nats_connection_close(&link->connection);
        destroy(link);
        return error;
    }
    *out = link;
    return 0;
}

void nats_link_start(struct nats_link *link)
{
    sink_thread_handles(&link->thread);
    link->started = true;
    link->nudge_ns = INT64_MAX;
    const int error = sink_thread_begin(&link->thread);
    if (error == 0)
        return;
    log_error("%s: no thread to publish with: %s", link->options.name, strerror(error));
    atomic_store(&link->thread.done, true);
}

void nats_link_close(struct nats_link *link, int64_t deadline_ns, void (*closed)(void *context),
                     void *context)
{
    if (link->started) {
        sink_thread_close(&link->thread, deadline_ns, closed, context);
        return;
    }
    nats_connection_close(&link->connection);
    destroy(link);
    closed(context);
}

/* ---- sending: loop ----------------------------------------------------------------------- */

static struct outgoing *reserve(struct nats_link *link, enum outgoing_kind kind,
                                const char *subject, uint64_t bytes)
{
    struct outgoing *o = message_ring_reserve(&link->thread.ring, sizeof *o + bytes);
    if (o == NULL)
        return NULL;
    *o = (struct outgoing){.kind = kind, .bytes = bytes};
    snprintf(o->subject, sizeof o->subject, "%s", subject);
    return o;
}

static void commit(struct nats_link *link, struct outgoing *o, enum answer_kind reply,
                   uint64_t number)
{
    if (reply != 0)
        snprintf(o->reply, sizeof o->reply, ".%c.%" PRIu64, (char)reply, number);
    message_ring_commit(&link->thread.ring);
    sink_thread_wake(&link->thread);
}

bool link_publish(struct nats_link *link, const char *subject, enum answer_kind reply,
                  uint64_t number, const char *payload)
{
    const size_t bytes = strlen(payload);
    struct outgoing *o = reserve(link, OUT_MESSAGE, subject, bytes);
    if (o == NULL)
        return false;
    memcpy(o->payload, payload, bytes);
    commit(link, o, reply, number);
    return true;
}

bool link_subscribe(struct nats_link *link, enum nats_interest interest, const char *subject)
{
    struct outgoing *o = reserve(link, OUT_SUBSCRIBE, subject, 0);
    if (o == NULL)
        return false;
    o->interest = interest;
    commit(link, o, 0, 0);
    return true;
}

uint64_t nats_link_room(const struct nats_link *link)
{
    const uint64_t unused = message_ring_unused(&link->thread.ring),
                   longest = message_ring_longest(&link->thread.ring),
                   overhead = sizeof(struct outgoing) + 2 * (uint64_t)MESSAGE_OVERHEAD;
    const uint64_t room = unused < longest ? unused : longest;
    return room > overhead ? room - overhead : 0;
}

bool nats_link_append(struct nats_link *link, const struct log_end *expect, uint64_t token,
                      const struct record *record)
{
    const size_t bytes = record_bytes(record);
    struct outgoing *o = reserve(link, OUT_APPEND, link->options.log.subject, bytes);
    if (bytes == 0 || o == NULL)
        return false;
    o->token = token;
    o->expect = *expect;
    o->term = record->term;
    o->owner = record->owner;
    /* Replicas know the newest identity each for itself, and one that was caught up by the others
     * does not (nats-server 2.9, 2.10): it would refuse alone what the others store. */
    o->with_identity = link->replicas == 1 && expect->term > 0 && !link->id_unknown &&
                       clock_realtime_ns() - link->newest_ns < identity_kept_ns;
    record_write(record, o->payload);
    link->newest_token = token;
    commit(link, o, ANSWER_APPEND, token);
    link_asked(link, REQUEST_APPEND);
    return true;
}

bool nats_link_read(struct nats_link *link, uint64_t sequence, uint32_t tag)
{
    char subject[2 * NATS_SUBJECT_BYTES], request[2 * NATS_SUBJECT_BYTES];
    snprintf(subject, sizeof subject, "$JS.API.STREAM.MSG.GET.%.200s", link->options.log.stream);
    if (sequence > 0)
        snprintf(request, sizeof request, "{\"seq\":%" PRIu64 "}", sequence);
    else
        snprintf(request, sizeof request, "{\"last_by_subj\":\"%s\"}", link->options.log.subject);
    link_asked(link, REQUEST_READ);
    if (link->replicas == 0)
        link_ask_kept(link);
    return link_publish(link, subject, ANSWER_READ, tag, request);
}

bool link_nudge(struct nats_link *link)
{
    struct outgoing *o = reserve(link, OUT_NUDGE, link->options.log.subject, 0);
    if (o == NULL)
        return false;
    commit(link, o, ANSWER_NUDGE, 0);
    return true;
}

bool nats_link_ask(struct nats_link *link, uint64_t term, const char *text)
{
    char subject[NATS_SUBJECT_BYTES];
    nats_owner_subject(&link->options.log, term, subject);
    return link_publish(link, subject, ANSWER_OWNER, term, text);
}

bool nats_link_own(struct nats_link *link, uint64_t term)
{
    char subject[NATS_SUBJECT_BYTES] = "";
    if (term > 0)
        nats_owner_subject(&link->options.log, term, subject);
    return link_subscribe(link, NATS_QUESTIONS, subject);
}

void nats_link_answer(struct nats_link *link)
{
    if (link->question[0] != '\0')
        link_publish(link, link->question, 0, 0, "");
    link->question[0] = '\0';
}

bool nats_link_tell(struct nats_link *link, const char *subject, const char *text)
{
    return link_publish(link, subject, 0, 0, text);
}

bool nats_link_hear(struct nats_link *link, const char *prefix)
{
    char subject[NATS_SUBJECT_BYTES];
    snprintf(link->hears, sizeof link->hears, "%s", prefix);
    snprintf(subject, sizeof subject, "%.250s*", prefix);
    return link_subscribe(link, NATS_PRESENCE, subject);
}

bool nats_link_create(struct nats_link *link, const struct nats_log_options *log)
{
    char subject[2 * NATS_SUBJECT_BYTES], request[NATS_REQUEST_BYTES];
    snprintf(subject, sizeof subject, "$JS.API.STREAM.CREATE.%.200s", link->options.log.stream);
    nats_log_request(&link->options.log, log, request);
    return link_publish(link, subject, ANSWER_CREATE, 0, request);
}

/* ---- events: loop ------------------------------------------------------------------------ */

static void spend(struct nats_link *link)
{
    if (link->current != NULL && !spsc_push(&link->spent, link->current))
        natsMsg_Destroy(link->current);
    link->current = NULL;
    free(link->current_data);
    link->current_data = NULL;
}

static void newest_at(struct nats_link *link, int64_t realtime_ns)
{
    if (realtime_ns > link->newest_ns)
        link->newest_ns = realtime_ns;
}

static bool take_ack(struct nats_link *link, uint64_t token, natsMsg *message,
                     struct nats_event *event)
{
    struct nats_ack ack = {.fault = true, .text = "no server takes records of this log now"};
    const int bytes = natsMsg_GetDataLength(message);
    if (bytes > 0 && !nats_ack_read(natsMsg_GetData(message), (size_t)bytes, &ack))
        return false;
    if (bytes > 0)
        link_served(link, REQUEST_APPEND);
    event->token = token;
    event->kind = ack.sequence > 0 ? LINK_APPENDED : ack.fault ? LINK_UNSTORED : LINK_REFUSED;
    event->stopped = ack.full;
    event->sequence = ack.sequence;
    snprintf(event->text, sizeof event->text, "%s", ack.text);
    if (ack.sequence > 0)
        newest_at(link, clock_realtime_ns());
    if (ack.sequence > 0 || ack.id_unknown)
        link->id_unknown = ack.id_unknown;
    return true;
}

static void take_read(struct nats_link *link, natsMsg *message, struct nats_event *event)
{
    struct nats_answer answer = {.failed = true, .text = "no server keeps this log now"};
    const int bytes = natsMsg_GetDataLength(message);
    event->kind = LINK_UNREAD;
    if (bytes > 0 && !nats_answer_read(natsMsg_GetData(message), (size_t)bytes, &answer))
        snprintf(answer.text, sizeof answer.text, "the answer cannot be read");
    else if (bytes > 0 && answer.code != NATS_CODE_UNAVAILABLE)
        link_served(link, REQUEST_READ);
    snprintf(event->text, sizeof event->text, "%s", answer.text);
    if (answer.failed || answer.data == NULL) {
        if (answer.code == NATS_CODE_NO_MESSAGE)
            event->kind = LINK_EMPTY;
        else if (answer.code == NATS_CODE_NO_STREAM)
            event->kind = LINK_ABSENT;
        return;
    }
    link->current_data = answer.data;
    event->sequence = answer.sequence;
    event->appended_ns = answer.appended_ns;
    const enum record_fault fault = record_read(answer.data, answer.bytes, &event->record);
    event->kind = fault == RECORD_FAULT_NONE ? LINK_READ : LINK_DAMAGED;
    if (fault != RECORD_FAULT_NONE)
        snprintf(event->text, sizeof event->text, "%s", record_fault_sentence(fault));
    newest_at(link, answer.appended_ns);
}

static void take_created(natsMsg *message, struct nats_event *event)
{
    struct nats_answer answer = {.failed = true, .text = "no server makes logs now"};
    const int bytes = natsMsg_GetDataLength(message);
    if (bytes > 0)
        nats_answer_read(natsMsg_GetData(message), (size_t)bytes, &answer);
    const bool fails = answer.failed && answer.code != NATS_CODE_STREAM_EXISTS;
    event->kind = fails ? LINK_FAILED : LINK_CREATED;
    event->made = answer.made;
    snprintf(event->text, sizeof event->text, "%s", answer.text);
}

static void take_kept(struct nats_link *link, natsMsg *message)
{
    struct nats_answer answer;
    const int bytes = natsMsg_GetDataLength(message);
    if (bytes > 0 && nats_answer_read(natsMsg_GetData(message), (size_t)bytes, &answer) &&
        answer.has_state) {
        link->replicas = answer.replicas;
        served_kept(link, &answer);
    }
}

/* A question for the owner of a term, whose subject ends in the term. */
static bool take_question(struct nats_link *link, natsMsg *message, struct nats_event *event)
{
    const char *reply = natsMsg_GetReply(message),
               *term = strrchr(natsMsg_GetSubject(message), '.');
    if (reply == NULL || term == NULL)
        return false;
    snprintf(link->question, sizeof link->question, "%s", reply);
    event->kind = LINK_QUESTION;
    event->term = strtoull(term + 1, NULL, 10);
    return true;
}

static bool take_told(const struct nats_link *link, natsMsg *message, struct nats_event *event)
{
    event->kind = LINK_TOLD;
    snprintf(event->text, sizeof event->text, "%s",
             natsMsg_GetSubject(message) + strlen(link->hears));
    return event->payload_bytes > 0;
}

/* False: it was consumed, or of no interest. */
static bool take_message(struct nats_link *link, natsMsg *message, struct nats_event *event)
{
    const char *subject = natsMsg_GetSubject(message);
    const size_t inbox = strlen(link->connection.inbox);
    struct nats_place place;
    event->payload = natsMsg_GetData(message);
    event->payload_bytes = (size_t)natsMsg_GetDataLength(message);
    if (nats_place_read(natsMsg_GetReply(message), &place)) /* under the log's own subject */
        return follow_take(link, ANSWER_DELIVERY, place.consumer, message, event);
    if (link->hears[0] != '\0' && strncmp(subject, link->hears, strlen(link->hears)) == 0)
        return take_told(link, message, event);
    if (strncmp(subject, link->connection.inbox, inbox) != 0)
        return take_question(link, message, event);
    const char *answer = subject + inbox + (subject[inbox] == '.'); /* not: a heartbeat */
    if (strlen(answer) < sizeof "a.1" - 1)
        return false;
    const enum answer_kind kind = (enum answer_kind)answer[0];
    const uint64_t number = strtoull(answer + 2, NULL, 10);
    switch (kind) {
    case ANSWER_APPEND:
        return take_ack(link, number, message, event);
    case ANSWER_READ:
        event->tag = (uint32_t)number;
        take_read(link, message, event);
        return true;
    case ANSWER_OWNER:
        event->term = number;
        event->kind = natsMsg_IsNoResponders(message) ? LINK_NO_RESPONDERS : LINK_ANSWERED;
        return true;
    case ANSWER_CREATE:
        take_created(message, event);
        return true;
    case ANSWER_KEPT:
        take_kept(link, message);
        return false;
    case ANSWER_NUDGE:
        return event->payload_bytes > 0 && served_nudged(link, event);
    default:
        return follow_take(link, kind, (uint32_t)number, message, event);
    }
}

/* True with an event when the connection has gone or come since it was last told. */
static bool take_connection(struct nats_link *link, struct nats_event *event)
{
    const uint64_t connections = atomic_load(&link->connection.connections);
    const bool connected = atomic_load(&link->connection.connected);
    if (link->connected && (!connected || connections != link->connections)) {
        link->connected = false;
        event->kind = LINK_DISCONNECTED;
        return true;
    }
    if (!link->connected && connected) {
        link->connected = true;
        link->connections = connections;
        memset(link->asked_ns, 0, sizeof link->asked_ns); /* of the server before */
        link->replicas = 0;
        link->ask_kept_ns = 0;
        link->nudge_ns = INT64_MAX;
        event->kind = LINK_CONNECTED;
        follow_again(link);
        return true;
    }
    return false;
}

bool nats_link_next(struct nats_link *link, struct nats_event *event)
{
    natsMsg *message;
    const void *token;
    spend(link);
    *event = (struct nats_event){0};
    if (take_connection(link, event))
        return true;
    if ((token = spsc_pop(&link->unsent)) != NULL) {
        event->kind = LINK_UNSENT;
        event->token = (uint64_t)(uintptr_t)token;
        return true;
    }
    while ((message = spsc_pop(&link->arrivals)) != NULL) {
        link->current = message;
        if (take_message(link, message, event))
            return true;
        spend(link);
        *event = (struct nats_event){0};
    }
    if (!spsc_empty(&link->spent))
        sink_thread_wake(&link->thread);
    return false;
}

void nats_link_figures(const struct nats_link *link, struct nats_link_figures *figures)
{
    *figures = (struct nats_link_figures){
        .connected = link->connected,
        .connections = link->connections,
        .published = atomic_load(&link->published),
        .bytes = atomic_load(&link->bytes_published),
        .reopened = link->follow.reopened,
        .received = link->received,
        .bytes_received = link->bytes_received,
    };
}

void nats_mark_of(const struct nats_event *read, struct log_mark *mark)
{
    const struct record *r = &read->record;
    *mark = (struct log_mark){
        .end = {read->sequence, r->term, r->owner},
        .released = r->kind == RECORD_RELEASE,
        .epoch = r->epoch,
        .next = r->next,
    };
}
