/*
 * Replay: see replay.h. The loop thread owns every field except those under "shared"; the producer
 * thread touches only chunks that it took from the free ring. Neither side waits for the other with
 * a lock: the producer sleeps on a semaphore that counts free chunks, and wakes the loop with
 * a bell (core/loop_bell.h).
 */
#include "io/replay.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/loop_bell.h"
#include "core/spsc.h"

enum {
    CHUNK_BYTES = 256 * 1024,
    CHUNKS = 8,
    CHUNKS_PER_WAKE = 2, /* unpaced: so that other sources and sinks get their turn */
};

/* Pacing interval: short compared with any block, long compared with the cost of a wake-up. */
static const int64_t tick_ns = 1 * NS_PER_MS;

struct chunk {
    uint8_t *payload;
    uint32_t frames;
    bool last;                 /* nothing follows */
    struct replay_place place; /* with spec.place */
    struct replay_flags flags; /* with spec.flags */
};

struct source {
    /* immutable after open */
    struct replay_spec spec;
    struct source_host host;
    uv_loop_t *loop;
    struct replay_clock *replays; /* NULL: none */

    /* loop thread */
    bool armed, running, pumping, no_thread;
    struct chunk *current; /* partly delivered */
    uint32_t used;         /* frames of it already put */
    uint64_t next_frame;   /* number of the next one to put */
    uint64_t put_frames;   /* in all */
    uint64_t given;        /* chunks to the producer */
    uint32_t marked;       /* marks reported */
    int64_t start_ns, start_realtime_ns;
    struct loop_bell doorbell;
    uv_poll_t timer;
    uv_idle_t more; /* unpaced: run again in the next loop iteration */
    int timer_fd;
    int open_handles;
    void (*closed)(void *context);
    void *closed_context;
    struct source_ledger ledger;

    /* shared */
    struct chunk chunks[CHUNKS];
    struct spsc free_ring;  /* loop → producer */
    struct spsc ready_ring; /* producer → loop */
    sem_t free_count;
    atomic_bool quit, finished;
    _Atomic uint64_t filled; /* chunks */
    pthread_t producer;
};

uint32_t replay_chunk_frames(uint32_t frame_bytes)
{
    uint32_t frames = CHUNK_BYTES / frame_bytes;
    return frames > 0 ? frames : 1;
}

uint64_t replay_memory(uint32_t frame_bytes)
{
    return (uint64_t)CHUNKS * replay_chunk_frames(frame_bytes) * frame_bytes;
}

/* ---- producer thread --------------------------------------------------------------------- */

static void *produce(void *argument)
{
    struct source *s = argument;
    for (bool last = false; !last;) {
        while (sem_wait(&s->free_count) != 0 && errno == EINTR)
            continue;
        if (atomic_load(&s->quit))
            break;
        struct chunk *chunk = spsc_pop(&s->free_ring);
        assert(chunk != NULL);
        chunk->frames = s->spec.fill(s->spec.context, chunk->payload, s->spec.chunk_frames);
        chunk->last = last = chunk->frames < (s->spec.short_chunks ? 1 : s->spec.chunk_frames);
        if (s->spec.place != NULL && chunk->frames > 0)
            s->spec.place(s->spec.context, &chunk->place);
        if (s->spec.flags != NULL)
            s->spec.flags(s->spec.context, &chunk->flags);
        bool pushed = spsc_push(&s->ready_ring, chunk);
        assert(pushed); /* the ring holds every chunk there is */
        (void)pushed;
        atomic_fetch_add(&s->filled, 1);
        loop_bell_ring(&s->doorbell);
    }
    atomic_store(&s->finished, true);
    loop_bell_ring(&s->doorbell);
    return NULL;
}

/* ---- delivering -------------------------------------------------------------------------- */

/* What the driver's `place` says of `frames` frames from chunk frame s->used on. */
static void place_packet(const struct source *s, struct packet *packet, struct invalid_range *lost)
{
    const struct replay_place *place = &s->current->place;
    const uint64_t end = packet->first_frame + packet->frames;
    const long double used_ns = (long double)s->used * 1e9L / (long double)s->spec.rate_hz;
    packet->capture_ns = place->capture_ns + (int64_t)roundl(used_ns);
    packet->clock = place->clock;
    packet->clock_error_ns = place->clock_error_ns;
    if (place->begins && s->used == 0)
        packet->flags |= PACKET_RECORD;
    if (place->ends && s->used + packet->frames == s->current->frames)
        packet->flags |= PACKET_LAST;
    *lost = (struct invalid_range){
        .from =
            place->invalid_from > packet->first_frame ? place->invalid_from : packet->first_frame,
        .until = place->invalid_until < end ? place->invalid_until : end,
        .cause = INVALID_CAPTURE,
    };
    if (lost->from < lost->until) {
        packet->invalid = lost;
        packet->invalid_count = 1;
    }
}

