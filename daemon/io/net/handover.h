/*
 * Handover: bound UDP sockets that outlive one source, so that no datagram is lost while sources
 * come and go.
 *
 *     sockets of a socket unit (LISTEN_FDS) ─── handover_adopt ──┐
 *     sockets of the daemon before (store) ──── handover_adopt ──┤
 *     socket of a running source ── handover_register ───────────┴─► handover_take
 *     handover_next ─► systemd's descriptor store ─► the next daemon
 *
 * A source asks by address. A socket of a socket unit stays open until the process ends (and
 * systemd itself keeps it open longer); sources read duplicates. A socket of the daemon before
 * becomes the source's own; what no source takes is closed. While a reload is in progress
 * (handover_share) the source of a new stream also finds the socket that the stream it replaces
 * reads, and reads on from it.
 *
 * One object per process, a member of struct io_environment. `handover` may be NULL in the calls
 * of sources: then no socket is shared. Any thread; a mutex guards the table and is never held
 * across a system call that waits.
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

/* Adopts a descriptor that systemd passed (sd_listen_fds_with_names(3)), under its name there.
 * False: it is no bound UDP socket, or there is no memory; it stays the caller's. */
bool handover_adopt(struct handover *handover, int fd, const char *name);
/* Whether this is the name of a socket of the daemon before. */
bool handover_kept(const char *name);

/* The socket bound to this address, or a duplicate: a descriptor to be closed with
 * handover_release, or -1 when there is no such socket. A socket that has joined a multicast group
 * on another interface than `interface` (0: the kernel's choice) is none: it would go on receiving
 * from there. */
int handover_take(struct handover *handover, const struct address *address, unsigned interface);
/* This socket has joined its group on that interface. */
void handover_joined(struct handover *handover, int fd, unsigned interface);

/* Whether the address overlaps that of a running source's socket, which its successor replaces
 * (handover_share): "*:5004" and 127.0.0.1:5004 do, in both orders. */
bool handover_overlaps(struct handover *handover, const struct address *address);
/* Binds a descriptor to an address although sockets of this process overlap it, so that the sources
 * of both run side by side until the old one is closed; a socket of the daemon before is closed at
 * once. `running`: beside sockets of running sources, too. Returns 0, or -1 with errno as bind(2):
 * EADDRINUSE where another program has the address. Then all sockets are as before. Waits for
 * nothing: any thread. */
int handover_bind(struct handover *handover, int fd, const struct address *address, bool running);

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

/* Once all sources are open: warns of each socket of a unit that none has taken, and closes those
 * of the daemon before. */
void handover_drop_unused(struct handover *handover);

/* The next socket for the daemon that follows, from *at (0 at first) on, and the name under which
 * systemd is to keep it; the descriptor stays its source's. -1: there are no more. Where sources
 * close meanwhile, one may be left out. */
enum { HANDOVER_NAME = 32 };
int handover_next(struct handover *handover, uint32_t *at, char name[HANDOVER_NAME]);

#endif
