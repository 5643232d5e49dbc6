/*
 * The variant "lanes": a channel in each lane of a vector. Against the definition in double
 * over transforms of every depth, blocks and taps at each end, channels below, at and beside
 * multiples of 16, vectors of every width, and every sample format with reports, gaps and values
 * that are not finite. What it declines the next variant of the table takes.
 *
 * Every size, form, format and width is a program of its own, and a program takes a second to
 * compile. So one table goes through all of them at once, and the tests of gaps, full scale and
 * choosing share the programs of s16le at N = 128.
 *
 * sanitizers: no, sums of kernels; test_engine_small plans lanes of every kind
 * long: also, every row of that table
 * turns: yes
 * takes: 4 s CPU in 4 s
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "convolve/check/prepare.h"
#include "tests/support/engine_group.h"
#include "tests/support/engine_seams.h"

/* Devices without vectors decline it. */
static void only_on_cpus(void)
{
    if (!harness_runs(engine, "lanes"))
        skip();
}

/* Sizes and formats of a program. */
struct shape {
    const char *format;
    uint32_t fft, channels;
    enum output_form form;
    uint32_t vector;
    bool early; /* hops beyond half a window too: frames of its first half are new */
};

static double run_shape(const struct shape *shape, uint32_t hop, uint32_t taps, uint64_t seed)
{
    static const char *const forms[] = {"real", "complex", "envelope"};
    char label[160];
    snprintf(label, sizeof label, "%s, %u channels, %s, vectors of %u, hop %u, fft %u, %u taps",
             shape->format, shape->channels, forms[shape->form], shape->vector, hop, shape->fft,
             taps);
    struct test_signal *signal =
        signal_noise(shape->format, shape->channels, taps + (hop > 4096 ? 3ull : 5ull) * hop, seed);
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, hop, taps, seed % 5 != 0, shape->form); /* or real taps */
    plan.spec.variant = "lanes";
    plan.spec.vector = shape->vector;
    plan.spec.fft = shape->fft;
    plan.spec.blocks_max = 4;
    test_plan_prepare(engine, &plan, signal);
    assert_int_equal(plan_info(plan.plan)->vector, shape->vector);
    const struct run_options options = {.seed = seed, .ring_offset = 1000003 + seed};
    struct test_run run = run_plan(engine, &plan, signal, &options);
    const double error = expect_convolution(label, &plan, signal, &run, 0, run.frames);
    test_run_free(&run);
    test_plan_free(&plan);
    signal_free(signal);
    return error;
}

/* Every number of levels and radix next to the leaf, every number of points and blocks side by
 * side; stretches of whole vectors, of fewer words, and channels one by one; words of every size
 * in either order. */
static void shapes(void **state)
{
    (void)state;
    only_on_cpus();
    static const struct shape given[] = {
        /* clang-format off */
        {"f32le",    64,  1, OUTPUT_REAL,     16, true},  {"s24be",    64, 16, OUTPUT_REAL,     16, false},
        {"s16be",   128,  8, OUTPUT_ENVELOPE, 16, false}, {"s32be",   256,  4, OUTPUT_REAL,     16, false},
        {"f32le", 65536,  4, OUTPUT_REAL,     16, false}, {"u16le",   512,  1, OUTPUT_REAL,      8, false},
        {"s24be",   128,  5, OUTPUT_COMPLEX,   4, false}, /* with every shape: */
        {"u8",      512,  3, OUTPUT_REAL,     16, false}, {"f32be",  1024,  1, OUTPUT_COMPLEX,  16, false},
        {"f32le", 16384,  2, OUTPUT_REAL,     16, false}, {"s24le",   256,  8, OUTPUT_REAL,      8, true},
        {"s24le",    64,  2, OUTPUT_REAL,      4, false},
        /* clang-format on */
    };
    double worst = 0;
    for (size_t i = 0; i < (harness_every_shape() ? sizeof given / sizeof given[0] : 7); i++) {
        const uint32_t fft = given[i].fft;
        const uint32_t hops[] = {fft / 2, fft / 4 + 3, fft - 1};
        for (size_t l = 0; l < (given[i].early ? 3 : fft > 16384 ? 1 : 2); l++) {
            const uint32_t taps[] = {fft - hops[l] + 1, 1};
            for (size_t t = 0; t < (fft > 4096 ? 1 : 2); t++) {
                const double error = run_shape(&given[i], hops[l], taps[t], 7 * i + l);
                worst = error > worst ? error : worst;
            }
        }
    }
    print_message("largest error %.2g\n", worst);
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
    struct test_signal *signal = signal_noise("s16le", channels, 64 * 40, 7);
    signal_absent(signal, 0, 5);
    signal_absent(signal, 700, 900);
    signal_absent(signal, 1023, 1024);
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, 64, 65, true, form);
    plan.spec.variant = "lanes";
    test_plan_prepare(engine, &plan, signal);
    expect_any_batches(engine, "gaps", &plan, signal);
    test_plan_free(&plan);
    signal_free(signal);
}

