/*
 * OSC on the wire: packets {bytes, what the walker says}, wildcards {pattern, name, matches},
 * TCP framing byte by byte, and what hostile packets cost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/clock.h"
#include "core/error.h"
#include "io/osc/frames.h"
#include "wire/osc.h"

#define COUNT(a)    (sizeof(a) / sizeof((a)[0]))
#define BYTES(text) text, sizeof(text) - 1
#define BUNDLE      "#bundle\0\0\0\0\0\0\0\0\1"

struct seen {
    unsigned count;
    char last[OSC_ADDRESS_MAX + 1];
    uint64_t time_tag;
};

static void see(void *context, const struct osc_message *message)
{
    struct seen *seen = context;
    seen->count++;
    seen->time_tag = message->time_tag;
    snprintf(seen->last, sizeof seen->last, "%s", message->address);
}

enum {
    PADDING = 1 << OSC_TOLERATED_PADDING,
    SURPLUS = 1 << OSC_TOLERATED_SURPLUS,
    UNTAGGED = 1 << OSC_TOLERATED_UNTAGGED
};

static const char *signature(const char *address)
{
    return strcmp(address, "/one") == 0 ? "i" : NULL;
}

/* Fields left out of a row are zero. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

static const struct {
    const char *what, *data;
    size_t bytes;
    enum osc_fault expect;
    unsigned messages;
    uint32_t tolerated;
} packets[] = {
    {"no argument", BYTES("/a\0\0,\0\0\0"), OSC_OK, 1},
    {"int and float", BYTES("/a\0\0,if\0\0\0\0\1\x3f\x80\0\0"), OSC_OK, 1},
    {"string and blob", BYTES("/a\0\0,sb\0hi\0\0\0\0\0\5abcde\0\0\0"), OSC_OK, 1},
    {"without bytes: T, F, N, I", BYTES("/a\0\0,TFNI\0\0\0"), OSC_OK, 1},
    {"h, t, d",
     BYTES("/a\0\0,htd\0\0\0\0"
           "12345678"
           "12345678"
           "12345678"),
     OSC_OK, 1},
    {",ib that ends inside its arguments", BYTES("/ch/1\0\0\0,ib\0\0\0\0\7"), OSC_FAULT_ARGUMENTS,
     0},
    {"empty", BYTES(""), OSC_FAULT_SIZE, 0},
    {"padding of the tags cut off", BYTES("/a\0\0,\0\0"), OSC_OK, 1, PADDING},
    {"padding of a blob cut off", BYTES("/a\0\0,b\0\0\0\0\0\3abc"), OSC_OK, 1, PADDING},
    {"padding of a string cut off", BYTES("/a\0\0,s\0\0ab\0"), OSC_OK, 1, PADDING},
    {"address without an end", BYTES("/abc"), OSC_FAULT_ADDRESS, 0},
    {"no slash", BYTES("a\0\0\0,\0\0\0"), OSC_FAULT_ADDRESS, 0},
    {"space in the address", BYTES("/a b\0\0\0\0,\0\0\0"), OSC_FAULT_ADDRESS, 0},
    {"no types, no arguments", BYTES("/a\0\0"), OSC_OK, 1, UNTAGGED},
    {"no types where there is one signature", BYTES("/one\0\0\0\0\0\0\0\1"), OSC_OK, 1, UNTAGGED},
    {"more than that signature", BYTES("/one\0\0\0\0\0\0\0\1\0\0\0\2"), OSC_FAULT_UNTAGGED, 0},
    {"less than that signature", BYTES("/one\0\0\0\0\0\1"), OSC_FAULT_UNTAGGED, 0},
    {"types without a comma", BYTES("/a\0\0i\0\0\0\0\0\0\1"), OSC_FAULT_UNTAGGED, 0},
    {"types without an end", BYTES("/a\0\0,iii"), OSC_FAULT_TYPES, 0},
    {"an unknown type", BYTES("/a\0\0,q\0\0\0\0\0\1"), OSC_FAULT_TYPES, 0},
    {"an array", BYTES("/a\0\0,[i]\0\0\0\0\0\0\0\1"), OSC_FAULT_TYPES, 0},
    {"bytes after the arguments", BYTES("/a\0\0,i\0\0\0\0\0\1\0\0\0\0"), OSC_OK, 1, SURPLUS},
    {"a blob padded twice", BYTES("/a\0\0,b\0\0\0\0\0\4abcd\0\0\0\0"), OSC_OK, 1, SURPLUS},
    {"a blob longer than its message", BYTES("/a\0\0,b\0\0\0\0\0\10abcd"), OSC_FAULT_ARGUMENTS, 0},
    {"a blob of 2^32 - 1 bytes",
     BYTES("/a\0\0,b\0\0\xff\xff\xff\xff"
           "abcd"),
     OSC_FAULT_ARGUMENTS, 0},
    {"a blob of 2^32 - 3 bytes",
     BYTES("/a\0\0,b\0\0\xff\xff\xff\xfd"
           "abcd"),
     OSC_FAULT_ARGUMENTS, 0},
    {"a string without an end", BYTES("/a\0\0,s\0\0abcd"), OSC_FAULT_ARGUMENTS, 0},
    {"padding that is not 0", BYTES("/a\0x,\0\0\0"), OSC_OK, 1, PADDING},
    {"SuperCollider's blob: padding that is not 0", BYTES("/a\0\0,b\0\0\0\0\0\3abcd"), OSC_OK, 1,
     PADDING},
    {"all three", BYTES("/a\0x,s\0\0ab\0z1234"), OSC_OK, 1, PADDING | SURPLUS},
    {"two wildcards", BYTES("/*/?\0\0\0\0,\0\0\0"), OSC_OK, 1},
    {"/*a*a*a*a*b", BYTES("/*a*a*a*a*b\0,\0\0\0"), OSC_FAULT_PATTERN, 0},
    {"a bracket left open", BYTES("/[ab\0\0\0\0,\0\0\0"), OSC_FAULT_PATTERN, 0},
    {"an empty bundle", BYTES(BUNDLE), OSC_OK, 0},
    {"two messages",
     BYTES(BUNDLE "\0\0\0\10/a\0\0,\0\0\0"
                  "\0\0\0\10/b\0\0,\0\0\0"),
     OSC_OK, 2},
    {"the second is malformed: none counts",
     BYTES(BUNDLE "\0\0\0\10/a\0\0,\0\0\0"
                  "\0\0\0\10/b\0\0;\0\0\0"),
     OSC_FAULT_UNTAGGED, 0},
    {"an element longer than its bundle", BYTES(BUNDLE "\0\0\0\14/a\0\0,\0\0\0"), OSC_FAULT_BUNDLE,
     0},
    {"an element of no bytes", BYTES(BUNDLE "\0\0\0\0"), OSC_FAULT_BUNDLE, 0},
    {"a bundle without a time tag", BYTES("#bundle\0\0\0\0\1"), OSC_FAULT_BUNDLE, 0},
    {"4 deep",
     BYTES(BUNDLE "\0\0\0\x44" BUNDLE "\0\0\0\x30" BUNDLE "\0\0\0\x1c" BUNDLE
                  "\0\0\0\10/a\0\0,\0\0\0"),
     OSC_OK, 1},
    {"5 deep",
     BYTES(BUNDLE "\0\0\0\x4c" BUNDLE "\0\0\0\x38" BUNDLE "\0\0\0\x24" BUNDLE "\0\0\0\x10" BUNDLE),
     OSC_FAULT_DEPTH, 0},
};

