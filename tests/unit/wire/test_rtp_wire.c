/*
 * RTP on the wire against bytes written by hand from RFC 3550 section 5.1, RFC 8285 section
 * 4.2 and the table in wire/rtp.h, and the time stamps of RFC 5905 against known instants.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/random.h"
#include "wire/rtp.h"

#define HEAD(first, second) first, second, 0x12, 0x34, 0x01, 0x02, 0x03, 0x04, 0xA, 0xB, 0xC, 0xD
#define CSRC                0xC5, 0xC5, 0xC5, 0xC5

static const struct {
    const char *given;
    uint8_t datagram[48];
    size_t bytes;
    enum rtp_parse_result expect;
    size_t payload_at, payload_bytes, extension_bytes;
} packets[] = {
    {"nothing", {0}, 0, RTP_TOO_SHORT, 0, 0, 0},
    {"eleven bytes", {HEAD(0x80, 10)}, 11, RTP_TOO_SHORT, 0, 0, 0},
    {"a header alone", {HEAD(0x80, 10)}, 12, RTP_OK, 12, 0, 0},
    {"four bytes of payload", {HEAD(0x80, 10), 1, 2, 3, 4}, 16, RTP_OK, 12, 4, 0},
    {"version 0", {HEAD(0x00, 10)}, 16, RTP_VERSION, 0, 0, 0},
    {"version 1", {HEAD(0x40, 10)}, 16, RTP_VERSION, 0, 0, 0},
    {"version 3", {HEAD(0xC0, 10)}, 16, RTP_VERSION, 0, 0, 0},
    {"two CSRCs", {HEAD(0x82, 10), CSRC, CSRC, 7}, 21, RTP_OK, 20, 1, 0},
    {"two CSRCs and no payload", {HEAD(0x82, 10), CSRC, CSRC}, 20, RTP_OK, 20, 0, 0},
    {"a CSRC cut short", {HEAD(0x82, 10), CSRC, 1, 2, 3}, 19, RTP_TOO_SHORT, 0, 0, 0},
    {"15 CSRCs in 24 bytes", {HEAD(0x8F, 10), CSRC, CSRC, CSRC}, 24, RTP_TOO_SHORT, 0, 0, 0},
    {"an extension of 4 bytes",
     {HEAD(0x90, 10), 0xBE, 0xDE, 0, 1, 9, 9, 9, 9, 1},
     21,
     RTP_OK,
     20,
     1,
     4},
    {"an empty extension", {HEAD(0x90, 10), 0xAB, 0xCD, 0, 0, 5}, 17, RTP_OK, 16, 1, 0},
    {"an extension header cut short", {HEAD(0x90, 10), 0xBE, 0xDE, 0}, 15, RTP_TOO_SHORT, 0, 0, 0},
    {"an extension longer than all",
     {HEAD(0x90, 10), 0xBE, 0xDE, 0xFF, 0xFF, 1, 2},
     18,
     RTP_TOO_SHORT,
     0,
     0,
     0},
    {"a CSRC and an extension",
     {HEAD(0x91, 10), CSRC, 0, 1, 0, 1, 9, 9, 9, 9, 1, 2},
     26,
     RTP_OK,
     24,
     2,
     4},
    {"padding of 3", {HEAD(0xA0, 10), 1, 2, 0, 0, 3}, 17, RTP_OK, 12, 2, 0},
    {"nothing but padding", {HEAD(0xA0, 10), 0, 0, 0, 4}, 16, RTP_OK, 12, 0, 0},
    {"padding of 0", {HEAD(0xA0, 10), 1, 2, 3, 0}, 16, RTP_PADDING, 0, 0, 0},
    {"padding beyond the payload", {HEAD(0xA0, 10), 1, 2, 3, 5}, 16, RTP_PADDING, 0, 0, 0},
    {"padding beyond all", {HEAD(0xA0, 10), 1, 2, 3, 255}, 16, RTP_PADDING, 0, 0, 0},
    {"a padding bit on an empty payload", {HEAD(0xA0, 10)}, 12, RTP_TOO_SHORT, 0, 0, 0},
    {"padding in front of an extension",
     {HEAD(0xB0, 10), 0, 1, 0, 1, 9, 9, 9, 9, 6, 2},
     22,
     RTP_OK,
     20,
     0,
     4},
};

static void test_parse(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof packets / sizeof packets[0]; i++) {
        /* An exact copy on the heap, so that a sanitizer sees a read past its end. */
        uint8_t *datagram = malloc(packets[i].bytes + (packets[i].bytes == 0));
        assert_non_null(datagram);
        memcpy(datagram, packets[i].datagram, packets[i].bytes);
        struct rtp_packet packet;
        enum rtp_parse_result got = rtp_parse(datagram, packets[i].bytes, &packet);
        if (got != packets[i].expect)
            fail_msg("%s: result %d, expected %d", packets[i].given, got, packets[i].expect);
        if (got == RTP_OK) {
            if (packet.payload != datagram + packets[i].payload_at ||
                packet.payload_bytes != packets[i].payload_bytes ||
                packet.extension_bytes != packets[i].extension_bytes)
                fail_msg("%s: payload of %zu at %td, extension of %zu", packets[i].given,
                         packet.payload_bytes, packet.payload - datagram, packet.extension_bytes);
            assert_int_equal(packet.header.payload_type, 10);
            assert_int_equal(packet.header.sequence, 0x1234);
            assert_int_equal(packet.header.timestamp, 0x01020304);
            assert_int_equal(packet.header.ssrc, 0x0A0B0C0D);
            assert_false(packet.header.marker);
            assert_true((packet.extension != NULL) == ((datagram[0] & 0x10) != 0));
        }
        free(datagram);
    }
}

