/*
 * Ingest: from datagrams of one protocol to packets of one stream. A protocol is a row: how
 * its header is read, and which numbers it carries. Everything else is common and lives here:
 * which sender is followed, what is held until it is proven, where frames belong, and the
 * ledger
 *
 *     datagrams = accepted + each named reject + held
 *
 * which holds before and after every call.
 *
 * Senders. One is followed, known by its host and (RTP) its SSRC. Another one takes over when
 * two consecutive datagrams prove it and none of the one followed came between: at once when
 * it comes from the same host with another SSRC (a restarted sender), and from another host
 * only when the one followed has been silent for max_dropout. The ports of a host are not
 * compared: a restarted program has a new one.
 *
 * No sockets and no clock: tests and fuzzers feed it directly. Loop thread; nothing allocates.
 */
#ifndef CONVOLVD_IO_NET_INGEST_H
#define CONVOLVD_IO_NET_INGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/log.h"
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
};

struct ingest_protocol {
    uint32_t timestamp_bits; /* as struct sequence_options */
    uint32_t sequence_bits;  /* 0: headerless, frames follow each other as they come */
    bool has_ssrc;
    /* Reads the header: 0, or 1 + the reject. */
    int (*parse)(const struct source_options *options, const struct received *received,
                 struct ingest_fields *fields);
};

struct ingest;

/* WORKER. options->own begins with struct ingest_options. `allow` is resolved here. */
int ingest_open(const struct ingest_protocol *protocol, const struct source_options *options,
                const struct source_host *host, struct ingest **out, struct problem *problem);
void ingest_datagram(struct ingest *ingest, const struct received *received);
/* The socket lost so many, just before the next datagram. */
void ingest_drops(struct ingest *ingest, uint64_t datagrams);
/*
 * The socket lost so many trains (or datagrams) then. How many frames that were, the numbers alone
 * say: a gap that the next packet shows is the socket's. Protocols with numbers only.
 */
void ingest_train_drops(struct ingest *ingest, uint64_t trains);
/* Where the payloads of the next datagrams belong if they follow the newest one without a gap: see
 * receiver_options.guess. None without a host that takes them. */
unsigned ingest_guess(const struct ingest *ingest, struct receive_guess *guesses, unsigned most);
bool ingest_came_true(const struct ingest *ingest, const struct receive_guess *guess,
                      unsigned number, const struct received *received);
/* No more will come: what is held is rejected. */
void ingest_stop(struct ingest *ingest);
/* Frames of the newest packet; 0: none came yet. */
uint32_t ingest_last_frames(const struct ingest *ingest);
/* All but the socket's own fields. */
void ingest_ledger(const struct ingest *ingest, struct source_ledger *ledger);
void ingest_close(struct ingest *ingest); /* NULL is fine */

#endif
