/*
 * Sequence: see sequence.h for the rules. sequence_next measures a packet against the newest one
 * (how many packets and frames it lies ahead), judges it, and commits it when it becomes the
 * newest. Nothing here fails or trusts: each field of a packet may be hostile, and every difference
 * is taken modulo the width of its counter.
 */
#include "stream/sequence.h"

#include <math.h>
#include <string.h>

#include "core/codec.h"
#include "stream/packet.h"

enum { PACKETS_MIN = 2 }; /* a step of so many packets is never too large, whatever the times say */

/* Farther than any limit reaches, and far from overflow. */
#define FAR_FRAMES (INT64_C(1) << 62)

enum kind {
    FORWARD,   /* accepted, becomes the newest */
    REORDERED, /* accepted, before the newest */
    JUMP,      /* has to be confirmed */
};

struct judged {
    enum kind kind;
    uint64_t first_frame;
    uint32_t flags;
};

/* Where a packet lies against the newest: `packets` 1 and `frames` 0 for the next in order. */
struct distance {
    int64_t packets;
    int64_t frames; /* from the end of the newest to the start of this one */
};

void sequence_reset(struct sequence *s, const struct sequence_options *options)
{
    memset(s, 0, sizeof *s);
    s->options = *options;
}

/* ---- measuring --------------------------------------------------------------------------- */

/* At most half the range of a time stamp, so that ahead and behind stay apart. */
static int64_t frames_of_ns(const struct sequence *s, int64_t ns)
{
    double frames = (double)ns * s->options.rate_hz / 1e9;
    double limit = s->options.timestamp_bits != 0 ? 0x1p30 : 0x1p60;
    return frames > limit ? (int64_t)limit : frames > 0 ? (int64_t)frames : 0;
}

static int64_t at_least_packets(const struct sequence *s, int64_t frames)
{
    int64_t least = (int64_t)(PACKETS_MIN * s->frames_per_packet);
    return frames > least ? frames : least;
}

static int64_t window_frames(const struct sequence *s)
{
    return at_least_packets(s, frames_of_ns(s, s->options.reorder_ns));
}

static int64_t reach_ns(const struct sequence *s)
{
    return s->options.max_misorder_ns > s->options.reorder_ns ? s->options.max_misorder_ns
                                                              : s->options.reorder_ns;
}

static int64_t reach_frames(const struct sequence *s)
{
    return at_least_packets(s, frames_of_ns(s, reach_ns(s)));
}

static uint64_t sequence_mask(const struct sequence *s)
{
    return s->options.sequence_bits < 64 ? (UINT64_C(1) << s->options.sequence_bits) - 1
                                         : UINT64_MAX;
}

static bool is_next(const struct sequence *s, uint64_t sequence, uint64_t after)
{
    return ((sequence - after - 1) & sequence_mask(s)) == 0;
}

/* The difference of two sequence numbers that is nearest to `expected`. */
static int64_t sequence_step(const struct sequence *s, uint64_t from, uint64_t to, int64_t expected)
{
    uint64_t mask = sequence_mask(s);
    uint64_t off = (to - from - (uint64_t)expected) & mask;
    uint64_t half = (mask >> 1) + 1;
    if (off >= half)
        off -= mask + 1; /* 0 for 64 bits: already modulo 2^64 */
    return (int64_t)((uint64_t)expected + off);
}

/* ---- numbers seen -------------------------------------------------------------------------- */

static bool remembers(const struct sequence *s)
{
    return s->options.timestamp_bits != 0;
}

static const struct sequence_seen *seen_at(const struct sequence *s, uint64_t number)
{
    const int64_t behind = sequence_step(s, number, s->seen_last, 0);
    const struct sequence_seen *seen = &s->seen[number % SEQUENCE_SEEN];
    return behind >= 0 && behind < SEQUENCE_SEEN && seen->seen ? seen : NULL;
}

