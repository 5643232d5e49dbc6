/*
 * Alarms as tables. A rule is run over a course of values, one a second; what it must say stands
 * beside it, one letter a second: `.` idle, `p` pending, `R` raised now, `a` active, `E` ended now.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alarm/alarm.h"
#include "alarm/flat.h"
#include "alarm/spread.h"
#include "alarm/window.h"

static const int64_t second_ns = 1000000000;

/* ---- a value against limits -------------------------------------------------------------- */

static char letter_of(enum alarm_change change, const struct alarm *alarm)
{
    if (change == ALARM_RAISED)
        return 'R';
    if (change == ALARM_ENDED)
        return 'E';
    return alarm->phase == ALARM_PENDING ? 'p' : alarm->phase == ALARM_ACTIVE ? 'a' : '.';
}

/* A value a second: a digit, `-` for -1, `~` for -0.25, `?` for unknown. */
static double value_of(char letter)
{
    return letter == '?' ? (double)NAN : letter == '-' ? -1 : letter == '~' ? -0.25 : letter - '0';
}

static void rules(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        struct alarm_rule rule;
        int for_s, hold_s;
        const char *values, *want;
    } rows[] = {
        {"above, at once", {.has_above = true, .above = 5}, 0, 0, "4567541", "..RaE.."},
        {"the limit itself is within", {.has_above = true, .above = 5}, 0, 0, "555", "..."},
        {"below", {.has_below = true, .below = 2}, 0, 0, "3210123", "..RaaE."},
        {"both",
         {.has_above = true, .has_below = true, .above = 6, .below = 2},
         0,
         0,
         "4740141",
         ".RERaE"
         "R"},
        {"for 2 s",
         {.has_above = true, .above = 5},
         2,
         0,
         "66456667",
         "pp.."
         "ppRa"},
        {"for: unknown begins anew", {.has_above = true, .above = 5}, 2, 0, "66?6666", "pp.ppRa"},
        {"hold 3 s", {.has_above = true, .above = 5}, 0, 3, "61111611", "RaaE.Raa"},
        {"hold counts from the raise", {.has_above = true, .above = 5}, 0, 2, "6666111", "RaaaE.."},
        {"hysteresis of a tenth",
         {.has_above = true, .above = 5, .hysteresis = 0.2},
         0,
         0,
         "65554400",
         "RaaaE..."},
        {"hysteresis below",
         {.has_below = true, .below = 5, .hysteresis = 0.2},
         0,
         0,
         "455567",
         "RaaaE."},
        {"hysteresis of a negative limit",
         {.has_below = true, .below = -0.5, .hysteresis = 1},
         0,
         0,
         "0-~0",
         ".RaE"},
        {"unknown ends nothing", {.has_above = true, .above = 5}, 0, 0, "6???1", "RaaaE"},
        {"unknown raises nothing", {.has_below = true, .below = 5}, 0, 0, "???", "..."},
        {"no limit", {.hysteresis = 0}, 0, 0, "09", ".."},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct alarm alarm = {0};
        struct alarm_rule rule = rows[i].rule;
        char got[32] = "";
        rule.for_ns = rows[i].for_s * second_ns;
        rule.hold_ns = rows[i].hold_s * second_ns;
        for (size_t t = 0; rows[i].values[t] != '\0'; t++) {
            enum alarm_change change =
                alarm_update(&alarm, &rule, value_of(rows[i].values[t]), (int64_t)t * second_ns);
            got[t] = letter_of(change, &alarm);
        }
        if (strcmp(got, rows[i].want) != 0)
            fail_msg("%s: %s gives %s, not %s", rows[i].what, rows[i].values, got, rows[i].want);
    }
}

static void the_limit_it_was_raised_for(void **state)
{
    (void)state;
    const struct alarm_rule rule = {.has_above = true, .has_below = true, .above = 6, .below = 2};
    struct alarm alarm = {0};
    assert_int_equal(alarm_update(&alarm, &rule, 9, 0), ALARM_RAISED);
    assert_true(alarm_limit(&alarm, &rule) == 6);
    assert_int_equal(alarm_update(&alarm, &rule, 4, 1), ALARM_ENDED);
    assert_int_equal(alarm_update(&alarm, &rule, 1, 2), ALARM_RAISED);
    assert_true(alarm_limit(&alarm, &rule) == 2);
    assert_int_equal(alarm.raised, 2);
}

