/*
 * Ingest without sockets: tables of datagrams in order of arrival and what each of them does
 * to the ledger. After every datagram the ledger must balance, and every payload that reaches
 * the host must be the one that was sent for its place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "core/clock.h"
#include "io/net/address.h"
#include "io/net/network_options.h"
#include "io/net/network_source.h"
#include "tests/support/scratch.h"
#include "wire/auth.h"
#include "wire/rtp.h"

/* Fields left out of a row are zero. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

enum { FRAMES = 10, FRAME_BYTES = 4, TYPE = 96 };

/* ---- a host that remembers --------------------------------------------------------------- */

struct put {
    uint64_t place;
    uint32_t flags;
    uint32_t frames;
    uint8_t first_byte;
    bool flagged;    /* from its first frame to its last */
    uint32_t sender; /* its SSRC */
    uint32_t frames_behind;
};

struct fake_host {
    struct put puts[64];
    int count;
    enum verdict verdict; /* what it answers */
    uint64_t drops;
    uint64_t unsent; /* frames in all */
    uint64_t unsent_until;
};

static enum verdict fake_put(void *context, const struct packet *packet)
{
    struct fake_host *host = context;
    assert_true(host->count < 64);
    for (uint32_t i = 1; i < packet->frames * FRAME_BYTES; i++)
        assert_int_equal(packet->payload[i], packet->payload[0]);
    bool flagged = packet->invalid_count == 1 && packet->invalid->cause == INVALID_SENDER &&
                   packet->invalid->from <= packet->first_frame &&
                   packet->invalid->until == packet->first_frame + packet->frames;
    host->puts[host->count++] = (struct put){packet->first_frame,
                                             packet->flags,
                                             packet->frames,
                                             packet->frames > 0 ? packet->payload[0] : (uint8_t)0,
                                             flagged,
                                             packet->sender,
                                             packet->frames_behind};
    return host->verdict;
}

static void fake_unsent(void *context, uint64_t from, uint64_t until)
{
    struct fake_host *host = context;
    assert_true(from < until);
    host->unsent += until - from;
    host->unsent_until = until;
}

static void fake_drops(void *context, uint64_t datagrams)
{
    ((struct fake_host *)context)->drops += datagrams;
}

static struct ingest *open_ingest(const struct ingest_protocol *protocol,
                                  const struct source_options *options, struct fake_host *host)
{
    struct source_host functions = {
        .context = host, .put = fake_put, .socket_drops = fake_drops, .unsent = fake_unsent};
    struct ingest *ingest;
    struct problem problem;
    *host = (struct fake_host){.verdict = VERDICT_ACCEPTED};
    if (ingest_open(protocol, options, &functions, &ingest, &problem) != 0)
        fail_msg("%s", problem.text);
    return ingest;
}

static struct network_options own;

static const struct option_value anybody[] = {{.text = "any"}},
                                 allow_first[] = {{.text = "192.0.2.1"}};

static const struct network_options own_defaults = {
    .ingest = {.allow = {anybody, 1},
               .payload_type = TYPE,
               .takeover_ns = NS_PER_SECOND,
               .max_dropout_ns = NS_PER_SECOND,
               .max_misorder_ns = 10 * NS_PER_MS},
};

static const struct source_options defaults = {
    .stream = "test",
    .rate_hz = 1e4,
    .channels = 2,
    .frame_bytes = FRAME_BYTES,
    .reorder_ns = 5 * NS_PER_MS,
    .max_gap_ns = NS_PER_SECOND,
    .own = &own,
};

static uint64_t rejects(const struct source_ledger *ledger)
{
    uint64_t sum = 0;
    for (int i = 0; i < REJECTS; i++)
        sum += ledger->rejected[i];
    return sum;
}

static struct sockaddr_storage address_of(int host, bool mapped)
{
    struct sockaddr_storage storage = {0};
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&storage;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)&storage;
    if (mapped) {
        v6->sin6_family = AF_INET6;
        const uint8_t bytes[16] = {[10] = 0xFF, 0xFF, 192, 0, 2, (uint8_t)host};
        memcpy(&v6->sin6_addr, bytes, sizeof bytes);
    } else {
        v4->sin_family = AF_INET;
        const uint8_t bytes[4] = {192, 0, 2, (uint8_t)host};
        memcpy(&v4->sin_addr, bytes, sizeof bytes);
    }
    return storage;
}

/* ---- RTP --------------------------------------------------------------------------------- */

enum shape {
    PLAIN,
    VERSION_1,
    SHORT,
    OTHER_TYPE,
    RTCP,
    ODD,
    EMPTY,
    HEARTBEAT,
    BAD_PADDING,
    PADDED,
    CSRCS,
    EXTENDED,
    CUT_OFF,
    MARKED
};

struct row {
    uint32_t ssrc;
    int host;
    int sequence; /* the time stamp is FRAMES times this… */
    int jump;     /* …plus this */
    enum shape shape;
    int accepted;    /* how many more are accepted after it */
    int rejected[2]; /* which rejects counted, 1 + enum reject */
    int held;        /* how many are held after it */
    uint32_t flags;  /* of the first packet delivered by it */
    int wait_ms;     /* silence before it */
    int last;        /* the last one delivered by it, when that is another */
    int port;        /* it comes from */
};

struct scenario {
    const char *given;
    bool pinned, allow, records;
    const struct row *rows;
    int count;
};

#define ROWS(...)                                                                                  \
    (const struct row[]){__VA_ARGS__},                                                             \
        sizeof((const struct row[]){__VA_ARGS__}) / sizeof(struct row)