static bool is_other(const struct sequence *s, uint64_t number)
{
    const struct sequence_seen *seen = seen_at(s, number);
    return seen != NULL && seen->frames == 0;
}

static void forget_seen(struct sequence *s)
{
    memset(s->seen, 0, sizeof s->seen);
}

/* Makes `number` one of those remembered. False: it is too old. */
static bool reach_seen(struct sequence *s, uint64_t number)
{
    const int64_t ahead = sequence_step(s, s->seen_last, number, 0);
    if (ahead <= -SEQUENCE_SEEN)
        return false;
    if (ahead >= SEQUENCE_SEEN)
        forget_seen(s);
    for (int64_t i = 1; i <= ahead && ahead < SEQUENCE_SEEN; i++)
        s->seen[(s->seen_last + (uint64_t)i) % SEQUENCE_SEEN].seen = false;
    if (ahead > 0)
        s->seen_last = number & sequence_mask(s);
    return true;
}

/* Packets without frames among the `step` numbers behind `number`. */
static int64_t others_after(const struct sequence *s, uint64_t number, int64_t step)
{
    int64_t others = 0;
    for (int64_t i = 1; i < step && step <= SEQUENCE_SEEN; i++)
        others += is_other(s, number + (uint64_t)i);
    return others;
}

/* The packet with frames next to `number`, with only packets without frames in between. `way`: 1 or
 * -1. NULL: a number between them is missing. */
static const struct sequence_seen *neighbour(const struct sequence *s, uint64_t number, int way)
{
    const struct sequence_seen *seen = NULL;
    for (int i = 1; i < SEQUENCE_SEEN; i++) {
        seen = seen_at(s, number + (uint64_t)(int64_t)(i * way));
        if (seen == NULL || seen->frames > 0)
            break;
    }
    return seen != NULL && seen->frames > 0 ? seen : NULL;
}

static void note_unsent(struct sequence_step *step, uint64_t from, uint64_t until)
{
    if (from < until && step->unsent_count < SEQUENCE_UNSENT)
        step->unsent[step->unsent_count++] = (struct sequence_range){from, until};
}

/* Remembers a packet that is accepted, and what the sender left out beside it. */
static void note_accepted(struct sequence *s, const struct sequence_packet *packet,
                          uint64_t first_frame, struct sequence_step *step)
{
    if (!remembers(s) || !reach_seen(s, packet->sequence))
        return;
    s->seen[packet->sequence % SEQUENCE_SEEN] =
        (struct sequence_seen){.first_frame = first_frame, .frames = packet->frames, .seen = true};
    const struct sequence_seen *before = neighbour(s, packet->sequence, -1);
    const struct sequence_seen *after = neighbour(s, packet->sequence, 1);
    if (before != NULL)
        note_unsent(step, before->first_frame + before->frames, first_frame);
    if (after != NULL)
        note_unsent(step, first_frame + packet->frames, after->first_frame);
}

bool sequence_other(struct sequence *s, uint64_t number, struct sequence_range *unsent)
{
    *unsent = (struct sequence_range){0};
    if (!remembers(s))
        return false;
    s->has_others = true;
    if (s->holding && is_next(s, number, s->held.sequence + s->held_others))
        s->held_others++;
    if (!s->started || sequence_step(s, s->seen_last, number, 0) > SEQUENCE_SEEN ||
        !reach_seen(s, number))
        return false;
    struct sequence_seen *seen = &s->seen[number % SEQUENCE_SEEN];
    if (seen->seen)
        return false;
    *seen = (struct sequence_seen){.seen = true};
    const struct sequence_seen *before = neighbour(s, number, -1), *after = neighbour(s, number, 1);
    if (before == NULL || after == NULL ||
        before->first_frame + before->frames >= after->first_frame)
        return false;
    *unsent = (struct sequence_range){before->first_frame + before->frames, after->first_frame};
    return true;
}

uint64_t sequence_next_distance(const struct sequence *s)
{
    uint64_t distance = 1;
    while (distance < SEQUENCE_SEEN && is_other(s, s->newest.sequence + distance))
        distance++;
    return distance;
}

