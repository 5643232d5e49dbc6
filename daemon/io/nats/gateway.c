/* Numbers of a gateway's input in RAW: see gateway.h. */
#include "io/nats/gateway.h"

#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "io/nats/numbered.h"

/* Frame numbers are taken modulo 2^64: `a` lies behind `b`. */
static bool behind(uint64_t a, uint64_t b)
{
    return (int64_t)(a - b) > 0;
}

void gateway_open(struct nats_gateway *g, const struct sink_options *options, struct pieces *pieces)
{
    *g = (struct nats_gateway){.options = options, .pieces = pieces};
}

/* ---- input ------------------------------------------------------------------------------- */

/* The longest loss that an epoch of RAW goes on over [frames]. */
static bool is_too_long(const struct nats_gateway *g, uint64_t from, uint64_t until)
{
    const struct sink_stream *stream = &g->options->stream;
    const double most = (double)stream->input_max_gap_ns * 1e-9 * stream->input_rate_hz;
    return most > 0 && (double)(int64_t)(until - from) > most;
}

/* Whether the input begins an epoch of RAW: it is of another one of the stream, or more of it is
 * lost before than the stream's own epochs go on over. */
static bool begins_epoch(const struct nats_gateway *g, const struct result *input, bool begun)
{
    return !g->numbered || input->epoch != g->local_epoch ||
           is_too_long(g, g->local_from + (begun ? g->sent_next : 0), input->first_frame);
}

uint32_t gateway_place(struct nats_gateway *g, const struct result *input,
                       struct piece_target *target)
{
    const bool begun = g->sent_epoch == g->raw_epoch; /* a piece of it was taken */
    if (begins_epoch(g, input, begun)) {
        g->raw_epoch += g->numbered && (begun || input->epoch != g->local_epoch);
        if (!g->numbered && g->raw_epoch < input->epoch)
            g->raw_epoch = input->epoch; /* a RAW that is gone may have had those before */
        g->numbered = true;
        g->local_epoch = input->epoch;
        g->local_from = input->first_frame;
        g->sent_epoch = UINT64_MAX;
    }
    uint64_t first = input->first_frame - g->local_from, skip = 0;
    if (g->sent_epoch == g->raw_epoch && behind(g->sent_next, first))
        skip = g->sent_next - first;
    skip = skip < input->frames ? skip : input->frames;
    first += skip;
    const bool begins = g->sent_epoch != g->raw_epoch || first == 0;
    *target =
        (struct piece_target){.epoch = g->raw_epoch,
                              .from = begins ? 0 : g->sent_next,
                              .first = first,
                              .timeline = input->timeline_frame + skip + g->timeline,
                              .decimate = 1,
                              .sender = {input->sender.known, input->sender.id,
                                         input->sender.frame + (uint32_t)skip - (uint32_t)first},
                              .begins = begins};
    return (uint32_t)skip;
}

void gateway_take(struct nats_gateway *g, const struct result *input,
                  const struct piece_target *target, uint32_t frames)
{
    if (frames == 0)
        return; /* the next piece tells of these frames, too */
    g->sent_epoch = g->raw_epoch;
    g->sent_next = target->first + frames;
    const double rate_hz = g->options->stream.input_rate_hz;
    g->end = (struct record){.kind = RECORD_DATA,
                             .flags = input->sender.known ? RECORD_SENDER : 0,
                             .epoch = g->sent_epoch,
                             .from = g->sent_next,
                             .first = g->sent_next,
                             .next = g->sent_next,
                             .timeline = target->timeline + frames,
                             .rate_hz = rate_hz,
                             .capture_ns = input->capture_ns +
                                           clock_round_ns((double)input->frames * 1e9 / rate_hz),
                             .ssrc = input->sender.id,
                             .timestamp = input->sender.frame + input->frames};
}

void gateway_forget(struct nats_gateway *g)
{
    g->local_epoch = UINT64_MAX;
}

int64_t gateway_receives(struct nats_gateway *g, const struct result *input, int64_t now_ns)
{
    if (!input->sender.known)
        return INT64_MAX;
    if (!g->receives || g->ssrc != input->sender.id)
        g->began_ns = now_ns;
    g->receives = true;
    g->ssrc = input->sender.id;
    return g->began_ns;
}

/* ---- as before --------------------------------------------------------------------------- */

