/*
 * Source `nats`: the input of a partition, read from its log RAW by the daemon that owns its LOG.
 * It reads only while the sink beside it owns (hub.h), from where the term needs it, and waits when
 * the stream has no room: nothing is lost between RAW and the stream. What RAW itself lacks comes
 * as frames of zeros with their causes.
 *
 *     link: RECORD ──► frames behind the position ──► host.put ──► stream
 *
 * Loop thread, except opening.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"
#include "core/clock.h"
#include "core/log.h"
#include "io/nats/hub.h"
#include "io/nats/link.h"
#include "io/nats/options.h"
#include "io/sinks.h"
#include "io/sources.h"

enum { ZEROS_BYTES = 1 << 16, QUEUE_BYTES = 1 << 16, BACK_FIRST = 64 };

static const int64_t again_ns = 200 * NS_PER_MS;

struct source {
    /* immutable after open */
    struct source_options options;
    struct source_host host;
    struct nats_hub *hub;
    uv_loop_t *loop;
    struct nats_link *link;
    uint8_t *zeros; /* ZEROS_BYTES, at least a frame */

    /* loop thread */
    struct nats_partition *partition; /* NULL: not started, or stopped */
    bool timed, started, reading, pumping;
    bool held;               /* `event` is partly put */
    struct nats_event event; /* of RAW */
    bool in_epoch;
    uint64_t epoch, position; /* next frame to put, as RAW numbers them */
    bool begins;              /* the next packet begins an epoch of the stream */
    uint64_t start;           /* … and this is its frame 0 */
    int64_t follow_at_ns;     /* when to follow again; INT64_MAX: it follows */
    bool seeking;             /* no record at or before the first frame wanted has come yet */
    uint64_t asked, back;     /* it follows from this number on; how far it goes back next */
    bool told_format;
    uv_timer_t timer;
    struct source_ledger ledger;
    struct invalid_range ranges[RECORD_RANGES_MAX];
    void (*closed)(void *context);
    void *closed_context;
};

/* ---- records to packets ------------------------------------------------------------------ */

/* Whether the record has the samples that the stream is configured for. */
static bool fits(struct source *s, const struct record *r)
{
    if (r->frames == 0 || (r->channels == s->options.channels &&
                           memcmp(&r->format, &s->options.format, sizeof r->format) == 0 &&
                           r->rate_hz == s->options.rate_hz))
        return true;
    if (!s->told_format)
        log_error("stream %s: RAW holds %u channels of %.6g Hz, the stream is configured for %u "
                  "of %.6g Hz; write the gateway's rate, channels and format",
                  s->options.stream, r->channels, r->rate_hz, s->options.channels,
                  s->options.rate_hz);
    s->told_format = true;
    return false;
}

/* Places the position for a record of another epoch, or behind frames that RAW has lost. False: the
 * record has nothing for the stream. */
static bool place(struct source *s, const struct record *r)
{
    const struct term *term = &s->partition->term;
    if (s->in_epoch && r->epoch == s->epoch && r->from <= s->position)
        return r->next > s->position;
    if (s->in_epoch && r->epoch < s->epoch)
        return false;
    uint64_t start = 0;
    if (!s->in_epoch) {
        if (r->epoch < term->epoch)
            return false;
        if (r->epoch == term->epoch)
            start = term_start(&term->plan, term->next);
    }
    if (r->from > start)
        start = term_grid(&term->plan, r->from);
    if (start >= r->next)
        return false;
    s->in_epoch = s->begins = true;
    s->epoch = r->epoch;
    s->start = s->position = start;
    return true;
}

/* The record's ranges that touch frames [from, until), and those frames themselves where the
 * record has no samples of them. */
static uint32_t ranges_of(struct source *s, const struct record *r, uint64_t from, uint64_t until)
{
    uint32_t count = 0;
    bool named = false;
    for (uint32_t i = 0; i < r->range_count; i++) {
        const struct record_range range = record_range_at(r, i);
        if (range.until <= from || range.from >= until || range.cause >= INVALID_CAUSES)
            continue;
        named = named || (range.from <= from && range.until >= until);
        s->ranges[count++] = (struct invalid_range){range.from > from ? range.from : from,
                                                    range.until < until ? range.until : until,
                                                    (enum invalid_cause)range.cause};
    }
    if (from < r->first && !named && count < RECORD_RANGES_MAX)
        s->ranges[count++] = (struct invalid_range){from, until, INVALID_NETWORK};
    return count;
}

