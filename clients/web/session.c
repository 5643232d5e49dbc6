/* Sessions: see session.h. */
#include "session.h"

#include <libwebsockets.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"

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
    struct session *next;
    struct lws *wsi;
    struct holder holder;
    struct entry queue[QUEUE_MAX]; /* oldest first */
    unsigned waiting;
    size_t waiting_bytes;
    uint64_t pictures_shed, pictures_told;
    int64_t told_ns;
    char text[SESSION_TEXT_MAX + 1];
    size_t text_bytes;
    bool overrun; /* its queue has run over: it is being closed */
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

void session_send(struct session *session, uint32_t key, json_t *object)
{
    struct message *message = message_of(object);
    if (message != NULL)
        enqueue(session, key, message);
    drop(message);
}

void sessions_send(struct sessions *sessions, uint32_t key, json_t *object)
{
    struct message *message = message_of(object);
    for (struct session *session = sessions->first; message != NULL && session != NULL;
         session = session->next)
        enqueue(session, key, message);
    drop(message);
}

void session_send_picture(struct session *session, uint16_t want, struct message *message)
{
    enqueue(session, KEY_PICTURE + want, message);
    drop(message);
}

unsigned session_waiting(const struct session *session)
{
    return session->waiting;
}

bool session_picture_waits(const struct session *session, uint16_t want)
{
    for (unsigned i = 0; i < session->waiting; i++)
        if (session->queue[i].key == (uint32_t)KEY_PICTURE + want)
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
    session_send(
        session, KEY_SHED,
        json_pack("{s:s, s:I}", "type", "shed", "pictures", (json_int_t)session->pictures_shed));
}

bool session_write(struct session *session)
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

/* ---- what a browser sends ---------------------------------------------------------------- */

bool session_gather(struct session *session, const char *text, size_t bytes)
{
    if (bytes > SESSION_TEXT_MAX - session->text_bytes)
        return false;
    memcpy(session->text + session->text_bytes, text, bytes);
    session->text_bytes += bytes;
    return true;
}

const char *session_take(struct session *session, size_t *bytes)
{
    *bytes = session->text_bytes;
    session->text_bytes = 0;
    return session->text;
}

/* ---- life -------------------------------------------------------------------------------- */

struct session *session_open(struct sessions *sessions, struct lws *wsi,
                             const struct holder *holder)
{
    struct session *session = calloc(1, sizeof *session);
    if (session == NULL)
        return NULL;
    session->wsi = wsi;
    session->holder = *holder;
    session->next = sessions->first;
    sessions->first = session;
    sessions->count++;
    return session;
}

void session_close(struct sessions *sessions, struct session *session)
{
    struct session **at = &sessions->first;
    while (*at != session)
        at = &(*at)->next;
    *at = session->next;
    sessions->count--;
    for (unsigned i = 0; i < session->waiting; i++)
        drop(session->queue[i].message);
    free(session);
}

const struct holder *session_holder(const struct session *session)
{
    return &session->holder;
}
