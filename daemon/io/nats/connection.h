/*
 * Connection: one connection to the servers of a cluster, with the settings that the protocol
 * needs: it notices a dead server within a second, connects again by itself every 0.1 s, and never
 * keeps what could not be sent (what waited would be appended at a time when nobody expects it).
 *
 * libnats delivers all messages of the process on one thread, that of `message`. Blocking calls:
 * the publishing thread of a link alone makes them.
 */
#ifndef CONVOLVD_IO_NATS_CONNECTION_H
#define CONVOLVD_IO_NATS_CONNECTION_H

#include <nats/nats.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

/* The servers of a cluster, and how to be let in. Strings are the caller's, and outlive what was
 * opened with them. */
struct nats_servers {
    const char *servers;     /* "nats://host:port, tls://host:port"; any of them leads to all */
    const char *credentials; /* file: a user's JWT and seed, or one line "user:password"; NULL: none
                              */
    const char *ca; /* file of certificates that the servers' must be signed by, which makes TLS a
                       must; NULL: TLS where a URL says tls:// */
};

enum { NATS_SERVERS_MAX = 16, NATS_INBOX_BYTES = 64, NATS_SUBJECT_BYTES = 256 };

/* What a connection subscribes to; each at most one subject. */
enum nats_interest {
    NATS_INBOX,
    NATS_QUESTIONS,
    NATS_DELIVERIES, /* a server delivers to no wildcard */
    NATS_PRESENCE,
    NATS_INTERESTS,
};

struct nats_connection {
    void *context;
    /* libnats' delivery thread: takes the message over. */
    void (*message)(void *context, natsMsg *message);
    /* Any of libnats' threads: `connected`, `connections` or `lost` have changed. */
    void (*changed)(void *context);

    natsOptions *options;
    natsConnection *connection; /* NULL: not begun */
    natsSubscription *subscriptions[NATS_INTERESTS];
    char subjects[NATS_INTERESTS][NATS_SUBJECT_BYTES]; /* empty: none */
    char inbox[NATS_INBOX_BYTES]; /* what is sent below it comes to `message` */
    sem_t completed;              /* subscriptions of which nothing more comes */
    sem_t closed;
    _Atomic bool lost; /* libnats has given up, as it does where a server refuses the user twice:
                          nats_connection_begin begins anew */
    _Atomic bool connected;
    _Atomic uint64_t connections; /* times that it was connected */
};

/* Prepares a zeroed connection whose functions are set: reads the files, connects to nobody. 0,
 * ERROR_CONFIG, ERROR_MEMORY or ERROR_SYSTEM; close it in any case. */
int nats_connection_open(struct nats_connection *c, const struct nats_servers *servers,
                         const char *name, struct problem *problem);
/* Begins to connect, or begins anew with the same subscriptions. False: libnats cannot, and the
 * connection is lost; why stands in `problem`. */
bool nats_connection_begin(struct nats_connection *c, struct problem *problem);
/* The next begin tries the server that it is connected to last. */
void nats_connection_elsewhere(struct nats_connection *c, const struct nats_servers *servers);
/* Takes the messages of another subject, or of none (NULL), in the place of the one before. */
void nats_connection_subscribe(struct nats_connection *c, enum nats_interest interest,
                               const char *subject);
/* Sends now; false: it has not been sent, and never will be. Destroys the message. */
bool nats_connection_send(struct nats_connection *c, natsMsg *message);
/* Nothing comes any more once it returns true; false: libnats does not end, and the connection is
 * abandoned with all that its functions use. */
bool nats_connection_close(struct nats_connection *c);

#endif