static void test_header(void **state)
{
    (void)state;
    const struct rtp_header header = {.marker = true,
                                      .payload_type = 97,
                                      .sequence = 0xFFFE,
                                      .timestamp = 0x89ABCDEF,
                                      .ssrc = 0xFEEDF00D};
    const uint8_t expect[] = {0x80, 0xE1, 0xFF, 0xFE, 0x89, 0xAB,
                              0xCD, 0xEF, 0xFE, 0xED, 0xF0, 0x0D};
    uint8_t out[16];
    memset(out, 0xA5, sizeof out);
    assert_int_equal(rtp_build(out, &header, NULL), RTP_HEADER_BYTES);
    assert_memory_equal(out, expect, sizeof expect);
    assert_int_equal(out[12], 0xA5);

    struct rtp_packet packet;
    assert_int_equal(rtp_parse(out, RTP_HEADER_BYTES, &packet), RTP_OK);
    assert_true(packet.header.marker);
    assert_int_equal(packet.header.payload_type, 97);
}

/* Half a second past a whole one, so that the fraction is plain to see. */
static const struct rtp_result_info example = {
    .capture_ns = INT64_C(1779214800500000000),
    .stage_100ns = {1, 0x01020304, 0xFFFFFFFF, 0},
    .egress_100ns = 0x0A0B0C0D,
    .clock = 2,
    .flags = RTP_INVALID | RTP_EPOCH_START,
    .causes = 0x0104,
    .clock_error_ns = 0x11223344,
    .epoch = 7,
    .first_frame = UINT64_C(0x0123456789ABCDEF),
    .record = 0x55667788,
    .delay_half_frames = 4095,
    .decimate = 0x1234,
    .invalid_from = 3,
    .invalid_until = 0x0102,
};

#define CAPTURE_S ((uint32_t)(UINT64_C(1779214800) + UINT64_C(2208988800)))

