/*
 * convolv-web: what its parts share. One process, one loop (libuv), one thread.
 *
 *     browser ── server.c (libwebsockets) ──┬── http.c   files, API, metrics
 *                                           └── live.c   what a WebSocket tells and asks
 *                                                 │ wants
 *     daemon  ──┬── daemon.c (control sockets)    ▼
 *               ├── ring of watched frames ── views.c ──┐ pictures
 *               └── events of analyses ────── hits.c ───┴──► session.c (queues) ──► browser
 */
#ifndef CONVOLV_WEB_WEB_H
#define CONVOLV_WEB_WEB_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "daemon.h"
#include "guard.h"
#include "login_pause.h"
#include "page_files.h"
#include "session.h"
#include "tokens.h"

struct hits;
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
    struct hits *hits;        /* NULL: it is closing */
    struct sessions sessions; /* of browsers */
    struct server *server;
    struct views *views;
    struct login_pauses logins;
};

#endif
