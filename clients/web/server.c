/*
 * The server: see server.h.
 *
 * A connection serves one request, then closes. libwebsockets (4.1.6 as well as 4.3.5) mishandles
 * input that follows a request in the same segment: of a second request it takes the header for the
 * body and then loops for ever; behind a body it announces the body's end again and again. So it
 * never handles such input: its flow control is on from the moment when the request is whole, and
 * what else the client sends is dropped behind the answer (linger.h). Flow control stops its output
 * as well. An outlet, which polls a second descriptor of the socket, lets it write.
 */
#include "server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <libwebsockets.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/log.h"
#include "http.h"
#include "linger.h"
#include "listener.h"
#include "live.h"

enum {
    CHUNK_BYTES = 16 << 10, /* of a body, in one write */
    HEADER_BYTES = 2048,    /* of a response */
    REQUEST_S = 10,         /* for a request to come whole, and for each part of an answer to go */
    PING_S = 20,            /* a silent WebSocket is asked whether it lives … */
    SILENT_S = 45,          /* … and closed after so long */
};

static const char live_path[] = "/api/v1/live", live_protocol[] = "convolv.v1";

struct server {
    struct web *web;
    struct lws_context *context;
    struct lws_vhost *vhost;
    struct listener *listener;
    struct lingers *lingers;
    unsigned connections;
    struct log_limit full, used_up;
};

/* libwebsockets keeps one for each connection, zeroed. */
struct connection {
    struct http_exchange exchange;
    struct lws *wsi;
    struct session *session; /* once it is a WebSocket */
    char *body;
    size_t announced, body_bytes, sent;
    bool whole; /* the request has come, and nothing else is read */
    bool head_sent;
};

/* Lets libwebsockets write on a connection that it no longer reads; its opaque user data. */
struct outlet {
    uv_poll_t poll;
    struct lws *wsi; /* NULL: libwebsockets has closed its own descriptor */
    int fd;          /* the socket's second descriptor; -1: none */
    struct server *server;
    struct holder holder; /* until the upgrade is established */
};

static struct server *server_of(struct lws *wsi)
{
    return lws_context_user(lws_get_context(wsi));
}

/* ---- outlets ------------------------------------------------------------------------------- */

/* Returns the connection's outlet and makes it at the first call; NULL: out of memory. */
static struct outlet *outlet_of(struct lws *wsi)
{
    struct outlet *outlet = lws_get_opaque_user_data(wsi);
    if (outlet == NULL && (outlet = malloc(sizeof *outlet)) != NULL) {
        *outlet = (struct outlet){.wsi = wsi, .fd = -1, .server = server_of(wsi)};
        outlet->poll.data = outlet;
        lws_set_opaque_user_data(wsi, outlet);
    }
    return outlet;
}

/* False: no memory or no descriptor. */
static bool outlet_open(struct lws *wsi)
{
    struct outlet *outlet = outlet_of(wsi);
    if (outlet == NULL || outlet->fd >= 0)
        return outlet != NULL;
    const int fd = fcntl(lws_get_socket_fd(wsi), F_DUPFD_CLOEXEC, 0);
    if (fd < 0 || uv_poll_init(&outlet->server->web->loop, &outlet->poll, fd) != 0) {
        log_limited(&outlet->server->used_up, 10 * INT64_C(1000000000), LOG_LEVEL_WARNING,
                    "a request is not answered: no descriptors are left; raise LimitNOFILE or "
                    "lower --clients");
        if (fd >= 0)
            close(fd);
        return false;
    }
    outlet->fd = fd;
    return true;
}

/* Lets libwebsockets write, and only write, on a connection whose flow control is on. */
static void on_writable(uv_poll_t *poll, int status, int happened)
{
    struct outlet *outlet = poll->data;
    struct lws_pollfd output = {.events = LWS_POLLOUT, .revents = LWS_POLLOUT};
    (void)status; /* libwebsockets meets an error when it writes */
    (void)happened;
    uv_poll_stop(poll);
    if (outlet->wsi == NULL)
        return;
    output.fd = lws_get_socket_fd(outlet->wsi);
    lws_rx_flow_control(outlet->wsi, 1);
    lws_service_fd(outlet->server->context, &output);
    if (outlet->wsi == NULL)
        return;
    lws_rx_flow_control(outlet->wsi, 0);
    uv_poll_start(poll, UV_WRITABLE, on_writable); /* more of it, or what is buffered */
}

/* There is something to write. */
static void outlet_write(struct lws *wsi)
{
    struct outlet *outlet = lws_get_opaque_user_data(wsi);
    if (outlet->wsi != NULL)
        uv_poll_start(&outlet->poll, UV_WRITABLE, on_writable);
}