/* The chunk's invalid ranges that the packet holds a part of. */
static uint32_t clip_flags(const struct source *s, const struct packet *packet,
                           struct invalid_range invalid[REPLAY_RANGES_MAX])
{
    const struct replay_flags *flags = &s->current->flags;
    const uint64_t end = packet->first_frame + packet->frames;
    uint32_t count = 0;
    for (uint32_t i = 0; i < flags->count; i++) {
        struct invalid_range range = flags->invalid[i];
        range.from = range.from > packet->first_frame ? range.from : packet->first_frame;
        range.until = range.until < end ? range.until : end;
        if (range.from < range.until)
            invalid[count++] = range;
    }
    return count;
}

/* Reports the marks before frame `until`. */
static void report_marks(struct source *s, uint64_t until)
{
    for (; s->marked < s->spec.mark_count && s->spec.marks[s->marked].frame < until; s->marked++)
        if (s->host.mark != NULL)
            s->host.mark(s->host.context, &s->spec.marks[s->marked]);
}

/* Puts frames of the current chunk; false when the stream is stopping. */
static bool put(struct source *s, uint32_t frames)
{
    long double elapsed_ns = (long double)s->next_frame * 1e9L / (long double)s->spec.rate_hz;
    struct invalid_range lost, invalid[REPLAY_RANGES_MAX];
    struct packet packet = {
        .first_frame = s->next_frame,
        .frames = frames,
        .flags = PACKET_CAPTURE,
        .payload = s->current->payload + (size_t)s->used * s->spec.frame_bytes,
        .receive_ns = clock_monotonic_ns(),
        .capture_ns = s->start_realtime_ns + (int64_t)elapsed_ns,
        .clock = CLOCK_SOURCE_DECLARED,
    };
    if (s->spec.place != NULL)
        place_packet(s, &packet, &lost);
    if (s->spec.flags != NULL) {
        packet.invalid_count = clip_flags(s, &packet, invalid);
        packet.invalid = invalid;
    }
    report_marks(s, s->next_frame + frames);
    packet.receive_realtime_ns = clock_realtime_ns();
    s->ledger.datagrams++;
    enum verdict verdict = s->host.put(s->host.context, &packet);
    source_ledger_count(&s->ledger, verdict);
    s->used += frames;
    s->next_frame += frames;
    s->put_frames += frames;
    return verdict != VERDICT_REFUSED;
}

/* Frames from the next one on that are due at this time. */
static uint64_t due_frames(const struct source *s, int64_t now_ns)
{
    long double elapsed_ns = (long double)(now_ns - s->start_ns);
    uint64_t due = (uint64_t)(elapsed_ns * (long double)s->spec.rate_hz / 1e9L);
    return due > s->next_frame ? due - s->next_frame : 0;
}

static void pump_idle(uv_idle_t *idle);

/* Of the chunk, all of whose frames are put: once. */
static void report_cut(struct source *s)
{
    struct replay_flags *flags = &s->current->flags;
    if (s->spec.flags == NULL || !flags->is_cut)
        return;
    flags->is_cut = false;
    if (s->host.cut != NULL)
        s->host.cut(s->host.context, &flags->cut);
    else
        log_error("stream %s: %s", s->spec.stream, flags->cut.sentence);
}

/* The chunk to deliver from, or NULL when the producer is behind. */
static struct chunk *current_chunk(struct source *s)
{
    if (s->current != NULL && s->used == s->current->frames)
        report_cut(s);
    if (s->current != NULL && s->used == s->current->frames && !s->current->last) {
        spsc_push(&s->free_ring, s->current);
        s->given++;
        sem_post(&s->free_count);
        s->current = NULL;
    }
    if (s->current == NULL) {
        s->current = spsc_pop(&s->ready_ring);
        s->used = 0;
        if (s->spec.place != NULL && s->current != NULL && s->current->frames > 0)
            s->next_frame = s->current->place.first_frame;
    }
    return s->current;
}