#define NO(reason)                                                                                 \
    {                                                                                              \
        1 + REJECT_##reason                                                                        \
    }
#define START                                                                                      \
    {7, 1, 0, .held = 1},                                                                          \
    {                                                                                              \
        7, 1, 1, .accepted = 2                                                                     \
    }

static const struct scenario scenarios[] = {
    {"a clean start", 0, 0, 0, ROWS(START, {7, 1, 2, .accepted = 1}, {7, 1, 3, .accepted = 1})},
    {"a sender that shows itself once", 0, 0, 0,
     ROWS({7, 1, 0, .held = 1}, {7, 1, 5, .rejected = NO(PROBATION), .held = 1},
          {7, 1, 6, .accepted = 2})},
    {"a forged packet before the true ones", 0, 0, 0,
     ROWS({9, 1, 4000, .held = 1}, {7, 1, 0, .held = 2},
          {7, 1, 1, .accepted = 2, .rejected = NO(SSRC)})},
    {"three senders, none proven", 0, 0, 0,
     ROWS({1, 1, 0, .held = 1}, {2, 1, 0, .held = 2},
          {3, 1, 0, .rejected = NO(PROBATION), .held = 2},
          {3, 1, 1, .accepted = 2, .rejected = NO(SSRC)})},
    {"another SSRC of the same host, two in a row", 0, 0, 0,
     ROWS(START, {9, 1, 2, .rejected = NO(SSRC)}, {9, 1, 3, .rejected = NO(SSRC)},
          {9, 1, 4, .rejected = NO(SSRC)}, {7, 1, 2, .accepted = 1},
          {9, 1, 5, .rejected = NO(SSRC)}, {7, 1, 3, .accepted = 1})},
    {"the same SSRC from another port", 0, 0, 0,
     ROWS(START, {7, 1, 500, .port = 4, .rejected = NO(SOURCE)},
          {7, 1, 501, .port = 4, .rejected = NO(SOURCE)}, {7, 1, 2, .accepted = 1},
          {7, 1, 700, .port = 4, .held = 1, .wait_ms = 1100},
          {7, 1, 701, .port = 4, .accepted = 2, .flags = PACKET_DISCONTINUITY})},
    {"the same SSRC continues from another port, and the old one is silent", 0, 0, 0,
     ROWS(START, {7, 1, 2, .port = 4, .rejected = NO(SOURCE)},
          {7, 1, 3, .port = 4, .accepted = 1, .wait_ms = 30}, {7, 1, 4, .port = 4, .accepted = 1},
          {7, 1, 5, .rejected = NO(SOURCE)}, {7, 1, 5, .port = 4, .accepted = 1})},
    {"forged packets that continue from another port", 0, 0, 0,
     ROWS(START, {7, 1, 2, .port = 4, .rejected = NO(SOURCE)},
          {7, 1, 3, .port = 4, .rejected = NO(SOURCE)}, {7, 1, 2, .accepted = 1, .wait_ms = 30},
          {7, 1, 4, .port = 4, .rejected = NO(SOURCE)},
          {7, 1, 5, .port = 4, .rejected = NO(SOURCE)}, {7, 1, 3, .accepted = 1})},
    {"forged packets before and after one of the followed port", 0, 0, 0,
     ROWS(START, {7, 1, 2, .port = 4, .rejected = NO(SOURCE)}, {7, 1, 2, .accepted = 1},
          {7, 1, 3, .port = 4, .rejected = NO(SOURCE), .wait_ms = 30}, {7, 1, 3, .accepted = 1})},
    {"other numbers of the SSRC from another port while it is silent", 0, 0, 0,
     ROWS(START, {7, 1, 500, .port = 4, .rejected = NO(SOURCE), .wait_ms = 30},
          {7, 1, 501, .port = 4, .rejected = NO(SOURCE)}, {7, 1, 2, .accepted = 1})},
    {"a restarted sender is back after a second of silence", 0, 0, 0,
     ROWS(START, {9, 1, 500, .rejected = NO(SSRC)}, {9, 1, 501, .rejected = NO(SSRC)},
          {9, 1, 900, .rejected = NO(SSRC), .wait_ms = 900},
          {9, 1, 1000, .held = 1, .wait_ms = 200},
          {9, 1, 1001, .accepted = 2, .flags = PACKET_DISCONTINUITY}, {9, 1, 1002, .accepted = 1},
          {7, 1, 2, .rejected = NO(SSRC)}, {9, 1, 1003, .accepted = 1})},
    {"another SSRC after a silence, not in order", 0, 0, 0,
     ROWS(START, {9, 1, 2, .held = 1, .wait_ms = 1100}, {9, 1, 4, .rejected = NO(SSRC), .held = 1},
          {7, 1, 2, .jump = 11020, .rejected = NO(SSRC), .held = 1},
          {7, 1, 3, .jump = 11020, .accepted = 2, .flags = PACKET_DISCONTINUITY})},
    {"restarted with a jump held", 0, 0, 0,
     ROWS(START, {7, 1, 900, .held = 1}, {9, 1, 500, .held = 2, .wait_ms = 1100},
          {9, 1, 501, .accepted = 2, .rejected = NO(JUMP), .flags = PACKET_DISCONTINUITY})},
    {"the same SSRC from another host", 0, 0, 0,
     ROWS(START, {7, 2, 2, .rejected = NO(ADDRESS)}, {7, 2, 3, .rejected = NO(ADDRESS)},
          {7, 1, 2, .accepted = 1})},
    {"another host after a long silence", 0, 0, 0,
     ROWS(START, {9, 2, 70, .held = 1, .wait_ms = 1100},
          {9, 2, 71, .accepted = 2, .flags = PACKET_DISCONTINUITY},
          {7, 1, 2, .rejected = NO(ADDRESS)})},
    {"another host, the first one comes back", 0, 0, 0,
     ROWS(START, {9, 2, 70, .held = 1, .wait_ms = 1100},
          {7, 1, 2, .jump = 11000, .rejected = NO(ADDRESS), .held = 1},
          {7, 1, 3, .jump = 11000, .accepted = 2, .flags = PACKET_DISCONTINUITY})},
    {"a host not allowed", 0, 1, 0,
     ROWS({7, 2, 0, .rejected = NO(NOT_ALLOWED)}, START, {7, 2, 2, .rejected = NO(NOT_ALLOWED)},
          {9, 3, 2, .rejected = NO(NOT_ALLOWED), .wait_ms = 2000})},
    {"a pinned SSRC", 1, 0, 0,
     ROWS({9, 1, 0, .rejected = NO(SSRC)}, START, {9, 1, 2, .rejected = NO(SSRC)},
          {9, 1, 3, .rejected = NO(SSRC)}, {7, 1, 2, .accepted = 1})},
    {"what is not RTP, or not ours", 0, 0, 0,
     ROWS(START, {7, 1, 2, .shape = VERSION_1, .rejected = NO(VERSION)},
          {7, 1, 2, .shape = SHORT, .rejected = NO(MALFORMED)},
          {7, 1, 2, .shape = OTHER_TYPE, .rejected = NO(PAYLOAD_TYPE)},
          {7, 1, 2, .shape = ODD, .rejected = NO(SIZE)},
          {7, 1, 2, .shape = EMPTY, .rejected = NO(EMPTY)},
          {7, 1, 2, .shape = BAD_PADDING, .rejected = NO(MALFORMED)},
          {7, 1, 2, .shape = CUT_OFF, .rejected = NO(TRUNCATED)}, {7, 1, 2, .accepted = 1})},
    {"packets without payload, numbered and not", 0, 0, 0,
     ROWS(START, {7, 1, 2, .shape = EMPTY, .rejected = NO(EMPTY)},
          {7, 1, 3, .jump = -FRAMES, .accepted = 1},
          {7, 1, 3, .shape = HEARTBEAT, .rejected = NO(EMPTY)},
          {7, 1, 4, .jump = -FRAMES, .accepted = 1},
          {9, 1, 4, .shape = HEARTBEAT, .rejected = NO(EMPTY)},
          {7, 1, 5, .shape = EMPTY, .rejected = NO(EMPTY)},
          {7, 1, 6, .shape = EMPTY, .rejected = NO(EMPTY)},
          {7, 1, 7, .jump = -3 * FRAMES, .accepted = 1})},
    {"another payload type in the sequence, some lost", 0, 0, 0,
     ROWS(START, {7, 1, 2, .shape = OTHER_TYPE, .rejected = NO(PAYLOAD_TYPE)},
          {7, 1, 3, .jump = -FRAMES, .accepted = 1}, {7, 1, 5, .jump = -2 * FRAMES, .accepted = 1},
          {7, 1, 7, .shape = OTHER_TYPE, .rejected = NO(PAYLOAD_TYPE)},
          {7, 1, 8, .jump = -4 * FRAMES, .accepted = 1})},
    {"another payload type before the sender is proven", 0, 0, 0,
     ROWS({7, 1, 0, .held = 1},
          {7, 1, 1, .shape = OTHER_TYPE, .rejected = NO(PAYLOAD_TYPE), .held = 1},
          {7, 1, 2, .jump = -FRAMES, .accepted = 2})},
    {"another payload type keeps its sender alive", 0, 0, 0,
     ROWS(START, {7, 1, 2, .shape = OTHER_TYPE, .rejected = NO(PAYLOAD_TYPE), .wait_ms = 800},
          {9, 1, 70, .rejected = NO(SSRC), .wait_ms = 800},
          {7, 1, 3, .jump = -FRAMES, .accepted = 1})},
    {"padding, CSRCs and extensions", 0, 0, 0,
     ROWS(START, {7, 1, 2, .shape = PADDED, .accepted = 1},
          {7, 1, 3, .shape = CSRCS, .accepted = 1}, {7, 1, 4, .shape = EXTENDED, .accepted = 1})},
    {"a gap is confirmed", 0, 0, 0,
     ROWS(START, {7, 1, 50, .held = 1}, {7, 1, 51, .accepted = 2}, {7, 1, 52, .accepted = 1})},
    {"a straggler makes a jump small", 0, 0, 0,
     ROWS(START, {7, 1, 8, .held = 1}, {7, 1, 7, .accepted = 2, .last = 8})},
    {"a forged jump", 0, 0, 0,
     ROWS(START, {7, 1, 50, .held = 1}, {7, 1, 2, .accepted = 1, .rejected = NO(JUMP)})},
    {"the held one again", 0, 0, 0,
     ROWS(START, {7, 1, 50, .held = 1}, {7, 1, 50, .rejected = NO(DUPLICATE), .held = 1},
          {7, 1, 51, .accepted = 2})},
    {"a jump back, then stragglers", 0, 0, 0,
     ROWS(START, {7, 1, -900, .held = 1},
          {7, 1, -899, .accepted = 2, .flags = PACKET_DISCONTINUITY},
          {7, 1, 2, .rejected = NO(LATE)})},
    {"records", 0, 0, 1,
     ROWS({7, 1, 0, .held = 1}, {7, 1, 1, .accepted = 2, .flags = PACKET_RECORD},
          {7, 1, 2, .jump = 5000, .shape = MARKED, .accepted = 1, .flags = PACKET_RECORD})},
    {"records of a restarted recorder", 0, 0, 1,
     ROWS({7, 1, 0, .held = 1}, {7, 1, 1, .accepted = 2, .flags = PACKET_RECORD},
          {9, 1, 7, .shape = MARKED, .held = 1, .wait_ms = 1100},
          {9, 1, 8, .accepted = 2, .flags = PACKET_RECORD | PACKET_DISCONTINUITY})},
};