void gateway_go_back(struct nats_gateway *g, const struct record *newest)
{
    uint64_t lost;
    (void)pieces_go_back(g->pieces, newest, &lost);
    if (lost > 0)
        log_warning("sink %s: RAW went back by more than the spool holds: %llu frames are lost",
                    g->options->name, (unsigned long long)lost);
}

/* ---- as successor ------------------------------------------------------------------------ */

/* Pieces that follow each other in one epoch, as this gateway numbers it, and where the frame
 * behind RAW's newest record lies among them. */
struct place {
    uint64_t first, last; /* pieces [first, last) */
    uint64_t epoch;
    uint64_t from;            /* the first frame */
    const struct record *end; /* the last record */
    uint64_t position; /* may lie before the epoch's frame 0, modulo 2^64, or behind `last` */
};

/* The run of pieces that ends before number `last`. */
static struct place run_before(struct pieces *p, uint64_t last)
{
    struct place run = {.first = last, .last = last, .end = &piece_at(p, last - 1)->record};
    run.epoch = run.end->epoch;
    while (run.first > p->oldest && piece_at(p, run.first - 1)->record.epoch == run.epoch)
        run.first--;
    run.from = piece_at(p, run.first)->record.from;
    return run;
}

/* The same of the newest input, where no piece is left. */
static struct place run_of_none(const struct nats_gateway *g)
{
    const uint64_t next = g->pieces->next;
    return (struct place){
        .first = next, .last = next, .epoch = g->end.epoch, .from = g->end.next, .end = &g->end};
}

static enum numbered_match match(struct place *run, const struct numbered_mark *mark)
{
    if (!(run->end->flags & RECORD_SENDER))
        return MATCH_NONE;
    const struct numbered_mark end = numbered_mark_of(run->end);
    const struct numbered_run numbers = {.ssrc = end.ssrc,
                                         .from = (int64_t)run->from,
                                         .until = (int64_t)run->end->next,
                                         .timestamp = end.timestamp,
                                         .until_ns = end.capture_ns};
    int64_t position = 0;
    const enum numbered_match found = numbered_match(&numbers, run->end->rate_hz, mark, &position);
    run->position = (uint64_t)position;
    return found;
}

/* Whether both gateways are configured alike. */
static bool is_alike(const struct nats_gateway *g, const struct record *r)
{
    const struct sink_stream *stream = &g->options->stream;
    return r->channels == stream->input_channels && r->rate_hz == stream->input_rate_hz &&
           memcmp(&r->format, &g->options->format, sizeof r->format) == 0;
}

/* MATCH_NONE: nothing that is kept is of the sender that `newest` is of, or of its kind. */
static enum numbered_match find(struct nats_gateway *g, const struct record *newest,
                                struct place *place)
{
    struct pieces *p = g->pieces;
    const struct numbered_mark mark = numbered_mark_of(newest);
    enum numbered_match best = MATCH_NONE;
    if (newest->kind == 0 || !(newest->flags & RECORD_SENDER) || !is_alike(g, newest))
        return MATCH_NONE;
    if (p->next == p->oldest) {
        *place = run_of_none(g);
        return match(place, &mark);
    }
    for (uint64_t last = p->next; last > p->oldest;) {
        struct place run = run_before(p, last);
        const enum numbered_match found = match(&run, &mark);
        if (found > best) {
            best = found;
            *place = run;
        }
        last = run.first;
    }
    return best;
}

bool gateway_holds(struct nats_gateway *g, const struct record *newest)
{
    struct place place;
    return find(g, newest, &place) >= MATCH_BEHIND;
}

/* How the numbers of this gateway become those of RAW. */
struct renumbering {
    uint64_t epoch, raw_epoch; /* this one of its own is that one there; those behind likewise */
    uint64_t shift;            /* added to the frames of this one */
    uint64_t timeline;
};

static void renumber(struct piece *piece, const struct renumbering *by)
{
    const bool here = piece->record.epoch == by->epoch;
    piece_renumber(piece, here ? 0 - by->shift : 0,
                   piece->record.epoch - by->epoch + by->raw_epoch);
    piece->record.timeline += by->timeline;
}

