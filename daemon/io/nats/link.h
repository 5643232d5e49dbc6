/*
 * Link: one log of a cluster, which is a JetStream stream of one subject, seen from the loop. It
 * appends records on condition of what the log ends with, reads the newest one or any other by
 * number, follows the log, and carries the questions by which candidates learn whether an owner
 * lives (stream/ownership.h says when to do what; this module only does it).
 *
 *     loop: append, read, ask … ──► ring ──► publishing thread ──► connection ──► server
 *           nats_link_next ◄── ring ◄── libnats' delivery thread ◄───┘
 *
 * Nothing here blocks the loop, and the loop never calls libnats. What is asked is answered by an
 * event, or never: a server or the way to it may be gone. Callers keep deadlines of their own.
 *
 * The condition of an append is `expect`: the log must end with that record, by number and by
 * identity (Nats-Expected-Last-Sequence and -Msg-Id; the id is "number.term.owner"). Both are
 * checked where the log is applied, on every replica. The number alone would take a log that went
 * back and grew again for the one that was read. A server that has restarted forgets the newest id
 * once it is older than `duplicate_window`; where it says so, the next append names the number
 * alone.
 *
 * Call order: open (WORKER) → start (LOOP) → close (LOOP). Everything else is LOOP, in between.
 */
#ifndef CONVOLVD_IO_NATS_LINK_H
#define CONVOLVD_IO_NATS_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/error.h"
#include "io/nats/answers.h"
#include "io/nats/connection.h"
#include "io/nats/logs.h"
#include "stream/ownership.h"
#include "wire/record.h"

struct nats_link;

struct nats_link_options {
    uv_loop_t *loop;
    const char *name; /* for messages, and what the servers list the connection as */
    struct nats_servers servers;
    struct nats_log_name log;
    uint64_t queue_bytes; /* of what waits to be published, at least twice the longest record */
    /* LOOP. Something has happened: call nats_link_next until it returns false. Not after close. */
    void (*rung)(void *context);
    void *context;
};

/* WORKER. 0, ERROR_MEMORY, ERROR_SYSTEM or ERROR_CONFIG (an address or a file that cannot be used).
 * Does not connect: that is tried from `start` on until `close`, every 0.1 s. */
int nats_link_open(const struct nats_link_options *options, struct nats_link **out,
                   struct problem *problem);
void nats_link_start(struct nats_link *link);
/* What is queued is published until deadline_ns [monotonic], what it has asked stays unanswered.
 * Then `closed`. */
void nats_link_close(struct nats_link *link, int64_t deadline_ns, void (*closed)(void *context),
                     void *context);

/* ---- what to do -------------------------------------------------------------------------- */

/*
 * Appends the record on condition that the log ends with `expect`; its outcome comes as
 * LINK_APPENDED, LINK_REFUSED or LINK_UNSENT with `token`, or never. Copies the record. False: the
 * queue has no room, and nothing happens. record->term and ->owner identify it.
 */
bool nats_link_append(struct nats_link *link, const struct log_end *expect, uint64_t token,
                      const struct record *record);

/* Bytes that the queue still takes, of a record with its overhead. */
uint64_t nats_link_room(const struct nats_link *link);

/* Asks for the newest record (sequence 0) or for one by number: LINK_READ, LINK_EMPTY,
 * LINK_ABSENT or LINK_UNREAD with `tag`, or never. */
bool nats_link_read(struct nats_link *link, uint64_t sequence, uint32_t tag);

/* Asks where a log without records goes on: LINK_LENGTH, LINK_ABSENT or LINK_UNREAD, or
 * never. */
bool nats_link_ask_length(struct nats_link *link);

/* Asks whoever owns the log in `term`, who reads `text`: LINK_ANSWERED or LINK_NO_RESPONDERS. */
bool nats_link_ask(struct nats_link *link, uint64_t term, const char *text);
/* From now on takes the questions for `term`, one after the other as LINK_QUESTION; 0: none. */
bool nats_link_own(struct nats_link *link, uint64_t term);
/* Answers the question just fetched. */
void nats_link_answer(struct nats_link *link);