static void test_packets(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(packets); i++) {
        struct seen seen = {0};
        struct osc_counts counts = {0};
        /* On the heap, at its size: a sanitizer sees a read past its end. */
        uint8_t *data = malloc(packets[i].bytes > 0 ? packets[i].bytes : 1);
        memcpy(data, packets[i].data, packets[i].bytes);
        enum osc_fault got =
            osc_walk_untagged(data, packets[i].bytes, &counts, signature, see, &seen);
        free(data);
        for (int t = 0; t < OSC_TOLERATED; t++)
            if (counts.tolerated[t] != (packets[i].tolerated >> t & 1))
                fail_msg("%s: %s counted %llu times", packets[i].what,
                         osc_tolerated_name((enum osc_tolerated)t),
                         (unsigned long long)counts.tolerated[t]);
        if (got != packets[i].expect || seen.count != packets[i].messages)
            fail_msg("%s: fault %s, %u messages; expected %s, %u", packets[i].what,
                     osc_fault_name(got), seen.count, osc_fault_name(packets[i].expect),
                     packets[i].messages);
        assert_int_equal(counts.messages, packets[i].messages);
        assert_int_equal(counts.faults[packets[i].expect], 1);
    }
}

/* A date changes nothing but a count. */
static void test_time_tags(void **state)
{
    (void)state;
    static const char dated[] = "#bundle\0\xfd\x8c\x1f\0\0\0\0\0\0\0\0\10/a\0\0,\0\0\0";
    struct osc_counts counts = {0};
    struct seen seen = {0};
    assert_int_equal(osc_walk((const uint8_t *)dated, sizeof dated - 1, &counts, see, &seen),
                     OSC_OK);
    assert_int_equal(seen.count, 1);
    assert_int_equal(counts.dated, 1);
    assert_true(seen.time_tag == UINT64_C(0xfd8c1f0000000000));
}

