/* Live sessions: see live.h. */
#include "live.h"

#include "stream/packet.h"
#include "hits.h"
#include "views.h"

/* ---- what a session is told -------------------------------------------------------------- */

static json_t *daemon_news(const struct web *web)
{
    const struct daemon *daemon = web->daemon;
    json_t *object = json_pack("{s:s, s:b}", "type", "daemon", "up", daemon_up(daemon));
    if (!daemon_up(daemon))
        json_object_set_new(object, "reason", json_string(daemon_reason(daemon)));
    return object;
}

static json_t *status_news(const struct web *web)
{
    json_t *object = json_pack("{s:s}", "type", "status");
    json_object_set(object, "status", (json_t *)daemon_status(web->daemon));
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

static void say_hello(struct web *web, struct session *session)
{
    const struct holder *holder = session_holder(session);
    json_t *hello = json_pack("{s:s, s:s, s:s, s:s, s:b, s:b, s:{s:o}}", "type", "hello", "version",
                              CONVOLVD_VERSION, "role", role_name(holder->role), "holder",
                              holder->name, "control", (int)web->allow_control, "login",
                              tokens_count(web->tokens) > 0, "names", "causes", causes());
    session_send(session, 0, hello);
    session_send(session, KEY_DAEMON, daemon_news(web));
    if (daemon_status(web->daemon) != NULL)
        session_send(session, KEY_STATUS, status_news(web));
}

void live_status(struct web *web)
{
    if (web->sessions.first != NULL)
        sessions_send(&web->sessions, KEY_STATUS, status_news(web));
}

void live_event(struct web *web, const json_t *event)
{
    if (web->sessions.first == NULL)
        return;
    json_t *object = json_pack("{s:s}", "type", "event");
    json_object_set(object, "event", (json_t *)event);
    sessions_send(&web->sessions, 0, object);
}

void live_daemon(struct web *web)
{
    sessions_send(&web->sessions, KEY_DAEMON, daemon_news(web));
}

/* ---- what a session asks ----------------------------------------------------------------- */

static void say_error(struct session *session, int64_t id, const char *sentence)
{
    session_send(
        session, 0,
        json_pack("{s:s, s:I, s:s}", "type", "error", "id", (json_int_t)id, "error", sentence));
}

static void take_message(struct web *web, struct session *session)
{
    struct want want;
    struct problem problem = {0};
    size_t bytes;
    const char *text = session_take(session, &bytes);
    const int error = want_parse(text, bytes, &want, &problem);
    if (error < 0) {
        say_error(session, want.id, problem.text);
        return;
    }
    if (want.view == VIEW_NONE) {
        views_drop(web->views, session, want.id);
        hits_drop(web->hits, session, want.id);
    } else if (want.view == VIEW_HITS) {
        hits_want(web->hits, session, want.id);
    } else if (views_want(web->views, session, &want, &problem) < 0) {
        say_error(session, want.id, problem.text);
    }
}

bool live_receive(struct web *web, struct session *session, const char *text, size_t bytes,
                  bool last, enum lws_close_status *status)
{
    if (!session_gather(session, text, bytes)) {
        *status = LWS_CLOSE_STATUS_MESSAGE_TOO_LARGE;
        return false;
    }
    if (last)
        take_message(web, session);
    return true;
}

/* ---- joining and leaving ----------------------------------------------------------------- */

struct session *live_join(struct web *web, struct lws *wsi, const struct holder *holder)
{
    struct session *session = session_open(&web->sessions, wsi, holder);
    if (session == NULL)
        return NULL;
    say_hello(web, session);
    views_watchers(web->views, web->sessions.count);
    return session;
}

void live_leave(struct web *web, struct session *session)
{
    if (session == NULL)
        return;
    hits_drop(web->hits, session, 0);
    views_leave(web->views, session);
    session_close(&web->sessions, session);
    views_watchers(web->views, web->sessions.count);
}
