/*
 * Sample formats against their definition: codes written out by hand, every 16-bit code there
 * and back, and rounding and saturation against arithmetic in long double.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/random.h"
#include "wire/format.h"

static struct sample_format parsed(const char *name)
{
    struct sample_format format;
    if (sample_format_parse(name, &format) != 0)
        fail_msg("format \"%s\" is not known", name);
    return format;
}

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct sample_format expect;
        const char *text;
    } table[] = {
        {"u8", {SAMPLE_UNSIGNED, 1, 8, false, false}, "u8"},
        {"s16le", {SAMPLE_SIGNED, 2, 16, false, false}, "s16le"},
        {"s16be", {SAMPLE_SIGNED, 2, 16, true, false}, "s16be"},
        {"u16be", {SAMPLE_UNSIGNED, 2, 16, true, false}, "u16be"},
        {"s24le", {SAMPLE_SIGNED, 3, 24, false, false}, "s24le"},
        {"s32be", {SAMPLE_SIGNED, 4, 32, true, false}, "s32be"},
        {"f32le", {SAMPLE_FLOAT, 4, 32, false, false}, "f32le"},
        {"f32be", {SAMPLE_FLOAT, 4, 32, true, false}, "f32be"},
        {"L16", {SAMPLE_SIGNED, 2, 16, true, false}, "s16be"},
        {"l24", {SAMPLE_SIGNED, 3, 24, true, false}, "s24be"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct sample_format format = parsed(table[i].name);
        char text[24];
        assert_int_equal(format.kind, table[i].expect.kind);
        assert_int_equal(format.bytes, table[i].expect.bytes);
        assert_int_equal(format.bits, table[i].expect.bits);
        assert_int_equal(format.big_endian, table[i].expect.big_endian);
        assert_true(sample_format_valid(&format));
        assert_string_equal(sample_format_name(&format, text), table[i].text);
    }
    static const char *const refused[] = {"", "s16", "f64le", "s16lex", "16", "L20"};
    struct sample_format format;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        assert_int_equal(sample_format_parse(refused[i], &format), ERROR_ARGUMENT);

    char text[24];
    format = (struct sample_format){SAMPLE_SIGNED, 2, 12, true, true};
    assert_string_equal(sample_format_name(&format, text), "s16be/12left");
    format = (struct sample_format){SAMPLE_UNSIGNED, 2, 14, false, false};
    assert_string_equal(sample_format_name(&format, text), "u16le/14");
}

static void test_valid(void **state)
{
    (void)state;
    static const struct {
        struct sample_format format;
        bool expect;
    } table[] = {
        {{SAMPLE_SIGNED, 2, 12, false, true}, true},
        {{SAMPLE_SIGNED, 2, 2, false, false}, true},
        {{SAMPLE_SIGNED, 2, 1, false, false}, false},
        {{SAMPLE_SIGNED, 2, 17, false, false}, false},
        {{SAMPLE_SIGNED, 0, 2, false, false}, false},
        {{SAMPLE_SIGNED, 5, 40, false, false}, false},
        {{SAMPLE_FLOAT, 4, 24, false, false}, false},
        {{SAMPLE_FLOAT, 4, 32, false, true}, false},
        {{SAMPLE_FLOAT, 3, 24, false, false}, false},
        {{SAMPLE_UNSIGNED, 4, 32, true, false}, true},
        {{3, 2, 16, false, false}, false},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        assert_int_equal(sample_format_valid(&table[i].format), table[i].expect);
}

/* Wire bytes and the normalised value they mean, both written out by hand. */
static const struct {
    struct sample_format format;
    uint8_t wire[4];
    double value;
    bool exact_back; /* encoding the value gives these bytes again */
} codes[] = {
    {{SAMPLE_UNSIGNED, 1, 8, false, false}, {0x80}, 0.0, true},
    {{SAMPLE_UNSIGNED, 1, 8, false, false}, {0x00}, -1.0, true},
    {{SAMPLE_UNSIGNED, 1, 8, false, false}, {0xFF}, 127.0 / 128, true},
    {{SAMPLE_SIGNED, 1, 8, false, false}, {0x81}, -127.0 / 128, true},
    {{SAMPLE_SIGNED, 2, 16, false, false}, {0x01, 0x80}, -32767.0 / 32768, true},
    {{SAMPLE_SIGNED, 2, 16, true, false}, {0x80, 0x01}, -32767.0 / 32768, true},
    {{SAMPLE_SIGNED, 2, 16, true, false}, {0x01, 0x02}, 258.0 / 32768, true},
    {{SAMPLE_UNSIGNED, 2, 16, false, false}, {0x00, 0x80}, 0.0, true},
    {{SAMPLE_UNSIGNED, 2, 16, true, false}, {0x80, 0x01}, 1.0 / 32768, true},
    {{SAMPLE_SIGNED, 3, 24, false, false}, {0x01, 0x00, 0x80}, -8388607.0 / 8388608, true},
    {{SAMPLE_SIGNED, 3, 24, true, false}, {0x12, 0x34, 0x56}, 1193046.0 / 8388608, true},
    {{SAMPLE_SIGNED, 4, 32, false, false},
     {0xFF, 0xFF, 0xFF, 0x7F},
     2147483647.0 / 2147483648,
     true},
    {{SAMPLE_SIGNED, 4, 32, true, false}, {0x80, 0, 0, 0}, -1.0, true},
    {{SAMPLE_UNSIGNED, 4, 32, true, false}, {0xC0, 0, 0, 0}, 0.5, true},
    {{SAMPLE_FLOAT, 4, 32, false, false}, {0x00, 0x00, 0xC0, 0xBF}, -1.5, true},
    {{SAMPLE_FLOAT, 4, 32, true, false}, {0x3F, 0x80, 0x00, 0x00}, 1.0, true},
    /* 12 of 16 bits: at the bottom (sign-extended or not on the wire), at the top */
    {{SAMPLE_SIGNED, 2, 12, false, false}, {0x00, 0xF8}, -1.0, true},
    {{SAMPLE_SIGNED, 2, 12, false, false}, {0x00, 0x08}, -1.0, false},
    {{SAMPLE_SIGNED, 2, 12, false, false}, {0xFF, 0x07}, 2047.0 / 2048, true},
    {{SAMPLE_SIGNED, 2, 12, true, true}, {0x7F, 0xF0}, 2047.0 / 2048, true},
    {{SAMPLE_SIGNED, 2, 12, true, true}, {0x7F, 0xFF}, 2047.0 / 2048, false},
    {{SAMPLE_UNSIGNED, 2, 14, false, false}, {0x00, 0x20}, 0.0, true},
    {{SAMPLE_UNSIGNED, 2, 14, true, true}, {0xC0, 0x00}, 0.5, true},
    {{SAMPLE_SIGNED, 4, 24, false, true}, {0x00, 0x00, 0x00, 0x80}, -1.0, true},
    {{SAMPLE_SIGNED, 4, 24, false, false}, {0x00, 0x00, 0xC0, 0xFF}, -0.5, true},
};