/* Full scale is counted where no frame is absent too: there the first pass only suspects it. */
static void full_scale(void **state)
{
    (void)state;
    only_on_cpus();
    static const uint32_t channels[] = {16, 2, 1};
    enum { HOP = 64, BLOCKS = 12 };
    for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++) {
        struct test_signal *signal = signal_noise("s16le", channels[i], BLOCKS * HOP, 11);
        uint32_t expected[BLOCKS] = {0}; /* of the last channel */
        for (uint32_t n = 0; n < BLOCKS * HOP; n++) {
            int16_t code = (int16_t)(n % 100);
            if (n % 37 == 5 && n / HOP % 3 != 1)
                code = n % 2 == 0 ? INT16_MAX : INT16_MIN;
            expected[n / HOP] += code == INT16_MAX || code == INT16_MIN;
            memcpy(signal->bytes + ((size_t)n * channels[i] + channels[i] - 1) * sizeof code, &code,
                   sizeof code);
        }
        signal_decode(signal);
        struct test_plan plan;
        test_plan_diagonal(&plan, signal, HOP, HOP + 1, false, OUTPUT_REAL);
        plan.spec.variant = "lanes";
        test_plan_prepare(engine, &plan, signal);
        struct test_run run = run_plan(engine, &plan, signal, &(struct run_options){.seed = 2});
        for (uint32_t b = 0; b < BLOCKS; b++) {
            const struct block_report *last = &run.reports[(b + 1) * channels[i] - 1];
            if (last->overload != expected[b] || last->present != HOP)
                fail_msg("%u channels, block %u: %u of %u samples at full scale, %u frames present",
                         channels[i], b, last->overload, expected[b], last->present);
        }
        test_run_free(&run);
        test_plan_free(&plan);
        signal_free(signal);
    }
}

/* Gaps and the start of an epoch are silence; the result is the same to the bit for every J. */
static void gaps_and_batches(void **state)
{
    (void)state;
    only_on_cpus();
    static const struct {
        uint32_t channels;
        enum output_form form;
    } given[] = {{18, OUTPUT_REAL}, {1, OUTPUT_REAL}, {3, OUTPUT_ENVELOPE}};
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++)
        gaps_in(given[i].channels, given[i].form);
}

/* Vectors are as wide as the device's own, a channel alone has at most eight lanes; only 16, 8 and
 * 4 can be asked for. */
static void own_width(void **state)
{
    (void)state;
    only_on_cpus();
    const uint32_t own = engine_device(engine)->vector_floats >= 16  ? 16
                         : engine_device(engine)->vector_floats >= 8 ? 8
                                                                     : 4;
    const struct {
        uint32_t channels, asked, want; /* 0: refused */
    } given[] = {
        {16, 0, own},
        {1, 0, own < 8 ? own : 8},
        {2, 5, 0},
        {2, 32, 0},
    };
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        struct test_signal *signal = signal_noise("s16le", given[i].channels, 64, i);
        struct test_plan plan;
        struct problem problem = {0};
        test_plan_diagonal(&plan, signal, 64, 65, false, OUTPUT_REAL);
        test_plan_bind(&plan, signal);
        plan.spec.variant = "lanes";
        plan.spec.vector = given[i].asked;
        const int error = plan_prepare(engine, &plan.spec, &plan.plan, &problem);
        assert_int_equal(error, given[i].want != 0 ? 0 : ERROR_ARGUMENT);
        if (error == 0)
            assert_int_equal(plan_info(plan.plan)->vector, given[i].want);
        test_plan_free(&plan);
        signal_free(signal);
    }
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
        {18, 65, false, OUTPUT_REAL, "lanes"},
        {2, 65, false, OUTPUT_REAL, "lanes"},
        {3, 65, false, OUTPUT_ENVELOPE, "lanes"},
        {16, 65, true, OUTPUT_REAL, "local"},
        {16, 5000, false, OUTPUT_REAL, "partitioned"},
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

/* ---- two rows a group --------------------------------------------------------------------- */

