/*
 * Receiver: see receiver.h.
 *
 *     kernel queue ── recvmmsg, up to 64 a call ──► slots ──► handler, in order of arrival
 *
 * A slot takes the largest datagram or train there is. Slots lie an odd number of pages and lines
 * apart, so that the first lines of 64 datagrams do not all fall into the same cache sets;
 * memory behind what was ever received is never touched.
 *
 * Datagram by datagram, with guesses: a message has three pieces, so that a payload of the guessed
 * size lands at its place and anything longer behind its header again:
 *
 *     slot   | header | (room for the payload) | rest … |
 *     ring            └──►| payload |
 *
 * From the first guess of a call that does not come true on, all payloads are copied into that room
 * before any datagram is handed over: a later one may lie where an earlier one belongs.
 *
 * In trains (UDP_GRO) a slot holds header, payload, header, payload …; the kernel tells the size
 * of the pieces. A train that was queued before UDP_GRO was switched off comes without that: until
 * the queue has been empty once it is cut like the train before it.
 *
 * Receive times: the kernel stamps with the wall clock. The offset to the monotonic clock is
 * read once per wake-up; should the wall clock have been stepped in between, a stamp would
 * lie in the future or before its predecessor: then the offset of the last wake-up is tried,
 * and at last the time of the wake-up itself is taken. So a step enters no latency. A train has
 * one stamp, of the time at which it was complete.
 */
#include "io/net/receiver.h"

#include <assert.h>
#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "io/net/handover.h"
#include "io/net/socket.h"

enum {
    SLOTS = 64,
    DATAGRAM_BYTES = 65536, /* more than UDP can carry */
    SLOT_BYTES = DATAGRAM_BYTES + 4096 + 64,
    WORK_PER_WAKE = 256,
    PIECES = 3,           /* of a message with a guess */
    TRAIN_DATAGRAMS = 64, /* of a train nothing is known of: UDP_MAX_SEGMENTS */
    TRAINS = 4,           /* a call: their slots stay in the cache */
    GUESS_PAUSE = 16,     /* calls without guesses after one whose first was wrong */
    CROSSING_NS = 500000,
    STEP_NS = 1000000,            /* what a disciplined clock never moves between wake-ups… */
    SLEW_PER_SECOND_NS = 1000000, /* …beyond what slewing does in the meantime */
};

union control {
    struct cmsghdr align;
    uint8_t bytes[CMSG_SPACE(sizeof(struct timespec)) + CMSG_SPACE(sizeof(uint32_t)) +
                  CMSG_SPACE(sizeof(int))];
};

struct stamps {
    bool has_time;
    int64_t realtime_ns;
    bool has_overflow;
    uint32_t overflow;
    size_t piece_bytes; /* UDP_GRO; 0: one datagram */
};

/* Messages that were read and are not yet handed over to the end. */
struct read_messages {
    unsigned next, count;
    unsigned right; /* guesses that came true */
    bool begun;     /* message `next` has lost its first `offset` bytes */
    size_t offset;
    struct received train; /* begun: what its pieces share */
    size_t piece_bytes;
    int64_t now_ns, offset_ns;
};

struct receiver {
    struct receiver_options options;
    uv_poll_t poll;
    bool polled; /* the handle is the loop's: close through it */
    bool running;
    uint8_t *buffers; /* [SLOTS][SLOT_BYTES], mapped */
    struct mmsghdr messages[SLOTS];
    struct iovec vectors[SLOTS][PIECES];
    struct receive_guess guesses[SLOTS];
    struct sockaddr_storage from[SLOTS];
    union control controls[SLOTS];
    struct read_messages read;
    struct receive_trial trial;
    struct receive_figures figures;
    bool gro;                 /* UDP_GRO is on */
    bool stale;               /* it was, and the queue may still hold trains */
    size_t last_piece_bytes;  /* of the newest train */
    uint32_t train_datagrams; /* of the longest train of the last call */
    unsigned guess_pause;     /* calls */
    uint32_t overflow;        /* SO_RXQ_OVFL as last seen */
    int64_t last_receive_ns;
    int64_t switched_ns;               /* to the path in use */
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
    r->overflow = handover_drops_before(options->handover, options->fd);
    if (r->options.work_per_wake == 0)
        r->options.work_per_wake = WORK_PER_WAKE;
    for (size_t i = 0; i < SLOTS; i++) {
        r->messages[i].msg_hdr = (struct msghdr){
            .msg_name = &r->from[i], .msg_iov = r->vectors[i], .msg_control = &r->controls[i]};
    }
    r->train_datagrams = TRAIN_DATAGRAMS;
    receive_trial_reset(&r->trial, options->wish);
    *out = r;
    return 0;

no_buffers:
    free(r);
no_receiver:
    handover_release(options->handover, options->fd);
    return problem_set(problem, ERROR_MEMORY, "no memory for the receive buffers");
}

