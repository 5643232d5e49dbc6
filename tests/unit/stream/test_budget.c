/*
 * Budgets of batches: a table of live streams and what one of them, or one that waits, may take of
 * the device while the others are there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/clock.h"
#include "stream/budget.h"
#include "stream/scheduler.h"

#define MS NS_PER_MS
#define US NS_PER_US

enum { STREAMS = 3, NOBODY = UINT32_MAX };

struct live {
    uint8_t priority;
    int64_t period_ns; /* 0: there is none */
};

static const struct {
    const char *what;
    struct live live[STREAMS];
    uint32_t owner; /* whose budget; NOBODY: of a stream that is not live, of priority 50 */
    bool behind;
    uint32_t depth;
    int64_t batch_ns, total_ns;
} budgets[] = {
    {"nobody waits", {{0}}, NOBODY, false, 2, 20 * MS, 40 * MS},
    {"its own blocks wait for nobody else", {{50, 2 * MS}}, 0, false, 2, 20 * MS, 40 * MS},
    {"a live one beside it", {{50, 8 * MS}}, NOBODY, false, 2, 2 * MS, 4 * MS},
    {"the shortest counts",
     {{50, 80 * MS}, {50, 8 * MS}, {50, 9 * MS}},
     0,
     false,
     2,
     2 * MS,
     4 * MS},
    {"not its own", {{50, 80 * MS}, {50, 8 * MS}, {50, 16 * MS}}, 1, false, 2, 4 * MS, 8 * MS},
    {"of two equal ones each counts", {{50, 8 * MS}, {50, 8 * MS}}, 0, false, 1, 4 * MS, 4 * MS},
    {"of lower priority too", {{90, 80 * MS}, {10, 8 * MS}}, 0, false, 4, 1 * MS, 4 * MS},
    {"a sixteenth where it is higher", {{10, 80 * MS}, {90, 16 * MS}}, 0, true, 2, 1 * MS, 1 * MS},
    {"unless all are in time", {{10, 80 * MS}, {90, 16 * MS}}, 0, false, 2, 4 * MS, 8 * MS},
    {"the highest of them need not be it",
     {{10, 80 * MS}, {90, 40 * MS}, {50, 16 * MS}},
     0,
     true,
     2,
     1 * MS,
     1 * MS},
    {"higher but slow", {{10, 80 * MS}, {90, 400 * MS}, {10, 8 * MS}}, 0, true, 2, 2 * MS, 4 * MS},
    {"the lowest and the highest", {{0, 80 * MS}, {100, 16 * MS}}, 0, true, 1, 1 * MS, 1 * MS},
    {"the highest waits for the lowest's",
     {{0, 8 * MS}, {100, 80 * MS}},
     1,
     false,
     1,
     4 * MS,
     4 * MS},
    {"no shorter than pays", {{50, 64 * US}}, NOBODY, false, 4, 200 * US, 400 * US},
    {"no second one on a device that has one batch",
     {{50, 64 * US}},
     NOBODY,
     false,
     1,
     200 * US,
     200 * US},
    {"no shorter than pays, two of them", {{50, 1 * MS}}, NOBODY, false, 4, 200 * US, 500 * US},
    {"no shorter than pays, above", {{10, 80 * MS}, {90, 1 * MS}}, 0, true, 4, 200 * US, 200 * US},
};

static void test_budgets(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof budgets / sizeof budgets[0]; i++) {
        struct budget_streams streams;
        budget_begin(&streams);
        for (uint32_t s = 0; s < STREAMS && budgets[i].live[s].period_ns > 0; s++)
            budget_add(&streams, s, budgets[i].live[s].priority, budgets[i].live[s].period_ns, 0);
        budget_end(&streams);
        const uint8_t priority =
            budgets[i].owner == NOBODY ? 50 : budgets[i].live[budgets[i].owner].priority;
        const struct budget_request request = {budgets[i].owner, priority, budgets[i].behind, 0};
        const struct budget got = budget_of(&streams, &request, 20 * MS, budgets[i].depth);
        if (got.batch_ns != budgets[i].batch_ns || got.total_ns != budgets[i].total_ns)
            fail_msg("%s: %lld and %lld ns", budgets[i].what, (long long)got.batch_ns,
                     (long long)got.total_ns);
    }
}

/* A stream that is late waits for its own backlog: the first one's batches grow with it, unless the
 * late one is of higher priority and the first one falls behind. */
