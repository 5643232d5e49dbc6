/* Live sessions: see live.h. */
#include "live.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "stream/packet.h"
#include "hits.h"
#include "views.h"

enum {
    QUEUE_MAX = 1024,       /* messages that wait for one session … */
    QUEUE_BYTES = 16 << 20, /* … and their bytes */
    PICTURES_MS = 1000,     /* between two messages about lost pictures */
};

/* Text or picture, shared by the queues it stands in. */
struct message {
    unsigned references;
    bool binary;
    size_t bytes;
    uint8_t data[]; /* LWS_PRE bytes of room, then the message */
};

struct entry {
    uint32_t key;
    struct message *message;
};

struct session {
    struct live *live;
    struct session *next;
    struct lws *wsi;
    struct holder holder;
    struct entry queue[QUEUE_MAX]; /* oldest first */
    unsigned waiting;
    size_t waiting_bytes;
    uint64_t pictures_shed, pictures_told;
    int64_t told_ns;
    char text[LIVE_MESSAGE_MAX + 1];
    size_t text_bytes;
    bool overrun; /* its queue has run over: it is being closed */
};

struct live {
    struct web *web;
    struct session *sessions;
    unsigned count;
};

/* ---- messages ---------------------------------------------------------------------------- */

struct message *message_new(size_t bytes)
{
    struct message *message = malloc(sizeof *message + LWS_PRE + bytes);
    if (message == NULL)
        return NULL;
    message->references = 1;
    message->binary = true;
    message->bytes = bytes;
    return message;
}

uint8_t *message_bytes(struct message *message)
{
    return message->data + LWS_PRE;
}

static void drop(struct message *message)
{
    if (message != NULL && --message->references == 0)
        free(message);
}

/* Takes the object over; NULL: out of memory. */
static struct message *message_of(json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    struct message *message = text != NULL ? message_new(strlen(text)) : NULL;
    if (message != NULL) {
        memcpy(message_bytes(message), text, message->bytes);
        message->binary = false;
    }
    free(text);
    return message;
}

/* ---- queues ------------------------------------------------------------------------------ */

static struct entry *find_entry(struct session *session, uint32_t key)
{
    for (unsigned i = 0; key != 0 && i < session->waiting; i++)
        if (session->queue[i].key == key)
            return &session->queue[i];
    return NULL;
}

/* Adds a reference. */
static void enqueue(struct session *session, uint32_t key, struct message *message)
{
    struct entry *entry = find_entry(session, key);
    if (entry != NULL) {
        session->pictures_shed += entry->message->binary;
        session->waiting_bytes -= entry->message->bytes;
        drop(entry->message);
    } else if (session->waiting == QUEUE_MAX ||
               session->waiting_bytes + message->bytes > QUEUE_BYTES) {
        if (message->binary)
            session->pictures_shed++;
        else
            session->overrun = true;
        lws_callback_on_writable(session->wsi);
        return;
    } else {
        entry = &session->queue[session->waiting++];
    }
    message->references++;
    session->waiting_bytes += message->bytes;
    *entry = (struct entry){key, message};
    lws_callback_on_writable(session->wsi);
}

void live_send(struct live *live, struct session *session, uint32_t key, json_t *object)
{
    struct message *message = message_of(object);
    if (message == NULL)
        return;
    if (session != NULL) {
        enqueue(session, key, message);
    } else {
        for (session = live->sessions; session != NULL; session = session->next)
            enqueue(session, key, message);
    }
    drop(message);
}

void live_send_picture(struct session *session, uint16_t want, struct message *message)
{
    enqueue(session, LIVE_KEY_PICTURE + want, message);
    drop(message);
}

unsigned live_waiting(const struct session *session)
{
    return session->waiting;
}

bool live_picture_waits(const struct session *session, uint16_t want)
{
    for (unsigned i = 0; i < session->waiting; i++)
        if (session->queue[i].key == (uint32_t)LIVE_KEY_PICTURE + want)
            return true;
    return false;
}

/* Tells the browser how many pictures it has lost since it came, at most once a second. */
static void tell_shed(struct session *session)
{
    const int64_t now_ns = clock_monotonic_ns();
    if (session->pictures_shed == session->pictures_told ||
        now_ns - session->told_ns < PICTURES_MS * NS_PER_MS)
        return;
    session->told_ns = now_ns;
    session->pictures_told = session->pictures_shed;
    live_send(
        session->live, session, LIVE_KEY_SHED,
        json_pack("{s:s, s:I}", "type", "shed", "pictures", (json_int_t)session->pictures_shed));
}

bool live_write(struct session *session)
{
    if (session->overrun)
        return false;
    tell_shed(session);
    if (session->waiting == 0)
        return true;
    struct message *message = session->queue[0].message;
    session->waiting--;
    session->waiting_bytes -= message->bytes;
    memmove(session->queue, session->queue + 1, session->waiting * sizeof *session->queue);
    const int sent = lws_write(session->wsi, message_bytes(message), message->bytes,
                               message->binary ? LWS_WRITE_BINARY : LWS_WRITE_TEXT);
    drop(message);
    if (session->waiting > 0)
        lws_callback_on_writable(session->wsi);
    return sent >= 0;
}

