/*
 * Overload, with simulated streams and a simulated device: streams bring a block every period, the
 * device computes one batch after the other at given costs and is never preempted. The clock is
 * the simulation's, so the test measures no time and depends on no machine.
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
#include "core/random.h"
#include "stream/budget.h"
#include "stream/overload.h"

enum { STREAMS = 32, RING_BLOCKS = 8192, PATIENCE_NS = 500 * NS_PER_MS };

struct simulated {
    /* given */
    uint8_t priority;
    int64_t period_ns, cost_ns; /* of a block; its deadline is one period */
    int64_t launch_ns; /* of a batch, beside its blocks; others in the batch wait with it */
    int64_t every_ns;  /* between blocks; 0: as the period says */
    int64_t begins_ns, ends_ns; /* it sends in between; ends 0: always */
    /* state */
    struct overload_share share;
    int64_t ready_ns[RING_BLOCKS]; /* of block n mod RING_BLOCKS */
    uint64_t arrived, taken;       /* blocks up to now; submitted or shed */
    int64_t next_ns;
    /* figures */
    uint64_t computed, shed, missed;
    int64_t last_late_ns, last_shed_ns, longest_drought_ns, last_done_ns;
    int64_t longest_ns; /* from ready to computed */
};

struct world {
    struct simulated streams[STREAMS];
    uint32_t count;
    int64_t now_ns, budget_ns;
    struct budget_streams live;
};

static int64_t oldest_ns(const struct simulated *s)
{
    return s->ready_ns[s->taken % RING_BLOCKS];
}

static void arrive(struct world *w)
{
    for (uint32_t i = 0; i < w->count; i++) {
        struct simulated *s = &w->streams[i];
        const int64_t every_ns = s->every_ns != 0 ? s->every_ns : s->period_ns;
        if (s->next_ns < s->begins_ns)
            s->next_ns = s->begins_ns;
        for (; s->next_ns <= w->now_ns && (s->ends_ns == 0 || s->next_ns < s->ends_ns);
             s->next_ns += every_ns) {
            if (s->arrived - s->taken == RING_BLOCKS) { /* the ring is full: room_make */
                s->taken += RING_BLOCKS / 2;
                s->shed += RING_BLOCKS / 2;
                overload_shed(&s->share, w->now_ns);
            }
            s->ready_ns[s->arrived++ % RING_BLOCKS] = s->next_ns;
        }
    }
}

/* When the next block comes. */
static int64_t next_arrival_ns(const struct world *w)
{
    int64_t next_ns = INT64_MAX;
    for (uint32_t i = 0; i < w->count; i++) {
        const struct simulated *s = &w->streams[i];
        if ((s->ends_ns == 0 || s->next_ns < s->ends_ns) && s->next_ns < next_ns)
            next_ns = s->next_ns;
    }
    return next_ns;
}

static uint32_t order(struct world *w, struct overload_work *work)
{
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        const struct simulated *s = &w->streams[i];
        if (s->arrived == s->taken)
            continue;
        work[waiting++] = (struct overload_work){
            .owner = i,
            .live = true,
            .priority = s->priority,
            .ahead = overload_ahead(&s->share, s->period_ns, w->now_ns),
            .deadline_ns = oldest_ns(s) + s->period_ns,
            .cost_ns = s->launch_ns + s->cost_ns * (int64_t)(s->arrived - s->taken),
            .launch_ns = s->launch_ns,
            .used_ns = overload_used(&s->share, w->now_ns),
        };
    }
    overload_order(work, waiting, w->now_ns, w->budget_ns);
    return waiting;
}

static void done(struct world *w, struct simulated *s, int64_t ready_ns, int64_t at_ns)
{
    s->computed++;
    if (at_ns - ready_ns > s->longest_ns)
        s->longest_ns = at_ns - ready_ns;
    if (at_ns > ready_ns + s->period_ns) {
        s->missed++;
        s->last_late_ns = at_ns;
    }
    if (at_ns - s->last_done_ns > s->longest_drought_ns)
        s->longest_drought_ns = at_ns - s->last_done_ns;
    s->last_done_ns = at_ns;
    (void)w;
}

