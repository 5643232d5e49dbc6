/* HTTP: see http.h. */
#include "http.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "metrics.h"

static const char type_json[] = "application/json";

/* ---- who ----------------------------------------------------------------------------------- */

const char *http_cookie_name(const struct web *web, char name[32])
{
    snprintf(name, 32, "convolv_%u", (unsigned)web->guard.port);
    return name;
}

struct holder http_holder(const struct web *web, const struct http_request *request)
{
    static const char bearer[] = "Bearer ";
    struct holder holder = {.role = ROLE_NONE};
    /* A browser sends the cookie along with what other pages make it send, but then names their
     * origin, which is refused, or none, as with a link. */
    const bool cookie =
        request->cookie[0] != '\0' && (request->has_origin || request->method != HTTP_POST);
    if (request->authorization[0] != '\0') {
        if (strncmp(request->authorization, bearer, sizeof bearer - 1) != 0 ||
            !tokens_find(web->tokens, request->authorization + sizeof bearer - 1, &holder))
            return holder;
    } else if (!cookie ||
               !tokens_session(web->tokens, request->cookie, clock_monotonic_ns(), &holder)) {
        holder.role = request->local && !web->require_token ? ROLE_OBSERVE : ROLE_NONE;
    }
    if (holder.role == ROLE_CONTROL && !web->allow_control)
        holder.role = ROLE_OBSERVE;
    return holder;
}

/* ---- responses ----------------------------------------------------------------------------- */

static void clear(struct http_response *response)
{
    free(response->owned);
    memset(response, 0, sizeof *response);
}

/* Takes the object over. */
static void answer_json(struct http_exchange *exchange, unsigned status, json_t *object)
{
    struct http_response *response = &exchange->response;
    char *text = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    free(response->owned);
    response->status = text != NULL ? status : 500;
    response->type = type_json;
    response->bytes = response->owned = text;
    response->size = text != NULL ? strlen(text) : 0;
}

void http_refuse(struct http_exchange *exchange, unsigned status, const char *code,
                 const char *sentence)
{
    answer_json(exchange, status,
                json_pack("{s:b, s:s, s:s}", "ok", 0, "error", sentence, "code", code));
}

static void refuse_daemon(struct http_exchange *exchange)
{
    const struct daemon *daemon = exchange->web->daemon;
    http_refuse(exchange, 503, "daemon",
                daemon_up(daemon) ? "the daemon does not answer" : daemon_reason(daemon));
}

/* ---- asked of the daemon --------------------------------------------------------------------- */

/* The status for an error of the daemon's. */
static unsigned status_of(const json_t *answer)
{
    static const struct {
        const char *code;
        unsigned status;
    } codes[] = {{"role", 403},      {"command", 404}, {"stream", 404},
                 {"partition", 404}, {"busy", 429},    {"limit", 429},
                 {"preparing", 503}, {"closed", 503},  {"failed", 500}};
    const char *code = json_string_value(json_object_get(answer, "code"));
    if (json_is_true(json_object_get(answer, "ok")))
        return 200;
    for (size_t i = 0; code != NULL && i < sizeof codes / sizeof *codes; i++)
        if (strcmp(code, codes[i].code) == 0)
            return codes[i].status;
    return 400;
}

static void on_answer(void *context, json_t *answer)
{
    struct http_exchange *exchange = context;
    if (answer == NULL)
        refuse_daemon(exchange);
    else
        answer_json(exchange, status_of(answer), json_incref(answer));
    exchange->answered(exchange);
}

/* Takes the request over. */
static void ask(struct http_exchange *exchange, const struct holder *holder, json_t *request)
{
    const int error = daemon_ask(exchange->web->daemon, holder, request, on_answer, exchange);
    json_decref(request);
    if (error == ERROR_FULL)
        http_refuse(exchange, 429, "busy", "too many commands wait for the daemon; try again");
    else if (error < 0)
        refuse_daemon(exchange);
}

/* ---- GET ------------------------------------------------------------------------------------- */

static void get_health(struct http_exchange *exchange, const struct holder *holder)
{
    (void)holder;
    answer_json(exchange, 200,
                json_pack("{s:b, s:b}", "ok", 1, "daemon", daemon_up(exchange->web->daemon)));
}