static void test_wildcards(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *name;
        bool expect;
    } rows[] = {
        {"rig", "rig", true},      {"rig", "rig2", false},      {"*", "rig", true},
        {"*", "", true},           {"r*g", "rig", true},        {"r*g*", "ring2", true},
        {"r*x", "rig", false},     {"?ig", "rig", true},        {"?", "", false},
        {"rig[12]", "rig2", true}, {"rig[1-3]", "rig4", false}, {"rig[!1]", "rig2", true},
        {"{a,bc}d", "bcd", true},  {"{a,bc}d", "bd", false},    {"{a,ab}*", "abc", true},
        {"{}x", "x", true},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        bool got = osc_part_matches(rows[i].pattern, strlen(rows[i].pattern), rows[i].name,
                                    strlen(rows[i].name));
        if (got != rows[i].expect)
            fail_msg("%s against %s: %d", rows[i].pattern, rows[i].name, got);
    }
}

static void test_arguments(void **state)
{
    (void)state;
    static const char packet[] = "/a\0\0,hiifdsb\0\0\0\0"
                                 "\0\0\0\2\0\0\0\3"
                                 "\0\0\0\1\0\0\0\4"
                                 "\x42\x28\0\0"
                                 "\x40\x45\0\0\0\0\0\0"
                                 "hi\0\0"
                                 "\0\0\0\1x\0\0\0";
    struct osc_message message = {.address = packet,
                                  .types = packet + 5,
                                  .count = 7,
                                  .arguments = (const uint8_t *)packet + 16,
                                  .data = (const uint8_t *)packet,
                                  .bytes = sizeof packet - 1};
    assert_int_equal(osc_walk(message.data, message.bytes, NULL, NULL, NULL), OSC_OK);
    struct osc_reader reader = {.message = &message, .at = message.arguments};
    uint64_t wide;
    double number;
    const char *text;
    const uint8_t *blob;
    size_t bytes;
    assert_false(osc_read_string(&reader, &text));
    assert_true(osc_read_wide(&reader, &wide) && wide == UINT64_C(0x200000003));
    assert_true(osc_read_wide(&reader, &wide) && wide == UINT64_C(0x100000004));
    assert_true(osc_read_number(&reader, &number) && number == 42);
    assert_true(osc_read_wide(&reader, &wide) && wide == 42); /* a whole double */
    assert_true(osc_read_string(&reader, &text) && strcmp(text, "hi") == 0);
    assert_true(osc_read_blob(&reader, &blob, &bytes) && bytes == 1 && blob[0] == 'x');
    assert_int_equal(osc_peek(&reader), 0);
}

