/*
 * libconvolv: what a receiver makes of packets written here byte for byte, its ledger against
 * a model under loss, doubling and reordering, hostile bytes, and sender to receiver over
 * loopback in every format.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "convolv.h"
#include "core/random.h"
#include "wire/rtp.h"

enum { FRAMES = 4, PAYLOAD_TYPE = 97, SSRC = 7 };

/* ---- packets written here ---------------------------------------------------------------- */

/* One mono L16 packet of FRAMES frames whose sample i is code i + 1. */
struct given {
    uint16_t sequence;
    uint32_t timestamp;
    uint32_t ssrc;     /* 0: SSRC */
    int payload_type;  /* 0: PAYLOAD_TYPE */
    int payload_bytes; /* 0: FRAMES · 2 */
    bool bare;         /* no extension */
    uint64_t first_frame;
    uint32_t epoch;
    uint8_t flags;
    uint16_t causes, invalid_from, invalid_until, decimate;
    uint64_t hole_from;
    uint32_t hole_frames;
};

static size_t write_packet(const struct given *given, uint8_t *out)
{
    const struct rtp_header header = {
        .payload_type = (uint8_t)(given->payload_type != 0 ? given->payload_type : PAYLOAD_TYPE),
        .sequence = given->sequence,
        .timestamp = given->timestamp,
        .ssrc = given->ssrc != 0 ? given->ssrc : SSRC,
    };
    const struct rtp_result_info info = {
        .capture_ns = INT64_C(1700000000000000000),
        .stage_100ns = {10, 20, 30, 40},
        .egress_100ns = 50,
        .flags = given->flags,
        .causes = given->causes,
        .epoch = given->epoch,
        .first_frame = given->first_frame,
        .delay_half_frames = 9,
        .decimate = given->decimate,
        .hole_from = given->hole_from,
        .hole_frames = given->hole_frames,
        .hole_causes = 1 << CONVOLV_CAUSE_DEVICE,
        .invalid_from = given->invalid_from,
        .invalid_until = given->invalid_until,
    };
    size_t bytes = rtp_build(out, &header, given->bare ? NULL : &info);
    int payload = given->payload_bytes != 0 ? given->payload_bytes : 2 * FRAMES;
    for (int i = 0; i < payload; i++)
        out[bytes + (size_t)i] = (uint8_t)(i % 2 == 1 ? i / 2 + 1 : 0);
    return bytes + (size_t)payload;
}

static struct convolv_receiver *open_fed(uint32_t channels)
{
    struct convolv_receiver_options options;
    convolv_receiver_defaults(&options);
    strcpy(options.format, "L16");
    options.channels = channels;
    options.full_scale = 32768;
    options.payload_type = PAYLOAD_TYPE;
    struct convolv_receiver *receiver;
    struct convolv_problem problem;
    if (convolv_receiver_open(&options, &receiver, &problem) != CONVOLV_OK)
        fail_msg("%s", problem.text);
    return receiver;
}

static void assert_adds_up(const struct convolv_receiver *receiver)
{
    struct convolv_receiver_ledger ledger;
    convolv_receiver_ledger(receiver, &ledger);
    uint64_t sum = ledger.accepted + ledger.heartbeats;
    for (int i = 0; i < CONVOLV_REJECTS; i++)
        sum += ledger.rejected[i];
    assert_int_equal(ledger.datagrams, sum);
}

