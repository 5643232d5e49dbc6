/*
 * Quantities: numbers with units against their values on paper. Integers must be exact, doubles
 * the nearest there are, and what cannot be read must say what to write.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/quantity.h"

static void values_are_the_nearest_doubles(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum dimension dimension;
        double value;
        const char *unit;
    } table[] = {
        {"12", DIMENSION_NUMBER, 12, ""},
        {"-0.5", DIMENSION_NUMBER, -0.5, ""},
        {"+3", DIMENSION_NUMBER, 3, ""},
        {"1e3", DIMENSION_NUMBER, 1000, ""},
        {".5", DIMENSION_NUMBER, 0.5, ""},
        {"0.1", DIMENSION_NUMBER, 0.1, ""},
        {"0.000000000000000000000001", DIMENSION_NUMBER, 1e-24, ""},
        {"1000000000000000000000", DIMENSION_NUMBER, 1e21, ""},
        {"5 MHz", DIMENSION_FREQUENCY, 5e6, "MHz"},
        {"5MHz", DIMENSION_FREQUENCY, 5e6, "MHz"},
        {"  95.1 kHz  ", DIMENSION_FREQUENCY, 95100, "kHz"},
        {"44.1 kS/s", DIMENSION_FREQUENCY, 44100, "kS/s"},
        {"20 /s", DIMENSION_FREQUENCY, 20, "/s"},
        {"0.3 MHz", DIMENSION_FREQUENCY, 300000, "MHz"},
        {"200 us", DIMENSION_TIME, 200e-6, "us"},
        {"200 µs", DIMENSION_TIME, 200e-6, "µs"},
        {"1.5 min", DIMENSION_TIME, 90, "min"},
        {"2 d", DIMENSION_TIME, 172800, "d"},
        {"16 MiB", DIMENSION_MEMORY, 16777216, "MiB"},
        {"16 MB", DIMENSION_MEMORY, 16e6, "MB"},
        {"-3 dB", DIMENSION_DECIBEL, -3, "dB"},
        {"5 %", DIMENSION_RATIO, 0.05, "%"},
        {"1024 frames", DIMENSION_FRAMES, 1024, "frames"},
        {"90 deg", DIMENSION_ANGLE, 90, "deg"},
        {"5 mm", DIMENSION_LENGTH, 0.005, "mm"},
        {"1.5 m", DIMENSION_LENGTH, 1.5, "m"},
        {"250 µm", DIMENSION_LENGTH, 250e-6, "µm"},
        {"-3000 m/s", DIMENSION_VELOCITY, -3000, "m/s"},
        {"5.4 mm/us", DIMENSION_VELOCITY, 5400, "mm/us"},
        /* Metres are an amplitude's unit where an amplitude is expected. */
        {"10 mm/s", DIMENSION_AMPLITUDE, 10, "mm/s"},
        {"3 m/s", DIMENSION_AMPLITUDE, 3, "m/s"},
        {"3 um", DIMENSION_AMPLITUDE, 3, "um"},
        {"10 mV", DIMENSION_AMPLITUDE, 10, "mV"},
        {"9.81 m/s2", DIMENSION_AMPLITUDE, 9.81, "m/s2"},
        {"1e3 EV", DIMENSION_AMPLITUDE, 1000, "EV"},
        {"2 e", DIMENSION_AMPLITUDE, 2, "e"},
        {"-0", DIMENSION_NUMBER, 0, ""},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct quantity quantity;
        struct problem problem = {0};
        if (quantity_parse(table[i].text, table[i].dimension, &quantity, &problem) != 0)
            fail_msg("\"%s\" was refused: %s", table[i].text, problem.text);
        double value = quantity_value(&quantity);
        if (quantity.dimension != table[i].dimension || value != table[i].value ||
            strcmp(quantity.unit, table[i].unit) != 0)
            fail_msg("\"%s\": %s of %.17g `%s`, not %s of %.17g `%s`", table[i].text,
                     dimension_words(quantity.dimension), value, quantity.unit,
                     dimension_words(table[i].dimension), table[i].value, table[i].unit);
    }
}

