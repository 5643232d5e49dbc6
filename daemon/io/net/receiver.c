/*
 * Receiver: see receiver.h.
 *
 *     kernel queue ── recvmmsg, up to 64 messages ──► buffers ──► handler, in order of arrival
 *
 * A buffer holds the largest datagram or GRO batch there is. Buffers lie an odd number of pages and
 * cache lines apart, so that the first lines of 64 datagrams fall into different cache sets. Memory
 * that no datagram ever reached is never touched.
 *
 * Datagram by datagram, with predictions: the message gets three parts, so that a payload of the
 * predicted size lands in its slot and anything longer behind its header again:
 *
 *     buffer | header | (room for the payload) | rest … |
 *     ring            └──►| payload |
 *
 * After the first misprediction in a recvmmsg call, the receiver copies every remaining payload
 * from its slot into that room before it delivers any datagram: a later payload may lie in the slot
 * of an earlier one.
 *
 * In GRO batches a buffer holds header, payload, header, payload …; the kernel reports the size of
 * the segments, but only while UDP_GRO is on. Batches queued before it went off would come uncut:
 * until the queue has been empty once, the receiver switches it on for each call of recvmmsg, and a
 * receiver that stops before that leaves it on for whoever reads on.
 *
 * Receive times: the kernel stamps with the wall clock. The receiver reads the offset to the
 * monotonic clock once per wake-up. When the wall clock was stepped in between, a stamp would lie
 * in the future or before its predecessor: then the receiver tries the offset of the last wake-up,
 * and at last takes the time of the wake-up itself. So a step enters no latency. A GRO batch has
 * one stamp, of the time at which it was complete.
 */
#include "io/net/receiver.h"

#include <assert.h>
#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/event.h"
#include "core/log.h"
#include "io/net/handover.h"
#include "io/net/receive_stamps.h"
#include "io/net/receive_trial.h"
#include "io/net/socket.h"

enum {
    MESSAGES = 64,          /* of one call */
    DATAGRAM_BYTES = 65536, /* more than UDP can carry */
    BUFFER_BYTES = DATAGRAM_BYTES + 4096 + 64,
    WORK_PER_WAKE = 256,
    READ_IN_HASTE = 16, /* datagrams of one call where the time is limited */
    PARTS = 3,          /* of a message with a prediction */
    SEGMENTS_MAX = 64,  /* of a GRO batch: UDP_MAX_SEGMENTS; assumed until one is seen */
    BATCHES = 4,        /* of one call: their buffers stay in the cache */
    PREDICT_PAUSE = 16, /* calls without predictions after one whose first was a miss */
    CROSSING_NS = 500000,
    STEP_NS = 1000000,            /* what a disciplined clock never moves between wake-ups… */
    SLEW_PER_SECOND_NS = 1000000, /* …beyond what slewing does in the meantime */
};

/* The messages of one recvmmsg call that are not delivered yet. */
struct read_messages {
    unsigned next, count;
    unsigned hits;         /* the first `hits` messages were predicted right */
    bool emptied;          /* draining: nothing was queued behind them */
    bool begun;            /* `offset` bytes of message `next` are delivered */
    size_t offset;         /* of its next segment */
    struct received batch; /* begun: what its segments share */
    size_t segment_bytes;
    int64_t now_ns, offset_ns; /* realtime - monotonic */
};

struct receiver {
    struct receiver_options options;
    uv_poll_t poll;
    bool polled; /* the handle is the loop's: close through it */
    bool begun;  /* `overflow` is known: it has been started, or has taken over a count */
    bool running;
    uint8_t *buffers; /* [MESSAGES][BUFFER_BYTES], mapped */
    struct mmsghdr messages[MESSAGES];
    struct iovec vectors[MESSAGES][PARTS];
    struct receive_prediction predictions[MESSAGES];
    struct sockaddr_storage from[MESSAGES];
    union receive_control controls[MESSAGES];
    struct read_messages read;
    struct receive_trial trial;
    struct receive_figures figures;
    bool gro;               /* UDP_GRO is on */
    bool draining;          /* it was on, and the queue may still hold GRO batches */
    uint32_t longest_batch; /* datagrams of the longest GRO batch of the last call */
    unsigned predict_pause; /* calls still to come without predictions */
    uint32_t overflow;      /* SO_RXQ_OVFL as last seen */
    bool passed_on;         /* another receiver counts further drops */
    int64_t last_receive_ns;
    int64_t switched_ns;               /* when the path in use began */
    int64_t offset_ns, offset_read_ns; /* realtime - monotonic, and when it was read */
    uint64_t clock_steps;
    struct log_limit step_limit, error_limit;
    void (*closed)(void *context);
    void *closed_context;
};