static void test_block_fields(void **state)
{
    (void)state;
    struct convolv_receiver *receiver = open_fed(1);
    uint8_t bytes[256];
    const struct given given = {
        .sequence = 65535,
        .timestamp = 99,
        .first_frame = UINT64_C(1) << 33,
        .epoch = 3,
        .flags = RTP_INVALID | RTP_EPOCH_START | RTP_ALIGNED,
        .causes = 1 << CONVOLV_CAUSE_NETWORK,
        .invalid_from = 1,
        .invalid_until = 3,
        .decimate = 3,
    };
    struct convolv_block block;
    assert_int_equal(convolv_receiver_feed(receiver, bytes, write_packet(&given, bytes), 5, &block),
                     1);
    assert_true(block.described && block.epoch_start && block.aligned && !block.epoch_end &&
                !block.late);
    assert_int_equal(block.first_frame, UINT64_C(1) << 33);
    assert_int_equal(block.epoch, 3);
    assert_int_equal(block.frames, FRAMES);
    for (int i = 0; i < FRAMES; i++)
        assert_true(block.samples[i] == i + 1);
    assert_int_equal(block.invalid_from, 1);
    assert_int_equal(block.invalid_until, 3);
    assert_int_equal(block.causes, 1 << CONVOLV_CAUSE_NETWORK);
    assert_int_equal(block.capture_ns, INT64_C(1700000000000000000));
    assert_true(block.delay_frames == 1.5); /* 4.5 at the source's rate */
    assert_int_equal(block.decimate, 3);
    for (int i = 0; i < CONVOLV_STAGES; i++)
        assert_int_equal(block.stage_ns[i], (i + 1) * 1000);
    assert_int_equal(block.receive_ns, 5);
    convolv_receiver_close(receiver);
}

/* Packets in order of arrival; what becomes of each, and the counts at the end. */
struct script {
    const char *name;
    struct {
        struct given given;
        int taken;                  /* 1 or 0 */
        enum convolv_reject reject; /* when 0 */
    } steps[8];
    int count;
    uint64_t lost, reordered, frames_lost, senders, invalid;
};

/* clang-format off */
#define AT(n) .sequence = (uint16_t)(n), .timestamp = (uint32_t)((n) * FRAMES), .first_frame = (uint64_t)(n) * FRAMES
static const struct script scripts[] = {
    {"in order", {{{AT(0)}, 1, 0}, {{AT(1)}, 1, 0}, {{AT(2)}, 1, 0}}, 3, 0, 0, 0, 1, 0},
    {"one lost", {{{AT(0)}, 1, 0}, {{AT(2)}, 1, 0}}, 2, 1, 0, FRAMES, 1, 0},
    {"lost and given back", {{{AT(0)}, 1, 0}, {{AT(2)}, 1, 0}, {{AT(1)}, 1, 0}}, 3, 0, 1, 0, 1, 0},
    {"doubled", {{{AT(0)}, 1, 0}, {{AT(0)}, 0, CONVOLV_REJECT_DUPLICATE}, {{AT(1)}, 1, 0},
                 {{AT(0)}, 0, CONVOLV_REJECT_DUPLICATE}}, 4, 0, 0, 0, 1, 0},
    {"before the first", {{{AT(5)}, 1, 0}, {{AT(3)}, 1, 0}}, 2, 1, 1, 0, 1, 0},
    {"too old", {{{AT(0)}, 1, 0}, {{AT(9000)}, 1, 0}, {{AT(1)}, 0, CONVOLV_REJECT_OLD}}, 3,
     8999, 0, (uint64_t)8999 * FRAMES, 1, 0},
    {"sequence wraps", {{{.sequence = 65534, .first_frame = 0}, 1, 0},
                        {{.sequence = 0, .first_frame = 2 * FRAMES}, 1, 0},
                        {{.sequence = 65535, .first_frame = FRAMES}, 1, 0}}, 3, 0, 1, 0, 1, 0},
    {"other payload type", {{{AT(0)}, 1, 0}, {{AT(1), .payload_type = 8}, 0, CONVOLV_REJECT_PAYLOAD_TYPE}}, 2,
     0, 0, 0, 1, 0},
    {"half a sample", {{{AT(0), .payload_bytes = 5}, 0, CONVOLV_REJECT_SIZE}, {{AT(0)}, 1, 0}}, 2, 0, 0, 0, 1, 0},
    {"foreign packets never two in order", {{{AT(0)}, 1, 0}, {{AT(0), .ssrc = 8}, 0, CONVOLV_REJECT_SSRC},
     {{AT(1)}, 1, 0}, {{AT(7), .ssrc = 8}, 0, CONVOLV_REJECT_SSRC}, {{AT(1), .ssrc = 9}, 0, CONVOLV_REJECT_SSRC},
     {{AT(2), .ssrc = 8}, 0, CONVOLV_REJECT_SSRC}, {{AT(2)}, 1, 0}}, 7, 0, 0, 0, 1, 0},
    {"a new sender after two in order", {{{AT(0)}, 1, 0}, {{AT(40), .ssrc = 8}, 0, CONVOLV_REJECT_SSRC},
     {{.sequence = 41, .ssrc = 8, .first_frame = FRAMES}, 1, 0}, {{AT(1)}, 0, CONVOLV_REJECT_SSRC}}, 4, 0, 0, 0, 2, 0},
    {"a new epoch begins at 0", {{{AT(10)}, 1, 0},
     {{.sequence = 11, .first_frame = FRAMES, .epoch = 1}, 1, 0}}, 2, 0, 0, FRAMES, 1, 0},
    {"late across an epoch's end", {{{AT(0)}, 1, 0}, {{AT(2)}, 1, 0},
     {{.sequence = 3, .epoch = 1}, 1, 0}, {{AT(1)}, 1, 0}}, 4, 0, 1, 0, 1, 0},
    {"invalid frames beyond the packet", {{{AT(0), .flags = RTP_INVALID, .causes = 4, .invalid_from = 1,
     .invalid_until = 900}, 1, 0}}, 1, 0, 0, 0, 1, 3},
    {"an invalid range that is not flagged", {{{AT(0), .invalid_until = 3}, 1, 0}}, 1, 0, 0, 0, 1, 0},
    {"a hole beyond the packet", {{{AT(5), .hole_from = 5 * FRAMES + 1, .hole_frames = 2}, 0,
     CONVOLV_REJECT_MALFORMED}}, 1, 0, 0, 0, 0, 0},
    {"absurd frame number", {{{AT(0)}, 1, 0},
     {{.sequence = 1, .first_frame = UINT64_MAX - 1}, 0, CONVOLV_REJECT_MALFORMED}}, 2, 0, 0, 0, 1, 0},
    {"without extensions frames count time stamps", {{{AT(0), .bare = true}, 1, 0}, {{AT(3), .bare = true}, 1, 0}}, 2,
     2, 0, 2 * FRAMES, 1, 0},
    {"without extensions a jump without loss is a pause", {{{AT(0), .bare = true}, 1, 0},
     {{.sequence = 1, .timestamp = 5000, .bare = true}, 1, 0}}, 2, 0, 0, 0, 1, 0},
    {"without extensions nothing before the first", {{{AT(5), .bare = true}, 1, 0},
     {{AT(4), .bare = true}, 0, CONVOLV_REJECT_OLD}}, 2, 0, 0, 0, 1, 0},
};
/* clang-format on */