static void test_parts(void **state)
{
    (void)state;
    struct osc_part parts[3];
    assert_int_equal(osc_address_parts("/convolvd/rig/block", parts, 3), 2);
    assert_int_equal(parts[1].length, 5);
    assert_int_equal(osc_address_parts("/convolvd", parts, 3), 0);
    assert_int_equal(osc_address_parts("/convolvdx/a", parts, 3), -1);
    assert_int_equal(osc_address_parts("/other", parts, 3), -1);
    assert_int_equal(osc_address_parts("/convolvd/a/b/c/d", parts, 3), -1);
}

/* What is built passes the walker, and nothing is written past the capacity. */
static void test_building(void **state)
{
    (void)state;
    uint8_t buffer[64];
    for (size_t capacity = 0; capacity <= sizeof buffer; capacity++) {
        memset(buffer, 0xaa, sizeof buffer);
        struct osc_writer writer = {.data = buffer, .capacity = capacity};
        osc_begin(&writer, "/convolvd/x", ",hfsb");
        osc_put_wide(&writer, 7);
        osc_put_float(&writer, 1.5f);
        osc_put_string(&writer, "abcd");
        uint8_t *blob = osc_put_blob(&writer, 3);
        if (blob != NULL)
            memcpy(blob, "xyz", 3);
        for (size_t i = capacity; i < sizeof buffer; i++)
            assert_int_equal(buffer[i], 0xaa);
        assert_int_equal(writer.full, capacity < 12 + 8 + 8 + 4 + 8 + 8);
        if (!writer.full)
            assert_int_equal(osc_walk(buffer, writer.bytes, NULL, NULL, NULL), OSC_OK);
    }
}

/* ---- TCP framing ------------------------------------------------------------------------- */

struct gathered {
    unsigned count;
    size_t bytes[8];
    uint8_t last[64];
};

static void gather(void *context, const uint8_t *data, size_t bytes)
{
    struct gathered *g = context;
    assert_true(g->count < 8 && bytes <= sizeof g->last);
    g->bytes[g->count++] = bytes;
    memcpy(g->last, data, bytes);
}

