/*
 * Sink `recording`: writes results to files. Each sink has a writer thread, so that a slow disk
 * never blocks the loop. The loop thread copies each result into a bounded message ring; the writer
 * thread takes it from there and encodes, writes, rotates, flushes and pauses (writer.h). When the
 * ring is full, the loop drops and counts whole results; a stream that can wait sees beforehand
 * that there is no room.
 *
 *     loop: put ──► message ring ──► writer thread ──► files
 *           ◄── room_again, closed (uv_async) ──┘
 *
 * Ledger: the writer moves frames from pending to delivered or dropped under a sequence lock, so
 * the ledger that the loop reads adds up at every instant.
 */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/doorbell.h"
#include "core/log.h"
#include "core/message_ring.h"
#include "io/deadline.h"
#include "io/ledger_lock.h"
#include "io/recording/recording.h"
#include "io/recording/writer.h"
#include "io/sink.h"
#include "io/sinks.h"

static const uint64_t queue_bytes_default = 64 << 20;
static const int64_t flush_ns_default = 1 * NS_PER_SECOND;
/* When the disk hangs past the deadline of close, the sink abandons its thread after this long. */
static const uint64_t abandon_ms = 1000;

/* With a ring of at least gather_ring_bytes the writer thread sleeps this long before it waits for
 * a doorbell, so that small results gather. */
static const int64_t gather_ns = 1 * NS_PER_MS;
static const uint64_t gather_ring_bytes = 4 << 20;

enum {
    /* A message takes at most 1/16 of the ring, which bounds what is lost where the ring wraps. A
     * longer result travels in several messages. */
    MESSAGES_PER_QUEUE = 16,
    /* The queue holds at least this many blocks; with fewer, a stream that waits for room could
     * wait for ever. */
    BLOCKS_MIN = 4,
};

enum stop { STOP_NOT, STOP_DRAIN, STOP_NOW };

/* In the ring: this structure, the invalid ranges, gains that have changed, and the frames from the
 * next multiple of MESSAGE_ALIGNMENT on. */
struct message {
    struct result result;
};

struct sink {
    /* immutable after open */
    struct sink *self; /* for `room`, which gets a pointer to const */
    struct sink_options options;
    const struct recording_options *own;
    uv_loop_t *loop;
    uint32_t frame_bytes; /* of put's frames */
    int64_t flush_ns;
    uint64_t payload_bytes;          /* most bytes of frames in one message */
    struct recording_writer *writer; /* writer thread only */
    pthread_t thread;

    /* loop thread */
    uint64_t frames, queue_drops;
    uint32_t gain_changes; /* of the gains that the writer has been told */
    double overhead;       /* bytes of message headers per frame, smoothed */
    bool handles_open;
    uv_async_t doorbell;
    uv_timer_t deadline;
    bool deadline_passed, abandoned;
    int open_handles;
    void (*closed)(void *context);
    void *closed_context;

    /* shared */
    struct message_ring ring;
    int wake_fd; /* loop → writer */
    _Atomic bool asleep, done;
    _Atomic int stop;        /* enum stop */
    _Atomic int wakes_owed;  /* to a stream that waits for room: 2 after `room`, 1, 0 */
    struct ledger_lock lock; /* the writer moves frames from pending */
    _Atomic uint64_t pending, delivered, dropped[DROPS], packets, bytes, saturated;
};

/* ---- writer thread ----------------------------------------------------------------------- */

static void set(_Atomic uint64_t *to, uint64_t value)
{
    atomic_store_explicit(to, value, memory_order_relaxed);
}

/* Publishes the writer's counts: moves frames from pending to delivered or dropped. */
static void publish(struct sink *s)
{
    const struct writer_counts *counts = recording_writer_counts(s->writer);
    uint64_t before = atomic_load_explicit(&s->delivered, memory_order_relaxed);
    uint64_t after = counts->delivered;
    static const enum drop drops[] = {DROP_PAUSED, DROP_DISK}; /* of the writer */
    for (int i = 0; i < 2; i++) {
        before += atomic_load_explicit(&s->dropped[drops[i]], memory_order_relaxed);
        after += counts->dropped[drops[i]];
    }
    set(&s->bytes, counts->bytes);
    set(&s->packets, counts->files);
    set(&s->saturated, counts->saturated);
    if (before == after)
        return;
    ledger_lock_begin(&s->lock);
    set(&s->delivered, counts->delivered);
    for (int i = 0; i < 2; i++)
        set(&s->dropped[drops[i]], counts->dropped[drops[i]]);
    atomic_fetch_sub(&s->pending, after - before);
    ledger_lock_end(&s->lock);
}