/* libwebsockets closes its descriptor. */
static void outlet_stop(struct outlet *outlet)
{
    if (outlet == NULL)
        return;
    outlet->wsi = NULL;
    if (outlet->fd >= 0)
        uv_poll_stop(&outlet->poll);
}

static void on_outlet_closed(uv_handle_t *handle)
{
    struct outlet *outlet = handle->data;
    if (outlet->server->lingers != NULL)
        lingers_add(outlet->server->lingers, outlet->fd);
    else /* the server is closing */
        close(outlet->fd);
    free(outlet);
}

/* libwebsockets has closed its descriptor: the socket lingers on the second one. */
static void outlet_close(struct lws *wsi)
{
    struct outlet *outlet = lws_get_opaque_user_data(wsi);
    lws_set_opaque_user_data(wsi, NULL);
    outlet_stop(outlet);
    if (outlet != NULL && outlet->fd >= 0)
        uv_close((uv_handle_t *)&outlet->poll, on_outlet_closed);
    else
        free(outlet);
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

static struct login_address read_peer(struct lws *wsi, bool *local)
{
    char address[64] = "";
    const uint8_t *bytes = NULL;
    unsigned count = 0;
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } peer = {.any = {0}};
    socklen_t length = sizeof peer;
    if (getpeername(lws_get_socket_fd(wsi), &peer.any, &length) != 0)
        peer.any.sa_family = AF_UNSPEC;
    if (peer.any.sa_family == AF_INET) {
        bytes = (const uint8_t *)&peer.four.sin_addr;
        count = sizeof peer.four.sin_addr;
    } else if (peer.any.sa_family == AF_INET6) {
        bytes = peer.six.sin6_addr.s6_addr;
        count = sizeof peer.six.sin6_addr;
    }
    if (bytes != NULL)
        inet_ntop(peer.any.sa_family, bytes, address, sizeof address);
    *local = guard_loopback(address);
    return login_address(bytes, count);
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
    request->peer = read_peer(wsi, &request->local);
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
    good = good && add(wsi, "connection:", "close", &at, end);
    /* A 304 says nothing of a length. */
    if (response->status != 304)
        good = good && lws_add_http_header_content_length(wsi, response->size, &at, end) == 0;
    return good && lws_finalize_write_http_header(wsi, start, &at, end) == 0;
}

/* The answer is given: libwebsockets closes the connection for -1. */
#define FINISHED (-1)

/* The socket takes more. While this is not finished, the outlet asks again. */
static int write_more(struct connection *connection)
{
    const struct http_response *response = &connection->exchange.response;
    unsigned char buffer[LWS_PRE + CHUNK_BYTES];
    if (response->status == 0)
        return 0;
    lws_set_timeout(connection->wsi, PENDING_TIMEOUT_HTTP_CONTENT, REQUEST_S);
    const bool body = connection->exchange.request.method != HTTP_HEAD && response->size > 0;
    if (!connection->head_sent) {
        connection->head_sent = true;
        if (!write_head(connection))
            return -1;
        if (!body)
            return FINISHED;
        return 0;
    }
    const size_t left = response->size - connection->sent;
    const size_t bytes = left < CHUNK_BYTES ? left : CHUNK_BYTES;
    memcpy(buffer + LWS_PRE, (const char *)response->bytes + connection->sent, bytes);
    connection->sent += bytes;
    if (lws_write(connection->wsi, buffer + LWS_PRE, bytes,
                  bytes == left ? LWS_WRITE_HTTP_FINAL : LWS_WRITE_HTTP) < 0)
        return -1;
    return bytes == left ? FINISHED : 0;
}

static void on_answered(struct http_exchange *exchange)
{
    struct connection *connection = (struct connection *)exchange; /* its first member */
    outlet_write(connection->wsi);
}

/* The request is whole: libwebsockets reads nothing more from this connection. False: it cannot be
 * answered. */
static bool stop_reading(struct connection *connection)
{
    connection->whole = true;
    lws_rx_flow_control(connection->wsi, 0);
    return outlet_open(connection->wsi);
}

/* 0, or -1: the connection closes. */
static int answer(struct connection *connection)
{
    if (!stop_reading(connection))
        return -1;
    connection->exchange.request.body = connection->body;
    connection->exchange.request.body_bytes = connection->body_bytes;
    http_answer(&connection->exchange);
    if (connection->exchange.response.status != 0)
        outlet_write(connection->wsi);
    return 0;
}

