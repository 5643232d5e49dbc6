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
#include "control/process.h"
#include "io/environment.h"

/* Makes `cluster` of the process's configuration, which it points into, and tells `environment` of
 * it and of the load. 0, or ERROR_SYSTEM: the system has no random numbers. */
int membership_of(struct process *process, struct io_environment *environment,
                  struct cluster *cluster, struct problem *problem);
/* LOOP. A reload has taken another configuration into use. */
void membership_reloaded(const struct config *config, struct cluster *cluster);

#endif