static void test_result_info_bytes(void **state)
{
    (void)state;
    /* A row an element; the capture time is 1779214800.5 s, in seconds since 1900. */
    /* clang-format off */
    const uint8_t expect[RTP_EXTENSION_BYTES] = {
        0xBE, 0xDE, 0, 17,
        0x17, CAPTURE_S >> 24, CAPTURE_S >> 16 & 0xFF, CAPTURE_S >> 8 & 0xFF, CAPTURE_S & 0xFF, 0x80, 0, 0, 0,
        0x2F, 0, 0, 0, 1, 1, 2, 3, 4, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0,
        0x3F, 2, 3, 1, 4, 0x11, 0x22, 0x33, 0x44, 0x0A, 0x0B, 0x0C, 0x0D, 0, 0, 0, 7,
        0x4F, 0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF, 0x55, 0x66, 0x77, 0x88, 0, 0, 0x0F, 0xFF,
        0x53, 0, 3, 1, 2,
        0x61, 0x12, 0x34,
    };
    /* clang-format on */
    const struct rtp_header header = {.payload_type = 96};
    uint8_t out[RTP_HEADER_BYTES + RTP_EXTENSION_BYTES + 1];
    memset(out, 0xA5, sizeof out);
    assert_int_equal(rtp_build(out, &header, &example), RTP_HEADER_BYTES + RTP_EXTENSION_BYTES);
    assert_int_equal(out[0], 0x90);
    assert_memory_equal(out + RTP_HEADER_BYTES, expect, sizeof expect);
    assert_int_equal(out[sizeof out - 1], 0xA5);
}

static void assert_same_info(const struct rtp_result_info *a, const struct rtp_result_info *b)
{
    assert_int_equal(a->capture_ns, b->capture_ns);
    for (int i = 0; i < 4; i++)
        assert_int_equal(a->stage_100ns[i], b->stage_100ns[i]);
    assert_int_equal(a->egress_100ns, b->egress_100ns);
    assert_int_equal(a->clock, b->clock);
    assert_int_equal(a->flags, b->flags);
    assert_int_equal(a->causes, b->causes);
    assert_int_equal(a->clock_error_ns, b->clock_error_ns);
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->first_frame, b->first_frame);
    assert_int_equal(a->record, b->record);
    assert_int_equal(a->delay_half_frames, b->delay_half_frames);
    assert_int_equal(a->invalid_from, b->invalid_from);
    assert_int_equal(a->invalid_until, b->invalid_until);
    assert_int_equal(a->decimate, b->decimate);
    assert_int_equal(a->hole_frames, b->hole_frames);
    if (a->hole_frames > 0) {
        assert_int_equal(a->hole_from, b->hole_from);
        assert_int_equal(a->hole_causes, b->hole_causes);
    }
    assert_int_equal(a->gain_changes, b->gain_changes);
    if (a->gain_changes > 0)
        assert_int_equal(a->gain_from, b->gain_from);
}

/* The elements of a hole and of changed gains, byte for byte, behind those of every packet. */
static void test_later_elements(void **state)
{
    (void)state;
    struct rtp_result_info info = example;
    info.hole_from = UINT64_C(0x0123456789ABCD00);
    info.hole_frames = 0xEF;
    info.hole_causes = 0x0120;
    info.gain_from = UINT64_C(0x1122334455667788);
    info.gain_changes = 0x0102;
    /* clang-format off */
    const uint8_t expect[RTP_HOLE_BYTES + RTP_GAIN_BYTES] = {
        0x7D, 0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0, 0, 0, 0, 0xEF, 0x01, 0x20, 0,
        0x8B, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0, 0, 0x01, 0x02, 0, 0, 0,
    };
    /* clang-format on */
    uint8_t out[RTP_HEADER_BYTES_MAX];
    assert_int_equal(rtp_build(out, &(struct rtp_header){.payload_type = 96}, &info), sizeof out);
    assert_int_equal(out[15], (sizeof out - 16) / 4);
    assert_memory_equal(out + RTP_RESULT_HEADER_BYTES, expect, sizeof expect);
}

