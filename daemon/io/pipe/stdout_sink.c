/*
 * Sink `stdout`: results as raw interleaved samples on standard output, for sox, ffmpeg, aplay or
 * whatever reads the pipe.
 *
 *     put ── encode ──► message ring ──► writer thread ── poll, write ──► standard output
 *
 * The loop never blocks: it only fills the ring. A stream that can wait waits for room in it, so
 * no frame is dropped between a pipe or file and here, however slow the reader is. Results of a
 * live stream that do not fit are dropped under `queue`. A reader that closes the pipe ends the
 * sink: it says so once and drops what still comes under `unreachable`.
 *
 * Only samples go to standard output. The sink takes the descriptor over and puts standard error in
 * its place, so that tables and what libraries print go there.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/descriptor.h"
#include "core/doorbell.h"
#include "core/log.h"
#include "io/ledger_lock.h"
#include "io/rows.h"
#include "io/sink_thread.h"
#include "io/sinks.h"

enum {
    DESCRIPTOR_MIN = 3,
    BLOCKS_MIN = 4,    /* of the ring: a stream that waits for room needs room for a block */
    PIECES = 16,       /* of the ring: results are cut into messages of at most a piece */
    PIPE_WRITE = 4096, /* once poll says so, a pipe takes that much without blocking */
    FILE_WRITE = 1 << 20,
};

/* A process has one standard output, whatever opens it first keeps it. */
static atomic_flag taken = ATOMIC_FLAG_INIT;

struct stdout_options {
    uint64_t queue_bytes;
};

struct message {
    uint64_t frames;
    uint64_t bytes;
    uint8_t samples[];
};

struct sink {
    /* immutable after open */
    struct sink *self; /* for `room`, which is asked through a pointer to const */
    struct sink_options options;
    int fd;
    size_t write_bytes; /* of one call */
    uint32_t frame_bytes;
    double factor; /* unit → normalised */
    uint64_t piece_frames;

    /* loop thread */
    uint64_t frames, queue_drops, reader_drops, saturated;
    bool told;

    /* shared */
    struct sink_thread thread; /* the writer */
    _Atomic bool room_wanted;
    _Atomic int failed;      /* the enum drop of what still comes; DROPS: not failed */
    struct ledger_lock lock; /* the writer moves frames from pending */
    _Atomic uint64_t pending, delivered, dropped[DROPS], messages, bytes;
};

/* ---- writer thread ----------------------------------------------------------------------- */

static void count(struct sink *s, _Atomic uint64_t *as, uint64_t frames)
{
    ledger_lock_begin(&s->lock);
    atomic_fetch_add(as, frames);
    atomic_fetch_sub(&s->pending, frames);
    ledger_lock_end(&s->lock);
}

/* Waits until the descriptor takes bytes; false when the sink must stop now. */
static bool wait_writable(struct sink *s)
{
    struct pollfd wait[] = {{.fd = s->fd, .events = POLLOUT},
                            {.fd = s->thread.wake_fd, .events = POLLIN}};
    while (atomic_load(&s->thread.stop) != SINK_THREAD_NOW) {
        wait[0].revents = wait[1].revents = 0;
        if (poll(wait, 2, -1) < 0 && errno != EINTR)
            return true; /* the write says why */
        if (wait[0].revents != 0)
            return true;
        if (wait[1].revents != 0)
            doorbell_wait(s->thread.wake_fd);
    }
    return false;
}

static void fail(struct sink *s, int reason)
{
    if (reason == EPIPE)
        log_warning("sink %s: the reader of standard output has closed it (EPIPE); the sink ends "
                    "and drops the results that still come",
                    s->options.name);
    else
        log_error("sink %s: standard output cannot be written: %s; the sink ends and drops the "
                  "results that still come",
                  s->options.name, strerror(reason));
    atomic_store(&s->failed, reason == EPIPE ? DROP_UNREACHABLE : DROP_DISK);
    sink_thread_ring(&s->thread);
}