static size_t build(const struct row *row, uint8_t *out)
{
    struct rtp_header header = {
        .marker = row->shape == MARKED,
        .payload_type = row->shape == OTHER_TYPE ? TYPE + 1 : TYPE,
        .sequence = (uint16_t)(65530 + row->sequence),
        .timestamp = (uint32_t)(0xFFFFFFE0u + FRAMES * row->sequence + row->jump),
        .ssrc = row->ssrc,
    };
    const struct rtp_result_info info = {.flags = RTP_HEARTBEAT};
    if (row->shape == HEARTBEAT)
        header.payload_type = RTP_HEARTBEAT_TYPE;
    if (row->shape == RTCP)
        header.payload_type = 72;
    size_t used = rtp_build(out, &header, row->shape == HEARTBEAT ? &info : NULL);
    if (row->shape == CSRCS) {
        out[0] |= 2;
        memset(out + used, 0xEE, 8);
        used += 8;
    }
    if (row->shape == EXTENDED) {
        static const uint8_t extension[] = {0x12, 0x34, 0, 1, 1, 2, 3, 4};
        out[0] |= 0x10;
        memcpy(out + used, extension, sizeof extension);
        used += sizeof extension;
    }
    size_t payload = row->shape == EMPTY || row->shape == HEARTBEAT
                         ? 0
                         : FRAMES * FRAME_BYTES + (row->shape == ODD);
    memset(out + used, (uint8_t)row->sequence, payload);
    used += payload;
    if (row->shape == VERSION_1)
        out[0] = 0x40;
    if (row->shape == PADDED || row->shape == BAD_PADDING) {
        out[0] |= 0x20;
        memset(out + used, 0, 4);
        out[used + 3] = row->shape == PADDED ? 4 : 200;
        used += 4;
    }
    return row->shape == SHORT ? 11 : used;
}

