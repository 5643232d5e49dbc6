/*
 * Ingest: see ingest.h.
 *
 *     datagram ─► checks ─► is it the sender followed? ─► sequence ─► host
 *                   │              │ no: a candidate ─► its own sequence ─► takes over
 *                   ▼              ▼
 *                rejects        rejects
 *
 * The ingest counts each datagram where it decides on it: at once, or, when it holds the datagram,
 * when it releases or rejects it.
 */
#include "io/net/ingest.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "io/net/address.h"
#include "io/net/admission.h"
#include "io/net/senders.h"

enum { REJECT_INTERVAL_S = 30, DATAGRAM_BYTES_MAX = 65535 };

/* Far beyond what any sender gets to, and far from overflow. */
static const uint64_t next_frame_max = UINT64_C(1) << 62;

struct ingest {
    const struct ingest_protocol *protocol;
    struct source_options options;
    struct source_host host;
    struct source_ledger ledger;
    struct admission *admission;
    struct senders senders;
    uint32_t last_frames;
    size_t last_header_bytes, last_trailer_bytes; /* around the payload of the newest packet */
    bool blame_next_gap;   /* the socket dropped a GRO batch: the next gap is its fault */
    bool suspect;          /* the packets put now: their time stamps do not count their frames */
    uint64_t suspect_from; /* the first frame of those in a row */
    struct {
        const uint8_t *next, *end;
        size_t bytes;       /* sum over the datagrams from `next` on that carry frames */
        uint32_t datagrams; /* their number */
    } batch;                /* the GRO batch that is read */
    uint64_t others[2];     /* payload types of the sender followed that the log has named: bits */
    /* headerless */
    uint64_t next_frame;
    uint32_t next_flags;
    uint32_t packet_flags; /* of every packet with numbers */
    bool ended;            /* the sender followed has ended its run, and none has begun since */
    struct log_limit reject_limits[REJECTS];
};