/* Puts frames of the held record; false: the stream has no room, or the record is through. */
static bool put_some(struct source *s)
{
    const struct record *r = &s->event.record;
    const uint32_t frame_bytes = s->options.frame_bytes;
    const bool absent = s->position < r->first;
    const uint64_t until = absent ? r->first : r->next, zeros = ZEROS_BYTES / frame_bytes;
    uint64_t frames = until - s->position, room = s->host.room(s->host.context);
    frames = frames < room ? frames : room;
    if (absent && frames > (zeros > 0 ? zeros : 1))
        frames = zeros > 0 ? zeros : 1;
    if (frames == 0)
        return false;
    const double ahead_ns = ((double)s->position - (double)r->first) * 1e9 / s->options.rate_hz;
    struct packet packet = {
        .first_frame = s->position,
        .frames = (uint32_t)frames,
        .flags = PACKET_CAPTURE | (s->begins ? PACKET_DISCONTINUITY : 0),
        .payload = absent ? s->zeros : r->samples + (s->position - r->first) * frame_bytes,
        .receive_ns = clock_monotonic_ns(),
        .receive_realtime_ns = clock_realtime_ns(),
        .capture_ns = r->capture_ns + clock_round_ns(ahead_ns),
        .clock = r->clock < CLOCK_SOURCES ? (enum clock_source)r->clock : CLOCK_SOURCE_RECEIVE,
        .clock_error_ns = r->clock_error_ns,
        .invalid = s->ranges,
    };
    packet.invalid_count = ranges_of(s, r, s->position, s->position + frames);
    if (s->position + frames == r->next && (r->flags & RECORD_EPOCH_END))
        packet.flags |= PACKET_LAST;
    if (s->begins)
        nats_partition_place(s->partition, s->epoch, s->start);
    const enum verdict verdict = s->host.put(s->host.context, &packet);
    if (s->begins && verdict == VERDICT_OUT_OF_WINDOW)
        return false; /* no room to begin an epoch, behind what is left of the one before */
    if (s->begins)
        term_epoch(&s->partition->term,
                   &(struct term_epoch){.local = s->host.epoch(s->host.context),
                                        .epoch = s->epoch,
                                        .start = s->start,
                                        .timeline = r->timeline - r->first});
    s->begins = false;
    s->position += frames;
    if (verdict == VERDICT_REFUSED)
        s->position = r->next;
    return s->position < r->next;
}

static void drop_event(struct source *s, enum reject why)
{
    s->ledger.rejected[why]++;
    s->held = false;
}

/* RAW says that the epoch ends before frame `next`: frames up to there that RAW has lost are a gap.
 */
static void end_epoch(struct source *s, const struct record *r)
{
    const struct packet packet = {
        .first_frame = r->next,
        .flags = PACKET_LAST,
        .receive_ns = clock_monotonic_ns(),
        .receive_realtime_ns = clock_realtime_ns(),
    };
    if (s->in_epoch && !s->begins && r->epoch == s->epoch && r->next >= s->position)
        (void)s->host.put(s->host.context, &packet);
}

static void follow(struct source *s)
{
    nats_link_follow(s->link, s->asked);
}

static void step_back(struct source *s)
{
    s->asked = s->asked > s->back ? s->asked - s->back : 1;
    s->back *= 4;
}

/* Whether RAW, where it was followed from, begins behind the frame wanted, and may have that one
 * before: records that a gateway has appended again are cut otherwise, and have other numbers. */
static bool too_late(struct source *s, const struct record *r)
{
    const struct term *term = &s->partition->term;
    const uint64_t epoch = s->in_epoch ? s->epoch : term->epoch,
                   frame = s->in_epoch ? s->position : term_start(&term->plan, term->next);
    const bool behind = r->epoch > epoch || (r->epoch == epoch && r->from > frame);
    s->seeking = s->seeking && behind && s->asked > 1 && s->event.sequence <= s->asked;
    return s->seeking;
}

/* A record of RAW was fetched. */
static void take_record(struct source *s)
{
    const struct record *r = &s->event.record;
    if (too_late(s, r)) {
        step_back(s);
        follow(s);
        return;
    }
    s->ledger.datagrams++;
    s->held = true;
    if (r->kind == RECORD_END)
        end_epoch(s, r);
    if (!fits(s, r))
        drop_event(s, REJECT_CHANNELS);
    else if (r->kind != RECORD_DATA)
        drop_event(s, REJECT_EMPTY);
    else if (!place(s, r))
        drop_event(s, REJECT_DUPLICATE);
    else
        term_mark(&s->partition->term, &(struct term_mark){r->epoch, r->from, s->event.sequence});
}