static void get_metrics(struct http_exchange *exchange, const struct holder *holder)
{
    const struct metrics_options options = {.channels_max = exchange->web->metrics_channels};
    struct http_response *response = &exchange->response;
    (void)holder;
    char *text = metrics_text(daemon_status(exchange->web->daemon), &options, &response->size);
    if (text == NULL) {
        http_refuse(exchange, 503, "memory", "out of memory");
        return;
    }
    response->status = 200;
    response->type = METRICS_CONTENT_TYPE;
    response->bytes = response->owned = text;
}

static void get_status(struct http_exchange *exchange, const struct holder *holder)
{
    const json_t *status = daemon_status(exchange->web->daemon);
    (void)holder;
    if (status == NULL) {
        refuse_daemon(exchange);
        return;
    }
    json_t *object = json_pack("{s:b}", "ok", 1);
    json_object_set(object, "status", (json_t *)status);
    answer_json(exchange, 200, object);
}

static void get_events(struct http_exchange *exchange, const struct holder *holder)
{
    (void)holder;
    answer_json(exchange, 200,
                json_pack("{s:b, s:o}", "ok", 1, "events",
                          daemon_events(exchange->web->daemon,
                                        strtoll(exchange->request.since, NULL, 10))));
}

static void get_session(struct http_exchange *exchange, const struct holder *holder)
{
    answer_json(exchange, 200,
                json_pack("{s:b, s:s, s:s, s:b, s:b}", "ok", 1, "role", role_name(holder->role),
                          "holder", holder->name, "control", (int)exchange->web->allow_control,
                          "login", tokens_count(exchange->web->tokens) > 0));
}

static void get_streams(struct http_exchange *exchange, const struct holder *holder)
{
    ask(exchange, holder, json_pack("{s:s}", "command", "streams"));
}

static void get_commands(struct http_exchange *exchange, const struct holder *holder)
{
    ask(exchange, holder, json_pack("{s:s}", "command", "commands"));
}

static void get_response(struct http_exchange *exchange, const struct holder *holder)
{
    const struct http_request *request = &exchange->request;
    json_t *question = json_pack("{s:s, s:s}", "command", "response", "stream", request->stream);
    if (request->filter[0] != '\0')
        json_object_set_new(question, "filter", json_string(request->filter));
    ask(exchange, holder, question);
}

static void get_analyses(struct http_exchange *exchange, const struct holder *holder)
{
    ask(exchange, holder, json_pack("{s:s}", "command", "analyses"));
}

static void get_transient(struct http_exchange *exchange, const struct holder *holder)
{
    const struct http_request *request = &exchange->request;
    ask(exchange, holder,
        json_pack("{s:s, s:s, s:I, s:I}", "command", "transient", "analysis", request->analysis,
                  "number", (json_int_t)strtoll(request->number, NULL, 10), "from",
                  (json_int_t)strtoll(request->from, NULL, 10)));
}

static const struct {
    const char *path;
    void (*get)(struct http_exchange *exchange, const struct holder *holder);
    bool anybody; /* without a token too, from anywhere */
} pages[] = {
    {"/healthz", get_health, true},
    {"/api/v1/session", get_session, true},
    {"/metrics", get_metrics, false},
    {"/api/v1/status", get_status, false},
    {"/api/v1/events", get_events, false},
    {"/api/v1/streams", get_streams, false},
    {"/api/v1/commands", get_commands, false},
    {"/api/v1/response", get_response, false},
    {"/api/v1/analyses", get_analyses, false},
    {"/api/v1/transient", get_transient, false},
};

static void get_file(struct http_exchange *exchange)
{
    const struct http_request *request = &exchange->request;
    struct http_response *response = &exchange->response;
    const struct page_file *file = page_files_find(exchange->web->files, request->path);
    if (file == NULL) {
        http_refuse(exchange, 404, "not-found", "there is nothing here");
        return;
    }
    response->status = strcmp(request->if_none_match, file->etag) == 0 ? 304 : 200;
    response->type = file->type;
    /* Copies: SIGHUP may replace the files before all of it is sent. */
    memcpy(response->etag, file->etag, sizeof response->etag);
    if (response->status == 200) {
        response->owned = malloc(file->size + 1);
        if (response->owned == NULL) {
            http_refuse(exchange, 503, "memory", "out of memory");
            return;
        }
        memcpy(response->owned, file->bytes, file->size);
        response->bytes = response->owned;
        response->size = file->size;
    }
}

static void answer_get(struct http_exchange *exchange)
{
    const struct holder holder = http_holder(exchange->web, &exchange->request);
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        if (strcmp(exchange->request.path, pages[i].path) != 0)
            continue;
        if (holder.role == ROLE_NONE && !pages[i].anybody)
            http_refuse(exchange, 401, "token", "log in with a token first");
        else
            pages[i].get(exchange, &holder);
        return;
    }
    get_file(exchange);
}