/* True: only packets without frames separate `sequence` from the newest packet. */
static bool follows_newest(const struct sequence *s, uint64_t sequence)
{
    const int64_t step = sequence_step(s, s->newest.sequence, sequence, 0);
    return step >= 1 && step - others_after(s, s->newest.sequence, step) == 1;
}

/* ---- distances ----------------------------------------------------------------------------- */

/* Leaves out the packets without frames between a packet and the newest one. */
static int64_t without_others(const struct sequence *s, uint64_t sequence, int64_t packets)
{
    return packets > 0 ? packets - others_after(s, s->newest.sequence, packets)
                       : packets + others_after(s, sequence, -packets);
}

static struct distance measure(const struct sequence *s, const struct sequence_newest *newest,
                               const struct sequence_packet *packet)
{
    struct distance distance;
    if (s->options.timestamp_bits != 0) {
        uint32_t end = (uint32_t)(newest->first_frame + newest->frames);
        distance.frames = (int32_t)((uint32_t)packet->timestamp - end);
        /* 16 bits of sequence number wrap within a second: the time stamp says which lap it is. */
        double expected = 1.0 + (double)distance.frames / s->frames_per_packet;
        distance.packets = sequence_step(s, newest->sequence, packet->sequence, (int64_t)expected);
        if (newest == &s->newest)
            distance.packets = without_others(s, packet->sequence, distance.packets);
        return distance;
    }
    /* No time stamp: packets have one size, save short ones. */
    distance.packets = sequence_step(s, newest->sequence, packet->sequence, 0);
    int64_t size = newest->frames > packet->frames ? newest->frames : packet->frames;
    int64_t between = distance.packets > 0 ? distance.packets - 1 : distance.packets;
    if (between > FAR_FRAMES / size)
        distance.frames = FAR_FRAMES;
    else if (between < -(FAR_FRAMES / size))
        distance.frames = -FAR_FRAMES;
    else
        distance.frames = between * size - (distance.packets > 0 ? 0 : newest->frames);
    return distance;
}

/* The frame number at which a numbering begins. */
static uint64_t origin_of(const struct sequence *s, const struct sequence_packet *packet)
{
    if (s->options.timestamp_bits != 0)
        return SEQUENCE_ORIGIN + (uint32_t)packet->timestamp;
    return SEQUENCE_ORIGIN + (packet->sequence * packet->frames & ((UINT64_C(1) << 62) - 1));
}

/* ---- judging ----------------------------------------------------------------------------- */

/* Missing numbers that may have been packets without frames: a few where time stamps continue
 * exactly, or where the sender is known to send such packets. */
static int64_t lost_others_max(const struct sequence *s, const struct distance *distance)
{
    return remembers(s) && (s->has_others || distance->frames == 0) ? SEQUENCE_SEEN : 0;
}

/* Forward of the newest, with no more packets lost than frames: each lost one held a frame, or was
 * of another type. */
static bool explained_forward(const struct sequence *s, const struct distance *distance)
{
    return distance->frames >= 0 && distance->packets >= 1 &&
           distance->packets - 1 - lost_others_max(s, distance) <= distance->frames;
}

/* The lost packets with frames, had they the usual size: no more than the time stamps leave free
 * where others may be among them. */
static double lost_frames(const struct sequence *s, const struct distance *distance)
{
    double lost = (double)(distance->packets - 1) * s->frames_per_packet;
    return s->has_others ? fmin(lost, fmax((double)distance->frames, s->frames_per_packet)) : lost;
}

/* The lost packets, had they the usual size, are what is missing. */
static bool explained_by_loss(const struct sequence *s, const struct distance *distance)
{
    double missing = (double)distance->frames - lost_frames(s, distance);
    return distance->packets > 1 && missing < s->frames_per_packet &&
           missing > -s->frames_per_packet;
}