/*
 * Follows the log from record number `sequence` (or the first behind it that is there) on:
 * LINK_RECORD for each, in order and without a hole in the numbers, whatever becomes of the
 * connection. Replaces what was followed before; 0: follows no more. At most 32 MB wait unfetched,
 * then the server waits. When the log goes back behind what was delivered, or its first records
 * have gone meanwhile, LINK_LAPSED says so, and nothing follows until this is called again.
 */
void nats_link_follow(struct nats_link *link, uint64_t sequence);

/* Makes the log, if it does not exist: LINK_CREATED or LINK_FAILED. */
bool nats_link_create(struct nats_link *link, const struct nats_log_options *options);

/* Tells whoever hears `subject`, once. */
bool nats_link_tell(struct nats_link *link, const char *subject, const char *text);
/* From now on takes what is told on subjects of `prefix`, which ends in a dot, and one word more:
 * LINK_TOLD. It hears itself, too. */
bool nats_link_hear(struct nats_link *link, const char *prefix);

/* ---- what has happened ------------------------------------------------------------------- */

enum nats_event_kind {
    LINK_CONNECTED,    /* also again */
    LINK_DISCONNECTED, /* of what was under way, the outcome may never come */
    LINK_APPENDED,     /* token, sequence */
    LINK_REFUSED,      /* token: the condition does not hold; text */
    LINK_UNSTORED,     /* token: no server stores it now, whatever the log ends with; text */
    LINK_UNSENT,       /* token: it was not sent, there was no connection */
    LINK_READ,         /* tag, sequence, appended_ns, record */
    LINK_EMPTY,        /* tag: the log has no record */
    LINK_LENGTH,       /* sequence: of the newest record, which may be gone; first: what is left */
    LINK_ABSENT,       /* tag: the servers say that there is no such log; text */
    LINK_UNREAD,       /* tag: no server can answer now, which says nothing of the log; text */
    LINK_ANSWERED,     /* term */
    LINK_NO_RESPONDERS,
    LINK_QUESTION, /* term: nats_link_answer if it is ours; payload, payload_bytes */
    LINK_RECORD,   /* sequence, record */
    LINK_DAMAGED,  /* sequence: what lies there is no record; text says what it is */
    LINK_LAPSED,   /* sequence: the next one wanted; first, last: what the log has */
    LINK_CREATED,  /* made: by this request; else it existed already */
    LINK_FAILED,   /* text */
    LINK_TOLD,     /* text: behind which subject of those heard; payload, payload_bytes */
};

struct nats_event {
    enum nats_event_kind kind;
    uint64_t token, term, sequence, first, last;
    uint32_t tag;
    bool made;
    bool stopped;         /* UNSTORED: a server has said so; else none has answered */
    int64_t appended_ns;  /* realtime of the server, when it took the record */
    struct record record; /* valid until the next call of nats_link_next, as `payload` */
    const char *payload;
    size_t payload_bytes;
    char text[NATS_TEXT_BYTES];
};

/* The next event; false: none. */
bool nats_link_next(struct nats_link *link, struct nats_event *event);

/* When nats_link_tick has to be called next [monotonic]; INT64_MAX: not needed. It reopens what is
 * followed where the server has been silent for 1.5 s. */
int64_t nats_link_due(const struct nats_link *link);
void nats_link_tick(struct nats_link *link, int64_t now_ns);

struct nats_link_figures {
    bool connected;
    uint64_t connections;      /* times that it was connected */
    uint64_t published, bytes; /* messages that the connection took */
    uint64_t reopened;         /* times that what is followed was opened again */
    uint64_t received, bytes_received;
};
void nats_link_figures(const struct nats_link *link, struct nats_link_figures *figures);

/* What the newest record of a log says to ownership. */
void nats_mark_of(const struct nats_event *read, struct log_mark *mark);

#endif
