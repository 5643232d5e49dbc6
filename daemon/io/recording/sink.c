/*
 * Sink `recording`: writes results to files. Each sink has a writer thread, so that a slow disk
 * never blocks the loop. The loop thread copies each result into a bounded message ring; the writer
 * thread takes it from there and encodes, writes, rotates, flushes and pauses (writer.h). When the
 * ring is full, the loop drops and counts whole results; a stream that can wait sees beforehand
 * that there is no room. What was dropped goes with the next message, or alone as soon as the ring
 * is empty, so that the sidecars say which frames no file holds.
 *
 *     loop: put ──► message ring ──► writer thread ──► files
 *           ◄─── room_again, closed (bell) ────┘
 *
 * Ledger: the writer moves frames from pending to delivered or dropped under a sequence lock, so
 * the ledger that the loop reads adds up at every instant.
 */
#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "core/log.h"
#include "io/ledger_lock.h"
#include "io/recording/gains.h"
#include "io/recording/recording.h"
#include "io/recording/sidecar.h"
#include "io/recording/writer.h"
#include "io/sink_thread.h"
#include "io/sinks.h"

static const int64_t flush_ns_default = 1 * NS_PER_SECOND;

/* With a ring of at least gather_ring_bytes the writer thread sleeps this long before it waits for
 * a doorbell, so that small results gather. */
static const int64_t gather_ns = 1 * NS_PER_MS;
static const uint64_t gather_ring_bytes = 4 << 20;

enum {
    /* A message takes at most 1/16 of the ring, which bounds what is lost where the ring wraps. A
     * longer result travels in several messages. */
    MESSAGES_PER_QUEUE = 16,
};

/* In the ring: this structure, frames dropped before this result, the invalid ranges, gains that
 * have changed, and the frames from the next multiple of MESSAGE_ALIGNMENT on. */
struct message {
    struct result result;
    enum message_kind {
        MESSAGE_RESULT,
        MESSAGE_LOSSES, /* no result came */
        MESSAGE_MARK,   /* neither did; a struct sink_mark follows */
        MESSAGE_START,  /* likewise; who gave the command follows */
        MESSAGE_STOP,
    } kind;
    char taps_who[EVENT_WHO_BYTES]; /* of `result` */
    uint32_t loss_count;
    struct sidecar_missing losses[];
};

struct sink {
    /* immutable after open */
    struct sink *self; /* for `room`, which gets a pointer to const */
    struct sink_options options;
    const struct recording_options *own;
    uint32_t frame_bytes; /* of put's frames */
    int64_t flush_ns;
    uint64_t payload_bytes;          /* most bytes of frames in one message */
    struct recording_writer *writer; /* writer thread only */

    /* loop thread */
    uint64_t frames, queue_drops, stopped_drops;
    bool stopped;                /* by a command: what is put is dropped here */
    struct sink_record_at reach; /* where the newest result put ends */
    uint32_t gain_changes;       /* of the gains that the writer has been told */
    double overhead;             /* bytes of message headers per frame, smoothed */
    struct sidecar_losses
        lost;               /* by the full ring since the last message; the thread's at the end */
    struct result lost_end; /* where the newest of them ends: epoch, frame, flags */
    struct source_cut cut;  /* of the stream's input; missing 0: none; the thread's at the end */

    /* shared */
    struct sink_thread thread; /* the writer */
    _Atomic bool untold;       /* `lost` waits for an empty ring */
    _Atomic bool interrupted;  /* before close: the source was stopped before its end */
    _Atomic int wakes_owed;    /* to a stream that waits for room: 2 after `room`, 1, 0 */
    struct ledger_lock lock;   /* the writer moves frames from pending */
    _Atomic uint64_t pending, delivered, dropped[DROPS], packets, bytes, saturated;
    struct shown_cell shown;
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
    recording_writer_show(s->writer, shown_begin(&s->shown));
    shown_end(&s->shown);
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
    uint64_t unused = message_ring_unused(&s->thread.ring);
    if (unused == s->thread.ring.capacity) {
        atomic_store(&s->wakes_owed, 0);
        sink_thread_ring(&s->thread);
    } else if (owed == 2 && unused >= s->thread.ring.capacity / 4 * 3) {
        atomic_compare_exchange_strong(&s->wakes_owed, &owed, 1);
        sink_thread_ring(&s->thread);
    }
}