void receiver_set_work(struct receiver *r, uint32_t work_per_wake)
{
    r->options.work_per_wake = work_per_wake > 0 ? work_per_wake : WORK_PER_WAKE;
}

int receiver_open(const struct receiver_options *options, struct receiver **out,
                  struct problem *problem)
{
    struct receiver *r = calloc(1, sizeof *r);
    if (r == NULL)
        goto no_receiver;
    r->buffers = mmap(NULL, (size_t)MESSAGES * BUFFER_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r->buffers == MAP_FAILED)
        goto no_buffers;
    r->options = *options;
    receiver_set_work(r, options->work_per_wake);
    for (size_t i = 0; i < MESSAGES; i++) {
        r->messages[i].msg_hdr = (struct msghdr){
            .msg_name = &r->from[i], .msg_iov = r->vectors[i], .msg_control = &r->controls[i]};
    }
    r->longest_batch = SEGMENTS_MAX;
    receive_trial_reset(&r->trial, options->requested);
    *out = r;
    return 0;

no_buffers:
    free(r);
no_receiver:
    handover_release(options->handover, options->fd);
    return problem_set(problem, ERROR_MEMORY, "no memory for the receive buffers");
}

/* ---- one wake-up ------------------------------------------------------------------------- */

static int64_t monotonic_of(struct receiver *r, const struct receive_stamps *stamps, int64_t now_ns,
                            int64_t offset_ns)
{
    const int64_t candidates[] = {offset_ns, r->offset_ns};
    for (int i = 0; i < 2 && stamps->has_time; i++) {
        int64_t ns = stamps->realtime_ns - candidates[i];
        /* Stamps of several receive queues cross a little; the line below keeps them in order. */
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
        event_raise_limited(&r->step_limit, 10 * NS_PER_SECOND,
                            &(struct event_subject){.kind = EVENT_CLOCK_STEP,
                                                    .severity = LOG_LEVEL_NOTICE,
                                                    .stream = r->options.stream},
                            "the wall clock was set %+.6f s; capture times follow it, latencies do "
                            "not",
                            (double)moved_ns / NS_PER_SECOND);
    }
}

static uint8_t *buffer_of(const struct receiver *r, unsigned index)
{
    return r->buffers + index * BUFFER_BYTES;
}

/* Reads what all segments of a message share: sender, times, drops before it. */
static void begin_message(struct receiver *r, unsigned index)
{
    struct read_messages *read = &r->read;
    struct mmsghdr *message = &r->messages[index];
    struct receive_stamps stamps = receive_stamps_read(&message->msg_hdr, message->msg_len);
    if (stamps.has_overflow && stamps.overflow != r->overflow) {
        uint32_t more = stamps.overflow - r->overflow; /* the counter has 32 bits */
        r->overflow = stamps.overflow;
        if ((r->gro || r->draining) && r->options.batch_drops != NULL)
            r->options.batch_drops(r->options.context, more);
        else
            r->options.drops(r->options.context, more);
    }
    int64_t receive_ns = monotonic_of(r, &stamps, read->now_ns, read->offset_ns);
    read->batch = (struct received){
        .truncated = message->msg_hdr.msg_flags & MSG_TRUNC,
        .from = &r->from[index],
        .receive_ns = receive_ns,
        .receive_realtime_ns = stamps.has_time ? stamps.realtime_ns : receive_ns + read->offset_ns,
    };
    read->segment_bytes = stamps.segment_bytes;
    read->batch.in_batch = stamps.in_batch;
    if (read->batch.in_batch) {
        uint32_t datagrams =
            (uint32_t)((message->msg_len + read->segment_bytes - 1) / read->segment_bytes);
        r->longest_batch = datagrams > r->longest_batch ? datagrams : r->longest_batch;
    }
    read->begun = true;
    read->offset = 0;
    r->figures.messages++;
    r->figures.batches += read->batch.in_batch;
}

/* Delivers the next datagram of what was read. */
static void deliver_next(struct receiver *r)
{
    struct read_messages *read = &r->read;
    unsigned index = read->next;
    if (!read->begun)
        begin_message(r, index);
    size_t total = r->messages[index].msg_len;
    struct received received = read->batch;
    received.data = buffer_of(r, index) + read->offset;
    received.payload = index < read->hits ? r->predictions[index].payload : NULL;
    received.bytes = total;
    if (received.in_batch) {
        size_t left = total - read->offset;
        received.bytes = left < read->segment_bytes ? left : read->segment_bytes;
        received.behind_bytes = left - received.bytes;
        received.behind_datagrams =
            (uint32_t)((received.behind_bytes + read->segment_bytes - 1) / read->segment_bytes);
        received.truncated = received.truncated && received.behind_bytes == 0;
    }
    read->offset += received.bytes;
    if (read->offset >= total) { /* before the handler runs: it may stop the receiver */
        read->next++;
        read->begun = false;
    }
    r->options.datagram(r->options.context, &received);
}