static void drop_stopped(struct sink *s, uint64_t frames)
{
    ledger_lock_begin(&s->lock);
    atomic_fetch_add(&s->dropped[DROP_STOPPED], frames);
    atomic_fetch_sub(&s->pending, frames);
    ledger_lock_end(&s->lock);
}

/* Wakes a stream that waits for room twice: when three quarters of the ring are free, and when all
 * of it is. */
static void offer_room(struct sink *s)
{
    atomic_thread_fence(memory_order_seq_cst); /* the release comes before the load below */
    int owed = atomic_load(&s->wakes_owed);
    if (owed == 0)
        return;
    uint64_t unused = message_ring_unused(&s->ring);
    if (unused == s->ring.capacity) {
        atomic_store(&s->wakes_owed, 0);
        uv_async_send(&s->doorbell);
    } else if (owed == 2 && unused >= s->ring.capacity / 4 * 3) {
        atomic_compare_exchange_strong(&s->wakes_owed, &owed, 1);
        uv_async_send(&s->doorbell);
    }
}

static void take_message(struct sink *s, uint8_t *bytes)
{
    struct message *message = (struct message *)(void *)bytes;
    struct result *result = &message->result;
    if (atomic_load(&s->stop) == STOP_NOW)
        drop_stopped(s, result->frames);
    else
        recording_writer_put(s->writer, result);
}

static bool is_empty(const struct sink *s)
{
    return message_ring_unused(&s->ring) == s->ring.capacity;
}

static void wait_for_work(struct sink *s, int64_t until_ns)
{
    atomic_store(&s->asleep, true);
    /* A commit after this store sees `asleep`; a commit before it shows below. */
    if (!is_empty(s) || atomic_load(&s->stop) != STOP_NOT) {
        atomic_store(&s->asleep, false);
        return;
    }
    int64_t left_ns = until_ns == INT64_MAX ? INT64_MAX : until_ns - clock_monotonic_ns();
    if (doorbell_rung_within(s->wake_fd, left_ns > 0 ? left_ns : 0))
        doorbell_wait(s->wake_fd);
    atomic_store(&s->asleep, false);
}

/* Flushes when flush_at_ns has come. Returns the time of the next flush [monotonic], INT64_MAX when
 * everything is flushed. */
static int64_t flush_when_due(struct sink *s, int64_t flush_at_ns)
{
    if (!recording_writer_dirty(s->writer))
        return INT64_MAX;
    int64_t now_ns = clock_monotonic_ns();
    if (flush_at_ns == INT64_MAX)
        return now_ns + s->flush_ns;
    if (now_ns < flush_at_ns)
        return flush_at_ns;
    recording_writer_flush(s->writer);
    return INT64_MAX;
}

static void *write_results(void *argument)
{
    struct sink *s = argument;
    int64_t flush_at_ns = INT64_MAX;
    bool gathered = false;
    for (;;) {
        uint64_t bytes;
        uint8_t *message;
        while ((message = message_ring_peek(&s->ring, &bytes)) != NULL) {
            take_message(s, message);
            message_ring_release(&s->ring);
            flush_at_ns = flush_when_due(s, flush_at_ns);
            publish(s);
            offer_room(s);
            gathered = false;
        }
        if (!gathered && s->ring.capacity >= gather_ring_bytes &&
            atomic_load(&s->stop) == STOP_NOT) {
            /* Many small results gather meanwhile, which saves a wake-up and a write for each. */
            nanosleep(&(struct timespec){.tv_nsec = gather_ns}, NULL);
            gathered = true;
            continue;
        }
        recording_writer_drain(s->writer);
        flush_at_ns = flush_when_due(s, flush_at_ns);
        publish(s);
        offer_room(s);
        if (atomic_load(&s->stop) != STOP_NOT && is_empty(s))
            break;
        wait_for_work(s, flush_at_ns);
    }
    recording_writer_finish(s->writer);
    publish(s);
    atomic_store(&s->done, true);
    uv_async_send(&s->doorbell);
    return NULL;
}

static void wake_writer(struct sink *s)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (!atomic_load(&s->asleep))
        return;
    doorbell_ring(s->wake_fd);
}