/* One batch, as scheduler.c fills it; false: nothing waits. */
static bool compute(struct world *w)
{
    struct overload_work work[STREAMS];
    uint64_t taken[STREAMS] = {0};
    const uint32_t waiting = order(w, work);
    int64_t cost_ns = 0, launch_ns = 0; /* each stream expects a launch, the batch has one */
    for (uint32_t i = 0; i < waiting && cost_ns < w->budget_ns; i++) {
        struct simulated *s = &w->streams[work[i].owner];
        const struct budget_request request = {work[i].owner, s->priority, !work[i].kept,
                                               s->launch_ns};
        const int64_t own_ns = budget_of(&w->live, &request, w->budget_ns, 1).batch_ns;
        const int64_t room_ns = own_ns - cost_ns - s->launch_ns;
        if (cost_ns > 0 && cost_ns >= own_ns)
            break;
        uint64_t blocks = room_ns > 0 ? (uint64_t)(room_ns / s->cost_ns) : 0;
        if (blocks == 0 && cost_ns == 0)
            blocks = 1;
        if (blocks > s->arrived - s->taken)
            blocks = s->arrived - s->taken;
        if (blocks == 0)
            continue;
        const int64_t mine_ns = s->launch_ns + (int64_t)blocks * s->cost_ns;
        overload_taken(&s->share, (int64_t)blocks * s->period_ns, mine_ns, w->now_ns);
        taken[work[i].owner] = blocks;
        launch_ns += cost_ns > 0 ? s->launch_ns : 0;
        cost_ns += mine_ns;
    }
    cost_ns -= launch_ns;
    for (uint32_t i = 0; i < w->count; i++) {
        struct simulated *s = &w->streams[i];
        for (; taken[i] > 0; taken[i]--)
            done(w, s, s->ready_ns[s->taken++ % RING_BLOCKS], w->now_ns + cost_ns);
    }
    w->now_ns += cost_ns;
    return cost_ns > 0;
}

static void keep_up(struct world *w)
{
    for (uint32_t i = 0; i < w->count; i++) {
        struct simulated *s = &w->streams[i];
        if (s->arrived == s->taken) {
            overload_caught_up(&s->share, w->now_ns);
        } else if (overload_gives_up(&s->share, oldest_ns(s), oldest_ns(s) + s->period_ns,
                                     PATIENCE_NS, w->now_ns)) {
            for (; s->taken < s->arrived && oldest_ns(s) + s->period_ns < w->now_ns; s->taken++)
                s->shed++;
            s->last_shed_ns = w->now_ns;
            overload_shed(&s->share, w->now_ns);
            overload_caught_up(&s->share, w->now_ns);
        }
    }
}

static void run_until(struct world *w, int64_t until_ns)
{
    while (w->now_ns < until_ns) {
        arrive(w);
        const bool computed = compute(w);
        keep_up(w);
        if (!computed) {
            const int64_t next_ns = next_arrival_ns(w);
            w->now_ns = next_ns < until_ns ? next_ns : until_ns;
        }
    }
}

/* A stream whose blocks of `period_ms` take this share of the device. */
static struct simulated stream_of(uint8_t priority, int64_t period_ms, double share)
{
    const int64_t period_ns = period_ms * NS_PER_MS;
    return (struct simulated){.priority = priority,
                              .period_ns = period_ns,
                              .cost_ns = (int64_t)(share * (double)period_ns)};
}

static struct world *world_new(const struct simulated *streams, uint32_t count)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->count = count;
    w->now_ns = NS_PER_SECOND;
    w->budget_ns = INT64_MAX;
    budget_begin(&w->live);
    for (uint32_t i = 0; i < count; i++) {
        struct simulated *s = &w->streams[i];
        *s = streams[i];
        s->last_done_ns = s->share.caught_up_ns = w->now_ns;
        if (s->begins_ns < w->now_ns)
            s->begins_ns = w->now_ns;
        if (s->period_ns / 2 < w->budget_ns)
            w->budget_ns = s->period_ns / 2;
        budget_add(&w->live, i, s->priority, s->period_ns, 0);
    }
    budget_end(&w->live);
    return w;
}

