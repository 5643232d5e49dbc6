/*
 * Sink `nats`: appends to a log of a partition while this daemon owns it.
 *
 *     record = output    LOG: what a worker's stream computes from RAW (source `nats`). A term says
 *                        which results belong into the log (cluster/term.h); all others are
 *                        somebody else's, or there already: they are counted apart, as repeated
 *     record = input     RAW: a gateway's input as it came, numbered here once. What was appended
 *                        stays for a while, so that a log that went back is written again
 *
 *     put ──► pieces ──► appender ──► log
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
#include "io/nats/events.h"
#include "io/nats/gateway.h"
#include "io/nats/hub.h"
#include "io/nats/keeper.h"
#include "io/nats/pieces.h"
#include "io/nats/appender.h"
#include "io/nats/options.h"
#include "io/nats/outlet.h"
#include "io/nats/partition_status.h"
#include "io/sinks.h"

struct sink {
    /* immutable after open */
    struct sink_options options;
    struct nats_hub *hub;
    const struct cluster *cluster;
    struct nats_appender *appender;
    uint32_t frame_bytes;

    /* loop thread */
    struct nats_partition *partition; /* results: shared with the source */
    struct pieces pieces;
    struct nats_keeper keeper; /* results, as the next two */
    struct nats_events events;
    struct nats_outlet outlet;
    struct piece_kind kind;
    bool started, owns;
    bool room_wanted;            /* somebody was told of less than a block */
    uint64_t block_frames;       /* at least 1 */
    bool resumed;                /* owned the log before: its newest records may be this sink's */
    struct nats_gateway gateway; /* input, as the next */
    struct nats_successor successor;
    uint64_t repeated; /* results that were not appended: of no term, or there already */
    struct sink_ledger ledger;
    void (*closed)(void *context);
    void *closed_context;
};

/* ---- from pieces to the log -------------------------------------------------------------- */

static void drain(struct sink *s)
{
    struct record record;
    while (s->owns && nats_appender_room(s->appender) > 0 && pieces_first(&s->pieces, &record)) {
        if (!nats_keeper_before(&s->keeper, s->pieces.unsent))
            break;
        if (!nats_events_room(&s->events, record.frames) ||
            !nats_appender_append(s->appender, &record))
            break;
        nats_events_put(&s->events, &record);
        pieces_appended(&s->pieces);
        s->ledger.pending -= record.frames;
        s->ledger.delivered += record.frames;
        s->ledger.packets++;
        s->ledger.bytes += (uint64_t)record.frames * s->frame_bytes;
    }
    if (s->owns)
        (void)nats_keeper_before(&s->keeper, s->pieces.unsent);
    if (s->room_wanted && pieces_free(&s->pieces) >= s->block_frames) {
        s->room_wanted = false;
        if (s->options.room_again != NULL)
            s->options.room_again(s->options.room_context);
    }
}

static void drain_again(void *context)
{
    drain(context);
}

/* Whether another gateway waits that goes on with this one's input. */
static bool is_succeeded(struct sink *s)
{
    return s->options.raw && s->gateway.receives &&
           nats_successor_waits(&s->successor, clock_monotonic_ns(), s->gateway.ssrc);
}

/* Frames [skip, frames) of a result; returns how many were taken. A gateway that has a successor
 * does not end the epoch. */
static uint32_t add(struct sink *s, const struct result *result, uint32_t skip,
                    const struct piece_target *target)
{
    struct result told = *result;
    if (is_succeeded(s)) /* the sender goes on */
        told.flags &= ~(uint32_t)RESULT_EPOCH_END;
    const uint32_t taken = pieces_put(&s->pieces, &s->kind, &told, skip, *target);
    s->ledger.pending += taken;
    return taken;
}

/* ---- results ----------------------------------------------------------------------------- */

static void put_results(struct sink *s, const struct result *result)
{
    struct nats_partition *p = s->partition;
    struct term_cut cut = {.part = TERM_FOREIGN};
    if (p != NULL && result->frames > 0)
        cut = term_cut(&p->term, result->epoch, result->first_frame, result->frames);
    s->repeated += cut.part == TERM_NEW ? cut.skip : result->frames;
    if (cut.part != TERM_NEW)
        return;
    s->ledger.frames += result->frames - cut.skip;
    const struct term_cut whole = cut;
    struct result marked = *result;
    struct piece_target target = {.epoch = cut.epoch,
                                  .from = cut.from,
                                  .first = cut.first,
                                  .timeline = cut.timeline,
                                  .input_next = cut.input_next,
                                  .sender = cut.sender,
                                  .decimate = p->plan.shape.decimate,
                                  .begins = cut.begins};
    term_take(&p->term, &cut);
    target.raw_sequence = term_sequence(&p->term);
    nats_events_mark(&s->events, &marked);
    const uint32_t taken = add(s, &marked, whole.skip, &target);
    if (taken < result->frames - whole.skip) { /* the next result says that these are missing */
        cut.next = whole.first + taken;
        term_take(&p->term, &cut);
        s->ledger.dropped[DROP_QUEUE] += result->frames - whole.skip - taken;
    }
}

