/*
 * convolv-web: what its parts share. One process, one loop (libuv), one thread.
 *
 *     browser ── server.c (libwebsockets) ──┬── http.c   files, API, metrics
 *                                           └── live.c   one session a WebSocket
 *                                                 │ wants        ▲ pictures
 *     daemon  ── daemon.c (control sockets) ── watch.c (ring) ── views.c
 *                └─ hits.c (events of analyses)
 */
#ifndef CONVOLV_WEB_WEB_H
#define CONVOLV_WEB_WEB_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "daemon.h"
#include "guard.h"
#include "page_files.h"
#include "tokens.h"

struct hits;
struct live;
struct server;
struct views;

struct web {
    /* from the command line; immutable */
    struct guard guard;
    bool allow_control; /* holders with the role control may use it */
    bool require_token; /* loopback shows nothing without one either */
    const char *page, *dygraphs;
    uint32_t clients_max;
    uint32_t metrics_channels;     /* of a stream that get series in /metrics */
    const char *certificate, *key; /* NULL: no TLS */

    /* loop thread */
    uv_loop_t loop;
    struct tokens *tokens;
    struct page_files *files;
    struct daemon *daemon;
    struct hits *hits; /* NULL: it is closing */
    struct live *live;
    struct server *server;
    struct views *views;
    int64_t login_ns; /* when the last login was refused, to limit them */
};

#endif
