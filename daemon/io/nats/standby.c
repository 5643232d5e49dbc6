/*
 * Source of a partition whose input comes by multicast: `source = rtp` with `standby`. It receives
 * like source `rtp` and holds what came last (held.h), as owner and as standby alike. Only as owner
 * it puts anything into the stream: from the frame on that the term needs, in order, when the
 * stream has room. So the stream computes what it would compute from a log RAW (source.c).
 *
 *     source rtp ──► held ──► frames behind the position ──► host.put ──► stream
 *
 * Loop thread, except opening.
 */
#include <stdlib.h>

#include "cluster/cluster.h"
#include "core/clock.h"
#include "core/log.h"
#include "io/nats/appender.h"
#include "io/net/network_options.h"
#include "io/net/network_source.h"
#include "io/nats/held_reader.h"
#include "io/nats/hub.h"
#include "io/nats/options.h"
#include "io/sinks.h"
#include "io/sources.h"

enum { ZEROS_BYTES = 1 << 16, LOOK_MS = 100 };

/* Places change for a moment: a worker that needs the input no more leaves the group later. */
static const int64_t leave_ns = 10 * NS_PER_SECOND;

struct source {
    /* immutable after open */
    struct source_options options;
    struct source_host host;
    struct nats_hub *hub;
    const struct cluster *cluster;
    uv_loop_t *loop;
    uint8_t *zeros; /* ZEROS_BYTES, at least a frame */

    /* loop thread */
    struct source *rtp;               /* of source_rtp */
    struct nats_partition *partition; /* NULL: not started, or stopped */
    struct held held;
    uv_timer_t timer, looks;
    bool away;         /* it has left the group */
    int64_t joined_ns; /* when it began to receive, or does again */
    int64_t needed_ns; /* when it needed the input last */
    bool timed, reading, pumping, again;
    struct held_reader reader; /* as owner */
    void (*closed)(void *context);
    void *closed_context;
};

/* ---- putting ----------------------------------------------------------------------------- */

/* False: the stream has no room to begin an epoch, behind what is left of the one before. */
static bool put(struct source *s, const struct held_piece *piece, uint64_t frames)
{
    const struct held_reader *r = &s->reader;
    const struct held_run *run = held_run(&s->held, r->run);
    const uint64_t first = held_reader_frame(r);
    const bool begins = r->begins;
    const struct invalid_range range = {first, first + frames, piece->cause};
    const struct packet packet = {
        .first_frame = first,
        .frames = (uint32_t)frames,
        .flags = PACKET_CAPTURE | (begins ? PACKET_DISCONTINUITY : 0),
        .payload = piece->kind == HELD_FRAMES ? piece->bytes : s->zeros,
        .receive_ns = clock_monotonic_ns(),
        .receive_realtime_ns = clock_realtime_ns(),
        .capture_ns = held_capture_ns(run, r->position),
        .clock = run->clock,
        .clock_error_ns = held_error_ns(run, r->position, frames),
        .invalid = &range,
        .invalid_count = piece->kind == HELD_ABSENT,
    };
    if (begins) {
        const struct term_epoch epoch = held_reader_epoch(r);
        nats_partition_place(s->partition, epoch.epoch, epoch.start);
    }
    const enum verdict verdict = s->host.put(s->host.context, &packet);
    if (begins && verdict == VERDICT_OUT_OF_WINDOW)
        return false;
    if (begins) {
        struct term_epoch epoch = held_reader_epoch(r);
        epoch.local = s->host.epoch(s->host.context);
        term_epoch(&s->partition->term, &epoch);
    }
    held_reader_take(&s->reader, frames);
    return true;
}

/* One step of the reader; false: it waits, until `due_ns` at the latest. */
static bool read_some(struct source *s, int64_t *due_ns)
{
    const struct held_piece piece = held_reader_next(&s->reader, clock_monotonic_ns());
    const uint64_t zeros = ZEROS_BYTES / s->options.frame_bytes,
                   room = s->host.room(s->host.context);
    *due_ns = piece.kind == HELD_NOTHING ? piece.due_ns : INT64_MAX;
    if (piece.kind == HELD_NOTHING)
        return false;
    uint64_t frames = piece.frames < room ? piece.frames : room;
    if (piece.kind == HELD_ABSENT && frames > zeros)
        frames = zeros > 0 ? zeros : 1;
    frames = frames < UINT32_MAX ? frames : UINT32_MAX;
    return frames > 0 && put(s, &piece, frames);
}

