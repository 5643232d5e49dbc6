/*
 * Cluster: what convolvctl does at the servers of a cluster, without a daemon: it lists the
 * partitions, and makes the logs of one.
 *
 * Main thread; waits for the servers' answers, a few seconds at most.
 */
#ifndef CONVOLVCTL_CLUSTER_H
#define CONVOLVCTL_CLUSTER_H

#include <stdbool.h>

#include "core/error.h"

/* words[0] is `cluster`. 0, or an error with its sentence; without one it is told already. */
int cluster_run(int count, char *const *words, bool json, struct problem *problem);

#endif