static void test_late_ones(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        uint8_t priority[STREAMS];
        int64_t period_ns[STREAMS], overdue_ns[STREAMS];
        bool behind;
        int64_t batch_ns, total_ns;
    } rows[] = {
        {"in time", {50, 50, 50}, {MS, 8 * MS, 8 * MS}, {0, 0, 0}, false, 2 * MS, 4 * MS},
        {"late by a period, all others",
         {50, 50, 50},
         {MS, 8 * MS, 8 * MS},
         {0, 8 * MS, 8 * MS},
         false,
         4 * MS,
         8 * MS},
        {"one in time keeps batches short for it",
         {50, 50, 50},
         {MS, 8 * MS, 4 * MS},
         {90 * MS, 90 * MS, 0},
         false,
         1 * MS,
         2 * MS},
        {"the least late counts, with its period",
         {50, 50, 50},
         {MS, 2 * MS, MS},
         {90 * MS, 6 * MS, 11 * MS},
         false,
         2 * MS,
         4 * MS},
        {"its own lateness does not",
         {50, 50, 50},
         {MS, 8 * MS, 8 * MS},
         {90 * MS, 0, 0},
         false,
         2 * MS,
         4 * MS},
        {"never longer than alone",
         {50, 50, 50},
         {MS, 8 * MS, 8 * MS},
         {0, 900 * MS, 900 * MS},
         false,
         20 * MS,
         40 * MS},
        {"a higher priority is spared as ever",
         {10, 90, 90},
         {MS, 16 * MS, 16 * MS},
         {0, 900 * MS, 900 * MS},
         true,
         1 * MS,
         1 * MS},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct budget_streams streams;
        budget_begin(&streams);
        for (uint32_t s = 0; s < STREAMS; s++)
            budget_add(&streams, s, rows[i].priority[s], rows[i].period_ns[s],
                       rows[i].overdue_ns[s]);
        budget_end(&streams);
        const struct budget_request request = {0, rows[i].priority[0], rows[i].behind, 0};
        const struct budget got = budget_of(&streams, &request, 20 * MS, 2);
        if (got.batch_ns != rows[i].batch_ns || got.total_ns != rows[i].total_ns)
            fail_msg("%s: %lld and %lld ns", rows[i].what, (long long)got.batch_ns,
                     (long long)got.total_ns);
    }
}

/* A batch may take twice its launch, but for streams of higher priority, and no longer than alone.
 */
static void test_launches(void **state)
{
    (void)state;
    static const struct {
        uint8_t priority; /* of the other one, with blocks of 400 us */
        bool behind;
        int64_t launch_ns, batch_ns, total_ns;
    } rows[] = {
        {50, false, 0, 200 * US, 400 * US},       {50, false, 100 * US, 200 * US, 400 * US},
        {50, true, 240 * US, 480 * US, 960 * US}, {50, false, 30 * MS, 20 * MS, 40 * MS},
        {90, true, 240 * US, 200 * US, 200 * US}, {90, false, 240 * US, 480 * US, 960 * US},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct budget_streams streams;
        budget_begin(&streams);
        budget_add(&streams, 0, 50, 400 * US, 0);
        budget_add(&streams, 1, rows[i].priority, 400 * US, 0);
        budget_end(&streams);
        const struct budget_request request = {0, 50, rows[i].behind, rows[i].launch_ns};
        const struct budget got = budget_of(&streams, &request, 20 * MS, 3);
        if (got.batch_ns != rows[i].batch_ns || got.total_ns != rows[i].total_ns)
            fail_msg("row %zu: %lld and %lld ns", i, (long long)got.batch_ns,
                     (long long)got.total_ns);
    }
}

/* Reading for one stream leaves the loop to those of higher priority, and reading more than its
 * rate gives to all others. */
static void test_reading(void **state)
{
    (void)state;
    struct budget_streams streams;
    budget_begin(&streams);
    budget_add(&streams, 0, 10, 1 * MS, 70 * MS);
    budget_add(&streams, 1, 50, 16 * MS, 0);
    budget_add(&streams, 2, 90, 32 * MS, 0);
    budget_end(&streams);
    static const struct {
        struct budget_request request;
        int64_t spent_ns, expect_ns;
    } rows[] = {
        {{2, 90, false, 0}, 0, INT64_MAX}, {{2, 90, false, 0}, 5 * MS, INT64_MAX},
        {{1, 50, false, 0}, 0, 2 * MS},    {{1, 50, false, 0}, 500 * US, 1500 * US},
        {{0, 10, false, 0}, 0, 1 * MS},    {{0, 10, false, 0}, 900 * US, 100 * US},
        {{0, 10, false, 0}, 1 * MS, 0},    {{NOBODY, 0, false, 0}, 0, 62500},
        {{0, 10, false, 0}, 5 * MS, 0},    {{2, 90, true, 0}, 0, 62500},
        {{2, 90, true, 0}, 62 * US, 500},  {{2, 90, true, 0}, 1 * MS, 0},
        {{0, 10, true, 0}, 0, 1 * MS},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(budget_reading_ns(&streams, &rows[i].request, rows[i].spent_ns),
                         rows[i].expect_ns);
    /* Nobody else is there. */
    budget_begin(&streams);
    budget_add(&streams, 0, 10, 1 * MS, 0);
    budget_end(&streams);
    assert_int_equal(budget_reading_ns(&streams, &(struct budget_request){0, 10, true, 0}, 1 * MS),
                     INT64_MAX);
}

/* One core has its cache to lose and nothing to gain; more cores, and GPUs, share a batch's blocks.
 */
static void test_one_core_takes_short_batches(void **state)
{
    (void)state;
    static const struct {
        bool gpu;
        uint32_t units;
        int64_t expect_ns;
    } rows[] = {
        {false, 1, NS_PER_MS},     {false, 2, 20 * NS_PER_MS},  {false, 64, 20 * NS_PER_MS},
        {true, 1, 20 * NS_PER_MS}, {true, 132, 20 * NS_PER_MS},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct device_info device = {.gpu = rows[i].gpu, .compute_units = rows[i].units};
        if (scheduler_alone_ns(&device) != rows[i].expect_ns)
            fail_msg("row %zu: %lld ns", i, (long long)scheduler_alone_ns(&device));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_late_ones),
        cmocka_unit_test(test_launches),
        cmocka_unit_test(test_reading),
        cmocka_unit_test(test_one_core_takes_short_batches),
    };
    return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
