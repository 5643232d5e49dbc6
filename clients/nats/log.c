/*
 * Reader of a partition's log: follows it over the daemon's own link (daemon/io/nats) on a loop of
 * its own, holds each record against the reader's position (wire/record.h), and cuts its samples
 * where their validity changes. A log that went back is read again from its oldest record; what the
 * reader has is passed over by frame number. A reader of events takes those of the records instead
 * of their samples, whose chain it checks all the same.
 */
#include "convolv-nats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/clock.h"
#include "events.h"
#include "io/nats/link.h"
#include "wire/record.h"

enum { QUEUE_BYTES = 1 << 16, NAME_BYTES = 128 };

static const int64_t close_ns = 100 * NS_PER_MS;

struct convolv_log {
    /* immutable after open */
    char *servers, *credentials, *ca;
    char name[NAME_BYTES];
    double full_scale;

    struct nats_link *link;
    uv_loop_t loop;
    uv_timer_t timer;
    bool closed, following;
    int error;        /* nothing more comes */
    int64_t heard_ns; /* monotonic; 0: never */

    struct record_position position;
    struct log_events *events; /* NULL: a reader of blocks */
    struct nats_event event;   /* its record is being handed out while `left` */
    bool left;
    uint32_t done;       /* frames of the record handed out or passed over */
    uint64_t hole_from;  /* frames from here to the record's first are missing */
    bool first_of_epoch; /* of the record's blocks */

    struct convolv_log_facts facts;
    struct sample_format format;
    double *values;
    size_t value_count;
    struct convolv_receiver_ledger ledger;
};

/* ---- life -------------------------------------------------------------------------------- */

static int problem_of(struct convolv_problem *problem, int error, const char *text)
{
    if (problem != NULL) {
        problem->error = error;
        snprintf(problem->text, sizeof problem->text, "%.255s", text);
    }
    return error;
}

static void rung(void *context)
{
    (void)context; /* uv_run has returned, that is all */
}

static void timed_out(uv_timer_t *timer)
{
    (void)timer;
}

static void link_closed(void *context)
{
    struct convolv_log *log = context;
    log->closed = true;
}

static void destroy(struct convolv_log *log)
{
    uv_close((uv_handle_t *)&log->timer, NULL);
    uv_run(&log->loop, UV_RUN_DEFAULT);
    uv_loop_close(&log->loop);
    free(log->servers);
    free(log->credentials);
    free(log->ca);
    free(log->values);
    log_events_close(log->events);
    free(log);
}

static char *copied(const char *text)
{
    return text != NULL ? strdup(text) : NULL;
}

int convolv_log_open(const struct convolv_log_options *options, struct convolv_log **out,
                     struct convolv_problem *problem)
{
    struct problem reason = {0};
    if (options->servers == NULL || options->cluster == NULL || options->partition == NULL ||
        !nats_name_valid(options->cluster) || !nats_name_valid(options->partition))
        return problem_of(problem, CONVOLV_ERROR_ARGUMENT,
                          "a log needs servers, and names of a cluster and a partition: letters, "
                          "digits, _ and -");
    struct convolv_log *log = calloc(1, sizeof *log);
    if (log == NULL || uv_loop_init(&log->loop) != 0) {
        free(log);
        return problem_of(problem, CONVOLV_ERROR_MEMORY, "out of memory");
    }
    uv_timer_init(&log->loop, &log->timer);
    log->servers = copied(options->servers);
    log->credentials = copied(options->credentials);
    log->ca = copied(options->ca);
    if (options->events && (log->events = log_events_open()) == NULL) {
        destroy(log);
        return problem_of(problem, CONVOLV_ERROR_MEMORY, "out of memory");
    }
    log->full_scale = options->full_scale > 0 ? options->full_scale : 1;
    snprintf(log->name, sizeof log->name, "reader of %s", options->partition);
    struct nats_link_options link = {
        .loop = &log->loop,
        .name = log->name,
        .servers = {log->servers, log->credentials, log->ca},
        .queue_bytes = QUEUE_BYTES,
        .rung = rung,
        .context = log,
    };
    nats_log_name(options->cluster, options->partition, options->input ? "raw" : "log", &link.log);
    const int error = nats_link_open(&link, &log->link, &reason);
    if (error != 0) {
        destroy(log);
        return problem_of(problem,
                          error == ERROR_MEMORY   ? CONVOLV_ERROR_MEMORY
                          : error == ERROR_CONFIG ? CONVOLV_ERROR_ADDRESS
                                                  : CONVOLV_ERROR_SYSTEM,
                          reason.text);
    }
    nats_link_start(log->link);
    *out = log;
    return CONVOLV_OK;
}

void convolv_log_close(struct convolv_log *log)
{
    if (log == NULL)
        return;
    nats_link_close(log->link, clock_monotonic_ns() + close_ns, link_closed, log);
    while (!log->closed)
        uv_run(&log->loop, UV_RUN_ONCE);
    destroy(log);
}