static void run_scenario(const struct scenario *scenario)
{
    struct source_options options = defaults;
    own = own_defaults;
    own.ingest.ssrc_pinned = scenario->pinned;
    own.ingest.ssrc = 7;
    own.ingest.allow = (struct option_values){scenario->allow ? allow_first : anybody, 1};
    options.mode = scenario->records ? MODE_RECORD : MODE_CONTINUOUS;
    struct fake_host host;
    struct ingest *ingest = open_ingest(&rtp_protocol, &options, &host);
    struct source_ledger before = {0}, after;
    int64_t now_ns = 1000 * NS_PER_SECOND;
    for (int i = 0; i < scenario->count; i++) {
        const struct row *row = &scenario->rows[i];
        uint8_t datagram[256];
        struct sockaddr_storage from = address_of(row->host, i % 2);
        address_set_port(&from, (uint16_t)(5000 + row->port));
        now_ns += NS_PER_MS + row->wait_ms * NS_PER_MS;
        struct received received = {
            .data = datagram,
            .bytes = build(row, datagram),
            .truncated = row->shape == CUT_OFF,
            .from = &from,
            .receive_ns = now_ns,
            .receive_realtime_ns = now_ns,
        };
        int puts = host.count;
        ingest_datagram(ingest, &received);
        ingest_ledger(ingest, &after);

        for (int j = 0; j < 2 && row->rejected[j] > 0; j++)
            before.rejected[row->rejected[j] - 1]++;
        for (int j = 0; j < REJECTS; j++) {
            if (after.rejected[j] != before.rejected[j])
                fail_msg("%s, datagram %d: %s is %llu, expected %llu", scenario->given, i,
                         reject_name(j), (unsigned long long)after.rejected[j],
                         (unsigned long long)before.rejected[j]);
        }
        if (after.datagrams != before.datagrams + 1 ||
            after.accepted != before.accepted + (uint64_t)row->accepted ||
            after.held != (uint64_t)row->held)
            fail_msg("%s, datagram %d: %llu accepted, %llu held", scenario->given, i,
                     (unsigned long long)(after.accepted - before.accepted),
                     (unsigned long long)after.held);
        assert_int_equal(after.datagrams, after.accepted + rejects(&after) + after.held);
        const uint32_t numbered = scenario->records ? 0 : PACKET_SENDER;
        if (host.count > puts && host.puts[puts].flags != (row->flags | numbered))
            fail_msg("%s, datagram %d: flags %u", scenario->given, i, host.puts[puts].flags);
        if (host.count > puts && host.puts[host.count - 1].sender != row->ssrc)
            fail_msg("%s, datagram %d: of sender %u", scenario->given, i,
                     host.puts[host.count - 1].sender);
        int last = row->last != 0 ? row->last : row->sequence;
        if (row->accepted > 0 && host.puts[host.count - 1].first_byte != (uint8_t)last)
            fail_msg("%s, datagram %d: delivered in the wrong order", scenario->given, i);
        for (int j = puts; j + 1 < host.count; j++)
            assert_int_equal(host.puts[j + 1].place, host.puts[j].place + FRAMES);
        before = after;
    }
    /* What is held when it stops is rejected by name. */
    ingest_stop(ingest);
    ingest_ledger(ingest, &after);
    assert_int_equal(after.held, 0);
    assert_int_equal(after.datagrams, after.accepted + rejects(&after));
    ingest_close(ingest);
}