/* ---- what a session is told -------------------------------------------------------------- */

static json_t *daemon_news(const struct live *live)
{
    const struct daemon *daemon = live->web->daemon;
    json_t *object = json_pack("{s:s, s:b}", "type", "daemon", "up", daemon_up(daemon));
    if (!daemon_up(daemon))
        json_object_set_new(object, "reason", json_string(daemon_reason(daemon)));
    return object;
}

static json_t *status_news(const struct live *live)
{
    json_t *object = json_pack("{s:s}", "type", "status");
    json_object_set(object, "status", (json_t *)daemon_status(live->web->daemon));
    return object;
}

static json_t *causes(void)
{
    json_t *list = json_array();
    for (int cause = 0; cause < INVALID_CAUSES; cause++)
        json_array_append_new(list, json_string(invalid_cause_name(cause)));
    json_array_append_new(list, json_string("absent"));
    json_array_append_new(list, json_string("unseen"));
    return list;
}

static void say_hello(struct session *session)
{
    const struct web *web = session->live->web;
    json_t *hello = json_pack("{s:s, s:s, s:s, s:s, s:b, s:b, s:{s:o}}", "type", "hello", "version",
                              CONVOLVD_VERSION, "role", role_name(session->holder.role), "holder",
                              session->holder.name, "control", (int)web->allow_control, "login",
                              tokens_count(web->tokens) > 0, "names", "causes", causes());
    live_send(session->live, session, 0, hello);
    live_send(session->live, session, LIVE_KEY_DAEMON, daemon_news(session->live));
    if (daemon_status(web->daemon) != NULL)
        live_send(session->live, session, LIVE_KEY_STATUS, status_news(session->live));
}

void live_status(struct live *live)
{
    if (live->sessions != NULL)
        live_send(live, NULL, LIVE_KEY_STATUS, status_news(live));
}

void live_event(struct live *live, const json_t *event)
{
    if (live->sessions == NULL)
        return;
    json_t *object = json_pack("{s:s}", "type", "event");
    json_object_set(object, "event", (json_t *)event);
    live_send(live, NULL, 0, object);
}

void live_daemon(struct live *live)
{
    live_send(live, NULL, LIVE_KEY_DAEMON, daemon_news(live));
}

/* ---- what a session asks ----------------------------------------------------------------- */

static void say_error(struct session *session, int64_t id, const char *sentence)
{
    live_send(
        session->live, session, 0,
        json_pack("{s:s, s:I, s:s}", "type", "error", "id", (json_int_t)id, "error", sentence));
}

static void take_message(struct session *session)
{
    struct views *views = session->live->web->views;
    struct want want;
    struct problem problem = {0};
    const int error = want_parse(session->text, session->text_bytes, &want, &problem);
    session->text_bytes = 0;
    if (error < 0) {
        say_error(session, want.id, problem.text);
        return;
    }
    if (want.view == VIEW_NONE) {
        views_drop(views, session, want.id);
        hits_drop(session->live->web->hits, session, want.id);
    } else if (want.view == VIEW_HITS) {
        hits_want(session->live->web->hits, session, want.id);
    } else if (views_want(views, session, &want, &problem) < 0) {
        say_error(session, want.id, problem.text);
    }
}

bool live_receive(struct session *session, const char *text, size_t bytes, bool last,
                  enum lws_close_status *status)
{
    if (bytes > LIVE_MESSAGE_MAX - session->text_bytes) {
        *status = LWS_CLOSE_STATUS_MESSAGE_TOO_LARGE;
        return false;
    }
    memcpy(session->text + session->text_bytes, text, bytes);
    session->text_bytes += bytes;
    if (last)
        take_message(session);
    return true;
}

/* ---- life -------------------------------------------------------------------------------- */

int live_open(struct web *web, struct live **out)
{
    struct live *live = calloc(1, sizeof *live);
    if (live == NULL)
        return ERROR_MEMORY;
    live->web = web;
    *out = live;
    return 0;
}

void live_close(struct live *live)
{
    free(live);
}

struct session *live_join(struct live *live, struct lws *wsi, const struct holder *holder)
{
    struct session *session = calloc(1, sizeof *session);
    if (session == NULL)
        return NULL;
    session->live = live;
    session->wsi = wsi;
    session->holder = *holder;
    session->next = live->sessions;
    live->sessions = session;
    live->count++;
    say_hello(session);
    views_watchers(live->web->views, live->count);
    return session;
}

void live_leave(struct session *session)
{
    if (session == NULL)
        return;
    struct live *live = session->live;
    struct session **at = &live->sessions;
    while (*at != session)
        at = &(*at)->next;
    *at = session->next;
    live->count--;
    hits_drop(live->web->hits, session, 0);
    views_leave(live->web->views, session);
    views_watchers(live->web->views, live->count);
    for (unsigned i = 0; i < session->waiting; i++)
        drop(session->queue[i].message);
    free(session);
}

unsigned live_sessions(const struct live *live)
{
    return live->count;
}
