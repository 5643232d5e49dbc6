/* Analysis stage: see analysis_stage.h. */
#include "pipeline/analysis_stage.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/stamp.h"
#include "core/clock.h"
#include "core/log.h"
#include "pipeline/analysis_sizes.h"
#include "pipeline/analysis_stage_internal.h"

uint64_t analysis_stage_memory(const struct analysis_ops *ops,
                               const struct analysis_options *options, uint64_t queue_bytes,
                               bool logged)
{
    const struct analysis_sizes sizes = analysis_sizes(ops, options, queue_bytes);
    /* Its outbox, and as much that the log has not acknowledged (event_log.c). */
    return (logged ? 2 * sizes.outbox_bytes : 0) + analysis_outlets_bytes(ops, options) +
           (ops->memory != NULL ? ops->memory(options) : 0) + sizes.ring_bytes +
           sizes.message_bytes + parameter_track_memory(options) + parameter_inlet_memory(options);
}

/* ---- thread: what leaves ----------------------------------------------------------------- */

static void stamp_parameters(const struct analysis_stage *s, struct analysis_event *event)
{
    if (s->parameters != NULL)
        parameter_track_stamp(s->parameters, event);
    if (s->others != NULL)
        parameter_inlet_stamp(s->others, event);
}

static void emit(void *context, const struct analysis_event *event)
{
    struct analysis_stage *s = context;
    struct analysis_event stamped = *event;
    stamp_parameters(s, &stamped);
    analysis_outlets_emit(&s->outlets, &stamped);
}

static void advance(void *context, uint64_t epoch, uint64_t frame)
{
    struct analysis_stage *s = context;
    s->told_epoch = epoch;
    s->told_frame = frame;
    analysis_outlets_advance(&s->outlets, epoch, frame);
}

/* ---- thread: what it takes --------------------------------------------------------------- */

void analysis_stage_publish(struct analysis_stage *s, uint64_t frames, uint64_t unseen,
                            uint64_t stopped)
{
    union ledger_counters ledger = {.counters = {0}};
    s->ops->ledger(s->analysis, &ledger.ledger);
    count_lock_begin(&s->lock);
    atomic_fetch_add(&s->unseen, unseen);
    atomic_fetch_add(&s->stopped, stopped);
    atomic_fetch_sub(&s->pending, frames);
    for (int i = 0; i < COUNTERS; i++)
        atomic_store(&s->counted[i], ledger.counters[i]);
    count_lock_end(&s->lock);
}

/* Wakes a stream that waits for room twice: when three quarters of the ring are free, and when all
 * of it is. */
static void offer_room(struct analysis_stage *s)
{
    if (s->others != NULL && atomic_exchange(&s->others->owed, false))
        sink_thread_ring(&s->thread);
    atomic_thread_fence(memory_order_seq_cst); /* the release comes before the load below */
    int owed = atomic_load(&s->wakes_owed);
    if (owed == 0)
        return;
    if (sink_thread_empty(&s->thread)) {
        atomic_store(&s->wakes_owed, 0);
        sink_thread_ring(&s->thread);
    } else if (owed == 2 &&
               message_ring_unused(&s->thread.ring) >= s->thread.ring.capacity / 4 * 3) {
        atomic_compare_exchange_strong(&s->wakes_owed, &owed, 1);
        sink_thread_ring(&s->thread);
    }
}

/* Whether its own frames would be lost if it waited on. */
static bool must_go_on(struct analysis_stage *s)
{
    const struct message_ring *ring = &s->thread.ring;
    const uint64_t queue_bytes =
        s->feed.ring.capacity - s->feed.options.history * s->feed.frame_bytes;
    return sink_thread_ends(&s->thread) ||
           (!s->options.waits &&
            (message_ring_unused(ring) < ring->capacity / 2 ||
             atomic_load(&s->pending) * s->feed.frame_bytes > queue_bytes / 2));
}

