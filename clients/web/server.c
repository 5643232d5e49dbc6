/* The server: see server.h. */
#include "server.h"

#include <arpa/inet.h>
#include <libwebsockets.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/log.h"
#include "http.h"
#include "listener.h"
#include "live.h"

enum {
    CHUNK_BYTES = 16 << 10, /* of a body, in one write */
    HEADER_BYTES = 2048,    /* of a response */
    REQUEST_S = 10,         /* for a request to come whole */
    IDLE_S = 10,            /* that a connection is kept for the next request */
    PING_S = 20,            /* a silent WebSocket is asked whether it lives … */
    SILENT_S = 45,          /* … and closed after so long */
};

static const char live_path[] = "/api/v1/live", live_protocol[] = "convolv.v1";

struct server {
    struct web *web;
    struct lws_context *context;
    struct lws_vhost *vhost;
    struct listener *listener;
    unsigned connections;
    struct log_limit full;
};

/* libwebsockets keeps one for each connection, zeroed. */
struct connection {
    struct http_exchange exchange;
    struct lws *wsi;
    struct session *session; /* once it is a WebSocket */
    char *body;
    size_t body_bytes, sent;
    bool head_sent, close_after;
};

static struct server *server_of(struct lws *wsi)
{
    return lws_context_user(lws_get_context(wsi));
}

/* ---- reading a request --------------------------------------------------------------------- */

/* The header's text; "" where there is none or it does not fit, which *fits then says. */
static void read_header(struct lws *wsi, enum lws_token_indexes header, char *text, int room,
                        bool *fits)
{
    const int length = lws_hdr_total_length(wsi, header);
    text[0] = '\0';
    if (length <= 0)
        return;
    if (length >= room || lws_hdr_copy(wsi, text, room, header) < 0) {
        text[0] = '\0';
        *fits = false;
    }
}

static void read_argument(struct lws *wsi, const char *name, char *text, int room)
{
    char found[HTTP_ARGUMENT_MAX + 1], key[32];
    snprintf(key, sizeof key, "%s=", name); /* the value begins behind what was searched for */
    const char *value = lws_get_urlarg_by_name(wsi, key, found, sizeof found);
    snprintf(text, (size_t)room, "%s", value != NULL ? value : "");
}

/* The session's number from the cookie. */
static void read_cookie(struct lws *wsi, const struct web *web, char cookie[TOKEN_TEXT])
{
    char name[32];
    size_t room = TOKEN_TEXT;
    if (lws_http_cookie_get(wsi, http_cookie_name(web, name), cookie, &room) != 0)
        cookie[0] = '\0';
}

static bool is_local(struct lws *wsi)
{
    char address[64] = "";
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } peer = {.any = {0}};
    socklen_t length = sizeof peer;
    if (getpeername(lws_get_socket_fd(wsi), &peer.any, &length) != 0)
        return false;
    if (peer.any.sa_family == AF_INET)
        inet_ntop(AF_INET, &peer.four.sin_addr, address, sizeof address);
    else if (peer.any.sa_family == AF_INET6)
        inet_ntop(AF_INET6, &peer.six.sin6_addr, address, sizeof address);
    return guard_loopback(address);
}

/* Host and Origin of the request or upgrade; NULL: good, else why it is refused. */
static const char *check_guard(struct lws *wsi, struct http_request *request)
{
    const struct web *web = server_of(wsi)->web;
    char host[GUARD_TEXT_MAX], origin[GUARD_TEXT_MAX];
    bool fits = true;
    read_header(wsi, WSI_TOKEN_HOST, host, sizeof host, &fits);
    read_header(wsi, WSI_TOKEN_ORIGIN, origin, sizeof origin, &fits);
    if (!fits || !guard_host(&web->guard, host))
        return "this name is not served here; add it with --host";
    request->has_origin = origin[0] != '\0';
    if (request->has_origin && !guard_origin(&web->guard, host, origin))
        return "a page of another origin may ask nothing here";
    return NULL;
}

