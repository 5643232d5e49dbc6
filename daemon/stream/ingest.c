/*
 * Ingest: packets into the ring. A payload goes where its frame number says and nowhere
 * else; what is missing is awaited for the reorder window, then given up as a gap with a
 * cause. Owns the first two ledgers' stream side: every frame that enters the timeline is
 * received, awaited or a gap, and the counters move where that happens.
 *
 * Loop thread; nothing here allocates, locks or logs.
 */
#include "stream/internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/clock.h"

/* ---- presence bits ----------------------------------------------------------------------- */

/* Sets or clears the bits of positions [from, until), word by word; at most one lap. */
void stream_mark(struct stream *s, uint64_t from, uint64_t until, bool present)
{
    uint32_t mask = s->ring->frames - 1;
    while (from < until) {
        uint32_t slot = (uint32_t)(from & mask);
        uint32_t bit = slot % 32;
        uint64_t run = 32 - bit;
        if (run > until - from)
            run = until - from;
        uint32_t bits = (run == 32 ? UINT32_MAX : ((UINT32_C(1) << run) - 1)) << bit;
        if (present)
            s->ring->present[slot / 32] |= bits;
        else
            s->ring->present[slot / 32] &= ~bits;
        from += run;
    }
}

/* First position in [from, until) whose bit equals `present`; `until` when there is none. */
uint64_t stream_find(const struct stream *s, uint64_t from, uint64_t until, bool present)
{
    uint32_t mask = s->ring->frames - 1;
    while (from < until) {
        uint32_t slot = (uint32_t)(from & mask);
        uint32_t word = s->ring->present[slot / 32];
        word = (present ? word : ~word) >> (slot % 32);
        if (word != 0) {
            uint64_t found = from + (uint64_t)__builtin_ctz(word);
            return found < until ? found : until;
        }
        from += 32 - slot % 32;
    }
    return until;
}

/* Positions below `until` get valid bits: absent, until a packet says otherwise. */
void stream_clear_until(struct stream *s, uint64_t until)
{
    if (until > s->cleared_until) {
        stream_mark(s, s->cleared_until, until, false);
        s->cleared_until = until;
    }
}

static void copy_in(struct stream *s, uint64_t position, const uint8_t *payload, uint64_t frames)
{
    uint32_t frame_bytes = s->ring->frame_bytes;
    uint64_t slot = position & (s->ring->frames - 1);
    uint64_t first = s->ring->frames - slot;
    if (first > frames)
        first = frames;
    uint8_t *to = s->ring->bytes + slot * frame_bytes;
    if (payload == to) /* received right here: stream_vacant */
        return;
    memcpy(to, payload, first * frame_bytes);
    memcpy(s->ring->bytes, payload + first * frame_bytes, (frames - first) * frame_bytes);
}

/* Results of the same device need not go there again: they are in its memory. What lies before them
 * must have been told, or be absent. */
static void feed(struct stream *s, uint64_t position, const uint8_t *payload, uint64_t frames)
{
    uint64_t end = position + frames, lap = end > s->ring->frames ? end - s->ring->frames : 0;
    uint64_t from = position < s->fresh_until ? position : s->fresh_until;
    if (from < lap) /* what lay there is overwritten */
        from = lap;
    if (stream_find(s, from, position, true) < position && position > s->fresh_until)
        return;
    if (engine_ring_feed(s->engine, s->ring, from, position, payload, (uint32_t)frames)) {
        if (end > s->fresh_until)
            s->fresh_until = end;
    } else if (position < s->fresh_until) {
        s->fresh_until = position; /* told once more, with these */
    }
}

/* Wire code of zero for absent frames: what a recording of the raw input shows there. */
static void copy_in_silence(struct stream *s, uint64_t position, uint64_t frames)
{
    const struct sample_format *format = &s->options.format;
    uint8_t code[4];
    sample_encode(format, 0.0, code);
    uint32_t mask = s->ring->frames - 1;
    for (uint64_t i = 0; i < frames; i++) {
        uint8_t *frame = s->ring->bytes + ((position + i) & mask) * s->ring->frame_bytes;
        for (uint32_t channel = 0; channel < s->options.channels; channel++)
            memcpy(frame + channel * format->bytes, code, format->bytes);
    }
}

