/* A link to the daemon's control socket: see link.h. */
#include "link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/socket_folder.h"
#include "core/descriptor.h"

enum {
    LINE_MAX_BYTES = 64 << 20, /* a status of 4096 streams is smaller */
    WAITING_MAX_BYTES = 1 << 20,
    READ_BYTES = 64 << 10,
    RETRY_FIRST_MS = 100,
    RETRY_LAST_MS = 2000,
};

struct text {
    char *data;
    size_t used, room;
};

struct link {
    uv_loop_t *loop;
    char *directory; /* NULL: the usual places */
    char *name;
    struct link_events events;
    int fd; /* -1: down */
    uv_poll_t poll;
    uv_timer_t retry;
    unsigned retry_ms;
    struct text in, out;
    int passed; /* a descriptor that came with the line being read; -1: none */
    bool polling, closing;
    int open_handles;
};

/* ---- texts ------------------------------------------------------------------------------- */

static bool make_room(struct text *text, size_t bytes, size_t most)
{
    if (text->room - text->used >= bytes)
        return true;
    if (text->used + bytes > most)
        return false;
    size_t room = 2 * (text->used + bytes);
    char *data = realloc(text->data, room);
    if (data == NULL)
        return false;
    text->data = data;
    text->room = room;
    return true;
}

static void drop_front(struct text *text, size_t bytes)
{
    text->used -= bytes;
    memmove(text->data, text->data + bytes, text->used);
}

/* ---- down and up ------------------------------------------------------------------------- */

static void try_again(uv_timer_t *timer);

static void close_passed(struct link *link)
{
    if (link->passed >= 0)
        close(link->passed);
    link->passed = -1;
}

static void on_poll_closed(uv_handle_t *handle);

/* The poll handle watches the descriptor, so it closes first; on_poll_closed goes on. */
static void go_down(struct link *link, const char *reason)
{
    if (link->polling) {
        link->polling = false;
        uv_close((uv_handle_t *)&link->poll, on_poll_closed);
    }
    link->in.used = link->out.used = 0;
    close_passed(link);
    if (!link->closing)
        link->events.down(link->events.context, reason);
}

static void wait_and_retry(struct link *link)
{
    uv_timer_start(&link->retry, try_again, link->retry_ms, 0);
    link->retry_ms = link->retry_ms * 2 < RETRY_LAST_MS ? link->retry_ms * 2 : RETRY_LAST_MS;
}

static void release(struct link *link)
{
    if (--link->open_handles > 0)
        return;
    free(link->directory);
    free(link->name);
    free(link->in.data);
    free(link->out.data);
    free(link);
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct link *link = handle->data;
    close(link->fd);
    link->fd = -1;
    if (!link->closing)
        wait_and_retry(link);
    release(link);
}

/* A connected descriptor, or -1 with errno. */
static int connect_to(const char *directory, const char *name)
{
    char path[SOCKET_FOLDER_BYTES + 32];
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return descriptor_connect(path, SOCK_STREAM | SOCK_NONBLOCK, 0);
}

/* In the link's directory, else in the first of the usual ones; `sentence` says what was tried. */
static int find_daemon(const struct link *link, char *sentence, size_t room)
{
    struct socket_folders usual;
    socket_folders_find(NULL, &usual);
    const size_t count = link->directory != NULL ? 1 : usual.count;
    int length = snprintf(sentence, room, "no daemon answers");
    for (size_t i = 0; i < count; i++) {
        const char *place = link->directory != NULL ? link->directory : usual.paths[i];
        const int refused = socket_folder_check(place);
        const int fd = refused == 0 ? connect_to(place, link->name) : -1;
        if (fd >= 0)
            return fd;
        if (length < (int)room)
            length +=
                snprintf(sentence + length, room - (size_t)length, "%s %s/%s: %s", i > 0 ? ";" : "",
                         place, link->name, strerror(refused != 0 ? -refused : errno));
    }
    return -1;
}

static void on_poll(uv_poll_t *poll, int status, int happened);

static void try_again(uv_timer_t *timer)
{
    struct link *link = timer->data;
    char sentence[1024];
    link->fd = find_daemon(link, sentence, sizeof sentence);
    if (link->fd < 0) {
        wait_and_retry(link);
        link->events.down(link->events.context, sentence);
        return;
    }
    uv_poll_init(link->loop, &link->poll, link->fd);
    link->poll.data = link;
    link->polling = true;
    link->open_handles++;
    uv_poll_start(&link->poll, UV_READABLE, on_poll);
    link->events.up(link->events.context);
}

