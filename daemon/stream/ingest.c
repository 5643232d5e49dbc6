/*
 * Ingest: puts packets into the input ring. A payload goes where its frame number says and nowhere
 * else; the stream awaits what is missing for the reorder window, then gives it up as a gap
 * (gaps.c). Begins and ends epochs. Owns the input side of the ledgers: every frame that enters
 * the timeline is received, awaited or a gap, and each counter moves where that happens.
 *
 * Defines the functions of stream.h that sources and the scheduler's clock call. Loop thread;
 * nothing here allocates, locks or logs.
 */
#include <assert.h>
#include <string.h>

#include "core/clock.h"
#include "stream/change.h"
#include "stream/epochs.h"
#include "stream/full_scale.h"
#include "stream/gaps.h"
#include "stream/ports.h"
#include "stream/presence.h"
#include "stream/room.h"
#include "stream/state.h"

/* ---- epochs -------------------------------------------------------------------------------- */

/* Ends the epoch: gives up what is missing; its tail becomes due. */
static void end_epoch(struct stream *s, struct epoch *e, int64_t now_ns)
{
    e->ended = true;
    gaps_give_up_all(s, e);
    if (ports_raw_behind(s) == e) /* else after the one before it: stream_tick */
        gaps_raw_turn(s);
    uint64_t tail = s->options.tail && e->head > 0 ? s->taps_longest - 1 : 0;
    e->output_end = e->head + tail;
    ranges_add(&e->invalid, e->head, e->head + s->taps_longest - 1, INVALID_TAIL);
    s->stats.timeline_out += tail;
    s->stats.waiting += tail;
    /* Blocks beyond the last whole one receive no frames any more: the end of the epoch completes
     * them. */
    for (uint64_t block = e->head / s->hop; block * s->hop < e->output_end; block++) {
        struct block_times *times = block_times_of(s, e, block);
        /* Where only tail is left, the block counts from now, not from when its input came. */
        bool has_input = block * s->hop < e->head && e->submitted < e->head;
        times->ready_ns = now_ns;
        if (!has_input)
            times->first_ns = times->last_ns = now_ns;
        if (block - e->head / s->hop >= s->times_mask)
            break;
    }
    ports_put_ends(s);
}

enum { CLOCK_BREAK_NS = 5 * NS_PER_MS };

/* True when the frame numbers of a recorder stopped between two records, or ran away: then they do
 * not measure the time that has passed. */
static bool count_is_no_clock(const struct stream *s, const struct packet *packet)
{
    if (!s->options.records || packet->flags & PACKET_CAPTURE || !s->clock.line.started)
        return false;
    int64_t expected_ns = source_clock_time_ns(
        &s->clock, (double)(packet->first_frame + packet->frames + packet->frames_behind));
    int64_t off_ns = packet->receive_ns - expected_ns;
    return (off_ns < 0 ? -off_ns : off_ns) >
           4 * clock_line_base_error_ns(&s->clock.line) + CLOCK_BREAK_NS;
}

/* In the lists of epochs. */
static bool has_room_for_epoch(const struct stream *s)
{
    const struct epoch *behind = ports_raw_behind(s);
    return s->epoch_next - s->epoch_first < EPOCHS_MAX &&
           (behind == NULL || s->stats.epochs - behind->number < RAW_EPOCHS_MAX);
}

/* Begins an epoch with this packet; may add PACKET_DISCONTINUITY to its flags. NULL when the ring
 * or the list of epochs has no room. */
static struct epoch *begin_epoch(struct stream *s, struct packet *packet)
{
    if (!has_room_for_epoch(s))
        return NULL;
    uint64_t base = epochs_next_base(s);
    if (!room_make(s, base + packet->frames))
        return NULL;
    if (count_is_no_clock(s, packet))
        packet->flags |= PACKET_DISCONTINUITY;
    uint64_t timeline_base = epochs_next_timeline(s, packet);
    if (packet->flags & PACKET_DISCONTINUITY || s->epoch_first == s->epoch_next) {
        epochs_keep_capture_times(s);
        source_clock_reset(&s->clock, s->options.rate_hz);
    }
    struct epoch *e = epoch_at(s, s->epoch_next);
    *e = (struct epoch){
        .number = s->stats.epochs,
        .base = base,
        .source_origin = packet->first_frame,
        .sender_known = packet->flags & PACKET_SENDER,
        .sender = packet->sender,
        .timeline_base = timeline_base,
        .absent_until = base,
        .clock = CLOCK_SOURCE_RECEIVE,
    };
    if (s->options.records)
        e->record = s->stats.records++;
    s->epoch_next++;
    s->stats.epochs++;
    presence_clear_until(s, base);
    ranges_add(&e->invalid, 0, s->taps_longest - 1, INVALID_SETTLING);
    raw_invalid_of(s, e)->count = 0;
    gaps_forget(s);
    s->begin_flags = 0;
    return e;
}

