/*
 * The source clock against simulated senders whose true capture times are known: pauses with and
 * without advancing frame numbers, packets that the network holds up, queues that are worked off,
 * time stamps that run ahead. At every packet, the true times of all frames so far lie within the
 * bound of their own.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/clock.h"
#include "core/random.h"
#include "stream/source_clock.h"

enum { FRAMES = 480, RATE = 48000, PACKETS_MAX = 6000, BLOCKS_BACK = 400 };
static const int64_t packet_ns = 10 * NS_PER_MS;

/* Incidents before packet `at`. */
enum happens {
    NOTHING,
    PAUSE,         /* no frames, no numbers: a step of `ms` */
    COUNTED_PAUSE, /* no frames, but their numbers pass */
    SKIP,          /* numbers pass, no time: a step of -`ms` */
    HOLD_UP,       /* the network delivers what was sent in `ms` at once */
    QUEUE,         /* as HOLD_UP, but worked off at `speed` times the rate */
    DELAY,         /* this packet alone comes `ms` later than sent, with the next ones in order */
};

struct incident {
    int at;
    enum happens what;
    int ms;
    double speed;
};

struct scenario {
    const char *given;
    struct incident incidents[8];
    int packets;
    double jitter_ms; /* of an exponential delay */
    double ppm;
    uint64_t steps;
    int64_t error_at_most_ns; /* of the newest packet, at the end */
};

static const struct scenario scenarios[] = {
    {"nothing", {{0}}, 1000, 0.2, 30, 0, 5000000},
    {"a pause that no number counts", {{500, PAUSE, 2000, 0}}, 1500, 0.2, 30, 1, 5000000},
    {"right at the start", {{3, PAUSE, 2000, 0}}, 1000, 0.2, 0, 1, 5000000},
    {"a pause of a second packet", {{1, PAUSE, 700, 0}}, 1000, 0.2, 0, 1, 5000000},
    {"a pause that numbers count", {{500, COUNTED_PAUSE, 2000, 0}}, 1500, 0.2, 30, 0, 5000000},
    {"both",
     {{500, PAUSE, 300, 0}, {900, COUNTED_PAUSE, 5000, 0}, {1300, PAUSE, 9000, 0}},
     2000,
     0.2,
     -50,
     2,
     5000000},
    {"two pauses in one second",
     {{500, PAUSE, 400, 0}, {530, PAUSE, 900, 0}},
     1500,
     0.2,
     0,
     1,
     5000000},
    {"a pause every two seconds",
     {{300, PAUSE, 100, 0},
      {500, PAUSE, 100, 0},
      {700, PAUSE, 100, 0},
      {900, PAUSE, 100, 0},
      {1100, PAUSE, 100, 0},
      {1300, PAUSE, 100, 0},
      {1500, PAUSE, 100, 0}},
     2200,
     0.2,
     0,
     7,
     5000000},
    {"a pause on a way with jitter", {{800, PAUSE, 1500, 0}}, 2500, 3, 30, 1, 60000000},
    {"a pause of four minutes", {{500, PAUSE, 240000, 0}}, 1500, 0.2, 30, 1, 5000000},
    {"a pause after a long run", {{4500, PAUSE, 600, 0}}, 5500, 0.2, 80, 1, 5000000},
    {"the network holds packets up", {{500, HOLD_UP, 800, 0}}, 1500, 0.2, 30, 0, 20000000},
    {"a queue worked off at twice the rate", {{500, QUEUE, 800, 2}}, 1500, 0.2, 30, 0, 800000000},
    {"a queue worked off slowly", {{500, QUEUE, 400, 1.2}}, 1500, 0.2, 30, 0, 400000000},
    {"one packet late", {{500, DELAY, 60, 0}}, 1500, 0.2, 30, 0, 20000000},
    {"numbers run ahead", {{500, SKIP, 300, 0}}, 1500, 0.2, 30, 1, 20000000},
    {"ahead, then a pause", {{500, SKIP, 300, 0}, {900, PAUSE, 300, 0}}, 2000, 0.2, 0, 2, 20000000},
};