static void assert_kept(const struct world *w, uint32_t i)
{
    const struct simulated *s = &w->streams[i];
    if (s->shed != 0 || s->missed != 0)
        fail_msg("stream %u (priority %u): %llu blocks shed, %llu of %llu late", i, s->priority,
                 (unsigned long long)s->shed, (unsigned long long)s->missed,
                 (unsigned long long)s->computed);
}

/* ---- what is promised ---------------------------------------------------------------------- */

/* Twice what the device can do, of which 1.2 belongs to the lowest priority. */
static void test_lowest_is_shed_first(void **state)
{
    (void)state;
    const struct simulated streams[] = {stream_of(90, 10, 0.4), stream_of(10, 2, 1.2),
                                        stream_of(50, 10, 0.4)};
    struct world *w = world_new(streams, 3);
    run_until(w, 21 * NS_PER_SECOND);
    assert_kept(w, 0);
    assert_kept(w, 2);
    const struct simulated *low = &w->streams[1];
    assert_true(low->shed > 0);
    /* What is left goes to it: 0.2 of its 1.2. */
    const double share = (double)low->computed / (double)low->arrived;
    if (share < 0.2 / 1.2 * 0.9)
        fail_msg("%.3f of the lowest priority computed, room for %.3f", share, 0.2 / 1.2);
    free(w);
}

/* A device that launches nothing in less than half a block's time carries two streams that need a
 * tenth of it: their blocks share launches. */
static void test_launches_are_shared(void **state)
{
    (void)state;
    struct simulated streams[] = {stream_of(50, 1, 0.05), stream_of(50, 1, 0.05)};
    for (int i = 0; i < 2; i++) {
        streams[i].period_ns = 410 * NS_PER_US;
        streams[i].cost_ns = 20 * NS_PER_US;
        streams[i].launch_ns = 220 * NS_PER_US;
    }
    streams[1].begins_ns = NS_PER_SECOND + 100 * NS_PER_US;
    struct world *w = world_new(streams, 2);
    w->budget_ns = 20 * NS_PER_MS;
    run_until(w, 11 * NS_PER_SECOND);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(w->streams[i].shed, 0);
        if (w->streams[i].longest_ns > 4 * streams[i].period_ns)
            fail_msg("stream %d: a block took %lld ns", i, (long long)w->streams[i].longest_ns);
    }
    free(w);
}

/* What streams of lower priority have to do hardly shows in the latency of a higher one: an eighth
 * of its block, however much they are behind. */
static void test_higher_hardly_notices(void **state)
{
    (void)state;
    for (int waiting = 0; waiting < 2; waiting++) {
        struct simulated streams[] = {stream_of(90, 8, 0.05), stream_of(10, 40, 3.0)};
        streams[1].cost_ns /= 400; /* many small blocks … */
        streams[1].period_ns /= 400;
        streams[1].begins_ns = waiting ? 3 * NS_PER_SECOND : 0; /* … which come all at once */
        struct world *w = world_new(streams, 2);
        w->budget_ns = 4 * NS_PER_MS;
        run_until(w, 6 * NS_PER_SECOND);
        assert_kept(w, 0);
        const int64_t most_ns = streams[0].cost_ns + streams[0].period_ns / 8;
        if (w->streams[0].longest_ns > most_ns)
            fail_msg("%lld ns, not %lld", (long long)w->streams[0].longest_ns, (long long)most_ns);
        assert_true(w->streams[1].computed > 5000);
        free(w);
    }
}