/* False when not all of it was written: told to stop, or the reader is gone. */
static bool write_message(struct sink *s, const struct message *message)
{
    for (uint64_t done = 0; done < message->bytes;) {
        if (!wait_writable(s))
            return false;
        uint64_t left = message->bytes - done;
        ssize_t wrote =
            write(s->fd, message->samples + done, left < s->write_bytes ? left : s->write_bytes);
        if (wrote < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (wrote < 0) {
            fail(s, errno);
            return false;
        }
        done += (uint64_t)wrote;
        atomic_fetch_add(&s->bytes, (uint64_t)wrote);
    }
    return true;
}

static void take_message(struct sink *s, const struct message *message)
{
    if (atomic_load(&s->failed) == DROPS && write_message(s, message)) {
        atomic_fetch_add(&s->messages, 1);
        count(s, &s->delivered, message->frames);
        return;
    }
    const int failed = atomic_load(&s->failed);
    count(s, &s->dropped[failed != DROPS ? failed : DROP_STOPPED], message->frames);
}

/* A stream waits for room: tell it when half of the ring is free. */
static void offer_room(struct sink *s)
{
    atomic_thread_fence(memory_order_seq_cst); /* the release before, room_wanted after */
    if (message_ring_unused(&s->thread.ring) >= s->thread.ring.capacity / 2 &&
        atomic_exchange(&s->room_wanted, false))
        sink_thread_ring(&s->thread);
}

static void write_results(void *context)
{
    struct sink *s = context;
    while (atomic_load(&s->thread.stop) == SINK_THREAD_RUN || !sink_thread_empty(&s->thread)) {
        uint64_t bytes;
        const struct message *message;
        while ((message = message_ring_peek(&s->thread.ring, &bytes)) != NULL) {
            take_message(s, message);
            message_ring_release(&s->thread.ring);
            offer_room(s);
        }
        sink_thread_wait(&s->thread, INT64_MAX, NULL);
    }
}

/* ---- the sink's operations --------------------------------------------------------------- */

static void rung(void *context)
{
    struct sink *s = context;
    if (atomic_load(&s->failed) != DROPS && !s->told) {
        s->told = true;
        if (s->options.ended != NULL)
            s->options.ended(s->options.room_context);
    }
    if (s->options.room_again != NULL)
        s->options.room_again(s->options.room_context);
}

static void destroy(void *context)
{
    struct sink *s = context;
    sink_thread_free(&s->thread);
    if (s->fd >= 0)
        close(s->fd);
    free(s);
}

static void stdout_start(struct sink *s)
{
    sink_thread_handles(&s->thread);
}

/* Takes standard output over; negative: errno says why. */
static int take_output(void)
{
    int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, DESCRIPTOR_MIN);
    fflush(stdout);
    if (fd >= 0)
        dup2(STDERR_FILENO, STDOUT_FILENO);
    return fd;
}

static struct result_format stdout_results(const struct sink_options *options)
{
    return (struct result_format){
        options->format, options->format.kind == SAMPLE_FLOAT ? 1 : 1 / options->full_scale};
}

static uint64_t stdout_memory(const struct sink_options *options)
{
    const struct stdout_options *own = options->own;
    const uint64_t blocks = BLOCKS_MIN * options->block_bytes;
    return own->queue_bytes > blocks ? own->queue_bytes : blocks;
}

static int stdout_open(const struct sink_options *options, const struct io_environment *environment,
                       struct sink **out, struct problem *problem)
{
    if (descriptor_was_closed(STDOUT_FILENO))
        return problem_set(problem, ERROR_SYSTEM,
                           "sink %s: standard output is closed; connect it to a pipe or a file",
                           options->name);
    if (atomic_flag_test_and_set(&taken))
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "sink %s: standard output is written already and cannot be opened a "
                           "second time; restart the daemon to change its stream",
                           options->name);
    struct sink *s = calloc(1, sizeof *s);
    if (s == NULL)
        return problem_set(problem, ERROR_MEMORY, "sink %s: out of memory", options->name);
    s->self = s;
    s->options = *options;
    s->frame_bytes = options->stream.channels * options->format.bytes;
    s->factor = stdout_results(options).factor;
    atomic_store(&s->failed, DROPS);
    const struct sink_thread_options thread = {
        .loop = environment->loop,
        .context = s,
        .run = write_results,
        .rung = rung,
        .freed = destroy,
    };
    const uint64_t ring_bytes = stdout_memory(options);
    struct stat status = {0};
    s->fd = take_output();
    int error = 0, reason = s->fd < 0 || fstat(s->fd, &status) != 0 ? errno : 0;
    if (reason == 0 && (reason = sink_thread_open(&s->thread, &thread, ring_bytes)) == 0) {
        s->write_bytes = S_ISREG(status.st_mode) ? FILE_WRITE : PIPE_WRITE;
        s->piece_frames = s->thread.ring.capacity / PIECES / s->frame_bytes;
        s->piece_frames = s->piece_frames > 0 ? s->piece_frames : 1;
        reason = sink_thread_begin(&s->thread);
    }
    if (reason == ENOMEM)
        error = problem_set(problem, ERROR_MEMORY,
                            "sink %s: no memory for a queue of %llu MiB; write a smaller `queue`",
                            options->name, (unsigned long long)(ring_bytes >> 20));
    else if (reason != 0)
        error = problem_set(problem, ERROR_SYSTEM,
                            "sink %s: standard output cannot be written: %s; connect it to a pipe "
                            "or a file",
                            options->name, strerror(reason));
    if (error != 0) {
        destroy(s);
        return error;
    }
    *out = s;
    return 0;
}