/* ---- predictions ------------------------------------------------------------------------- */

/* Makes the vectors of `asked` messages; returns how many of them have a prediction. */
static unsigned prepare_messages(struct receiver *r, unsigned asked)
{
    unsigned predicted = 0;
    bool wanted = r->options.predict != NULL && !r->gro && !r->draining;
    if (wanted && r->predict_pause > 0)
        r->predict_pause--;
    else if (wanted)
        predicted = r->options.predict(r->options.context, r->predictions, asked);
    for (unsigned i = 0; i < asked; i++) {
        struct msghdr *message = &r->messages[i].msg_hdr;
        struct iovec *vectors = r->vectors[i];
        message->msg_namelen = sizeof r->from[i];
        message->msg_controllen = sizeof r->controls[i];
        message->msg_iovlen = i < predicted ? PARTS : 1;
        vectors[0] = (struct iovec){buffer_of(r, i), DATAGRAM_BYTES};
        if (i < predicted) {
            const struct receive_prediction *prediction = &r->predictions[i];
            size_t before = prediction->header_bytes + prediction->payload_bytes;
            assert(before < DATAGRAM_BYTES);
            vectors[0].iov_len = prediction->header_bytes;
            vectors[1] = (struct iovec){prediction->payload, prediction->payload_bytes};
            vectors[2] = (struct iovec){buffer_of(r, i) + before, DATAGRAM_BYTES - before};
        }
    }
    return predicted;
}

/* Whether message `index` is the datagram that was predicted. After drops that is in doubt, so it
 * counts as a miss; so does a GRO batch, whatever its size. */
static bool is_hit(struct receiver *r, unsigned index)
{
    struct mmsghdr *message = &r->messages[index];
    const struct receive_prediction *prediction = &r->predictions[index];
    if (message->msg_len != prediction->header_bytes + prediction->payload_bytes)
        return false;
    struct receive_stamps stamps = receive_stamps_read(&message->msg_hdr, message->msg_len);
    if (stamps.in_batch || (stamps.has_overflow && stamps.overflow != r->overflow))
        return false;
    struct received received = {.data = buffer_of(r, index),
                                .bytes = message->msg_len,
                                .payload = prediction->payload,
                                .from = &r->from[index]};
    return r->options.hit(r->options.context, prediction, index, &received);
}

static void check_predictions(struct receiver *r, unsigned predicted)
{
    struct read_messages *read = &r->read;
    unsigned most = predicted < read->count ? predicted : read->count;
    while (read->hits < most && is_hit(r, read->hits))
        read->hits++;
    for (unsigned i = read->hits; i < most; i++) {
        const struct receive_prediction *prediction = &r->predictions[i];
        size_t bytes = r->messages[i].msg_len;
        if (bytes <= prediction->header_bytes)
            continue;
        bytes -= prediction->header_bytes;
        memcpy(buffer_of(r, i) + prediction->header_bytes, prediction->payload,
               bytes < prediction->payload_bytes ? bytes : prediction->payload_bytes);
    }
    if (most > 0 && read->hits == 0)
        r->predict_pause = PREDICT_PAUSE;
    r->figures.prediction_hits += read->hits;
    r->figures.prediction_misses += most - read->hits;
}

/* ---- reading ----------------------------------------------------------------------------- */

/* Returns 0 or -1 with errno. */
static int set_gro(const struct receiver *r, bool on)
{
    const int value = on;
    return setsockopt(r->options.fd, SOL_UDP, UDP_GRO, &value, sizeof value);
}

/* Whether the socket has something to read, be it an empty datagram. */
static bool is_readable(const struct receiver *r)
{
    struct pollfd asked = {.fd = r->options.fd, .events = POLLIN};
    return poll(&asked, 1, 0) > 0;
}