/* ---- records ----------------------------------------------------------------------------- */

/* Room for the record's samples as values, and what they are. */
static bool learn(struct convolv_log *log, const struct record *r)
{
    const size_t count = (size_t)r->frames * r->channels;
    if (r->channels > 0) {
        log->facts.channels = r->channels;
        log->facts.rate_hz = r->rate_hz;
        log->format = r->format;
        sample_format_name(&r->format, log->facts.format);
    }
    if (count > log->value_count) {
        double *values = realloc(log->values, count * sizeof *values);
        if (values == NULL)
            return false;
        log->values = values;
        log->value_count = count;
    }
    return true;
}

static void fork_found(struct convolv_log *log)
{
    log->ledger.rejected[CONVOLV_REJECT_OLD]++;
    log->error = CONVOLV_ERROR_FORMAT;
}

/* Events go by their own numbers, whatever the reader has of the samples. */
static void take_record_of_events(struct convolv_log *log, enum record_step step)
{
    const struct record *r = &log->event.record;
    log->left = r->kind == RECORD_ANALYSIS;
    if (log->left)
        log_events_take(log->events, r);
    if (log->left || step == RECORD_NEW || step == RECORD_LOST)
        log->ledger.accepted++;
    else
        log->ledger.rejected[CONVOLV_REJECT_DUPLICATE]++;
}

static void take_record(struct convolv_log *log)
{
    const struct record *r = &log->event.record;
    const struct record_position before = log->position;
    uint32_t skip;
    log->ledger.datagrams++;
    const enum record_step step = record_follow(&log->position, r, &skip);
    if (step == RECORD_FORK) {
        fork_found(log);
        return;
    }
    if (log->events != NULL) {
        take_record_of_events(log, step);
        return;
    }
    if (step == RECORD_SEEN) {
        log->ledger.rejected[CONVOLV_REJECT_DUPLICATE]++;
        return;
    }
    const bool here = before.started && before.epoch == r->epoch;
    if (!here)
        log->ledger.epochs++;
    if (step == RECORD_LOST) {
        log->ledger.lost++;
        log->ledger.frames_lost += here ? r->from - before.next : r->from;
    }
    const uint64_t reached = here && before.next > r->from ? before.next : r->from;
    const bool ends = r->kind == RECORD_END;
    if (r->frames == skip && r->first <= reached && !ends) {
        log->ledger.heartbeats++;
        return;
    }
    if (!learn(log, r)) {
        log->error = CONVOLV_ERROR_MEMORY;
        return;
    }
    log->ledger.accepted++;
    log->left = true;
    log->done = skip;
    log->hole_from = reached < r->first ? reached : r->first;
    log->ledger.frames_shed += r->first - log->hole_from;
    log->first_of_epoch = (r->flags & RECORD_EPOCH_START) && skip == 0;
}

/* True when a record is to be handed out. */
static bool take_events(struct convolv_log *log)
{
    while (!log->left && log->error == 0 && nats_link_next(log->link, &log->event)) {
        log->heard_ns = clock_monotonic_ns();
        switch (log->event.kind) {
        case LINK_CONNECTED:
            if (!log->following)
                nats_link_follow(log->link, 1);
            log->following = true;
            break;
        case LINK_LAPSED:
            nats_link_follow(log->link, 1);
            break;
        case LINK_RECORD:
            take_record(log);
            break;
        case LINK_DAMAGED:
            log->ledger.datagrams++;
            log->ledger.rejected[CONVOLV_REJECT_MALFORMED]++;
            break;
        default:
            break;
        }
    }
    return log->left;
}

/* ---- blocks ------------------------------------------------------------------------------ */

/* The causes that hold from `from` on, and the frame at which they change. */
static uint16_t causes_at(const struct record *r, uint64_t from, uint64_t *until)
{
    uint16_t causes = 0;
    for (uint32_t i = 0; i < r->range_count; i++) {
        const struct record_range range = record_range_at(r, i);
        if (range.from <= from && from < range.until) {
            causes |= (uint16_t)(1u << range.cause);
            *until = range.until < *until ? range.until : *until;
        } else if (range.from > from && range.from < *until) {
            *until = range.from;
        }
    }
    return causes;
}

static void describe(const struct convolv_log *log, const struct record *r, uint64_t first,
                     struct convolv_block *block)
{
    *block = (struct convolv_block){
        .first_frame = first,
        .epoch = (uint32_t)r->epoch,
        .record = (uint32_t)r->record,
        .channels = r->channels,
        .described = true,
        .epoch_start = log->first_of_epoch,
        .aligned = r->flags & RECORD_ALIGNED,
        .partial = r->flags & RECORD_PARTIAL,
        .clock = r->clock,
        .clock_error_ns = r->clock_error_ns < UINT32_MAX ? (uint32_t)r->clock_error_ns : UINT32_MAX,
        .delay_frames = r->delay_frames,
        .receive_ns = clock_realtime_ns(),
        .sequence = log->event.sequence,
        .capture_ns = r->capture_ns,
    };
    if (r->channels > 0)
        block->capture_ns += (int64_t)llround((double)(first - r->first) * 1e9 / r->rate_hz);
    for (int i = 0; i < CONVOLV_STAGES; i++)
        block->stage_ns[i] = 100 * (int64_t)r->stage_100ns[i];
}