/* When the lowest priority is not enough the next one sheds, too, and the highest still not. */
static void test_next_priority_follows(void **state)
{
    (void)state;
    const struct simulated streams[] = {stream_of(0, 2, 0.5), stream_of(1, 2, 0.9),
                                        stream_of(2, 10, 0.6)};
    struct world *w = world_new(streams, 3);
    run_until(w, 21 * NS_PER_SECOND);
    assert_kept(w, 2);
    assert_true(w->streams[0].shed > 0);
    const double share = (double)w->streams[1].computed / (double)w->streams[1].arrived;
    assert_true(w->streams[1].shed > 0 && share > 0.4 / 0.9 * 0.9);
    free(w);
}

/* Relief: within a second nobody is late or sheds any more, however little room there is. */
static void test_recovery(void **state)
{
    (void)state;
    for (int percent = 50; percent <= 98; percent += 8) {
        const double left = percent / 100.0;
        struct simulated streams[] = {stream_of(50, 10, left * 0.3), stream_of(20, 10, left * 0.7),
                                      stream_of(20, 2, 1.5)};
        const int64_t relief_ns = 9 * NS_PER_SECOND;
        streams[2].ends_ns = relief_ns;
        struct world *w = world_new(streams, 3);
        run_until(w, 20 * NS_PER_SECOND);
        assert_kept(w, 0);
        for (uint32_t i = 0; i < 2; i++) {
            const struct simulated *s = &w->streams[i];
            const int64_t last_ns =
                s->last_late_ns > s->last_shed_ns ? s->last_late_ns : s->last_shed_ns;
            if (last_ns > relief_ns + NS_PER_SECOND)
                fail_msg("%d %%: stream %u late or shedding %.2f s after the relief", percent, i,
                         (double)(last_ns - relief_ns) / 1e9);
        }
        free(w);
    }
}

/* Equals share: the modest one keeps its deadlines, the greedy ones get the same device time. */
static void test_equals_share(void **state)
{
    (void)state;
    const struct simulated streams[] = {stream_of(50, 10, 0.1), stream_of(50, 2, 1.2),
                                        stream_of(50, 4, 1.2), stream_of(50, 1, 1.2)};
    struct world *w = world_new(streams, 4);
    run_until(w, 31 * NS_PER_SECOND);
    assert_kept(w, 0);
    for (uint32_t i = 1; i < 4; i++) {
        const struct simulated *s = &w->streams[i];
        const double share = (double)s->computed / (double)s->arrived * 1.2;
        if (share < 0.27 || share > 0.33)
            fail_msg("stream %u had %.3f of the device, not 0.3", i, share);
        if (s->longest_drought_ns > NS_PER_SECOND)
            fail_msg("stream %u starved for %.2f s", i, (double)s->longest_drought_ns / 1e9);
    }
    free(w);
}

/* A stream that sends ten times what it declares comes behind all that keep to their rate, whatever
 * its priority, and still has what it declares. */
static void test_flood(void **state)
{
    (void)state;
    for (int priority = 10; priority <= 90; priority += 40) {
        struct simulated streams[] = {stream_of(50, 10, 0.3),
                                      stream_of((uint8_t)priority, 10, 0.3)};
        streams[1].every_ns = streams[1].period_ns / 10;
        struct world *w = world_new(streams, 2);
        run_until(w, 16 * NS_PER_SECOND);
        /* Until the flood is known as one, a higher priority counts. */
        if (priority <= 50)
            assert_kept(w, 0);
        else
            assert_true(w->streams[0].shed == 0 && w->streams[0].missed < 40 &&
                        w->streams[0].last_late_ns < 3 * NS_PER_SECOND);
        assert_true(w->streams[1].computed > w->streams[1].arrived / 10);
        free(w);
    }
}

/* Without overload the earliest deadline goes first: a lower priority with short deadlines beside
 * higher ones with a lot of work and time. */
static void test_priority_waits_for_overload(void **state)
{
    (void)state;
    enum { SLOW = 11 };
    struct simulated streams[SLOW + 1];
    for (uint32_t i = 0; i < SLOW; i++)
        streams[i] = stream_of(100, 200, 0.05);
    streams[SLOW] = stream_of(0, 30, 0.1);
    struct world *w = world_new(streams, SLOW + 1);
    run_until(w, 11 * NS_PER_SECOND);
    for (uint32_t i = 0; i <= SLOW; i++)
        assert_kept(w, i);
    free(w);
}