/* Starts at or before the newest packet's start, by as many packets as frames allow. */
static bool explained_backward(const struct sequence *s, const struct sequence_newest *newest,
                               const struct distance *distance, int64_t reach)
{
    int64_t back = -distance->frames - (int64_t)newest->frames;
    if (back < 0 || back > reach || distance->packets > 0)
        return false;
    int64_t packets = -distance->packets;
    return packets - lost_others_max(s, distance) <= back && (packets == 0) == (back == 0);
}

/* In order, but its time stamp lags a little: the sender's clock is not counted in samples. */
static bool overlaps(const struct sequence *s, const struct sequence_packet *packet,
                     const struct distance *distance)
{
    return distance->packets >= 1 && distance->packets - 1 <= lost_others_max(s, distance) &&
           distance->frames < 0 && -distance->frames < (int64_t)s->newest.frames &&
           -distance->frames < (int64_t)packet->frames;
}

static int64_t elapsed_frames(const struct sequence *s, const struct sequence_packet *packet)
{
    double ns = (double)packet->receive_ns - (double)s->newest.receive_ns;
    double frames = ns * s->options.rate_hz / 1e9;
    return frames > 0x1p60 ? INT64_C(1) << 60 : frames > 0 ? (int64_t)frames : 0;
}

/* A jump, as what it will count when it is confirmed. */
static struct judged judge_jump(const struct sequence *s, const struct sequence_packet *packet,
                                const struct distance *distance, bool ambiguous)
{
    uint64_t end = s->newest.first_frame + s->newest.frames;
    bool records = s->options.records;
    /* A step beyond max dropout asks for a second packet, which every jump needs; what it is then
     * is max gap's to say. */
    int64_t step_ns = s->options.max_dropout_ns > s->options.max_gap_ns ? s->options.max_dropout_ns
                                                                        : s->options.max_gap_ns;
    bool gap = !ambiguous && explained_forward(s, distance) &&
               distance->frames <= frames_of_ns(s, s->options.max_gap_ns) &&
               lost_frames(s, distance) <=
                   (double)frames_of_ns(s, step_ns) + PACKETS_MIN * s->frames_per_packet;
    if (gap && (!records || (!packet->marker && explained_by_loss(s, distance))))
        return (struct judged){JUMP, end + (uint64_t)distance->frames, 0};

    /* Time stamps may have wrapped since: the nearest to where time says the stream is now. */
    int64_t frames = distance->frames;
    if (s->options.timestamp_bits != 0 && !gap) {
        int64_t elapsed = elapsed_frames(s, packet);
        frames =
            elapsed + (int32_t)((uint32_t)packet->timestamp - (uint32_t)end - (uint32_t)elapsed);
    }
    bool onward = frames >= 0 && frames < FAR_FRAMES && end < 2 * (uint64_t)FAR_FRAMES;
    struct judged judged = {JUMP, onward ? end + (uint64_t)frames : origin_of(s, packet),
                            records ? PACKET_RECORD : PACKET_DISCONTINUITY};
    /* A record of a sender that went on counting keeps the numbering. */
    if (!onward || !(gap || follows_newest(s, packet->sequence)))
        judged.flags |= PACKET_DISCONTINUITY;
    return judged;
}

static struct judged judge(const struct sequence *s, const struct sequence_packet *packet)
{
    struct distance distance = measure(s, &s->newest, packet);
    bool records = s->options.records;
    bool next = follows_newest(s, packet->sequence);
    /* After half a lap of silence a time stamp alone no longer says ahead or behind. */
    bool ambiguous = s->options.timestamp_bits != 0 && elapsed_frames(s, packet) > INT32_MAX;

