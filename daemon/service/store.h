/*
 * The store: what one daemon hands over to the next through systemd's descriptor store
 * (sd_pid_notify_with_fds(3), FDSTORE=1), so that a restart, of a newer version too, goes on in the
 * middle of each epoch and reads every datagram that came meanwhile.
 *
 *     SIGUSR2 ─► store_pause ─► ready ─► store_keep ─► state file, UDP sockets ─► systemd
 *     start ─► store_open ─► store_introduce: each plan as before ─► store_give ─► sources start
 *
 * The state file (service/state_file.h) holds one record for each pipeline. The sockets are those
 * that sources have bound themselves; those of a socket unit are systemd's anyway. The next daemon
 * takes all of it out of the store at once, so that a crash never finds an old state. What is
 * damaged, or of another version, filter or format, begins a new epoch, and the log says why.
 *
 * Loop thread, except where WORKER is named.
 */
#ifndef CONVOLVD_SERVICE_STORE_H
#define CONVOLVD_SERVICE_STORE_H

#include <stdbool.h>

#include "control/command_table.h"
#include "control/process.h"

struct store;

/* Takes the descriptors that systemd passes: what the daemon before has left, if anything, and the
 * sockets of the units, of which `handover` adopts those of streams. Before other threads run;
 * waits at most 1 s for systemd to clear the store. 0 or ERROR_MEMORY. */
int store_open(struct handover *handover, struct store **out, struct problem *problem);
/* The listening control socket of this role that systemd passed, now the caller's; -1: none. */
int store_take_listener(struct store *store, enum command_role role);
/* Forgets what is left. NULL is fine. */
void store_close(struct store *store);

/* WORKER. A pipeline made and not yet prepared is to have the plan of the one before it,
 * and what receivers know that one by. */
void store_introduce(const struct store *store, struct pipeline *pipeline);
/* Prepared and connected pipelines go on, before their sources start. */
void store_give(struct store *store, struct pipelines *pipelines);

/* Whether systemd keeps descriptors for this process, as far as it can know. */
bool store_available(void);
/* Stops the sources. Pipelines from which no other can go on end their epochs. */
void store_pause(struct pipelines *pipelines);
bool store_ready(const struct pipelines *pipelines);
/* Hands over every pipeline that is ready, which leaves, and the sockets. False: systemd has no
 * room for the messages; the rest is for the next call. Never waits. */
bool store_keep(struct store *store, struct pipelines *pipelines);
/* No call of store_keep follows: says what systemd did not take. */
void store_keep_no_more(const struct store *store);

#endif