/* ---- loop: handles ----------------------------------------------------------------------- */

static void ring_doorbell(uv_async_t *doorbell);

/* The first put opens the handles, because they belong to the loop thread and `open` runs on a
 * worker. The writer rings the doorbell only after results left the ring or after `close`, which
 * opens the handles too. */
static void open_handles(struct sink *s)
{
    if (s->handles_open)
        return;
    s->handles_open = true;
    uv_async_init(s->loop, &s->doorbell, ring_doorbell);
    s->doorbell.data = s;
    uv_timer_init(s->loop, &s->deadline);
    s->deadline.data = s;
    s->open_handles = 2;
}

static void destroy(struct sink *s)
{
    recording_writer_close(s->writer);
    message_ring_close(&s->ring);
    if (s->wake_fd >= 0)
        close(s->wake_fd);
    free(s);
}

static void handle_closed(uv_handle_t *handle)
{
    struct sink *s = handle->data;
    if (--s->open_handles > 0)
        return;
    s->closed(s->closed_context);
    destroy(s);
}

static void finish_closing(struct sink *s)
{
    if (uv_is_closing((uv_handle_t *)&s->doorbell))
        return;
    pthread_join(s->thread, NULL);
    uv_close((uv_handle_t *)&s->doorbell, handle_closed);
    uv_close((uv_handle_t *)&s->deadline, handle_closed);
}

static void ring_doorbell(uv_async_t *doorbell)
{
    struct sink *s = doorbell->data;
    if (s->closed == NULL && s->options.room_again != NULL)
        s->options.room_again(s->options.room_context);
    else if (s->closed != NULL && !s->abandoned && atomic_load(&s->done))
        finish_closing(s);
}

static void deadline_reached(uv_timer_t *timer)
{
    struct sink *s = timer->data;
    if (!s->deadline_passed) {
        s->deadline_passed = true;
        atomic_store(&s->stop, STOP_NOW);
        uv_timer_start(timer, deadline_reached, abandon_ms, 0);
        return;
    }
    /* The disk hangs and may never answer: abandon thread, ring and file on purpose. */
    log_error("sink %s: the disk does not answer; %s is not finished", s->options.name,
              s->own->path);
    uv_unref((uv_handle_t *)&s->doorbell);
    uv_unref((uv_handle_t *)timer);
    s->abandoned = true;
    pthread_detach(s->thread);
    s->closed(s->closed_context);
}

static uint64_t queue_bytes_of(const struct sink_options *options)
{
    const struct recording_options *own = options->own;
    const uint64_t wanted = own->queue_bytes > 0 ? own->queue_bytes : queue_bytes_default;
    const uint64_t least = BLOCKS_MIN * options->block_bytes;
    return wanted > least ? wanted : least;
}

static uint64_t recording_sink_memory(const struct sink_options *options)
{
    return queue_bytes_of(options) + RECORDING_BUFFER_BYTES;
}

/* ---- the sink's operations --------------------------------------------------------------- */

static int start_writer(struct sink *s, struct problem *problem)
{
    sigset_t all, previous; /* the loop thread handles all signals */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous);
    int error = pthread_create(&s->thread, NULL, write_results, s);
    pthread_sigmask(SIG_SETMASK, &previous, NULL);
    if (error != 0)
        return problem_set(problem, ERROR_SYSTEM, "sink %s: no thread to write with: %s",
                           s->options.name, strerror(error));
    return 0;
}

