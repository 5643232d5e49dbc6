/*
 * Cluster: its servers, and who this run of this daemon is in it. Plain data; the service makes it
 * before the first stream, and only a reload changes `config`.
 */
#ifndef CONVOLVD_CLUSTER_CLUSTER_H
#define CONVOLVD_CLUSTER_CLUSTER_H

#include <stdint.h>

#include "cluster/candidates.h"

struct cluster {
    const char *servers;     /* "nats://host:port, …": any of them leads to all */
    const char *credentials; /* file; NULL: none */
    const char *ca;          /* file; NULL: TLS only where `servers` say so */
    const char *name;        /* what all subjects begin with */
    char worker[WORKER_NAME];
    uint64_t identity; /* of this run, random, never 0 */
    int64_t lease_ns;
    double capacity;            /* share in use from which on it takes no partition */
    char config[CONFIG_DIGEST]; /* of what all workers of a partition share */
};

#endif