/* ---- holes ------------------------------------------------------------------------------- */

static struct hole *first_hole(struct stream *s)
{
    return s->hole_first == s->hole_next ? NULL : &s->holes[s->hole_first % HOLES_MAX];
}

/* Blames `frames` missing frames on a cause and says which; socket drops and refusals are known,
 * the rest is network. */
static void count_gap(struct stream *s, struct epoch *e, uint64_t from, uint64_t until)
{
    struct {
        uint64_t *debt;
        enum invalid_cause cause;
    } known[] = {{&s->overload_debt, INVALID_OVERLOAD},
                 {&s->socket_debt, INVALID_SOCKET},
                 {&s->capture_debt, INVALID_CAPTURE}};
    s->stats.last_gap_realtime_ns = s->last_receive_ns + s->offset_ns;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint64_t part = *known[i].debt < until - from ? *known[i].debt : until - from;
        if (part == 0)
            continue;
        *known[i].debt -= part;
        s->stats.gap[known[i].cause] += part;
        s->stats.awaited -= part;
        ranges_add(&e->invalid, from, from + part + s->taps_longest - 1, known[i].cause);
        from += part;
    }
    if (from < until) {
        s->stats.gap[INVALID_NETWORK] += until - from;
        s->stats.awaited -= until - from;
        ranges_add(&e->invalid, from, until + s->taps_longest - 1, INVALID_NETWORK);
        s->gaps[s->gap_next++ % GAPS_MAX] = (struct gap){e->number, from, until};
    }
}

/* Gives up what is still missing of the oldest hole. */
static void give_up_hole(struct stream *s, struct epoch *e)
{
    struct hole *hole = first_hole(s);
    uint64_t until = e->base + hole->until;
    uint64_t position = e->base + (hole->from > e->settled ? hole->from : e->settled);
    while ((position = stream_find(s, position, until, false)) < until) {
        uint64_t end = stream_find(s, position, until, true);
        count_gap(s, e, position - e->base, end - e->base);
        copy_in_silence(s, position, end - position);
        if (end > e->absent_until)
            e->absent_until = end;
        position = end;
    }
    s->hole_first++;
}

static void note_ready(struct stream *s, struct epoch *e, uint64_t from, uint64_t until,
                       int64_t now_ns)
{
    for (uint64_t block = from / s->hop; (block + 1) * s->hop <= until; block++)
        block_times_of(s, e, block)->ready_ns = now_ns;
}

/* Moves `settled` over everything that is present or given up. */
static void settle(struct stream *s, struct epoch *e)
{
    uint64_t settled = e->head;
    struct hole *hole;
    while ((hole = first_hole(s)) != NULL) {
        uint64_t until = e->base + hole->until;
        uint64_t missing = stream_find(s, e->base + hole->from, until, false);
        if (missing < until) {
            hole->from = missing - e->base;
            settled = hole->from;
            break;
        }
        s->hole_first++;
    }
    if (settled > e->settled) {
        uint64_t from = e->settled;
        e->settled = settled;
        if (from / s->hop != settled / s->hop)
            note_ready(s, e, from, settled, clock_monotonic_ns());
        if (s->has_raw && (settled - e->raw_delivered >= s->hop || e->ended))
            stream_deliver_raw(s, e, settled);
    }
}

static void give_up_all(struct stream *s, struct epoch *e)
{
    while (first_hole(s) != NULL)
        give_up_hole(s, e);
    settle(s, e);
}

void stream_give_up_until(struct stream *s, struct epoch *e, uint64_t frame)
{
    const struct hole *hole;
    while ((hole = first_hole(s)) != NULL && hole->from < frame) {
        struct hole rest = {frame, hole->until, hole->seen_ns};
        if (hole->until > frame)
            s->holes[s->hole_first % HOLES_MAX].until = frame;
        give_up_hole(s, e);
        if (rest.until > frame)
            s->holes[--s->hole_first % HOLES_MAX] = rest;
    }
    settle(s, e);
}

/* ---- epochs ------------------------------------------------------------------------------ */

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