/* ---- into the ring -------------------------------------------------------------------------- */

static void copy_in(struct stream *s, uint64_t position, const uint8_t *payload, uint64_t frames)
{
    uint32_t frame_bytes = s->ring->frame_bytes;
    uint64_t slot = position & (s->ring->frames - 1);
    uint64_t first = s->ring->frames - slot;
    if (first > frames)
        first = frames;
    uint8_t *to = s->ring->bytes + slot * frame_bytes;
    if (payload == to) /* the source received it into the slots of stream_vacant */
        return;
    memcpy(to, payload, first * frame_bytes);
    memcpy(s->ring->bytes, payload + first * frame_bytes, (frames - first) * frame_bytes);
}

/* The payload is a result of the same device: asks the engine to copy it inside the device, so that
 * no batch has to transfer it. Everything before it must be on the device already, or be absent. A
 * plan on the host reads the ring in the host's memory. */
static void feed(struct stream *s, uint64_t position, const uint8_t *payload, uint64_t frames)
{
    uint64_t end = position + frames, lap = end > s->ring->frames ? end - s->ring->frames : 0;
    uint64_t from = position < s->fresh_until ? position : s->fresh_until;
    if (from < lap) /* the new lap overwrites what lay there */
        from = lap;
    if (presence_find(s, from, position, true) < position && position > s->fresh_until)
        return;
    if (!plan_info(s->plan)->on_host &&
        engine_ring_feed(s->engine, s->ring, from, position, payload, (uint32_t)frames)) {
        if (end > s->fresh_until)
            s->fresh_until = end;
    } else if (position < s->fresh_until) {
        s->fresh_until = position; /* the next batch transfers it with the frames before it */
    }
}

/* Notes the receive time for the blocks of frames [from, until). Blocks that the head moves into
 * begin with this packet, also those that lie wholly in a hole. */
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

/* Writes frames [from, until) of the epoch into the ring, except for those that are present already
 * or given up. Returns how many were new, and in *late how many were given up. */
static uint64_t write_frames(struct stream *s, struct epoch *e, const struct packet *packet,
                             uint64_t from, uint64_t until, uint64_t *late)
{
    uint64_t written = 0;
    *late = 0;
    uint64_t position = e->base + from;
    uint64_t end = e->base + until;
    while ((position = presence_find(s, position, end, false)) < end) {
        uint64_t run_end = presence_find(s, position, end, true);
        uint64_t settled = e->base + e->settled;
        if (position < settled) {
            if (run_end > settled)
                run_end = settled;
            *late += run_end - position;
        } else {
            uint64_t offset = position - e->base - from;
            copy_in(s, position, packet->payload + offset * s->ring->frame_bytes,
                    run_end - position);
            presence_mark(s, position, run_end, true);
            if (packet->flags & PACKET_RESULT)
                feed(s, position, packet->payload + offset * s->ring->frame_bytes,
                     run_end - position);
            written += run_end - position;
        }
        position = run_end;
    }
    return written;
}

/* Flags results that rest on input which the upstream stream has found uncertain since. */
static void doubt_delivered(struct stream *s, const struct epoch *e, uint64_t from, uint64_t until)
{
    const struct invalid_range range = {from, until < e->delivered ? until : e->delivered,
                                        INVALID_UNCERTAIN};
    sheds_add(&s->sheds, e->number, range);
    s->stats.invalid[INVALID_UNCERTAIN] += range.until - range.from;
    s->stats.invalid_frames += range.until - range.from;
}

/* Takes over the invalid ranges of an upstream stream's result: for this stream's results widened
 * by the reach of the taps, for its raw input as they are. */
