/* The daemon as convolv-web sees it: see daemon.h. */
#include "daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "link.h"

enum {
    STATUS_MS = 500,
    ASKED_MAX = 64, /* commands that wait for their answer, of one link */
    ANSWER_S = 10,  /* after which a command counts as not answered */
    REASON_TEXT = 512,
};

/* A command whose answer has not come. Answers come in the order of the commands. */
struct asked {
    daemon_reply *reply; /* NULL: nobody waits any more */
    void *context;
    int64_t since_ns;
};

/* A link with the commands that wait on it. */
struct commands {
    struct daemon *daemon;
    struct link *link; /* NULL: not used */
    struct asked waiting[ASKED_MAX];
    unsigned first, count;
};

struct daemon {
    struct daemon_options options;
    struct link *status_link, *events_link, *watch_link;
    struct commands observe, control;
    uv_timer_t timer;
    bool asked_status, up;
    json_t *status;
    json_t *events; /* the newest DAEMON_EVENTS_KEPT */
    json_int_t last_event;
    char reason[REASON_TEXT];
};

/* ---- status ------------------------------------------------------------------------------ */

static void set_up(struct daemon *daemon, bool up, const char *reason)
{
    const bool changed = daemon->up != up || (!up && strcmp(daemon->reason, reason) != 0);
    daemon->up = up;
    snprintf(daemon->reason, sizeof daemon->reason, "%s", reason);
    if (!up) {
        json_decref(daemon->status);
        daemon->status = NULL;
    }
    if (changed)
        daemon->options.changed(daemon->options.context);
}

static void ask_status(struct daemon *daemon)
{
    if (daemon->asked_status || !link_is_up(daemon->status_link))
        return;
    json_t *request = json_pack("{s:s, s:s}", "command", "status", "format", "json");
    daemon->asked_status = link_send(daemon->status_link, request);
    json_decref(request);
}

static void status_up(void *context)
{
    struct daemon *daemon = context;
    daemon->asked_status = false;
    ask_status(daemon);
}

static void status_line(void *context, json_t *object, int fd)
{
    struct daemon *daemon = context;
    (void)fd;
    json_t *status = json_object_get(object, "status");
    const char *error = json_string_value(json_object_get(object, "error"));
    daemon->asked_status = false;
    if (!json_is_object(status)) {
        set_up(daemon, false, error != NULL ? error : "the daemon answers without a status");
        return;
    }
    json_decref(daemon->status);
    daemon->status = json_incref(status);
    set_up(daemon, true, "");
    daemon->options.status(daemon->options.context);
}

static void status_down(void *context, const char *reason)
{
    struct daemon *daemon = context;
    daemon->asked_status = false;
    set_up(daemon, false, reason);
}

/* ---- events ------------------------------------------------------------------------------ */

static void events_up(void *context)
{
    struct daemon *daemon = context;
    json_t *request = json_pack("{s:s, s:I}", "command", "events", "since", daemon->last_event);
    link_send(daemon->events_link, request);
    json_decref(request);
}

static void events_line(void *context, json_t *object, int fd)
{
    struct daemon *daemon = context;
    (void)fd;
    json_t *event = json_object_get(object, "event"), *next = json_object_get(object, "next");
    if (json_is_integer(next) && json_integer_value(next) <= daemon->last_event) {
        /* Another run of the daemon, which counts from 1 again. */
        json_array_clear(daemon->events);
        daemon->last_event = 0;
        events_up(daemon);
        return;
    }
    if (!json_is_object(event))
        return;
    const json_t *number = json_object_get(event, "number");
    if (json_is_integer(number))
        daemon->last_event = json_integer_value(number);
    json_array_append(daemon->events, event);
    if (json_array_size(daemon->events) > DAEMON_EVENTS_KEPT)
        json_array_remove(daemon->events, 0);
    daemon->options.event(daemon->options.context, event);
}

static void events_down(void *context, const char *reason)
{
    (void)context; /* the status tells it */
    (void)reason;
}

json_t *daemon_events(const struct daemon *daemon, json_int_t since)
{
    json_t *list = json_array(), *event;
    size_t i;
    json_array_foreach(daemon->events, i,
                       event) if (json_integer_value(json_object_get(event, "number")) >= since)
        json_array_append(list, event);
    return list;
}

/* ---- commands ---------------------------------------------------------------------------- */

static void answer_first(struct commands *commands, json_t *answer)
{
    const struct asked asked = commands->waiting[commands->first];
    commands->first = (commands->first + 1) % ASKED_MAX;
    commands->count--;
    if (asked.reply != NULL)
        asked.reply(asked.context, answer);
}

static void commands_up(void *context)
{
    (void)context; /* nothing is asked until somebody does */
}

static void commands_line(void *context, json_t *object, int fd)
{
    struct commands *commands = context;
    (void)fd;
    if (commands->count > 0)
        answer_first(commands, object);
}

static void commands_down(void *context, const char *reason)
{
    struct commands *commands = context;
    (void)reason;
    while (commands->count > 0)
        answer_first(commands, NULL);
}