void stream_end_epoch(struct stream *s, struct epoch *e, int64_t now_ns)
{
    e->ended = true;
    give_up_all(s, e);
    if (s->has_raw)
        stream_deliver_raw(s, e, e->head);
    uint64_t tail = s->options.tail && e->head > 0 ? s->taps_longest - 1 : 0;
    e->output_end = e->head + tail;
    e->ended_ns = now_ns;
    ranges_add(&e->invalid, e->head, e->head + s->taps_longest - 1, INVALID_TAIL);
    s->stats.timeline_out += tail;
    s->stats.waiting += tail;
    /* Blocks beyond the last whole one never get frames of their own: they were complete when the
     * epoch ended. */
    for (uint64_t block = e->head / s->hop; block * s->hop < e->output_end; block++) {
        struct block_times *times = block_times_of(s, e, block);
        /* What is left of it is input, or tail alone: the tail is due now, not when the input came.
         */
        bool has_input = block * s->hop < e->head && e->submitted < e->head;
        times->ready_ns = now_ns;
        if (!has_input)
            times->first_ns = times->last_ns = now_ns;
        if (block - e->head / s->hop >= s->times_mask)
            break;
    }
    stream_deliver_end(s, e);
}

/* Where the next epoch's frame 0 goes: beyond the tail and one silent history. */
static uint64_t next_base(const struct stream *s)
{
    if (s->epoch_first == s->epoch_next && s->stats.epochs == 0)
        return round_up(s->cleared_until, s->hop);
    const struct epoch *e = &s->epochs[(s->epoch_next - 1) % EPOCHS_MAX];
    return round_up(e->base, s->hop) + round_up(e->head + s->taps_longest - 1, s->hop) +
           round_up(s->history, s->hop) + s->hop;
}

/* Output time stamps go on by the time that has passed, and never run into the tail before. */
static uint64_t next_timeline(const struct stream *s, const struct packet *packet)
{
    if (s->stats.epochs == 0)
        return 0;
    const struct epoch *last = &s->epochs[(s->epoch_next - 1) % EPOCHS_MAX];
    uint64_t least = last->timeline_base + last->output_end;
    uint64_t elapsed = 0;
    if ((!(packet->flags & PACKET_DISCONTINUITY) || packet->flags & PACKET_TIMED) &&
        packet->first_frame > last->source_origin) {
        elapsed = packet->first_frame - last->source_origin; /* the source's own count */
    } else {
        double begun_ns = (double)clock_line_time_ns(&s->line, (double)last->source_origin);
        double frames = (double)packet->frames + packet->frames_behind;
        double now_ns = (double)packet->receive_ns - frames * 1e9 / s->options.rate_hz;
        if (now_ns > begun_ns)
            elapsed = (uint64_t)llround((now_ns - begun_ns) * s->options.rate_hz / 1e9);
    }
    uint64_t wanted = last->timeline_base + elapsed;
    return decimation_grid(s->kept.factor, wanted > least ? wanted : least);
}

enum { CLOCK_BREAK_NS = 5 * NS_PER_MS };

/* A recorder's count need not go on between its records, or may run away: then it says nothing of
 * the time that has passed. */
static bool count_is_no_clock(const struct stream *s, const struct packet *packet)
{
    if (!s->options.records || packet->flags & PACKET_CAPTURE || !s->line.started)
        return false;
    int64_t expected_ns = clock_line_time_ns(
        &s->line, (double)(packet->first_frame + packet->frames + packet->frames_behind));
    int64_t off_ns = packet->receive_ns - expected_ns;
    return (off_ns < 0 ? -off_ns : off_ns) > 4 * clock_line_error_ns(&s->line) + CLOCK_BREAK_NS;
}

/* The line is about to begin anew: epochs with results still to come take their times with them. */
static void keep_capture_times(struct stream *s)
{
    double rate_hz, ppm;
    if (!clock_line_rate(&s->line, &rate_hz, &ppm))
        rate_hz = s->options.rate_hz;
    for (uint64_t i = s->epoch_first; i < s->epoch_next; i++) {
        struct epoch *e = epoch_at(s, i);
        if (e->capture_known)
            continue;
        e->capture_ns = stream_capture_ns(s, e, (double)e->head, &e->clock, &e->capture_error_ns);
        e->capture_frame = e->head;
        e->capture_rate_hz = rate_hz;
        e->capture_known = true;
    }
}