/* Packet n holds frames [first[n], first[n] + FRAMES), the last captured just before
 * captured_ns[n]; it came at received_ns[n]. */
static uint64_t first[PACKETS_MAX];
static int64_t captured_ns[PACKETS_MAX], received_ns[PACKETS_MAX];

static const struct incident *incident_at(const struct scenario *scenario, int n)
{
    for (size_t i = 0; i < sizeof scenario->incidents / sizeof scenario->incidents[0]; i++)
        if (scenario->incidents[i].what != NOTHING && scenario->incidents[i].at == n)
            return &scenario->incidents[i];
    return NULL;
}

static void make(const struct scenario *scenario, uint64_t seed)
{
    struct random_state random = {seed};
    const double period_ns = (double)packet_ns / (1 + scenario->ppm * 1e-6);
    double at_ns = 1e12;
    double free_ns = 0, speed = 1e9; /* when the way is free again, and how fast it then works */
    uint64_t frame = UINT64_C(1) << 33;
    for (int n = 0; n < scenario->packets; n++) {
        const struct incident *incident = incident_at(scenario, n);
        const double ms = incident != NULL ? incident->ms * 1e6 : 0;
        at_ns += period_ns;
        if (incident != NULL && (incident->what == PAUSE || incident->what == COUNTED_PAUSE))
            at_ns += ms;
        if (incident != NULL && (incident->what == SKIP || incident->what == COUNTED_PAUSE))
            frame += (uint64_t)incident->ms * RATE / 1000;
        if (incident != NULL && incident->what >= HOLD_UP) {
            free_ns = at_ns + ms;
            speed = incident->what == QUEUE ? incident->speed : 1e9;
        }
        first[n] = frame;
        frame += FRAMES;
        captured_ns[n] = (int64_t)at_ns;
        double came_ns = at_ns - scenario->jitter_ms * 1e6 * log(1 - random_unit(&random));
        if (came_ns < free_ns) {
            came_ns = free_ns;
            free_ns += period_ns / speed;
        }
        received_ns[n] = (int64_t)came_ns;
        if (n > 0 && received_ns[n] < received_ns[n - 1])
            received_ns[n] = received_ns[n - 1];
    }
}

/* The time of the packet's last frame, counted from its first: the excess over the bound. The bound
 * knows nothing of the least delay, which is small with exponential jitter. */
static const double least_delay_ns = 5e5;

static double excess_ns(const struct source_clock *clock, int n)
{
    const double from = (double)first[n], until = from + FRAMES;
    const int64_t time_ns = source_clock_time_ns(clock, from);
    const int64_t error_ns = source_clock_error_ns(clock, from, until);
    /* The last frame's truth; the first one's as well where no pause cuts the packet. */
    const double last_off_ns = fabs((double)(time_ns + packet_ns - captured_ns[n]));
    return last_off_ns - (double)error_ns - least_delay_ns;
}

static void check_bounds(const struct scenario *scenario, uint64_t seed, struct source_clock *clock)
{
    make(scenario, seed);
    source_clock_reset(clock, RATE);
    for (int n = 0; n < scenario->packets; n++) {
        source_clock_add(clock, first[n], first[n] + FRAMES, received_ns[n]);
        for (int back = 0; back <= n && back < BLOCKS_BACK; back += 1 + back / 2) {
            const double excess = excess_ns(clock, n - back);
            if (excess > 0)
                fail_msg("%s, seed %llu: at packet %d, packet %d lies %.3f ms outside its bound",
                         scenario->given, (unsigned long long)seed, n, n - back, excess / 1e6);
        }
    }
}

static void run(const struct scenario *scenario, uint64_t seed)
{
    struct source_clock clock;
    check_bounds(scenario, seed, &clock);
    if (clock.pasts != scenario->steps)
        fail_msg("%s, seed %llu: %llu steps", scenario->given, (unsigned long long)seed,
                 (unsigned long long)clock.pasts);
    const double last = (double)first[scenario->packets - 1];
    const int64_t error_ns = source_clock_error_ns(&clock, last, last + FRAMES);
    if (error_ns > scenario->error_at_most_ns)
        fail_msg("%s, seed %llu: a bound of %lld ns at the end", scenario->given,
                 (unsigned long long)seed, (long long)error_ns);
}