static void take_event(struct source *s)
{
    switch (s->event.kind) {
    case LINK_RECORD:
        take_record(s);
        break;
    case LINK_DAMAGED:
        s->ledger.datagrams++;
        s->ledger.rejected[REJECT_MALFORMED]++;
        log_warning("stream %s: record %llu of RAW is damaged: %s", s->options.stream,
                    (unsigned long long)s->event.sequence, s->event.text);
        break;
    case LINK_LAPSED: /* by frame numbers it goes on wherever RAW has them now */
        log_warning("stream %s: RAW went back, or its oldest records are gone", s->options.stream);
        s->asked = s->event.last > 0 && s->event.last < s->event.sequence ? s->event.last
                                                                          : s->event.sequence;
        s->back = BACK_FIRST;
        step_back(s);
        s->seeking = true;
        s->follow_at_ns = clock_monotonic_ns() + again_ns;
        break;
    default:
        break;
    }
}

static void on_timer(uv_timer_t *timer);

static void set_timer(struct source *s)
{
    int64_t due = nats_link_due(s->link);
    due = due < s->follow_at_ns ? due : s->follow_at_ns;
    if (due == INT64_MAX) {
        uv_timer_stop(&s->timer);
        return;
    }
    const int64_t wait_ns = due - clock_monotonic_ns();
    uv_timer_start(&s->timer, on_timer, (uint64_t)(wait_ns > 0 ? wait_ns / NS_PER_MS + 1 : 1), 0);
}

/* Whoever ends the reason for stopping calls it again: the link's bell, or the stream's room. */
static void pump(struct source *s)
{
    if (s->pumping || !s->started)
        return;
    s->pumping = true;
    const int64_t now_ns = clock_monotonic_ns();
    if (now_ns >= s->follow_at_ns) {
        s->follow_at_ns = INT64_MAX;
        if (s->reading)
            follow(s);
    }
    for (bool full = false; !full;) {
        if (!s->held) {
            if (!nats_link_next(s->link, &s->event))
                break;
            if (s->reading)
                take_event(s);
            continue;
        }
        while (put_some(s))
            continue;
        full = s->held && s->position < s->event.record.next;
        if (s->held && !full) {
            s->held = false;
            s->ledger.accepted++;
        }
    }
    nats_link_tick(s->link, now_ns);
    s->ledger.held = s->held;
    s->pumping = false;
    set_timer(s);
}

static void on_timer(uv_timer_t *timer)
{
    pump(timer->data);
}

static void on_rung(void *context)
{
    pump(context);
}

/* ---- terms ------------------------------------------------------------------------------- */

static void drop_held(struct source *s)
{
    if (s->held)
        drop_event(s, REJECT_REFUSED);
    s->ledger.held = 0;
    s->in_epoch = s->begins = false;
}

static void begin(void *context)
{
    struct source *s = context;
    drop_held(s);
    s->reading = true;
    s->follow_at_ns = INT64_MAX;
    const uint64_t from = s->partition->newest.raw_sequence;
    s->asked = from > 0 ? from : 1;
    s->back = BACK_FIRST;
    s->seeking = true;
    follow(s);
    set_timer(s);
}

static void end(void *context)
{
    struct source *s = context;
    drop_held(s);
    s->reading = false;
    s->follow_at_ns = INT64_MAX;
    nats_link_follow(s->link, 0);
}

static void replan(void *context)
{
    struct source *s = context;
    s->host.plan(s->host.context, &s->partition->plan);
}

/* ---- the source's operations ------------------------------------------------------------- */

static int nats_open(const struct source_options *options, const struct io_environment *environment,
                     const struct source_host *host, struct source **out, struct problem *problem)
{
    const struct nats_source_options *own = options->own;
    const struct cluster *cluster = environment->cluster;
    struct source *s = calloc(1, sizeof *s);
    uint8_t *zeros = calloc(1, ZEROS_BYTES + (size_t)options->frame_bytes);
    if (s == NULL || zeros == NULL) {
        free(s);
        free(zeros);
        return problem_set(problem, ERROR_MEMORY, "out of memory for the source of stream %s",
                           options->stream);
    }
    s->options = *options;
    s->host = *host;
    s->hub = environment->nats;
    s->zeros = zeros;
    s->follow_at_ns = INT64_MAX;
    s->ledger.loss_detectable = true;
    struct nats_link_options link = {.loop = environment->loop,
                                     .name = options->stream,
                                     .servers = {.servers = cluster->servers,
                                                 .credentials = cluster->credentials,
                                                 .ca = cluster->ca},
                                     .queue_bytes = QUEUE_BYTES,
                                     .rung = on_rung,
                                     .context = s};
    nats_log_name(cluster->name, own->partition, "raw", &link.log);
    const int error = nats_link_open(&link, &s->link, problem);
    if (error < 0) {
        free(zeros);
        free(s);
        return error;
    }
    s->loop = environment->loop;
    *out = s;
    return 0;
}