/* All but the body. False: some header is longer than it may be. */
static bool read_request(struct lws *wsi, const struct web *web, struct http_request *request)
{
    char type[64];
    bool fits = true, ignored = true;
    read_header(wsi, WSI_TOKEN_HTTP_AUTHORIZATION, request->authorization,
                sizeof request->authorization, &fits);
    read_header(wsi, WSI_TOKEN_HTTP_IF_NONE_MATCH, request->if_none_match,
                sizeof request->if_none_match, &ignored);
    read_header(wsi, WSI_TOKEN_HTTP_CONTENT_TYPE, type, sizeof type, &ignored);
    type[strcspn(type, "; ")] = '\0';
    request->json = strcasecmp(type, "application/json") == 0;
    read_cookie(wsi, web, request->cookie);
    read_argument(wsi, "stream", request->stream, sizeof request->stream);
    read_argument(wsi, "filter", request->filter, sizeof request->filter);
    read_argument(wsi, "analysis", request->analysis, sizeof request->analysis);
    read_argument(wsi, "number", request->number, sizeof request->number);
    read_argument(wsi, "from", request->from, sizeof request->from);
    read_argument(wsi, "since", request->since, sizeof request->since);
    request->local = is_local(wsi);
    return fits;
}

static enum http_method read_method(struct lws *wsi, struct http_request *request)
{
    char *path;
    int length;
    const int method = lws_http_get_uri_and_method(wsi, &path, &length);
    if (method < 0 || length > HTTP_PATH_MAX)
        return HTTP_OTHER;
    memcpy(request->path, path, (size_t)length);
    request->path[length] = '\0';
    return method == LWSHUMETH_GET    ? HTTP_GET
           : method == LWSHUMETH_HEAD ? HTTP_HEAD
           : method == LWSHUMETH_POST ? HTTP_POST
                                      : HTTP_OTHER;
}

/* ---- writing a response -------------------------------------------------------------------- */

static const struct {
    const char *name, *value;
} fixed_headers[] = {
    {"content-security-policy:",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
     "connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; "
     "form-action 'none'; frame-ancestors 'none'"},
    {"x-content-type-options:", "nosniff"},
    {"x-frame-options:", "DENY"},
    {"referrer-policy:", "no-referrer"},
    {"cross-origin-opener-policy:", "same-origin"},
    {"cross-origin-resource-policy:", "same-origin"},
    {"permissions-policy:", "camera=(), geolocation=(), microphone=()"},
};

static bool add(struct lws *wsi, const char *name, const char *value, unsigned char **at,
                unsigned char *end)
{
    return lws_add_http_header_by_name(wsi, (const unsigned char *)name,
                                       (const unsigned char *)value, (int)strlen(value), at,
                                       end) == 0;
}

static bool write_head(struct connection *connection)
{
    const struct http_response *response = &connection->exchange.response;
    unsigned char buffer[LWS_PRE + HEADER_BYTES], *start = buffer + LWS_PRE, *at = start;
    unsigned char *const end = buffer + sizeof buffer - 1;
    struct lws *wsi = connection->wsi;
    bool good =
        lws_add_http_header_status(wsi, response->status, &at, end) == 0 &&
        add(wsi, "content-type:", response->type, &at, end) &&
        add(wsi, "cache-control:", response->etag[0] != '\0' ? "no-cache" : "no-store", &at, end);
    for (size_t i = 0; i < sizeof fixed_headers / sizeof *fixed_headers; i++)
        good = good && add(wsi, fixed_headers[i].name, fixed_headers[i].value, &at, end);
    if (response->etag[0] != '\0')
        good = good && add(wsi, "etag:", response->etag, &at, end);
    if (response->set_cookie[0] != '\0')
        good = good && add(wsi, "set-cookie:", response->set_cookie, &at, end);
    if (response->status == 401)
        good = good && add(wsi, "www-authenticate:", "Bearer", &at, end);
    if (connection->close_after)
        good = good && add(wsi, "connection:", "close", &at, end);
    /* A 304 says nothing of a length. */
    if (response->status != 304)
        good = good && lws_add_http_header_content_length(wsi, response->size, &at, end) == 0;
    return good && lws_finalize_write_http_header(wsi, start, &at, end) == 0;
}

/* Ready for the next request on this connection, or -1: it closes. */
static int finish(struct connection *connection)
{
    struct lws *wsi = connection->wsi;
    const bool close_after = connection->close_after;
    http_forget(&connection->exchange);
    free(connection->body);
    memset(connection, 0, sizeof *connection);
    if (close_after || lws_http_transaction_completed(wsi))
        return -1;
    return 0;
}

