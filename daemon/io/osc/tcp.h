/*
 * OSC over TCP: a listening socket and its connections ("links"). Each link has memory of a fixed
 * size for each direction. A link is closed when its sender leaves a packet unfinished, or its
 * reader accepts nothing, for longer than the timeout; neither can delay anything else, for no
 * call here blocks.
 *
 * Nobody can keep others out by holding links: one on which no packet goes either way is closed
 * after idle_ns, and earlier when a newcomer finds all OSC_LINKS_MAX taken: it replaces the link
 * idle longest, if that has been idle for the timeout. When the process has no descriptor left, a
 * spare one serves to accept and close what waits; without it the listener pauses until the next
 * tick, so that it never spins.
 *
 * Knows nothing of the packets it carries: the owner's callbacks decide whom to accept and what a
 * packet means. Loop thread.
 */
#ifndef CONVOLVD_IO_OSC_TCP_H
#define CONVOLVD_IO_OSC_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "core/error.h"
#include "io/osc/hub.h"

enum { OSC_LINKS_MAX = 32 };

struct osc_link;
struct osc_tcp;

struct osc_tcp_options {
    const char *address;     /* "host:port", "*:port" */
    int64_t timeout_ns;      /* of an unfinished packet, and of a reader that accepts nothing */
    int64_t idle_ns;         /* of a link on which no packet goes either way */
    struct osc_stats *stats; /* counted here: connected, connections_refused, closed_… */
    void *context;
    /* Whether to accept a connection from there. */
    bool (*allowed)(void *context, const struct sockaddr_storage *from);
    /* One packet, valid during the call. Times: when its last bytes were read. */
    void (*packet)(void *context, struct osc_link *link, const struct sockaddr_storage *from,
                   const uint8_t *data, size_t bytes, int64_t receive_ns,
                   int64_t receive_realtime_ns);
    /* The link is closing: it takes nothing more and is freed later. */
    void (*gone)(void *context, const struct osc_link *link);
};

/* Listens. Returns 0, or ERROR_ADDRESS, ERROR_SYSTEM or ERROR_MEMORY. */
int osc_tcp_open(uv_loop_t *loop, const struct osc_tcp_options *options, struct osc_tcp **out,
                 struct problem *problem);

/* Closes links that passed a timeout, and listens again after a pause. Twice a second or so. */
void osc_tcp_tick(struct osc_tcp *tcp, int64_t now_ns);

/* Links open at this instant. */
uint32_t osc_tcp_links(const struct osc_tcp *tcp);

/* The port it listens at. */
uint16_t osc_tcp_port(const struct osc_tcp *tcp);

/* Frames the packet as the peer does and queues it. False when the link is closing or has no room
 * for it. May close the link. */
bool osc_link_send(struct osc_link *link, const uint8_t *data, size_t bytes);

/* Closes the listener and every link (`gone` is called for each), then calls `closed` from the
 * loop and frees the object. */
void osc_tcp_close(struct osc_tcp *tcp, void (*closed)(void *context));

#endif
