/*
 * Logs: how the logs of a cluster are called, and how the servers keep them. Whoever makes a log, a
 * sink or an administrator, makes it so.
 *
 * Pure functions, any thread.
 */
#ifndef CONVOLVD_IO_NATS_LOGS_H
#define CONVOLVD_IO_NATS_LOGS_H

#include <stdbool.h>
#include <stdint.h>

#include "io/nats/connection.h"

enum {
    NATS_NAME_BYTES = 64,      /* of a cluster's, a partition's or a worker's name, terminated */
    NATS_REQUEST_BYTES = 1024, /* of a request to make a log, terminated */
};

/* Which log: of cluster NAME and partition PARTITION, "raw" or "log". */
struct nats_log_name {
    char stream[NATS_SUBJECT_BYTES];  /* "NAME:PARTITION:raw" */
    char subject[NATS_SUBJECT_BYTES]; /* "convolvd.NAME.PARTITION.raw" */
};

/* Whether a name can be that of a partition: letters, digits, '_' and '-', 1 … 63 of them; not
 * "presence", whose subjects are taken. */
bool nats_name_valid(const char *name);
void nats_log_name(const char *cluster, const char *partition, const char *kind,
                   struct nats_log_name *name);
/* The subject under which the owner of a term is asked for. */
void nats_owner_subject(const struct nats_log_name *log, uint64_t term,
                        char subject[NATS_SUBJECT_BYTES]);

/* The subject on which a worker tells of itself: "convolvd.NAME.presence.WORKER", with '_' for
 * each character of the worker's name that no subject takes; and what all of these begin with, up
 * to and including the last dot. */
void nats_presence_subject(const char *cluster, const char *worker,
                           char subject[NATS_SUBJECT_BYTES]);

struct nats_log_options {
    bool file;         /* else in memory */
    uint32_t replicas; /* 1 … 5 */
    uint64_t bytes;    /* the oldest records go beyond it; 0: no limit */
    int64_t age_ns;    /* or when they are older; 0: no limit */
};

/* The request that makes a log, for $JS.API.STREAM.CREATE. */
void nats_log_request(const struct nats_log_name *log, const struct nats_log_options *options,
                      char request[NATS_REQUEST_BYTES]);

#endif
