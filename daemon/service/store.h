/*
 * The store: what one daemon hands over to the next through systemd's descriptor store
 * (sd_pid_notify_with_fds(3), FDSTORE=1), so that a restart, of a newer version too, goes on in the
 * middle of each epoch.
 *
 *     SIGUSR2 ─► store_pause ─► ready ─► store_keep ─► sealed memfd ─► systemd
 *     start ─► store_open ─► store_introduce: each plan as before ─► store_give ─► sources start
 *
 * The memfd holds one record for each pipeline (pipeline/succession.h) and a checksum. The next
 * daemon takes it out of the store at once, so that a crash never finds an old one. What is
 * damaged, or of another version, filter or format, begins a new epoch, and the log says why.
 *
 * Loop thread, except where WORKER is named.
 */
#ifndef CONVOLVD_SERVICE_STORE_H
#define CONVOLVD_SERVICE_STORE_H

#include <stdbool.h>

#include "control/process.h"

struct store;

/* Takes what the daemon before has left, if anything. Before handover_adopt and before other
 * threads run. 0 or ERROR_MEMORY. */
int store_open(struct store **out, struct problem *problem);
/* Forgets what is left. NULL is fine. */
void store_close(struct store *store);

/* WORKER. A pipeline made and not yet prepared is to have the plan of the one before it. */
void store_introduce(const struct store *store, struct pipeline *pipeline);
/* Prepared and connected pipelines go on, before their sources start. */
void store_give(struct store *store, struct pipelines *pipelines);

/* Whether systemd keeps descriptors for this process, as far as it can know. */
bool store_available(void);
/* Stops the sources. Pipelines from which no other can go on end their epochs. */
void store_pause(struct pipelines *pipelines);
bool store_ready(const struct pipelines *pipelines);
/* Hands over every pipeline that is ready; they leave. */
void store_keep(struct pipelines *pipelines);

#endif
