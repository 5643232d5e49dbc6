/*
 * HTTP: what is answered to each request: the files of the page, the API, metrics and health. Knows
 * nothing of sockets: server.c reads requests and writes responses.
 *
 *     GET  /, /app/…, /dygraphs/…                 files of the page; nobody needs a token for them
 *     GET  /healthz                               whether this process and the daemon live
 *     GET  /metrics                               Prometheus text
 *     GET  /api/v1/status, events?since=N, session
 *     GET  /api/v1/streams, commands, response?stream=S&filter=F    asked of the daemon
 *     POST /api/v1/login, logout
 *     POST /api/v1/COMMAND                        any other command of the daemon's table
 *
 * Loop thread.
 */
#ifndef CONVOLV_WEB_HTTP_H
#define CONVOLV_WEB_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "web.h"

enum {
    HTTP_PATH_MAX = 255,
    HTTP_ARGUMENT_MAX = 255,
    HTTP_BODY_MAX = 64 << 10,
};

enum http_method { HTTP_GET, HTTP_HEAD, HTTP_POST, HTTP_OTHER };

/* What http_answer looks at; texts are "" where the request has none. */
struct http_request {
    enum http_method method;
    char path[HTTP_PATH_MAX + 1];
    char stream[HTTP_ARGUMENT_MAX + 1], filter[HTTP_ARGUMENT_MAX + 1], since[24]; /* arguments */
    char analysis[HTTP_ARGUMENT_MAX + 1], number[24], from[24];
    char if_none_match[80];
    char authorization[128], cookie[TOKEN_TEXT];
    bool has_origin; /* and it is that of our page: others have been refused */
    bool json;       /* Content-Type: application/json */
    bool local;      /* the peer's address is of this machine */
    struct login_address peer;
    const char *body;
    size_t body_bytes;
};

struct http_response {
    unsigned status; /* 0: not answered yet */
    const char *type;
    char etag[36];        /* "": none, and nothing may keep it */
    char set_cookie[192]; /* "": none */
    const void *bytes;    /* of `owned`, or of something that lives as long as the process */
    size_t size;
    void *owned; /* freed by http_response_clear */
};

/* One request and what becomes of it, at an address that stays until http_forget. */
struct http_exchange {
    struct web *web;
    struct http_request request;
    struct http_response response;
    /* The response, which did not come at once, is there. */
    void (*answered)(struct http_exchange *exchange);
};

/* Answers, at once or later. */
void http_answer(struct http_exchange *exchange);
/* Answers with an error as JSON. */
void http_refuse(struct http_exchange *exchange, unsigned status, const char *code,
                 const char *sentence);
/* No answer is wanted any more; frees what the exchange holds. */
void http_forget(struct http_exchange *exchange);

/* Who sends this request: a token's holder, a session's, else anybody, who may observe from this
 * machine unless tokens are required. */
struct holder http_holder(const struct web *web, const struct http_request *request);

/* The name of the cookie with the number of a session: one for each port, as ports share cookies.
 */
const char *http_cookie_name(const struct web *web, char name[32]);

#endif