static void test_senders_and_rejects(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++)
        run_scenario(&scenarios[i]);
}

static void feed(struct ingest *ingest, const uint8_t *data, size_t bytes, int host, int64_t at_ms)
{
    struct sockaddr_storage from = address_of(host, false);
    ingest_datagram(ingest, &(struct received){.data = data,
                                               .bytes = bytes,
                                               .from = &from,
                                               .receive_ns = at_ms * NS_PER_MS,
                                               .receive_realtime_ns = at_ms * NS_PER_MS});
}

/* Frames between two consecutive numbers were never sent; a number that nobody has seen proves
 * nothing. Every packet of the SSRC has one, except RTCP. */
static void test_what_was_never_sent(void **state)
{
    (void)state;
    static const struct {
        const char *given;
        struct row rows[6];
        int count;
        uint64_t unsent;
    } table[] = {
        {"next by number, time goes on", {{7, 1, 2, .jump = 20}}, 1, 20},
        {"a long pause, once it is proven",
         {{7, 1, 2, .jump = 900}, {7, 1, 3, .jump = 900}},
         2,
         900},
        {"another type in the place of frames",
         {{7, 1, 2, .shape = OTHER_TYPE}, {7, 1, 3}},
         2,
         FRAMES},
        {"no whole frames in a packet", {{7, 1, 2, .shape = ODD}, {7, 1, 3}}, 2, FRAMES},
        {"a packet without payload", {{7, 1, 2, .shape = EMPTY}, {7, 1, 3}}, 2, FRAMES},
        {"another type comes reordered", {{7, 1, 3}, {7, 1, 2, .shape = OTHER_TYPE}}, 2, FRAMES},
        {"the packet behind a pause overtaken",
         {{7, 1, 3, .jump = 20}, {7, 1, 2, .jump = 20}},
         2,
         20},
        {"a number is missing", {{7, 1, 3}}, 1, 0},
        {"RTCP has no number", {{7, 1, 2, .shape = RTCP}, {7, 1, 3}}, 2, 0},
        {"another sender's packet", {{9, 1, 2, .shape = OTHER_TYPE}, {7, 1, 3}}, 2, 0},
        {"another host's packet", {{7, 2, 2, .shape = OTHER_TYPE}, {7, 1, 3}}, 2, 0},
        {"two types, none missing",
         {{7, 1, 2, .shape = OTHER_TYPE}, {7, 1, 3, .jump = -FRAMES}},
         2,
         0},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct fake_host host;
        own = own_defaults;
        struct ingest *ingest = open_ingest(&rtp_protocol, &defaults, &host);
        const struct row start[] = {{7, 1, 0}, {7, 1, 1}};
        for (int j = 0; j < 2 + table[i].count; j++) {
            const struct row *row = j < 2 ? &start[j] : &table[i].rows[j - 2];
            uint8_t datagram[256];
            feed(ingest, datagram, build(row, datagram), row->host, 1000 + j);
        }
        if (host.unsent != table[i].unsent)
            fail_msg("%s: %llu frames were never sent, expected %llu", table[i].given,
                     (unsigned long long)host.unsent, (unsigned long long)table[i].unsent);
        ingest_stop(ingest);
        ingest_close(ingest);
    }
}

/* A GRO batch may hold packets of several types; the receive time belongs to its last frame. */
static void test_frames_behind_in_a_batch(void **state)
{
    (void)state;
    static const struct row rows[] = {{7, 1, 2},
                                      {7, 1, 3, .shape = OTHER_TYPE},
                                      {7, 1, 4, .jump = -FRAMES},
                                      {7, 1, 5, .jump = -FRAMES},
                                      {7, 1, 6, .shape = OTHER_TYPE}};
    static const uint32_t behind[] = {2 * FRAMES, FRAMES, 0};
    struct fake_host host;
    own = own_defaults;
    struct ingest *ingest = open_ingest(&rtp_protocol, &defaults, &host);
    uint8_t batch[5 * 256];
    size_t bytes = 0, one = 0;
    for (int i = 0; i < 2; i++) {
        const struct row row = {7, 1, i};
        feed(ingest, batch, build(&row, batch), 1, 1000 + i);
    }
    for (size_t i = 0; i < 5; i++)
        bytes += one = build(&rows[i], batch + bytes);
    const struct sockaddr_storage from = address_of(1, false);
    for (size_t i = 0; i < 5; i++)
        ingest_datagram(ingest, &(struct received){.data = batch + i * one,
                                                   .bytes = one,
                                                   .from = &from,
                                                   .receive_ns = 1010 * NS_PER_MS,
                                                   .receive_realtime_ns = 1010 * NS_PER_MS,
                                                   .in_batch = true,
                                                   .behind_datagrams = (uint32_t)(4 - i),
                                                   .behind_bytes = (4 - i) * one});
    assert_int_equal(host.count, 5);
    for (int i = 0; i < 3; i++)
        assert_int_equal(host.puts[2 + i].frames_behind, behind[i]);
    ingest_stop(ingest);
    ingest_close(ingest);
}