int ingest_open(const struct ingest_protocol *protocol, const struct source_options *options,
                const struct source_host *host, struct ingest **out, struct problem *problem)
{
    const struct ingest_options *own = options->own;
    struct ingest *in = calloc(1, sizeof *in);
    if (in == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for a source");
    const struct senders_options senders = {
        .stream = options->stream,
        .has_ssrc = protocol->has_ssrc,
        .takeover_ns = own->takeover_ns,
        .numbers = {.rate_hz = options->rate_hz,
                    .timestamp_bits = protocol->timestamp_bits,
                    .sequence_bits = protocol->sequence_bits,
                    .reorder_ns = options->reorder_ns,
                    .max_gap_ns = options->max_gap_ns,
                    .max_dropout_ns = own->max_dropout_ns,
                    .max_misorder_ns = own->max_misorder_ns,
                    .records = options->mode == MODE_RECORD},
        .ledger = &in->ledger,
    };
    const enum auth_use use = protocol->has_ssrc ? AUTH_RTP_INPUT : AUTH_SEQUENCE_INPUT;
    int error = admission_open(own, options->stream, use, &in->admission, problem);
    if (error == 0)
        error = senders_open(&in->senders, &senders, problem);
    if (error != 0) {
        admission_close(in->admission);
        free(in);
        return error;
    }
    in->protocol = protocol;
    /* In record mode frames are numbered by records. */
    in->packet_flags = protocol->has_ssrc && options->mode == MODE_CONTINUOUS ? PACKET_SENDER : 0;
    in->options = *options;
    in->host = *host;
    in->next_frame = SEQUENCE_ORIGIN;
    in->ledger.loss_detectable = protocol->sequence_bits != 0;
    *out = in;
    return 0;
}

void ingest_close(struct ingest *in)
{
    if (in == NULL)
        return;
    senders_close(&in->senders);
    admission_close(in->admission);
    free(in);
}

void ingest_take_allowed(struct ingest *in, struct allowed *allowed)
{
    admission_take(in->admission, allowed);
}

void ingest_ledger(const struct ingest *in, struct source_ledger *ledger)
{
    *ledger = in->ledger;
}

uint32_t ingest_last_frames(const struct ingest *in)
{
    return in->last_frames;
}

/* Whether another daemon may have left the numbers so: those that no packet is given are refused
 * here, where they are read. */
static bool numbers_hold(const struct ingest *in)
{
    const struct source_ledger *ledger = &in->ledger;
    uint64_t told = ledger->accepted;
    for (int reason = 0; reason < REJECTS; reason++)
        told += ledger->rejected[reason];
    return ledger->datagrams == told && in->next_frame <= next_frame_max &&
           (uint64_t)in->last_frames * in->options.frame_bytes <= DATAGRAM_BYTES_MAX &&
           (in->next_flags & ~(uint32_t)PACKET_DISCONTINUITY) == 0;
}

void ingest_walk(struct ingest *in, struct codec *c)
{
    struct source_ledger *ledger = &in->ledger;
    assert(ledger->held == 0);
    senders_walk(&in->senders, c);
    codec_u32(c, &in->last_frames);
    codec_u64(c, &in->next_frame);
    codec_u32(c, &in->next_flags);
    codec_u64(c, &ledger->datagrams);
    codec_u64(c, &ledger->accepted);
    for (int reason = 0; reason < REJECTS; reason++)
        codec_u64(c, &ledger->rejected[reason]);
    codec_u64(c, &ledger->kernel_drops);
    codec_u64(c, &ledger->senders);
    codec_u32(c, &ledger->ssrc);
    codec_u64(c, &ledger->clock_steps);
    c->failed = c->failed || (codec_reads(c) && !numbers_hold(in));
    if (!c->failed)
        return;
    /* What does not fit is not believed in part either. */
    senders_followed(&in->senders)->active = false;
    sequence_reset(&senders_followed(&in->senders)->sequence, &in->senders.options.numbers);
    *ledger = (struct source_ledger){.loss_detectable = ledger->loss_detectable};
    in->next_frame = SEQUENCE_ORIGIN;
    in->last_frames = in->next_flags = 0;
}

/* ---- counting ---------------------------------------------------------------------------- */

static void reject(struct ingest *in, enum reject reject)
{
    in->ledger.rejected[reject]++;
}

/* Whether it is time to log again why datagrams are refused: printing their addresses costs more
 * than refusing them. */
static bool may_explain(struct ingest *in, enum reject reason)
{
    struct log_limit *limit = &in->reject_limits[reason];
    if (clock_monotonic_ns() >= limit->next_ns)
        return true;
    limit->suppressed++;
    return false;
}

#define explain(in, reason, ...)                                                                   \
    do {                                                                                           \
        if (may_explain(in, reason))                                                               \
            log_limited(&(in)->reject_limits[reason], REJECT_INTERVAL_S *NS_PER_SECOND,            \
                        LOG_LEVEL_NOTICE, __VA_ARGS__);                                            \
    } while (0)

static void put(struct ingest *in, const struct packet *packet)
{
    if (!in->suspect) {
        source_ledger_count(&in->ledger, in->host.put(in->host.context, packet));
        return;
    }
    struct packet flagged = *packet;
    const struct invalid_range range = {
        .from = in->suspect_from < packet->first_frame ? in->suspect_from : packet->first_frame,
        .until = packet->first_frame + packet->frames,
        .cause = INVALID_SENDER,
    };
    flagged.invalid = &range;
    flagged.invalid_count = 1;
    source_ledger_count(&in->ledger, in->host.put(in->host.context, &flagged));
}

/* ---- held packets ------------------------------------------------------------------------ */

static void hold(struct ingest *in, struct sender *sender, const struct packet *packet)
{
    size_t bytes = (size_t)packet->frames * in->options.frame_bytes;
    assert(!sender->holding && bytes <= SENDERS_HELD_BYTES);
    memcpy(sender->held_payload, packet->payload, bytes);
    sender->held = *packet;
    sender->held.payload = sender->held_payload;
    sender->holding = true;
    in->ledger.held++;
}

static void release(struct ingest *in, struct sender *sender, uint64_t first_frame, uint32_t flags)
{
    assert(sender->holding);
    sender->holding = false;
    in->ledger.held--;
    sender->held.first_frame = first_frame;
    sender->held.flags = flags | in->packet_flags;
    put(in, &sender->held);
}

/* ---- predictions ------------------------------------------------------------------------- */

/* The packet before the next one, in the numbering of the sender followed. */
static struct sequence_newest newest_of(const struct ingest *in)
{
    const struct sender *followed = &in->senders.all[0];
    if (in->protocol->sequence_bits != 0)
        return followed->sequence.newest;
    return (struct sequence_newest){.first_frame = in->next_frame - in->last_frames,
                                    .frames = in->last_frames};
}

unsigned ingest_predict(const struct ingest *in, struct receive_prediction *predictions,
                        unsigned most)
{
    const struct sender *followed = &in->senders.all[0];
    struct sequence_newest newest = newest_of(in);
    const struct ingest_options *own = in->options.own;
    if (own->key != NULL)
        return 0; /* nothing goes into the ring before its tag is checked */
    if (in->host.vacant == NULL || !followed->active || followed->holding || newest.frames == 0 ||
        in->next_flags != 0)
        return 0;
    size_t payload_bytes = (size_t)newest.frames * in->options.frame_bytes;
    if (in->last_header_bytes + payload_bytes >= SENDERS_HELD_BYTES)
        return 0;
    uint64_t frames = (uint64_t)most * newest.frames;
    uint8_t *at = in->host.vacant(in->host.context, newest.first_frame + newest.frames, &frames);
    if (at == NULL)
        return 0;
    unsigned count = (unsigned)(frames / newest.frames);
    for (unsigned i = 0; i < count; i++)
        predictions[i] = (struct receive_prediction){.header_bytes = in->last_header_bytes,
                                                     .payload = at + i * payload_bytes,
                                                     .payload_bytes = payload_bytes};
    return count;
}

/*
 * Parses the header as if the datagram were whole: a CSRC list, an extension or padding of another
 * size than predicted shows as another offset or size of the payload. The bytes behind the header
 * are not read.
 */
bool ingest_hit(const struct ingest *in, const struct receive_prediction *prediction,
                unsigned number, const struct received *received)
{
    const struct ingest_protocol *protocol = in->protocol;
    const struct sequence_newest newest = newest_of(in);
    struct ingest_fields fields = {0};
    enum reject reason;
    if (!protocol->parse(&in->options, received, &fields, &reason) ||
        fields.payload != received->data + prediction->header_bytes ||
        fields.payload_bytes != prediction->payload_bytes || fields.marker ||
        !senders_is_followed(&in->senders, received->from, fields.ssrc))
        return false;
    uint64_t first_frame = newest.first_frame + (1 + (uint64_t)number) * newest.frames;
    uint64_t sequence = newest.sequence + number;
    if (protocol->sequence_bits != 0)
        sequence += sequence_next_distance(&in->senders.all[0].sequence);
    uint64_t mask = protocol->sequence_bits == 16 ? UINT16_MAX : UINT64_MAX;
    return (protocol->sequence_bits == 0 || ((fields.sequence ^ sequence) & mask) == 0) &&
           (protocol->timestamp_bits == 0 || (uint32_t)fields.timestamp == (uint32_t)first_frame);
}

/* ---- one datagram ------------------------------------------------------------------------ */

static void report_unsent(struct ingest *in, const struct sequence_range *unsent)
{
    if (in->host.unsent != NULL)
        in->host.unsent(in->host.context, unsent->from, unsent->until);
}

/* Does what the sequence decided. `changed`: with this packet the sender takes over. */
static void carry_out(struct ingest *in, struct sender *sender, struct packet *packet,
                      const struct sequence_step *step, bool changed)
{
    const bool begins = changed || in->ended;
    uint32_t held_flags = step->held_flags | (begins ? PACKET_DISCONTINUITY : 0);
    in->ended = in->ended && step->held != HELD_RELEASE;
    for (uint32_t i = 0; i < step->unsent_count; i++)
        report_unsent(in, &step->unsent[i]);
    if (step->held == HELD_RELEASE)
        release(in, sender, step->held_first_frame, held_flags);
    else if (step->held == HELD_REJECT)
        senders_reject_held(&in->senders, sender,
                            step->held_unproven ? senders_stranger(&in->senders, sender)
                                                : REJECT_JUMP);

    packet->first_frame = step->first_frame;
    packet->flags = step->flags | in->packet_flags;
    switch (step->verdict) {
    case SEQUENCE_ACCEPT:
        put(in, packet);
        break;
    case SEQUENCE_HOLD:
        hold(in, sender, packet);
        break;
    case SEQUENCE_DUPLICATE:
        reject(in, REJECT_DUPLICATE);
        break;
    case SEQUENCE_LATE:
        reject(in, REJECT_LATE);
        break;
    }
    if (step->held == HELD_RELEASE_AFTER)
        release(in, sender, step->held_first_frame, step->held_flags);
}

/* Reports the frames missing before this packet as dropped by the socket, which dropped a GRO
 * batch. Waits with a jump until the next packet confirms it. */
static void blame_gap(struct ingest *in, const struct sequence_newest *newest,
                      const struct sequence_step *step)
{
    bool released = step->held == HELD_RELEASE;
    uint64_t first = released ? step->held_first_frame : step->first_frame;
    uint32_t flags = released ? step->held_flags : step->flags;
    uint64_t expected = newest->first_frame + newest->frames;
    if (!released && (step->verdict != SEQUENCE_ACCEPT || first < expected))
        return; /* reordered: the dropped frames may follow */
    in->blame_next_gap = false;
    if (!(flags & PACKET_DISCONTINUITY) && first > expected && newest->frames > 0)
        in->host.socket_drops(in->host.context,
                              (first - expected + newest->frames - 1) / newest->frames);
}

/* Says what was seen and what to write. */
static void explain_stamps(const struct ingest *in, const struct stamp_steps *stamps)
{
    const struct source_options *o = &in->options;
    uint32_t bytes = stamps->payload * o->frame_bytes;
    uint32_t sample_bytes = o->channels > 0 ? o->frame_bytes / o->channels : 0;
    char advice[160] = "correct `channels`, `format` or the clock of the sender's time stamps";
    uint32_t frame_bytes = bytes % stamps->step == 0 ? bytes / stamps->step : 0;
    if (frame_bytes > 0 && sample_bytes > 0 && frame_bytes % sample_bytes == 0)
        snprintf(advice, sizeof advice,
                 "write `channels = %u`, or the sender's `format` if it has %u channel%s",
                 frame_bytes / sample_bytes, o->channels, o->channels == 1 ? "" : "s");
    else if (frame_bytes > 0 && o->channels > 0 && frame_bytes % o->channels == 0)
        snprintf(advice, sizeof advice, "write a `format` of %u bytes a sample",
                 frame_bytes / o->channels);
    log_warning("stream %s: the sender's time stamps advance by %u frames from packet to packet, "
                "but by `channels = %u` and `format` its payloads of %u bytes hold %u: its packets "
                "are refused from here on (counted as '%s') and the results before are flagged; %s",
                o->stream, stamps->step, o->channels, bytes, stamps->payload,
                reject_name(REJECT_CHANNELS), advice);
}

/* False: the time stamps of this sender do not count its frames, and its packet is rejected. */
static bool check_stamps(struct ingest *in, struct sender *sender, const struct packet *packet,
                         const struct ingest_fields *fields)
{
    const struct ingest_protocol *protocol = in->protocol;
    if (protocol->timestamp_bits == 0)
        return true;
    struct stamp_steps *stamps = &sender->stamps;
    const struct stamp_packet numbers = {.sequence = fields->sequence,
                                         .timestamp = fields->timestamp,
                                         .frames = packet->frames,
                                         .begins_record = fields->marker};
    uint64_t mask = protocol->sequence_bits == 16 ? UINT16_MAX : UINT64_MAX;
    bool wrong_before = stamps->wrong;
    enum stamp_verdict verdict =
        stamp_steps_next(stamps, &numbers, mask, in->options.mode == MODE_RECORD);
    if (stamps->began)
        in->suspect_from = sender->sequence.newest.first_frame;
    in->suspect = verdict == STAMPS_SUSPECT;
    if (verdict != STAMPS_WRONG)
        return true;
    if (!wrong_before)
        explain_stamps(in, stamps);
    senders_reject_held(&in->senders, sender, REJECT_CHANNELS);
    reject(in, REJECT_CHANNELS);
    sender->last_ns = packet->receive_ns;
    return false;
}

static void number_by_header(struct ingest *in, struct sender *sender, struct packet *packet,
                             const struct ingest_fields *fields)
{
    struct sequence_packet numbers = {
        .sequence = fields->sequence,
        .timestamp = fields->timestamp,
        .frames = packet->frames,
        .marker = fields->marker,
        .receive_ns = packet->receive_ns,
    };
    if (!check_stamps(in, sender, packet, fields))
        return;
    bool candidate = sender != senders_followed(&in->senders);
    const struct sequence_newest newest = sender->sequence.newest;
    struct sequence_step step = sequence_next(&sender->sequence, &numbers);
    sender->last_ns = packet->receive_ns;
    if (in->blame_next_gap && !candidate)
        blame_gap(in, &newest, &step);
    bool changed = false;
    if (candidate && sender->sequence.started) {
        sender = senders_follow(&in->senders, sender, &changed);
        candidate = false;
    }
    carry_out(in, sender, packet, &step, changed);
    if (!candidate)
        senders_forget_candidates(&in->senders);
}

/* Headerless: each datagram continues where the one before ended. */
static void number_by_count(struct ingest *in, struct sender *sender, struct packet *packet)
{
    bool changed = false;
    if (sender != senders_followed(&in->senders))
        sender = senders_follow(&in->senders, sender, &changed);
    if (changed)
        in->next_flags |= PACKET_DISCONTINUITY;
    sender->last_ns = packet->receive_ns;
    packet->first_frame = in->next_frame;
    packet->flags = in->next_flags;
    in->next_frame += packet->frames;
    in->next_flags = 0;
    in->ended = false;
    put(in, packet);
}

/* Once for each type of the sender followed: it may well send several. */
static void explain_type(struct ingest *in, const struct received *received,
                         const struct ingest_fields *fields)
{
    char text[ADDRESS_TEXT];
    const struct ingest_options *own = in->options.own;
    const uint64_t bit = UINT64_C(1) << fields->payload_type % 64;
    uint64_t *named = &in->others[fields->payload_type / 64 % 2];
    if (!senders_is_followed(&in->senders, received->from, fields->ssrc)) {
        explain(in, REJECT_PAYLOAD_TYPE,
                "stream %s: datagrams of payload type %u from %s refused: `payload type` is %u",
                in->options.stream, fields->payload_type, address_text(received->from, text),
                own->payload_type);
        return;
    }
    if ((*named & bit) == 0)
        log_info("stream %s: the sender also sends packets of payload type %u; they are left out "
                 "(counted as '%s'), and no frame is missing for them",
                 in->options.stream, fields->payload_type, reject_name(REJECT_PAYLOAD_TYPE));
    *named |= bit;
}

/* GNU Radio's UDP sink ends a run with an empty datagram. Without a tag, `key` takes none. */
static bool is_end_mark(const struct ingest *in, const struct received *received)
{
    const struct ingest_options *own = in->options.own;
    return received->bytes == 0 && in->protocol->datagrams && !in->protocol->has_ssrc &&
           own->key == NULL;
}

/* Datagrams that are no packets of the protocol at all. */
static void explain_protocol(struct ingest *in, const struct received *received, enum reject reason)
{
    char text[ADDRESS_TEXT];
    if (!in->protocol->datagrams)
        return;
    explain(in, reason,
            "stream %s: datagrams of %zu bytes from %s refused, counted as '%s': %s; another "
            "program sends to this port, or the stream needs another `source`",
            in->options.stream, received->bytes, address_text(received->from, text),
            reject_name(reason),
            !in->protocol->has_ssrc ? "they are shorter than a sequence number"
            : reason == REJECT_VERSION
                ? "they are no RTP (plain samples without a header are `source = udp`)"
                : "they are no whole RTP packets");
}

/* Checks that do not depend on the sender followed. False: `reason` says why. */
static bool check(struct ingest *in, const struct received *received, struct ingest_fields *fields,
                  enum reject *reason)
{
    char text[ADDRESS_TEXT];
    const struct source_options *o = &in->options;
    const struct ingest_options *own = o->own;
    if (received->truncated) {
        *reason = REJECT_TRUNCATED;
        return false;
    }
    if (!admission_admits(in->admission, received, reason))
        return false;
    if (is_end_mark(in, received)) {
        *reason = REJECT_EMPTY;
        return false;
    }
    if (!in->protocol->parse(o, received, fields, reason)) {
        if (*reason == REJECT_VERSION || *reason == REJECT_MALFORMED)
            explain_protocol(in, received, *reason);
        fields->numbered = fields->numbered && *reason == REJECT_PAYLOAD_TYPE;
        if (*reason == REJECT_PAYLOAD_TYPE)
            explain_type(in, received, fields);
        if (fields->numbered && own->key != NULL)
            fields->numbered =
                admission_authentic(in->admission, received, fields->sequence, reason);
        return false;
    }
    if (own->key != NULL && !admission_authentic(in->admission, received, fields->sequence, reason))
        return false;
    if (in->protocol->has_ssrc && own->ssrc_pinned && fields->ssrc != own->ssrc) {
        explain(in, REJECT_SSRC, "stream %s: SSRC %u from %s refused: `ssrc` is %u", o->stream,
                fields->ssrc, address_text(received->from, text), own->ssrc);
        *reason = REJECT_SSRC;
        return false;
    }
    if (in->protocol->has_ssrc && fields->payload_bytes == 0) {
        *reason = REJECT_EMPTY;
        return false;
    }
    if (fields->payload_bytes == 0 || fields->payload_bytes % o->frame_bytes != 0) {
        explain(in, REJECT_SIZE,
                "stream %s: payloads of %zu bytes from %s refused: no whole number of frames of "
                "%u bytes (`channels` or `format` differ from the sender's)",
                o->stream, fields->payload_bytes, address_text(received->from, text),
                o->frame_bytes);
        *reason = REJECT_SIZE;
        return false;
    }
    return true;
}

/* A packet of a sender without frames of this stream says that the sender is alive, and takes a
 * number of its sequence; a heartbeat has no number of its own. */
static void note_other(struct ingest *in, const struct received *received,
                       const struct ingest_fields *fields)
{
    struct sender *sender = senders_known(&in->senders, received->from, fields->ssrc);
    struct sequence_range unsent;
    if (sender == NULL)
        return;
    sender->last_ns = received->receive_ns;
    if (fields->heartbeat)
        return;
    if (sequence_other(&sender->sequence, fields->sequence, &unsent) &&
        sender == senders_followed(&in->senders))
        report_unsent(in, &unsent);
}

/* The sender followed has ended its run: the epoch ends, and the next datagram begins another. */
static void end_run(struct ingest *in, const struct received *received)
{
    struct sender *followed = senders_followed(&in->senders);
    if (!senders_is_followed(&in->senders, received->from, 0) || in->ended)
        return;
    const struct sequence_newest newest = newest_of(in);
    const struct packet end = {.first_frame = newest.first_frame + newest.frames,
                               .receive_ns = received->receive_ns,
                               .receive_realtime_ns = received->receive_realtime_ns};
    senders_reject_held(&in->senders, followed, REJECT_JUMP);
    in->host.put(in->host.context, &end);
    in->ended = true;
    if (in->protocol->sequence_bits == 0)
        in->next_flags |= PACKET_DISCONTINUITY;
    const int64_t long_ago_ns = received->receive_ns - in->senders.options.takeover_ns - 1;
    followed->last_ns = long_ago_ns > 0 ? long_ago_ns : 0; /* another may follow at once */
    sequence_reset(&followed->sequence, &in->senders.options.numbers);
    log_info("stream %s: the sender has ended its run (an empty datagram)", in->options.stream);
}

/* Frames that follow this datagram in its GRO batch, which may hold packets of other kinds. Assumes
 * headers of the same size. */
static uint32_t frames_behind(struct ingest *in, const struct received *received)
{
    const uint8_t *next = received->data + received->bytes, *end = next + received->behind_bytes;
    if (in->batch.next == received->data && in->batch.end == end && in->batch.datagrams > 0) {
        in->batch.datagrams--;
        in->batch.bytes -= received->bytes;
    } else {
        in->batch.datagrams = 0;
        in->batch.bytes = 0;
        for (const uint8_t *at = next; at < end; at += received->bytes) {
            const size_t left = (size_t)(end - at);
            const size_t bytes = left < received->bytes ? left : received->bytes;
            if (in->protocol->same_kind != NULL &&
                !in->protocol->same_kind(at, bytes, received->data))
                continue;
            in->batch.datagrams++;
            in->batch.bytes += bytes;
        }
    }
    in->batch.next = next;
    in->batch.end = end;
    const size_t around = (in->last_header_bytes + in->last_trailer_bytes) * in->batch.datagrams;
    return in->batch.bytes > around
               ? (uint32_t)((in->batch.bytes - around) / in->options.frame_bytes)
               : 0;
}

void ingest_datagram(struct ingest *in, const struct received *received)
{
    struct ingest_fields fields = {0};
    in->ledger.datagrams++;
    enum reject reason;
    if (!check(in, received, &fields, &reason)) {
        if (reason == REJECT_EMPTY && !in->protocol->has_ssrc)
            end_run(in, received);
        else if (reason == REJECT_EMPTY ||
                 (fields.numbered && (reason == REJECT_PAYLOAD_TYPE || reason == REJECT_SIZE)))
            note_other(in, received, &fields);
        reject(in, reason);
        return;
    }
    struct sender *sender =
        senders_find(&in->senders, received->from, fields.ssrc, received->receive_ns, &reason);
    if (sender == NULL && reason == REJECT_SOURCE &&
        senders_moves(&in->senders, received->from, fields.ssrc, fields.sequence,
                      received->receive_ns))
        sender = senders_followed(&in->senders);
    if (sender == NULL) {
        reject(in, reason);
        return;
    }
    struct packet packet = {
        .frames = (uint32_t)(fields.payload_bytes / in->options.frame_bytes),
        .sender = fields.ssrc,
        .payload = received->payload != NULL ? received->payload : fields.payload,
        .receive_ns = received->receive_ns,
        .receive_realtime_ns = received->receive_realtime_ns,
        .clock = received->in_batch ? CLOCK_SOURCE_GRO : CLOCK_SOURCE_RECEIVE,
    };
    in->last_frames = packet.frames;
    in->last_header_bytes = (size_t)(fields.payload - received->data);
    in->last_trailer_bytes = received->bytes - in->last_header_bytes - fields.payload_bytes;
    if (received->behind_bytes > 0)
        packet.frames_behind = frames_behind(in, received);
    if (in->protocol->sequence_bits == 0)
        number_by_count(in, sender, &packet);
    else
        number_by_header(in, sender, &packet, &fields);
}

void ingest_drops(struct ingest *in, uint64_t datagrams)
{
    in->ledger.kernel_drops += datagrams;
    /* Without numbers nothing else says where the lost frames were: skip their numbers here. */
    if (in->protocol->sequence_bits == 0 && in->senders.all[0].active) {
        uint64_t frames = datagrams * in->last_frames;
        in->next_frame += frames;
        if ((double)frames > (double)in->options.max_gap_ns * 1e-9 * in->options.rate_hz)
            in->next_flags |= PACKET_DISCONTINUITY;
    }
    in->host.socket_drops(in->host.context, datagrams);
}

void ingest_batch_drops(struct ingest *in, uint64_t batches)
{
    assert(in->protocol->sequence_bits != 0);
    in->ledger.kernel_drops += batches;
    in->blame_next_gap = true;
}

void ingest_stop(struct ingest *in)
{
    senders_reject_held(&in->senders, senders_followed(&in->senders), REJECT_JUMP);
    senders_forget_candidates(&in->senders);
}