static void test_codes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        char text[24];
        double value = sample_decode(&codes[i].format, codes[i].wire);
        if (value != codes[i].value)
            fail_msg("row %zu (%s): decoded %.17g, want %.17g", i,
                     sample_format_name(&codes[i].format, text), value, codes[i].value);
        if (!codes[i].exact_back)
            continue;
        uint8_t wire[4] = {0};
        assert_false(sample_encode(&codes[i].format, codes[i].value, wire));
        if (memcmp(wire, codes[i].wire, codes[i].format.bytes) != 0)
            fail_msg("row %zu (%s): encoded differently", i,
                     sample_format_name(&codes[i].format, text));
    }
}

static void test_every_16_bit_code(void **state)
{
    (void)state;
    static const char *const names[] = {"s16le", "s16be", "u16le", "u16be"};
    for (size_t n = 0; n < 4; n++) {
        struct sample_format format = parsed(names[n]);
        for (unsigned code = 0; code < 65536; code++) {
            uint8_t wire[2] = {(uint8_t)code, (uint8_t)(code >> 8)}, back[2];
            double value;
            sample_decode_block(&format, wire, 1, 1, &value);
            assert_false(sample_encode(&format, value, back));
            assert_memory_equal(wire, back, 2);
        }
    }
}

/* Rounding to nearest even and saturation, from the definition. */
static long long expected_code(long double value, unsigned bits, bool *saturated)
{
    long double scaled = value * powl(2.0L, bits - 1);
    long double floor_value = floorl(scaled), rest = scaled - floor_value;
    long long code = (long long)floor_value;
    if (rest > 0.5L || (rest == 0.5L && (code & 1)))
        code++;
    long long high = (1LL << (bits - 1)) - 1, low = -(1LL << (bits - 1));
    *saturated = code > high || code < low;
    return code > high ? high : code < low ? low : code;
}

