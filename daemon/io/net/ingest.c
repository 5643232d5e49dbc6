/*
 * Ingest: see ingest.h.
 *
 *     datagram ─► checks ─► is it the sender followed? ─► sequence ─► host
 *                   │              │ no: a candidate ─► its own sequence ─► takes over
 *                   ▼              ▼
 *                rejects        rejects
 *
 * Each datagram is counted where its fate is decided, one that is held when it is let go.
 */
#include "io/net/ingest.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "io/net/socket.h"

enum {
    HELD_BYTES = 65536, /* the largest payload */
    CANDIDATES = 2,     /* one forged datagram must not keep a true sender waiting */
    REJECT_INTERVAL_S = 30,
};

struct sender {
    bool active;
    uint32_t ssrc;
    struct sockaddr_storage from;
    int64_t last_ns;
    struct sequence sequence;
    bool holding;
    struct packet held; /* its payload lies in held_payload */
    uint8_t *held_payload;
};

struct ingest {
    const struct ingest_protocol *protocol;
    struct source_options options;
    struct source_host host;
    struct source_ledger ledger;
    struct sequence_options limits;
    bool allow_set;
    struct sockaddr_storage allow;
    struct sender senders[1 + CANDIDATES]; /* [0] is the one followed */
    uint8_t *buffers;
    uint32_t last_frames;
    size_t last_header_bytes;
    bool blame_next_gap; /* a train was dropped just before */
    /* headerless */
    uint64_t next_place;
    uint32_t next_flags;
    struct log_limit reject_limits[REJECTS];
};

int ingest_open(const struct ingest_protocol *protocol, const struct source_options *options,
                const struct source_host *host, struct ingest **out, struct problem *problem)
{
    const struct ingest_options *own = options->own;
    struct ingest *in = calloc(1, sizeof *in);
    uint8_t *buffers = malloc((1 + CANDIDATES) * (size_t)HELD_BYTES);
    int error = 0;
    if (in == NULL || buffers == NULL)
        error = problem_set(problem, ERROR_MEMORY, "no memory for a source");
    if (error == 0 && own->allow != NULL)
        error = address_resolve_host(own->allow, &in->allow, problem);
    if (error != 0) {
        free(buffers);
        free(in);
        return error;
    }
    in->protocol = protocol;
    in->options = *options;
    in->host = *host;
    in->allow_set = own->allow != NULL;
    in->limits = (struct sequence_options){
        .rate_hz = options->rate_hz,
        .timestamp_bits = protocol->timestamp_bits,
        .sequence_bits = protocol->sequence_bits,
        .reorder_ns = options->reorder_ns,
        .max_gap_ns = options->max_gap_ns,
        .max_dropout_ns = own->max_dropout_ns,
        .max_misorder_ns = own->max_misorder_ns,
        .records = options->mode == MODE_RECORD,
    };
    in->buffers = buffers;
    for (int i = 0; i < 1 + CANDIDATES; i++)
        in->senders[i].held_payload = buffers + (size_t)i * HELD_BYTES;
    in->next_place = SEQUENCE_ORIGIN;
    in->ledger.loss_detectable = protocol->sequence_bits != 0;
    *out = in;
    return 0;
}

void ingest_close(struct ingest *in)
{
    if (in == NULL)
        return;
    free(in->buffers);
    free(in);
}

void ingest_ledger(const struct ingest *in, struct source_ledger *ledger)
{
    *ledger = in->ledger;
}

uint32_t ingest_last_frames(const struct ingest *in)
{
    return in->last_frames;
}

/* ---- counting ---------------------------------------------------------------------------- */

static void reject(struct ingest *in, enum reject reject)
{
    in->ledger.rejected[reject]++;
}

/* Whether a line may say again why datagrams are refused; their texts cost more than they do. */
static bool may_explain(struct ingest *in, enum reject reason)
{
    struct log_limit *limit = &in->reject_limits[reason];
    if (clock_monotonic_ns() >= limit->next_ns)
        return true;
    limit->swallowed++;
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
    source_ledger_count(&in->ledger, in->host.put(in->host.context, packet));
}

/* ---- what is held ------------------------------------------------------------------------ */

static void hold(struct ingest *in, struct sender *sender, const struct packet *packet)
{
    size_t bytes = (size_t)packet->frames * in->options.frame_bytes;
    assert(!sender->holding && bytes <= HELD_BYTES);
    memcpy(sender->held_payload, packet->payload, bytes);
    sender->held = *packet;
    sender->held.payload = sender->held_payload;
    sender->holding = true;
    in->ledger.held++;
}

