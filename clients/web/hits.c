/* Events of analyses for browsers: see hits.h. */
#include "hits.h"

#include <stdlib.h>

#include "link.h"

enum { KEPT = 4096, QUEUE_ROOM = 64 };

struct viewer {
    struct session *session;
    uint16_t id;
    uint64_t missed; /* not told yet */
    bool fresh;      /* gets what is kept first */
    struct viewer *next;
};

struct hits {
    struct web *web;
    const char *directory; /* NULL: the usual ones */
    struct link *link;     /* NULL: nobody wants events */
    uv_timer_t timer;
    struct viewer *viewers;
    json_t *gathered;      /* since the last message */
    json_t *kept[KEPT];    /* the newest ones, a ring */
    unsigned first, count; /* of it */
    uint64_t missed;       /* of `gathered` */
};

/* ---- the daemon -------------------------------------------------------------------------- */

static void forget(struct hits *hits)
{
    for (unsigned i = 0; i < hits->count; i++)
        json_decref(hits->kept[(hits->first + i) % KEPT]);
    hits->first = hits->count = 0;
    json_array_clear(hits->gathered);
    hits->missed = 0;
}

static void keep(struct hits *hits, json_t *event)
{
    if (hits->count == KEPT) {
        json_decref(hits->kept[hits->first]);
        hits->first = (hits->first + 1) % KEPT;
        hits->count--;
    }
    hits->kept[(hits->first + hits->count++) % KEPT] = json_incref(event);
}

static void on_up(void *context)
{
    struct hits *hits = context;
    json_t *request = json_pack("{s:s, s:i}", "command", "hits", "since", 0);
    forget(hits);
    for (struct viewer *viewer = hits->viewers; viewer != NULL; viewer = viewer->next)
        viewer->fresh = true;
    if (request != NULL)
        link_send(hits->link, request);
    json_decref(request);
}

static void on_line(void *context, json_t *object, int fd)
{
    struct hits *hits = context;
    json_t *event = json_object_get(object, "analysis_event");
    const json_t *missed = json_object_get(object, "missed");
    (void)fd;
    if (json_is_integer(missed) && json_integer_value(missed) > 0)
        hits->missed += (uint64_t)json_integer_value(missed);
    if (!json_is_object(event))
        return;
    keep(hits, event);
    if (json_array_size(hits->gathered) < HITS_A_MESSAGE)
        json_array_append(hits->gathered, event);
    else
        hits->missed++;
}

static void on_down(void *context, const char *reason)
{
    (void)context; /* the status tells it */
    (void)reason;
}

static void follow(struct hits *hits)
{
    const struct link_events events = {hits, on_up, on_line, on_down};
    if (hits->link == NULL &&
        link_open(&hits->web->loop, hits->directory, "observe.sock", &events, &hits->link) == 0)
        uv_timer_again(&hits->timer);
}

static void leave(struct hits *hits)
{
    link_close(hits->link);
    hits->link = NULL;
    uv_timer_stop(&hits->timer);
    forget(hits);
}

/* ---- browsers ---------------------------------------------------------------------------- */

static json_t *kept_events(const struct hits *hits)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < hits->count; i++)
        json_array_append(list, hits->kept[(hits->first + i) % KEPT]);
    return list;
}

static void send_to(struct hits *hits, struct viewer *viewer)
{
    const size_t events = json_array_size(hits->gathered);
    viewer->missed += hits->missed;
    if (viewer->fresh ? hits->count == 0 : events == 0 && viewer->missed == 0)
        return;
    if (session_waiting(viewer->session) > QUEUE_ROOM) {
        viewer->missed += events;
        return;
    }
    json_t *list = viewer->fresh ? kept_events(hits) : json_incref(hits->gathered);
    json_t *message = json_pack("{s:s, s:i, s:o, s:I}", "type", "hits", "id", (int)viewer->id,
                                "events", list, "missed", (json_int_t)viewer->missed);
    if (message == NULL)
        return;
    session_send(viewer->session, 0, message);
    viewer->missed = 0;
    viewer->fresh = false;
}

static void on_timer(uv_timer_t *timer)
{
    struct hits *hits = timer->data;
    for (struct viewer *viewer = hits->viewers; viewer != NULL; viewer = viewer->next)
        send_to(hits, viewer);
    /* Messages share the list until they are written as text, in session_send. */
    json_array_clear(hits->gathered);
    hits->missed = 0;
}

void hits_want(struct hits *hits, struct session *session, uint16_t id)
{
    if (hits == NULL)
        return;
    hits_drop(hits, session, 0);
    struct viewer *viewer = calloc(1, sizeof *viewer);
    if (viewer == NULL)
        return;
    *viewer = (struct viewer){.session = session, .id = id, .fresh = true, .next = hits->viewers};
    hits->viewers = viewer;
    follow(hits);
}

void hits_drop(struct hits *hits, const struct session *session, uint16_t id)
{
    if (hits == NULL)
        return;
    for (struct viewer **at = &hits->viewers; *at != NULL; at = &(*at)->next) {
        struct viewer *viewer = *at;
        if (viewer->session != session || (id != 0 && viewer->id != id))
            continue;
        *at = viewer->next;
        free(viewer);
        break;
    }
    if (hits->viewers == NULL && hits->link != NULL)
        leave(hits);
}

/* ---- life -------------------------------------------------------------------------------- */

int hits_open(struct web *web, const char *directory, struct hits **out)
{
    struct hits *hits = calloc(1, sizeof *hits);
    if (hits == NULL)
        return ERROR_MEMORY;
    hits->web = web;
    hits->directory = directory;
    hits->gathered = json_array();
    uv_timer_init(&web->loop, &hits->timer);
    hits->timer.data = hits;
    uv_timer_set_repeat(&hits->timer, HITS_EVERY_MS);
    uv_timer_start(&hits->timer, on_timer, HITS_EVERY_MS, HITS_EVERY_MS);
    uv_timer_stop(&hits->timer);
    *out = hits;
    return hits->gathered != NULL ? 0 : ERROR_MEMORY;
}

static void on_closed(uv_handle_t *handle)
{
    struct hits *hits = handle->data;
    json_decref(hits->gathered);
    free(hits);
}

void hits_close(struct hits *hits)
{
    if (hits == NULL)
        return;
    link_close(hits->link);
    hits->link = NULL;
    forget(hits);
    while (hits->viewers != NULL) {
        struct viewer *next = hits->viewers->next;
        free(hits->viewers);
        hits->viewers = next;
    }
    uv_close((uv_handle_t *)&hits->timer, on_closed);
}