/* The socket takes more. */
static int write_more(struct connection *connection)
{
    const struct http_response *response = &connection->exchange.response;
    unsigned char buffer[LWS_PRE + CHUNK_BYTES];
    if (response->status == 0)
        return 0;
    const bool body = connection->exchange.request.method != HTTP_HEAD && response->size > 0;
    if (!connection->head_sent) {
        connection->head_sent = true;
        if (!write_head(connection))
            return -1;
        if (!body)
            return finish(connection);
        lws_callback_on_writable(connection->wsi);
        return 0;
    }
    const size_t left = response->size - connection->sent;
    const size_t bytes = left < CHUNK_BYTES ? left : CHUNK_BYTES;
    memcpy(buffer + LWS_PRE, (const char *)response->bytes + connection->sent, bytes);
    connection->sent += bytes;
    if (lws_write(connection->wsi, buffer + LWS_PRE, bytes,
                  bytes == left ? LWS_WRITE_HTTP_FINAL : LWS_WRITE_HTTP) < 0)
        return -1;
    if (bytes == left)
        return finish(connection);
    lws_callback_on_writable(connection->wsi);
    return 0;
}

static void on_answered(struct http_exchange *exchange)
{
    struct connection *connection = (struct connection *)exchange; /* its first member */
    lws_callback_on_writable(connection->wsi);
}

static void answer(struct connection *connection)
{
    connection->exchange.request.body = connection->body;
    connection->exchange.request.body_bytes = connection->body_bytes;
    http_answer(&connection->exchange);
    if (connection->exchange.response.status != 0)
        lws_callback_on_writable(connection->wsi);
}

/* Refuses, and closes the connection behind it: what else the client sends is not read. */
static void refuse(struct connection *connection, unsigned status, const char *code,
                   const char *sentence)
{
    connection->close_after = true;
    http_refuse(&connection->exchange, status, code, sentence);
    lws_callback_on_writable(connection->wsi);
}

/* ---- requests ------------------------------------------------------------------------------ */

/* The length of the body that is announced; -1: none is, or it is no number. */
static long announced(struct lws *wsi)
{
    char text[16], *end;
    bool fits = true;
    read_header(wsi, WSI_TOKEN_HTTP_CONTENT_LENGTH, text, sizeof text, &fits);
    const long length = strtol(text, &end, 10);
    return fits && text[0] >= '0' && text[0] <= '9' && *end == '\0' ? length : -1;
}

static void begin(struct connection *connection, struct lws *wsi)
{
    struct server *server = server_of(wsi);
    struct http_request *request = &connection->exchange.request;
    if (connection->exchange.web != NULL) /* a request upon the one before: not whole yet */
        finish(connection);
    connection->wsi = wsi;
    connection->exchange.web = server->web;
    connection->exchange.answered = on_answered;
    request->method = read_method(wsi, request);
    const char *wrong = check_guard(wsi, request);
    if (wrong != NULL) {
        refuse(connection, 403, "host", wrong);
        return;
    }
    if (!read_request(wsi, server->web, request)) {
        refuse(connection, 431, "header", "a header is too long");
        return;
    }
    if (request->method != HTTP_POST) {
        connection->close_after = request->method == HTTP_OTHER;
        answer(connection);
        return;
    }
    const long bytes = announced(wsi);
    if (bytes < 0)
        refuse(connection, 411, "length", "write Content-Length");
    else if (bytes > HTTP_BODY_MAX)
        refuse(connection, 413, "length", "a body has at most 64 KiB");
    else if ((connection->body = malloc((size_t)bytes + 1)) == NULL)
        refuse(connection, 503, "memory", "out of memory");
    connection->body_bytes = 0;
}

/* A part of a body; no more than was announced comes from libwebsockets. */
static int take_body(struct connection *connection, const void *bytes, size_t count)
{
    if (connection->body == NULL)
        return 0; /* refused: read and dropped until the refusal is sent */
    if (connection->body_bytes + count > HTTP_BODY_MAX ||
        connection->body_bytes + count > (size_t)announced(connection->wsi))
        return -1;
    memcpy(connection->body + connection->body_bytes, bytes, count);
    connection->body_bytes += count;
    return 0;
}

/* ---- WebSockets ---------------------------------------------------------------------------- */

/* Refuses an upgrade. */
static int refuse_upgrade(struct lws *wsi, unsigned status, const char *sentence)
{
    lws_return_http_status(wsi, status, sentence);
    return -1;
}