static void each_quantity_has_a_name(void **state)
{
    (void)state;
    for (int q = 0; q < ALARM_QUANTITIES; q++) {
        assert_true(strlen(alarm_quantity_name(q)) > 2);
        assert_true(strlen(alarm_quantity_sentence(q)) > 10);
        assert_true(alarm_quantity_dimension(q) < DIMENSIONS);
    }
    assert_true(alarm_quantity_of_channel(ALARM_LEVEL) && !alarm_quantity_of_channel(ALARM_RATE));
    assert_true(alarm_quantity_counts(ALARM_LOSSES) && !alarm_quantity_counts(ALARM_LEVEL));
}

/* ---- windows ----------------------------------------------------------------------------- */

/* A counter that grows by 1 in 100 ms, and a sum that falls, read ten times a second through a
 * window of 2 s. */
static void a_window_slides(void **state)
{
    (void)state;
    struct window window = {.length_ns = 2 * second_ns};
    for (int i = 0; i <= 100; i++) {
        const double values[WINDOW_VALUES] = {i, -10 * i, 0};
        struct window_growth growth = window_read(&window, values, i * (second_ns / 10));
        const int span = (int)(growth.span_ns / (second_ns / 10));
        assert_int_equal(growth.span_ns % (second_ns / 10), 0);
        if (i < 20) {
            assert_false(growth.whole);
            assert_int_equal(span, i);
        } else {
            assert_true(growth.whole);
            assert_in_range(span, 20, 22);
        }
        assert_true(growth.values[0] == span && growth.values[1] == -10.0 * span);
    }
}

static void a_counter_that_shrinks_starts_it_again(void **state)
{
    (void)state;
    struct window window = {.length_ns = second_ns};
    double values[WINDOW_VALUES] = {0};
    for (int i = 0; i < 30; i++) {
        values[0] = 100 + i;
        window_read(&window, values, i * (second_ns / 10));
    }
    values[0] = 5;
    struct window_growth growth = window_read(&window, values, 3 * second_ns);
    assert_false(growth.whole);
    assert_true(growth.values[0] == 0 && growth.span_ns == 0);
    values[0] = 9;
    growth = window_read(&window, values, 4 * second_ns);
    assert_true(growth.whole && growth.values[0] == 4);
}

/* Read too seldom for its length, it tells of a longer span, and says of which. */
static void a_window_read_seldom(void **state)
{
    (void)state;
    struct window window = {.length_ns = second_ns};
    double values[WINDOW_VALUES] = {0};
    window_read(&window, values, 0);
    values[0] = 30;
    struct window_growth growth = window_read(&window, values, 3 * second_ns);
    assert_true(growth.whole && growth.values[0] == 30);
    assert_int_equal(growth.span_ns, 3 * second_ns);
}

/* ---- flat lines -------------------------------------------------------------------------- */

static void flat_runs(void **state)
{
    (void)state;
    /* Channel 2 of 3, in each width; `x` is another code. Runs are parted by `|`. */
    static const struct {
        const char *runs;
        uint64_t frames; /* that the code has lasted at the end */
        bool flat;       /* what the last run says */
    } rows[] = {
        {"aaaa", 4, true},      {"aaaa|aaa", 7, true},  {"aaxa", 1, false},
        {"aaaa|aax", 1, false}, {"aaaa|xaa", 1, false}, {"aaax|xx", 3, true},
        {"a", 1, true},         {"a|b|b|b", 3, true},   {"ab|a", 1, false},
    };
    for (uint32_t bytes = 1; bytes <= FLAT_CODE_BYTES; bytes++) {
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            struct flat flat = {0};
            bool said = false;
            for (const char *run = rows[i].runs; run[0] != '\0';) {
                uint8_t frames[8 * 3 * FLAT_CODE_BYTES];
                const size_t count = strcspn(run, "|");
                for (size_t f = 0; f < sizeof frames; f++)
                    frames[f] = (uint8_t)(f * 37); /* the other channels live */
                for (size_t f = 0; f < count; f++) {
                    uint8_t *code = frames + (3 * f + 1) * bytes;
                    memset(code, 0, bytes);
                    code[bytes - 1] = (uint8_t)run[f]; /* only the last byte tells them apart */
                }
                const bool may = flat_may_be(&flat, frames + bytes, bytes, 3 * bytes, count, 4);
                said = flat_read(&flat, frames + bytes, bytes, 3 * bytes, count);
                assert_true(may || !said);
                run += count + (run[count] == '|');
            }
            if (flat.frames != rows[i].frames || said != rows[i].flat)
                fail_msg("%u bytes, %s: %llu frames, %d", bytes, rows[i].runs,
                         (unsigned long long)flat.frames, said);
        }
    }
}