/* NULL when the ring or the list of epochs has no room. */
static struct epoch *begin_epoch(struct stream *s, struct packet *packet)
{
    if (s->epoch_next - s->epoch_first == EPOCHS_MAX)
        return NULL;
    uint64_t base = next_base(s);
    if (!stream_make_room(s, base + packet->frames))
        return NULL;
    if (count_is_no_clock(s, packet))
        packet->flags |= PACKET_DISCONTINUITY;
    uint64_t timeline_base = next_timeline(s, packet);
    if (packet->flags & PACKET_DISCONTINUITY || s->stats.epochs == 0) {
        keep_capture_times(s);
        clock_line_reset(&s->line, s->options.rate_hz);
    }
    struct epoch *e = epoch_at(s, s->epoch_next);
    *e = (struct epoch){
        .number = s->stats.epochs,
        .base = base,
        .source_origin = packet->first_frame,
        .timeline_base = timeline_base,
        .absent_until = base,
        .clock = CLOCK_SOURCE_RECEIVE,
    };
    if (s->options.records)
        e->record = s->stats.records++;
    s->epoch_next++;
    s->stats.epochs++;
    stream_clear_until(s, base);
    ranges_add(&e->invalid, 0, s->taps_longest - 1, INVALID_SETTLING);
    s->hole_first = s->hole_next;
    s->socket_debt = s->overload_debt = s->capture_debt =
        0; /* what was dropped before belongs to no gap of this epoch */
    s->begin_flags = 0;
    return e;
}

/* ---- placing ----------------------------------------------------------------------------- */

/* Blocks the head moves into begin with this packet, also those that lie wholly in a hole. */
static void note_receive(struct stream *s, struct epoch *e, uint64_t from, uint64_t until,
                         int64_t receive_ns, uint64_t old_head)
{
    uint64_t reach = from < old_head ? from : old_head;
    for (uint64_t block = reach / s->hop; block * s->hop < until; block++) {
        struct block_times *times = block_times_of(s, e, block);
        if (old_head <= block * s->hop) {
            times->first_ns = times->last_ns = receive_ns;
        } else if (from < (block + 1) * s->hop) {
            if (receive_ns < times->first_ns)
                times->first_ns = receive_ns;
            if (receive_ns > times->last_ns)
                times->last_ns = receive_ns;
        }
    }
}

/* Frames [from, until) of the epoch, some of which may be there already or given up. Returns the
 * frames that were new. */
static uint64_t place_frames(struct stream *s, struct epoch *e, const struct packet *packet,
                             uint64_t from, uint64_t until, uint64_t *late)
{
    uint64_t placed = 0;
    *late = 0;
    uint64_t position = e->base + from;
    uint64_t end = e->base + until;
    while ((position = stream_find(s, position, end, false)) < end) {
        uint64_t run_end = stream_find(s, position, end, true);
        uint64_t settled = e->base + e->settled;
        if (position < settled) {
            if (run_end > settled)
                run_end = settled;
            *late += run_end - position;
        } else {
            uint64_t offset = position - e->base - from;
            copy_in(s, position, packet->payload + offset * s->ring->frame_bytes,
                    run_end - position);
            stream_mark(s, position, run_end, true);
            if (packet->flags & PACKET_RESULT)
                feed(s, position, packet->payload + offset * s->ring->frame_bytes,
                     run_end - position);
            placed += run_end - position;
        }
        position = run_end;
    }
    return placed;
}

/*
 * Frames came after they had been given up as lost: the gap's cause was lateness. Each missing
 * frame is moved once: what is moved leaves the list of gaps, so a late duplicate moves nothing.
 */
static void reattribute_late(struct stream *s, struct epoch *e, uint64_t from, uint64_t until)
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
        struct gap right = {gap->epoch, b, gap->until};
        gap->until = a;
        if (right.from < right.until)
            s->gaps[s->gap_next++ % GAPS_MAX] = right;
    }
}