static void take_message(struct sink *s, uint8_t *bytes)
{
    struct message *message = (struct message *)(void *)bytes;
    struct result *result = &message->result;
    if (message->kind == MESSAGE_MARK) {
        recording_writer_mark(s->writer, (const struct sink_mark *)(void *)message->losses);
        return;
    }
    if (message->kind == MESSAGE_START || message->kind == MESSAGE_STOP) {
        recording_writer_record(s->writer, message->kind == MESSAGE_START,
                                (const char *)(void *)message->losses);
        return;
    }
    for (uint32_t i = 0; i < message->loss_count; i++)
        recording_writer_lose(s->writer, &message->losses[i]);
    if (atomic_load(&s->thread.stop) == SINK_THREAD_NOW) {
        drop_stopped(s, result->frames);
        recording_writer_lose(s->writer,
                              &(struct sidecar_missing){result->epoch, result->first_frame,
                                                        result->first_frame + result->frames,
                                                        drop_name(DROP_STOPPED)});
    } else if (message->kind == MESSAGE_RESULT || (result->flags & RESULT_EPOCH_END)) {
        recording_writer_put(s->writer, result);
    }
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

static void write_results(void *context)
{
    struct sink *s = context;
    struct sink_thread *thread = &s->thread;
    int64_t flush_at_ns = INT64_MAX;
    bool gathered = false;
    for (;;) {
        uint64_t bytes;
        uint8_t *message;
        while ((message = message_ring_peek(&thread->ring, &bytes)) != NULL) {
            take_message(s, message);
            message_ring_release(&thread->ring);
            flush_at_ns = flush_when_due(s, flush_at_ns);
            publish(s);
            offer_room(s);
            gathered = false;
        }
        if (!gathered && thread->ring.capacity >= gather_ring_bytes &&
            atomic_load(&thread->stop) == SINK_THREAD_RUN) {
            /* Many small results gather meanwhile, which saves a wake-up and a write for each. */
            nanosleep(&(struct timespec){.tv_nsec = gather_ns}, NULL);
            gathered = true;
            continue;
        }
        recording_writer_drain(s->writer);
        flush_at_ns = flush_when_due(s, flush_at_ns);
        const int64_t look_at_ns = recording_writer_look(s->writer);
        publish(s);
        offer_room(s);
        if (atomic_load(&thread->stop) != SINK_THREAD_RUN && sink_thread_empty(thread))
            break;
        if (atomic_exchange(&s->untold, false))
            sink_thread_ring(thread);
        sink_thread_wait(thread, flush_at_ns < look_at_ns ? flush_at_ns : look_at_ns, &s->untold);
    }
    for (uint32_t i = 0; i < s->lost.count; i++) /* the loop puts nothing after close */
        recording_writer_lose(s->writer, &s->lost.ranges[i]);
    if (s->cut.missing > 0)
        recording_writer_cut(s->writer, &s->cut);
    recording_writer_end(s->writer, atomic_load(&s->interrupted) ? REASON_INTERRUPTED : REASON_END);
    publish(s);
}

/* ---- the sink's operations --------------------------------------------------------------- */

static void destroy(void *context)
{
    struct sink *s = context;
    if (s->writer != NULL)
        shown_close(&s->shown);
    recording_writer_close(s->writer);
    sink_thread_free(&s->thread);
    free(s);
}

/* The disk may never answer: thread, ring and file are abandoned on purpose. */
static void hung(void *context)
{
    const struct sink *s = context;
    log_error("sink %s: the disk does not answer; %s is not finished", s->options.name,
              s->own->path);
}

static void rung(void *context);

static int start_writer(struct sink *s, uv_loop_t *loop, struct problem *problem)
{
    const struct sink_thread_options options = {
        .loop = loop,
        .context = s,
        .run = write_results,
        .rung = rung,
        .hung = hung,
        .freed = destroy,
    };
    const uint64_t queue_bytes = recording_queue_bytes(&s->options);
    shown_open(&s->shown);
    publish(s);
    int error = sink_thread_open(&s->thread, &options, queue_bytes);
    if (error == ENOMEM)
        return problem_set(problem, ERROR_MEMORY,
                           "sink %s: no memory for a queue of %llu MiB; write a smaller `queue`",
                           s->options.name, (unsigned long long)(queue_bytes >> 20));
    s->payload_bytes = s->thread.ring.capacity / MESSAGES_PER_QUEUE;
    if (s->payload_bytes < s->frame_bytes)
        s->payload_bytes = s->frame_bytes;
    if (error == 0)
        error = sink_thread_begin(&s->thread);
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
    s->flush_ns = own->flush_ns > 0 ? own->flush_ns : flush_ns_default;
    if (own->sync_ns != SYNC_NEVER && own->sync_ns < s->flush_ns)
        s->flush_ns = own->sync_ns;
    s->frame_bytes = options->raw
                         ? options->stream.input_channels * options->stream.input_format.bytes
                         : options->stream.channels * (uint32_t)sizeof(float);
    s->overhead = (double)sizeof(struct message) / 64.0;
    s->stopped = own->start_by_command;
    int status = recording_writer_open(&s->options, NULL, &s->writer, problem);
    if (status == 0)
        status = start_writer(s, environment->loop, problem);
    if (status != 0) {
        destroy(s);
        return status;
    }
    *out = s;
    return 0;
}

/* ---- messages: loop ---------------------------------------------------------------------- */

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + MESSAGE_ALIGNMENT - 1) / MESSAGE_ALIGNMENT * MESSAGE_ALIGNMENT;
}