static void begin_results(void *context)
{
    struct sink *s = context;
    s->kind.other_plan = nats_keeper_begin(&s->keeper);
    s->owns = s->resumed = true;
    nats_appender_ready(s->appender);
    drain(s);
}

/* The analyses go on before the results do. */
static void begin_term(struct sink *s)
{
    nats_events_begin(&s->events, &s->keeper.newest);
}

/* ---- input ------------------------------------------------------------------------------- */

/* Forgets what waits; returns how many frames that were. */
static uint64_t forget(struct sink *s)
{
    const uint64_t frames = pieces_clear(&s->pieces);
    s->ledger.pending -= frames;
    s->ledger.frames -= frames;
    return frames;
}

/* Whoever has just begun to receive leaves RAW for a lease to those that hold what the last owner
 * had not appended, unless that was of another sender. */
static void stand(struct sink *s, const struct result *input)
{
    const int64_t now_ns = clock_monotonic_ns();
    const int64_t since_ns = gateway_receives(&s->gateway, input, now_ns);
    const struct record *last = nats_appender_last(s->appender);
    if (since_ns == INT64_MAX)
        return;
    nats_successor_say(&s->successor, input->sender.id);
    nats_appender_stand(
        s->appender, now_ns - since_ns >= s->cluster->lease_ns || !(last->flags & RECORD_SENDER) ||
                         last->ssrc != input->sender.id || gateway_holds(&s->gateway, last));
}

/* Another gateway appends it. */
static void keep(struct sink *s)
{
    const uint64_t frames = pieces_keep(&s->pieces);
    s->ledger.pending -= frames;
    s->ledger.frames -= frames;
    s->repeated += frames;
}

static void put_input(struct sink *s, const struct result *result)
{
    if (result->frames == 0)
        return;
    const bool waits = nats_appender_waits(s->appender);
    if (waits && !result->sender.known) {
        s->repeated += result->frames + forget(s);
        gateway_forget(&s->gateway);
        return;
    }
    if (waits)
        keep(s);
    stand(s, result);
    struct piece_target target;
    const uint32_t skip = gateway_place(&s->gateway, result, &target),
                   taken = add(s, result, skip, &target);
    gateway_take(&s->gateway, result, &target, taken);
    s->repeated += skip;
    s->ledger.frames += result->frames - skip;
    s->ledger.dropped[DROP_QUEUE] += result->frames - skip - taken;
}

/* What waits has become more or less than `waited`: it was appended before, or was another one's.
 */
static void recount(struct sink *s, uint64_t waited, bool appended)
{
    const uint64_t more = s->pieces.frames_unsent - waited; /* modulo 2^64 */
    s->ledger.pending += more;
    if (appended) {
        s->ledger.delivered -= more;
    } else {
        s->ledger.frames += more;
        s->repeated -= more;
    }
}

static void resume_input(struct sink *s, const struct record *newest)
{
    const uint64_t waited = s->pieces.frames_unsent;
    const bool gone = newest->kind == 0, own = newest->owner == s->cluster->identity;
    if (s->resumed && gone) /* what follows keeps its numbers */
        gateway_go_back(&s->gateway, &(struct record){0});
    else if (s->resumed && own)
        gateway_go_back(&s->gateway, newest);
    else if (!gateway_succeed(&s->gateway, newest))
        gateway_begin_anew(&s->gateway, newest);
    recount(s, waited, s->resumed && (gone || own));
}

/* ---- the appender's side --------------------------------------------------------------------- */

static void on_resume(void *context, const struct record *newest)
{
    struct sink *s = context;
    if (!s->options.raw) {
        if (nats_keeper_resume(&s->keeper, newest))
            begin_term(s);
        return;
    }
    resume_input(s, newest);
    s->owns = s->resumed = true;
    nats_appender_ready(s->appender);
    drain(s);
}

static void on_stop(void *context)
{
    struct sink *s = context;
    s->owns = false;
    if (s->options.raw)
        return; /* the spool keeps them */
    nats_partition_end(s->partition);
    nats_keeper_stop(&s->keeper);
    nats_events_stop(&s->events);
    s->repeated += forget(s); /* the next owner computes them */
    if (s->options.room_again != NULL)
        s->options.room_again(s->options.room_context);
}