static void inherit_ranges(struct stream *s, struct epoch *e, const struct packet *packet)
{
    for (uint32_t i = 0; i < packet->invalid_count; i++) {
        const struct invalid_range *range = &packet->invalid[i];
        if (range->until <= e->source_origin)
            continue;
        uint64_t from = range->from > e->source_origin ? range->from - e->source_origin : 0;
        ranges_add(&e->invalid, from, range->until - e->source_origin + s->taps_longest - 1,
                   range->cause);
    }
}

static struct epoch *epoch_for(struct stream *s, const struct packet *packet)
{
    uint32_t flags = packet->flags | s->begin_flags;
    struct epoch *e = epoch_open(s);
    bool jump = e != NULL && packet->first_frame > e->source_origin + e->head &&
                packet->first_frame - e->source_origin - e->head > s->jump_max;
    if (e != NULL && !jump && !(flags & (PACKET_DISCONTINUITY | PACKET_RECORD)))
        return e;
    if (e != NULL)
        stream_end_epoch(s, e, packet->receive_ns);
    struct packet beginning = *packet;
    beginning.flags = flags | (jump ? PACKET_DISCONTINUITY : 0);
    e = begin_epoch(s, &beginning);
    if (e == NULL)
        s->begin_flags = beginning.flags & (PACKET_DISCONTINUITY | PACKET_RECORD);
    return e;
}

enum verdict stream_put(struct stream *s, const struct packet *packet)
{
    assert(packet->frames > 0);
    if (s->stopping)
        return VERDICT_REFUSED;
    struct epoch *e = epoch_for(s, packet);
    if (e == NULL)
        return VERDICT_OUT_OF_WINDOW;
    if (packet->first_frame < e->source_origin)
        return VERDICT_LATE; /* from before the epoch: never part of its timeline */

    uint64_t from = packet->first_frame - e->source_origin;
    uint64_t until = from + packet->frames;
    if (until > e->head && !stream_make_room(s, e->base + until)) {
        s->overload_debt += packet->frames;
        return VERDICT_OUT_OF_WINDOW;
    }
    s->offset_ns = packet->receive_realtime_ns - packet->receive_ns;
    s->last_receive_ns = packet->receive_ns;
    s->packet_frames = packet->frames;

    uint64_t old_head = e->head;
    if (until > old_head) {
        stream_clear_until(s, e->base + until);
        if (from > old_head) {
            if (s->hole_next - s->hole_first == HOLES_MAX)
                give_up_hole(s, e);
            s->holes[s->hole_next++ % HOLES_MAX] =
                (struct hole){old_head, from, packet->receive_ns};
        }
        uint64_t grown = until - old_head;
        s->stats.timeline_in += grown;
        s->stats.awaited += grown;
        s->stats.timeline_out += grown;
        s->stats.waiting += grown;
        e->head = until;
    }
    if (e->head > from && packet->flags & PACKET_CAPTURE && until > old_head) {
        e->capture_known = true;
        e->capture_frame = from;
        e->capture_rate_hz = s->options.rate_hz;
        e->capture_ns = packet->capture_ns;
        e->capture_error_ns = packet->clock_error_ns;
        e->clock = packet->clock;
    }
    uint64_t late;
    uint64_t placed = place_frames(s, e, packet, from, until, &late);
    s->stats.awaited -= placed;
    s->stats.received += placed;
    if (late > 0)
        reattribute_late(s, e, from, until);
    if (placed > 0) {
        clock_line_add(&s->line, packet->first_frame + packet->frames + packet->frames_behind,
                       packet->receive_ns);
        if (!e->capture_known)
            e->clock = packet->clock;
        note_receive(s, e, from, until, packet->receive_ns, old_head);
        if (packet->invalid_count > 0)
            inherit_ranges(s, e, packet);
        settle(s, e);
    }
    if (packet->flags & PACKET_LAST)
        stream_end_epoch(s, e, packet->receive_ns);
    return placed > 0 ? VERDICT_ACCEPTED : late > 0 ? VERDICT_LATE : VERDICT_DUPLICATE;
}

/* Frames that ports for raw input can take: it is handed to them as it comes, not when a batch
 * completes. */