/* Only a packet with the type, without payload and with the flag. */
static void test_heartbeat(void **state)
{
    (void)state;
    for (int wrong = 0; wrong < 4; wrong++) {
        struct rtp_result_info info = example, back;
        info.flags = wrong == 1 ? 0 : RTP_HEARTBEAT;
        uint8_t out[RTP_HEADER_BYTES_MAX + 1] = {0};
        size_t bytes =
            rtp_build(out, &(struct rtp_header){.payload_type = wrong == 2 ? 96 : 95}, &info);
        struct rtp_packet packet;
        assert_int_equal(rtp_parse(out, bytes + (wrong == 3), &packet), RTP_OK);
        assert_true(rtp_parse_result_info(&packet, &back));
        assert_int_equal(rtp_is_heartbeat(&packet, &back), wrong == 0);
    }
}

static void test_result_info_round_trip(void **state)
{
    (void)state;
    struct random_state random = {1};
    for (int i = 0; i < 1000; i++) {
        struct rtp_result_info info = example, back;
        info.capture_ns = (int64_t)(random_u64(&random) % UINT64_C(4000000000000000000));
        info.first_frame = random_u64(&random);
        info.clock_error_ns = (uint32_t)random_u64(&random);
        info.stage_100ns[3] = (uint32_t)random_u64(&random);
        if (i % 2 == 0) {
            info.hole_from = random_u64(&random);
            info.hole_frames = (uint32_t)random_u64(&random);
            info.hole_causes = (uint16_t)random_u64(&random);
        }
        if (i % 3 == 0) {
            info.gain_from = random_u64(&random);
            info.gain_changes = (uint32_t)random_u64(&random);
        }
        uint8_t out[RTP_HEADER_BYTES_MAX + 8] = {0};
        size_t bytes = rtp_build(out, &(struct rtp_header){.payload_type = 96}, &info);
        struct rtp_packet packet;
        assert_int_equal(bytes, rtp_info_bytes(&info));
        assert_int_equal(rtp_parse(out, bytes + 8, &packet), RTP_OK);
        assert_int_equal(packet.payload_bytes, 8);
        assert_true(rtp_parse_result_info(&packet, &back));
        assert_same_info(&info, &back);
    }
}

/* Extension bodies that are not ours. */
static void test_result_info_refused(void **state)
{
    (void)state;
    uint8_t good[RTP_HEADER_BYTES + RTP_EXTENSION_BYTES];
    rtp_build(good, &(struct rtp_header){.payload_type = 96}, &example);
    static const struct {
        const char *given;
        size_t at;
        uint8_t byte;
        bool expect;
    } changes[] = {
        {"unchanged", 16, 0x17, true},
        {"another profile", 13, 0xDF, false},
        {"id 1 missing (id 6)", 16, 0x67, false},
        {"id 1 with 7 bytes", 16, 0x16, false},
        {"id 15 stops", 25, 0xFF, false},
        {"id 5 missing (padding)", 76, 0x00, false},
        {"id 5 with 8 bytes, past the end", 76, 0x57, false},
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        uint8_t datagram[sizeof good];
        memcpy(datagram, good, sizeof good);
        datagram[changes[i].at] = changes[i].byte;
        struct rtp_packet packet;
        struct rtp_result_info info;
        assert_int_equal(rtp_parse(datagram, sizeof datagram, &packet), RTP_OK);
        if (rtp_parse_result_info(&packet, &info) != changes[i].expect)
            fail_msg("%s: expected %d", changes[i].given, changes[i].expect);
    }
    struct rtp_packet packet;
    struct rtp_result_info info;
    rtp_build(good, &(struct rtp_header){.payload_type = 96}, NULL);
    assert_int_equal(rtp_parse(good, RTP_HEADER_BYTES, &packet), RTP_OK);
    assert_false(rtp_parse_result_info(&packet, &info));
}

