/*
 * Membership: who this run of the daemon is in its cluster, made of the configuration, the host's
 * name and the instance's.
 *
 * Main thread, before the loop.
 */
#ifndef CONVOLVD_SERVICE_MEMBERSHIP_H
#define CONVOLVD_SERVICE_MEMBERSHIP_H

#include "cluster/cluster.h"
#include "config/config.h"

/* `cluster` points into the configuration. 0, or ERROR_SYSTEM: the system has no random numbers. */
int membership_of(const struct config *config, struct cluster *cluster, struct problem *problem);

#endif