/* ---- POST ------------------------------------------------------------------------------------ */

static void post_login(struct http_exchange *exchange, const json_t *body)
{
    struct web *web = exchange->web;
    const char *token = json_string_value(json_object_get(body, "token"));
    const int64_t now_ns = clock_monotonic_ns();
    struct holder holder;
    char cookie[TOKEN_TEXT], name[32];
    if (token == NULL || !tokens_find(web->tokens, token, &holder)) {
        if (login_pauses_wrong(&web->logins, &exchange->request.peer, now_ns))
            http_refuse(exchange, 401, "token", "nobody holds this token");
        else
            http_refuse(exchange, 429, "busy", "too many wrong logins; wait a second");
        return;
    }
    if (!tokens_login(web->tokens, &holder, now_ns, cookie)) {
        http_refuse(exchange, 503, "internal", "no session could be opened");
        return;
    }
    log_info("%s has logged in (%s)", holder.name, role_name(holder.role));
    if (holder.role == ROLE_CONTROL && !web->allow_control)
        holder.role = ROLE_OBSERVE;
    snprintf(exchange->response.set_cookie, sizeof exchange->response.set_cookie,
             "%s=%s; Path=/; HttpOnly; SameSite=Strict%s", http_cookie_name(web, name), cookie,
             web->guard.tls ? "; Secure" : "");
    answer_json(exchange, 200,
                json_pack("{s:b, s:s, s:s}", "ok", 1, "role", role_name(holder.role), "holder",
                          holder.name));
    explicit_bzero(cookie, sizeof cookie);
}

static void post_logout(struct http_exchange *exchange)
{
    char name[32];
    tokens_logout(exchange->web->tokens, exchange->request.cookie);
    snprintf(exchange->response.set_cookie, sizeof exchange->response.set_cookie,
             "%s=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0%s",
             http_cookie_name(exchange->web, name), exchange->web->guard.tls ? "; Secure" : "");
    answer_json(exchange, 200, json_pack("{s:b}", "ok", 1));
}

/* Any command of the daemon's, but those whose answer is no single line. */
static void post_command(struct http_exchange *exchange, const char *command, json_t *body)
{
    const struct holder holder = http_holder(exchange->web, &exchange->request);
    if (holder.role == ROLE_NONE) {
        http_refuse(exchange, 401, "token", "log in with a token first");
        return;
    }
    if (strcmp(command, "watch") == 0 || strcmp(command, "events") == 0 ||
        strcmp(command, "hits") == 0) {
        http_refuse(exchange, 404, "not-found", "that comes over the WebSocket /api/v1/live");
        return;
    }
    json_object_set_new(body, "command", json_string(command));
    ask(exchange, &holder, json_incref(body));
}

static void answer_post(struct http_exchange *exchange)
{
    static const char prefix[] = "/api/v1/";
    const struct http_request *request = &exchange->request;
    const char *command = request->path + sizeof prefix - 1;
    if (strncmp(request->path, prefix, sizeof prefix - 1) != 0 || *command == '\0' ||
        strchr(command, '/') != NULL) {
        http_refuse(exchange, 404, "not-found", "there is nothing here");
        return;
    }
    if (!request->json) {
        http_refuse(exchange, 415, "type", "write Content-Type: application/json");
        return;
    }
    json_t *body = request->body_bytes > 0 ? json_loadb(request->body, request->body_bytes,
                                                        JSON_REJECT_DUPLICATES, NULL)
                                           : json_object();
    if (!json_is_object(body))
        http_refuse(exchange, 400, "format", "the body is no JSON object");
    else if (strcmp(command, "login") == 0)
        post_login(exchange, body);
    else if (strcmp(command, "logout") == 0)
        post_logout(exchange);
    else
        post_command(exchange, command, body);
    json_decref(body);
}

/* ---- all ------------------------------------------------------------------------------------- */

void http_answer(struct http_exchange *exchange)
{
    switch (exchange->request.method) {
    case HTTP_GET:
    case HTTP_HEAD:
        answer_get(exchange);
        break;
    case HTTP_POST:
        answer_post(exchange);
        break;
    default:
        http_refuse(exchange, 405, "method", "GET, HEAD and POST are answered");
    }
}

void http_forget(struct http_exchange *exchange)
{
    if (exchange->web != NULL)
        daemon_forget(exchange->web->daemon, exchange);
    clear(&exchange->response);
}