static void test_ntp(void **state)
{
    (void)state;
    static const struct {
        int64_t ns;
        uint64_t ntp;
    } instants[] = {
        {0, UINT64_C(2208988800) << 32}, /* RFC 5905: 1970-01-01 */
        {INT64_C(500000000), (UINT64_C(2208988800) << 32) | 0x80000000u},
        {INT64_C(250000000), (UINT64_C(2208988800) << 32) | 0x40000000u},
        {INT64_C(946684800000000000), UINT64_C(3155673600) << 32},  /* RFC 5905: 2000-01-01 */
        {INT64_C(2085978495000000000), UINT64_C(0xFFFFFFFF) << 32}, /* the last second of era 0 */
        {INT64_C(2085978496000000000), 0},                          /* 2036-02-07 06:28:16, era 1 */
        {INT64_C(2085978497000000000), UINT64_C(1) << 32},
    };
    for (size_t i = 0; i < sizeof instants / sizeof instants[0]; i++) {
        assert_int_equal(rtp_ntp_from_ns(instants[i].ns), instants[i].ntp);
        assert_int_equal(rtp_ns_from_ntp(instants[i].ntp), instants[i].ns);
    }
    struct random_state random = {2};
    for (int i = 0; i < 100000; i++) {
        int64_t ns = (int64_t)(random_u64(&random) % UINT64_C(4200000000000000000));
        assert_int_equal(rtp_ns_from_ntp(rtp_ntp_from_ns(ns)), ns);
    }
    assert_int_equal(rtp_ns_from_ntp(rtp_ntp_from_ns(INT64_C(999999999))), INT64_C(999999999));
}

static void test_100ns(void **state)
{
    (void)state;
    static const struct {
        int64_t ns;
        uint32_t expect;
    } durations[] = {
        {INT64_MIN, 0},
        {-1, 0},
        {0, 0},
        {49, 0},
        {50, 1},
        {100, 1},
        {149, 1},
        {150, 2},
        {INT64_C(429496729400), UINT32_MAX - 1},
        {INT64_C(429496729500), UINT32_MAX},
        {INT64_MAX, UINT32_MAX},
    };
    for (size_t i = 0; i < sizeof durations / sizeof durations[0]; i++)
        assert_int_equal(rtp_100ns(durations[i].ns), durations[i].expect);
}

/* What was sent before there was an element of decimation, and one that says 0, keep every frame.
 */
static void test_no_decimation(void **state)
{
    (void)state;
    const struct rtp_header header = {.payload_type = 96};
    uint8_t out[RTP_HEADER_BYTES + RTP_EXTENSION_BYTES];
    enum { ELEMENT_AT = sizeof out - 3 };
    for (int zero = 0; zero < 2; zero++) {
        rtp_build(out, &header, &example);
        memset(out + ELEMENT_AT + zero, 0,
               (size_t)(3 - zero)); /* all padding; or only the number */
        struct rtp_packet packet;
        struct rtp_result_info info;
        assert_int_equal(rtp_parse(out, sizeof out, &packet), RTP_OK);
        assert_true(rtp_parse_result_info(&packet, &info));
        assert_int_equal(info.decimate, 1);
        assert_int_equal(info.first_frame, example.first_frame);
    }
}

/* RFC 791 and 8200: 20 and 40 bytes of IP header; RFC 768: 8 of UDP. */
static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        bool ipv6;
        uint32_t header_bytes, mtu, payload_bytes;
    } table[] = {
        {false, RTP_HEADER_BYTES, 1500, 1460},
        {true, RTP_HEADER_BYTES, 1500, 1440},
        {false, RTP_RESULT_HEADER_BYTES, 1500, 1388},
        {true, RTP_RESULT_HEADER_BYTES, 1500, 1368},
        {false, 0, 29, 1},
        {false, 0, 28, 0},
        {true, 8, 40, 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        uint32_t payload = rtp_payload_bytes(table[i].ipv6, table[i].header_bytes, table[i].mtu);
        assert_int_equal(payload, table[i].payload_bytes);
        if (payload > 0)
            assert_int_equal(rtp_ip_bytes(table[i].ipv6, table[i].header_bytes, payload),
                             table[i].mtu);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_header),
        cmocka_unit_test(test_no_decimation),
        cmocka_unit_test(test_result_info_bytes),
        cmocka_unit_test(test_later_elements),
        cmocka_unit_test(test_heartbeat),
        cmocka_unit_test(test_result_info_round_trip),
        cmocka_unit_test(test_result_info_refused),
        cmocka_unit_test(test_ntp),
        cmocka_unit_test(test_100ns),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