/* Bytes that the result's gains need in a message, when the writer does not have them yet. */
static uint64_t gains_bytes(const struct sink *s, const struct result *result)
{
    const bool known = result->gains == NULL || result->gains->changes == s->gain_changes;
    return known ? 0 : recorded_gains_bytes(result->gains);
}

static uint64_t header_bytes(const struct sink *s, const struct result *result)
{
    return aligned(sizeof(struct message) + s->lost.count * sizeof(struct sidecar_missing) +
                   result->invalid_count * sizeof(struct invalid_range) + gains_bytes(s, result));
}

/* Copies frames [from, from + frames) of a result into the ring as one message; false when it is
 * full. */
static bool push(struct sink *s, const struct result *result, uint64_t from, uint64_t frames)
{
    const uint64_t header = header_bytes(s, result);
    uint8_t *bytes = message_ring_reserve(&s->thread.ring, header + frames * s->frame_bytes);
    if (bytes == NULL)
        return false;
    struct message *message = (struct message *)(void *)bytes;
    struct result *copy = &message->result;
    message->kind = MESSAGE_RESULT;
    message->loss_count = s->lost.count;
    memcpy(message->losses, s->lost.ranges, s->lost.count * sizeof *message->losses);
    struct invalid_range *ranges =
        (struct invalid_range *)(void *)(message->losses + s->lost.count);
    s->lost.count = 0;
    *copy = *result;
    copy->first_frame += from;
    copy->timeline_frame += from;
    copy->frames = (uint32_t)frames;
    copy->capture_ns += (int64_t)((double)from * 1e9 / result->rate_hz);
    if (result->taps_who != NULL) {
        snprintf(message->taps_who, sizeof message->taps_who, "%s", result->taps_who);
        copy->taps_who = message->taps_who;
    }
    copy->invalid = ranges;
    copy->invalid_count = copy->absent_count = 0;
    for (uint32_t i = 0; i < result->invalid_count; i++) {
        /* Ranges before the result belong to its first message; later ones carry only their own. */
        if (from == 0 || result->invalid[i].until > copy->first_frame)
            ranges[copy->invalid_count++] = result->invalid[i];
    }
    copy->gains = gains_bytes(s, result) > 0
                      ? recorded_gains_copy(result->gains, ranges + result->invalid_count)
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
    message_ring_commit(&s->thread.ring);
    return true;
}

/* Remembers frames of the result from index `done` on, and those missing before it. */
static void lose(struct sink *s, const struct result *result, uint64_t done, enum drop cause)
{
    for (uint32_t i = 0; i < result->invalid_count && done == 0; i++) {
        const struct invalid_range *range = &result->invalid[i];
        if (range->until <= result->first_frame && range->cause != INVALID_UNCERTAIN)
            sidecar_lose(&s->lost,
                         &(struct sidecar_missing){result->epoch, range->from, range->until,
                                                   invalid_cause_name(range->cause)});
    }
    if (done < result->frames)
        sidecar_lose(&s->lost, &(struct sidecar_missing){result->epoch, result->first_frame + done,
                                                         result->first_frame + result->frames,
                                                         drop_name(cause)});
    s->lost_end = (struct result){.epoch = result->epoch,
                                  .record = result->record,
                                  .first_frame = result->first_frame + result->frames,
                                  .flags = result->flags & (RESULT_EPOCH_END | RESULT_RAW),
                                  .rate_hz = result->rate_hz};
    if (cause == DROP_STOPPED) { /* the next file tells it */
        s->stopped_drops += result->frames - done;
        return;
    }
    s->queue_drops += result->frames - done;
    atomic_store(&s->untold, true);
}