static void release(struct ingest *in, struct sender *sender, uint64_t place, uint32_t flags)
{
    assert(sender->holding);
    sender->holding = false;
    in->ledger.held--;
    sender->held.first_frame = place;
    sender->held.flags = flags;
    put(in, &sender->held);
}

static void reject_held(struct ingest *in, struct sender *sender, enum reject reason)
{
    if (!sender->holding)
        return;
    sender->holding = false;
    in->ledger.held--;
    reject(in, reason);
}

/* ---- senders ----------------------------------------------------------------------------- */

static bool is_from(const struct ingest *in, const struct sender *sender, uint32_t ssrc,
                    const struct received *received)
{
    return sender->active && (!in->protocol->has_ssrc || sender->ssrc == ssrc) &&
           address_same_host(&sender->from, received->from);
}

/* Why a datagram of this sender is not taken while another one is followed. */
static enum reject stranger(const struct ingest *in, const struct sender *sender)
{
    if (!in->senders[0].active)
        return REJECT_PROBATION;
    return address_same_host(&in->senders[0].from, &sender->from) ? REJECT_SSRC : REJECT_ADDRESS;
}

static void forget_candidates(struct ingest *in)
{
    for (int i = 1; i < 1 + CANDIDATES; i++) {
        reject_held(in, &in->senders[i], stranger(in, &in->senders[i]));
        in->senders[i].active = false;
    }
}

/* The candidate of this datagram: one that is there, or the place of the one silent longest. */
static struct sender *candidate_for(struct ingest *in, uint32_t ssrc,
                                    const struct received *received)
{
    struct sender *oldest = &in->senders[1];
    for (int i = 1; i < 1 + CANDIDATES; i++) {
        struct sender *sender = &in->senders[i];
        if (is_from(in, sender, ssrc, received))
            return sender;
        if (!sender->active || (oldest->active && sender->last_ns < oldest->last_ns))
            oldest = sender;
    }
    reject_held(in, oldest, stranger(in, oldest));
    oldest->active = true;
    oldest->ssrc = ssrc;
    oldest->from = *received->from;
    sequence_reset(&oldest->sequence, &in->limits);
    return oldest;
}

/* Makes a proven candidate the sender that is followed. Returns where it is now. */
static struct sender *follow(struct ingest *in, struct sender *candidate)
{
    struct sender former = in->senders[0];
    reject_held(in, &in->senders[0], REJECT_JUMP);
    in->senders[0] = *candidate;
    former.active = former.holding = false;
    *candidate = former; /* its buffer goes along */
    in->ledger.ssrc = in->senders[0].ssrc;
    return &in->senders[0];
}

/* ---- guesses ----------------------------------------------------------------------------- */

/* The packet before the next one, in the numbering of the sender followed. */
static struct sequence_newest newest_of(const struct ingest *in)
{
    const struct sender *followed = &in->senders[0];
    if (in->protocol->sequence_bits != 0)
        return followed->sequence.newest;
    return (struct sequence_newest){.first_frame = in->next_place - in->last_frames,
                                    .frames = in->last_frames};
}

unsigned ingest_guess(const struct ingest *in, struct receive_guess *guesses, unsigned most)
{
    const struct sender *followed = &in->senders[0];
    struct sequence_newest newest = newest_of(in);
    if (in->host.vacant == NULL || !followed->active || followed->holding || newest.frames == 0 ||
        in->next_flags != 0)
        return 0;
    size_t payload_bytes = (size_t)newest.frames * in->options.frame_bytes;
    if (in->last_header_bytes + payload_bytes >= HELD_BYTES)
        return 0;
    uint64_t frames = (uint64_t)most * newest.frames;
    uint8_t *at = in->host.vacant(in->host.context, newest.first_frame + newest.frames, &frames);
    if (at == NULL)
        return 0;
    unsigned count = (unsigned)(frames / newest.frames);
    for (unsigned i = 0; i < count; i++)
        guesses[i] = (struct receive_guess){.header_bytes = in->last_header_bytes,
                                            .payload = at + i * payload_bytes,
                                            .payload_bytes = payload_bytes};
    return count;
}

/*
 * The header is parsed as of a whole datagram: a list, an extension or padding of another size than
 * guessed shows as another place of the payload. What lies behind the header may be anything.
 */