/* Waits until the parameters of other streams have come as far as the run. */
static void await_parameters(struct analysis_stage *s, const struct analysis_run *run)
{
    static const struct timespec poll = {.tv_nsec = 1000000};
    enum { POLLS_A_RING = 10 }; /* the loop says what is over when it is rung */
    for (int polls = 1; !parameter_inlet_ready(s->others, run, must_go_on(s), clock_monotonic_ns());
         polls++) {
        if (polls % POLLS_A_RING == 0)
            sink_thread_ring(&s->thread);
        nanosleep(&poll, NULL);
    }
}

/* The first frame of the run that is not invalid; false: there is none. */
static bool first_live(const struct analysis_run *run, uint64_t *frame)
{
    *frame = run->first_frame;
    for (uint32_t i = 0; i < run->invalid_count && run->invalid[i].from <= *frame; i++)
        if (run->invalid[i].until > *frame)
            *frame = run->invalid[i].until;
    return run->samples != NULL && *frame < run->first_frame + run->frames;
}

/* When the run was, before its events. */
static void tell_live(struct analysis_stage *s, const struct analysis_run *run)
{
    uint64_t frame;
    if (!first_live(run, &frame))
        return;
    const double rate = s->own.stream.rate_hz;
    const struct stamp stamp = stamp_of(run, frame, rate);
    struct analysis_event head = {.kind = s->ops->emits};
    stamp_event(&stamp, rate, &head);
    stamp_parameters(s, &head);
    analysis_outlets_live(&s->outlets, &head);
}

static void put_run(struct analysis_stage *s, const struct analysis_run *run)
{
    if (s->others != NULL)
        await_parameters(s, run);
    if (s->parameters != NULL)
        parameter_track_put(s->parameters, run);
    if (analysis_outlets_want_live(&s->outlets))
        tell_live(s, run);
    s->ops->put(s->analysis, run);
    if (s->parameters != NULL)
        parameter_track_forget(s->parameters, s->told_epoch, s->told_frame);
}

/* Takes one message of frames; false: there is none. */
static bool take_frames(struct analysis_stage *s)
{
    const struct feed_message *message = analysis_feed_peek(&s->feed);
    if (message == NULL)
        return false;
    const uint64_t frames = message->kind == FEED_RUN      ? message->run.frames
                            : message->kind == FEED_LUMPED ? message->lumped
                                                           : 0;
    bool unseen = message->kind == FEED_LUMPED;
    if (message->kind == FEED_MARK)
        analysis_outlets_mark(&s->outlets, message->mark);
    else if (message->kind == FEED_RUN && sink_thread_must_end(&s->thread))
        unseen = true;
    else if (message->kind == FEED_RUN)
        put_run(s, &message->run);
    /* What came without samples was lost before. */
    const bool stopped = unseen && message->kind == FEED_RUN && message->run.samples != NULL;
    analysis_feed_release(&s->feed, message);
    analysis_stage_publish(s, frames, unseen ? frames : 0, stopped ? frames : 0);
    offer_room(s);
    return true;
}

static void take_mark(struct analysis_stage *s, const struct sink_mark *mark)
{
    if (s->ops->mark != NULL)
        s->ops->mark(s->analysis, mark->epoch, mark->frame, mark->text);
    analysis_outlets_mark(&s->outlets, mark);
}

/* Takes one event of another analysis; false: there is none. */
static bool take_events(struct analysis_stage *s)
{
    const struct event_message *message = event_message_peek(&s->thread.ring);
    if (message == NULL)
        return false;
    const bool is_event = message->kind == EVENT_MESSAGE_EVENT,
               stop = sink_thread_must_end(&s->thread);
    if (message->kind == EVENT_MESSAGE_MARK)
        take_mark(s, &message->mark);
    else if (!stop && is_event)
        s->ops->put_event(s->analysis, &message->event);
    else if (!stop && message->kind == EVENT_MESSAGE_LIVE)
        s->ops->live(s->analysis, &message->event);
    else if (!stop && message->kind == EVENT_MESSAGE_ADVANCE && s->ops->advance != NULL)
        s->ops->advance(s->analysis, message->advance.epoch, message->advance.frame);
    message_ring_release(&s->thread.ring);
    analysis_stage_publish(s, 0, 0, 0);
    if (is_event)
        event_inlet_done(&s->inlet, !stop);
    offer_room(s);
    return true;
}