static void on_timer(uv_timer_t *timer);

/* Whoever ends the reason for waiting calls it again: a packet, the timer, or the stream's room. */
static void pump(struct source *s)
{
    int64_t due_ns = INT64_MAX;
    if (s->pumping) {
        s->again = true;
        return;
    }
    s->pumping = true;
    do {
        s->again = false;
        while (s->reading && read_some(s, &due_ns))
            continue;
    } while (s->again && s->reading);
    s->pumping = false;
    if (!s->timed)
        return;
    if (!s->reading || due_ns == INT64_MAX) {
        uv_timer_stop(&s->timer);
        return;
    }
    const int64_t wait_ns = due_ns - clock_monotonic_ns();
    uv_timer_start(&s->timer, on_timer, wait_ns > 0 ? (uint64_t)(wait_ns / NS_PER_MS + 1) : 1, 0);
}

static void on_timer(uv_timer_t *timer)
{
    pump(timer->data);
}

/* ---- terms ------------------------------------------------------------------------------- */

static void begin(void *context)
{
    struct source *s = context;
    s->reading = true;
    held_reader_begin(&s->reader, s->options.stream, &s->held, &s->partition->plan.shape,
                      &s->partition->newest);
    pump(s);
}

static void end(void *context)
{
    struct source *s = context;
    s->reading = false;
    held_unread(&s->held);
    pump(s);
}

/* ---- who receives ------------------------------------------------------------------------ */

/* The owner, and as many others as `standby` says: those that would take first. */
static bool needs_input(const struct source *s)
{
    const struct network_options *own = s->options.own;
    const struct nats_partition *p = s->partition;
    struct nats_appender_figures figures;
    if (s->reading || p->sink == NULL)
        return true;
    nats_appender_figures(p->appender, &figures);
    switch (figures.standing.bar) {
    case STANDING_FULL:
    case STANDING_DIFFERS:
        return false;
    case STANDING_FREE:
    case STANDING_LISTENS:
        break;
    }
    return !figures.standing.stands || figures.standing.rank <= own->standby;
}

/* Who has just begun to receive leaves it to others, which hold what the owner had not computed;
 * who is away has nothing to go on from. */
static void stand(struct source *s, int64_t now_ns)
{
    if (s->partition->sink != NULL)
        nats_appender_stand(s->partition->appender,
                            !s->away && now_ns - s->joined_ns >= s->cluster->lease_ns);
}

static void on_look(uv_timer_t *timer)
{
    struct source *s = timer->data;
    const int64_t now_ns = clock_monotonic_ns();
    if (s->partition == NULL)
        return;
    if (needs_input(s))
        s->needed_ns = now_ns;
    const bool away = now_ns - s->needed_ns >= leave_ns;
    if (away == s->away) {
        stand(s, now_ns);
        return;
    }
    s->away = away;
    s->joined_ns = now_ns;
    stand(s, now_ns);
    network_source_listen(s->rtp, !away);
    if (away)
        log_info("stream %s: enough other workers stand by for partition %s: leaves the group",
                 s->options.stream, s->partition->name);
    else
        log_info("stream %s: stands by for partition %s", s->options.stream, s->partition->name);
}

/* ---- what the source rtp calls ----------------------------------------------------------- */

static enum verdict on_packet(void *context, const struct packet *packet)
{
    struct source *s = context;
    struct source_ledger ledger = {0};
    if (s->partition == NULL)
        return VERDICT_REFUSED;
    if (s->held.run_next == 0 || (packet->flags & PACKET_DISCONTINUITY))
        source_rtp.ledger(s->rtp, &ledger);
    const enum verdict verdict = held_put(&s->held, packet, ledger.ssrc);
    if (s->reading)
        pump(s);
    return verdict;
}

static uint64_t on_room(void *context)
{
    const struct source *s = context;
    return s->partition != NULL ? s->held.options.frames : 0;
}

static void on_ended(void *context)
{
    (void)context;
}

