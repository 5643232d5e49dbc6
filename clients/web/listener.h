/*
 * The listener: the socket at which browsers connect, its own or one handed over by systemd. It
 * accepts connections and hands out their descriptors.
 *
 * Loop thread.
 */
#ifndef CONVOLV_WEB_LISTENER_H
#define CONVOLV_WEB_LISTENER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/error.h"

struct listener;

/* HOST:PORT, [IPv6]:PORT; HOST is an address, or `*` for all. 0 or an error with its sentence. */
int listener_open(uv_loop_t *loop, const char *address, void (*accepted)(void *context, int fd),
                  void *context, struct listener **out, struct problem *problem);
void listener_close(struct listener *listener); /* the loop frees it; NULL is fine */

uint16_t listener_port(const struct listener *listener);
/* The address as a URL has it, IPv6 in brackets; NULL where it hears all of them. */
const char *listener_address(const struct listener *listener);
/* Whether it hears this machine alone. */
bool listener_local(const struct listener *listener);

#endif