/* One call of recvmmsg for about `most` datagrams. False when the queue has been emptied. */
static bool read_messages(struct receiver *r, uint32_t most, int64_t offset_ns)
{
    unsigned asked = most < MESSAGES ? most : MESSAGES;
    if (r->gro || r->draining) {
        asked = (most + r->longest_batch - 1) / r->longest_batch;
        asked = asked < BATCHES ? asked : BATCHES;
        r->longest_batch = 1; /* begin_message finds the longest of this call */
    }
    unsigned predicted = prepare_messages(r, asked);
    if (r->draining)
        set_gro(r, true);
    int got = recvmmsg(r->options.fd, r->messages, asked, MSG_DONTWAIT, NULL);
    if (got < 0) {
        if (errno != EAGAIN && errno != EINTR)
            log_limited(&r->error_limit, 10 * NS_PER_SECOND, LOG_LEVEL_WARNING,
                        "stream %s: receiving failed: %s", r->options.stream, strerror(errno));
        got = 0;
    }
    /* Read again: some datagrams may have arrived since the wake-up. */
    r->read = (struct read_messages){
        .count = (unsigned)got, .now_ns = clock_monotonic_ns(), .offset_ns = offset_ns};
    check_predictions(r, predicted);
    if (r->draining) {
        set_gro(r, false);
        r->read.emptied = !is_readable(r); /* a batch may have come until now */
    }
    return got == (int)asked;
}

/* Reads and delivers up to `most` datagrams as one wake-up, and nothing more after `may_ns`.
 * `strict`: stops at `most` even inside a GRO batch; else delivers the batch to its end. */
static uint32_t read_wake(struct receiver *r, uint32_t most, int64_t may_ns, bool strict)
{
    int64_t offset_ns = clock_offset_ns(), now_ns = clock_monotonic_ns();
    watch_wall_clock(r, now_ns, offset_ns);
    const bool limited = may_ns != INT64_MAX;
    uint32_t done = 0;
    struct read_messages *read = &r->read;
    bool more = true;
    for (;;) {
        for (; r->running && read->next < read->count && (done < most || !strict); done++)
            deliver_next(r);
        if (read->emptied && read->next == read->count)
            r->draining = false; /* all that was queued while it was on is delivered */
        if (!more || !r->running || done >= most ||
            (limited && done > 0 && clock_monotonic_ns() - now_ns >= may_ns))
            break;
        const uint32_t next = most - done;
        more = read_messages(r, limited && next > READ_IN_HASTE ? READ_IN_HASTE : next, offset_ns);
    }
    r->offset_ns = offset_ns;
    r->offset_read_ns = now_ns;
    return done;
}

/* ---- the path ---------------------------------------------------------------------------- */

static void use_path(struct receiver *r)
{
    const bool on = r->trial.path == RECEIVE_GRO;
    if (r->gro == on || (on && r->options.batch_drops == NULL))
        return;
    if (set_gro(r, on) != 0) {
        log_notice("stream %s: this kernel has no UDP_GRO (%s): receive = recvmmsg",
                   r->options.stream, strerror(errno));
        receive_trial_refuse(&r->trial);
        return;
    }
    r->draining = r->gro;
    r->read.emptied = false;
    r->gro = on;
    r->switched_ns = clock_monotonic_ns();
}

static int64_t thread_cpu_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (int64_t)time.tv_sec * NS_PER_SECOND + time.tv_nsec;
}

static void log_choice(const struct receiver *r, enum receive_path before)
{
    const struct receive_trial *trial = &r->trial;
    if (trial->chosen == before && trial->trials > 1)
        return;
    if (trial->cost_ns[RECEIVE_RECVMMSG] > 0)
        log_info(
            "stream %s: receive path: %s (CPU time per datagram: recvmmsg %.0f ns, gro %.0f ns)",
            r->options.stream, receive_path_name(trial->chosen), trial->cost_ns[RECEIVE_RECVMMSG],
            trial->cost_ns[RECEIVE_GRO]);
    else
        log_info(
            "stream %s: receive path: gro (%.0f ns of CPU time per datagram, in batches so long "
            "that recvmmsg was not tried)",
            r->options.stream, trial->cost_ns[RECEIVE_GRO]);
}

static void wake(uv_poll_t *poll, int status, int events)
{
    struct receiver *r = poll->data;
    (void)status, (void)events; /* recvmmsg reports an error, and clears it */
    enum receive_path before = r->trial.chosen;
    bool measuring = r->trial.measuring;
    int64_t begun_ns = measuring ? thread_cpu_ns() : 0;
    const uint64_t messages = r->figures.messages;
    const bool asks = r->options.may_read_ns != NULL;
    const int64_t may_ns = asks ? r->options.may_read_ns(r->options.turn) : INT64_MAX;
    uint32_t datagrams = read_wake(r, r->options.work_per_wake, may_ns, false);
    if (asks && may_ns != INT64_MAX) /* offset_read_ns: when the reading began */
        r->options.has_read(r->options.turn, clock_monotonic_ns() - r->offset_read_ns);
    if (!r->running)
        return;
    const struct receive_wake got = {
        .datagrams = datagrams,
        .messages = (uint32_t)(r->figures.messages - messages),
        .cpu_ns = measuring ? thread_cpu_ns() - begun_ns : 0,
        .settled = r->last_receive_ns >= r->switched_ns,
    };
    if (receive_trial_note(&r->trial, r->read.now_ns, &got))
        log_choice(r, before);
    use_path(r);
}

