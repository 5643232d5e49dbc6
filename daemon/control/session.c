/* Sessions: see session.h. */
#include "control/session.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/event_follow.h"
#include "core/log.h"
#include "core/loop_work.h"

enum {
    LINE_MAX_BYTES = 16384, /* of a request */
    PAUSE_MS = 2,           /* between an answer and the next request of one client … */
    COSTLY_PAUSE_MS = 50,   /* … when the answer took time to make */
    FOLLOW_MS = 50,         /* how often followers get what has happened */
    EVENTS_A_WRITE = 32,
    HOLDER_BYTES = 48,
    NAME_BYTES = 48,
};

struct session {
    struct sessions *sessions; /* NULL: the entry is free */
    uv_pipe_t pipe;
    uv_timer_t pause;
    struct loop_work lookup;
    uv_write_t write;
    uid_t uid;
    char name[NAME_BYTES]; /* of the user; empty: unknown */
    char line[LINE_MAX_BYTES];
    size_t used;
    bool asked;    /* and the answer is not written yet */
    bool costly;   /* what it asked */
    char *writing; /* NULL: no write is in flight */
    bool writing_answer;
    struct command_reply answer; /* waits for the write in flight; text NULL: none */
    bool asked_events, following;
    uint64_t asked_after, after;                    /* events up to this number are told */
    struct event_follow *asked_analyses, *analyses; /* of analyses; NULL: none */
    uint64_t since_ms;                              /* uv_now when it asked, was answered or came */
    int open_handles;
    bool closing;
};

struct sessions {
    struct commands *commands;
    enum command_role role;
    uv_pipe_t *listener;
    uv_timer_t follow;
    struct session all[SESSIONS_MAX];
    int open_handles;
    bool waiting; /* a connection waits for an entry to become free */
    bool closing;
    void (*closed)(void *context);
    void *context;
};

static void pump(struct session *session);
static void next_request(struct session *session);

/* ---- closing ----------------------------------------------------------------------------- */

static void release(struct sessions *sessions)
{
    if (--sessions->open_handles > 0)
        return;
    void (*closed)(void *context) = sessions->closed;
    void *context = sessions->context;
    free(sessions);
    closed(context);
}

static void drop_reply(struct command_reply *reply)
{
    json_decref(reply->object);
    free(reply->text);
    if (reply->fd >= 0)
        close(reply->fd);
    *reply = (struct command_reply){.fd = -1};
}

static void release_session(struct session *session)
{
    struct sessions *sessions = session->sessions;
    if (--session->open_handles == 0) {
        free(session->writing);
        drop_reply(&session->answer);
        event_follow_close(session->asked_analyses);
        event_follow_close(session->analyses);
        memset(session, 0, sizeof *session);
        if (sessions->waiting && !sessions->closing) {
            sessions->waiting = false;
            sessions_accept(sessions);
        }
    }
    release(sessions);
}

static void on_closed(uv_handle_t *handle)
{
    release_session(handle->data);
}

static void close_session(struct session *session)
{
    if (session->closing)
        return;
    session->closing = true;
    commands_cancel(session->sessions->commands, session);
    uv_close((uv_handle_t *)&session->pipe, on_closed);
    uv_close((uv_handle_t *)&session->pause, on_closed);
}

/* ---- writing ----------------------------------------------------------------------------- */

/* The object as a line; false: out of memory. */
static bool make_text(struct command_reply *reply)
{
    if (reply->object == NULL)
        return reply->text != NULL;
    char *text = json_dumps(reply->object, JSON_COMPACT);
    const size_t bytes = text != NULL ? strlen(text) : 0;
    char *line = text != NULL ? realloc(text, bytes + 1) : NULL;
    json_decref(reply->object);
    reply->object = NULL;
    if (line == NULL) {
        free(text);
        return false;
    }
    line[bytes] = '\n'; /* replaces the final zero */
    reply->text = line;
    reply->bytes = bytes + 1;
    return true;
}

static void on_pause_over(uv_timer_t *timer)
{
    next_request(timer->data);
}

static void on_written(uv_write_t *write, int status)
{
    struct session *session = write->data;
    free(session->writing);
    session->writing = NULL;
    if (session->closing)
        return;
    if (status != 0) {
        close_session(session);
        return;
    }
    if (session->writing_answer) {
        session->writing_answer = session->asked = false;
        session->since_ms = uv_now(session->pipe.loop);
        uv_timer_start(&session->pause, on_pause_over, session->costly ? COSTLY_PAUSE_MS : PAUSE_MS,
                       0);
    }
    pump(session);
}

