/* Attachment: see attachment.h. */
#include "io/net/attachment.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/event.h"
#include "core/log.h"
#include "core/loop_work.h"
#include "io/net/handover.h"

enum { CHECK_MS = 500, LOG_INTERVAL_S = 10, WAITING_INTERVAL_S = 60 };

enum job_kind {
    JOB_OPEN,  /* the socket, which could not be opened before */
    JOB_JOIN,  /* the group, on the interface that is there now */
    JOB_LEAVE, /* the group */
    JOB_RENEW, /* nothing: the interface is the same, what is known of it is not */
};

/* What a worker does, and what came of it. */
struct job {
    struct loop_work work;
    enum job_kind kind;
    bool busy;
    int fd; /* in: a duplicate of the socket, or -1: open one. Out: the socket opened, or -1 */
    unsigned index; /* in: of the interface joined before; out: of the one that is there, 0: none */
    bool group;
    uint64_t granted_bytes;
    int error;
    struct problem problem;
};

struct attachment {
    struct attachment_options options;
    struct attachment_figures figures;
    struct socket_pending pending;
    int fd;         /* the source's; -1: none yet, or not any more */
    unsigned index; /* of the interface; 0: none is watched */
    bool started, stopped, timer_gone;
    bool away; /* is to be out of the group */
    uv_loop_t *loop;
    uv_timer_t timer;
    struct job job;
    int64_t since_ns; /* the state */
    struct log_limit waiting_limit, back_limit;
    void (*closed)(void *context);
    void *closed_context;
};

const char *attachment_state_name(enum attachment_state state)
{
    static const char *const names[] = {"waiting", "up", "down", "gone", "away"};
    return names[state];
}

void attachment_figures(const struct attachment *a, struct attachment_figures *figures)
{
    *figures = a->figures;
}

/* ---- states ------------------------------------------------------------------------------ */

static void enter(struct attachment *a, enum attachment_state state)
{
    a->figures.state = state;
    a->since_ns = clock_monotonic_ns();
}

static double seconds_in_state(const struct attachment *a)
{
    return (double)(clock_monotonic_ns() - a->since_ns) / (double)NS_PER_SECOND;
}

/* The socket hangs on the interface of this number; 0: on none. One that is gone again has no name,
 * and the next check finds it so. */
static void attach(struct attachment *a, unsigned index, bool group)
{
    a->index = index;
    a->figures.group = group;
    if (index == 0 || if_indextoname(index, a->figures.interface) == NULL)
        a->figures.interface[0] = '\0';
    enter(a, ATTACHMENT_UP);
}

static void wait_for_it(struct attachment *a, const struct problem *problem)
{
    snprintf(a->figures.problem, sizeof a->figures.problem, "%.255s", problem->text);
    log_limited(&a->waiting_limit, WAITING_INTERVAL_S * NS_PER_SECOND, LOG_LEVEL_WARNING,
                "stream %s: waits for the network: %s; the daemon keeps trying",
                a->options.socket.stream, problem->text);
}