/* GNU Radio's end mark: an empty datagram, of the sender that is followed. */
static void test_empty_datagram_ends_a_run(void **state)
{
    (void)state;
    static const struct ingest_protocol *const protocols[] = {&udp_protocol, &udp_sequence_protocol,
                                                              &rtp_protocol};
    for (int p = 0; p < 3; p++) {
        struct fake_host host;
        struct source_ledger ledger;
        own = own_defaults;
        struct ingest *ingest = open_ingest(protocols[p], &defaults, &host);
        uint8_t datagram[8 + FRAMES * FRAME_BYTES] = {0};
        const size_t header = p == 1 ? 8 : 0;
        const bool ends = p < 2;
        int64_t ms = 5000;
        for (uint8_t i = 0; i < 4 && ends; i++) {
            datagram[0] = header > 0 ? i : 0;
            feed(ingest, datagram, header + FRAMES * FRAME_BYTES, 1, ms++);
        }
        const int before = host.count;
        feed(ingest, datagram, 0, 2, ms++); /* of another host */
        assert_int_equal(host.count, before);
        feed(ingest, datagram, 0, 1, ms++);
        feed(ingest, datagram, 0, 1, ms++); /* twice is once */
        assert_int_equal(host.count, before + ends);
        ingest_ledger(ingest, &ledger);
        assert_int_equal(ledger.rejected[ends ? REJECT_EMPTY : REJECT_MALFORMED], 3);
        if (ends) {
            assert_int_equal(host.puts[before].frames, 0);
            assert_int_equal(host.puts[before].place, host.puts[before - 1].place + FRAMES);
            /* The next run starts at once, from any sender. */
            for (uint8_t i = 0; i < 2; i++) {
                datagram[0] = header > 0 ? i : 0;
                feed(ingest, datagram, header + FRAMES * FRAME_BYTES, 1 + (p == 0), ms++);
            }
            assert_int_equal(host.count, before + 3);
            assert_true(host.puts[before + 1].flags & PACKET_DISCONTINUITY);
            assert_false(host.puts[before + 2].flags & PACKET_DISCONTINUITY);
        }
        ingest_stop(ingest);
        ingest_close(ingest);
    }
}

static void test_every_verdict_has_its_reject(void **state)
{
    (void)state;
    static const struct {
        enum verdict verdict;
        enum reject reject;
    } pairs[] = {{VERDICT_DUPLICATE, REJECT_DUPLICATE},
                 {VERDICT_LATE, REJECT_LATE},
                 {VERDICT_OUT_OF_WINDOW, REJECT_OUT_OF_WINDOW},
                 {VERDICT_REFUSED, REJECT_REFUSED}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct fake_host host;
        struct ingest *ingest = open_ingest(&udp_protocol, &defaults, &host);
        struct source_ledger ledger;
        uint8_t frames[40] = {0};
        host.verdict = pairs[i].verdict;
        feed(ingest, frames, sizeof frames, 1, 0);
        ingest_ledger(ingest, &ledger);
        assert_int_equal(ledger.rejected[pairs[i].reject], 1);
        assert_int_equal(rejects(&ledger), 1);
        assert_int_equal(ledger.accepted, 0);
        ingest_close(ingest);
    }
}

/* Twice the channels that are configured: what is put before it is known is flagged. */
static void test_wrong_channel_count(void **state)
{
    (void)state;
    own = own_defaults;
    struct fake_host host;
    struct ingest *ingest = open_ingest(&rtp_protocol, &defaults, &host);
    struct source_ledger ledger;
    for (int i = 0; i < 20; i++) {
        uint8_t datagram[RTP_HEADER_BYTES + 2 * FRAMES * FRAME_BYTES] = {0};
        struct rtp_header header = {.payload_type = TYPE,
                                    .sequence = (uint16_t)i,
                                    .timestamp = (uint32_t)(FRAMES * i),
                                    .ssrc = 7};
        rtp_build(datagram, &header, NULL);
        feed(ingest, datagram, sizeof datagram, 1, i);
    }
    ingest_ledger(ingest, &ledger);
    assert_int_equal(ledger.accepted, 8);
    assert_int_equal(ledger.rejected[REJECT_CHANNELS], 12);
    assert_int_equal(ledger.datagrams, ledger.accepted + rejects(&ledger) + ledger.held);
    for (int i = 0; i < host.count; i++)
        assert_true(host.puts[i].flagged);
    ingest_close(ingest);
}

/* ---- tags -------------------------------------------------------------------------------- */

struct tagged {
    const struct ingest_protocol *protocol;
    struct ingest *ingest;
    struct auth_key key;
    struct auth_numbers numbers;
};

/* One packet of FRAMES frames, sealed; returns its bytes. */
static size_t build_tagged(struct tagged *t, int sequence, uint8_t out[256])
{
    const struct row row = {7, 1, sequence};
    size_t bytes = build(&row, out);
    if (t->protocol->has_ssrc) {
        sequence = out[2] << 8 | out[3];
    } else { /* a number of 64 bits, then the same samples */
        memset(out, 0, 8);
        out[0] = (uint8_t)sequence;
        memmove(out + 8, out + RTP_HEADER_BYTES, bytes - RTP_HEADER_BYTES);
        bytes -= RTP_HEADER_BYTES - 8;
    }
    return auth_seal(&t->key, &t->numbers, (uint16_t)sequence, out, bytes);
}

static void expect_counts(const struct tagged *t, uint64_t accepted, uint64_t auth, uint64_t replay)
{
    struct source_ledger ledger;
    ingest_ledger(t->ingest, &ledger);
    assert_int_equal(ledger.accepted + ledger.held, accepted);
    assert_int_equal(ledger.rejected[REJECT_AUTH], auth);
    assert_int_equal(ledger.rejected[REJECT_REPLAY], replay);
    assert_int_equal(ledger.datagrams, accepted + rejects(&ledger));
    assert_int_equal(rejects(&ledger), auth + replay);
}