    if (records && packet->marker && next) {
        struct judged judged = judge_jump(s, packet, &distance, ambiguous);
        judged.kind = FORWARD;
        return judged;
    }
    uint64_t first_frame = s->newest.first_frame + s->newest.frames + (uint64_t)distance.frames;
    bool skipped = records && next && distance.frames > 0; /* nothing lost: the sender's own jump */
    if (!ambiguous && !skipped && explained_forward(s, &distance) &&
        distance.frames <= window_frames(s))
        return (struct judged){FORWARD, first_frame, records && packet->marker ? PACKET_RECORD : 0};
    if (!ambiguous && overlaps(s, packet, &distance))
        return (struct judged){FORWARD, first_frame, 0};
    if (!ambiguous && explained_backward(s, &s->newest, &distance, reach_frames(s)))
        return (struct judged){REORDERED, first_frame, 0};
    return judge_jump(s, packet, &distance, ambiguous);
}

/* Reordered across the last discontinuity: near the newest of the run before it. */
static bool is_of_previous(const struct sequence *s, const struct sequence_packet *packet)
{
    if (!s->has_previous || packet->receive_ns - s->previous.receive_ns > 2 * reach_ns(s))
        return false;
    struct distance distance = measure(s, &s->previous, packet);
    return explained_backward(s, &s->previous, &distance, reach_frames(s)) ||
           (explained_forward(s, &distance) && distance.frames <= window_frames(s));
}

/* ---- the state --------------------------------------------------------------------------- */

static void hold(struct sequence *s, const struct sequence_packet *packet, struct judged judged)
{
    s->holding = true;
    s->held = *packet;
    s->held_first_frame = judged.first_frame;
    s->held_flags = judged.flags;
    s->held_others = 0;
}

/* Makes the packet the newest. */
static void commit(struct sequence *s, const struct sequence_packet *packet, uint64_t first_frame,
                   uint32_t flags, struct sequence_step *step)
{
    if (flags & (PACKET_DISCONTINUITY | PACKET_RECORD)) {
        s->previous = s->newest;
        s->has_previous = s->started;
        forget_seen(s);
    }
    if (!s->started || flags & PACKET_DISCONTINUITY)
        s->seen_last = packet->sequence & sequence_mask(s);
    if (!s->started)
        s->frames_per_packet = packet->frames;
    else
        s->frames_per_packet += (packet->frames - s->frames_per_packet) / 16;
    s->started = true;
    s->newest =
        (struct sequence_newest){packet->sequence, first_frame, packet->frames, packet->receive_ns};
    note_accepted(s, packet, first_frame, step);
}

static void release_held(struct sequence *s, struct sequence_step *step)
{
    commit(s, &s->held, s->held_first_frame, s->held_flags, step);
    for (uint64_t i = 1; i <= s->held_others && remembers(s); i++) {
        struct sequence_range none; /* no packet behind them has come */
        sequence_other(s, s->held.sequence + i, &none);
    }
    s->holding = false;
    step->held = HELD_RELEASE;
    step->held_first_frame = s->held_first_frame;
    step->held_flags = s->held_flags;
}

static bool same(const struct sequence_packet *a, const struct sequence_packet *b)
{
    return a->sequence == b->sequence && a->timestamp == b->timestamp && a->frames == b->frames;
}

/* Records of one packet each, without markers: the three follow each other by number while time
 * jumps twice. Were the held one forged, the packet after the true one that got lost would lie
 * where the loss explains it. */
static bool is_record_of_one_packet(const struct sequence *s, const struct sequence_packet *packet)
{
    if (!s->options.records || !follows_newest(s, s->held.sequence))
        return false;
    struct distance distance = measure(s, &s->newest, packet);
    return distance.packets == 2 && !explained_by_loss(s, &distance);
}

/* True when the packet proves the held one: it is next by number, or its time stamp continues
 * exactly and the numbers between may have been packets without frames. */
