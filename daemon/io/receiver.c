/*
 * Receiver: see receiver.h.
 *
 *     kernel queue ── recvmmsg, up to 64 a call ──► slots ──► handler, in order of arrival
 *
 * A slot takes the largest datagram there is. Slots lie an odd number of pages and lines
 * apart, so that the first lines of 64 datagrams do not all fall into the same cache sets;
 * memory behind what was ever received is never touched.
 *
 * Receive times: the kernel stamps with the wall clock. The offset to the monotonic clock is
 * read once per wake-up; should the wall clock have been stepped in between, a stamp would
 * lie in the future or before its predecessor: then the offset of the last wake-up is tried,
 * and at last the time of the wake-up itself is taken. So a step enters no latency.
 */
#include "io/receiver.h"

#include <assert.h>
#include <errno.h>
#include <linux/sock_diag.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "io/handover.h"
#include "io/socket.h"

enum {
    SLOTS = 64,
    DATAGRAM_BYTES = 65536, /* more than UDP can carry */
    SLOT_BYTES = DATAGRAM_BYTES + 4096 + 64,
    WORK_PER_WAKE = 256,
    CROSSING_NS = 500000,
    STEP_NS = 1000000,            /* what a disciplined clock never moves between wake-ups… */
    SLEW_PER_SECOND_NS = 1000000, /* …beyond what slewing does in the meantime */
};

union control {
    struct cmsghdr align;
    uint8_t bytes[CMSG_SPACE(sizeof(struct timespec)) + CMSG_SPACE(sizeof(uint32_t))];
};

struct receiver {
    struct receiver_options options;
    uv_poll_t poll;
    bool polled; /* the handle is the loop's: close through it */
    bool running;
    uint8_t *buffers; /* [SLOTS][SLOT_BYTES], mapped */
    struct mmsghdr messages[SLOTS];
    struct iovec vectors[SLOTS];
    struct sockaddr_storage from[SLOTS];
    union control controls[SLOTS];
    uint32_t overflow; /* SO_RXQ_OVFL as last seen */
    int64_t last_receive_ns;
    int64_t offset_ns, offset_read_ns; /* realtime - monotonic, and when it was read */
    uint64_t clock_steps;
    struct log_limit step_limit, error_limit;
    void (*closed)(void *context);
    void *closed_context;
};

int receiver_open(const struct receiver_options *options, struct receiver **out,
                  struct problem *problem)
{
    struct receiver *r = calloc(1, sizeof *r);
    if (r == NULL)
        goto no_receiver;
    r->buffers = mmap(NULL, (size_t)SLOTS * SLOT_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r->buffers == MAP_FAILED)
        goto no_buffers;
    r->options = *options;
    r->overflow = handover_drops_before(options->fd);
    if (r->options.work_per_wake == 0)
        r->options.work_per_wake = WORK_PER_WAKE;
    for (size_t i = 0; i < SLOTS; i++) {
        r->vectors[i] = (struct iovec){r->buffers + i * SLOT_BYTES, DATAGRAM_BYTES};
        r->messages[i].msg_hdr = (struct msghdr){.msg_name = &r->from[i],
                                                 .msg_iov = &r->vectors[i],
                                                 .msg_iovlen = 1,
                                                 .msg_control = &r->controls[i]};
    }
    *out = r;
    return 0;

no_buffers:
    free(r);
no_receiver:
    handover_close(options->fd);
    return problem_set(problem, ERROR_MEMORY, "no memory for the receive buffers");
}

/* ---- one wake-up ------------------------------------------------------------------------ */

struct stamps {
    bool has_time;
    int64_t realtime_ns;
    bool has_overflow;
    uint32_t overflow;
};

static struct stamps read_stamps(struct msghdr *message)
{
    struct stamps stamps = {0};
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET)
            continue;
        if (c->cmsg_type == SCM_TIMESTAMPNS && c->cmsg_len >= CMSG_LEN(sizeof(struct timespec))) {
            struct timespec time;
            memcpy(&time, CMSG_DATA(c), sizeof time);
            stamps.has_time = true;
            stamps.realtime_ns = (int64_t)time.tv_sec * NS_PER_SECOND + time.tv_nsec;
        } else if (c->cmsg_type == SO_RXQ_OVFL && c->cmsg_len >= CMSG_LEN(sizeof(uint32_t))) {
            stamps.has_overflow = true;
            memcpy(&stamps.overflow, CMSG_DATA(c), sizeof stamps.overflow);
        }
    }
    return stamps;
}

static int64_t monotonic_of(struct receiver *r, const struct stamps *stamps, int64_t now_ns,
                            int64_t offset_ns)
{
    const int64_t candidates[] = {offset_ns, r->offset_ns};
    for (int i = 0; i < 2 && stamps->has_time; i++) {
        int64_t ns = stamps->realtime_ns - candidates[i];
        /* Stamps of several receive queues cross a little; order within that is kept below. */
        if (ns <= now_ns + CROSSING_NS && ns >= r->last_receive_ns - CROSSING_NS) {
            ns = ns > now_ns ? now_ns : ns;
            return r->last_receive_ns = ns > r->last_receive_ns ? ns : r->last_receive_ns;
        }
    }
    return r->last_receive_ns = now_ns;
}

