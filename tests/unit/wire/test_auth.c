/*
 * Authentication tags: against tags computed elsewhere (Python's hmac), every bit of a packet
 * flipped, and the replay window against a set that forgets nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"
#include "wire/auth.h"
#include "wire/rtp.h"

enum { SAMPLES = 8, PACKET = RTP_HEADER_BYTES + SAMPLES, SEALED = PACKET + AUTH_TRAILER_BYTES };

static struct auth_key key_for(enum auth_use use)
{
    static const char text[] =
        "\n 000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F\n";
    uint8_t secret[AUTH_SECRET_BYTES];
    struct auth_key key;
    assert_true(auth_secret_parse(text, sizeof text - 1, secret));
    for (int i = 0; i < AUTH_SECRET_BYTES; i++)
        assert_int_equal(secret[i], i);
    auth_key_derive(secret, use, &key);
    return key;
}

static void make_packet(uint8_t packet[SEALED], uint16_t sequence)
{
    rtp_build(packet,
              &(struct rtp_header){
                  .payload_type = 96, .sequence = sequence, .timestamp = 0x01020304, .ssrc = 7},
              NULL);
    memcpy(packet + RTP_HEADER_BYTES, "samples!", SAMPLES);
}

static void known_tags(void **state)
{
    (void)state;
    static const struct {
        enum auth_use use;
        uint8_t first;
        uint8_t tag[AUTH_TAG_BYTES];
    } cases[] = {
        {AUTH_RTP_INPUT,
         0xA0,
         {0x33, 0x45, 0x35, 0x0e, 0x00, 0x12, 0xed, 0x3f, 0x20, 0x56, 0x2d, 0x69, 0xdf, 0x64, 0xe1,
          0xa6}},
        {AUTH_SEQUENCE_INPUT,
         0x80,
         {0x46, 0xb0, 0x87, 0xfe, 0xd1, 0xd3, 0x7b, 0x47, 0xc1, 0xd7, 0xc1, 0x28, 0x45, 0x85, 0xfd,
          0xfe}},
        {AUTH_RTP_RESULTS,
         0xA0,
         {0xa6, 0x8a, 0xd1, 0xd4, 0x63, 0x27, 0x89, 0x73, 0x78, 0xf1, 0x0f, 0x22, 0x22, 0x95, 0x7e,
          0x59}},
    };
    static const uint8_t rollover[] = {0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct auth_key key = key_for(cases[i].use);
        struct auth_numbers numbers = {.rollover = UINT64_C(0x123456789abc)};
        uint8_t packet[SEALED];
        for (int round = 0; round < 2; round++) { /* a key serves any number of packets */
            numbers.started = false;
            make_packet(packet, 0xfffe);
            assert_int_equal(auth_seal(&key, &numbers, 0xfffe, packet, PACKET), SEALED);
            assert_int_equal(packet[0], cases[i].first);
            assert_memory_equal(packet + PACKET, rollover, sizeof rollover);
            assert_memory_equal(packet + PACKET + 7, cases[i].tag, AUTH_TAG_BYTES);
        }
        struct rtp_packet parsed;
        assert_int_equal(rtp_parse(packet, SEALED, &parsed), RTP_OK);
        if (cases[i].use != AUTH_SEQUENCE_INPUT)
            assert_int_equal(parsed.payload_bytes, SAMPLES);
    }
}