/* With `key`, only what its holder sent, unchanged and for the first time, is accepted. */
static void test_tags(void **state)
{
    (void)state;
    static const char secret_text[] =
        "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0";
    const struct ingest_protocol *const protocols[] = {&rtp_protocol, &udp_sequence_protocol};
    const enum auth_use uses[] = {AUTH_RTP_INPUT, AUTH_SEQUENCE_INPUT};
    char path[256];
    snprintf(path, sizeof path, "%s", scratch_write("key", secret_text));
    chmod(path, 0600);
    for (int i = 0; i < 2; i++) {
        struct tagged t = {.protocol = protocols[i]};
        struct fake_host host;
        uint8_t secret[AUTH_SECRET_BYTES], packets[8][256], bad[256];
        size_t bytes = 0;
        own = own_defaults;
        own.ingest.key = path;
        t.ingest = open_ingest(t.protocol, &defaults, &host);
        assert_true(auth_secret_parse(secret_text, strlen(secret_text), secret));
        auth_key_derive(secret, uses[i], &t.key);
        auth_numbers_begin(&t.numbers, INT64_C(1700000000000000000));
        for (int n = 0; n < 8; n++)
            bytes = build_tagged(&t, n, packets[n]);
        for (int n = 0; n < 4; n++)
            feed(t.ingest, packets[n], bytes, 1, n);
        expect_counts(&t, 4, 0, 0);
        feed(t.ingest, packets[2], bytes, 1, 4); /* recorded, and sent again */
        feed(t.ingest, packets[2], bytes, 2, 4); /* from elsewhere */
        expect_counts(&t, 4, 0, 2);
        feed(t.ingest, packets[4], bytes - AUTH_TRAILER_BYTES, 1, 5); /* without its tag */
        memcpy(bad, packets[4], bytes);
        bad[bytes - AUTH_TRAILER_BYTES - 1] ^= 1; /* the last sample */
        feed(t.ingest, bad, bytes, 1, 5);
        expect_counts(&t, 4, 2, 2);
        for (int n = 4; n < 8; n++)
            feed(t.ingest, packets[n], bytes, 1, n);
        expect_counts(&t, 8, 2, 2);
        assert_int_equal(ingest_predict(t.ingest, &(struct receive_prediction){0}, 1), 0);
        ingest_close(t.ingest);
    }
    chmod(path, 0644);
    struct fake_host host;
    const struct source_host functions = {.context = &host, .put = fake_put};
    struct ingest *ingest;
    struct problem problem;
    assert_int_equal(ingest_open(&rtp_protocol, &defaults, &functions, &ingest, &problem),
                     ERROR_NO_FILE);
    assert_non_null(strstr(problem.text, "chmod 600"));
    own = own_defaults;
}

/* ---- headerless -------------------------------------------------------------------------- */

static void test_headerless(void **state)
{
    (void)state;
    struct fake_host host;
    own = own_defaults;
    struct ingest *ingest = open_ingest(&udp_protocol, &defaults, &host);
    struct source_ledger ledger;
    uint8_t frames[65536] = {0};
    feed(ingest, frames, 40, 1, 0);
    feed(ingest, frames, 8, 1, 1);
    feed(ingest, frames, 41, 1, 3);
    feed(ingest, frames, 65504, 1, 4);
    feed(ingest, frames, 40, 2, 5); /* another host while the first one speaks */
    assert_int_equal(host.count, 3);
    assert_int_equal(host.puts[0].place, SEQUENCE_ORIGIN);
    assert_int_equal(host.puts[1].place, SEQUENCE_ORIGIN + 10);
    assert_int_equal(host.puts[2].place, SEQUENCE_ORIGIN + 12);
    /* Three datagrams like the last one never reached us: their frames are left out. */
    feed(ingest, frames, 40, 1, 6);
    ingest_drops(ingest, 3);
    feed(ingest, frames, 40, 1, 7);
    assert_int_equal(host.drops, 3);
    assert_int_equal(host.puts[4].place, host.puts[3].place + 10 + 30);
    assert_int_equal(host.puts[4].flags, 0);
    /* More than the longest gap: a discontinuity. */
    ingest_drops(ingest, 1001);
    feed(ingest, frames, 40, 1, 8);
    assert_int_equal(host.puts[5].flags, PACKET_DISCONTINUITY);
    /* The first host is silent, the other one takes over. */
    feed(ingest, frames, 40, 2, 1100);
    assert_int_equal(host.puts[6].flags, PACKET_DISCONTINUITY);
    ingest_ledger(ingest, &ledger);
    assert_int_equal(ledger.datagrams, 9);
    assert_int_equal(ledger.accepted, 7);
    assert_int_equal(ledger.rejected[REJECT_SIZE], 1);
    assert_int_equal(ledger.rejected[REJECT_ADDRESS], 1);
    assert_int_equal(ledger.kernel_drops, 1004);
    assert_false(ledger.loss_detectable);
    ingest_close(ingest);
}

/* ---- 64-bit sequence numbers ------------------------------------------------------------- */

static void feed_number(struct ingest *ingest, bool big, uint64_t number, size_t bytes)
{
    uint8_t datagram[64] = {0};
    for (int i = 0; i < 8; i++)
        datagram[i] = (uint8_t)(number >> (big ? 56 - 8 * i : 8 * i));
    memset(datagram + 8, (uint8_t)number, bytes);
    feed(ingest, datagram, 8 + bytes, 1, 0);
}