int attachment_open(const struct attachment_options *options, struct attachment **out, int *fd,
                    uint64_t *granted_bytes, struct problem *problem)
{
    struct attachment *a = calloc(1, sizeof *a);
    if (a == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for a source");
    a->options = *options;
    struct problem why;
    bool group = false;
    int error = socket_open_receive(&options->socket, fd, granted_bytes, &a->pending, &why);
    a->fd = error == 0 ? *fd : -1;
    if (error == 0) {
        unsigned index = socket_interface(&options->socket, &group);
        attach(a, index, group);
    } else if (error == ERROR_ABSENT) {
        *fd = -1;
        *granted_bytes = 0;
        enter(a, ATTACHMENT_WAITING);
        wait_for_it(a, &why);
    } else {
        free(a);
        if (problem != NULL)
            *problem = why;
        return error;
    }
    *out = a;
    return 0;
}

/* ---- the worker -------------------------------------------------------------------------- */

static void open_late(struct attachment *a, struct job *job)
{
    job->error =
        socket_open_receive(&a->options.socket, &job->fd, &job->granted_bytes, NULL, &job->problem);
    job->index = job->error == 0 ? socket_interface(&a->options.socket, &job->group) : 0;
}

static void join_again(struct attachment *a, struct job *job)
{
    unsigned before = job->index;
    job->index = socket_interface(&a->options.socket, &job->group);
    job->error = job->index == 0 ? ERROR_ABSENT : 0;
    if (job->error == 0 && job->group)
        job->error = socket_rejoin(job->fd, &a->options.socket, before, job->index, &job->problem);
    close(job->fd);
    job->fd = -1;
}

static void leave(struct attachment *a, struct job *job)
{
    job->error = socket_leave(job->fd, &a->options.socket, job->index, &job->problem);
    close(job->fd);
    job->fd = -1;
}

static void work(void *context)
{
    struct attachment *a = context;
    struct job *job = &a->job;
    switch (job->kind) {
    case JOB_OPEN:
        open_late(a, job);
        break;
    case JOB_JOIN:
        join_again(a, job);
        break;
    case JOB_LEAVE:
        leave(a, job);
        return;
    case JOB_RENEW:
        job->error = 0;
        break;
    }
    if (job->error == 0 && a->options.prepare != NULL)
        a->options.prepare(a->options.context);
}

static void finish_open(struct attachment *a)
{
    struct job *job = &a->job;
    a->figures.attempts++;
    if (job->error != 0) {
        wait_for_it(a, &job->problem);
        return;
    }
    log_notice("stream %s: the network is there after %.1f s: receiving on port %u",
               a->options.socket.stream, seconds_in_state(a), socket_port(job->fd));
    a->fd = job->fd;
    a->figures.problem[0] = '\0';
    attach(a, job->index, job->group);
    if (a->options.attached != NULL)
        a->options.attached(a->options.context, job->fd, job->granted_bytes);
}

static void finish_join(struct attachment *a)
{
    struct job *job = &a->job;
    if (job->error != 0)
        return; /* still gone: the next check tries again */
    const bool away = a->figures.state == ATTACHMENT_AWAY;
    double gone_s = seconds_in_state(a);
    attach(a, job->index, job->group);
    if (job->group)
        handover_joined(a->options.socket.handover, a->fd,
                        a->options.socket.interface != NULL ? job->index : 0);
    a->figures.joins += job->group && !away;
    if (away)
        log_info("stream %s: is in the group again after %.1f s", a->options.socket.stream, gone_s);
    else
        event_raise_limited(&a->back_limit, LOG_INTERVAL_S * NS_PER_SECOND,
                            &(struct event_subject){.kind = EVENT_NETWORK,
                                                    .severity = LOG_LEVEL_NOTICE,
                                                    .stream = a->options.socket.stream},
                            "interface %s is back after %.1f s%s", a->figures.interface, gone_s,
                            job->group ? ": joined the group again" : "");
    if (a->options.attached != NULL)
        a->options.attached(a->options.context, -1, 0);
}

static void finish_close(struct attachment *a)
{
    void (*closed)(void *context) = a->closed;
    void *context = a->closed_context;
    free(a);
    closed(context);
}

static void on_worked(void *context)
{
    struct attachment *a = context;
    a->job.busy = false;
    if (a->stopped) {
        if (a->job.error == 0 && a->job.fd >= 0)
            handover_release(a->options.socket.handover, a->job.fd);
        if (a->timer_gone)
            finish_close(a);
        return;
    }
    switch (a->job.kind) {
    case JOB_OPEN:
        finish_open(a);
        break;
    case JOB_JOIN:
        finish_join(a);
        break;
    case JOB_LEAVE:
        if (a->job.error == 0)
            enter(a, ATTACHMENT_AWAY);
        break;
    case JOB_RENEW:
        a->options.attached(a->options.context, -1, 0);
        break;
    }
}

static void hand_to_worker(struct attachment *a, enum job_kind kind)
{
    a->job.kind = kind;
    a->job.busy = true;
    loop_work_start(&a->job.work, a->loop, work, on_worked, a);
}

static void queue(struct attachment *a)
{
    a->job.fd = -1;
    if (a->fd >= 0 && (a->job.fd = fcntl(a->fd, F_DUPFD_CLOEXEC, 3)) < 0)
        return; /* no descriptor left: the next check tries again */
    a->job.index = a->index;
    hand_to_worker(a, a->fd < 0 ? JOB_OPEN : a->away ? JOB_LEAVE : JOB_JOIN);
}

static void renew_if_stale(struct attachment *a)
{
    if (a->options.stale == NULL || !a->options.stale(a->options.context))
        return;
    a->job.fd = -1;
    hand_to_worker(a, JOB_RENEW);
}

/* ---- the check --------------------------------------------------------------------------- */

/* The number of the interface and whether it has a link; 0: there is no interface of this name. */
static unsigned look_up(const struct attachment *a, bool *link)
{
    struct ifreq request = {0};
    memcpy(request.ifr_name, a->figures.interface, sizeof request.ifr_name);
    if (ioctl(a->fd, SIOCGIFINDEX, &request) != 0)
        return 0;
    unsigned index = (unsigned)request.ifr_ifindex;
    *link = ioctl(a->fd, SIOCGIFFLAGS, &request) == 0 && request.ifr_flags & IFF_UP &&
            request.ifr_flags & IFF_RUNNING;
    return index;
}

static void check(uv_timer_t *timer)
{
    struct attachment *a = timer->data;
    if (a->job.busy)
        return;
    if (a->fd < 0) {
        queue(a);
        return;
    }
    if (a->index == 0) {
        renew_if_stale(a);
        return;
    }
    if (a->figures.group && a->away != (a->figures.state == ATTACHMENT_AWAY)) {
        queue(a);
        return;
    }
    if (a->away)
        return;
    bool link = false;
    unsigned index = look_up(a, &link);
    if (index != a->index) {
        if (a->figures.state != ATTACHMENT_GONE) {
            a->figures.removals++;
            enter(a, ATTACHMENT_GONE);
        }
        queue(a);
        return;
    }
    if (link == (a->figures.state == ATTACHMENT_UP)) {
        renew_if_stale(a);
        return;
    }
    a->figures.downs += !link;
    if (link)
        event_raise_limited(&a->back_limit, LOG_INTERVAL_S * NS_PER_SECOND,
                            &(struct event_subject){.kind = EVENT_NETWORK,
                                                    .severity = LOG_LEVEL_NOTICE,
                                                    .stream = a->options.socket.stream},
                            "the link of %s is up again after %.1f s", a->figures.interface,
                            seconds_in_state(a));
    enter(a, link ? ATTACHMENT_UP : ATTACHMENT_DOWN);
}

/* ---- life -------------------------------------------------------------------------------- */

int attachment_arm(struct attachment *a, struct problem *problem)
{
    return a->fd >= 0 ? socket_bind_pending(a->fd, &a->options.socket, &a->pending, problem) : 0;
}

void attachment_start(struct attachment *a, uv_loop_t *loop)
{
    a->loop = loop;
    a->started = true;
    uv_timer_init(loop, &a->timer);
    a->timer.data = a;
    if (a->fd < 0 || a->index != 0 || a->options.stale != NULL)
        uv_timer_start(&a->timer, check, CHECK_MS, CHECK_MS);
}

void attachment_listen(struct attachment *a, bool listens)
{
    a->away = !listens;
}

void attachment_stop(struct attachment *a)
{
    a->stopped = true;
    a->fd = -1;
    if (a->started)
        uv_timer_stop(&a->timer);
}

static void timer_closed(uv_handle_t *handle)
{
    struct attachment *a = handle->data;
    a->timer_gone = true;
    if (!a->job.busy)
        finish_close(a);
    /* else on_worked does it */
}

void attachment_close(struct attachment *a, void (*closed)(void *context), void *context)
{
    attachment_stop(a);
    if (!a->started) {
        free(a);
        closed(context);
        return;
    }
    uv_close((uv_handle_t *)&a->timer, timer_closed);
    a->closed = closed;
    a->closed_context = context;
}