static void test_scripts(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof scripts / sizeof *scripts; s++) {
        const struct script *script = &scripts[s];
        struct convolv_receiver *receiver = open_fed(1);
        struct convolv_receiver_ledger before, ledger = {0};
        for (int i = 0; i < script->count; i++) {
            uint8_t bytes[1200];
            struct convolv_block block;
            size_t count = write_packet(&script->steps[i].given, bytes);
            before = ledger;
            int taken = convolv_receiver_feed(receiver, bytes, count, 0, &block);
            convolv_receiver_ledger(receiver, &ledger);
            if (taken != script->steps[i].taken)
                fail_msg("%s: packet %d: taken %d, expected %d", script->name, i, taken,
                         script->steps[i].taken);
            enum convolv_reject why = script->steps[i].reject;
            if (!taken && ledger.rejected[why] != before.rejected[why] + 1)
                fail_msg("%s: packet %d is not counted as '%s'", script->name, i,
                         convolv_reject_name(why));
            if (taken && !script->steps[i].given.bare &&
                block.first_frame != script->steps[i].given.first_frame)
                fail_msg("%s: packet %d has frame %llu", script->name, i,
                         (unsigned long long)block.first_frame);
            assert_adds_up(receiver);
        }
        const struct {
            const char *name;
            uint64_t got, expect;
        } counts[] = {
            {"lost", ledger.lost, script->lost},
            {"reordered", ledger.reordered, script->reordered},
            {"frames lost", ledger.frames_lost, script->frames_lost},
            {"senders", ledger.senders, script->senders},
            {"frames invalid", ledger.frames_invalid, script->invalid},
        };
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            if (counts[i].got != counts[i].expect)
                fail_msg("%s: %s is %llu, expected %llu", script->name, counts[i].name,
                         (unsigned long long)counts[i].got, (unsigned long long)counts[i].expect);
        convolv_receiver_close(receiver);
    }
}