/* The ring is empty, and no result may follow for long. */
static void tell_losses(struct sink *s)
{
    const uint64_t header = header_bytes(s, &s->lost_end);
    struct message *message =
        s->lost.count > 0 ? message_ring_reserve(&s->thread.ring, header) : NULL;
    if (message == NULL)
        return;
    message->result = s->lost_end;
    message->kind = MESSAGE_LOSSES;
    message->loss_count = s->lost.count;
    memcpy(message->losses, s->lost.ranges, s->lost.count * sizeof *message->losses);
    s->lost.count = 0;
    message_ring_commit(&s->thread.ring);
    sink_thread_wake(&s->thread);
}

/* A message without a result. False: there is no room. */
static bool tell(struct sink *s, enum message_kind kind, const void *about, size_t bytes)
{
    sink_thread_handles(&s->thread);
    struct message *message = message_ring_reserve(&s->thread.ring, sizeof *message + bytes);
    if (message == NULL)
        return false;
    *message = (struct message){.kind = kind};
    memcpy(message->losses, about, bytes);
    message_ring_commit(&s->thread.ring);
    sink_thread_wake(&s->thread);
    return true;
}

static bool recording_sink_mark(struct sink *s, const struct sink_mark *mark)
{
    return tell(s, MESSAGE_MARK, mark, sizeof *mark);
}

static int recording_sink_record(struct sink *s, bool on, const char *who,
                                 struct sink_record_at *at)
{
    *at = s->reach;
    at->changed = s->stopped == on;
    if (!at->changed)
        return 0;
    if (!on)
        tell_losses(s); /* they belong to the file that ends */
    if (!tell(s, on ? MESSAGE_START : MESSAGE_STOP, who, strlen(who) + 1))
        return ERROR_FULL;
    s->stopped = !on;
    return 0;
}

static const char *recording_sink_saved(const struct sink *s)
{
    const char *start = s->stopped ? "start = command\n" : "start = now\n";
    return s->stopped != s->own->start_by_command ? start : NULL;
}

/* Adds a run behind those there are. Where there are too many, the last one grows: it may then
 * cover frames that a file holds, but leaves none out of its epoch. */
static void add_run(struct sink_missing *runs, uint32_t *count, const struct sink_missing *run)
{
    struct sink_missing *last = *count > 0 ? &runs[*count - 1] : NULL;
    if (run->from >= run->until)
        return;
    if (last != NULL && last->epoch == run->epoch &&
        (last->until == run->from || *count == MISSING_RUNS_MAX)) {
        last->until = run->until > last->until ? run->until : last->until;
        return;
    }
    if (*count < MISSING_RUNS_MAX)
        runs[(*count)++] = *run;
}

/* The writer may hang, so nothing here asks it. Frames that it has taken out of the ring and not
 * written are known by their number: they come before what the ring holds. */
static uint32_t recording_sink_undelivered(const struct sink *s,
                                           struct sink_missing runs[MISSING_RUNS_MAX])
{
    struct sink_missing waiting = {s->reach.epoch, s->reach.frame, s->reach.frame};
    uint64_t taken = atomic_load(&s->pending), position = UINT64_MAX, bytes;
    const struct message *message;
    uint32_t count = 0;
    bool first = true;
    while ((message = message_ring_look(&s->thread.ring, &position, &bytes)) != NULL) {
        const struct result *result = &message->result;
        if (message->kind != MESSAGE_RESULT || result->frames == 0)
            continue;
        if (first)
            waiting =
                (struct sink_missing){result->epoch, result->first_frame, result->first_frame};
        first = false;
        taken -= result->frames < taken ? result->frames : taken;
    }
    waiting.from -= taken < waiting.from ? taken : waiting.from;
    add_run(runs, &count, &waiting);
    position = UINT64_MAX;
    while ((message = message_ring_look(&s->thread.ring, &position, &bytes)) != NULL) {
        const struct result *result = &message->result;
        for (uint32_t i = 0; i < message->loss_count; i++)
            add_run(runs, &count,
                    &(struct sink_missing){message->losses[i].epoch, message->losses[i].from,
                                           message->losses[i].until});
        if (message->kind == MESSAGE_RESULT)
            add_run(runs, &count,
                    &(struct sink_missing){result->epoch, result->first_frame,
                                           result->first_frame + result->frames});
    }
    for (uint32_t i = 0; i < s->lost.count; i++)
        add_run(runs, &count,
                &(struct sink_missing){s->lost.ranges[i].epoch, s->lost.ranges[i].from,
                                       s->lost.ranges[i].until});
    return count;
}