static void inherit_ranges(struct stream *s, struct epoch *e, const struct packet *packet)
{
    if (s->has_raw) /* where there is none, ranges are joined: more frames are flagged, never fewer
                     */
        (void)gaps_raw_make_room(s, e, e->settled, packet->invalid_count);
    for (uint32_t i = 0; i < packet->invalid_count; i++) {
        const struct invalid_range *range = &packet->invalid[i];
        if (range->until <= e->source_origin)
            continue;
        uint64_t from = range->from > e->source_origin ? range->from - e->source_origin : 0;
        const uint64_t until = range->until - e->source_origin;
        ranges_add(&e->invalid, from, until + s->taps_longest - 1, range->cause);
        if (range->cause == INVALID_UNCERTAIN && from < e->delivered) /* delivered before it */
            doubt_delivered(s, e, from, until + s->taps_longest - 1);
        if (s->has_raw && until > e->raw_delivered)
            ranges_add(raw_invalid_of(s, e), from, until, range->cause);
    }
}

/* Every block that reads partial frames is partial, also before and behind their taps' reach: what
 * a transform rounds depends on all it reads. */
static void inherit_partial(struct stream *s, const struct epoch *e, const struct packet *packet)
{
    if (packet->partial_until <= e->source_origin)
        return;
    const uint64_t from =
        packet->partial_from > e->source_origin ? packet->partial_from - e->source_origin : 0;
    const uint64_t last = packet->partial_until - e->source_origin - 1 + s->history;
    ranges_add(&s->partial_output, e->base + block_start(s, from),
               e->base + block_start(s, last) + s->hop, INVALID_SETTLING);
}

/* Notes what an upstream stream has lost before the packet: those frames will be a gap, with the
 * cause that it reported. */
static void note_lost_upstream(struct stream *s, const struct epoch *e, const struct packet *packet)
{
    const uint64_t head = e->source_origin + e->head;
    for (uint32_t i = 0; i < packet->invalid_count; i++) {
        const struct invalid_range *range = &packet->invalid[i];
        const uint64_t from = range->from > head ? range->from : head;
        const uint64_t until =
            range->until < packet->first_frame ? range->until : packet->first_frame;
        if (from < until)
            ranges_add(&s->lost_upstream, from - e->source_origin, until - e->source_origin,
                       range->cause);
    }
    ranges_drop_before(&s->lost_upstream, e->settled);
}

/* Where an epoch begins whose first frames come with the packet: what the upstream has lost before
 * them belongs to it. */
static uint64_t epoch_origin(const struct stream *s, const struct packet *packet)
{
    uint64_t origin = packet->first_frame;
    for (uint32_t i = 0; i < packet->invalid_count; i++) {
        const uint64_t from = packet->invalid[i].from;
        if (from < origin && packet->first_frame - from <= s->jump_max &&
            packet->invalid[i].cause != INVALID_UNCERTAIN) /* those were not lost */
            origin = from;
    }
    return origin;
}

/* The epoch that the packet belongs to, begun if need be; NULL: no room for a new one. */
static struct epoch *epoch_for(struct stream *s, const struct packet *packet)
{
    uint32_t flags = packet->flags | s->begin_flags;
    struct epoch *e = epoch_open(s);
    bool jump = e != NULL && packet->first_frame > e->source_origin + e->head &&
                packet->first_frame - e->source_origin - e->head > s->jump_max;
    if (e != NULL && !jump && !(flags & (PACKET_DISCONTINUITY | PACKET_RECORD)))
        return e;
    if (e != NULL)
        end_epoch(s, e, packet->receive_ns);
    struct packet beginning = *packet;
    beginning.flags = flags | (jump ? PACKET_DISCONTINUITY : 0);
    beginning.first_frame = epoch_origin(s, packet);
    beginning.frames += (uint32_t)(packet->first_frame - beginning.first_frame);
    e = begin_epoch(s, &beginning);
    if (e == NULL)
        s->begin_flags = beginning.flags & (PACKET_DISCONTINUITY | PACKET_RECORD);
    return e;
}

/* The timeline grows to frame `until`; frames before `first` are missing so far. */
static void grow(struct stream *s, struct epoch *e, uint64_t first, uint64_t until,
                 int64_t receive_ns)
{
    const uint64_t grown = until - e->head;
    presence_clear_until(s, e->base + until);
    if (first > e->head)
        gaps_open(s, e, e->head, first, receive_ns);
    s->debts = (struct gap_debts){0}; /* later holes have debts of their own */
    s->stats.timeline_in += grown;
    s->stats.awaited += grown;
    s->stats.timeline_out += grown;
    s->stats.waiting += grown;
    e->head = until;
}

