/* Holes and gaps: see gaps.h. */
#include "stream/gaps.h"

#include <string.h>

#include "core/clock.h"
#include "stream/epochs.h"
#include "stream/ports.h"
#include "stream/presence.h"
#include "stream/state.h"

static struct hole *oldest(struct stream *s)
{
    return s->hole_first == s->hole_next ? NULL : &s->holes[s->hole_first % HOLES_MAX];
}

const struct hole *gaps_oldest(const struct stream *s)
{
    return oldest((struct stream *)s);
}

static void give_up_oldest(struct stream *s, struct epoch *e);

void gaps_open(struct stream *s, struct epoch *e, uint64_t from, uint64_t until, int64_t seen_ns)
{
    if (s->hole_next - s->hole_first == HOLES_MAX)
        give_up_oldest(s, e);
    s->holes[s->hole_next++ % HOLES_MAX] = (struct hole){from, until, seen_ns, s->debts};
}

void gaps_note_unsent(struct stream *s, const struct epoch *e, uint64_t from, uint64_t until)
{
    while (s->unsent_first != s->unsent_next &&
           s->unsent[s->unsent_first % UNSENT_MAX].until <= e->settled)
        s->unsent_first++;
    if (from >= until || until <= e->settled)
        return;
    if (s->unsent_next - s->unsent_first == UNSENT_MAX)
        s->unsent_first++;
    s->unsent[s->unsent_next++ % UNSENT_MAX] = (struct unsent){from, until};
}

void gaps_forget(struct stream *s)
{
    s->hole_first = s->hole_next;
    s->unsent_first = s->unsent_next;
    s->lost_upstream.count = 0;
    s->debts = (struct gap_debts){0};
}

/* ---- giving up ----------------------------------------------------------------------------- */

/* Missing frames [from, until) as the raw ports get them; everything before them is present or
 * given up, so that what the list has no room for can go out first. Where that is too much for one
 * turn, ports_put_raw flags them without their cause. */
static void flag_raw(struct stream *s, struct epoch *e, uint64_t from, uint64_t until,
                     enum invalid_cause cause)
{
    if (s->has_raw && gaps_raw_make_room(s, e, from, 1))
        ranges_add(raw_invalid_of(s, e), from, until, cause);
}

/* Counts missing frames [from, until) of one cause and flags what they reach. */
static void count_cause(struct stream *s, struct epoch *e, uint64_t from, uint64_t until,
                        enum invalid_cause cause)
{
    s->stats.gap[cause] += until - from;
    s->stats.awaited -= until - from;
    ranges_add(&e->invalid, from, until + s->taps_longest - 1, cause);
    flag_raw(s, e, from, until, cause);
}

/* Frames [from, until) may still come late. */
static void note_gap(struct stream *s, const struct epoch *e, uint64_t from, uint64_t until)
{
    struct gap *last = &s->gaps[(s->gap_next - 1) % GAPS_MAX];
    if (s->gap_next > 0 && last->epoch == e->number && last->until == from && last->from < from)
        last->until = until; /* a gap given up in several turns */
    else
        s->gaps[s->gap_next++ % GAPS_MAX] = (struct gap){e->number, from, until};
}

/* Those that were reported as lost before the hole was seen, without saying which, come first; the
 * rest is the network's. */
static void count_unexplained(struct stream *s, struct epoch *e, struct gap_debts *debts,
                              uint64_t from, uint64_t until)
{
    struct {
        uint64_t *debt;
        enum invalid_cause cause;
    } known[] = {{&debts->overload, INVALID_OVERLOAD},
                 {&debts->socket, INVALID_SOCKET},
                 {&debts->capture, INVALID_CAPTURE}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint64_t part = *known[i].debt < until - from ? *known[i].debt : until - from;
        if (part == 0)
            continue;
        *known[i].debt -= part;
        count_cause(s, e, from, from + part, known[i].cause);
        from += part;
    }
    if (from < until) {
        count_cause(s, e, from, until, INVALID_NETWORK);
        note_gap(s, e, from, until);
    }
}