/* What the daemon could not compute, and that it is alive, beside results that nobody misses. */
static void test_holes_and_heartbeats(void **state)
{
    (void)state;
    struct convolv_receiver *receiver = open_fed(1);
    assert_true(convolv_receiver_quiet_ns(receiver) == INT64_MAX);
    uint8_t bytes[256];
    struct convolv_block block;
    const struct rtp_result_info beat = {.flags = RTP_HEARTBEAT};
    const struct {
        struct given given; /* ssrc 0: a heartbeat of the sender; else of another one */
        bool heartbeat;
        uint64_t hole;
        uint64_t heartbeats;
    } steps[] = {
        {{0}, true, 0, 1}, /* before the first packet */
        {{AT(0)}, false, 0, 1},
        {{.sequence = 0, .ssrc = 0}, true, 0, 2},
        {{.sequence = 0, .ssrc = 99}, true, 0, 2},
        {{.sequence = 1, .first_frame = 5 * FRAMES, .hole_from = FRAMES, .hole_frames = 4 * FRAMES},
         false,
         4 * FRAMES,
         2},
        {{.sequence = 2, .first_frame = 6 * FRAMES}, false, 0, 2},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const struct given *given = &steps[i].given;
        const struct rtp_header header = {.payload_type = RTP_HEARTBEAT_TYPE,
                                          .sequence = given->sequence,
                                          .ssrc = given->ssrc != 0 ? given->ssrc : SSRC};
        size_t count =
            steps[i].heartbeat ? rtp_build(bytes, &header, &beat) : write_packet(given, bytes);
        assert_int_equal(convolv_receiver_feed(receiver, bytes, count, 0, &block),
                         !steps[i].heartbeat);
        struct convolv_receiver_ledger ledger;
        convolv_receiver_ledger(receiver, &ledger);
        assert_int_equal(ledger.heartbeats, steps[i].heartbeats);
        assert_int_equal(ledger.lost, 0);
        assert_adds_up(receiver);
        if (!steps[i].heartbeat) {
            assert_int_equal(block.hole_until - block.hole_from, steps[i].hole);
            assert_int_equal(block.lost_before, 0);
        }
        if (steps[i].hole > 0) {
            assert_int_equal(block.hole_from, given->hole_from);
            assert_int_equal(block.hole_causes, 1 << CONVOLV_CAUSE_DEVICE);
            assert_int_equal(ledger.frames_shed, steps[i].hole);
            assert_int_equal(ledger.frames_lost, steps[i].hole);
        }
        assert_in_range(convolv_receiver_quiet_ns(receiver), 0, CONVOLV_DEAD_NS / 2);
    }
    convolv_receiver_close(receiver);
}

/* A lossy, doubling, reordering network against sums kept here. */
static void test_model(void **state)
{
    (void)state;
    enum { PACKETS = 50000, DEPTH = 16 };
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct random_state random = {seed};
        struct convolv_receiver *receiver = open_fed(1);
        uint32_t waiting[DEPTH], waiting_count = 0;
        uint64_t lost = 0, doubled = 0, reordered = 0, accepted = 0;
        int64_t newest = -1;
        for (uint32_t n = 0; n < PACKETS; n++) {
            bool edge = n == 0 || n == PACKETS - 1; /* loss at the ends cannot be seen by anybody */
            if (!edge && random_below(&random, 20) == 0) {
                lost++;
                continue;
            }
            uint32_t go[DEPTH + 1], go_count = 0;
            if (!edge && waiting_count < DEPTH && random_below(&random, 10) == 0) {
                waiting[waiting_count++] = n;
            } else {
                go[go_count++] = n;
                for (uint32_t w = 0; w < waiting_count; w++)
                    if (edge || random_below(&random, 4) == 0) {
                        go[go_count++] = waiting[w];
                        waiting[w--] = waiting[--waiting_count];
                    }
            }
            for (uint32_t g = 0; g < go_count; g++) {
                uint8_t bytes[256];
                struct convolv_block block;
                const struct given given = {AT(go[g])};
                size_t count = write_packet(&given, bytes);
                assert_int_equal(convolv_receiver_feed(receiver, bytes, count, 0, &block), 1);
                assert_int_equal(block.first_frame, (uint64_t)go[g] * FRAMES);
                assert_int_equal(block.late, go[g] < newest);
                reordered += go[g] < newest;
                newest = go[g] > newest ? go[g] : newest;
                accepted++;
                if (random_below(&random, 15) == 0) {
                    assert_int_equal(convolv_receiver_feed(receiver, bytes, count, 0, &block), 0);
                    doubled++;
                }
            }
        }
        struct convolv_receiver_ledger ledger;
        convolv_receiver_ledger(receiver, &ledger);
        assert_int_equal(ledger.accepted, accepted);
        assert_int_equal(ledger.lost, lost);
        assert_int_equal(ledger.frames_lost, lost * FRAMES);
        assert_int_equal(ledger.reordered, reordered);
        assert_int_equal(ledger.rejected[CONVOLV_REJECT_DUPLICATE], doubled);
        assert_adds_up(receiver);
        convolv_receiver_close(receiver);
    }
}