/* ---- one wake-up ------------------------------------------------------------------------- */

static struct stamps read_stamps(struct msghdr *message)
{
    struct stamps stamps = {0};
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO &&
            c->cmsg_len >= CMSG_LEN(sizeof(int))) {
            int bytes;
            memcpy(&bytes, CMSG_DATA(c), sizeof bytes);
            stamps.piece_bytes = bytes > 0 ? (size_t)bytes : 0;
        }
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

static uint8_t *slot_of(const struct receiver *r, unsigned slot)
{
    return r->buffers + slot * SLOT_BYTES;
}

/* What all of a message has in common: sender, times, drops before it. */
static void begin_message(struct receiver *r, unsigned slot)
{
    struct read_messages *read = &r->read;
    struct mmsghdr *message = &r->messages[slot];
    struct stamps stamps = read_stamps(&message->msg_hdr);
    if (stamps.has_overflow && stamps.overflow != r->overflow) {
        uint32_t more = stamps.overflow - r->overflow; /* the counter has 32 bits */
        r->overflow = stamps.overflow;
        if ((r->gro || r->stale) && r->options.train_drops != NULL)
            r->options.train_drops(r->options.context, more);
        else
            r->options.drops(r->options.context, more);
    }
    int64_t receive_ns = monotonic_of(r, &stamps, read->now_ns, read->offset_ns);
    read->train = (struct received){
        .truncated = message->msg_hdr.msg_flags & MSG_TRUNC,
        .from = &r->from[slot],
        .receive_ns = receive_ns,
        .receive_realtime_ns = stamps.has_time ? stamps.realtime_ns : receive_ns + read->offset_ns,
    };
    if (stamps.piece_bytes == 0 && r->stale)
        stamps.piece_bytes = r->last_piece_bytes;
    read->piece_bytes = stamps.piece_bytes;
    read->train.in_train = stamps.piece_bytes > 0 && message->msg_len > stamps.piece_bytes;
    if (read->train.in_train) {
        uint32_t datagrams =
            (uint32_t)((message->msg_len + read->piece_bytes - 1) / read->piece_bytes);
        r->last_piece_bytes = read->piece_bytes;
        r->train_datagrams = datagrams > r->train_datagrams ? datagrams : r->train_datagrams;
    }
    read->begun = true;
    read->offset = 0;
    r->figures.messages++;
    r->figures.trains += read->train.in_train;
}

/* Hands over the next datagram of what was read. */
static void hand_over_next(struct receiver *r)
{
    struct read_messages *read = &r->read;
    unsigned slot = read->next;
    if (!read->begun)
        begin_message(r, slot);
    size_t total = r->messages[slot].msg_len;
    struct received received = read->train;
    received.data = slot_of(r, slot) + read->offset;
    received.payload = slot < read->right ? r->guesses[slot].payload : NULL;
    received.bytes = total;
    if (received.in_train) {
        size_t left = total - read->offset;
        received.bytes = left < read->piece_bytes ? left : read->piece_bytes;
        received.train_bytes = left - received.bytes;
        received.train_datagrams =
            (uint32_t)((received.train_bytes + read->piece_bytes - 1) / read->piece_bytes);
        received.truncated = received.truncated && received.train_bytes == 0;
    }
    read->offset += received.bytes;
    if (read->offset >= total) { /* before the handler runs: it may stop the receiver */
        read->next++;
        read->begun = false;
    }
    r->options.datagram(r->options.context, &received);
}