static void test_bound_holds_across_incidents(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++)
        for (uint64_t seed = 1; seed <= 5; seed++)
            run(&scenarios[i], seed);
}

/* Whatever happens, in any order. */
static void test_bound_holds_at_random(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct random_state random = {seed * 7919};
        struct scenario scenario = {.given = "at random",
                                    .packets = 4000,
                                    .jitter_ms = 0.1 + 0.4 * random_unit(&random),
                                    .ppm = 100 * random_unit(&random) - 50};
        int at = 100;
        for (size_t i = 0; i < sizeof scenario.incidents / sizeof scenario.incidents[0]; i++) {
            static const enum happens kinds[] = {PAUSE, PAUSE, COUNTED_PAUSE, HOLD_UP, DELAY, SKIP};
            at += 1 + (int)random_below(&random, random_below(&random, 3) == 0 ? 20 : 400);
            if (i > 0 && scenario.incidents[i - 1].what > COUNTED_PAUSE)
                at += 130 + scenario.incidents[i - 1].ms / 10;
            scenario.incidents[i] = (struct incident){
                at, kinds[random_below(&random, sizeof kinds / sizeof kinds[0])],
                1 + (int)random_below(&random, random_below(&random, 2) == 0 ? 40 : 3000), 0};
            if (scenario.incidents[i].what == SKIP) /* smaller ones look like jitter */
                scenario.incidents[i].ms += 60;
        }
        struct source_clock clock;
        check_bounds(&scenario, seed, &clock);
    }
}

/* The step says where and by how much; frames before it keep their times. */
static void test_step(void **state)
{
    (void)state;
    const struct scenario *scenario = &scenarios[1];
    struct source_clock clock;
    make(scenario, 1);
    source_clock_reset(&clock, RATE);
    int at = 0;
    for (int n = 0; n < scenario->packets; n++)
        if (source_clock_add(&clock, first[n], first[n] + FRAMES, received_ns[n]))
            at = n;
    const struct clock_step *step = source_clock_step(&clock);
    assert_in_range(at, 590, 620); /* a second behind the pause, before packet 500 */
    assert_int_equal(step->frame, first[500]);
    assert_int_equal(step->until, first[501]);
    assert_in_range(step->step_ns, 1999 * NS_PER_MS, 2001 * NS_PER_MS);
    assert_true(source_clock_error_ns(&clock, (double)first[400], (double)first[401]) <
                5 * NS_PER_MS);
    assert_true(source_clock_error_ns(&clock, (double)first[400], (double)first[600]) >=
                step->step_ns);
    assert_true(source_clock_error_ns(&clock, (double)first[500], (double)first[501]) >=
                step->step_ns);
}

/* Before more steps than are remembered, nothing is known. */
static void test_forgotten_steps(void **state)
{
    (void)state;
    struct source_clock clock;
    source_clock_reset(&clock, RATE);
    int64_t now_ns = NS_PER_SECOND;
    uint64_t frame = 0;
    for (int n = 0; n < 20 * 200 - 1; n++, frame += FRAMES) {
        now_ns += packet_ns + (n % 200 == 199 ? NS_PER_SECOND : 0);
        source_clock_add(&clock, frame, frame + FRAMES, now_ns);
    }
    assert_int_equal(clock.pasts, 19);
    assert_int_equal(source_clock_error_ns(&clock, 1000, 2000), SOURCE_CLOCK_UNKNOWN_NS);
    assert_true(source_clock_error_ns(&clock, (double)(frame - 1000), (double)frame) <
                20 * NS_PER_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bound_holds_across_incidents),
        cmocka_unit_test(test_bound_holds_at_random),
        cmocka_unit_test(test_step),
        cmocka_unit_test(test_forgotten_steps),
    };
    return cmocka_run_group_tests_name("source_clock", tests, NULL, NULL);
}