/* Any bytes, and good packets with bytes changed or cut off: nothing but counts (sanitizers watch
 * the reads). */
static void test_hostile(void **state)
{
    (void)state;
    struct random_state random = {99};
    struct convolv_receiver *receiver = open_fed(3);
    for (int i = 0; i < 100000; i++) {
        uint8_t bytes[256];
        const struct given given = {AT(i), .flags = RTP_INVALID};
        size_t count = write_packet(&given, bytes);
        if (i % 2 == 0) {
            count = random_below(&random, 200);
            for (size_t b = 0; b < count; b++)
                bytes[b] = (uint8_t)random_u64(&random);
            if (count > 0 && i % 4 == 0)
                bytes[0] = 0x90 | (bytes[0] & 0x2f);
        } else {
            for (uint32_t change = random_below(&random, 4); change > 0; change--)
                bytes[random_below(&random, (uint32_t)count)] ^=
                    (uint8_t)(1u << random_below(&random, 8));
            count -= random_below(&random, 4) == 0 ? random_below(&random, (uint32_t)count) : 0;
        }
        uint8_t *exact =
            malloc(count + 1); /* a read past the datagram is a read past the allocation */
        assert_non_null(exact);
        memcpy(exact, bytes, count);
        struct convolv_block block;
        if (convolv_receiver_feed(receiver, exact, count, 0, &block) == 1)
            assert_true(block.invalid_from <= block.invalid_until &&
                        block.invalid_until <= block.frames);
        free(exact);
    }
    assert_adds_up(receiver);
    convolv_receiver_close(receiver);
}

/* ---- sender to receiver ------------------------------------------------------------------ */

static struct convolv_receiver *open_bound(const char *host, const char *format, uint32_t channels,
                                           char *address)
{
    struct convolv_receiver_options options;
    convolv_receiver_defaults(&options);
    snprintf(options.address, sizeof options.address, "%s:0", host);
    snprintf(options.format, sizeof options.format, "%s", format);
    options.channels = channels;
    struct convolv_receiver *receiver;
    struct convolv_problem problem;
    if (convolv_receiver_open(&options, &receiver, &problem) != CONVOLV_OK)
        fail_msg("%s", problem.text);
    sprintf(address, "%s:%u", host, convolv_receiver_port(receiver));
    return receiver;
}