/* The numbers of what comes from now on; RAW has got frame `next` of the renumbered epoch. */
static void go_on(struct nats_gateway *g, const struct renumbering *by, uint64_t next)
{
    const bool here = g->raw_epoch == by->epoch, begun = g->sent_epoch == g->raw_epoch;
    if (here) {
        g->local_from -= by->shift;
        g->sent_next += by->shift;
        if (!begun || behind(next, g->sent_next))
            g->sent_next = next;
    }
    g->raw_epoch += by->raw_epoch - by->epoch;
    g->sent_epoch = here || begun ? g->raw_epoch : UINT64_MAX;
    g->timeline += by->timeline;
    g->end.next += g->end.epoch == by->epoch ? by->shift : 0;
    g->end.from = g->end.first = g->end.next;
    g->end.epoch += by->raw_epoch - by->epoch;
    g->end.timeline += by->timeline;
}

/* The first piece that RAW has not got: RAW ends before frame `next` of its epoch. */
static void begin_at(struct piece *piece, uint64_t next, bool anew, bool pushed_out)
{
    struct record *r = &piece->record;
    r->flags &= ~(uint32_t)RECORD_EPOCH_START;
    r->flags |= anew ? RECORD_EPOCH_START : 0;
    if (r->from > next)
        piece_declare(piece, next, pushed_out ? INVALID_OVERLOAD : INVALID_NETWORK);
}

bool gateway_succeed(struct nats_gateway *g, const struct record *newest)
{
    struct pieces *p = g->pieces;
    struct place place = {0};
    if (find(g, newest, &place) == MATCH_NONE)
        return false;
    uint64_t at = place.first, start = place.position;
    while (at < place.last && !behind(piece_at(p, at)->record.next, place.position))
        at++;
    struct piece *piece = piece_at(p, at);
    const bool here = at < place.last;
    const bool too_long = here && is_too_long(g, place.position, piece->record.from);
    if (too_long)
        start = piece->record.from;
    /* An epoch that has ended does not go on; one that begins here by itself does it by itself. */
    const bool anew = too_long || ((newest->flags & RECORD_EPOCH_END) && (here || at == p->next));
    const uint64_t next = anew ? 0 : newest->next;
    const struct renumbering by = {.epoch = place.epoch,
                                   .raw_epoch = newest->epoch + anew,
                                   .shift = next - start,
                                   .timeline =
                                       newest->timeline + (newest->next - newest->first) -
                                       (place.end->timeline + (place.position - place.end->first))};
    const bool pushed_out = here && !(piece->record.flags & RECORD_EPOCH_START);
    if (here && behind(start, piece->record.from))
        piece_cut(p, piece, start);
    for (uint64_t i = at; i < p->next; i++)
        renumber(piece_at(p, i), &by);
    if (here)
        begin_at(piece, next, anew, pushed_out);
    pieces_wait_from(p, at);
    go_on(g, &by, next);
    log_info("sink %s: goes on in epoch %llu of RAW at frame %llu, with %llu frames that it has "
             "kept",
             g->options->name, (unsigned long long)by.raw_epoch, (unsigned long long)next,
             (unsigned long long)p->frames_unsent);
    return true;
}

/* ---- anew -------------------------------------------------------------------------------- */

void gateway_begin_anew(struct nats_gateway *g, const struct record *newest)
{
    struct pieces *p = g->pieces;
    uint64_t base = newest->kind != 0 ? newest->epoch + 1 : newest->epoch;
    p->oldest = p->unsent; /* what is older is of another numbering */
    if (p->unsent < p->next)
        pieces_cut_stored(p);
    g->end.flags = 0; /* likewise */
    if (p->unsent == p->next) {
        g->numbered = g->numbered || newest->kind != 0;
        g->raw_epoch = base - g->numbered;
        g->local_epoch = UINT64_MAX; /* the next result begins it */
        return;
    }
    const struct record first = piece_at(p, p->unsent)->record;
    base = newest->kind == 0 && base < first.epoch ? first.epoch : base;
    if (g->raw_epoch == first.epoch) {
        g->local_from += first.from;
        g->sent_next -= first.from;
    }
    for (uint64_t at = p->unsent; at < p->next; at++) {
        struct piece *piece = piece_at(p, at);
        piece_renumber(piece, piece->record.epoch == first.epoch ? first.from : 0,
                       piece->record.epoch - first.epoch + base);
    }
    piece_at(p, p->unsent)->record.flags |= RECORD_EPOCH_START;
    g->raw_epoch += base - first.epoch;
    g->sent_epoch += base - first.epoch;
}