static uint64_t raw_room(const struct stream *s, const struct epoch *e)
{
    uint64_t room = UINT64_MAX;
    if (s->options.live || !s->has_raw)
        return room;
    for (int i = 0; i < s->port_count; i++) {
        if (s->ports[i].room == NULL || !s->ports[i].raw)
            continue;
        uint64_t frames = s->ports[i].room(s->ports[i].context);
        room = frames < room ? frames : room;
    }
    uint64_t waiting = e != NULL ? e->head - e->raw_delivered : 0;
    return room > waiting ? room - waiting : 0;
}

uint64_t stream_room(const struct stream *s)
{
    /* A new epoch may begin with the next packet: count the silence it would need. */
    struct stream *mutable = (struct stream *)s;
    const struct epoch *e = epoch_open(mutable);
    uint64_t next = e != NULL ? e->base + e->head : next_base(s);
    uint64_t limit = stream_low(s) + s->ring->frames;
    uint64_t room = limit > next ? limit - next : 0;
    uint64_t raw = raw_room(s, e);
    return room < raw ? room : raw;
}

uint8_t *stream_vacant(const struct stream *s, uint64_t place, uint64_t *frames)
{
    const struct epoch *e = epoch_open((struct stream *)s);
    if (e == NULL || s->stopping || s->begin_flags != 0 || place < e->source_origin ||
        place - e->source_origin < e->head)
        return NULL;
    uint64_t position = e->base + (place - e->source_origin);
    uint64_t limit = stream_low(s) + s->ring->frames;
    uint64_t slot = position & (s->ring->frames - 1);
    if (position + *frames > limit)
        *frames = limit > position ? limit - position : 0;
    if (*frames > s->ring->frames - slot)
        *frames = s->ring->frames - slot;
    return s->ring->bytes + slot * s->ring->frame_bytes;
}

void stream_end(struct stream *s)
{
    struct epoch *e = epoch_open(s);
    if (e != NULL)
        stream_end_epoch(s, e, clock_monotonic_ns());
}

void stream_socket_drops(struct stream *s, uint64_t datagrams)
{
    s->socket_debt += datagrams * s->packet_frames;
}

void stream_lost(struct stream *s, uint64_t frames, enum invalid_cause cause)
{
    assert(cause == INVALID_OVERLOAD || cause == INVALID_CAPTURE);
    *(cause == INVALID_OVERLOAD ? &s->overload_debt : &s->capture_debt) += frames;
}

/* ---- time -------------------------------------------------------------------------------- */

void stream_tick(struct stream *s, int64_t now_ns)
{
    struct epoch *e = epoch_open(s);
    if (e == NULL)
        return;
    struct hole *hole;
    bool given_up = false;
    while ((hole = first_hole(s)) != NULL && now_ns - hole->seen_ns >= s->options.reorder_ns) {
        give_up_hole(s, e);
        given_up = true;
    }
    if (given_up)
        settle(s, e);
    /* Silence never makes a gap: what is missing is awaited for the reorder window first. */
    bool idle = s->options.idle_flush_ns > 0 && e->head > e->submitted &&
                e->flush_until < e->head && first_hole(s) == NULL &&
                now_ns - s->last_receive_ns >= s->options.idle_flush_ns;
    if (idle) {
        e->flush_until = e->head;
        if (s->has_raw)
            stream_deliver_raw(s, e, e->head);
        if (e->head % s->hop != 0)
            block_times_of(s, e, e->head / s->hop)->ready_ns = now_ns;
    }
}

int64_t stream_next_tick_ns(const struct stream *s)
{
    struct stream *mutable = (struct stream *)s;
    const struct epoch *e = epoch_open(mutable);
    if (e == NULL)
        return INT64_MAX;
    int64_t next_ns = INT64_MAX;
    const struct hole *hole = first_hole(mutable);
    if (hole != NULL) {
        next_ns = hole->seen_ns + s->options.reorder_ns;
    } else if (s->options.idle_flush_ns > 0 && e->head > e->submitted && e->flush_until < e->head) {
        int64_t idle_ns = s->last_receive_ns + s->options.idle_flush_ns;
        if (idle_ns < next_ns)
            next_ns = idle_ns;
    }
    return next_ns;
}