/* A short overload costs nothing but time. */
static void test_short_overload_loses_nothing(void **state)
{
    (void)state;
    struct simulated streams[] = {stream_of(50, 10, 0.5), stream_of(50, 2, 1.0)};
    streams[1].begins_ns = 2 * NS_PER_SECOND;
    streams[1].ends_ns = 2 * NS_PER_SECOND + 400 * NS_PER_MS;
    struct world *w = world_new(streams, 2);
    run_until(w, 8 * NS_PER_SECOND);
    assert_int_equal(w->streams[0].shed + w->streams[1].shed, 0);
    assert_true(w->streams[1].computed == w->streams[1].arrived);
    free(w);
}

/* Any streams: those that fit, from the highest priority down, lose nothing beside any number of
 * others, and keep their deadlines but for one block in 10 000: the device is never interrupted,
 * and which blocks come together is chance. */
static void test_any_streams(void **state)
{
    (void)state;
    uint32_t kept = 0, overloaded = 0;
    uint64_t blocks = 0, late = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct random_state random = {seed};
        struct simulated streams[STREAMS];
        const uint32_t count = 16 + random_below(&random, STREAMS - 15);
        double load[STREAMS + 1], sum = 0;
        for (uint32_t i = 0; i < count; i++) {
            const double share = 0.02 + 0.05 * random_unit(&random);
            sum += share;
            load[i] = load[i + 1] = sum; /* of this and all higher priorities */
            streams[i] = stream_of((uint8_t)(100 - i / 2), 20 + random_below(&random, 21), share);
        }
        struct world *w = world_new(streams, count);
        w->budget_ns /= 2;
        run_until(w, 6 * NS_PER_SECOND);
        overloaded += sum > 1;
        for (uint32_t i = 0; i < count; i++) {
            const struct simulated *s = &w->streams[i];
            assert_true(s->computed + s->shed + (s->arrived - s->taken) == s->arrived);
            if (load[i | 1u] > 0.5) /* two share a priority */
                continue;
            if (s->shed != 0 || s->missed > 1)
                fail_msg("seed %llu, stream %u of %u: %llu shed, %llu of %llu late",
                         (unsigned long long)seed, i, count, (unsigned long long)s->shed,
                         (unsigned long long)s->missed, (unsigned long long)s->computed);
            kept++;
            blocks += s->computed;
            late += s->missed;
        }
        free(w);
    }
    assert_true(kept > 400 && overloaded > 30);
    assert_true(late <= blocks / 10000);
}

/* Sources that wait come last, in the order of their deadlines. */
static void test_waiting_sources_come_last(void **state)
{
    (void)state;
    struct overload_work work[] = {
        {.owner = 0, .live = false, .priority = 100, .deadline_ns = 5, .cost_ns = 100},
        {.owner = 1, .live = true, .priority = 0, .deadline_ns = 900, .cost_ns = 800},
        {.owner = 2, .live = true, .priority = 9, .deadline_ns = 1000, .cost_ns = 800},
        {.owner = 3, .live = false, .priority = 0, .deadline_ns = 4, .cost_ns = 100},
    };
    overload_order(work, 4, 0, 0);
    static const uint32_t expect[] = {2, 1, 3, 0};
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(work[i].owner, expect[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lowest_is_shed_first),
        cmocka_unit_test(test_launches_are_shared),
        cmocka_unit_test(test_higher_hardly_notices),
        cmocka_unit_test(test_next_priority_follows),
        cmocka_unit_test(test_recovery),
        cmocka_unit_test(test_equals_share),
        cmocka_unit_test(test_flood),
        cmocka_unit_test(test_priority_waits_for_overload),
        cmocka_unit_test(test_short_overload_loses_nothing),
        cmocka_unit_test(test_any_streams),
        cmocka_unit_test(test_waiting_sources_come_last),
    };
    return cmocka_run_group_tests_name("overload", tests, NULL, NULL);
}