static int check_upgrade(struct lws *wsi, struct connection *connection)
{
    struct http_request request = {.method = HTTP_POST}; /* as strict as one */
    const struct web *web = server_of(wsi)->web;
    const char *wrong = check_guard(wsi, &request);
    if (wrong != NULL)
        return refuse_upgrade(wsi, 403, wrong);
    if (read_method(wsi, &request) != HTTP_GET || strcmp(request.path, live_path) != 0)
        return refuse_upgrade(wsi, 404, "the WebSocket is /api/v1/live, convolv.v1");
    if (!read_request(wsi, web, &request))
        return refuse_upgrade(wsi, 431, "a header is too long");
    const struct holder holder = http_holder(web, &request);
    if (holder.role == ROLE_NONE)
        return refuse_upgrade(wsi, 401, "log in with a token first");
    /* Kept until it is established: no headers are left then. */
    struct holder *kept = malloc(sizeof *kept);
    if (kept == NULL)
        return -1;
    *kept = holder;
    lws_set_opaque_user_data(wsi, kept);
    (void)connection;
    return 0;
}

static int establish(struct lws *wsi, struct connection *connection)
{
    struct holder *holder = lws_get_opaque_user_data(wsi);
    memset(connection, 0, sizeof *connection);
    connection->wsi = wsi;
    if (holder != NULL)
        connection->session = live_join(server_of(wsi)->web, wsi, holder);
    lws_set_opaque_user_data(wsi, NULL);
    free(holder);
    return connection->session != NULL ? 0 : -1;
}

static int receive(struct lws *wsi, struct connection *connection, const char *text, size_t bytes)
{
    enum lws_close_status status = LWS_CLOSE_STATUS_UNACCEPTABLE_OPCODE;
    const bool last = lws_remaining_packet_payload(wsi) == 0 && lws_is_final_fragment(wsi);
    if (!lws_frame_is_binary(wsi) &&
        live_receive(server_of(wsi)->web, connection->session, text, bytes, last, &status))
        return 0;
    lws_close_reason(wsi, status, NULL, 0);
    return -1;
}

/* ---- libwebsockets calls ------------------------------------------------------------------- */

static int on_live(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in,
                   size_t bytes)
{
    struct connection *connection = user;
    switch (reason) {
    case LWS_CALLBACK_FILTER_PROTOCOL_CONNECTION:
        return check_upgrade(wsi, connection);
    case LWS_CALLBACK_ESTABLISHED:
        return establish(wsi, connection);
    case LWS_CALLBACK_RECEIVE:
        return receive(wsi, connection, in, bytes);
    case LWS_CALLBACK_SERVER_WRITEABLE:
        if (session_write(connection->session))
            return 0;
        lws_close_reason(wsi, LWS_CLOSE_STATUS_POLICY_VIOLATION, NULL, 0);
        return -1;
    case LWS_CALLBACK_CLOSED:
        live_leave(server_of(wsi)->web, connection->session);
        connection->session = NULL;
        return 0;
    default:
        return 0;
    }
}

static int on_http(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in,
                   size_t bytes)
{
    struct connection *connection = user;
    switch (reason) {
    case LWS_CALLBACK_FILTER_PROTOCOL_CONNECTION: /* an upgrade to no protocol of ours */
        return refuse_upgrade(wsi, 404, "the WebSocket is /api/v1/live, convolv.v1");
    case LWS_CALLBACK_HTTP:
        begin(connection, wsi);
        return 0;
    case LWS_CALLBACK_HTTP_BODY:
        return take_body(connection, in, bytes);
    case LWS_CALLBACK_HTTP_BODY_COMPLETION:
        if (connection->exchange.response.status == 0 && connection->body != NULL)
            answer(connection);
        return 0;
    case LWS_CALLBACK_HTTP_WRITEABLE:
        return write_more(connection);
    case LWS_CALLBACK_CLOSED_HTTP:
        if (connection != NULL && connection->exchange.web != NULL) {
            http_forget(&connection->exchange);
            free(connection->body);
            memset(connection, 0, sizeof *connection);
        }
        return 0;
    case LWS_CALLBACK_WSI_CREATE:
        server_of(wsi)->connections++;
        return 0;
    case LWS_CALLBACK_WSI_DESTROY:
        server_of(wsi)->connections--;
        free(lws_get_opaque_user_data(wsi));
        return 0;
    default:
        return 0;
    }
}

/* ---- life ---------------------------------------------------------------------------------- */

static char last_words[256]; /* what libwebsockets said last of an error, while it starts */

static void on_log(int level, const char *line)
{
    if ((level & (LLL_ERR | LLL_WARN)) != 0)
        snprintf(last_words, sizeof last_words, "%.*s", (int)strcspn(line, "\n"), line);
    log_debug("libwebsockets: %.*s", (int)strcspn(line, "\n"), line);
}