bool ingest_came_true(const struct ingest *in, const struct receive_guess *guess, unsigned number,
                      const struct received *received)
{
    const struct ingest_protocol *protocol = in->protocol;
    const struct sequence_newest newest = newest_of(in);
    struct ingest_fields fields = {0};
    if (protocol->parse(&in->options, received, &fields) != 0 ||
        fields.payload != received->data + guess->header_bytes ||
        fields.payload_bytes != guess->payload_bytes || fields.marker ||
        !is_from(in, &in->senders[0], fields.ssrc, received))
        return false;
    uint64_t place = newest.first_frame + (1 + (uint64_t)number) * newest.frames;
    uint64_t sequence = newest.sequence + 1 + number;
    uint64_t mask = protocol->sequence_bits == 16 ? UINT16_MAX : UINT64_MAX;
    return (protocol->sequence_bits == 0 || ((fields.sequence ^ sequence) & mask) == 0) &&
           (protocol->timestamp_bits == 0 || (uint32_t)fields.timestamp == (uint32_t)place);
}

/* ---- one datagram ------------------------------------------------------------------------ */

/* Carries out what the sequence has decided. `changed`: the sender takes over with it. */
static void carry_out(struct ingest *in, struct sender *sender, struct packet *packet,
                      const struct sequence_step *step, bool changed)
{
    uint32_t held_flags = step->held_flags | (changed ? PACKET_DISCONTINUITY : 0);
    if (step->held == HELD_RELEASE)
        release(in, sender, step->held_first_frame, held_flags);
    else if (step->held == HELD_REJECT)
        reject_held(in, sender, step->held_unproven ? stranger(in, sender) : REJECT_JUMP);

    packet->first_frame = step->first_frame;
    packet->flags = step->flags;
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

/* A train was dropped before this packet: the frames that are missing before it were in there. A
 * jump is judged when it is confirmed. */
static void blame_gap(struct ingest *in, const struct sequence_newest *newest,
                      const struct sequence_step *step)
{
    bool released = step->held == HELD_RELEASE;
    uint64_t place = released ? step->held_first_frame : step->first_frame;
    uint32_t flags = released ? step->held_flags : step->flags;
    uint64_t expected = newest->first_frame + newest->frames;
    if (!released && step->verdict != SEQUENCE_ACCEPT)
        return;
    in->blame_next_gap = false;
    if (!(flags & PACKET_DISCONTINUITY) && place > expected && newest->frames > 0)
        in->host.socket_drops(in->host.context,
                              (place - expected + newest->frames - 1) / newest->frames);
}

static void place_numbered(struct ingest *in, struct sender *sender, struct packet *packet,
                           const struct ingest_fields *fields)
{
    struct sequence_packet numbers = {
        .sequence = fields->sequence,
        .timestamp = fields->timestamp,
        .frames = packet->frames,
        .marker = fields->marker,
        .receive_ns = packet->receive_ns,
    };
    bool candidate = sender != &in->senders[0];
    const struct sequence_newest newest = sender->sequence.newest;
    struct sequence_step step = sequence_next(&sender->sequence, &numbers);
    sender->last_ns = packet->receive_ns;
    if (in->blame_next_gap && !candidate)
        blame_gap(in, &newest, &step);
    bool changed = false;
    if (candidate && sender->sequence.started) {
        changed = in->senders[0].active;
        in->ledger.senders += changed;
        sender = follow(in, sender);
        candidate = false;
    }
    carry_out(in, sender, packet, &step, changed);
    /* "Consecutive" means that the sender followed was not heard in between. */
    if (!candidate)
        forget_candidates(in);
}

/* Headerless: the next frames are the next frames. */
static void place_headerless(struct ingest *in, const struct received *received,
                             struct packet *packet)
{
    struct sender *sender = &in->senders[0];
    if (!is_from(in, sender, 0, received)) {
        if (sender->active) {
            in->next_flags |= PACKET_DISCONTINUITY;
            in->ledger.senders++;
        }
        sender->active = true;
        sender->from = *received->from;
    }
    sender->last_ns = packet->receive_ns;
    packet->first_frame = in->next_place;
    packet->flags = in->next_flags;
    in->next_place += packet->frames;
    in->next_flags = 0;
    put(in, packet);
}

/* Whether a datagram may count at all, before its sender is looked at: 0, or 1 + the reject. */
static int check(struct ingest *in, const struct received *received, struct ingest_fields *fields)
{
    char text[ADDRESS_TEXT];
    const struct source_options *o = &in->options;
    const struct ingest_options *own = o->own;
    if (received->truncated)
        return 1 + REJECT_TRUNCATED;
    if (in->allow_set && !address_same_host(&in->allow, received->from)) {
        explain(in, REJECT_ADDRESS, "stream %s: datagrams from %s refused: `allow` names another",
                o->stream, address_text(received->from, text));
        return 1 + REJECT_ADDRESS;
    }
    int failed = in->protocol->parse(o, received, fields);
    if (failed == 1 + REJECT_PAYLOAD_TYPE)
        explain(in, REJECT_PAYLOAD_TYPE,
                "stream %s: datagrams of payload type %u from %s refused: `payload type` is %u",
                o->stream, fields->payload_type, address_text(received->from, text),
                own->payload_type);
    if (failed != 0)
        return failed;
    if (in->protocol->has_ssrc && own->ssrc_pinned && fields->ssrc != own->ssrc) {
        explain(in, REJECT_SSRC, "stream %s: SSRC %u from %s refused: `ssrc` is %u", o->stream,
                fields->ssrc, address_text(received->from, text), own->ssrc);
        return 1 + REJECT_SSRC;
    }
    if (fields->payload_bytes == 0 || fields->payload_bytes % o->frame_bytes != 0) {
        explain(in, REJECT_SIZE,
                "stream %s: payloads of %zu bytes from %s refused: no whole number of frames of "
                "%u bytes (`channels` or `format` differ from the sender's)",
                o->stream, fields->payload_bytes, address_text(received->from, text),
                o->frame_bytes);
        return 1 + REJECT_SIZE;
    }
    return 0;
}

void ingest_datagram(struct ingest *in, const struct received *received)
{
    struct ingest_fields fields = {0};
    in->ledger.datagrams++;
    int failed = check(in, received, &fields);
    if (failed != 0) {
        reject(in, (enum reject)(failed - 1));
        return;
    }
    struct packet packet = {
        .frames = (uint32_t)(fields.payload_bytes / in->options.frame_bytes),
        .payload = received->payload != NULL ? received->payload : fields.payload,
        .receive_ns = received->receive_ns,
        .receive_realtime_ns = received->receive_realtime_ns,
        .clock = received->in_train ? CLOCK_SOURCE_TRAIN : CLOCK_SOURCE_RECEIVE,
    };
    in->last_frames = packet.frames;
    in->last_header_bytes = (size_t)(fields.payload - received->data);
    /* The datagrams behind it in its train have the same headers, as far as one can know. */
    size_t headers = in->last_header_bytes * received->train_datagrams;
    if (received->train_bytes > headers)
        packet.frames_behind =
            (uint32_t)((received->train_bytes - headers) / in->options.frame_bytes);
    struct sender *followed = &in->senders[0];
    bool known = is_from(in, followed, fields.ssrc, received);
    bool silent = received->receive_ns - followed->last_ns > in->limits.max_dropout_ns;
    if (!known && followed->active && !silent &&
        !address_same_host(&followed->from, received->from)) {
        char text[ADDRESS_TEXT], from[ADDRESS_TEXT];
        explain(in, REJECT_ADDRESS, "stream %s: datagrams from %s refused: %s is followed",
                in->options.stream, address_text(received->from, from),
                address_text(&followed->from, text));
        reject(in, REJECT_ADDRESS);
    } else if (in->protocol->sequence_bits == 0) {
        place_headerless(in, received, &packet);
    } else {
        place_numbered(in, known ? followed : candidate_for(in, fields.ssrc, received), &packet,
                       &fields);
    }
}

void ingest_drops(struct ingest *in, uint64_t datagrams)
{
    in->ledger.kernel_drops += datagrams;
    /* Without numbers nothing else says where the lost frames were: they are left out here. */
    if (in->protocol->sequence_bits == 0 && in->senders[0].active) {
        uint64_t frames = datagrams * in->last_frames;
        in->next_place += frames;
        if ((double)frames > (double)in->options.max_gap_ns * 1e-9 * in->options.rate_hz)
            in->next_flags |= PACKET_DISCONTINUITY;
    }
    in->host.socket_drops(in->host.context, datagrams);
}

void ingest_train_drops(struct ingest *in, uint64_t trains)
{
    assert(in->protocol->sequence_bits != 0);
    in->ledger.kernel_drops += trains;
    in->blame_next_gap = true;
}

void ingest_stop(struct ingest *in)
{
    for (int i = 0; i < 1 + CANDIDATES; i++) {
        struct sender *sender = &in->senders[i];
        reject_held(in, sender, i > 0 ? stranger(in, sender) : REJECT_JUMP);
    }
}