static void what_is_forged(void **state)
{
    (void)state;
    struct auth_key key = key_for(AUTH_RTP_INPUT), results = key_for(AUTH_RTP_RESULTS);
    struct auth_numbers numbers = {0};
    auth_numbers_begin(&numbers, INT64_C(1700000000000000000));
    uint8_t packet[SEALED], changed[SEALED];
    make_packet(packet, 5);
    auth_seal(&key, &numbers, 5, packet, PACKET);
    for (size_t bit = 0; bit < 8 * SEALED; bit++) {
        struct auth_window window = {0};
        memcpy(changed, packet, SEALED);
        changed[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (auth_open(&key, &window, 5, changed, SEALED) != AUTH_FORGED)
            fail_msg("bit %zu may be changed", bit);
        assert_false(window.started);
    }
    struct auth_window window = {0};
    for (size_t bytes = 0; bytes < SEALED; bytes++)
        assert_int_equal(auth_open(&key, &window, 5, packet, bytes), AUTH_FORGED);
    assert_int_equal(auth_open(&results, &window, 5, packet, SEALED), AUTH_FORGED);
    assert_int_equal(auth_open(&key, &window, 5, packet, SEALED), AUTH_OK);
    assert_int_equal(auth_open(&key, &window, 5, packet, SEALED), AUTH_REPLAY);
}

/* The window accepts each index once, if it is less than AUTH_WINDOW behind the newest. */
static void each_packet_once(void **state)
{
    (void)state;
    enum { INDICES = 200000 };
    bool *taken = calloc(INDICES, sizeof *taken);
    struct random_state random = {.state = 11};
    struct auth_key key = key_for(AUTH_RTP_INPUT);
    struct auth_window window = {0};
    struct auth_numbers numbers = {.rollover = 77};
    uint8_t(*packets)[SEALED] = malloc(INDICES * sizeof *packets);
    assert_non_null(taken);
    assert_non_null(packets);
    for (uint32_t i = 0; i < INDICES; i++) { /* three wraps of the sequence number */
        make_packet(packets[i], (uint16_t)(i + 60000));
        auth_seal(&key, &numbers, (uint16_t)(i + 60000), packets[i], PACKET);
    }
    uint32_t newest = 0;
    bool started = false;
    for (int round = 0; round < 60000; round++) {
        uint32_t step = random_below(&random, 20) == 0 ? random_below(&random, 3 * AUTH_WINDOW)
                                                       : random_below(&random, 4);
        uint32_t i = newest + step;
        if (random_below(&random, 3) == 0)
            i = newest - random_below(&random, 2 * AUTH_WINDOW);
        if (i >= INDICES)
            continue;
        bool expect = !started || i > newest || (newest - i < AUTH_WINDOW && !taken[i]);
        enum auth_verdict verdict =
            auth_open(&key, &window, (uint16_t)(i + 60000), packets[i], SEALED);
        if (verdict != (expect ? AUTH_OK : AUTH_REPLAY))
            fail_msg("round %d: packet %u, newest %u: %d", round, i, newest, verdict);
        taken[i] = true;
        newest = !started || i > newest ? i : newest;
        started = true;
    }
    free(packets);
    free(taken);
}

/* What a sender sent before its restart does not follow what it sends after. */
static void restarts(void **state)
{
    (void)state;
    struct auth_key key = key_for(AUTH_RTP_INPUT);
    struct auth_window window = {0};
    struct auth_numbers numbers = {0};
    const int64_t start_ns = INT64_C(1700000000000000000);
    uint8_t before[SEALED], after[SEALED];
    auth_numbers_begin(&numbers, start_ns);
    make_packet(before, 65000);
    auth_seal(&key, &numbers, 65000, before, PACKET);
    uint64_t rollover = numbers.rollover;
    auth_numbers_begin(&numbers, start_ns + 1000000); /* a millisecond later */
    assert_true(numbers.rollover > rollover);
    make_packet(after, 3);
    auth_seal(&key, &numbers, 3, after, PACKET);
    assert_int_equal(auth_open(&key, &window, 3, after, SEALED), AUTH_OK);
    assert_int_equal(auth_open(&key, &window, 65000, before, SEALED), AUTH_REPLAY);
    rollover = numbers.rollover;
    auth_numbers_begin(&numbers, start_ns - 1); /* the clock was set back */
    assert_true(numbers.rollover > rollover);
}

static void secrets(void **state)
{
    (void)state;
    static const char good[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    uint8_t secret[AUTH_SECRET_BYTES];
    char text[80];
    assert_true(auth_secret_parse(good, 64, secret));
    assert_false(auth_secret_parse(good, 63, secret));
    assert_false(auth_secret_parse(good, 0, secret));
    assert_false(auth_secret_parse("   ", 3, secret));
    memcpy(text, good, sizeof good);
    text[63] = 'g';
    assert_false(auth_secret_parse(text, 64, secret));
    text[63] = '0';
    text[64] = '0';
    assert_false(auth_secret_parse(text, 65, secret));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_tags),       cmocka_unit_test(what_is_forged),
        cmocka_unit_test(each_packet_once), cmocka_unit_test(restarts),
        cmocka_unit_test(secrets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