static void on_drops(void *context, uint64_t datagrams)
{
    struct source *s = context;
    (void)datagrams;
    if (s->partition != NULL)
        held_blame(&s->held);
}

static void on_unsent(void *context, uint64_t from, uint64_t until)
{
    struct source *s = context;
    if (s->partition != NULL)
        held_unsent(&s->held, from, until);
}

static void on_lost(void *context, uint64_t frames, enum invalid_cause cause)
{
    (void)context;
    (void)frames;
    (void)cause;
}

static int64_t on_may_read(void *context)
{
    const struct source *s = context;
    return s->host.may_read_ns(s->host.context);
}

static void on_has_read(void *context, int64_t ns)
{
    const struct source *s = context;
    s->host.has_read(s->host.context, ns);
}

/* ---- the source's operations ------------------------------------------------------------- */

static int standby_open(const struct source_options *options,
                        const struct io_environment *environment, const struct source_host *host,
                        struct source **out, struct problem *problem)
{
    struct source *s = calloc(1, sizeof *s);
    uint8_t *zeros = calloc(1, ZEROS_BYTES + (size_t)options->frame_bytes);
    int error = ERROR_MEMORY;
    if (s == NULL || zeros == NULL) {
        problem_set(problem, ERROR_MEMORY, "out of memory for the source of stream %s",
                    options->stream);
        goto failed;
    }
    s->options = *options;
    s->host = *host;
    s->hub = environment->nats;
    s->cluster = environment->cluster;
    s->loop = environment->loop;
    s->zeros = zeros;
    const struct source_host own = {
        .context = s,
        .put = on_packet,
        .room = on_room,
        .ended = on_ended,
        .socket_drops = on_drops,
        .lost = on_lost,
        .unsent = on_unsent,
        .may_read_ns = host->may_read_ns != NULL ? on_may_read : NULL,
        .has_read = host->has_read != NULL ? on_has_read : NULL,
    };
    error = source_rtp.open(options, environment, &own, &s->rtp, problem);
    if (error < 0)
        goto failed;
    *out = s;
    return 0;

failed:
    free(zeros);
    free(s);
    return error;
}

static int standby_arm(struct source *s, struct problem *problem)
{
    return source_rtp.arm(s->rtp, problem);
}

static void replan(void *context)
{
    struct source *s = context;
    s->host.plan(s->host.context, &s->partition->plan);
}

/* Frames that a standby holds: what two leases bring, and what the results before them rest on. */
static uint64_t held_frames(const struct source *s, const struct term_plan *plan)
{
    const struct network_options *own = s->options.own;
    const int64_t ns = own->hold_ns + s->options.reorder_ns;
    return (uint64_t)((double)ns * 1e-9 * s->options.rate_hz) + plan->history +
           2 * ((uint64_t)plan->hop + plan->decimate);
}