static void test_loopback(void **state)
{
    (void)state;
    static const struct {
        const char *host, *format;
        uint32_t channels, packet_frames;
        bool segment;
        double lsb; /* 0: float32 */
    } table[] = {
        {"127.0.0.1", "L16", 1, 0, false, 0x1p-15},  {"127.0.0.1", "L16", 16, 0, true, 0x1p-15},
        {"127.0.0.1", "L24", 3, 100, true, 0x1p-23}, {"127.0.0.1", "s32be", 2, 37, false, 0x1p-31},
        {"127.0.0.1", "f32be", 64, 1, true, 0},      {"[::1]", "f32be", 1, 0, true, 0},
        {"127.0.0.1", "u8", 5, 7000, false, 0x1p-7},
    };
    enum { SENT = 20001, PIECE = 4000 };
    for (size_t t = 0; t < sizeof table / sizeof *table; t++) {
        char address[64];
        struct convolv_receiver *receiver =
            open_bound(table[t].host, table[t].format, table[t].channels, address);
        struct convolv_sender_options options;
        convolv_sender_defaults(&options);
        options.address = address;
        options.format = table[t].format;
        options.channels = table[t].channels;
        options.packet_frames = table[t].packet_frames;
        options.segment = table[t].segment;
        options.first_sequence = 65530;
        options.first_timestamp = UINT32_MAX - 500;
        struct convolv_sender *sender;
        struct convolv_problem problem;
        if (convolv_sender_open(&options, &sender, &problem) != CONVOLV_OK)
            fail_msg("%s", problem.text);
        struct random_state random = {t};
        size_t samples = (size_t)SENT * table[t].channels;
        double *values = malloc(samples * sizeof *values);
        assert_non_null(values);
        for (size_t i = 0; i < samples; i++)
            values[i] = 1.99 * random_unit(&random) - 1.0;
        uint64_t seen = 0;
        for (uint64_t sent = 0; sent < SENT;) {
            uint64_t now = SENT - sent < PIECE ? SENT - sent : PIECE;
            assert_int_equal(
                convolv_sender_write(sender, values + sent * table[t].channels, now, sent == 0), 0);
            assert_int_equal(convolv_sender_flush(sender), 0);
            sent += now;
            while (seen < sent) {
                struct convolv_block block;
                if (convolv_receiver_next(receiver, 2000, &block) != 1)
                    fail_msg("%s to %s: nothing after frame %llu", table[t].format, table[t].host,
                             (unsigned long long)seen);
                assert_int_equal(block.first_frame, seen);
                assert_int_equal(block.marker, seen == 0);
                for (size_t i = 0; i < (size_t)block.frames * block.channels; i++) {
                    double want = values[seen * table[t].channels + i];
                    double allowed = table[t].lsb > 0 ? table[t].lsb / 2 : fabs(want) * 0x1p-24;
                    if (fabs(block.samples[i] - want) > allowed * (1 + 1e-12))
                        fail_msg("%s: sample %zu after frame %llu is %.17g, sent %.17g",
                                 table[t].format, i, (unsigned long long)seen, block.samples[i],
                                 want);
                }
                seen += block.frames;
            }
        }
        struct convolv_sender_ledger sent;
        struct convolv_receiver_ledger got;
        convolv_sender_ledger(sender, &sent);
        convolv_receiver_ledger(receiver, &got);
        assert_int_equal(sent.frames_built, SENT);
        assert_int_equal(sent.datagrams, sent.built);
        assert_int_equal(sent.queued + sent.failed + sent.saturated, 0);
        assert_int_equal(got.accepted, sent.datagrams);
        assert_int_equal(got.frames, SENT);
        assert_int_equal(got.lost + got.frames_lost, 0);
        free(values);
        convolv_sender_close(sender);
        convolv_receiver_close(receiver);
    }
}