static bool confirms_held(const struct sequence *s, const struct sequence_packet *packet)
{
    const int64_t step = sequence_step(s, s->held.sequence, packet->sequence, 0);
    const bool next = step >= 1 && step - 1 <= (int64_t)s->held_others;
    const bool continues = remembers(s) && (uint32_t)packet->timestamp ==
                                               (uint32_t)(s->held.timestamp + s->held.frames);
    if (continues)
        return step >= 1 && step <= SEQUENCE_SEEN;
    if (!next)
        return false;
    if (!s->started || s->options.timestamp_bits == 0)
        return true;
    return (s->options.records && packet->marker) || is_record_of_one_packet(s, packet);
}

/* The newest has moved while a jump was held: it follows now, or it never happened. */
static void decide_held(struct sequence *s, struct sequence_step *step)
{
    struct judged judged = judge(s, &s->held);
    s->holding = false;
    if (judged.kind != FORWARD) {
        step->held = HELD_REJECT;
        return;
    }
    commit(s, &s->held, judged.first_frame, judged.flags, step);
    step->held = HELD_RELEASE_AFTER;
    step->held_first_frame = judged.first_frame;
    step->held_flags = judged.flags;
}

struct sequence_step sequence_next(struct sequence *s, const struct sequence_packet *packet)
{
    struct sequence_step step = {.verdict = SEQUENCE_HOLD};
    if (s->holding && same(packet, &s->held)) {
        step.verdict = SEQUENCE_DUPLICATE;
        return step;
    }
    if (s->holding && confirms_held(s, packet))
        release_held(s, &step);
    if (!s->started) {
        if (s->holding) {
            step.held = HELD_REJECT;
            step.held_unproven = true;
        }
        uint32_t flags = s->options.records ? PACKET_RECORD : 0;
        hold(s, packet, (struct judged){JUMP, origin_of(s, packet), flags});
        return step;
    }

    struct judged judged = judge(s, packet);
    if (judged.kind == JUMP && is_of_previous(s, packet)) {
        step.verdict = SEQUENCE_LATE;
        return step;
    }
    if (judged.kind == JUMP) {
        if (s->holding)
            step.held = HELD_REJECT;
        hold(s, packet, judged);
        return step;
    }
    step.verdict = SEQUENCE_ACCEPT;
    step.first_frame = judged.first_frame;
    step.flags = judged.flags;
    if (judged.kind == FORWARD) {
        commit(s, packet, judged.first_frame, judged.flags, &step);
        if (s->holding)
            decide_held(s, &step);
    } else {
        note_accepted(s, packet, judged.first_frame, &step);
    }
    return step;
}

/* ---- handing over ------------------------------------------------------------------------ */

static void walk_newest(struct codec *c, struct sequence_newest *newest)
{
    codec_u64(c, &newest->sequence);
    codec_u64(c, &newest->first_frame);
    codec_u32(c, &newest->frames);
    codec_i64(c, &newest->receive_ns);
    c->failed = c->failed || newest->first_frame > 2 * (uint64_t)FAR_FRAMES ||
                newest->receive_ns < 0; /* no monotonic clock says so */
}

void sequence_walk(struct sequence *s, struct codec *c)
{
    uint32_t others = s->started ? (uint32_t)sequence_next_distance(s) - 1 : 0;
    codec_bool(c, &s->started);
    walk_newest(c, &s->newest);
    codec_u32(c, &others);
    codec_f64(c, &s->frames_per_packet);
    codec_bool(c, &s->has_previous);
    walk_newest(c, &s->previous);
    if (!codec_reads(c))
        return;
    s->holding = false;
    if (s->started && !(s->frames_per_packet >= 1 && s->frames_per_packet <= UINT32_MAX))
        c->failed = true;
    forget_seen(s);
    if (!s->started || c->failed)
        return;
    struct sequence_step nothing = {0};
    struct sequence_range none;
    s->seen_last = s->newest.sequence & sequence_mask(s);
    note_accepted(
        s, &(struct sequence_packet){.sequence = s->newest.sequence, .frames = s->newest.frames},
        s->newest.first_frame, &nothing);
    for (uint64_t i = 1; i <= others && i < SEQUENCE_SEEN; i++)
        sequence_other(s, s->newest.sequence + i, &none);
}