/* Missing frames [from, until): by the causes that the upstream's results reported, where they did.
 */
static void count_lost(struct stream *s, struct epoch *e, struct gap_debts *debts, uint64_t from,
                       uint64_t until)
{
    struct invalid_range known[RANGES_MAX];
    const uint32_t count = ranges_clip(&s->lost_upstream, from, until, known, RANGES_MAX);
    while (from < until) {
        /* the first of them; ranges of different causes may overlap, and count once */
        const struct invalid_range *next = NULL;
        for (uint32_t i = 0; i < count; i++)
            if (known[i].until > from && (next == NULL || known[i].from < next->from))
                next = &known[i];
        if (next == NULL) {
            count_unexplained(s, e, debts, from, until);
            return;
        }
        if (next->from > from) {
            count_unexplained(s, e, debts, from, next->from);
            from = next->from;
        }
        count_cause(s, e, from, next->until, next->cause);
        from = next->until;
    }
}

/* The first run in [from, until) that the sender never sent. */
static struct unsent first_unsent(const struct stream *s, uint64_t from, uint64_t until)
{
    struct unsent first = {until, until};
    for (uint32_t i = s->unsent_first; i != s->unsent_next; i++) {
        const struct unsent *run = &s->unsent[i % UNSENT_MAX];
        if (run->until > from && run->from < first.from)
            first = (struct unsent){run->from > from ? run->from : from,
                                    run->until < until ? run->until : until};
    }
    return first;
}

/* Missing frames [from, until) of a hole with these debts. */
static void count_gap(struct stream *s, struct epoch *e, struct gap_debts *debts, uint64_t from,
                      uint64_t until)
{
    s->stats.last_gap_realtime_ns = s->last_receive_ns + s->offset_ns;
    while (from < until) {
        const struct unsent unsent = first_unsent(s, from, until);
        if (unsent.from > from)
            count_lost(s, e, debts, from, unsent.from);
        if (unsent.until > unsent.from)
            count_cause(s, e, unsent.from, unsent.until, INVALID_SENDER);
        from = unsent.until;
    }
}

static void give_up_oldest(struct stream *s, struct epoch *e)
{
    struct hole *hole = oldest(s);
    uint64_t until = e->base + hole->until;
    uint64_t position = e->base + (hole->from > e->settled ? hole->from : e->settled);
    while ((position = presence_find(s, position, until, false)) < until) {
        uint64_t end = presence_find(s, position, until, true);
        count_gap(s, e, &hole->debts, position - e->base, end - e->base);
        if (end > e->absent_until)
            e->absent_until = end;
        position = end;
    }
    s->hole_first++;
}

void gaps_give_up_all(struct stream *s, struct epoch *e)
{
    while (oldest(s) != NULL)
        give_up_oldest(s, e);
    gaps_settle(s, e);
}

void gaps_give_up_until(struct stream *s, struct epoch *e, uint64_t frame)
{
    struct hole *hole;
    while ((hole = oldest(s)) != NULL && hole->from < frame) {
        struct hole rest = {frame, hole->until, hole->seen_ns, {0}};
        if (hole->until > frame)
            hole->until = frame;
        give_up_oldest(s, e);
        rest.debts = hole->debts; /* the rest of them */
        if (rest.until > frame)
            s->holes[--s->hole_first % HOLES_MAX] = rest;
    }
    gaps_settle(s, e);
}

void gaps_give_up_due(struct stream *s, struct epoch *e, int64_t now_ns)
{
    const struct hole *hole;
    while ((hole = oldest(s)) != NULL && now_ns - hole->seen_ns >= s->options.reorder_ns)
        gaps_give_up_until(s, e, hole->until);
}

/* ---- raw input ------------------------------------------------------------------------------- */