/* The two framings without RTP, byte for byte, and saturation. */
static void test_framings(void **state)
{
    (void)state;
    static const struct {
        enum convolv_framing framing;
        bool big_endian;
        uint8_t expect[14];
        ssize_t bytes;
    } table[] = {
        {CONVOLV_FRAMING_UDP, false, {0x7f, 0xff, 0x80, 0x00, 0x40, 0x00}, 6},
        {CONVOLV_FRAMING_UDP_SEQUENCE,
         true,
         {1, 2, 3, 4, 5, 6, 7, 8, 0x7f, 0xff, 0x80, 0x00, 0x40, 0x00},
         14},
        {CONVOLV_FRAMING_UDP_SEQUENCE,
         false,
         {8, 7, 6, 5, 4, 3, 2, 1, 0x7f, 0xff, 0x80, 0x00, 0x40, 0x00},
         14},
    };
    static const double values[3] = {1.5, -1.5, 0.5};
    for (size_t t = 0; t < sizeof table / sizeof *table; t++) {
        int plain = socket(AF_INET, SOCK_DGRAM, 0);
        struct sockaddr_in bound = {.sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t length = sizeof bound;
        assert_int_equal(bind(plain, (struct sockaddr *)&bound, sizeof bound), 0);
        assert_int_equal(getsockname(plain, (struct sockaddr *)&bound, &length), 0);
        char address[64];
        sprintf(address, "127.0.0.1:%u", ntohs(bound.sin_port));
        struct convolv_sender_options options;
        convolv_sender_defaults(&options);
        options.address = address;
        options.framing = table[t].framing;
        options.sequence_big_endian = table[t].big_endian;
        options.first_sequence = UINT64_C(0x0102030405060708);
        struct convolv_sender *sender;
        assert_int_equal(convolv_sender_open(&options, &sender, NULL), CONVOLV_OK);
        assert_int_equal(convolv_sender_write(sender, values, 3, false), CONVOLV_OK);
        assert_int_equal(convolv_sender_flush(sender), CONVOLV_OK);
        uint8_t bytes[64];
        struct pollfd readable = {.fd = plain, .events = POLLIN};
        assert_int_equal(poll(&readable, 1, 2000), 1);
        assert_int_equal(recv(plain, bytes, sizeof bytes, 0), table[t].bytes);
        assert_memory_equal(bytes, table[t].expect, (size_t)table[t].bytes);
        struct convolv_sender_ledger ledger;
        convolv_sender_ledger(sender, &ledger);
        assert_int_equal(ledger.saturated, 2);
        convolv_sender_close(sender);
        close(plain);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *address, *format;
        uint32_t channels, packet_frames, mtu;
        const char *word; /* in the sentence */
    } table[] = {
        {"127.0.0.1", "L16", 1, 0, 1500, "HOST:PORT"},
        {"::1:5004", "L16", 1, 0, 1500, "[HOST]:PORT"},
        {"*:5004", "L16", 1, 0, 1500, "host"},
        {"127.0.0.1:port", "L16", 1, 0, 1500, "127.0.0.1:port"},
        {"127.0.0.1:5004", "L17", 1, 0, 1500, "L17"},
        {"127.0.0.1:5004", "L16", 0, 0, 1500, "channels"},
        {"127.0.0.1:5004", "L16", 1025, 0, 1500, "channels"},
        {"127.0.0.1:5004", "L16", 1, 40000, 1500, "32747"},
        {"127.0.0.1:5004", "L16", 1, 0, 10, "mtu"},
    };
    for (size_t t = 0; t < sizeof table / sizeof *table; t++) {
        struct convolv_sender_options options;
        convolv_sender_defaults(&options);
        options.address = table[t].address;
        options.format = table[t].format;
        options.channels = table[t].channels;
        options.packet_frames = table[t].packet_frames;
        options.mtu = table[t].mtu;
        struct convolv_sender *sender;
        struct convolv_problem problem = {0};
        if (convolv_sender_open(&options, &sender, &problem) >= 0)
            fail_msg("%s %s %u was not refused", table[t].address, table[t].format,
                     table[t].channels);
        assert_null(sender);
        if (strstr(problem.text, table[t].word) == NULL)
            fail_msg("'%s' does not say '%s'", problem.text, table[t].word);
    }
}

static void test_sdp(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *address; /* NULL: refused */
        const char *format;
        uint32_t channels;
        double rate_hz, full_scale;
        int payload_type;
    } table[] = {
        {"v=0\r\nc=IN IP4 239.1.2.3/8\r\nm=audio 5004 RTP/AVP 96\r\na=rtpmap:96 L24/48000/4\r\n",
         "239.1.2.3:5004", "L24", 4, 48000, 1, 96},
        {"c=IN IP6 ff15::1\nm=audio 5006 RTP/AVP 11\na=rtpmap:11 L16/44100\na=unknown:1\n",
         "[ff15::1]:5006", "L16", 1, 44100, 1, 11},
        {"c=IN IP4 127.0.0.1\nm=audio 5004 RTP/AVP 97\na=rtpmap:97 L16/48000/4000000000\n", NULL,
         NULL, 0, 0, 0, 0},
        {"c=IN IP4 127.0.0.1\nm=audio 70000 RTP/AVP 97\na=rtpmap:97 L16/48000/4\n", NULL, NULL, 0,
         0, 0, 0},
        {"c=IN IP4 127.0.0.1\nm=audio 5004 RTP/AVP 97\na=rtpmap:98 L16/48000/4\n", NULL, NULL, 0, 0,
         0, 0},
        {"c=IN IP4 127.0.0.1\nm=audio 5004 RTP/AVP 97\na=rtpmap:97 opus/48000/2\n", NULL, NULL, 0,
         0, 0, 0},
        {"", NULL, NULL, 0, 0, 0, 0},
        /* Variants that other programs write. */
        {"c=IN IP4 127.0.0.1\nm=audio 5004/1 RTP/AVP 96\na=rtpmap:96 L24/48000/2\n",
         "127.0.0.1:5004", "L24", 2, 48000, 1, 96},
        {"c=IN IP4 127.0.0.1\nm=audio 5004 RTP/AVPF 96\na=rtpmap:96 L24/48000/2\n",
         "127.0.0.1:5004", "L24", 2, 48000, 1, 96},
        {"c=IN IP4 127.0.0.1\nm=audio 5004 RTP/AVP 11\n", "127.0.0.1:5004", "L16", 1, 44100, 1, 11},
        {"c=IN IP4 127.0.0.1\nm=audio 5004 RTP/AVP 10\n", "127.0.0.1:5004", "L16", 2, 44100, 1, 10},
        {"c=IN IP4 127.0.0.1\nm=audio 5004 RTP/AVP 101 96\na=rtpmap:101 telephone-event/8000\n"
         "a=rtpmap:96 L16/8000\n",
         "127.0.0.1:5004", "L16", 1, 8000, 1, 96},
        {"c=IN IP4 10.0.0.1\nm=video 5000 RTP/AVP 96\nc=IN IP4 10.0.0.2\na=rtpmap:96 raw/90000\n"
         "m=audio 5004 RTP/AVP 96\na=rtpmap:96 L24/96000/8\n",
         "10.0.0.1:5004", "L24", 8, 96000, 1, 96},
        {"m=audio 5004 RTP/AVP 96\nc=IN IP4 239.1.1.1/32/2\na=rtpmap:96 L24/96000/8\n"
         "m=video 5000 RTP/AVP 96\nc=IN IP4 10.0.0.2\na=rtpmap:96 raw/90000\n",
         "239.1.1.1:5004", "L24", 8, 96000, 1, 96},
        {"c=IN IP4 10.0.0.1\nm=audio 0 RTP/AVP 96\na=rtpmap:96 L16/8000\n"
         "m=audio 5006 RTP/AVP 97\na=rtpmap:97 l24/48000/2\r\n",
         "10.0.0.1:5006", "L24", 2, 48000, 1, 97},
        {"c=IN IP4 127.0.0.1\nm=audio 5004 RTP/SAVP 96\na=rtpmap:96 L24/48000/2\n", NULL, NULL, 0,
         0, 0, 0},
        {"c=IN IP4 127.0.0.1\nm=video 5004 RTP/AVP 96\na=rtpmap:96 L24/48000/2\n", NULL, NULL, 0, 0,
         0, 0},
    };
    for (size_t t = 0; t < sizeof table / sizeof *table; t++) {
        struct convolv_receiver_options options;
        convolv_receiver_defaults(&options);
        struct convolv_problem problem;
        int status = convolv_sdp_parse(table[t].text, strlen(table[t].text), &options, &problem);
        if (table[t].address == NULL) {
            assert_int_equal(status, CONVOLV_ERROR_FORMAT);
            continue;
        }
        if (status != CONVOLV_OK)
            fail_msg("row %zu: %s", t, problem.text);
        assert_string_equal(options.address, table[t].address);
        assert_string_equal(options.format, table[t].format);
        assert_int_equal(options.channels, table[t].channels);
        assert_true(options.rate_hz == table[t].rate_hz &&
                    options.full_scale == table[t].full_scale);
        assert_int_equal(options.payload_type, table[t].payload_type);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_block_fields),
        cmocka_unit_test(test_scripts),
        cmocka_unit_test(test_holes_and_heartbeats),
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_loopback),
        cmocka_unit_test(test_framings),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_sdp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