static int recording_sink_open(const struct sink_options *options,
                               const struct io_environment *environment, struct sink **out,
                               struct problem *problem)
{
    struct sink *s = calloc(1, sizeof *s);
    if (s == NULL)
        return problem_set(problem, ERROR_MEMORY, "sink %s: out of memory", options->name);
    s->self = s;
    const struct recording_options *own = options->own;
    s->options = *options;
    s->own = own;
    s->loop = environment->loop;
    s->flush_ns = own->flush_ns > 0 ? own->flush_ns : flush_ns_default;
    if (own->sync_ns != SYNC_NEVER && own->sync_ns < s->flush_ns)
        s->flush_ns = own->sync_ns;
    s->frame_bytes = options->raw
                         ? options->stream.input_channels * options->stream.input_format.bytes
                         : options->stream.channels * (uint32_t)sizeof(float);
    s->wake_fd = -1;
    const uint64_t queue_bytes = queue_bytes_of(options);
    int status = recording_writer_open(&s->options, NULL, &s->writer, problem);
    if (status == 0 && message_ring_open(&s->ring, queue_bytes) != 0)
        status = problem_set(problem, ERROR_MEMORY,
                             "sink %s: no memory for a queue of %llu MiB; write a smaller `queue`",
                             options->name, (unsigned long long)(queue_bytes >> 20));
    if (status == 0) {
        s->wake_fd = doorbell_open();
        if (s->wake_fd < 0)
            status = problem_set(problem, ERROR_SYSTEM, "sink %s: no eventfd: %s", options->name,
                                 strerror(errno));
    }
    s->payload_bytes = s->ring.capacity / MESSAGES_PER_QUEUE;
    if (s->payload_bytes < s->frame_bytes)
        s->payload_bytes = s->frame_bytes;
    s->overhead = (double)sizeof(struct message) / 64.0;
    if (status == 0)
        status = start_writer(s, problem);
    if (status != 0) {
        destroy(s);
        return status;
    }
    *out = s;
    return 0;
}

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + MESSAGE_ALIGNMENT - 1) / MESSAGE_ALIGNMENT * MESSAGE_ALIGNMENT;
}

/* Bytes that the result's gains need in a message, when the writer does not have them yet. */
static uint64_t gains_bytes(const struct sink *s, const struct result *result)
{
    if (result->gains == NULL || result->gains->changes == s->gain_changes)
        return 0;
    return sizeof(struct result_gains) + result->gains->outputs * (sizeof(float) + sizeof(bool));
}

static uint64_t header_bytes(const struct sink *s, const struct result *result)
{
    return aligned(sizeof(struct message) + result->invalid_count * sizeof(struct invalid_range) +
                   gains_bytes(s, result));
}

/* Copies the gains behind `to`, which holds gains_bytes. */
static const struct result_gains *copy_gains(const struct result_gains *gains, void *to)
{
    struct result_gains *copy = to;
    float *factors = (float *)(void *)(copy + 1);
    bool *muted = (bool *)(void *)(factors + gains->outputs);
    *copy = *gains;
    memcpy(factors, gains->factors, gains->outputs * sizeof *factors);
    memcpy(muted, gains->muted, gains->outputs * sizeof *muted);
    copy->factors = factors;
    copy->muted = muted;
    return copy;
}

/* Copies frames [from, from + frames) of a result into the ring as one message; false when it is
 * full. */
static bool push(struct sink *s, const struct result *result, uint64_t from, uint64_t frames)
{
    const uint64_t header = header_bytes(s, result);
    uint8_t *bytes = message_ring_reserve(&s->ring, header + frames * s->frame_bytes);
    if (bytes == NULL)
        return false;
    struct message *message = (struct message *)(void *)bytes;
    struct result *copy = &message->result;
    struct invalid_range *ranges = (struct invalid_range *)(void *)(message + 1);
    *copy = *result;
    copy->first_frame += from;
    copy->timeline_frame += from;
    copy->frames = (uint32_t)frames;
    copy->capture_ns += (int64_t)((double)from * 1e9 / result->rate_hz);
    copy->invalid = ranges;
    copy->invalid_count = 0;
    for (uint32_t i = 0; i < result->invalid_count; i++) {
        /* Ranges before the result belong to its first message; later ones carry only their own. */
        if (from == 0 || result->invalid[i].until > copy->first_frame)
            ranges[copy->invalid_count++] = result->invalid[i];
    }
    copy->gains = gains_bytes(s, result) > 0
                      ? copy_gains(result->gains, ranges + result->invalid_count)
                      : NULL;
    if (copy->gains != NULL)
        s->gain_changes = result->gains->changes;
    uint8_t *payload = bytes + header;
    const bool raw = s->options.raw, wire = !raw && result->wire != NULL;
    const uint64_t frame_bytes =
        wire ? result->channels * result->wire_format.format.bytes : s->frame_bytes;
    const uint8_t *source = raw    ? result->raw
                            : wire ? result->wire
                                   : (const uint8_t *)result->samples;
    if (frames > 0)
        memcpy(payload, source + from * frame_bytes, frames * frame_bytes);
    copy->raw = raw ? payload : NULL;
    copy->wire = wire ? payload : NULL;
    copy->samples = raw || wire ? NULL : (const float *)(void *)payload;
    copy->saturated = from == 0 ? result->saturated : 0;
    atomic_fetch_add(&s->pending, frames); /* before the writer can subtract them */
    message_ring_commit(&s->ring);
    return true;
}