/* The next block of the record. */
static void hand_out(struct convolv_log *log, struct convolv_block *block)
{
    const struct record *r = &log->event.record;
    const uint64_t first = r->first + log->done;
    uint64_t until = r->next;
    const uint16_t causes = r->frames > log->done ? causes_at(r, first, &until) : 0;
    describe(log, r, first, block);
    block->frames = (uint32_t)(until - first);
    block->samples = log->values;
    if (block->frames > 0)
        sample_decode_block(&log->format, r->samples + (size_t)log->done * record_frame_bytes(r),
                            block->frames, r->channels, log->values);
    for (size_t i = 0; log->full_scale != 1 && log->format.kind != SAMPLE_FLOAT &&
                       i < (size_t)block->frames * r->channels;
         i++)
        log->values[i] *= log->full_scale;
    if (causes != 0) {
        block->causes = causes;
        block->invalid_until = block->frames;
        log->ledger.frames_invalid += block->frames;
    }
    if (log->hole_from < r->first && log->done == 0) {
        uint64_t end = r->first;
        block->hole_from = log->hole_from;
        block->hole_until = r->first;
        block->hole_causes = causes_at(r, log->hole_from, &end);
    }
    log->ledger.frames += block->frames;
    log->done += block->frames;
    log->hole_from = r->first;
    log->first_of_epoch = false;
    log->left = log->done < r->frames;
    block->epoch_end = !log->left && (r->kind == RECORD_END || (r->flags & RECORD_EPOCH_END) != 0);
}

/* Waits until something may have come. False: it is after until_ns. */
static bool wait_for_more(struct convolv_log *log, int64_t until_ns)
{
    const int64_t now_ns = clock_monotonic_ns();
    nats_link_tick(log->link, now_ns);
    if (now_ns >= until_ns)
        return false;
    const int64_t due_ns = nats_link_due(log->link);
    const int64_t wait_ns = (due_ns < until_ns ? due_ns : until_ns) - now_ns;
    uv_update_time(&log->loop); /* else the timer may be due before the loop waits */
    if (wait_ns < INT64_MAX - now_ns)
        uv_timer_start(&log->timer, timed_out, (uint64_t)(wait_ns / NS_PER_MS) + 1, 0);
    uv_run(&log->loop, UV_RUN_ONCE);
    uv_timer_stop(&log->timer);
    return true;
}

static int64_t until_of(int timeout_ms)
{
    return timeout_ms < 0 ? INT64_MAX : clock_monotonic_ns() + timeout_ms * (int64_t)NS_PER_MS;
}

int convolv_log_next(struct convolv_log *log, int timeout_ms, struct convolv_block *block)
{
    const int64_t until_ns = until_of(timeout_ms);
    if (log->events != NULL)
        return CONVOLV_ERROR_ARGUMENT;
    do {
        if (log->left || take_events(log)) {
            hand_out(log, block);
            return 1;
        }
        if (log->error != 0)
            return log->error;
    } while (wait_for_more(log, until_ns));
    return 0;
}

int convolv_log_next_event(struct convolv_log *log, int timeout_ms, struct convolv_log_event *event)
{
    const int64_t until_ns = until_of(timeout_ms);
    if (log->events == NULL)
        return CONVOLV_ERROR_ARGUMENT;
    do {
        while (log->left || take_events(log)) {
            const int got = log_events_next(log->events, event);
            if (got == 1)
                return 1;
            log->left = false;
            if (got == CONVOLV_ERROR_FORMAT)
                fork_found(log);
            else if (got != 0)
                log->error = got;
        }
        if (log->error != 0)
            return log->error;
    } while (wait_for_more(log, until_ns));
    return 0;
}

/* ---- figures ----------------------------------------------------------------------------- */

void convolv_log_facts(const struct convolv_log *log, struct convolv_log_facts *facts)
{
    *facts = log->facts;
}

int64_t convolv_log_quiet_ns(const struct convolv_log *log)
{
    struct nats_link_figures figures;
    nats_link_figures(log->link, &figures);
    if (log->heard_ns == 0)
        return INT64_MAX;
    const int64_t due_ns = nats_link_due(log->link);
    return figures.connected && due_ns > clock_monotonic_ns()
               ? 0
               : clock_monotonic_ns() - log->heard_ns;
}

void convolv_log_ledger(const struct convolv_log *log, struct convolv_receiver_ledger *ledger)
{
    *ledger = log->ledger;
    ledger->senders = log->position.started;
}