static void on_accept(void *context, int fd)
{
    struct server *server = context;
    if (server->connections >= server->web->clients_max) {
        log_limited(&server->full, 10 * INT64_C(1000000000), LOG_LEVEL_WARNING,
                    "%u connections are open: more are refused (--clients)", server->connections);
        close(fd);
        return;
    }
    lws_adopt_socket_vhost(server->vhost, fd);
}

static int open_context(struct server *server, struct problem *problem)
{
    static const struct lws_protocols protocols[] = {
        {.name = "http", .callback = on_http, .per_session_data_size = sizeof(struct connection)},
        {.name = live_protocol,
         .callback = on_live,
         .per_session_data_size = sizeof(struct connection),
         .rx_buffer_size = SESSION_TEXT_MAX},
        {0},
    };
    static const lws_retry_bo_t alive = {.secs_since_valid_ping = PING_S,
                                         .secs_since_valid_hangup = SILENT_S};
    struct web *web = server->web;
    void *loops[] = {&web->loop};
    struct lws_context_creation_info info = {
        .port = CONTEXT_PORT_NO_LISTEN_SERVER,
        .protocols = protocols,
        .options = LWS_SERVER_OPTION_LIBUV | LWS_SERVER_OPTION_EXPLICIT_VHOSTS |
                   LWS_SERVER_OPTION_VALIDATE_UTF8 | LWS_SERVER_OPTION_DISABLE_IPV6,
        .foreign_loops = loops,
        .pcontext = &server->context,
        .user = server,
        .gid = -1,
        .uid = -1,
        .server_string = "convolv-web",
        .fd_limit_per_thread = web->clients_max + 32,
        .max_http_header_data = 4096,
        .timeout_secs = REQUEST_S,
        .keepalive_timeout = IDLE_S,
        .retry_and_idle_policy = &alive,
        .alpn = "http/1.1",
        .ssl_cert_filepath = web->certificate,
        .ssl_private_key_filepath = web->key,
    };
    if (web->guard.tls)
        info.options |= LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
    lws_set_log_level(LLL_ERR | LLL_WARN, on_log);
    server->context = lws_create_context(&info);
    if (server->context == NULL && strstr(last_words, "evlib") != NULL)
        return problem_set(problem, ERROR_SYSTEM,
                           "libwebsockets finds no plugin for libuv: install "
                           "libwebsockets-evlib-uv");
    if (server->context == NULL)
        return problem_set(problem, ERROR_SYSTEM, "libwebsockets does not start: %s", last_words);
    server->vhost = lws_create_vhost(server->context, &info);
    if (server->vhost == NULL)
        return problem_set(problem, ERROR_SYSTEM, "%s%s",
                           web->guard.tls ? "certificate and key cannot be used: " : "",
                           last_words);
    return 0;
}

/* Others than this machine's users need TLS and tokens. */
static int check_exposure(const struct server *server, struct problem *problem)
{
    const struct web *web = server->web;
    if (listener_local(server->listener) || (web->guard.tls && tokens_count(web->tokens) > 0))
        return 0;
    return problem_set(
        problem, ERROR_ARGUMENT,
        "beyond loopback it listens with TLS and tokens only: give --certificate, "
        "--key and --tokens, or listen at 127.0.0.1 behind a proxy or an SSH tunnel");
}

int server_open(struct web *web, const char *address, struct server **out, struct problem *problem)
{
    struct server *server = calloc(1, sizeof *server);
    if (server == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    server->web = web;
    int error = listener_open(&web->loop, address, on_accept, server, &server->listener, problem);
    if (error == 0)
        error = check_exposure(server, problem);
    if (error == 0) {
        web->guard.port = listener_port(server->listener);
        error = open_context(server, problem);
    }
    if (error < 0) {
        server_close(server);
        return error;
    }
    *out = server;
    return 0;
}

const char *server_address(const struct server *server)
{
    return listener_address(server->listener);
}

void server_close(struct server *server)
{
    if (server == NULL)
        return;
    listener_close(server->listener);
    if (server->context != NULL)
        lws_context_destroy(server->context);
}

void server_free(struct server *server)
{
    /* libwebsockets 4.2 and later ends a context on a foreign loop in two calls: the second one
     * after the loop has ended. Version 4.1 has cleared the pointer by then. */
    if (server != NULL && server->context != NULL)
        lws_context_destroy(server->context);
    free(server);
}