static void analyse(void *context)
{
    struct analysis_stage *s = context;
    bool (*take)(struct analysis_stage * s) = s->ops->of_events ? take_events : take_frames;
    for (;;) {
        while (take(s)) {
        }
        if (sink_thread_ends(&s->thread)) {
            if (!sink_thread_empty(&s->thread))
                continue;
            /* The loop puts nothing more, so that what it could not tell is told here. */
            if (s->ops->of_events ||
                (analysis_feed_tell(&s->feed) && sink_thread_empty(&s->thread)))
                break;
            continue;
        }
        if (atomic_load(&s->feed.untold))
            sink_thread_ring(&s->thread); /* the loop tells it, as the ring is empty */
        sink_thread_wait(&s->thread, INT64_MAX, NULL);
    }
}

/* ---- life -------------------------------------------------------------------------------- */

static void rung(void *context)
{
    struct analysis_stage *s = context;
    if (!s->ops->of_events && atomic_load(&s->feed.untold)) {
        analysis_feed_tell(&s->feed);
        sink_thread_wake(&s->thread);
    }
    if (s->options.room_again != NULL)
        s->options.room_again(s->options.context);
}

static void freed(void *context)
{
    (void)context; /* analysis_stage_free does it */
}

/* Loop: frames are on their way. */
static void add_pending(void *context, uint64_t frames)
{
    struct analysis_stage *s = context;
    s->frames += frames;
    atomic_fetch_add(&s->pending, frames);
}

static int open_feed(struct analysis_stage *s, const struct analysis_sizes *sizes,
                     uint64_t block_frames)
{
    const struct analysis_feed_options options = {
        .channels = s->own.stream.channels,
        .rate_hz = s->own.stream.rate_hz,
        .history = sizes->history_frames,
        .block_frames = block_frames,
        .marks_most = s->options.marks_most,
        .messages = &s->thread.ring,
        .pending = add_pending,
        .context = s,
    };
    /* Two results and the zeros behind a loss fit in any case. */
    const uint64_t frame_bytes = s->own.stream.channels * sizeof(float);
    const uint64_t least = 2 * (sizes->history_frames + block_frames) * frame_bytes;
    return analysis_feed_open(&s->feed, &options,
                              sizes->ring_bytes > least ? sizes->ring_bytes : least);
}

int analysis_stage_open(const struct analysis_stage_options *options, uint64_t block_frames,
                        struct analysis_stage **out, struct problem *problem)
{
    const char *name = options->options->name;
    struct analysis_stage *s = calloc(1, sizeof *s);
    if (s == NULL)
        return problem_set(problem, ERROR_MEMORY, "analysis %s: out of memory", name);
    s->options = *options;
    s->ops = options->ops;
    s->own = *options->options;
    s->own.emit = emit;
    s->own.advance = advance;
    s->own.context = s;
    s->outlets.thread = &s->thread;
    s->outlets.waits = options->waits;
    s->outlets.limits = options->limits;
    s->outlets.limit_count = options->limit_count;
    s->inlet.thread = &s->thread;
    s->inlet.lock = &s->lock;
    s->inlet.wants_live = s->ops->live != NULL;
    const struct analysis_sizes sizes = analysis_sizes(s->ops, &s->own, options->queue_bytes);
    const struct sink_thread_options thread = {
        .loop = options->loop, .context = s, .run = analyse, .rung = rung, .freed = freed};
    int error = sink_thread_open(&s->thread, &thread, sizes.message_bytes);
    if (error == 0)
        error = analysis_outlets_open(&s->outlets, s->ops, options->options,
                                      options->logged ? sizes.outbox_bytes : 0);
    if (error == 0 && !s->ops->of_events)
        error = open_feed(s, &sizes, block_frames);
    if (error != 0) {
        analysis_stage_free(s);
        return problem_set(problem, ERROR_MEMORY,
                           "analysis %s: no memory for a buffer of %llu MiB; write a smaller "
                           "`buffer`",
                           name, (unsigned long long)(sizes.queue_bytes >> 20));
    }
    int status = s->ops->open(&s->own, &s->analysis, problem);
    if (status == 0 &&
        ((parameter_track_wanted(&s->own) && parameter_track_open(&s->own, &s->parameters) != 0) ||
         parameter_inlet_open(&s->own, options->waits, &s->others) != 0))
        status = problem_set(problem, ERROR_MEMORY, "no memory for its `parameters`");
    if (status != 0) {
        analysis_stage_free(s);
        return problem_prefix(problem, status, "analysis %s", name);
    }
    *out = s;
    return 0;
}