static void integers_are_exact_or_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum dimension dimension;
        int scale;
        int status;
        int64_t value;
    } table[] = {
        {"200 us", DIMENSION_TIME, 9, 0, 200000},
        {"0.1 ms", DIMENSION_TIME, 9, 0, 100000},
        {"1.000000001 s", DIMENSION_TIME, 9, 0, INT64_C(1000000001)},
        {"366 d", DIMENSION_TIME, 9, 0, INT64_C(31622400000000000)},
        {"0.5 ns", DIMENSION_TIME, 9, ERROR_FORMAT, 0},
        {"-3 s", DIMENSION_TIME, 9, 0, INT64_C(-3000000000)},
        {"0.5 KiB", DIMENSION_MEMORY, 0, 0, 512},
        {"1.3 KiB", DIMENSION_MEMORY, 0, ERROR_FORMAT, 0},
        {"9223372036854775807", DIMENSION_NUMBER, 0, ERROR_FORMAT, 0}, /* 19 digits: see below */
        {"999999999999999999", DIMENSION_NUMBER, 0, 0, INT64_C(999999999999999999)},
        {"1e19", DIMENSION_NUMBER, 0, ERROR_LIMIT, 0},
        {"16777216 TiB", DIMENSION_MEMORY, 0, ERROR_LIMIT, 0},
        {"1e-200", DIMENSION_NUMBER, 0, ERROR_FORMAT, 0},
        {"0e-200", DIMENSION_NUMBER, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct quantity quantity;
        int64_t value = 0;
        int status = quantity_parse(table[i].text, table[i].dimension, &quantity, NULL);
        if (status == 0)
            status = quantity_integer(&quantity, table[i].scale, &value);
        if (status != table[i].status || value != table[i].value)
            fail_msg("\"%s\" · 10^%d: %s %lld, not %s %lld", table[i].text, table[i].scale,
                     error_name(status), (long long)value, error_name(table[i].status),
                     (long long)table[i].value);
    }
}

static void what_cannot_be_read_says_what_to_write(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum dimension expect;
        const char *words;
    } table[] = {
        {"", DIMENSION_TIME, "200 us"},
        {"fast", DIMENSION_TIME, "is not a number; write a time, as in 200 us"},
        {"5 Mhz", DIMENSION_FREQUENCY, "write 5 MHz"},
        {"5 mHz", DIMENSION_FREQUENCY, "write 5 MHz"},
        {"95khz", DIMENSION_FREQUENCY, "write 95 kHz"},
        {"16 mib", DIMENSION_MEMORY, "write 16 MiB"},
        {"3 furlongs", DIMENSION_TIME, "`furlongs` is not a unit; write a time"},
        {"1,5 ms", DIMENSION_TIME, "decimals with a point"},
        {"1 2", DIMENSION_NUMBER, "is not a unit"},
        {"5,000,000 Hz", DIMENSION_FREQUENCY,
         "in groups; write them without separators: 5000000 Hz"},
        {"5.000.000 Hz", DIMENSION_FREQUENCY, "without separators: 5000000 Hz"},
        {"5 000 000", DIMENSION_FREQUENCY, "without separators: 5000000"},
        {"20_000 frames", DIMENSION_FRAMES, "without separators: 20000 frames"},
        {"1'234'567.5 Hz", DIMENSION_FREQUENCY, "without separators: 1234567.5 Hz"},
        {"5\u202f000 Hz", DIMENSION_FREQUENCY, "without separators: 5000 Hz"},
        {"5\u00a0000\u00a0000 Hz", DIMENSION_FREQUENCY, "without separators: 5000000 Hz"},
        {"1,5 MHz", DIMENSION_FREQUENCY, "decimals with a point, as in 1.5, and thousands without"},
        {"1,000 Hz", DIMENSION_FREQUENCY,
         "decimals with a point, as in 1.5, and thousands without"},
        {"1,00,000 Hz", DIMENSION_FREQUENCY, "has a comma"},
        {"1234 567 Hz", DIMENSION_FREQUENCY, "is not a unit"},
        {"nan", DIMENSION_NUMBER, "is not a number"},
        {"inf Hz", DIMENSION_FREQUENCY, "is not a number"},
        {"1e999", DIMENSION_NUMBER, "too large or too small"},
        {"1e99999999999999999999", DIMENSION_NUMBER, "too large or too small"},
        {"0x10", DIMENSION_NUMBER, "is not a unit"},
        {"1.2.3", DIMENSION_NUMBER, "is not a unit"},
        {"--1", DIMENSION_NUMBER, "is not a number"},
        {"1234567890123456789", DIMENSION_NUMBER, "significant digits"},
        {"1 V(peak)", DIMENSION_AMPLITUDE, "is not a unit"},
        {"1 aunitmuchtoolongtobeone", DIMENSION_AMPLITUDE, "is not a unit"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct quantity quantity;
        struct problem problem = {0};
        int status = quantity_parse(table[i].text, table[i].expect, &quantity, &problem);
        if (status != ERROR_FORMAT)
            fail_msg("\"%s\" gave %s, not FORMAT", table[i].text, error_name(status));
        if (strstr(problem.text, table[i].words) == NULL)
            fail_msg("\"%s\": \"%s\" lacks \"%s\"", table[i].text, problem.text, table[i].words);
    }
}

