/*
 * Handed sockets: bound UDP sockets that outlive one source, so that no datagram is lost while
 * sources come and go.
 *
 *     systemd (LISTEN_FDS) ── handover_adopt ──┐
 *     socket of a running source ──────────────┴─► handover_take: another descriptor of it
 *
 * A source asks by address. What systemd bound stays open as long as the process lives, and
 * in systemd beyond it; a stream that is replaced while running (a reload) reads on from the very
 * socket its predecessor read.
 *
 * handover_adopt: main thread, before any other runs. All else: any thread; a mutex, never held
 * across a system call that waits.
 */
#ifndef CONVOLVD_IO_NET_HANDOVER_H
#define CONVOLVD_IO_NET_HANDOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "io/net/socket.h"

/* Takes over the datagram sockets that systemd passed (sd_listen_fds(3)); returns how many. Others
 * are left alone, with a warning. */
int handover_adopt(void);

/* A new descriptor of the socket bound to this address, to be closed with handover_close; -1: there
 * is none. */
int handover_take(const struct socket_address *address);

/* A source's own socket: while sharing is on (a reload), others may take it. */
void handover_register(int fd);
void handover_share(bool share);

/* Closes a source's descriptor, registered, taken, or neither. */
void handover_close(int fd);

/* Datagrams the socket had dropped before this descriptor was taken; 0 for one newly made. */
uint32_t handover_drops_before(int fd);

/* One warning for each socket of systemd's that no source has taken. */
void handover_warn_unused(void);

#endif
