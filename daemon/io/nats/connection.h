/*
 * Connection: one connection to the servers of a cluster, with the settings that the protocol
 * needs. It notices a dead server within a second, and never keeps what could not be sent (what
 * waited would be appended at a time when nobody expects it).
 *
 * libnats connects once and never again by itself: it would use the password that it was given
 * first. Each attempt here reads the files of credentials and certificates, and tries one server:
 * those of the configuration and those that a server has announced, one after the other. So a file
 * that was corrected is used a second later, and a refusal names the server and the file.
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

enum {
    NATS_SERVERS_MAX = 16, /* of a configuration, and as many that servers announce */
    NATS_SERVERS_BYTES = 4096,
    NATS_INBOX_BYTES = 64,
    NATS_SUBJECT_BYTES = 256,
};

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

    struct nats_servers servers;
    const char *name;
    char text[NATS_SERVERS_BYTES];                        /* `servers`, cut into … */
    const char *list[NATS_SERVERS_MAX];                   /* … these URLs */
    char announced[NATS_SERVERS_MAX][NATS_SUBJECT_BYTES]; /* URLs of other servers */
    int count, announced_count;
    int at;                            /* the server that was tried last */
    char tls_name[NATS_SUBJECT_BYTES]; /* the host that certificates of announced ones may name */
    natsConnection *connection;        /* NULL: there is none */
    natsSubscription *subscriptions[NATS_INTERESTS];
    char subjects[NATS_INTERESTS][NATS_SUBJECT_BYTES]; /* empty: none */
    char inbox[NATS_INBOX_BYTES]; /* what is sent below it comes to `message` */
    sem_t completed;              /* subscriptions of which nothing more comes */
    sem_t closed;
    _Atomic bool lost; /* it has ended, or was never there: nats_connection_begin tries a server */
    _Atomic bool connected;
    _Atomic bool denied;          /* the servers have not permitted something: _denial */
    _Atomic uint64_t connections; /* times that it was connected */
};

enum nats_attempt {
    NATS_ATTEMPT_CONNECTED,
    NATS_ATTEMPT_AWAY,    /* the server does not answer */
    NATS_ATTEMPT_REFUSED, /* the server refuses the user or the certificate, or a file is bad */
    NATS_ATTEMPT_STUCK,   /* the connection before does not end */
};

/* Prepares a zeroed connection whose functions are set: reads the files, connects to nobody. 0,
 * ERROR_CONFIG, ERROR_MEMORY or ERROR_SYSTEM; close it in any case. `name` and the strings of
 * `servers` outlive it. */
int nats_connection_open(struct nats_connection *c, const struct nats_servers *servers,
                         const char *name, struct problem *problem);
/* Ends the connection before, if any, and tries the next server once, for a second at most.
 * Connected: the subscriptions are made, and nats_connection_ready follows; else `problem` has the
 * reason, and the connection is lost. */
enum nats_attempt nats_connection_begin(struct nats_connection *c, struct problem *problem);
/* Messages are sent from now on. */
void nats_connection_ready(struct nats_connection *c);
/* How many servers there are to try. */
int nats_connection_servers(const struct nats_connection *c);
/* Something that the servers did not permit since the last call, copied; false: nothing. */
bool nats_connection_denial(struct nats_connection *c, struct problem *problem);
/* Takes the messages of another subject, or of none (NULL), in the place of the one before. */
void nats_connection_subscribe(struct nats_connection *c, enum nats_interest interest,
                               const char *subject);
/* Sends now; false: it has not been sent, and never will be. Destroys the message. */
bool nats_connection_send(struct nats_connection *c, natsMsg *message);
/* Nothing comes any more once it returns true; false: libnats does not end, and the connection is
 * abandoned with all that its functions use. */
bool nats_connection_close(struct nats_connection *c);

#endif