static void on_room(void *context)
{
    struct sink *s = context;
    nats_events_poke(&s->events);
    drain(s);
    if (s->owns)
        nats_keeper_look(&s->keeper);
}

static void on_place(void *context, uint64_t epoch, uint64_t start)
{
    nats_keeper_place(&((struct sink *)context)->keeper, epoch, start);
}

static void on_planned(void *context)
{
    struct sink *s = context;
    nats_appender_describe(s->appender, s->partition->plan.pinned, s->partition->plan.filters);
    if (!s->started)
        nats_appender_start(s->appender);
    s->started = true;
}

static void on_left(void *context)
{
    struct sink *s = context;
    nats_appender_stand(s->appender, false);
    nats_appender_release(s->appender, NULL);
}

static const struct result *nats_number(struct sink *s, const struct result *result)
{
    if (s->partition == NULL || !nats_appender_may_send(s->appender))
        return NULL;
    return nats_outlet_result(&s->outlet, &s->partition->term, result);
}

/* ---- the sink's operations --------------------------------------------------------------- */

static int nats_open(const struct sink_options *options, const struct io_environment *environment,
                     struct sink **out, struct problem *problem)
{
    const struct nats_sink_options *own = options->own;
    struct sink *s = calloc(1, sizeof *s);
    if (s == NULL)
        return problem_set(problem, ERROR_MEMORY, "sink %s: out of memory", options->name);
    s->options = *options;
    s->hub = environment->nats;
    s->cluster = environment->cluster;
    const struct sink_stream *stream = &options->stream;
    s->kind = (struct piece_kind){
        .raw = options->raw,
        .channels = options->raw ? stream->input_channels : stream->channels,
        .format = options->format,
        .rate_hz = options->raw ? stream->input_rate_hz : stream->rate_hz,
    };
    s->frame_bytes = s->kind.channels * s->kind.format.bytes;
    s->block_frames = options->block_bytes / s->frame_bytes;
    s->block_frames += s->block_frames == 0;
    int error = pieces_open(&s->pieces, nats_sink_pieces(options), (uint32_t)own->message_bytes,
                            s->frame_bytes, nats_events_marks(options));
    if (error < 0)
        problem_set(problem, error, "sink %s: no memory for its queue; write a smaller `spool`",
                    options->name);
    s->pieces.joins = options->raw;
    const struct nats_appender_options appender = {
        .loop = environment->loop,
        .cluster = environment->cluster,
        .name = options->name,
        .partition = own->partition,
        .kind = options->raw ? "raw" : "log",
        .input = options->raw,
        .queue_bytes = NATS_QUEUE_BYTES,
        .log = {.file = own->file, .replicas = own->replicas, .age_ns = own->window_ns},
        .presence = options->raw ? NULL : &environment->nats->presence,
        .environment = *environment,
        .successor = &s->successor,
        .resume = on_resume,
        .stop = on_stop,
        .room = on_room,
        .context = s,
    };
    s->events.ready = begin_results;
    s->events.again = drain_again;
    s->events.context = s;
    if (error == 0)
        error = nats_events_open(&s->events, options, environment, problem);
    if (error == 0)
        error = nats_appender_open(&appender, &s->appender, problem);
    if (error < 0) {
        pieces_close(&s->pieces);
        free(s);
        return error;
    }
    *out = s;
    return 0;
}

static void nats_start(struct sink *s)
{
    const struct nats_sink_options *own = s->options.own;
    if (s->options.raw) {
        s->started = true;
        gateway_open(&s->gateway, &s->options, &s->pieces);
        nats_appender_start(s->appender);
        return;
    }
    s->partition = nats_hub_sink(s->hub, own->partition);
    if (s->partition == NULL) {
        log_error("sink %s: out of memory; it appends nothing", s->options.name);
        return;
    }
    s->partition->sink = s;
    s->partition->planned = on_planned;
    s->partition->left = on_left;
    s->partition->place = on_place;
    s->partition->appender = s->appender;
    nats_keeper_open(&s->keeper, &s->options, s->cluster, s->appender, s->partition);
    nats_events_start(&s->events, s->appender);
    if (s->partition->source != NULL)
        on_planned(s);
}

static int64_t nats_put(struct sink *s, const struct result *result)
{
    if (s->options.raw)
        put_input(s, result);
    else
        put_results(s, result);
    return clock_monotonic_ns();
}

static void nats_flush(struct sink *s)
{
    drain(s);
}

static uint64_t nats_room(const struct sink *sink)
{
    struct sink *s = (struct sink *)sink; /* asking is remembered: someone may wait */
    if (!s->owns)
        return UINT64_MAX;
    const uint64_t frames = pieces_free(&s->pieces);
    s->room_wanted = s->room_wanted || frames < s->block_frames;
    return frames;
}