static void recording_sink_lost_before(struct sink *s, const struct sink_missing *runs,
                                       uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        sidecar_lose(&s->lost, &(struct sidecar_missing){runs[i].epoch, runs[i].from, runs[i].until,
                                                         drop_name(DROP_STOPPED)});
}

static void rung(void *context)
{
    struct sink *s = context;
    tell_losses(s);
    if (s->options.room_again != NULL)
        s->options.room_again(s->options.room_context);
}

static int64_t recording_sink_put(struct sink *s, const struct result *result)
{
    assert(s->thread.closed == NULL);
    /* The first put opens the handles, because they belong to the loop thread and `open` runs on a
     * worker; the thread rings only after results have left the ring. */
    sink_thread_handles(&s->thread);
    if (result->frames == 0 && result->invalid_count == 0 && s->lost.count == 0)
        return clock_monotonic_ns(); /* it only marks the end of an epoch */
    s->reach = (struct sink_record_at){
        .known = true, .epoch = result->epoch, .frame = result->first_frame + result->frames};
    uint64_t most = s->payload_bytes / s->frame_bytes; /* frames in one message */
    uint64_t messages = result->frames > 0 ? (result->frames + most - 1) / most : 1;
    uint64_t header = header_bytes(s, result) + MESSAGE_OVERHEAD;
    uint64_t needed =
        (uint64_t)result->frames * s->frame_bytes + messages * header + s->payload_bytes;
    if (result->frames > 0)
        s->overhead += ((double)(messages * header) / (double)result->frames - s->overhead) / 16.0;
    s->frames += result->frames;
    uint64_t done = 0;
    bool pushed = false;
    if (s->stopped) {
        lose(s, result, 0, DROP_STOPPED);
        return clock_monotonic_ns();
    }
    /* Takes a whole result or none of it, except for one that is larger than the ring. */
    if (needed <= message_ring_unused(&s->thread.ring) || needed > s->thread.ring.capacity) {
        if (result->frames == 0)
            pushed = push(s, result, 0, 0); /* the end of an epoch, which lists what is missing */
        while (done < result->frames) {
            uint64_t frames = result->frames - done < most ? result->frames - done : most;
            if (!push(s, result, done, frames))
                break;
            done += frames;
        }
    }
    if (done < result->frames || (result->frames == 0 && !pushed))
        lose(s, result, done, DROP_QUEUE);
    sink_thread_wake(&s->thread);
    return clock_monotonic_ns();
}

static uint64_t recording_sink_room(const struct sink *sink)
{
    struct sink *s = sink->self;
    if (message_ring_unused(&s->thread.ring) < s->thread.ring.capacity) {
        atomic_store(&s->wakes_owed, 2);
        /* Before the load below: the writer may just have emptied the ring. */
        atomic_thread_fence(memory_order_seq_cst);
    }
    uint64_t unused = message_ring_unused(&s->thread.ring);
    /* Short messages at the end of an epoch or a block cost more than the average. */
    uint64_t reserve = s->payload_bytes + s->thread.ring.capacity / 16;
    if (unused <= reserve)
        return 0;
    return (uint64_t)((double)(unused - reserve) / ((double)s->frame_bytes + 2.0 * s->overhead));
}

static void recording_sink_cut(struct sink *s, const struct source_cut *cut)
{
    s->cut = *cut;
}

static void recording_sink_interrupted(struct sink *s)
{
    atomic_store(&s->interrupted, true);
}

static void recording_sink_close(struct sink *s, int64_t deadline_ns, void (*closed)(void *context),
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
    ledger->dropped[DROP_QUEUE] = s->queue_drops;
    ledger->dropped[DROP_STOPPED] += s->stopped_drops;
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

static void recording_sink_status(const struct sink *s, void *status)
{
    shown_read(&s->self->shown, status);
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
    .numbered = true,
    .open = recording_sink_open,
    .change = recording_sink_change,
    .put = recording_sink_put,
    .mark = recording_sink_mark,
    .record = recording_sink_record,
    .saved = recording_sink_saved,
    .interrupted = recording_sink_interrupted,
    .status = &recording_status,
    .read_status = recording_sink_status,
    .room = recording_sink_room,
    .cut = recording_sink_cut,
    .close = recording_sink_close,
    .undelivered = recording_sink_undelivered,
    .lost_before = recording_sink_lost_before,
    .wire = recording_writer_format,
    .ledger = recording_sink_ledger,
};