/*
 * Delivers what may be put now. Whoever ends the reason for stopping calls it again: the timer (or,
 * unpaced, the next loop iteration) when the allowance is used up, the producer's doorbell when no
 * chunk is ready, replay_resume when the stream has no room.
 */
static void pump(struct source *s)
{
    if (!s->running || s->pumping)
        return;
    s->pumping = true;
    uint64_t allowed = (uint64_t)CHUNKS_PER_WAKE * s->spec.chunk_frames; /* unpaced */
    const int64_t now_ns = clock_monotonic_ns();
    bool at_end = false, waiting = false, early = false;
    while (s->running && allowed > 0 && !waiting && !at_end && !early) {
        const struct chunk *chunk = current_chunk(s);
        if (chunk == NULL) {
            waiting = true;
        } else if (s->used == chunk->frames) {
            at_end = true;
        } else {
            uint64_t frames = chunk->frames - s->used, room = s->host.room(s->host.context);
            uint64_t due = s->spec.paced ? due_frames(s, now_ns) : allowed;
            frames = frames < due ? frames : due;
            frames = frames < room ? frames : room;
            early = due == 0;
            waiting = !early && frames == 0;
            if (frames > 0 && !put(s, (uint32_t)frames))
                replay_stop(s);
            allowed -= s->spec.paced ? 0 : frames;
        }
    }
    s->pumping = false;
    if (!s->running)
        return;
    if (at_end) {
        replay_stop(s);
        s->host.ended(s->host.context); /* last: it may close this source */
    } else if (!s->spec.paced && !waiting) {
        uv_idle_start(&s->more, pump_idle);
    } else if (!s->spec.paced) {
        uv_idle_stop(&s->more);
    }
}

static void pump_idle(uv_idle_t *idle)
{
    pump(idle->data);
}

static void pump_timer(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct source *s = poll->data;
    uint64_t ticks;
    ssize_t count = read(s->timer_fd, &ticks, sizeof ticks);
    (void)count; /* the number of ticks does not matter: the clock says what is due */
    pump(s);
}

/* ---- life -------------------------------------------------------------------------------- */

static void destroy(struct source *s)
{
    for (int i = 0; i < CHUNKS; i++)
        free(s->chunks[i].payload);
    spsc_close(&s->free_ring);
    spsc_close(&s->ready_ring);
    sem_destroy(&s->free_count);
    if (s->timer_fd >= 0)
        close(s->timer_fd);
    s->spec.release(s->spec.context);
    free(s);
}

int replay_open(const struct replay_spec *spec, const struct io_environment *environment,
                const struct source_host *host, struct source **out, struct problem *problem)
{
    assert(spec->frame_bytes > 0 && spec->chunk_frames > 0 && spec->rate_hz > 0.0);
    struct source *s = calloc(1, sizeof *s);
    if (s == NULL) {
        spec->release(spec->context);
        return problem_set(problem, ERROR_MEMORY, "out of memory for the source of stream %s",
                           spec->stream);
    }
    s->spec = *spec;
    s->host = *host;
    s->loop = environment->loop;
    s->replays = environment->replays;
    s->timer_fd = -1;
    s->ledger.loss_detectable = true;
    sem_init(&s->free_count, 0, 0);
    int status = spsc_open(&s->free_ring, CHUNKS);
    if (status == 0)
        status = spsc_open(&s->ready_ring, CHUNKS);
    for (int i = 0; i < CHUNKS && status == 0; i++) {
        s->chunks[i].payload = malloc((size_t)spec->chunk_frames * spec->frame_bytes);
        if (s->chunks[i].payload == NULL)
            status = ERROR_MEMORY;
    }
    if (status != 0) {
        destroy(s);
        return problem_set(problem, status, "out of memory for the source of stream %s",
                           spec->stream);
    }
    if (spec->paced) {
        s->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        if (s->timer_fd < 0) {
            destroy(s);
            return problem_set(problem, ERROR_SYSTEM, "stream %s: no timer: %s", spec->stream,
                               strerror(errno));
        }
    }
    *out = s;
    return 0;
}

static void on_rung(void *context);

static void open_handles(struct source *s)
{
    loop_bell_open(&s->doorbell, s->loop, on_rung, s);
    uv_idle_init(s->loop, &s->more);
    s->more.data = s;
    s->open_handles = 2;
    if (s->spec.paced) {
        uv_poll_init(s->loop, &s->timer, s->timer_fd);
        s->timer.data = s;
        s->open_handles++;
    }
}