/* ---- guesses ----------------------------------------------------------------------------- */

/* Makes the vectors of `asked` messages; returns how many of them have a guess. */
static unsigned aim(struct receiver *r, unsigned asked)
{
    unsigned guessed = 0;
    bool wanted = r->options.guess != NULL && !r->gro && !r->stale;
    if (wanted && r->guess_pause > 0)
        r->guess_pause--;
    else if (wanted)
        guessed = r->options.guess(r->options.context, r->guesses, asked);
    for (unsigned i = 0; i < asked; i++) {
        struct msghdr *message = &r->messages[i].msg_hdr;
        struct iovec *vectors = r->vectors[i];
        message->msg_namelen = sizeof r->from[i];
        message->msg_controllen = sizeof r->controls[i];
        message->msg_iovlen = i < guessed ? PIECES : 1;
        vectors[0] = (struct iovec){slot_of(r, i), DATAGRAM_BYTES};
        if (i < guessed) {
            const struct receive_guess *guess = &r->guesses[i];
            size_t before = guess->header_bytes + guess->payload_bytes;
            assert(before < DATAGRAM_BYTES);
            vectors[0].iov_len = guess->header_bytes;
            vectors[1] = (struct iovec){guess->payload, guess->payload_bytes};
            vectors[2] = (struct iovec){slot_of(r, i) + before, DATAGRAM_BYTES - before};
        }
    }
    return guessed;
}

/* Whether message `slot` is what was guessed. Drops before it leave doubt: then it is not. */
static bool came_true(struct receiver *r, unsigned slot)
{
    struct mmsghdr *message = &r->messages[slot];
    const struct receive_guess *guess = &r->guesses[slot];
    if (message->msg_len != guess->header_bytes + guess->payload_bytes)
        return false;
    struct stamps stamps = read_stamps(&message->msg_hdr);
    if (stamps.has_overflow && stamps.overflow != r->overflow)
        return false;
    struct received received = {.data = slot_of(r, slot),
                                .bytes = message->msg_len,
                                .payload = guess->payload,
                                .from = &r->from[slot]};
    return r->options.came_true(r->options.context, guess, slot, &received);
}

static void judge_guesses(struct receiver *r, unsigned guessed)
{
    struct read_messages *read = &r->read;
    unsigned most = guessed < read->count ? guessed : read->count;
    while (read->right < most && came_true(r, read->right))
        read->right++;
    for (unsigned i = read->right; i < most; i++) {
        const struct receive_guess *guess = &r->guesses[i];
        size_t bytes = r->messages[i].msg_len;
        if (bytes <= guess->header_bytes)
            continue;
        bytes -= guess->header_bytes;
        memcpy(slot_of(r, i) + guess->header_bytes, guess->payload,
               bytes < guess->payload_bytes ? bytes : guess->payload_bytes);
    }
    if (most > 0 && read->right == 0)
        r->guess_pause = GUESS_PAUSE;
    r->figures.guesses_right += read->right;
    r->figures.guesses_wrong += most - read->right;
}

/* ---- reading ----------------------------------------------------------------------------- */

/* One call of recvmmsg for about `most` datagrams. False when the queue has been emptied. */
static bool read_messages(struct receiver *r, uint32_t most, int64_t offset_ns)
{
    unsigned asked = most < SLOTS ? most : SLOTS;
    if (r->gro || r->stale) {
        asked = (most + r->train_datagrams - 1) / r->train_datagrams;
        asked = asked < TRAINS ? asked : TRAINS;
        r->train_datagrams = 1; /* begin_message looks for the longest of this call */
    }
    unsigned guessed = aim(r, asked);
    int got = recvmmsg(r->options.fd, r->messages, asked, MSG_DONTWAIT, NULL);
    if (got < 0) {
        if (errno != EAGAIN && errno != EINTR)
            log_limited(&r->error_limit, 10 * NS_PER_SECOND, LOG_LEVEL_WARNING,
                        "stream %s: receiving failed: %s", r->options.stream, strerror(errno));
        got = 0;
    }
    /* Some may have come since the wake-up. */
    r->read = (struct read_messages){
        .count = (unsigned)got, .now_ns = clock_monotonic_ns(), .offset_ns = offset_ns};
    judge_guesses(r, guessed);
    return got == (int)asked;
}