/* Gives the packet's receive time to the source clock. */
static void note_time(struct stream *s, const struct epoch *e, const struct packet *packet)
{
    const uint64_t until = packet->first_frame + packet->frames + packet->frames_behind;
    if (!source_clock_add(&s->clock, packet->first_frame, until, packet->receive_ns))
        return;
    const struct clock_step *step = source_clock_step(&s->clock);
    if (e->capture_known) /* its times are the source's */
        return;
    s->clock_step = (struct result_clock_step){
        .count = s->clock_step.count + 1,
        .epoch = e->number,
        .frame = step->frame > e->source_origin ? step->frame - e->source_origin : 0,
        .step_ns = step->step_ns};
}

/* The ring has no space for frames [first, until). */
static void note_refused(struct stream *s, uint64_t first, uint64_t until)
{
    if (s->lost_upstream.count + 1 < RANGES_MAX)
        ranges_add(&s->lost_upstream, first, until, INVALID_OVERLOAD);
    else
        s->debts.overload += until - first;
}

enum verdict stream_put(struct stream *s, const struct packet *packet)
{
    assert(packet->frames > 0);
    struct epoch *e = epoch_for(s, packet);
    if (e == NULL)
        return VERDICT_OUT_OF_WINDOW;
    if (packet->first_frame < e->source_origin)
        return VERDICT_LATE; /* from before the epoch: no part of its timeline */

    uint64_t first = packet->first_frame - e->source_origin;
    uint64_t until = first + packet->frames;
    note_lost_upstream(s, e, packet);
    if (until > e->head && !room_make(s, e->base + until)) {
        note_refused(s, first, until);
        return VERDICT_OUT_OF_WINDOW;
    }
    s->offset_ns = packet->receive_realtime_ns - packet->receive_ns;
    s->last_receive_ns = packet->receive_ns;
    s->packet_frames = packet->frames;

    uint64_t old_head = e->head;
    if (until > old_head)
        grow(s, e, first, until, packet->receive_ns);
    if (packet->flags & PACKET_CAPTURE && until > old_head)
        epochs_take_capture(s, e, first, packet);
    uint64_t late;
    uint64_t written = write_frames(s, e, packet, first, until, &late);
    s->stats.awaited -= written;
    s->stats.received += written;
    if (late > 0)
        gaps_mark_late(s, e, first, until);
    if (written > 0) {
        s->stats.carried += packet->frames;
        s->stats.late_parts += late;
        s->stats.overlap += packet->frames - written - late;
        note_time(s, e, packet);
        if (!e->capture_known)
            e->clock = packet->clock;
        note_receive(s, e, first, until, packet->receive_ns, old_head);
        if (packet->invalid_count > 0)
            inherit_ranges(s, e, packet);
        if (packet->saturated_count > 0)
            full_scale_inherit(s, e, packet);
        if (packet->partial_until > packet->partial_from)
            inherit_partial(s, e, packet);
        gaps_settle(s, e);
    }
    if (packet->flags & PACKET_LAST)
        end_epoch(s, e, packet->receive_ns);
    return written > 0 ? VERDICT_ACCEPTED : late > 0 ? VERDICT_LATE : VERDICT_DUPLICATE;
}

/* The list of invalid ranges is nearly full, and blocks that will empty it are complete. A source
 * that waits gives them time; otherwise ranges would be joined, which flags more frames than the
 * recorded stream did. */
static bool ranges_wait(const struct stream *s, const struct epoch *e)
{
    enum { PACKET_RANGES = 40 /* of one packet of a replay, and those of the epoch's ends */ };
    return !s->options.live && e != NULL && e->invalid.count + PACKET_RANGES > RANGES_MAX &&
           e->head - e->head % s->hop > e->delivered;
}

uint64_t stream_room(const struct stream *s)
{
    const struct epoch *e = epoch_open((struct stream *)s);
    if (ranges_wait(s, e))
        return 0;
    /* Without an open epoch the next packet begins one, behind its history of zeros. */
    if (e == NULL && !has_room_for_epoch(s))
        return 0;
    uint64_t next = e != NULL ? e->base + e->head : epochs_next_base(s);
    uint64_t limit = epochs_low(s) + s->ring->frames;
    uint64_t room = limit > next ? limit - next : 0;
    uint64_t raw = ports_raw_room(s, e != NULL ? e->head - e->raw_delivered : 0);
    return room < raw ? room : raw;
}