int daemon_ask(struct daemon *daemon, const struct holder *holder, json_t *request,
               daemon_reply *reply, void *context)
{
    const bool control = holder->role == ROLE_CONTROL && daemon->control.link != NULL;
    struct commands *commands = control ? &daemon->control : &daemon->observe;
    if (!link_is_up(commands->link))
        return ERROR_CLOSED;
    if (commands->count == ASKED_MAX)
        return ERROR_FULL;
    if (holder->name[0] != '\0') /* without a token: nobody in particular */
        json_object_set_new(request, "holder", json_string(holder->name));
    json_object_set_new(request, "role", json_string(control ? "control" : "observe"));
    if (!link_send(commands->link, request))
        return ERROR_FULL;
    commands->waiting[(commands->first + commands->count++) % ASKED_MAX] =
        (struct asked){reply, context, clock_monotonic_ns()};
    return 0;
}

static void forget(struct commands *commands, const void *context)
{
    for (unsigned i = 0; i < commands->count; i++) {
        struct asked *asked = &commands->waiting[(commands->first + i) % ASKED_MAX];
        if (asked->context == context)
            asked->reply = NULL;
    }
}

void daemon_forget(struct daemon *daemon, const void *context)
{
    forget(&daemon->observe, context);
    forget(&daemon->control, context);
}

/* Answers with NULL, once, those that have waited too long. */
static void give_up_late(struct commands *commands, int64_t now_ns)
{
    for (unsigned i = 0; i < commands->count; i++) {
        struct asked *asked = &commands->waiting[(commands->first + i) % ASKED_MAX];
        daemon_reply *reply = asked->reply;
        if (reply == NULL || now_ns - asked->since_ns < ANSWER_S * NS_PER_SECOND)
            continue;
        asked->reply = NULL;
        reply(asked->context, NULL);
    }
}

/* ---- watch ------------------------------------------------------------------------------- */

static void watch_up(void *context)
{
    struct daemon *daemon = context;
    daemon->options.watched(daemon->options.context, NULL, -1);
}

static void watch_line(void *context, json_t *object, int fd)
{
    struct daemon *daemon = context;
    daemon->options.watched(daemon->options.context, object, fd);
}

bool daemon_watch(struct daemon *daemon, const json_t *request)
{
    return link_send(daemon->watch_link, request);
}

/* ---- life -------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer)
{
    struct daemon *daemon = timer->data;
    const int64_t now_ns = clock_monotonic_ns();
    ask_status(daemon);
    give_up_late(&daemon->observe, now_ns);
    give_up_late(&daemon->control, now_ns);
}

static int open_links(struct daemon *daemon)
{
    const struct daemon_options *o = &daemon->options;
    const struct link_events status = {daemon, status_up, status_line, status_down};
    const struct link_events events = {daemon, events_up, events_line, events_down};
    const struct link_events watch = {daemon, watch_up, watch_line, events_down};
    const struct link_events observe = {&daemon->observe, commands_up, commands_line,
                                        commands_down};
    const struct link_events control = {&daemon->control, commands_up, commands_line,
                                        commands_down};
    static const char observe_name[] = "observe.sock", control_name[] = "control.sock";
    int error = link_open(o->loop, o->directory, observe_name, &status, &daemon->status_link);
    if (error == 0)
        error = link_open(o->loop, o->directory, observe_name, &events, &daemon->events_link);
    if (error == 0)
        error = link_open(o->loop, o->directory, observe_name, &watch, &daemon->watch_link);
    if (error == 0)
        error = link_open(o->loop, o->directory, observe_name, &observe, &daemon->observe.link);
    if (error == 0 && o->control)
        error = link_open(o->loop, o->directory, control_name, &control, &daemon->control.link);
    return error;
}

int daemon_open(const struct daemon_options *options, struct daemon **out)
{
    struct daemon *daemon = calloc(1, sizeof *daemon);
    if (daemon == NULL)
        return ERROR_MEMORY;
    daemon->options = *options;
    daemon->events = json_array();
    daemon->observe.daemon = daemon->control.daemon = daemon;
    snprintf(daemon->reason, sizeof daemon->reason, "connecting");
    uv_timer_init(options->loop, &daemon->timer);
    daemon->timer.data = daemon;
    uv_timer_start(&daemon->timer, on_timer, STATUS_MS, STATUS_MS);
    if (daemon->events == NULL || open_links(daemon) < 0) {
        daemon_close(daemon);
        return ERROR_MEMORY;
    }
    *out = daemon;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct daemon *daemon = handle->data;
    json_decref(daemon->status);
    json_decref(daemon->events);
    free(daemon);
}

void daemon_close(struct daemon *daemon)
{
    if (daemon == NULL)
        return;
    link_close(daemon->status_link);
    link_close(daemon->events_link);
    link_close(daemon->watch_link);
    link_close(daemon->observe.link);
    link_close(daemon->control.link);
    uv_close((uv_handle_t *)&daemon->timer, on_closed);
}

bool daemon_up(const struct daemon *daemon)
{
    return daemon->up;
}

const char *daemon_reason(const struct daemon *daemon)
{
    return daemon->reason;
}

const json_t *daemon_status(const struct daemon *daemon)
{
    return daemon->status;
}

const json_t *daemon_stream(const struct daemon *daemon, const char *name)
{
    const json_t *list = json_object_get(daemon->status, "streams"), *stream;
    size_t i;
    json_array_foreach(list, i, stream)
    {
        const char *other = json_string_value(json_object_get(stream, "name"));
        if (other != NULL && strcmp(other, name) == 0)
            return stream;
    }
    return NULL;
}