/* The few codes that are looked at: first, last, and evenly between; and the code before. */
static void a_look_at_few(void **state)
{
    (void)state;
    uint8_t codes[100] = {0};
    struct flat flat = {0};
    assert_true(flat_may_be(&flat, codes, 1, 1, 100, 4));
    codes[33] = 1;
    assert_false(flat_may_be(&flat, codes, 1, 1, 100, 4));
    codes[33] = 0;
    codes[34] = 1; /* not looked at: it may be flat, and reading all of them says that it is not */
    assert_true(flat_may_be(&flat, codes, 1, 1, 100, 4));
    assert_false(flat_read(&flat, codes, 1, 1, 100));
    codes[34] = 0;
    memset(codes, 7, sizeof codes);
    assert_false(flat_may_be(&flat, codes, 1, 1, 100, 4));
    flat_read(&flat, codes, 1, 1, 100);
    assert_true(flat_may_be(&flat, codes, 1, 1, 100, 4));
    assert_true(flat_may_be(&flat, codes, 1, 1, 1, 4));
}

/* ---- extremes ---------------------------------------------------------------------------- */

/* Within 10 s: what comes at a second, and what is read then. */
static void extremes_slide(void **state)
{
    (void)state;
    static const struct {
        double at_s, value; /* NAN: nothing comes */
        bool any;
        double least, greatest;
    } rows[] = {
        {1, NAN, false, 0, 0}, {2, 5, true, 5, 5},        {2.4, 3, true, 3, 5},
        {7, 9, true, 3, 9},    {12.3, NAN, true, 3, 9},   {12.5, NAN, true, 9, 9},
        {17, -2, true, -2, 9}, {17.1, NAN, true, -2, -2}, {28, NAN, false, 0, 0},
    };
    struct spread spread = {.length_ns = 10 * second_ns};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const int64_t now_ns = (int64_t)(rows[i].at_s * 1e9);
        double least = 0, greatest = 0;
        spread_put(&spread, rows[i].value, now_ns);
        assert_true(spread_read(&spread, now_ns, &least, &greatest) == rows[i].any);
        if (rows[i].any)
            assert_true(least == rows[i].least && greatest == rows[i].greatest);
    }
    assert_true(spread.last == -2);
}

/* However many come, those within the length are in it. */
static void extremes_of_many(void **state)
{
    (void)state;
    struct spread spread = {.length_ns = second_ns};
    double least, greatest;
    for (int64_t i = 0; i < 20000; i++)
        spread_put(&spread, (double)i, i * second_ns / 1000);
    assert_true(spread_read(&spread, 20 * second_ns, &least, &greatest));
    assert_true(greatest == 19999);
    assert_true(least <= 19000 && least >= 18900);
}

/* Nothing is beyond a limit, though there is no value: an active alarm ends, a pending one too. */
static void cleared(void **state)
{
    (void)state;
    const struct alarm_rule rule = {
        .has_above = true, .above = 5, .for_ns = 2 * second_ns, .hold_ns = 3 * second_ns};
    struct alarm alarm = {.phase = ALARM_IDLE};
    assert_int_equal(alarm_update(&alarm, &rule, 9, 1 * second_ns), ALARM_SAME);
    assert_int_equal(alarm_clear(&alarm, &rule, 2 * second_ns), ALARM_SAME);
    assert_int_equal(alarm.phase, ALARM_IDLE);
    alarm_update(&alarm, &rule, 9, 3 * second_ns);
    assert_int_equal(alarm_update(&alarm, &rule, 9, 5 * second_ns), ALARM_RAISED);
    assert_int_equal(alarm_update(&alarm, &rule, NAN, 9 * second_ns), ALARM_SAME);
    assert_int_equal(alarm_clear(&alarm, &rule, 7 * second_ns), ALARM_SAME); /* `hold` */
    assert_int_equal(alarm_clear(&alarm, &rule, 9 * second_ns), ALARM_ENDED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules),
        cmocka_unit_test(the_limit_it_was_raised_for),
        cmocka_unit_test(each_quantity_has_a_name),
        cmocka_unit_test(a_window_slides),
        cmocka_unit_test(a_counter_that_shrinks_starts_it_again),
        cmocka_unit_test(a_window_read_seldom),
        cmocka_unit_test(flat_runs),
        cmocka_unit_test(a_look_at_few),
        cmocka_unit_test(extremes_slide),
        cmocka_unit_test(extremes_of_many),
        cmocka_unit_test(cleared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