int analysis_stage_add_sink(struct analysis_stage *s, const struct event_sink_ops *ops,
                            const struct event_sink_options *options,
                            const struct io_environment *environment, struct problem *problem)
{
    if (s->outlets.sink_count == ANALYSIS_SINKS_MAX)
        return problem_set(problem, ERROR_LIMIT,
                           "analysis %s has more than %d sinks; remove some, or write another "
                           "analysis with the same options",
                           s->own.name, ANALYSIS_SINKS_MAX);
    struct event_writer **writer = &s->outlets.sinks[s->outlets.sink_count].writer;
    int status = event_writer_open(ops, options, environment, writer, problem);
    s->outlets.sink_count += status == 0;
    return status;
}

int analysis_stage_add_reader(struct analysis_stage *s, struct analysis_stage *reader,
                              struct problem *problem)
{
    const uint32_t at = s->outlets.reader_count;
    if (at == ANALYSIS_READERS_MAX)
        return problem_set(problem, ERROR_LIMIT,
                           "more than %d analyses take the events of analysis %s; remove some",
                           ANALYSIS_READERS_MAX, s->own.name);
    s->readers[at] = reader;
    s->outlets.readers[at] = &reader->inlet;
    s->outlets.reader_count++;
    return 0;
}

int analysis_stage_begin(struct analysis_stage *s, struct problem *problem)
{
    const int error = sink_thread_begin(&s->thread);
    if (error != 0)
        return problem_set(problem, ERROR_SYSTEM, "analysis %s: no thread: %s", s->own.name,
                           strerror(error));
    s->begun = true;
    return 0;
}

void analysis_stage_free(struct analysis_stage *s)
{
    if (s == NULL)
        return;
    s->ops->close(s->analysis);
    analysis_outlets_free(&s->outlets);
    parameter_track_close(s->parameters);
    parameter_inlet_close(s->others);
    analysis_feed_close(&s->feed);
    sink_thread_free(&s->thread);
    free(s);
}

/* ---- loop: what goes in ------------------------------------------------------------------ */

/* What the threads ring belongs to the loop, and open runs on a worker. Those that take this one's
 * events have theirs before the first event can come. */
void analysis_stage_open_handles(struct analysis_stage *s)
{
    if (s->thread.handles_open)
        return;
    sink_thread_handles(&s->thread);
    for (uint32_t i = 0; i < s->outlets.reader_count; i++)
        analysis_stage_open_handles(s->readers[i]);
}

void analysis_stage_put(struct analysis_stage *s, const struct result *result)
{
    analysis_stage_open_handles(s);
    analysis_feed_put(&s->feed, result);
    sink_thread_wake(&s->thread);
}

uint64_t analysis_stage_room(struct analysis_stage *s)
{
    analysis_stage_open_handles(s);
    if (!sink_thread_empty(&s->thread)) {
        atomic_store(&s->wakes_owed, 2);
        /* Before the loads below: the thread may just have emptied the ring. */
        atomic_thread_fence(memory_order_seq_cst);
    }
    return analysis_feed_room(&s->feed);
}

bool analysis_stage_mark(struct analysis_stage *s, const struct sink_mark *mark)
{
    analysis_stage_open_handles(s);
    if (!analysis_feed_mark(&s->feed, mark))
        return false;
    sink_thread_wake(&s->thread);
    return true;
}

/* ---- loop: close ------------------------------------------------------------------------- */

static void part_closed(void *context)
{
    struct analysis_stage *s = context;
    if (--s->closing == 0)
        s->closed(s->closed_context);
}

/* Half of the time until a deadline: the other half is for what comes behind. */
static int64_t half_way(int64_t deadline_ns)
{
    const int64_t now_ns = clock_monotonic_ns();
    return deadline_ns == INT64_MAX || deadline_ns <= now_ns ? deadline_ns
                                                             : now_ns + (deadline_ns - now_ns) / 2;
}