/* What one of the two rows of a group meets alone: absent frames are both's, values that are not
 * finite, at full scale, or of channels beside a set of whole rows are not. */
static const struct together {
    const char *format;
    uint32_t fft, channels, vector;
    enum output_form form;
    bool gap, faults;
    uint32_t rows; /* that the plan gets, of 2 asked for */
} together[] = {
    {"f32le", 128, 16, 8, OUTPUT_REAL, false, true, 2},
    {"s16be", 128, 10, 4, OUTPUT_ENVELOPE, true, false, 1}, /* five rows */
    {"s16be", 256, 35, 8, OUTPUT_REAL, true, false, 2},     /* and three channels more */
    {"f32le", 256, 2, 8, OUTPUT_REAL, false, true, 1},      /* vectors of four points */
};

static struct test_signal *together_signal(const struct together *given, uint32_t hop)
{
    struct test_signal *signal = signal_noise(given->format, given->channels, 6ull * hop, 31);
    if (given->gap)
        signal_absent(signal, hop + 3, hop + 9);
    float *x = (float *)(void *)signal->bytes;
    if (given->faults) {
        x[(size_t)(2 * hop + 1) * given->channels + given->channels - 1] = NAN;
        x[(size_t)(4 * hop + 1) * given->channels] = 1.0f; /* full scale */
    }
    signal_decode(signal);
    return signal;
}

static struct test_run together_run(const struct together *given, const struct test_signal *signal,
                                    uint32_t rows, uint32_t want)
{
    struct test_plan plan;
    const uint32_t hop = given->fft / 2;
    test_plan_diagonal(&plan, signal, hop, hop + 1, given->form != OUTPUT_REAL, given->form);
    plan.spec.variant = "lanes";
    plan.spec.vector = given->vector;
    plan.spec.fft = given->fft;
    plan.spec.blocks_max = 4;
    plan.spec.rows = rows;
    test_plan_prepare(engine, &plan, signal);
    assert_int_equal(plan_info(plan.plan)->rows, want);
    struct test_run run = run_plan(engine, &plan, signal, &(struct run_options){.seed = 9});
    expect_convolution("rows together", &plan, signal, &run, 0, run.frames);
    test_plan_free(&plan);
    return run;
}

/* Two rows of channels in one group give what they give apart, to the bit, and the same reports. */
static void rows_together(void **state)
{
    (void)state;
    only_on_cpus();
    for (size_t i = 0; i < sizeof together / sizeof together[0]; i++) {
        const struct together *given = &together[i];
        struct test_signal *signal = together_signal(given, given->fft / 2);
        struct test_run apart = together_run(given, signal, 1, 1);
        struct test_run both = together_run(given, signal, 2, given->rows);
        const size_t floats = (size_t)apart.frames * given->channels;
        if (memcmp(apart.samples, both.samples, floats * sizeof(float)) != 0 ||
            memcmp(apart.reports, both.reports,
                   (size_t)apart.blocks * given->channels * sizeof apart.reports[0]) != 0)
            fail_msg("row %zu: two rows a group change a result", i);
        test_run_free(&apart);
        test_run_free(&both);
        signal_free(signal);
    }
}

/* Points that do not fit local memory lie in slots: every group has one to itself while it runs,
 * on however many threads. */
static void beyond_local_memory(void **state)
{
    (void)state;
    only_on_cpus();
    engine_seams.local_bytes = 1;
    harness_engine_close(engine);
    engine = harness_engine();
    struct test_signal *signal = signal_noise("f32le", 32, 64 * 64, 17);
    for (uint32_t rows = 1; rows <= ROWS_MOST; rows++) {
        struct test_plan plan;
        test_plan_diagonal(&plan, signal, 64, 65, false, OUTPUT_REAL);
        plan.spec.variant = "lanes";
        plan.spec.vector = 8;
        plan.spec.blocks_max = 32;
        plan.spec.rows = rows;
        test_plan_prepare(engine, &plan, signal);
        assert_int_equal(plan_info(plan.plan)->rows, rows);
        expect_any_batches(engine, "slots", &plan, signal);
        test_plan_free(&plan);
    }
    signal_free(signal);
    engine_seams.local_bytes = 0;
    harness_engine_close(engine);
    engine = harness_engine();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),        cmocka_unit_test(channels_stay_apart),
        cmocka_unit_test(full_scale),    cmocka_unit_test(gaps_and_batches),
        cmocka_unit_test(rows_together), cmocka_unit_test(beyond_local_memory),
        cmocka_unit_test(own_width),     cmocka_unit_test(who_takes_what),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