static int standby_start(struct source *s, struct problem *problem)
{
    const struct network_options *own = s->options.own;
    struct nats_partition *p = nats_hub_source(s->hub, own->partition);
    if (p == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for partition %s", own->partition);
    s->host.plan(s->host.context, &p->plan);
    const struct held_options held = {.frames = held_frames(s, &p->plan.shape),
                                      .frame_bytes = s->options.frame_bytes,
                                      .rate_hz = s->options.rate_hz,
                                      .reorder_ns = s->options.reorder_ns};
    if (held_open(&s->held, &held) < 0) {
        nats_hub_leave(s->hub, p);
        return problem_set(problem, ERROR_MEMORY,
                           "stream %s: no memory for the input that it holds; write a shorter "
                           "`hold`",
                           s->options.stream);
    }
    uv_timer_init(s->loop, &s->timer);
    uv_timer_init(s->loop, &s->looks);
    s->timer.data = s->looks.data = s;
    s->timed = true;
    s->needed_ns = s->joined_ns = clock_monotonic_ns();
    s->partition = p;
    p->begin = begin;
    p->end = end;
    p->replan = replan;
    p->source = s;
    const int error = source_rtp.start(s->rtp, problem);
    if (error < 0)
        return error;
    uv_timer_start(&s->looks, on_look, LOOK_MS, LOOK_MS);
    if (p->sink != NULL)
        p->planned(p->sink);
    stand(s, s->joined_ns);
    return 0;
}

static void standby_change(struct source *s, const struct source_options *options)
{
    source_rtp.change(s->rtp, options);
}

static void standby_stop(struct source *s)
{
    if (s->rtp != NULL)
        source_rtp.stop(s->rtp);
    if (s->partition == NULL)
        return;
    end(s);
    struct nats_partition *p = s->partition;
    s->partition = NULL;
    nats_hub_source_leaves(s->hub, p);
}

static void destroy(struct source *s)
{
    void (*closed)(void *context) = s->closed;
    void *context = s->closed_context;
    held_close(&s->held);
    free(s->zeros);
    free(s);
    closed(context);
}

static void on_looks_closed(uv_handle_t *handle)
{
    destroy(handle->data);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct source *s = handle->data;
    uv_close((uv_handle_t *)&s->looks, on_looks_closed);
}

static void on_rtp_closed(void *context)
{
    struct source *s = context;
    if (s->timed)
        uv_close((uv_handle_t *)&s->timer, on_timer_closed);
    else
        destroy(s);
}

static void standby_close(struct source *s, void (*closed)(void *context), void *context)
{
    standby_stop(s);
    if (s->timed) {
        uv_timer_stop(&s->timer);
        uv_timer_stop(&s->looks);
    }
    s->closed = closed;
    s->closed_context = context;
    source_rtp.close(s->rtp, on_rtp_closed, s);
}

static void standby_ledger(const struct source *s, struct source_ledger *ledger)
{
    source_rtp.ledger(s->rtp, ledger);
}

static uint16_t standby_port(const struct source *s)
{
    return source_rtp.port(s->rtp);
}

static void standby_status(const struct source *s, void *status)
{
    source_rtp.read_status(s->rtp, status);
}

/* ---- options ----------------------------------------------------------------------------- */

/* The sink names the partition. */
static void check_all(const struct driver_sections *all, uint32_t self)
{
    const struct source_section *source = &all->sources[self];
    struct network_options *own = source->options->own;
    uint32_t logs = 0;
    for (uint32_t i = 0; i < all->sink_count; i++) {
        const struct nats_sink_options *log = all->sinks[i].options->own;
        if (all->sinks[i].stream != source || all->sinks[i].driver != &sink_nats || log == NULL)
            continue;
        own->partition = log->partition;
        if (logs++ > 0)
            option_error(&all->sinks[i].check, "type",
                         "the results of stream %s belong to one partition: give it one sink of "
                         "type nats",
                         source->facts.name);
    }
    network_check_all(all, self);
    nats_partition_check_all(all, self);
}

/* Of what is held, the frames before the oldest result apart. */
static double held_bytes(const struct source_options *options)
{
    const struct network_options *own = options->own;
    return (double)own->hold_ns * 1e-9 * options->rate_hz * (options->frame_bytes + 0.125);
}

static uint64_t memory(const struct source_options *options)
{
    return source_rtp.memory(options) + (uint64_t)held_bytes(options);
}

static void report(const struct source_options *options, FILE *out)
{
    const struct network_options *own = options->own;
    network_report(options, out);
    fprintf(out,
            "  standby          %u beside the owner of partition %s; each holds %.3g s, %.3g MiB\n",
            own->standby, own->partition, (double)own->hold_ns * 1e-9,
            held_bytes(options) / 0x1p20);
}

const struct source_ops source_standby = {
    .name = "rtp",
    .sentence = "RTP over UDP, of a partition of a cluster, while this daemon owns it",
    .main_loop = "the connection to the cluster",
    .loss = NUMBERED_LOSS,
    .format = "s16be",
    .padded = true,
    .live = false,
    .loss_detectable = true,
    .exact = true,
    .shared = true,
    .options = rtp_source_rows,
    .option_count = RTP_SOURCE_ROWS,
    .options_bytes = sizeof(struct network_options),
    .check_all = check_all,
    .describe = network_describe,
    .report = report,
    .memory = memory,
    .open = standby_open,
    .arm = standby_arm,
    .start = standby_start,
    .change = standby_change,
    .resume = pump,
    .stop = standby_stop,
    .close = standby_close,
    .ledger = standby_ledger,
    .port = standby_port,
    .status = &network_source_shown,
    .read_status = standby_status,
};