static int nats_start(struct source *s, struct problem *problem)
{
    const struct nats_source_options *own = s->options.own;
    struct nats_partition *p = nats_hub_source(s->hub, own->partition);
    if (p == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for partition %s", own->partition);
    uv_timer_init(s->loop, &s->timer);
    s->timer.data = s;
    s->timed = true;
    s->partition = p;
    s->started = true;
    s->host.plan(s->host.context, &p->plan);
    p->begin = begin;
    p->end = end;
    p->replan = replan;
    p->source = s;
    nats_link_start(s->link);
    if (p->sink != NULL)
        p->planned(p->sink);
    pump(s);
    return 0;
}

static void nats_stop(struct source *s)
{
    if (s->partition == NULL)
        return;
    end(s);
    struct nats_partition *p = s->partition;
    s->partition = NULL;
    s->started = false;
    nats_hub_source_leaves(s->hub, p);
}

static void destroy(struct source *s)
{
    void (*closed)(void *context) = s->closed;
    void *context = s->closed_context;
    free(s->zeros);
    free(s);
    closed(context);
}

static void on_timer_closed(uv_handle_t *handle)
{
    destroy(handle->data);
}

static void on_link_closed(void *context)
{
    struct source *s = context;
    if (s->timed)
        uv_close((uv_handle_t *)&s->timer, on_timer_closed);
    else
        destroy(s);
}

static void nats_close(struct source *s, void (*closed)(void *context), void *context)
{
    nats_stop(s);
    if (s->timed)
        uv_timer_stop(&s->timer);
    s->closed = closed;
    s->closed_context = context;
    nats_link_close(s->link, clock_monotonic_ns(), on_link_closed, s);
}

static void nats_ledger(const struct source *s, struct source_ledger *ledger)
{
    *ledger = s->ledger;
}

static uint16_t no_port(const struct source *s)
{
    (void)s;
    return 0;
}

/* ---- options ----------------------------------------------------------------------------- */

static const struct option_row rows[] = {
    {.key = "partition",
     .type = OPTION_NAME,
     .required = true,
     OPTION_FIELD(struct nats_source_options, partition),
     .sentence =
         "The partition of the cluster whose input this is: every daemon with such a stream "
         "may compute it, one at a time does."},
};

static int check(const struct option_check *check, const struct daemon_facts *facts,
                 struct source_options *options)
{
    const struct nats_source_options *own = options->own;
    (void)facts;
    options->mode = MODE_CONTINUOUS;
    options->reorder_ns = options->max_gap_ns = 0;
    if (own->partition != NULL && !nats_name_valid(own->partition))
        option_error(check, "partition",
                     "`partition = %s` is part of a subject; write letters, digits, _ and - only",
                     own->partition);
    return 0;
}

static const char *describe(const struct source_options *options, char *text, size_t bytes)
{
    const struct nats_source_options *own = options->own;
    snprintf(text, bytes, " RAW of partition %s", own->partition);
    return text;
}

const struct source_ops source_nats = {
    .name = "nats",
    .sentence = "the input of a partition of a cluster, while this daemon owns it",
    .main_loop = "the connection to the cluster",
    .loss =
        "none on the way: RAW holds what came until it was read; its gaps come with their causes",
    .format = "s16be",
    .live = false,
    .loss_detectable = true,
    .exact = true,
    .shared = true,
    .options = rows,
    .option_count = sizeof rows / sizeof rows[0],
    .options_bytes = sizeof(struct nats_source_options),
    .check = check,
    .check_all = nats_partition_check_all,
    .describe = describe,
    .open = nats_open,
    .start = nats_start,
    .resume = pump,
    .stop = nats_stop,
    .close = nats_close,
    .ledger = nats_ledger,
    .port = no_port,
};