static int64_t recording_sink_put(struct sink *s, const struct result *result)
{
    assert(s->closed == NULL);
    open_handles(s);
    if (result->frames == 0 && result->invalid_count == 0)
        return clock_monotonic_ns();                   /* it only marks the end of an epoch */
    uint64_t most = s->payload_bytes / s->frame_bytes; /* frames in one message */
    uint64_t messages = result->frames > 0 ? (result->frames + most - 1) / most : 1;
    uint64_t header = header_bytes(s, result) + MESSAGE_OVERHEAD;
    uint64_t needed =
        (uint64_t)result->frames * s->frame_bytes + messages * header + s->payload_bytes;
    if (result->frames > 0)
        s->overhead += ((double)(messages * header) / (double)result->frames - s->overhead) / 16.0;
    s->frames += result->frames;
    uint64_t done = 0;
    /* Takes a whole result or none of it, except for one that is larger than the ring. */
    if (needed <= message_ring_unused(&s->ring) || needed > s->ring.capacity) {
        if (result->frames == 0)
            push(s, result, 0, 0); /* the end of an epoch, which lists what is missing */
        while (done < result->frames) {
            uint64_t frames = result->frames - done < most ? result->frames - done : most;
            if (!push(s, result, done, frames))
                break;
            done += frames;
        }
    }
    s->queue_drops += result->frames - done;
    wake_writer(s);
    return clock_monotonic_ns();
}

static uint64_t recording_sink_room(const struct sink *sink)
{
    struct sink *s = sink->self;
    if (message_ring_unused(&s->ring) < s->ring.capacity) {
        atomic_store(&s->wakes_owed, 2);
        /* Before the load below: the writer may just have emptied the ring. */
        atomic_thread_fence(memory_order_seq_cst);
    }
    uint64_t unused = message_ring_unused(&s->ring);
    /* Short messages at the end of an epoch or a block cost more than the average. */
    uint64_t reserve = s->payload_bytes + s->ring.capacity / 16;
    if (unused <= reserve)
        return 0;
    return (uint64_t)((double)(unused - reserve) / ((double)s->frame_bytes + 2.0 * s->overhead));
}

static void recording_sink_close(struct sink *s, int64_t deadline_ns, void (*closed)(void *context),
                                 void *context)
{
    open_handles(s);
    s->closed = closed;
    s->closed_context = context;
    deadline_start(&s->deadline, deadline_ns, deadline_reached);
    atomic_store(&s->stop, STOP_DRAIN);
    wake_writer(s);
    if (atomic_load(&s->done))
        finish_closing(s);
}

static void read_ledger(const struct sink *s, struct sink_ledger *ledger)
{
    ledger->pending = atomic_load(&s->pending);
    ledger->delivered = atomic_load(&s->delivered);
    for (int i = 0; i < DROPS; i++)
        ledger->dropped[i] = atomic_load(&s->dropped[i]);
    ledger->frames = s->frames;
    ledger->dropped[DROP_QUEUE] = s->queue_drops;
    ledger->packets = atomic_load(&s->packets);
    ledger->bytes = atomic_load(&s->bytes);
    ledger->saturated = atomic_load(&s->saturated);
}

static void recording_sink_ledger(const struct sink *s, struct sink_ledger *ledger)
{
    ledger_lock_read(&((struct sink *)s)->lock, s, read_ledger, ledger);
}

static void recording_sink_change(struct sink *s, const struct sink_options *options)
{
    const struct recording_options *own = options->own;
    recording_writer_set_min_free(s->writer, own->min_free_bytes);
}

const struct sink_ops sink_recording = {
    .name = "recording",
    .sentence = "files",
    .packets = "files",
    .format = "f32le",
    .order = "recordings hold samples little-endian",
    .options = recording_rows,
    .option_count = RECORDING_ROWS,
    .options_bytes = sizeof(struct recording_options),
    .check = recording_sink_check,
    .check_all = recording_sink_check_all,
    .report = recording_sink_report,
    .memory = recording_sink_memory,
    .writes = true,
    .open = recording_sink_open,
    .change = recording_sink_change,
    .put = recording_sink_put,
    .room = recording_sink_room,
    .flush = NULL,
    .close = recording_sink_close,
    .wire = recording_writer_format,
    .ledger = recording_sink_ledger,
};