/* Refuses; what else the client sends is not read. */
static int refuse(struct connection *connection, unsigned status, const char *code,
                  const char *sentence)
{
    if (!stop_reading(connection))
        return -1;
    http_refuse(&connection->exchange, status, code, sentence);
    outlet_write(connection->wsi);
    return 0;
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

static int begin(struct connection *connection, struct lws *wsi)
{
    struct server *server = server_of(wsi);
    struct http_request *request = &connection->exchange.request;
    if (connection->exchange.web != NULL) /* libwebsockets has read on */
        return -1;
    connection->wsi = wsi;
    connection->exchange.web = server->web;
    connection->exchange.answered = on_answered;
    request->method = read_method(wsi, request);
    const char *wrong = check_guard(wsi, request);
    if (wrong != NULL)
        return refuse(connection, 403, "host", wrong);
    if (!read_request(wsi, server->web, request))
        return refuse(connection, 431, "header", "a header is too long");
    if (request->method != HTTP_POST)
        return answer(connection);
    const long bytes = announced(wsi);
    if (bytes < 0)
        return refuse(connection, 411, "length", "write Content-Length");
    if (bytes > HTTP_BODY_MAX)
        return refuse(connection, 413, "length", "a body has at most 64 KiB");
    connection->body = malloc((size_t)bytes + 1);
    if (connection->body == NULL)
        return refuse(connection, 503, "memory", "out of memory");
    connection->announced = (size_t)bytes;
    return 0;
}

/* A part of a body. libwebsockets 4.3.5 takes what follows the body in the same segment for a part
 * of it, and then never announces its end: the announced length decides. */
static int take_body(struct connection *connection, const void *bytes, size_t count)
{
    if (connection->whole)
        return 0; /* a GET's body, or a refused request's */
    const size_t left = connection->announced - connection->body_bytes;
    const size_t taken = count < left ? count : left;
    if (taken > 0)
        memcpy(connection->body + connection->body_bytes, bytes, taken);
    connection->body_bytes += taken;
    return taken == left ? answer(connection) : 0;
}

/* ---- WebSockets ---------------------------------------------------------------------------- */

/* Refuses an upgrade. */
static int refuse_upgrade(struct lws *wsi, unsigned status, const char *sentence)
{
    lws_return_http_status(wsi, status, sentence);
    outlet_open(wsi); /* without one the client may lose the refusal */
    return FINISHED;
}

/* An upgrade to HTTP/2 is not taken: the request is answered in HTTP/1.1 (RFC 9110, 7.8). Nothing
 * here stops libwebsockets but the name itself, which is in its own memory of the header. */
static void confirm_upgrade(char *name)
{
    if (strcasecmp(name, "h2c") == 0)
        name[0] = '-';
}

static int check_upgrade(struct lws *wsi)
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
    struct outlet *outlet = outlet_of(wsi);
    if (outlet == NULL)
        return -1;
    outlet->holder = holder;
    return 0;
}

static int establish(struct lws *wsi, struct connection *connection)
{
    const struct outlet *outlet = lws_get_opaque_user_data(wsi);
    memset(connection, 0, sizeof *connection);
    connection->wsi = wsi;
    if (outlet != NULL)
        connection->session = live_join(server_of(wsi)->web, wsi, &outlet->holder);
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
        return check_upgrade(wsi);
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
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
        confirm_upgrade(in);
        return 0;
    case LWS_CALLBACK_RAW_ADOPT: /* CONNECT: no proxy is here */
    case LWS_CALLBACK_RAW_RX:
        return -1;
    case LWS_CALLBACK_HTTP:
        return begin(connection, wsi);
    case LWS_CALLBACK_HTTP_BODY:
        return take_body(connection, in, bytes);
    case LWS_CALLBACK_HTTP_BODY_COMPLETION:
        return connection->whole ? 0 : answer(connection);
    case LWS_CALLBACK_HTTP_WRITEABLE:
        return write_more(connection);
    case LWS_CALLBACK_CLOSED_HTTP:
        outlet_stop(lws_get_opaque_user_data(wsi));
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
        outlet_close(wsi);
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
    server->lingers = lingers_open(&web->loop, web->clients_max);
    if (server->lingers == NULL) {
        free(server);
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    }
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
    lingers_close(server->lingers);
    server->lingers = NULL;
}

void server_free(struct server *server)
{
    /* libwebsockets 4.2 and later ends a context on a foreign loop in two calls: the second one
     * after the loop has ended. Version 4.1 has cleared the pointer by then. */
    if (server != NULL && server->context != NULL)
        lws_context_destroy(server->context);
    free(server);
}