/* Takes the text over; its first `sent` bytes are with the client already. */
static void write_text(struct session *session, char *text, size_t bytes, size_t sent)
{
    uv_buf_t buffer = uv_buf_init(text + sent, (unsigned)(bytes - sent));
    session->writing = text;
    session->write.data = session;
    if (uv_write(&session->write, (uv_stream_t *)&session->pipe, &buffer, 1, on_written) != 0)
        close_session(session);
}

/* Sends the descriptor with the beginning of the text; no write is in flight. How many bytes went;
 * -1: nothing did. */
static ssize_t send_with_descriptor(struct session *session, const struct command_reply *reply)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec part = {reply->text, reply->bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &reply->fd, sizeof(int));
    uv_os_fd_t fd;
    if (uv_fileno((uv_handle_t *)&session->pipe, &fd) != 0)
        return -1;
    return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void write_answer(struct session *session)
{
    struct command_reply reply = session->answer;
    ssize_t sent = 0;
    session->answer = (struct command_reply){.fd = -1};
    if (reply.fd >= 0) {
        sent = send_with_descriptor(session, &reply);
        close(reply.fd);
    }
    if (sent < 0) {
        free(reply.text);
        close_session(session);
        return;
    }
    session->writing_answer = true;
    if (session->asked_events && !session->following) {
        session->following = true;
        session->after = session->asked_after;
    }
    if (session->asked_analyses != NULL) {
        event_follow_close(session->analyses);
        session->analyses = session->asked_analyses;
        session->asked_analyses = NULL;
    }
    write_text(session, reply.text, reply.bytes, (size_t)sent);
}

/* The event as JSON; the caller's. NULL: out of memory. */
static json_t *event_json(const struct event *event)
{
    static const char *const severities[] = {[LOG_LEVEL_ERROR] = "error",
                                             [LOG_LEVEL_WARNING] = "warning",
                                             [LOG_LEVEL_NOTICE] = "notice",
                                             [LOG_LEVEL_INFO] = "info",
                                             [LOG_LEVEL_DEBUG] = "debug"};
    json_t *object =
        json_pack("{s:I, s:I, s:s, s:s, s:s}", "number", (json_int_t)event->number, "realtime_ns",
                  (json_int_t)event->realtime_ns, "kind", event_kind_word(event->kind), "severity",
                  severities[event->severity], "text", event->text);
    if (event->stream[0] != '\0')
        json_object_set_new(object, "stream", json_string(event->stream));
    if (event->framed) {
        json_object_set_new(object, "epoch", json_integer((json_int_t)event->epoch));
        json_object_set_new(object, "frame", json_integer((json_int_t)event->frame));
    }
    if (event->who[0] != '\0')
        json_object_set_new(object, "who", json_string(event->who));
    return object;
}

/* Lines of at most EVENTS_A_WRITE events that the session has not got yet; NULL: there are none. */
static char *event_lines(struct session *session, size_t *bytes)
{
    char *text = NULL;
    FILE *out = NULL;
    struct event event;
    uint64_t missed;
    for (int i = 0; i < EVENTS_A_WRITE; i++) {
        const bool got = event_next(&session->after, &event, &missed);
        if (!got && missed == 0)
            break;
        if (out == NULL && (out = open_memstream(&text, bytes)) == NULL)
            return NULL;
        if (missed > 0)
            fprintf(out, "{\"missed\":%llu}\n", (unsigned long long)missed);
        json_t *object = got ? json_pack("{s:o}", "event", event_json(&event)) : NULL;
        if (object != NULL && json_dumpf(object, out, JSON_COMPACT) == 0)
            fputc('\n', out);
        json_decref(object);
    }
    if (out != NULL)
        fclose(out);
    return text;
}

/* Writes what there is to write, one write at a time. */
static void pump(struct session *session)
{
    if (session->closing || session->writing != NULL)
        return;
    if (session->answer.text != NULL) {
        write_answer(session);
        return;
    }
    size_t bytes = 0;
    char *text = session->following ? event_lines(session, &bytes) : NULL;
    if (text == NULL && session->analyses != NULL)
        text = event_follow_lines(session->analyses, &bytes);
    if (text != NULL)
        write_text(session, text, bytes, 0);
}