/* ---- writing ----------------------------------------------------------------------------- */

static void flush(struct link *link)
{
    while (link->out.used > 0) {
        const ssize_t sent = send(link->fd, link->out.data, link->out.used, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno != EAGAIN) {
            go_down(link, "the daemon has gone");
            return;
        }
        if (sent < 0)
            break;
        drop_front(&link->out, (size_t)sent);
    }
    uv_poll_start(&link->poll, UV_READABLE | (link->out.used > 0 ? UV_WRITABLE : 0), on_poll);
}

bool link_send(struct link *link, const json_t *object)
{
    if (!link->polling)
        return false;
    char *line = json_dumps(object, JSON_COMPACT);
    const size_t bytes = line != NULL ? strlen(line) : 0;
    const bool fits = line != NULL && make_room(&link->out, bytes + 1, WAITING_MAX_BYTES);
    if (fits) {
        memcpy(link->out.data + link->out.used, line, bytes);
        link->out.data[link->out.used + bytes] = '\n';
        link->out.used += bytes + 1;
        /* Not from here: a failed send would call down() inside of the caller. */
        uv_poll_start(&link->poll, UV_READABLE | UV_WRITABLE, on_poll);
    }
    free(line);
    return fits;
}

/* ---- reading ----------------------------------------------------------------------------- */

static void keep_passed(struct link *link, struct msghdr *message)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL;
         part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            close_passed(link);
            memcpy(&link->passed, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
        }
    }
}

/* Hands out each whole line. False: the daemon does not speak JSON. */
static bool take_lines(struct link *link, size_t searched)
{
    size_t from = 0;
    char *end;
    while (link->polling &&
           (end = memchr(link->in.data + searched, '\n', link->in.used - searched)) != NULL) {
        const size_t until = (size_t)(end - link->in.data);
        json_t *object = json_loadb(link->in.data + from, until - from, 0, NULL);
        if (!json_is_object(object)) {
            json_decref(object);
            return false;
        }
        from = searched = until + 1;
        link->events.line(link->events.context, object, link->passed);
        json_decref(object);
        close_passed(link);
    }
    if (link->polling)
        drop_front(&link->in, from);
    return true;
}

static void on_poll(uv_poll_t *poll, int status, int happened)
{
    struct link *link = poll->data;
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control;
    if (status == 0 && (happened & UV_WRITABLE) != 0)
        flush(link);
    if (!link->polling || (happened & UV_READABLE) == 0)
        return;
    if (!make_room(&link->in, READ_BYTES, LINE_MAX_BYTES)) {
        go_down(link, "the daemon's answer is too long");
        return;
    }
    struct iovec part = {link->in.data + link->in.used, link->in.room - link->in.used};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    const ssize_t got = recvmsg(link->fd, &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        go_down(link, "the daemon has gone");
        return;
    }
    keep_passed(link, &message);
    const size_t searched = link->in.used;
    link->in.used += (size_t)got;
    link->retry_ms = RETRY_FIRST_MS;
    if (!take_lines(link, searched))
        go_down(link, "what answers at the daemon's socket is no convolvd");
}

/* ---- life -------------------------------------------------------------------------------- */

int link_open(uv_loop_t *loop, const char *directory, const char *name,
              const struct link_events *events, struct link **out)
{
    struct link *link = calloc(1, sizeof *link);
    if (link == NULL)
        return ERROR_MEMORY;
    *link = (struct link){.loop = loop,
                          .directory = directory != NULL ? strdup(directory) : NULL,
                          .name = strdup(name),
                          .events = *events,
                          .fd = -1,
                          .passed = -1,
                          .retry_ms = RETRY_FIRST_MS,
                          .open_handles = 1};
    if (link->name == NULL || (directory != NULL && link->directory == NULL)) {
        free(link->name);
        free(link->directory);
        free(link);
        return ERROR_MEMORY;
    }
    uv_timer_init(loop, &link->retry);
    link->retry.data = link;
    uv_timer_start(&link->retry, try_again, 0, 0);
    *out = link;
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    release(handle->data);
}

void link_close(struct link *link)
{
    if (link == NULL)
        return;
    link->closing = true;
    go_down(link, "");
    uv_close((uv_handle_t *)&link->retry, on_timer_closed);
}

bool link_is_up(const struct link *link)
{
    return link->polling;
}
