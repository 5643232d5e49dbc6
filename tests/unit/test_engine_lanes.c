/*
 * The variant "lanes": a channel in each lane of a vector. Against the definition in double
 * over transforms of every depth, blocks and taps at each end, channels below, at and beside
 * multiples of 16, and every sample format with reports, gaps and values that are not finite.
 * What it declines the next variant of the table takes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine_harness.h"

static struct engine *engine;

static int open_engine(void **state)
{
    (void)state;
    engine = harness_engine();
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    harness_engine_close(engine);
    return 0;
}

/* Devices without vectors decline it. */
static void only_on_cpus(void)
{
    if (!harness_runs(engine, "lanes"))
        skip();
}

static double run_shape(const char *format, uint32_t channels, enum output_form form, uint32_t hop,
                        uint32_t fft, uint32_t taps, uint64_t seed)
{
    static const char *const forms[] = {"real", "complex", "envelope"};
    char label[160];
    snprintf(label, sizeof label, "%s, %u channels, %s, hop %u, fft %u, %u taps", format, channels,
             forms[form], hop, fft, taps);
    struct test_signal *signal = signal_noise(format, channels, taps + 5ull * hop, seed);
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, hop, taps, seed % 5 != 0, form); /* or real taps */
    plan.spec.variant = "lanes";
    plan.spec.fft = fft;
    plan.spec.blocks_max = 4;
    test_plan_prepare(engine, &plan, signal);
    const struct run_options options = {.seed = seed, .ring_offset = 1000003 + seed};
    struct test_run run = run_plan(engine, &plan, signal, &options);
    const double error = expect_convolution(label, &plan, signal, &run, 0, run.frames);
    test_run_free(&run);
    test_plan_free(&plan);
    signal_free(signal);
    return error;
}

/* Every depth of the walk and each of its first radices. */
static void transforms_and_taps(void **state)
{
    (void)state;
    only_on_cpus();
    static const uint32_t channels[] = {16, 1, 17, 4, 8, 31, 2};
    uint64_t turn = 0;
    double worst = 0;
    for (uint32_t fft = 64; fft <= 16384; fft *= 2) {
        const uint32_t hops[] = {fft / 2, fft / 4 + 3, fft - 1};
        for (size_t l = 0; l < sizeof hops / sizeof hops[0]; l++) {
            const uint32_t hop = hops[l], most = fft - hop + 1;
            const uint32_t taps[] = {1, most};
            for (size_t t = 0; t < sizeof taps / sizeof taps[0]; t++, turn++) {
                const uint32_t count = channels[turn % (fft > 2048 ? 2 : 7)];
                const double error =
                    run_shape(turn % 2 ? "s16be" : "f32le", count, (enum output_form)(turn / 2 % 3),
                              hop, fft, taps[t], turn);
                worst = error > worst ? error : worst;
            }
        }
    }
    print_message("%llu plans, largest error %.2g\n", (unsigned long long)turn, worst);
}

/* Wide vectors, narrow rows, words of every size in either order. */
static void formats(void **state)
{
    (void)state;
    only_on_cpus();
    static const char *const names[] = {"u8",    "s16le", "s16be", "u16le", "u16be", "s24le",
                                        "s24be", "s32le", "s32be", "f32le", "f32be"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        for (int form = OUTPUT_REAL; form <= OUTPUT_ENVELOPE; form++) {
            run_shape(names[i], 16, (enum output_form)form, 100, 256, 101, i);
            run_shape(names[i], 21, (enum output_form)form, 64, 128, 65, i);
            run_shape(names[i], 2, (enum output_form)form, 50, 128, 33, i);
        }
    }
}