static void nats_analysed(struct sink *s)
{
    nats_events_poke(&s->events);
    drain(s);
}

static void on_events_closed(void *context)
{
    struct sink *s = context;
    const uint64_t frames = pieces_clear(&s->pieces);
    s->ledger.pending -= frames;
    s->ledger.dropped[DROP_STOPPED] += frames;
    if (s->partition != NULL) {
        s->partition->sink = NULL;
        nats_hub_leave(s->hub, s->partition);
        s->partition = NULL;
    }
    s->closed(s->closed_context); /* it still reads the ledger */
    pieces_close(&s->pieces);
    nats_keeper_close(&s->keeper);
    free(s);
}

static void on_appender_closed(void *context)
{
    struct sink *s = context;
    s->appender = NULL;
    nats_events_close(&s->events, clock_monotonic_ns(), on_events_closed, s);
}

static void nats_close(struct sink *s, int64_t deadline_ns, void (*closed)(void *context),
                       void *context)
{
    s->closed = closed;
    s->closed_context = context;
    drain(s);
    /* Whoever appends to RAW next begins an epoch; without this, the worker would wait until then
     * to compute the last block and the tail of this one. */
    if (s->options.raw && s->owns && s->pieces.unsent == s->pieces.next && !is_succeeded(s))
        (void)nats_appender_end(s->appender);
    nats_appender_close(s->appender, deadline_ns, on_appender_closed, s);
}

static bool nats_hand_over(struct sink *s, const char *partition, const char *worker,
                           uint64_t *term, struct problem *problem)
{
    const struct nats_sink_options *own = s->options.own;
    struct nats_appender_figures figures;
    *term = 0;
    if (s->options.raw || strcmp(own->partition, partition) != 0)
        return false;
    if (!s->owns)
        problem_set(problem, ERROR_ARGUMENT,
                    "this daemon does not own the partition now; the status says who does: ask "
                    "that one");
    else if (worker == NULL || nats_presence_takes(&s->hub->presence, worker, problem)) {
        nats_appender_figures(s->appender, &figures);
        *term = figures.term;
        nats_appender_release(s->appender, worker);
    }
    return true;
}

static bool keeper_owns(struct sink *s, uint64_t epoch, struct keeper_frames *frames,
                        struct problem *problem)
{
    return nats_keeper_owns(&s->keeper, s->owns, epoch, frames, problem);
}

static bool keeper_settled(const struct sink *s)
{
    return nats_keeper_settled(&s->keeper);
}

static void keeper_keep(struct sink *s, const struct setting_change *change)
{
    nats_keeper_keep(&s->keeper, &s->pieces, change);
    drain(s);
}

static void keeper_resumed(struct sink *s, bool done)
{
    if (nats_keeper_resumed(&s->keeper, done))
        begin_term(s);
}

static void nats_ledger(const struct sink *s, struct sink_ledger *ledger)
{
    *ledger = s->ledger;
}

static void nats_status(const struct sink *s, void *status)
{
    struct partition_status *shown = status;
    const struct nats_sink_options *own = s->options.own;
    snprintf(shown->partition, sizeof shown->partition, "%s", own->partition);
    shown->kind = s->options.raw ? "raw" : "log";
    shown->repeated = s->repeated;
    shown->has_events = nats_events_has(&s->events);
    shown->events = s->events.figures;
    if (s->appender != NULL) /* else what was read the last time stays */
        nats_appender_figures(s->appender, &shown->appender);
}

/* ---- the row ------------------------------------------------------------------------------ */

static const struct keeper_ops keeper = {keeper_owns, keeper_settled, keeper_keep, keeper_resumed};

const struct sink_ops sink_nats = {
    .name = "nats",
    .sentence = "a log of a partition of a cluster, through NATS JetStream",
    .main_loop = "the connection to the cluster",
    .packets = "records",
    .format = "f32le",
    .order = "a log holds results as they are computed",
    .options = nats_sink_rows,
    .option_count = NATS_SINK_ROWS,
    .options_bytes = sizeof(struct nats_sink_options),
    .check = nats_sink_check,
    .check_all = nats_sink_check_all,
    .report = nats_sink_report,
    .memory = nats_sink_memory,
    .open = nats_open,
    .start = nats_start,
    .put = nats_put,
    .room = nats_room,
    .flush = nats_flush,
    .close = nats_close,
    .ledger = nats_ledger,
    .hand_over = nats_hand_over,
    .keeper = &keeper,
    .analysed = nats_analysed,
    .number = nats_number,
    .status = &nats_partition_status,
    .read_status = nats_status,
    .drains = true,
};