/* The producer thread begins to wait for a free chunk; there is none before the start. */
int replay_arm(struct source *s, struct problem *problem)
{
    if (s->armed)
        return 0;
    s->armed = true;
    open_handles(s); /* before the thread, which rings the doorbell */

    /* The loop thread handles signals. */
    sigset_t all, previous;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous);
    int error = pthread_create(&s->producer, NULL, produce, s);
    pthread_sigmask(SIG_SETMASK, &previous, NULL);
    if (error == 0)
        return 0;
    atomic_store(&s->finished, true);
    s->no_thread = true;
    return problem_set(problem, ERROR_SYSTEM, "stream %s: no thread for its source: %s",
                       s->spec.stream, strerror(error));
}

/* Recordings that the loop starts in one iteration begin at one instant, so that what is captured
 * together has the same times in each. */
static void start_clock(struct source *s)
{
    struct replay_clock own = {0}, *clock = s->replays != NULL ? s->replays : &own;
    if (s->replays == NULL || clock->loop_ms != uv_now(s->loop))
        *clock = (struct replay_clock){
            .loop_ms = uv_now(s->loop),
            .start_ns = clock_monotonic_ns(),
            .start_realtime_ns = clock_realtime_ns(),
        };
    s->start_ns = clock->start_ns;
    s->start_realtime_ns = clock->start_realtime_ns;
}

int replay_start(struct source *s, struct problem *problem)
{
    assert(!s->running);
    int error = replay_arm(s, problem);
    if (error != 0)
        return error;
    if (s->spec.paced) {
        struct itimerspec every = {
            .it_interval = {.tv_nsec = tick_ns},
            .it_value = {.tv_nsec = tick_ns},
        };
        timerfd_settime(s->timer_fd, 0, &every, NULL);
        uv_poll_start(&s->timer, UV_READABLE, pump_timer);
    }
    for (int i = 0; i < CHUNKS; i++) {
        spsc_push(&s->free_ring, &s->chunks[i]);
        s->given++;
        sem_post(&s->free_count);
    }
    start_clock(s);
    s->running = true;
    return 0;
}

bool replay_progress(const struct source *s, uint64_t *done, uint64_t *all)
{
    *done = s->put_frames;
    *all = s->spec.all_frames;
    return *all > 0;
}

bool replay_working(const struct source *s, uint64_t *done)
{
    *done = atomic_load(&s->filled);
    return s->running && !atomic_load(&s->finished) && s->given > *done;
}

void replay_resume(struct source *s)
{
    pump(s);
}

void replay_stop(struct source *s)
{
    s->running = false;
    if (!s->armed)
        return;
    uv_idle_stop(&s->more);
    if (s->spec.paced)
        uv_poll_stop(&s->timer);
}

static void handle_closed(uv_handle_t *handle)
{
    struct source *s = handle->data;
    if (--s->open_handles > 0)
        return;
    void (*closed)(void *context) = s->closed;
    void *context = s->closed_context;
    destroy(s);
    closed(context);
}

/* The producer has finished: joins it and closes the handles. */
static void finish_closing(struct source *s)
{
    if (!s->no_thread)
        pthread_join(s->producer, NULL);
    loop_bell_close(&s->doorbell, handle_closed);
    uv_close((uv_handle_t *)&s->more, handle_closed);
    if (s->spec.paced)
        uv_close((uv_handle_t *)&s->timer, handle_closed);
}

static void on_rung(void *context)
{
    struct source *s = context;
    if (s->closed == NULL)
        pump(s);
    else if (atomic_load(&s->finished) && !uv_is_closing(&s->doorbell.handle))
        finish_closing(s);
}

void replay_close(struct source *s, void (*closed)(void *context), void *context)
{
    replay_stop(s);
    if (!s->armed) {
        destroy(s);
        closed(context);
        return;
    }
    s->closed = closed;
    s->closed_context = context;
    atomic_store(&s->quit, true);
    sem_post(&s->free_count);
    if (s->spec.interrupt != NULL)
        s->spec.interrupt(s->spec.context);
    if (atomic_load(&s->finished))
        finish_closing(s);
}

void replay_ledger(const struct source *s, struct source_ledger *ledger)
{
    *ledger = s->ledger;
}

uint16_t replay_port(const struct source *s)
{
    (void)s;
    return 0;
}