static void units_convert_by_their_prefixes(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
        bool fits;
        int exponent;
    } table[] = {
        {"V", "V", true, 0},       {"mV", "V", true, -3},     {"V", "mV", true, 3},
        {"uV", "mV", true, -3},    {"pC", "nC", true, -3},    {"µV", "uV", true, 0},
        {"kPa", "Pa", true, 3},    {"V", "Pa", false, 0},     {"mm", "m", true, -3},
        {"m/s2", "m/s2", true, 0}, {"mm/s", "m/s", true, -3}, {"m", "V", false, 0},
        {"FS", "V", false, 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        int exponent = 99;
        bool fits = quantity_unit_exponent(table[i].from, table[i].to, &exponent);
        if (fits != table[i].fits || (fits && exponent != table[i].exponent))
            fail_msg("%s → %s: %d, 10^%d, not %d, 10^%d", table[i].from, table[i].to, fits,
                     exponent, table[i].fits, table[i].exponent);
    }
}

static void people_read_them_back(void **state)
{
    (void)state;
    static const struct {
        enum dimension dimension;
        double value;
        const char *text;
    } table[] = {
        {DIMENSION_FREQUENCY, 95000, "95 kHz"},
        {DIMENSION_FREQUENCY, 5e6, "5 MHz"},
        {DIMENSION_FREQUENCY, 0.5, "0.5 Hz"},
        {DIMENSION_TIME, 200e-6, "200 us"},
        {DIMENSION_TIME, 90, "90 s"},
        {DIMENSION_TIME, 600, "10 min"},
        {DIMENSION_TIME, 0, "0 s"},
        {DIMENSION_TIME, 1e-3, "1 ms"},
        {DIMENSION_MEMORY, 16777216, "16 MiB"},
        {DIMENSION_MEMORY, 1000, "1000 B"},
        {DIMENSION_DECIBEL, -3, "-3 dB"},
        {DIMENSION_RATIO, 0.05, "5 %"},
        {DIMENSION_LENGTH, 0.005, "5 mm"},
        {DIMENSION_LENGTH, 1.25, "1.25 m"},
        {DIMENSION_VELOCITY, -3000, "-3000 m/s"},
        {DIMENSION_FRAMES, 1, "1 frame"},
        {DIMENSION_FRAMES, 1024, "1024 frames"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char text[48];
        quantity_print(table[i].dimension, table[i].value, text, sizeof text);
        if (strcmp(text, table[i].text) != 0)
            fail_msg("%.17g: \"%s\", not \"%s\"", table[i].value, text, table[i].text);
    }
}

static void contrasted_values_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        enum dimension dimension;
        double values[2];
        const char *texts[2];
    } table[] = {
        {DIMENSION_FREQUENCY, {1222, 1220}, {"1.222 kHz", "1.220 kHz"}},
        {DIMENSION_FREQUENCY, {1222.4, 1221.6}, {"1.2224 kHz", "1.2216 kHz"}},
        {DIMENSION_FREQUENCY, {1221.00001, 1220.99999}, {"1.22100001 kHz", "1.22099999 kHz"}},
        {DIMENSION_FREQUENCY, {-1222, 1220}, {"-1.222 kHz", "1.220 kHz"}},
        {DIMENSION_FREQUENCY, {1200, 1200}, {"1.2 kHz", "1.2 kHz"}},
        {DIMENSION_FREQUENCY, {95e3, 20e3}, {"95 kHz", "20 kHz"}},
        {DIMENSION_FREQUENCY, {999, 1001}, {"999 Hz", "1.001 kHz"}},
        {DIMENSION_FREQUENCY, {999.99, 1000}, {"999.99 Hz", "1.00 kHz"}},
        {DIMENSION_FREQUENCY, {0, 1e6}, {"0 Hz", "1 MHz"}},
        {DIMENSION_TIME, {3.00001, 3}, {"3.00001 s", "3.00000 s"}},
        {DIMENSION_TIME, {86400 * 20000.5, 86400 * 20000.}, {"20000.5 d", "20000.0 d"}},
        {DIMENSION_FRAMES, {3, 4}, {"3 frames", "4 frames"}},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct quantity_pair pair;
        quantity_print_pair(table[i].dimension, table[i].values[0], table[i].values[1], &pair);
        if (strcmp(pair.first, table[i].texts[0]) != 0 ||
            strcmp(pair.second, table[i].texts[1]) != 0)
            fail_msg("row %zu: \"%s\" and \"%s\"", i, pair.first, pair.second);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_the_nearest_doubles),
        cmocka_unit_test(integers_are_exact_or_refused),
        cmocka_unit_test(what_cannot_be_read_says_what_to_write),
        cmocka_unit_test(units_convert_by_their_prefixes),
        cmocka_unit_test(people_read_them_back),
        cmocka_unit_test(contrasted_values_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