static void watch_wall_clock(struct receiver *r, int64_t now_ns, int64_t offset_ns)
{
    int64_t moved_ns = offset_ns - r->offset_ns;
    double allowed_ns =
        STEP_NS + (double)(now_ns - r->offset_read_ns) / NS_PER_SECOND * SLEW_PER_SECOND_NS;
    if (moved_ns > allowed_ns || moved_ns < -allowed_ns) {
        r->clock_steps++;
        log_limited(&r->step_limit, 10 * NS_PER_SECOND, LOG_LEVEL_NOTICE,
                    "stream %s: the wall clock was set %+.6f s; capture times follow it, latencies "
                    "do not",
                    r->options.stream, (double)moved_ns / NS_PER_SECOND);
    }
}

static void hand_over(struct receiver *r, size_t slot, int64_t now_ns, int64_t offset_ns)
{
    struct mmsghdr *message = &r->messages[slot];
    struct stamps stamps = read_stamps(&message->msg_hdr);
    if (stamps.has_overflow && stamps.overflow != r->overflow) {
        uint32_t more = stamps.overflow - r->overflow; /* the counter has 32 bits */
        r->overflow = stamps.overflow;
        r->options.drops(r->options.context, more);
    }
    int64_t receive_ns = monotonic_of(r, &stamps, now_ns, offset_ns);
    struct received received = {
        .data = r->vectors[slot].iov_base,
        .bytes = message->msg_len,
        .truncated = message->msg_hdr.msg_flags & MSG_TRUNC,
        .from = &r->from[slot],
        .receive_ns = receive_ns,
        .receive_realtime_ns = stamps.has_time ? stamps.realtime_ns : receive_ns + offset_ns,
    };
    r->options.datagram(r->options.context, &received);
}

/* One call of recvmmsg for at most `most` datagrams. Returns how many came. */
static unsigned read_batch(struct receiver *r, unsigned most, int64_t offset_ns)
{
    unsigned asked = most < SLOTS ? most : SLOTS;
    for (unsigned i = 0; i < asked; i++) {
        r->messages[i].msg_hdr.msg_namelen = sizeof r->from[i];
        r->messages[i].msg_hdr.msg_controllen = sizeof r->controls[i];
    }
    int got = recvmmsg(r->options.fd, r->messages, asked, MSG_DONTWAIT, NULL);
    if (got < 0) {
        if (errno != EAGAIN && errno != EINTR)
            log_limited(&r->error_limit, 10 * NS_PER_SECOND, LOG_LEVEL_WARNING,
                        "stream %s: receiving failed: %s", r->options.stream, strerror(errno));
        return 0;
    }
    int64_t now_ns = clock_monotonic_ns(); /* some may have come since the wake-up */
    for (int i = 0; i < got && r->running; i++)
        hand_over(r, (size_t)i, now_ns, offset_ns);
    return (unsigned)got;
}

/* Reads up to `most` datagrams, as one wake-up. */
static unsigned read_wake(struct receiver *r, uint32_t most)
{
    int64_t offset_ns = clock_offset_ns(), now_ns = clock_monotonic_ns();
    watch_wall_clock(r, now_ns, offset_ns);
    uint32_t left = most;
    while (left > 0 && r->running) {
        unsigned got = read_batch(r, left, offset_ns);
        left -= got;
        if (got < SLOTS)
            break;
    }
    r->offset_ns = offset_ns;
    r->offset_read_ns = now_ns;
    return most - left;
}

static void wake(uv_poll_t *poll, int status, int events)
{
    struct receiver *r = poll->data;
    (void)status, (void)events; /* an error shows in recvmmsg, which also clears it */
    read_wake(r, r->options.work_per_wake);
}

unsigned receiver_read_more(struct receiver *r, uint32_t most)
{
    return r->running ? read_wake(r, most) : 0;
}

/* ---- start and stop --------------------------------------------------------------------- */

int receiver_start(struct receiver *r, uv_loop_t *loop, struct problem *problem)
{
    assert(!r->running);
    int failed = r->polled ? 0 : uv_poll_init(loop, &r->poll, r->options.fd);
    if (failed == 0) {
        r->polled = true;
        r->poll.data = r;
        r->offset_ns = clock_offset_ns();
        r->offset_read_ns = clock_monotonic_ns();
        failed = uv_poll_start(&r->poll, UV_READABLE, wake);
    }
    if (failed != 0)
        return problem_set(problem, ERROR_SYSTEM, "the socket cannot be watched: %s",
                           uv_strerror(failed));
    r->running = true;
    return 0;
}

void receiver_stop(struct receiver *r)
{
    if (r->running)
        uv_poll_stop(&r->poll);
    r->running = false;
}

static void release(struct receiver *r)
{
    void (*closed)(void *) = r->closed;
    void *context = r->closed_context;
    handover_close(r->options.fd);
    munmap(r->buffers, (size_t)SLOTS * SLOT_BYTES);
    free(r);
    if (closed != NULL)
        closed(context);
}

static void poll_closed(uv_handle_t *handle)
{
    release(handle->data);
}

void receiver_close(struct receiver *r, void (*closed)(void *context), void *context)
{
    r->closed = closed;
    r->closed_context = context;
    receiver_stop(r);
    if (r->polled)
        uv_close((uv_handle_t *)&r->poll, poll_closed);
    else
        release(r);
}

uint64_t receiver_untold_drops(const struct receiver *r)
{
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    socklen_t bytes = sizeof memory;
    if (getsockopt(r->options.fd, SOL_SOCKET, SO_MEMINFO, memory, &bytes) != 0 ||
        bytes < (SK_MEMINFO_DROPS + 1) * sizeof memory[0])
        return 0;
    return (uint32_t)(memory[SK_MEMINFO_DROPS] - r->overflow);
}

uint64_t receiver_clock_steps(const struct receiver *r)
{
    return r->clock_steps;
}

uint16_t receiver_port(const struct receiver *r)
{
    return socket_port(r->options.fd);
}