/* Channels keep their own calibration and filter gain, and never meet. */
static void channels_stay_apart(void **state)
{
    (void)state;
    only_on_cpus();
    struct test_signal *signal = signal_noise("s16le", 35, 3000, 5);
    for (uint32_t c = 0; c < signal->inputs; c++)
        signal->scales[c] = (struct channel_scale){
            .full_scale = 1 + c, .offset = 0.01 * c, .gain_db = (double)(c % 7) - 3};
    signal_decode(signal);
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, 128, 129, false, OUTPUT_REAL);
    for (uint32_t e = 0; e < plan.spec.edge_count; e++)
        plan.edges[e].gain = e % 3 == 0 ? 0.0f : 0.5f + 0.25f * (float)e;
    plan.spec.variant = "lanes";
    test_plan_prepare(engine, &plan, signal);
    struct test_run run = run_plan(engine, &plan, signal, &(struct run_options){.seed = 6});
    expect_convolution("calibrated channels", &plan, signal, &run, 0, run.frames);
    for (uint64_t n = 0; n < run.frames; n++)
        for (uint32_t c = 0; c < signal->inputs; c += 3)
            if (run.samples[n * signal->inputs + c] != 0)
                fail_msg("channel %u has gain 0, yet frame %llu is %g", c, (unsigned long long)n,
                         (double)run.samples[n * signal->inputs + c]);
    test_run_free(&run);
    test_plan_free(&plan);
    signal_free(signal);
}

static void gaps_in(uint32_t channels, enum output_form form)
{
    struct test_signal *signal = signal_noise("s16be", channels, 64 * 40, 7);
    signal_absent(signal, 0, 5);
    signal_absent(signal, 700, 900);
    signal_absent(signal, 1023, 1024);
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, 64, 150, true, form);
    plan.spec.variant = "lanes";
    test_plan_prepare(engine, &plan, signal);
    struct test_run ones = run_plan(engine, &plan, signal, &(struct run_options){.blocks = 1});
    struct test_run random = run_plan(
        engine, &plan, signal,
        &(struct run_options){.seed = 3, .ring_offset = UINT64_C(0xFFFFFFF0), .reset = true});
    expect_convolution("gaps", &plan, signal, &ones, 0, ones.frames);
    const uint64_t floats = ones.frames * plan_info(plan.plan)->output_floats;
    if (memcmp(ones.samples, random.samples, floats * sizeof(float)) != 0)
        fail_msg("%u channels: blocks one by one and in random items differ", channels);
    test_run_free(&ones);
    test_run_free(&random);
    test_plan_free(&plan);
    signal_free(signal);
}

/* Gaps and the start of an epoch are silence; the result is the same to the bit for every J. */
static void gaps_and_batches(void **state)
{
    (void)state;
    only_on_cpus();
    static const struct {
        uint32_t channels;
        enum output_form form;
    } given[] = {{18, OUTPUT_REAL}, {1, OUTPUT_REAL}, {3, OUTPUT_ENVELOPE}, {4, OUTPUT_COMPLEX}};
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++)
        gaps_in(given[i].channels, given[i].form);
}

/* The table's order: lanes where it can and pays, else what comes after it. */
static void who_takes_what(void **state)
{
    (void)state;
    only_on_cpus();
    static const struct {
        uint32_t channels, taps;
        bool crossed;
        enum output_form form;
        const char *variant;
    } given[] = {
        /* clang-format off */
        {16, 65, false, OUTPUT_REAL, "lanes"},
        {5, 65, false, OUTPUT_REAL, "lanes"},
        {2, 65, false, OUTPUT_REAL, "local"},
        {2, 65, false, OUTPUT_ENVELOPE, "lanes"},
        {16, 65, true, OUTPUT_REAL, "local"},
        {16, 5000, false, OUTPUT_REAL, "general"},
        /* clang-format on */
    };
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        struct test_signal *signal = signal_noise("s16le", given[i].channels, 600, i);
        struct test_plan plan;
        test_plan_diagonal(&plan, signal, 64, given[i].taps, given[i].form != OUTPUT_REAL,
                           given[i].form);
        if (given[i].crossed)
            for (uint32_t e = 0; e < plan.spec.edge_count; e++)
                plan.edges[e].output = (uint16_t)(plan.spec.edge_count - 1 - e);
        plan.spec.blocks_max = 200; /* too many for "host" */
        test_plan_prepare(engine, &plan, signal);
        if (strcmp(plan_info(plan.plan)->variant, given[i].variant) != 0)
            fail_msg("row %zu: %s was chosen, %s expected", i, plan_info(plan.plan)->variant,
                     given[i].variant);
        test_plan_free(&plan);
        signal_free(signal);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transforms_and_taps), cmocka_unit_test(formats),
        cmocka_unit_test(channels_stay_apart), cmocka_unit_test(gaps_and_batches),
        cmocka_unit_test(who_takes_what),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