unsigned receiver_read_more(struct receiver *r, uint32_t most)
{
    return r->running ? read_wake(r, most, INT64_MAX, true) : 0;
}

void receiver_figures(const struct receiver *r, struct receive_figures *figures)
{
    *figures = r->figures;
    figures->requested = r->options.requested;
    figures->path = r->gro ? RECEIVE_GRO : RECEIVE_RECVMMSG;
    figures->trials = r->trial.trials;
    memcpy(figures->cost_ns, r->trial.cost_ns, sizeof figures->cost_ns);
}

/* ---- start and stop ---------------------------------------------------------------------- */

uint64_t receiver_memory(void)
{
    return (uint64_t)MESSAGES * BUFFER_BYTES;
}

static int cannot_watch(int failed, struct problem *problem)
{
    return problem_set(problem, ERROR_SYSTEM, "the socket cannot be watched: %s",
                       uv_strerror(failed));
}

int receiver_arm(struct receiver *r, uv_loop_t *loop, struct problem *problem)
{
    int failed = r->polled ? 0 : uv_poll_init(loop, &r->poll, r->options.fd);
    if (failed != 0)
        return cannot_watch(failed, problem);
    r->polled = true;
    r->poll.data = r;
    return 0;
}

int receiver_start(struct receiver *r, uv_loop_t *loop, struct problem *problem)
{
    assert(!r->running);
    int error = receiver_arm(r, loop, problem);
    if (error != 0)
        return error;
    if (!r->begun)
        r->overflow = handover_drops_before(r->options.handover, r->options.fd);
    r->begun = true;
    r->offset_ns = clock_offset_ns();
    r->offset_read_ns = clock_monotonic_ns();
    int failed = uv_poll_start(&r->poll, UV_READABLE, wake);
    if (failed != 0)
        return cannot_watch(failed, problem);
    r->running = true;
    r->passed_on = false;
    /* The source that had this socket before may have received in GRO batches. */
    int on = 0;
    socklen_t bytes = sizeof on;
    r->gro = getsockopt(r->options.fd, SOL_UDP, UDP_GRO, &on, &bytes) == 0 && on != 0;
    use_path(r);
    return 0;
}

void receiver_stop(struct receiver *r)
{
    if (!r->running)
        return;
    uv_poll_stop(&r->poll);
    r->running = false;
    if (r->draining && set_gro(r, true) == 0) /* whoever reads on has not seen these batches */
        r->draining = false;
    r->passed_on = handover_pass_drops(r->options.handover, r->options.fd, r->overflow);
}

static void release(struct receiver *r)
{
    void (*closed)(void *) = r->closed;
    void *context = r->closed_context;
    handover_release(r->options.handover, r->options.fd);
    munmap(r->buffers, (size_t)MESSAGES * BUFFER_BYTES);
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

uint64_t receiver_unreported_drops(const struct receiver *r)
{
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    socklen_t bytes = sizeof memory;
    if (r->passed_on || !r->begun)
        return 0;
    if (getsockopt(r->options.fd, SOL_SOCKET, SO_MEMINFO, memory, &bytes) != 0 ||
        bytes < (SK_MEMINFO_DROPS + 1) * sizeof memory[0])
        return 0;
    return (uint32_t)(memory[SK_MEMINFO_DROPS] - r->overflow);
}

/* No other socket of this kernel has had or will have this number; 0: it is not known. */
static uint64_t number_of(int fd)
{
    uint64_t number = 0;
    socklen_t bytes = sizeof number;
    return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &number, &bytes) == 0 ? number : 0;
}

void receiver_walk(struct receiver *r, struct codec *c)
{
    const uint64_t own = r != NULL ? number_of(r->options.fd) : 0;
    uint64_t socket = own;
    uint32_t drops = r != NULL ? r->overflow : 0;
    codec_u64(c, &socket);
    codec_u32(c, &drops);
    if (!codec_reads(c) || c->failed || own == 0 || socket != own)
        return;
    r->overflow = drops;
    r->begun = true;
}

uint64_t receiver_clock_steps(const struct receiver *r)
{
    return r->clock_steps;
}

uint16_t receiver_port(const struct receiver *r)
{
    return socket_port(r->options.fd);
}