static void test_numbered(void **state)
{
    (void)state;
    for (int big = 0; big < 2; big++) {
        own = own_defaults;
        own.sequence_big_endian = big;
        struct fake_host host;
        struct ingest *ingest = open_ingest(&udp_sequence_protocol, &defaults, &host);
        struct source_ledger ledger;
        feed_number(ingest, big, UINT64_C(0x0102030405), 40);
        feed_number(ingest, big, UINT64_C(0x0102030406), 40);
        feed_number(ingest, big, UINT64_C(0x0102030408), 40);
        feed_number(ingest, big, UINT64_C(0x0102030407), 40);
        feed_number(ingest, big, UINT64_C(0x0602030407), 40);
        feed_number(ingest, big, UINT64_C(0x0102030409), 41);
        feed(ingest, (const uint8_t[7]){0}, 7, 1, 0);
        assert_int_equal(host.count, 4);
        uint64_t origin = host.puts[0].place;
        assert_int_equal(host.puts[1].place, origin + 10);
        assert_int_equal(host.puts[2].place, origin + 30);
        assert_int_equal(host.puts[3].place, origin + 20);
        assert_int_equal(host.puts[0].first_byte, 5);
        ingest_ledger(ingest, &ledger);
        assert_int_equal(ledger.accepted, 4);
        assert_int_equal(ledger.held, 1);
        assert_int_equal(ledger.rejected[REJECT_SIZE], 1);
        assert_int_equal(ledger.rejected[REJECT_MALFORMED], 1);
        ingest_stop(ingest);
        ingest_ledger(ingest, &ledger);
        assert_int_equal(ledger.rejected[REJECT_JUMP], 1);
        ingest_close(ingest);
    }
}

/* ---- what another daemon has handed over -------------------------------------------------------
 */

/* A record of ingest_walk ends with these. */
enum {
    LAST_FRAMES = 4 + 8 + 4 + 2 * 8 + REJECTS * 8 + 8 + 8 + 4 + 8, /* from the end */
    NEXT_FRAME = LAST_FRAMES - 4,
    NEXT_FLAGS = NEXT_FRAME - 8,
    DATAGRAMS = NEXT_FLAGS - 4,
};

static const struct {
    const char *label;
    size_t from_end, bytes;
    uint64_t value;
} forged[] = {
    {"as it was", 0, 0, 0},
    {"flags of another source's packets", NEXT_FLAGS, 4, PACKET_RESULT | PACKET_LAST},
    {"a number that is no frame's", NEXT_FRAME, 8, UINT64_MAX - 3},
    {"more frames than a datagram holds", LAST_FRAMES, 4, UINT32_MAX},
    {"a ledger that does not balance", DATAGRAMS, 8, 7},
};

static void test_handed_over(void **state)
{
    (void)state;
    const uint8_t frames[40] = {0};
    for (size_t i = 0; i < sizeof forged / sizeof forged[0]; i++) {
        own = own_defaults;
        struct fake_host host;
        struct source_ledger ledger;
        struct ingest *before = open_ingest(&udp_protocol, &defaults, &host);
        feed(before, frames, 40, 1, 0);
        struct codec counter = codec_counter();
        ingest_walk(before, &counter);
        uint8_t bytes[1024];
        struct codec writer = codec_writer(bytes, sizeof bytes);
        assert_true(counter.at <= sizeof bytes);
        ingest_walk(before, &writer);
        ingest_close(before);
        memcpy(bytes + counter.at - forged[i].from_end, &forged[i].value, forged[i].bytes);

        struct ingest *after = open_ingest(&udp_protocol, &defaults, &host);
        struct codec reader = codec_reader(bytes, counter.at);
        ingest_walk(after, &reader);
        const bool good = forged[i].bytes == 0;
        if (reader.failed == good)
            fail_msg("%s", forged[i].label);
        ingest_ledger(after, &ledger);
        assert_int_equal(ledger.datagrams, good);
        feed(after, frames, 40, 1, 1);
        assert_int_equal(host.count, 1);
        assert_int_equal(host.puts[0].flags, 0);
        assert_int_equal(host.puts[0].place, SEQUENCE_ORIGIN + (good ? FRAMES : 0));
        ingest_close(after);
    }
}

/* A time that lies ahead does not keep the senders out that come after the one followed. */
static void test_handed_over_from_the_future(void **state)
{
    (void)state;
    const uint8_t frames[40] = {0};
    own = own_defaults;
    struct fake_host host;
    struct ingest *before = open_ingest(&udp_protocol, &defaults, &host);
    feed(before, frames, 40, 1, 1000 * 1000);
    uint8_t bytes[1024];
    struct codec writer = codec_writer(bytes, sizeof bytes);
    ingest_walk(before, &writer);
    ingest_close(before);
    struct ingest *after = open_ingest(&udp_protocol, &defaults, &host);
    struct codec reader = codec_reader(bytes, writer.at);
    ingest_walk(after, &reader);
    assert_false(reader.failed);
    feed(after, frames, 40, 2, 1);
    assert_int_equal(host.count, 1);
    assert_int_equal(host.puts[0].flags, PACKET_DISCONTINUITY);
    ingest_close(after);
}

int main(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_senders_and_rejects),
        cmocka_unit_test(test_what_was_never_sent),
        cmocka_unit_test(test_frames_behind_in_a_batch),
        cmocka_unit_test(test_empty_datagram_ends_a_run),
        cmocka_unit_test(test_tags),
        cmocka_unit_test(test_every_verdict_has_its_reject),
        cmocka_unit_test(test_wrong_channel_count),
        cmocka_unit_test(test_headerless),
        cmocka_unit_test(test_numbered),
        cmocka_unit_test(test_handed_over),
        cmocka_unit_test(test_handed_over_from_the_future),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