static void on_follow(uv_timer_t *timer)
{
    struct sessions *sessions = timer->data;
    const uint64_t last = event_last();
    bool followers = false;
    for (int i = 0; i < SESSIONS_MAX; i++) {
        struct session *session = &sessions->all[i];
        followers = followers || session->following || session->analyses != NULL ||
                    session->asked_analyses != NULL;
        if ((session->following && session->after < last) || session->analyses != NULL)
            pump(session);
    }
    if (!followers)
        uv_timer_stop(timer);
}

/* ---- requests ---------------------------------------------------------------------------- */

static void on_answered(void *context, const struct command_reply *reply)
{
    struct session *session = context;
    session->answer = *reply;
    if (!json_is_true(json_object_get(reply->object, "ok"))) {
        session->asked_events = false;
        event_follow_close(session->asked_analyses);
        session->asked_analyses = NULL;
    }
    if (!make_text(&session->answer)) {
        drop_reply(&session->answer);
        close_session(session);
        return;
    }
    pump(session);
}

static void answer_now(struct session *session, const char *code, const char *sentence)
{
    const struct command_reply reply = {.object = commands_failure(code, sentence), .fd = -1};
    on_answered(session, &reply);
}

/* Who asks, and in which role. False: the request names no role that there is. */
static bool identify(const struct session *session, const json_t *request, struct caller *caller)
{
    const json_t *holder = json_object_get(request, "holder");
    const json_t *role = json_object_get(request, "role");
    char user[NAME_BYTES + 24];
    if (session->name[0] != '\0')
        snprintf(user, sizeof user, "%s (uid %u)", session->name, (unsigned)session->uid);
    else
        snprintf(user, sizeof user, "uid %u", (unsigned)session->uid);
    *caller = (struct caller){.role = session->sessions->role};
    snprintf(caller->name, sizeof caller->name, "%s", user);
    if (holder != NULL) {
        const char *text = json_string_value(holder);
        if (text == NULL || json_string_length(holder) > HOLDER_BYTES ||
            strlen(text) != json_string_length(holder) || !command_text_is_clean(text) ||
            text[0] == '\0')
            return false;
        snprintf(caller->name, sizeof caller->name, "%s via %s", text, user);
    }
    enum command_role asked;
    if (role == NULL)
        return true;
    if (!json_is_string(role) || !command_role_find(json_string_value(role), &asked))
        return false;
    caller->role = asked < caller->role ? asked : caller->role;
    return true;
}

static void note_request(struct session *session, json_t *request)
{
    const char *command = json_string_value(json_object_get(request, "command"));
    const int row = command != NULL ? command_find(command) : -1;
    session->costly = row >= 0 && command_table[row].costly;
    session->asked_events = row == CONTROL_EVENTS;
    if (row == CONTROL_HITS) {
        session->asked_analyses = commands_follow(session->sessions->commands, request);
        uv_timer_start(&session->sessions->follow, on_follow, FOLLOW_MS, FOLLOW_MS);
    }
    if (!session->asked_events)
        return;
    if (json_is_true(json_object_get(request, "analyses")))
        session->asked_analyses = commands_follow(session->sessions->commands, NULL);
    const json_t *since = json_object_get(request, "since");
    session->asked_after = json_is_integer(since) && json_integer_value(since) >= 0
                               ? (uint64_t)json_integer_value(since)
                               : event_last(); /* else it is refused */
    uv_timer_start(&session->sessions->follow, on_follow, FOLLOW_MS, FOLLOW_MS);
}

/* Reads nothing more from the client until its answer is written, so a client that does not read
 * gets no second answer. */
static void answer_line(struct session *session, size_t line_bytes)
{
    uv_read_stop((uv_stream_t *)&session->pipe);
    session->asked = true;
    session->costly = session->asked_events = false;
    session->since_ms = uv_now(session->pipe.loop);
    json_t *request = json_loadb(session->line, line_bytes, JSON_REJECT_DUPLICATES, NULL);
    session->used -= line_bytes + 1;
    memmove(session->line, session->line + line_bytes + 1, session->used);
    struct caller caller;
    if (request == NULL || !json_is_object(request)) {
        answer_now(session, "syntax",
                   "not JSON: write one object a line, such as {\"command\": \"status\"}");
    } else if (!identify(session, request, &caller)) {
        answer_now(session, "syntax",
                   "`holder` is a name of at most 48 bytes, `role` is observe or control");
    } else {
        note_request(session, request);
        commands_run(session->sessions->commands, request, &caller, on_answered, session);
    }
    json_decref(request);
}

