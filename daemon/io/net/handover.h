/*
 * Handover: bound UDP sockets that outlive one source, so that no datagram is lost while sources
 * come and go.
 *
 *     sockets passed by systemd (LISTEN_FDS) ── handover_adopt ──┐
 *     socket of a running source ── handover_register ───────────┴─► handover_take: a duplicate
 *
 * A source asks by address. A socket that systemd passed stays open until the process ends (and
 * systemd itself keeps it open longer). While a reload is in progress (handover_share) the source
 * of a new stream also finds the socket that the stream it replaces reads, and reads on from it.
 *
 * One object per process, a member of struct io_environment. `handover` may be NULL in every call
 * but open and adopt: then no socket is shared. Any thread, except handover_adopt (before other
 * threads run); a mutex guards the table and is never held across a system call that waits.
 */
#ifndef CONVOLVD_IO_NET_HANDOVER_H
#define CONVOLVD_IO_NET_HANDOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "io/net/address.h"

struct handover;

/* Returns 0 or ERROR_MEMORY. */
int handover_open(struct handover **out, struct problem *problem);
/* Frees the table; sockets still in it stay open. NULL is fine. */
void handover_close(struct handover *handover);

/* Adopts the datagram sockets that systemd passed (sd_listen_fds(3)) and returns how many. Warns of
 * every other descriptor passed and leaves it alone. */
int handover_adopt(struct handover *handover);

/* Duplicates the socket bound to this address: a descriptor to be closed with handover_release, or
 * -1 when there is no such socket. A socket that has joined a multicast group on another interface
 * than `interface` (0: the kernel's choice) is none: it would go on receiving from there. */
int handover_take(struct handover *handover, const struct address *address, unsigned interface);
/* This socket has joined its group on that interface. */
void handover_joined(struct handover *handover, int fd, unsigned interface);

/* Enters a socket that a source bound itself. */
void handover_register(struct handover *handover, int fd);
/* Whether handover_take also finds sockets of running sources (a reload is in progress). */
void handover_share(struct handover *handover, bool share);

/* Closes a source's descriptor, whether registered, taken, or neither. */
void handover_release(struct handover *handover, int fd);

/* The source of this descriptor has stopped and has counted so many of the socket's drops: whoever
 * reads on counts from there. False: no other source has this socket. */
bool handover_pass_drops(struct handover *handover, int fd, uint32_t drops);

/* Datagrams that the socket had dropped when the source before stopped, or, while it runs, when
 * this descriptor was taken; 0 for one newly bound. */
uint32_t handover_drops_before(struct handover *handover, int fd);

/* Warns once of each socket from systemd that no source has taken. */
void handover_warn_unused(struct handover *handover);

#endif
