/*
 * Appender: one daemon's part in one log. It joins the protocol (stream/ownership.h) with a link:
 * it reads, asks, takes, beats and releases by itself, answers who asks for the owner, and appends
 * records in order while it owns. What its user sees:
 *
 *     open ─► start ─► resume ─► nats_appender_ready ─► append … append ─► stop ─► resume …
 *                      (it owns)                                (it does not)
 *
 * An append that was accepted here may still be lost with the term: after `stop` nothing that was
 * appended counts, and the next `resume` says where the log really ends.
 *
 * Loop thread, except nats_appender_open. Nothing blocks.
 */
#ifndef CONVOLVD_IO_NATS_APPENDER_H
#define CONVOLVD_IO_NATS_APPENDER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "cluster/cluster.h"
#include "io/nats/link.h"
#include "io/nats/presence.h"
#include "io/nats/successor.h"
#include "stream/ownership.h"
#include "wire/record.h"

struct nats_appender;

struct nats_appender_options {
    uv_loop_t *loop;
    const struct cluster *cluster; /* outlives the appender, as the next two do */
    const char *name;              /* for messages: "stream rig1" */
    const char *partition;
    const char *kind;            /* "raw" or "log" */
    uint64_t queue_bytes;        /* of records that wait to be published */
    struct nats_log_options log; /* how it is made where there is none */
    /* Of the workers that may take the log; NULL: whoever is first takes. */
    struct nats_presence *presence;
    struct io_environment environment; /* with presence */
    struct nats_successor *successor;  /* what it tells the owner as it waits, and hears as owner */
    bool input;                        /* a log of input: its epochs are numbered by who appends */
    /* It owns, and the log ended with `newest` (kind 0: it is empty; its epoch is one that none of
     * the records of input that it has dropped was of; owner: whose record that was),
     * valid until the callback returns. Appending begins with nats_appender_ready. */
    void (*resume)(void *context, const struct record *newest);
    /* It owns no more, and appends nothing. */
    void (*stop)(void *context);
    /* An append was acknowledged: there may be room again. */
    void (*room)(void *context);
    void *context;
};

/* WORKER. As nats_link_open. */
int nats_appender_open(const struct nats_appender_options *options, struct nats_appender **out,
                       struct problem *problem);
void nats_appender_start(struct nats_appender *appender);
/* An owner releases the log first, within the deadline, so that the next takes it at once. */
void nats_appender_close(struct nats_appender *appender, int64_t deadline_ns,
                         void (*closed)(void *context), void *context);

/* Whether it may take the log; it may from the start on. One that owns goes on owning. */
void nats_appender_stand(struct nats_appender *appender, bool stands);
/* What every record carries from now on, copied: the pinned plan and the digest of the filters. */
void nats_appender_describe(struct nats_appender *appender, const char *plan, const char *filters);

/* Inside `resume` or after it: appending begins behind the newest record. */
void nats_appender_ready(struct nats_appender *appender);
/* As owner: gives the log up once all that was appended is acknowledged; others first for 2 s, or
 * until one of them has had it. `to`: the worker that takes it, the others wait as long; NULL: the
 * first of them. */
void nats_appender_release(struct nats_appender *appender, const char *to);

/* Another daemon owns the log, and lives. */
bool nats_appender_waits(const struct nats_appender *appender);

/* As owner: whether results may go to other sinks now. Else the term ends with the next turn of the
 * loop, and nothing more is appended. */
bool nats_appender_may_send(struct nats_appender *appender);

/* How many records can be appended now. */
uint32_t nats_appender_room(const struct nats_appender *appender);
/* Appends a record of DATA. The appender sets term, owner, worker, configuration,
 * chain, plan, filters, state and time. False: no room, or it does not own; nothing has happened.
 */
bool nats_appender_append(struct nats_appender *appender, struct record *record);

/* What every record carries from now on in `state`, copied; as read until then. False: out of
 * memory. */
bool nats_appender_carry(struct nats_appender *appender, const uint8_t *bytes, uint32_t count);
/* Appends a record of CHANGE behind the newest frame. *token: for nats_appender_stored, in this
 * term. `raw_sequence`: as in records of data. False: no room, or it does not own. */
bool nats_appender_change(struct nats_appender *appender, uint64_t raw_sequence, uint64_t *token);
bool nats_appender_stored(const struct nats_appender *appender, uint64_t token);
/* What the log ends with once all that was appended is in: without what follows the header. */
const struct record *nats_appender_last(const struct nats_appender *appender);

/* Before `start`: the log has events of analyses, too; its records are of version 2. */
void nats_appender_log_events(struct nats_appender *appender);
/* As owner: sequence number of the record that the log ends with once all that was appended is in:
 * inside `resume` that of its take. */
uint64_t nats_appender_tail(const struct nats_appender *appender);
/* Appends a record of ANALYSIS with these bytes. *token as above; *sequence: the number that it
 * has, if it is stored. False: no room, or it does not own. */
bool nats_appender_analysis(struct nats_appender *appender, const uint8_t *bytes, uint32_t count,
                            uint64_t *token, uint64_t *sequence);
/* What every record carries from now on in `checkpoint`; as read until then. */
void nats_appender_checkpoint(struct nats_appender *appender, uint64_t sequence);

/* As owner, when all that was appended is sent: no frame of the newest epoch follows. False: as
 * above, or the log is empty. */
bool nats_appender_end(struct nats_appender *appender);

struct nats_appender_figures {
    enum ownership_state state;
    uint64_t term;    /* its own, or the newest that it knows */
    uint64_t takes;   /* terms that it began */
    uint64_t refused; /* appends that the log refused */
    uint64_t appended, acknowledged;
    char owner[WORKER_NAME];  /* of the newest term that it knows; empty: nobody */
    char why[80];             /* its last term ended so; empty: none did */
    struct standing standing; /* with presence; `best` is not kept */
    double load, capacity;    /* likewise */
    int64_t standstill_ns;    /* at its last take: since the record before it; 0: none */
    bool lag_known;           /* it owns, and has appended frames whose capture time is known */
    int64_t lag_ns; /* of the newest ones: from the capture of the last one to its append */
    struct nats_link_figures link;
};
/* Any time between open and close. */
void nats_appender_figures(const struct nats_appender *appender,
                           struct nats_appender_figures *figures);

#endif
