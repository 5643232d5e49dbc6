/*
 * Event totals: rows of {events of channels at seconds, when it is read, what they add up to since
 * the start and over the last ten seconds}; values that are not defined.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/hit.h"
#include "core/clock.h"
#include "pipeline/event_totals.h"

static const struct analysis_field *hit_table(const struct analysis_options *options,
                                              uint32_t *count)
{
    static struct analysis_field fields[HIT_FIELDS_MAX];
    (void)options;
    *count = hit_fields(fields, 0);
    return fields;
}

static const struct analysis_field *no_fields(const struct analysis_options *options,
                                              uint32_t *count)
{
    (void)options;
    *count = 0;
    return NULL;
}

static const struct analysis_ops hits = {.emits = ANALYSIS_HIT, .fields = hit_table},
                                 sources = {.emits = ANALYSIS_SOURCE, .fields = no_fields};

static struct event_totals *open_totals(const struct analysis_ops *ops, uint32_t channels)
{
    const struct analysis_options options = {.stream = {.channels = channels}};
    struct event_totals *totals;
    assert_int_equal(event_totals_open(ops, &options, &totals), 0);
    return totals;
}

static void put_hit(struct event_totals *totals, uint32_t channel, double second, uint64_t counts,
                    double energy_eu)
{
    const struct hit hit = {
        .counts = counts, .energy_eu = energy_eu, .strength_nvs = 8 * energy_eu};
    const struct analysis_event event = {
        .kind = ANALYSIS_HIT, .channel = channel, .body = &hit, .body_bytes = sizeof hit};
    event_totals_add(totals, &event, (int64_t)(second * NS_PER_SECOND));
}

static void they_add_up(void **state)
{
    (void)state;
    static const struct {
        uint32_t channel;
        double at_s;
        uint64_t events, counts, recent_events, recent_counts;
        double energy_eu, recent_energy_eu;
    } rows[] = {
        {0, 101, 3, 12, 2, 3, 1.75, 0.75}, /* the second of now is not over */
        {0, 102, 3, 12, 3, 12, 1.75, 1.75}, {0, 110.9, 3, 12, 3, 12, 1.75, 1.75},
        {0, 111, 3, 12, 1, 9, 1.75, 1},     {0, 112, 3, 12, 0, 0, 1.75, 0},
        {1, 111, 1, 7, 1, 7, 4, 4},         {2, 111, 0, 0, 0, 0, 0, 0},
    };
    struct event_totals *totals = open_totals(&hits, 3);
    put_hit(totals, 0, 100.1, 1, 0.25);
    put_hit(totals, 0, 100.9, 2, 0.5);
    put_hit(totals, 0, 101.0, 9, 1);
    put_hit(totals, 1, 108, 7, 4);
    assert_int_equal(event_totals_rows(totals), 3);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct event_sums all, recent;
        event_totals_read(totals, rows[i].channel, &all);
        event_totals_recent(totals, rows[i].channel, (int64_t)(rows[i].at_s * NS_PER_SECOND),
                            &recent);
        assert_int_equal(all.events, rows[i].events);
        assert_true(all.sums[TOTAL_COUNTS] == (double)rows[i].counts);
        assert_true(all.sums[TOTAL_ENERGY] == rows[i].energy_eu);
        assert_true(all.sums[TOTAL_STRENGTH] == 8 * rows[i].energy_eu);
        assert_int_equal(recent.events, rows[i].recent_events);
        assert_true(recent.sums[TOTAL_COUNTS] == (double)rows[i].recent_counts);
        assert_true(recent.sums[TOTAL_ENERGY] == rows[i].recent_energy_eu);
        assert_true(recent.sums[TOTAL_STRENGTH] == 8 * rows[i].recent_energy_eu);
    }
    event_totals_close(totals);
}

/* A slot is used again after some seconds: nothing of the old second is left in it. */
static void slots_are_used_again(void **state)
{
    (void)state;
    struct event_totals *totals = open_totals(&hits, 1);
    struct event_sums recent;
    for (int second = 1; second <= 100; second++)
        put_hit(totals, 0, second, (uint64_t)second, 1);
    event_totals_recent(totals, 0, 101 * NS_PER_SECOND, &recent);
    assert_int_equal(recent.events, 10);
    assert_true(recent.sums[TOTAL_COUNTS] == 955); /* 91 … 100 */
    event_totals_close(totals);
}

/* Energy of a channel that is not in volts; fields that the events have not. */
static void undefined_values(void **state)
{
    (void)state;
    struct event_totals *totals = open_totals(&hits, 2);
    struct event_sums sums;
    put_hit(totals, 0, 5, 2, NAN);
    event_totals_read(totals, 0, &sums);
    assert_true(isnan(sums.sums[TOTAL_ENERGY]) && sums.sums[TOTAL_COUNTS] == 2);
    put_hit(totals, 0, 5, 2, 3);
    event_totals_read(totals, 0, &sums);
    assert_true(sums.sums[TOTAL_ENERGY] == 3);
    event_totals_close(totals);

    totals = open_totals(&sources, 4);
    assert_int_equal(event_totals_rows(totals), 1);
    assert_false(event_totals_has(totals, TOTAL_ENERGY));
    event_totals_add(totals, &(struct analysis_event){.kind = ANALYSIS_SOURCE, .channel = 3},
                     NS_PER_SECOND);
    event_totals_read(totals, 0, &sums);
    assert_int_equal(sums.events, 1);
    assert_true(isnan(sums.sums[TOTAL_ENERGY]));
    event_totals_close(totals);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_add_up),
        cmocka_unit_test(slots_are_used_again),
        cmocka_unit_test(undefined_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
