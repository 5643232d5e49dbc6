/*
 * Levels in dB against their references on paper, and the table of a hit's fields: every value of
 * the structure is named once, with its place.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/hit.h"

static void levels_have_the_references_of_the_standards(void **state)
{
    (void)state;
    static const struct {
        double amplitude;
        const char *unit;
        double level_db;
    } table[] = {
        {1e-6, "V", 0},          {1, "V", 120},       {100, "uV", 40},       {100, "µV", 40},
        {10, "mV", 80},          {1, "m/s2", 120},    {1, "m/s²", 120},      {1, "m/s^2", 120},
        {1, "mm/s2", 60},        {1, "m/s", 180},     {1, "mm/s", 120},      {1, "Pa", 120},
        {1, "kPa", 180},         {1, "m", 240},       {1, "um", 120},        {1, "N", 120},
        {1 / 9.80665, "g", 120}, {10, "furlong", 20}, {0.1, "furlong", -20},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        double level_db = hit_level_db(table[i].amplitude, table[i].unit);
        if (!(fabs(level_db - table[i].level_db) < 1e-12 * 240))
            fail_msg("%g %s: %.15g dB, not %g dB", table[i].amplitude, table[i].unit, level_db,
                     table[i].level_db);
        double amplitude = hit_level_amplitude(level_db, table[i].unit);
        if (!(fabs(amplitude / table[i].amplitude - 1) < 1e-13))
            fail_msg("%g dB: %.15g %s", level_db, amplitude, table[i].unit);
    }
    assert_true(isnan(hit_level_db(0, "V")));
    assert_true(fabs(hit_volts("mV") - 1e-3) < 1e-18);
    assert_true(hit_volts("V") == 1);
    assert_true(hit_volts("Pa") == 0);
}

static void the_fields_are_the_structure(void **state)
{
    (void)state;
    struct analysis_field fields[HIT_FIELDS_MAX];
    for (uint32_t bands = 0; bands <= HIT_BANDS_MAX; bands++) {
        bool covered[sizeof(struct hit) / 8] = {false};
        uint32_t count = hit_fields(fields, bands);
        assert_true(count <= HIT_FIELDS_MAX);
        for (uint32_t i = 0; i < count; i++) {
            assert_true(fields[i].type == ANALYSIS_DOUBLE || fields[i].type == ANALYSIS_UINT64);
            assert_non_null(fields[i].sentence);
            for (uint32_t k = 0; k < (fields[i].repeat > 0 ? fields[i].repeat : 1); k++) {
                assert_false(covered[fields[i].offset / 8 + k]);
                covered[fields[i].offset / 8 + k] = true;
            }
            for (uint32_t k = 0; k < i; k++)
                assert_string_not_equal(fields[i].name, fields[k].name);
        }
        size_t named = 0;
        for (size_t i = 0; i < sizeof covered / sizeof covered[0]; i++)
            named += covered[i];
        assert_int_equal(named, sizeof(struct hit) / 8 - HIT_BANDS_MAX + bands);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_have_the_references_of_the_standards),
        cmocka_unit_test(the_fields_are_the_structure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