/* Repeats the first `pattern` of `bytes` bytes at `to`: each copy doubles what is there. */
static void repeat(uint8_t *to, uint64_t pattern, uint64_t bytes)
{
    for (uint64_t done = pattern; done < bytes; done *= 2)
        memcpy(to + done, to, done < bytes - done ? done : bytes - done);
}

/* Writes the wire's code of zero into absent frames: what the raw ports get. Everybody else reads
 * absent frames as zero by their presence bits. */
static void write_silence(struct stream *s, uint64_t position, uint64_t frames)
{
    const struct sample_format *format = &s->options.format;
    const uint64_t frame_bytes = s->ring->frame_bytes, slots = s->ring->frames;
    while (frames > 0) {
        const uint64_t slot = position & (slots - 1);
        const uint64_t run = frames < slots - slot ? frames : slots - slot;
        uint8_t *to = s->ring->bytes + slot * frame_bytes;
        sample_encode(format, 0.0, to);
        repeat(to, format->bytes, run * frame_bytes);
        position += run;
        frames -= run;
    }
}

/* All raw input of the epochs before is handed on. */
static void hand_on(struct stream *s, struct epoch *e, uint64_t until)
{
    const uint64_t end = e->base + until;
    uint64_t position = e->base + e->raw_delivered;
    while ((position = presence_find(s, position, end, false)) < end) {
        const uint64_t run_end = presence_find(s, position, end, true);
        write_silence(s, position, run_end - position);
        position = run_end;
    }
    ports_put_raw(s, e, until);
}

/* What one call hands on. */
static uint64_t frames_of_turn(const struct stream *s)
{
    const uint64_t turn = GAPS_TURN_BYTES / s->ring->frame_bytes;
    return turn > 0 ? turn : 1;
}

/* The first frame of the epoch that raw ports cannot have yet. */
static uint64_t raw_end(const struct epoch *e)
{
    return e->ended ? e->head : e->settled;
}

/* Whether raw input of the epoch is due: an open one gives it a block at a time, or when the stream
 * is idle. */
static bool raw_is_due(const struct stream *s, const struct epoch *e)
{
    if (e->ended)
        return e->raw_delivered < e->head;
    return e->settled - e->raw_delivered >= s->hop || e->raw_delivered < e->flush_until;
}

static struct epoch *raw_due(const struct stream *s)
{
    for (uint64_t i = s->epoch_first; s->has_raw && i < s->epoch_next; i++) {
        struct epoch *e = epoch_at((struct stream *)s, i);
        if (raw_is_due(s, e))
            return e;
    }
    return NULL;
}

bool gaps_raw_is_due(const struct stream *s)
{
    return raw_due(s) != NULL;
}

void gaps_raw_turn(struct stream *s)
{
    uint64_t left = frames_of_turn(s);
    struct epoch *e;
    while (left > 0 && (e = raw_due(s)) != NULL) {
        const uint64_t behind = raw_end(e) - e->raw_delivered;
        const uint64_t frames = behind < left ? behind : left;
        hand_on(s, e, e->raw_delivered + frames);
        left -= frames;
    }
    epochs_retire(s);
}

/* Where raw input of the epoch has to be handed on up to, so that none below `position` is left. */
static uint64_t raw_below(const struct epoch *e, uint64_t position)
{
    const uint64_t frame = position > e->base ? position - e->base : 0, end = raw_end(e);
    const uint64_t until = frame < end ? frame : end;
    return until > e->raw_delivered ? until : e->raw_delivered;
}