/* The thread has ended: nothing more comes for those behind it. */
static void thread_closed(void *context)
{
    struct analysis_stage *s = context;
    const uint64_t frames = atomic_load(&s->stopped) - s->stopped_before,
                   events = atomic_load(&s->inlet.stopped) - s->events_stopped_before;
    if (frames + events > 0)
        log_warning("analysis %s: %llu %s were not analysed within `drain timeout`", s->own.name,
                    (unsigned long long)(frames + events), frames > 0 ? "frames" : "events");
    s->closing = 1 + s->outlets.reader_count;
    analysis_outlets_close(&s->outlets, half_way(s->deadline_ns), part_closed, s);
    for (uint32_t i = 0; i < s->outlets.reader_count; i++)
        analysis_stage_close(s->readers[i], s->deadline_ns, part_closed, s);
}

void analysis_stage_close(struct analysis_stage *s, int64_t deadline_ns,
                          void (*closed)(void *context), void *context)
{
    s->closed = closed;
    s->closed_context = context;
    s->deadline_ns = deadline_ns;
    analysis_stage_discard(s); /* what the log has not got, the next owner finds again */
    if (s->begun)
        sink_thread_close(&s->thread, half_way(deadline_ns), thread_closed, s);
    else
        thread_closed(s);
}

/* ---- ledgers ----------------------------------------------------------------------------- */

static void read_ledger(const struct analysis_stage *s, struct analysis_stage_ledger *out)
{
    union ledger_counters counted;
    for (int i = 0; i < COUNTERS; i++)
        counted.counters[i] = atomic_load(&s->counted[i]);
    *out = (struct analysis_stage_ledger){
        .frames = s->frames,
        .pending = atomic_load(&s->pending),
        .live = counted.ledger.live,
        .dead = counted.ledger.dead + atomic_load(&s->unseen),
        .taken = atomic_load(&s->inlet.taken),
        .taken_pending = atomic_load(&s->inlet.pending),
        .analysis = counted.ledger,
    };
    out->dropped[DROP_QUEUE] = s->feed.dropped;
    out->dropped[DROP_STOPPED] = atomic_load(&s->stopped);
    out->taken_dropped[DROP_QUEUE] = atomic_load(&s->inlet.queue_drops);
    out->taken_dropped[DROP_STOPPED] = atomic_load(&s->inlet.stopped);
    out->analysis.limited = atomic_load(&s->outlets.limited);
}

void analysis_stage_ledger(struct analysis_stage *s, struct analysis_stage_ledger *ledger)
{
    for (int tries = 0; tries < COUNT_LOCK_TRIES; tries++) {
        struct analysis_stage_ledger now;
        const uint64_t token = count_lock_look(&s->lock);
        read_ledger(s, &now);
        if (count_lock_held(&s->lock, token)) {
            s->last = now;
            break;
        }
    }
    *ledger = s->last;
}

uint32_t analysis_stage_sinks(const struct analysis_stage *s)
{
    return s->outlets.sink_count;
}

void analysis_stage_sink_ledger(struct analysis_stage *s, uint32_t sink,
                                struct event_sink_ledger *ledger)
{
    analysis_outlets_sink_ledger(&s->outlets, sink, ledger);
}

struct parameter_inlet *analysis_stage_parameters(const struct analysis_stage *s)
{
    return s->others;
}

const struct analysis_store *analysis_stage_store(const struct analysis_stage *s)
{
    return s->outlets.store;
}

const struct event_totals *analysis_stage_totals(const struct analysis_stage *s)
{
    return s->outlets.totals;
}

bool analysis_stage_idle(struct analysis_stage *s)
{
    analysis_stage_open_handles(s);
    atomic_store(&s->wakes_owed, 2);
    atomic_thread_fence(memory_order_seq_cst); /* before the counts below */
    if (atomic_load(&s->pending) > 0 || atomic_load(&s->inlet.pending) > 0 ||
        !sink_thread_empty(&s->thread))
        return false;
    for (uint32_t i = 0; i < s->outlets.reader_count; i++)
        if (!analysis_stage_idle(s->readers[i]))
            return false;
    return true;
}