/* Reads up to `most` datagrams, as one wake-up; `strict`: a train is left where that is reached. */
static uint32_t read_wake(struct receiver *r, uint32_t most, bool strict)
{
    int64_t offset_ns = clock_offset_ns(), now_ns = clock_monotonic_ns();
    watch_wall_clock(r, now_ns, offset_ns);
    uint32_t done = 0;
    struct read_messages *read = &r->read;
    bool more = true;
    for (;;) {
        for (; r->running && read->next < read->count && (done < most || !strict); done++)
            hand_over_next(r);
        if (!more && read->next == read->count)
            r->stale = false; /* what was queued while it was on has been handed over */
        if (!more || !r->running || done >= most)
            break;
        more = read_messages(r, most - done, offset_ns);
    }
    r->offset_ns = offset_ns;
    r->offset_read_ns = now_ns;
    return done;
}

/* ---- the path ---------------------------------------------------------------------------- */

static void use_path(struct receiver *r)
{
    int on = r->trial.path == RECEIVE_GRO;
    if (r->gro == (bool)on || (on && r->options.train_drops == NULL))
        return;
    if (setsockopt(r->options.fd, SOL_UDP, UDP_GRO, &on, sizeof on) != 0) {
        log_notice("stream %s: this kernel hands over no trains (UDP_GRO: %s): receive = recvmmsg",
                   r->options.stream, strerror(errno));
        receive_trial_refuse(&r->trial);
        return;
    }
    r->stale = r->gro;
    r->gro = on;
    r->switched_ns = clock_monotonic_ns();
}

static int64_t thread_cpu_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (int64_t)time.tv_sec * NS_PER_SECOND + time.tv_nsec;
}

static void say_verdict(const struct receiver *r, enum receive_path before)
{
    const struct receive_trial *trial = &r->trial;
    if (trial->home == before && trial->trials > 1)
        return;
    log_info("stream %s: receive path: %s (CPU time for a datagram: recvmmsg %.0f ns, gro %.0f ns)",
             r->options.stream, receive_path_name(trial->home), trial->cost_ns[RECEIVE_RECVMMSG],
             trial->cost_ns[RECEIVE_GRO]);
}

static void wake(uv_poll_t *poll, int status, int events)
{
    struct receiver *r = poll->data;
    (void)status, (void)events; /* an error shows in recvmmsg, which also clears it */
    enum receive_path before = r->trial.home;
    bool measuring = r->trial.measuring;
    int64_t begun_ns = measuring ? thread_cpu_ns() : 0;
    uint32_t datagrams = read_wake(r, r->options.work_per_wake, false);
    int64_t cpu_ns = measuring ? thread_cpu_ns() - begun_ns : 0;
    if (!r->running)
        return;
    const bool settled = r->last_receive_ns >= r->switched_ns;
    if (receive_trial_note(&r->trial, r->read.now_ns, datagrams, cpu_ns, settled))
        say_verdict(r, before);
    use_path(r);
}

unsigned receiver_read_more(struct receiver *r, uint32_t most)
{
    return r->running ? read_wake(r, most, true) : 0;
}

void receiver_figures(const struct receiver *r, struct receive_figures *figures)
{
    *figures = r->figures;
    figures->wish = r->options.wish;
    figures->path = r->gro ? RECEIVE_GRO : RECEIVE_RECVMMSG;
    figures->trials = r->trial.trials;
    memcpy(figures->cost_ns, r->trial.cost_ns, sizeof figures->cost_ns);
}

/* ---- start and stop ---------------------------------------------------------------------- */

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
    /* The stream that had this socket before may have read trains. */
    int on = 0;
    socklen_t bytes = sizeof on;
    r->gro = getsockopt(r->options.fd, SOL_UDP, UDP_GRO, &on, &bytes) == 0 && on != 0;
    use_path(r);
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
    handover_release(r->options.handover, r->options.fd);
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