/* Frames [from, from + frames) of a result as a message; false when the ring is full. */
static bool push(struct sink *s, const struct result *result, uint64_t from, uint64_t frames)
{
    const uint64_t bytes = frames * s->frame_bytes;
    struct message *message = message_ring_reserve(&s->thread.ring, sizeof *message + bytes);
    if (message == NULL)
        return false;
    *message = (struct message){.frames = frames, .bytes = bytes};
    if (result->wire != NULL)
        memcpy(message->samples, result->wire + from * s->frame_bytes, bytes);
    else
        s->saturated +=
            sample_encode_block(&s->options.format, result->samples + from * result->channels,
                                (size_t)frames * result->channels, s->factor, message->samples);
    atomic_fetch_add(&s->pending, frames); /* before the writer can subtract them */
    message_ring_commit(&s->thread.ring);
    return true;
}

static int64_t stdout_put(struct sink *s, const struct result *result)
{
    assert(s->thread.closed == NULL);
    s->frames += result->frames;
    if (result->wire != NULL)
        s->saturated += result->saturated;
    if (atomic_load(&s->failed) != DROPS) {
        s->reader_drops += result->frames;
        return clock_monotonic_ns();
    }
    uint64_t done = 0;
    while (done < result->frames) {
        uint64_t left = result->frames - done;
        uint64_t frames = left < s->piece_frames ? left : s->piece_frames;
        if (!push(s, result, done, frames))
            break;
        done += frames;
    }
    s->queue_drops += result->frames - done;
    sink_thread_wake(&s->thread);
    return clock_monotonic_ns();
}

static uint64_t stdout_room(const struct sink *sink)
{
    struct sink *s = sink->self; /* asking is remembered: someone may wait */
    if (atomic_load(&s->failed) != DROPS)
        return UINT64_MAX;
    uint64_t unused = message_ring_unused(&s->thread.ring);
    if (unused < s->thread.ring.capacity / 2) {
        atomic_store(&s->room_wanted, true);
        atomic_thread_fence(memory_order_seq_cst); /* look again: the writer may have emptied it */
        unused = message_ring_unused(&s->thread.ring);
    }
    /* Headers of messages, and what the ring skips at its end. */
    const uint64_t reserve = s->thread.ring.capacity / 4;
    return unused > reserve ? (unused - reserve) / s->frame_bytes : 0;
}

static void stdout_close(struct sink *s, int64_t deadline_ns, void (*closed)(void *context),
                         void *context)
{
    sink_thread_close(&s->thread, deadline_ns, closed, context);
}

static void read_ledger(const struct sink *s, struct sink_ledger *ledger)
{
    ledger->pending = atomic_load(&s->pending);
    ledger->delivered = atomic_load(&s->delivered);
    for (int i = 0; i < DROPS; i++)
        ledger->dropped[i] = atomic_load(&s->dropped[i]);
    ledger->frames = s->frames;
    ledger->dropped[DROP_QUEUE] += s->queue_drops;
    const int failed = atomic_load(&s->failed);
    if (failed != DROPS)
        ledger->dropped[failed] += s->reader_drops;
    ledger->packets = atomic_load(&s->messages);
    ledger->bytes = atomic_load(&s->bytes);
    ledger->saturated = s->saturated;
}

static void stdout_ledger(const struct sink *s, struct sink_ledger *ledger)
{
    ledger_lock_read(&((struct sink *)s)->lock, s, read_ledger, ledger);
}

/* ---- options ----------------------------------------------------------------------------- */

static const struct option_row rows[] = {SINK_ROW_QUEUE(struct stdout_options, queue_bytes)};

static void check_all(const struct driver_sections *all, uint32_t self)
{
    for (uint32_t i = 0; i < self; i++)
        if (all->sinks[i].driver == &sink_stdout)
            option_error(&all->sinks[self].check, "type",
                         "sinks %s and %s both write to standard output; give one of them another "
                         "type",
                         all->sinks[i].check.section, all->sinks[self].check.section);
}

static void report(const struct sink_options *options, double bytes_per_second, FILE *out)
{
    char format[24];
    fprintf(out, "standard output, %s, interleaved\n",
            sample_format_name(&options->format, format));
    sink_report_bytes(bytes_per_second, "", out);
    sink_report_full_scale(options, out);
}

const struct sink_ops sink_stdout = {
    .name = "stdout",
    .sentence = "raw interleaved samples on standard output",
    .main_loop = "standard output",
    .packets = "pieces",
    .format = "f32le",
    .options = rows,
    .option_count = sizeof rows / sizeof rows[0],
    .options_bytes = sizeof(struct stdout_options),
    .check_all = check_all,
    .report = report,
    .memory = stdout_memory,
    .open = stdout_open,
    .start = stdout_start,
    .put = stdout_put,
    .room = stdout_room,
    .close = stdout_close,
    .ledger = stdout_ledger,
    .wire = stdout_results,
    .drains = true,
};
