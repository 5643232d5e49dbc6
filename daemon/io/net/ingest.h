/*
 * Ingest: turns the datagrams of one protocol into packets of one stream. A protocol is a row that
 * says how to read its header and which numbers it carries. Everything else is common and lives
 * here: what to hold until it is proven, which frame numbers a payload
 * gets, and the ledger
 *
 *     datagrams = accepted + each named reject + held
 *
 * which holds before and after every call.
 *
 * senders.h decides whose datagrams it follows.
 *
 * No sockets and no clock: tests and fuzzers feed it directly. Loop thread; nothing allocates after
 * open.
 */
#ifndef CONVOLVD_IO_NET_INGEST_H
#define CONVOLVD_IO_NET_INGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/codec.h"
#include "core/log.h"
#include "io/net/allowed.h"
#include "io/net/ingest_options.h"
#include "io/net/receiver.h"
#include "io/source.h"
#include "stream/sequence.h"

/* What a protocol finds in a datagram. */
struct ingest_fields {
    const uint8_t *payload;
    size_t payload_bytes;
    uint64_t sequence, timestamp;
    uint32_t ssrc;
    uint8_t payload_type;
    bool marker;
    bool heartbeat; /* an idle sender is alive */
    bool numbered;  /* not of this stream, but it has a number of the sender's sequence */
};

struct ingest_protocol {
    uint32_t timestamp_bits; /* as struct sequence_options */
    uint32_t sequence_bits;  /* 0: headerless, each datagram continues the one before */
    bool has_ssrc;
    bool datagrams; /* its packets are the datagrams of a socket */
    /* Reads the header into `fields`. False: the datagram is not a packet of this stream, and
     * `reason` says why. */
    bool (*parse)(const struct source_options *options, const struct received *received,
                  struct ingest_fields *fields, enum reject *reason);
    /* Compares headers. True: `datagram` carries frames of this stream, as the datagram `as` does.
     * NULL: all datagrams of one sender do. */
    bool (*same_kind)(const uint8_t *datagram, size_t bytes, const uint8_t *as);
};

struct ingest;

/* WORKER. options->own begins with struct ingest_options. */
int ingest_open(const struct ingest_protocol *protocol, const struct source_options *options,
                const struct source_host *host, struct ingest **out, struct problem *problem);
void ingest_datagram(struct ingest *ingest, const struct received *received);
/* The socket dropped so many datagrams just before the next one. */
void ingest_drops(struct ingest *ingest, uint64_t datagrams);
/* The socket dropped so many messages there, some of them GRO batches. Only the sequence numbers
 * say how many frames that were: the ingest blames the next gap on the socket. Protocols with
 * numbers only. */
void ingest_batch_drops(struct ingest *ingest, uint64_t batches);
/* Predicts where the payloads of the next datagrams belong if they follow the newest one without a
 * gap: see receiver_options.predict. Returns 0 when the host takes no payloads in place. */
unsigned ingest_predict(const struct ingest *ingest, struct receive_prediction *predictions,
                        unsigned most);
/* receiver_options.hit. */
bool ingest_hit(const struct ingest *ingest, const struct receive_prediction *prediction,
                unsigned number, const struct received *received);
/* Takes a new list of allowed networks over. */
void ingest_take_allowed(struct ingest *ingest, struct allowed *allowed);
/* No more datagrams will come: rejects what it holds. */
void ingest_stop(struct ingest *ingest);
/* Frames of the newest packet; 0 before the first one. */
uint32_t ingest_last_frames(const struct ingest *ingest);
/* Fills all but the fields of the socket. */
void ingest_ledger(const struct ingest *ingest, struct source_ledger *ledger);
/* What another ingest of the same protocol goes on from in this one's place: the sender followed,
 * its numbers, and the ledger; see core/codec.h. Stopped, or before the first datagram. */
void ingest_walk(struct ingest *ingest, struct codec *codec);
void ingest_close(struct ingest *ingest); /* NULL is fine */

#endif