bool gaps_raw_clear_below(struct stream *s, uint64_t position)
{
    uint64_t frames = 0;
    for (uint64_t i = s->epoch_first; s->has_raw && i < s->epoch_next; i++) {
        const struct epoch *e = epoch_at(s, i);
        frames += raw_below(e, position) - e->raw_delivered;
    }
    if (frames > frames_of_turn(s))
        return false;
    for (uint64_t i = s->epoch_first; frames > 0 && i < s->epoch_next; i++) {
        struct epoch *e = epoch_at(s, i);
        const uint64_t until = raw_below(e, position);
        frames -= until - e->raw_delivered;
        if (until > e->raw_delivered)
            hand_on(s, e, until);
    }
    return true;
}

bool gaps_raw_flush(struct stream *s, struct epoch *e, uint64_t until)
{
    uint64_t frames = until > e->raw_delivered ? until - e->raw_delivered : 0;
    for (uint64_t i = s->epoch_first; i < s->epoch_next && epoch_at(s, i) != e; i++)
        frames += epoch_at(s, i)->head - epoch_at(s, i)->raw_delivered;
    if (frames > frames_of_turn(s))
        return false;
    struct epoch *behind;
    while ((behind = ports_raw_behind(s)) != NULL && behind != e)
        hand_on(s, behind, behind->head);
    hand_on(s, e, until);
    return true;
}

bool gaps_raw_make_room(struct stream *s, struct epoch *e, uint64_t until, uint32_t ranges)
{
    const struct ranges *listed = raw_invalid_of(s, e);
    if (listed->count + ranges > RANGES_MAX)
        gaps_raw_flush(s, e, until);
    return listed->count + ranges <= RANGES_MAX;
}

/* ---- settling ------------------------------------------------------------------------------ */

static void note_ready(struct stream *s, struct epoch *e, uint64_t from, uint64_t until,
                       int64_t now_ns)
{
    for (uint64_t block = from / s->hop; (block + 1) * s->hop <= until; block++)
        block_times_of(s, e, block)->ready_ns = now_ns;
}

void gaps_settle(struct stream *s, struct epoch *e)
{
    uint64_t settled = e->head;
    struct hole *hole;
    while ((hole = oldest(s)) != NULL) {
        uint64_t until = e->base + hole->until;
        uint64_t missing = presence_find(s, e->base + hole->from, until, false);
        if (missing < until) {
            hole->from = missing - e->base;
            settled = hole->from;
            break;
        }
        s->hole_first++;
    }
    if (settled > e->settled) {
        uint64_t from = e->settled;
        /* What is left over from before is for the ticks, however many packets come meanwhile. */
        const bool level = s->has_raw && from - e->raw_delivered < frames_of_turn(s);
        e->settled = settled;
        if (from / s->hop != settled / s->hop)
            note_ready(s, e, from, settled, clock_monotonic_ns());
        if (level && !e->ended && raw_due(s) == e)
            gaps_raw_turn(s);
    }
}

/* ---- late frames --------------------------------------------------------------------------- */

void gaps_mark_late(struct stream *s, struct epoch *e, uint64_t from, uint64_t until)
{
    for (uint32_t i = 0; i < GAPS_MAX; i++) {
        struct gap *gap = &s->gaps[i];
        uint64_t a = from > gap->from ? from : gap->from;
        uint64_t b = until < gap->until ? until : gap->until;
        if (gap->epoch != e->number || a >= b)
            continue;
        s->stats.gap[INVALID_NETWORK] -= b - a;
        s->stats.gap[INVALID_LATE] += b - a;
        if (b + s->taps_longest - 1 > e->delivered)
            ranges_add(&e->invalid, a, b + s->taps_longest - 1, INVALID_LATE);
        struct ranges *raw = raw_invalid_of(s, e);
        if (s->has_raw && b > e->raw_delivered && raw->count + 3 <= RANGES_MAX) {
            ranges_remove(raw, a, b, INVALID_NETWORK);
            ranges_add(raw, a, b, INVALID_LATE);
        }
        struct gap right = {gap->epoch, b, gap->until};
        gap->until = a;
        if (right.from < right.until)
            s->gaps[s->gap_next++ % GAPS_MAX] = right;
    }
}