static void test_rounding_and_saturation(void **state)
{
    (void)state;
    static const unsigned widths[] = {2, 8, 12, 16, 24, 31, 32};
    struct random_state random = {7};
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        unsigned bits = widths[w];
        struct sample_format format = {SAMPLE_SIGNED, 4, (uint8_t)bits, false, false};
        double half = ldexp(1.0, (int)bits - 1);
        for (int i = 0; i < 2000; i++) {
            double value;
            switch (i % 4) {
            case 0: /* an exact tie */
                value = (floor((random_unit(&random) * 2 - 1) * half) + 0.5) / half;
                break;
            case 1: /* at the ends */
                value = ((i & 8 ? half : -half) + (double)(i % 13) * 0.25 - 1.5) / half;
                break;
            case 2:
                value = random_normal(&random) * 1.5;
                break;
            default:
                value = random_unit(&random) * 2 - 1;
            }
            bool want_saturated;
            long long want = expected_code(value, bits, &want_saturated);
            uint8_t wire[4];
            bool saturated = sample_encode(&format, value, wire);
            int32_t code;
            memcpy(&code, wire, 4);
            if (code != want || saturated != want_saturated)
                fail_msg("%u bits, %.17g: code %d saturated %d, want %lld %d", bits, value, code,
                         saturated, want, want_saturated);
        }
    }
    static const struct {
        double value;
        int32_t code;
        bool saturated;
    } ends[] = {{NAN, 0, true},       {INFINITY, 32767, true}, {-INFINITY, -32768, true},
                {1e300, 32767, true}, {1.0, 32767, true},      {-1.0, -32768, false}};
    struct sample_format format = parsed("s16le");
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        uint8_t wire[2];
        assert_int_equal(sample_encode(&format, ends[i].value, wire), ends[i].saturated);
        assert_int_equal((int16_t)(wire[0] | wire[1] << 8), ends[i].code);
    }
}

static void test_block_equals_single(void **state)
{
    (void)state;
    enum { COUNT = 4001 };
    /* From almost all samples that saturate to few of them; powers of two and others. */
    static const float factors[] = {1.0f, 0.2f, 0.125f, 0.11f};
    static const float edges[] = {0.5f,      -0.5f,    1.5f,     -1.5f,     32766.5f,  32767.0f,
                                  32767.4f,  32767.5f, 32768.0f, -32767.5f, -32768.0f, -32768.5f,
                                  -32769.0f, 1e30f,    -1e30f,   1e-40f};
    static float values[COUNT];
    struct random_state random = {3};
    for (int i = 0; i < COUNT; i++)
        values[i] = (float)(random_normal(&random) * 4.0);
    values[17] = NAN;
    values[18] = INFINITY;
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++)
        values[100 + 8 * i] = edges[i] / 4096; /* the code of 16 bits times 0.125 */
    for (unsigned kind = 0; kind <= SAMPLE_FLOAT; kind++) {
        for (unsigned bytes = 1; bytes <= 4; bytes++) {
            for (unsigned variant = 0; variant < 8; variant++) {
                struct sample_format format = {(uint8_t)kind, (uint8_t)bytes,
                                               (uint8_t)(8 * bytes - (variant & 4 ? 3 : 0)),
                                               variant & 1, variant & 2};
                if (!sample_format_valid(&format))
                    continue;
                for (size_t f = 0; f < sizeof factors / sizeof factors[0]; f++) {
                    const float factor = factors[f];
                    static uint8_t block[COUNT * 4 + 1];
                    uint8_t single[4];
                    block[COUNT * bytes] = 0xA5; /* guard */
                    uint64_t saturated = 0, got;
                    got = sample_encode_block(&format, values, COUNT, factor, block);
                    assert_int_equal(block[COUNT * bytes], 0xA5);
                    for (int i = 0; i < COUNT; i++) {
                        saturated +=
                            sample_encode(&format, (double)values[i] * (double)factor, single);
                        if (memcmp(block + i * (int)bytes, single, bytes) != 0) {
                            char text[24];
                            fail_msg("%s, sample %d (%g): block and single differ",
                                     sample_format_name(&format, text), i, (double)values[i]);
                        }
                    }
                    assert_int_equal(got, saturated);
                }
            }
        }
    }
}

static void test_scale(void **state)
{
    (void)state;
    struct channel_scale scale = {.full_scale = 10.0, .offset = 0.5, .gain_db = 40.0, .unit = "V"};
    assert_true(fabs(channel_scale_factor(&scale) - 0.1) < 1e-15);
    scale.gain_db = -20.0;
    assert_true(fabs(channel_scale_factor(&scale) - 100.0) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_valid),
        cmocka_unit_test(test_codes),
        cmocka_unit_test(test_every_16_bit_code),
        cmocka_unit_test(test_rounding_and_saturation),
        cmocka_unit_test(test_block_equals_single),
        cmocka_unit_test(test_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