uint8_t *stream_vacant(struct stream *s, uint64_t first_frame, uint64_t *frames)
{
    const struct epoch *e = epoch_open(s);
    if (e == NULL || s->begin_flags != 0 || first_frame < e->source_origin ||
        first_frame - e->source_origin < e->head)
        return NULL;
    uint64_t position = e->base + (first_frame - e->source_origin);
    uint64_t limit = epochs_low(s) + s->ring->frames;
    uint64_t slot = position & (s->ring->frames - 1);
    if (position + *frames > limit)
        *frames = limit > position ? limit - position : 0;
    if (*frames > s->ring->frames - slot)
        *frames = s->ring->frames - slot;
    if (position + *frames > s->vacant_until)
        s->vacant_until = position + *frames;
    return s->ring->bytes + slot * s->ring->frame_bytes;
}

void stream_end(struct stream *s)
{
    struct epoch *e = epoch_open(s);
    if (e != NULL)
        end_epoch(s, e, clock_monotonic_ns());
}

void stream_end_at(struct stream *s, const struct packet *packet)
{
    assert(packet->frames == 0);
    struct epoch *e = packet->invalid_count > 0 ? epoch_for(s, packet) : epoch_open(s);
    if (e == NULL)
        return;
    const uint64_t end =
        packet->first_frame > e->source_origin ? packet->first_frame - e->source_origin : 0;
    note_lost_upstream(s, e, packet);
    if (end > e->head && room_make(s, e->base + end)) {
        s->offset_ns = packet->receive_realtime_ns - packet->receive_ns;
        s->last_receive_ns = packet->receive_ns;
        const uint64_t old_head = e->head;
        grow(s, e, end, end, packet->receive_ns);
        note_receive(s, e, end, end, packet->receive_ns, old_head);
    }
    end_epoch(s, e, packet->receive_ns);
}

void stream_socket_drops(struct stream *s, uint64_t datagrams)
{
    s->debts.socket += datagrams * s->packet_frames;
}

void stream_lost(struct stream *s, uint64_t frames, enum invalid_cause cause)
{
    assert(cause == INVALID_OVERLOAD || cause == INVALID_CAPTURE);
    *(cause == INVALID_OVERLOAD ? &s->debts.overload : &s->debts.capture) += frames;
}

void stream_unsent(struct stream *s, uint64_t from, uint64_t until)
{
    const struct epoch *e = epoch_open(s);
    if (e == NULL || until <= e->source_origin)
        return;
    const uint64_t first = from > e->source_origin ? from - e->source_origin : 0;
    gaps_note_unsent(s, e, first, until - e->source_origin);
}

/* ---- time -------------------------------------------------------------------------------- */

void stream_tick(struct stream *s, int64_t now_ns)
{
    struct epoch *e = epoch_open(s);
    if (gaps_raw_is_due(s)) {
        gaps_raw_turn(s);
        change_when_halted(s);
        return;
    }
    change_when_halted(s);
    if (e == NULL)
        return;
    gaps_give_up_due(s, e, now_ns);
    /* The idle flush never makes a gap: it waits until no frame is awaited any more. */
    bool idle = s->options.idle_flush_ns > 0 && e->head > e->submitted &&
                e->flush_until < e->head && gaps_oldest(s) == NULL &&
                now_ns - s->last_receive_ns >= s->options.idle_flush_ns;
    if (idle) {
        const bool left_over = gaps_raw_is_due(s);
        e->flush_until = e->head;
        if (!left_over)
            gaps_raw_turn(s);
        if (e->head % s->hop != 0)
            block_times_of(s, e, e->head / s->hop)->ready_ns = now_ns;
    }
}

int64_t stream_next_tick_ns(const struct stream *s)
{
    const struct epoch *e = epoch_open((struct stream *)s);
    if (gaps_raw_is_due(s) || change_is_due(s))
        return 1; /* at once */
    if (e == NULL)
        return INT64_MAX;
    const struct hole *hole = gaps_oldest(s);
    if (hole != NULL)
        return hole->seen_ns + s->options.reorder_ns;
    if (s->options.idle_flush_ns > 0 && e->head > e->submitted && e->flush_until < e->head)
        return s->last_receive_ns + s->options.idle_flush_ns;
    return INT64_MAX;
}