static void on_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct session *session = handle->data;
    (void)suggested;
    *buffer = uv_buf_init(session->line + session->used,
                          (unsigned)(sizeof session->line - session->used));
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer)
{
    struct session *session = stream->data;
    (void)buffer;
    if (got < 0) { /* it has gone, or its line is longer than the buffer */
        close_session(session);
        return;
    }
    session->used += (size_t)got;
    const char *end = memchr(session->line, '\n', session->used);
    if (end != NULL)
        answer_line(session, (size_t)(end - session->line));
}

/* The next request may have arrived together with the last one. */
static void next_request(struct session *session)
{
    if (session->closing)
        return;
    const char *end = memchr(session->line, '\n', session->used);
    if (end != NULL)
        answer_line(session, (size_t)(end - session->line));
    else if (uv_read_start((uv_stream_t *)&session->pipe, on_buffer, on_read) != 0)
        close_session(session);
}

/* ---- connections ------------------------------------------------------------------------- */

/* On a worker: the user's name may come from the network. */
static void look_up(void *context)
{
    struct session *session = context;
    char memory[4096];
    struct passwd entry, *found = NULL;
    if (getpwuid_r(session->uid, &entry, memory, sizeof memory, &found) == 0 && found != NULL &&
        command_text_is_clean(entry.pw_name))
        snprintf(session->name, sizeof session->name, "%s", entry.pw_name);
}

static void on_looked_up(void *context)
{
    struct session *session = context;
    next_request(session);
    release_session(session);
}

/* Closes a connection for a new one, unless one is closing already: the one idle longest, else a
 * follower, else the one that has waited longest for its answer, which it may never read. */
static int worth(const struct session *session)
{
    return session->asked ? 2 : session->following || session->analyses != NULL ? 1 : 0;
}

static void make_room(struct sessions *sessions)
{
    struct session *victim = NULL;
    for (int i = 0; i < SESSIONS_MAX; i++) {
        struct session *session = &sessions->all[i];
        if (session->closing)
            return;
        if (victim == NULL || worth(session) < worth(victim) ||
            (worth(session) == worth(victim) && session->since_ms < victim->since_ms))
            victim = session;
    }
    close_session(victim);
}

static bool identify_peer(struct session *session)
{
    uv_os_fd_t fd;
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    if (uv_fileno((uv_handle_t *)&session->pipe, &fd) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
        return false;
    session->uid = peer.uid;
    session->open_handles++;
    session->sessions->open_handles++;
    loop_work_start(&session->lookup, session->pipe.loop, look_up, on_looked_up, session);
    return true;
}

void sessions_accept(struct sessions *sessions)
{
    struct session *session = NULL;
    for (int i = 0; i < SESSIONS_MAX && session == NULL; i++) {
        if (sessions->all[i].sessions == NULL)
            session = &sessions->all[i];
    }
    if (session == NULL) { /* its turn comes when an entry is free */
        sessions->waiting = true;
        make_room(sessions);
        return;
    }
    uv_loop_t *loop = sessions->listener->loop;
    session->sessions = sessions;
    session->answer.fd = -1;
    uv_pipe_init(loop, &session->pipe, 0);
    uv_timer_init(loop, &session->pause);
    session->pipe.data = session->pause.data = session;
    session->open_handles = 2;
    session->since_ms = uv_now(loop);
    sessions->open_handles += 2;
    if (uv_accept((uv_stream_t *)sessions->listener, (uv_stream_t *)&session->pipe) != 0 ||
        !identify_peer(session))
        close_session(session);
}

/* ---- life -------------------------------------------------------------------------------- */

static void on_follow_closed(uv_handle_t *handle)
{
    release(handle->data);
}

int sessions_open(struct commands *commands, enum command_role role, uv_pipe_t *listener,
                  struct sessions **out)
{
    struct sessions *sessions = calloc(1, sizeof *sessions);
    if (sessions == NULL)
        return ERROR_MEMORY;
    sessions->commands = commands;
    sessions->role = role;
    sessions->listener = listener;
    sessions->open_handles = 1;
    uv_timer_init(listener->loop, &sessions->follow);
    uv_unref((uv_handle_t *)&sessions->follow);
    sessions->follow.data = sessions;
    *out = sessions;
    return 0;
}

void sessions_close(struct sessions *sessions, void (*closed)(void *context), void *context)
{
    sessions->closing = true;
    sessions->closed = closed;
    sessions->context = context;
    for (int i = 0; i < SESSIONS_MAX; i++) {
        if (sessions->all[i].sessions != NULL)
            close_session(&sessions->all[i]);
    }
    uv_close((uv_handle_t *)&sessions->follow, on_follow_closed);
}