static void test_framing(void **state)
{
    (void)state;
    static const struct {
        const char *what, *data;
        size_t bytes;
        int expect;
        unsigned packets;
    } rows[] = {
        {"length prefix", BYTES("\0\0\0\10/a\0\0,\0\0\0"), 0, 1},
        {"two", BYTES("\0\0\0\4/a\0\0\0\0\0\4/b\0\0"), 0, 2},
        {"an empty one between", BYTES("\0\0\0\4/a\0\0\0\0\0\0\0\0\0\4/b\0\0"), 0, 2},
        {"half", BYTES("\0\0\0\10/a\0\0"), 0, 0},
        {"longer than allowed", BYTES("\0\0\1\0"), ERROR_LIMIT, 0},
        {"SLIP", BYTES("\xc0/a\0\0,\0\0\0\xc0"), 0, 1},
        {"SLIP, END between only", BYTES("/a\0\0\xc0/b\0\0\xc0"), 0, 2},
        {"SLIP, escaped", BYTES("\xc0/\xdb\xdc\xdb\xdd\0\xc0"), 0, 1},
        {"SLIP, wrongly escaped", BYTES("\xc0/\xdbx\xc0"), ERROR_FORMAT, 0},
        {"SLIP, END in an escape", BYTES("\xc0/\xdb\xc0"), ERROR_FORMAT, 0},
        {"SLIP, longer than allowed",
         BYTES("/123456789012345678901234567890123456789012345678901234567890123456789"),
         ERROR_LIMIT, 0},
        {"SLIP, a byte longer than allowed",
         BYTES("/123456789012345678901234567890123456789012345678901234567890\xc0"), ERROR_LIMIT,
         0},
        {"neither", BYTES("GET / HTTP/1.1\r\n"), ERROR_FORMAT, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        for (size_t step = 1; step <= rows[i].bytes; step++) {
            uint8_t buffer[64];
            struct osc_frames frames = {.buffer = buffer, .capacity = sizeof buffer};
            struct gathered g = {0};
            int got = 0;
            for (size_t at = 0; at < rows[i].bytes && got == 0; at += step) {
                size_t left = rows[i].bytes - at;
                got = osc_frames_feed(&frames, (const uint8_t *)rows[i].data + at,
                                      step < left ? step : left, gather, &g);
            }
            if (got != rows[i].expect || (got == 0 && g.count != rows[i].packets))
                fail_msg("%s in pieces of %zu: %d, %u packets; expected %d, %u", rows[i].what, step,
                         got, g.count, rows[i].expect, rows[i].packets);
        }
    }
}

static void test_framing_round_trip(void **state)
{
    (void)state;
    uint8_t packet[24], wire[64], buffer[64];
    for (size_t i = 0; i < sizeof packet; i++)
        packet[i] = (uint8_t)(i % 3 == 0 ? 0xc0 : i % 3 == 1 ? 0xdb : i);
    packet[0] = '/';
    for (int framing = OSC_FRAMING_LENGTH; framing <= OSC_FRAMING_SLIP; framing++) {
        struct osc_frames frames = {.buffer = buffer, .capacity = sizeof buffer};
        struct gathered g = {0};
        size_t bytes =
            osc_frames_wrap((enum osc_framing)framing, packet, sizeof packet, wire, sizeof wire);
        assert_true(bytes > 0);
        assert_int_equal(osc_frames_feed(&frames, wire, bytes, gather, &g), 0);
        assert_int_equal(g.count, 1);
        assert_int_equal(g.bytes[0], sizeof packet);
        assert_memory_equal(g.last, packet, sizeof packet);
        assert_int_equal(
            osc_frames_wrap((enum osc_framing)framing, packet, sizeof packet, wire, 26), 0);
    }
}

/* ---- what hostile packets cost ----------------------------------------------------------- */

static void assert_cheap(const char *what, const uint8_t *data, size_t bytes, enum osc_fault expect)
{
    enum { TURNS = 21 };
    int64_t best = INT64_MAX;
    for (int i = 0; i < TURNS; i++) {
        int64_t begun = clock_monotonic_ns();
        assert_int_equal(osc_walk(data, bytes, NULL, NULL, NULL), expect);
        int64_t took = clock_monotonic_ns() - begun;
        best = took < best ? took : best;
    }
    if (best > 100 * NS_PER_US)
        fail_msg("%s took %lld ns, more than 100 us", what, (long long)best);
}

static void test_cost(void **state)
{
    (void)state;
    static const char pattern[] = "/*a*a*a*a*b\0,\0\0\0";
    assert_cheap("/*a*a*a*a*b", (const uint8_t *)pattern, sizeof pattern - 1, OSC_FAULT_PATTERN);

    /* Bundles in bundles, as deep as a packet can hold, and 10 000 deep beyond what it can. */
    for (size_t depth = OSC_PACKET_MAX / 20; depth <= 10000; depth += 10000 - OSC_PACKET_MAX / 20) {
        size_t bytes = depth * 20;
        uint8_t *nest = calloc(1, bytes);
        assert_non_null(nest);
        for (size_t d = 0; d < depth; d++) {
            uint8_t *at = nest + d * 20;
            size_t inside = bytes - (d + 1) * 20;
            memcpy(at, "#bundle", 8);
            for (int i = 0; i < 4; i++)
                at[16 + i] = (uint8_t)(inside >> (24 - 8 * i));
        }
        assert_cheap("nesting", nest, bytes, depth == 10000 ? OSC_FAULT_SIZE : OSC_FAULT_DEPTH);
        free(nest);
    }

    /* The worst that two wildcards can do, against the longest name. */
    char name[OSC_ADDRESS_MAX];
    memset(name, 'a', sizeof name);
    int64_t best = INT64_MAX;
    for (int i = 0; i < 21; i++) {
        int64_t begun = clock_monotonic_ns();
        assert_false(osc_part_matches("*a*b", 4, name, sizeof name));
        int64_t took = clock_monotonic_ns() - begun;
        best = took < best ? took : best;
    }
    /* A sanitized build is an order slower. */
    assert_true(best < 1000 * NS_PER_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packets),   cmocka_unit_test(test_time_tags),
        cmocka_unit_test(test_wildcards), cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_parts),     cmocka_unit_test(test_building),
        cmocka_unit_test(test_framing),   cmocka_unit_test(test_framing_round_trip),
        cmocka_unit_test(test_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
