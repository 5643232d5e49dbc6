/*
 * The first pass: every sample format, calibration and alignment becomes the physical value
 * that wire/format.c gives it, the report counts what the block held, and what is not
 * finite, or beyond the plan's limit, becomes zero and is counted.
 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "convolve/check/prepare.h"
#include "tests/support/engine_group.h"
#include "signal/reference.h"

struct given {
    const char *format;
    uint8_t bits; /* 0: all */
    bool left;
};

static const struct given formats[] = {
    {"u8", 0, false},    {"u8", 7, false},     {"u8", 6, true},      {"s16le", 0, false},
    {"s16be", 0, false}, {"s16le", 12, false}, {"s16be", 14, true},  {"s16le", 12, true},
    {"u16le", 0, false}, {"u16be", 0, false},  {"u16le", 12, false}, {"u16be", 14, true},
    {"s24le", 0, false}, {"s24be", 0, false},  {"s24le", 20, false}, {"s24be", 18, true},
    {"s32le", 0, false}, {"s32be", 0, false},  {"s32le", 24, false}, {"s32be", 24, true},
    {"f32le", 0, false}, {"f32be", 0, false},
};

/* The limit by its definition: 2^50 over the greatest gain of an output, and 2^50 codes. */
static double limit_of(const struct test_plan *plan, const struct test_signal *signal,
                       uint32_t input)
{
    double greatest = 1;
    for (uint32_t o = 0; o < plan->spec.outputs_count; o++) {
        double gain = 0;
        for (uint32_t e = 0; e < plan->spec.edge_count; e++) {
            const struct taps *taps = plan->taps[plan->edges[e].taps];
            for (uint32_t k = 0; plan->edges[e].output == o && k < taps->count; k++)
                gain += fabs((double)plan->edges[e].gain) *
                        hypot(taps->re[k], taps->im != NULL ? taps->im[k] : 0);
        }
        greatest = fmax(greatest, gain);
    }
    const double full_scale = channel_scale_factor(&signal->scales[input]);
    const bool floats = signal->format.kind == SAMPLE_FLOAT;
    const double code = floats ? full_scale : ldexp(full_scale, 1 - (int)signal->format.bits);
    return fmin(0x1p50 / greatest, 0x1p50 * code);
}

static double value_of(const struct test_signal *signal, uint64_t n, uint32_t input)
{
    const uint8_t *wire = signal->bytes + (n * signal->inputs + input) * signal->format.bytes;
    return sample_decode(&signal->format, wire) * channel_scale_factor(&signal->scales[input]) -
           signal->scales[input].offset;
}

static void zero_beyond(const struct test_plan *plan, struct test_signal *signal)
{
    for (uint32_t c = 0; c < signal->inputs; c++) {
        const double limit = limit_of(plan, signal, c);
        for (uint64_t n = 0; n < signal->frames; n++)
            if (!(fabs(value_of(signal, n, c)) <= limit))
                signal->values[c * signal->frames + n] = 0;
    }
}

/* The report by its definition, in double. */
static void expect_report(const char *label, const struct test_plan *plan,
                          const struct test_signal *signal, const struct block_report *got,
                          uint64_t block, uint32_t input)
{
    const double limit = limit_of(plan, signal, input);
    /* packed reports of floats round their sums, see struct block_report */
    const double rounding = signal->format.kind == SAMPLE_FLOAT ? 1.6e-5 : 0;
    const uint32_t hop = plan->spec.hop;
    double sum = 0, squares = 0, peak = 0, size = 0;
    uint32_t overload = 0, nonfinite = 0, first = 0, last = 0, present = 0;
    const double low = -1, high = signal->format.kind == SAMPLE_FLOAT
                                      ? 1
                                      : 1 - ldexp(1, 1 - (int)signal->format.bits);
    for (uint32_t t = 0; t < hop; t++) {
        const uint64_t n = block * hop + t;
        if (signal->absent != NULL && signal->absent[n])
            continue;
        present++;
        const double value = signal->values[input * signal->frames + n];
        const double code = sample_decode(
            &signal->format, signal->bytes + (n * signal->inputs + input) * signal->format.bytes);
        if (!(fabs(value_of(signal, n, input)) <= limit)) {
            first = nonfinite == 0 ? t : first;
            last = t;
            nonfinite++;
            continue;
        }
        overload += code >= high || code <= low;
        sum += value;
        size += fabs(value);
        squares += value * value;
        peak = fmax(peak, fabs(value));
    }
    const bool same =
        got->overload == overload && got->nonfinite == nonfinite && got->present == present &&
        (nonfinite == 0 || (got->nonfinite_first == first && got->nonfinite_last == last)) &&
        fabs(got->sum - sum) <= fmax(1e-5 * size, rounding * hop * peak) + 1e-30 &&
        fabs(got->sum_squares - squares) <= fmax(1e-5, 4 * rounding) * squares + 1e-30 &&
        fabs(got->peak - peak) <= 1e-6 * peak;
    if (!same)
        fail_msg("%s: report of block %llu input %u: sum %g (%g) squares %g (%g) peak %g (%g) "
                 "overload %u (%u) "
                 "non-finite %u (%u) from %u (%u) to %u (%u) present %u (%u), expected in brackets",
                 label, (unsigned long long)block, input, (double)got->sum, sum,
                 (double)got->sum_squares, squares, (double)got->peak, peak, got->overload,
                 overload, got->nonfinite, nonfinite, got->nonfinite_first, first,
                 got->nonfinite_last, last, got->present, present);
}

static void run_and_check(const char *label, struct test_signal *signal, const char *variant,
                          uint32_t hop, uint32_t taps)
{
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, hop, taps, false, OUTPUT_REAL);
    plan.spec.variant = variant;
    test_plan_prepare(engine, &plan, signal);
    zero_beyond(&plan, signal);
    struct test_run run =
        run_plan(engine, &plan, signal, &(struct run_options){.seed = 5, .ring_offset = 77});
    expect_convolution(label, &plan, signal, &run, 0, run.frames);
    for (uint64_t block = 0; block < run.blocks; block++)
        for (uint32_t c = 0; c < signal->inputs; c++)
            expect_report(label, &plan, signal, &run.reports[block * signal->inputs + c], block, c);
    test_run_free(&run);
    test_plan_free(&plan);
}

/* Random words: every code of the format, also in bits the format says to ignore. */
static struct test_signal *random_words(const struct given *given, uint32_t inputs, uint64_t frames,
                                        uint64_t seed)
{
    struct test_signal *signal = signal_noise(given->format, inputs, frames, seed);
    if (given->bits != 0) {
        signal->format.bits = given->bits;
        signal->format.left = given->left;
    }
    struct random_state random = {seed};
    if (signal->format.kind != SAMPLE_FLOAT)
        for (uint64_t i = 0; i < frames * inputs * signal->format.bytes; i++)
            signal->bytes[i] = (uint8_t)random_u64(&random);
    for (uint32_t c = 0; c < inputs; c++)
        signal->scales[c] =
            (struct channel_scale){.full_scale = 2.5 + c, .offset = 0.125 * c, .gain_db = 6.0 * c};
    signal_decode(signal);
    return signal;
}

static void every_format(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        for (uint32_t inputs = 1; inputs <= 3; inputs += 2) {
            char label[100];
            snprintf(label, sizeof label, "%s/%u%s, %u channels", formats[i].format,
                     formats[i].bits, formats[i].left ? "left" : "", inputs);
            struct test_signal *signal = random_words(&formats[i], inputs, 700, i);
            run_and_check(label, signal, i % 2 ? "local" : "general", 50, 45);
            signal_free(signal);
        }
}

/* Reports come from each variant's own first pass. */
static void reports_of_every_variant(void **state)
{
    (void)state;
    const char *name;
    for (int v = 0; (name = engine_variant_name(v)) != NULL; v++) {
        if (!harness_runs(engine, name))
            continue;
        struct test_signal *signal = random_words(&formats[3], 2, 2000, 3);
        signal_absent(signal, 333, 777);
        for (uint64_t n = 900; n < 1000; n += 9) /* full-scale codes */
            memcpy(signal->bytes + n * 4, n % 2 ? "\xff\x7f" : "\x00\x80", 2);
        signal_decode(signal);
        run_and_check(name, signal, name, 100, 101);
        signal_free(signal);
    }
}

static void not_finite_is_zero(void **state)
{
    (void)state;
    const char *name;
    for (int v = 0; (name = engine_variant_name(v)) != NULL; v++) {
        if (!harness_runs(engine, name))
            continue;
        struct test_signal *signal = signal_noise("f32le", 2, 1500, 11);
        static const uint64_t places[] = {3, 130, 131, 199, 640, 1000};
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            const float value = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -INFINITY;
            memcpy(signal->bytes + places[i] * 8, &value, sizeof value);
        }
        signal_decode(signal);
        run_and_check(name, signal, name, 100, 150);
        signal_free(signal);
    }
}

/* Huge numbers, a few of them within the limit; noise of unit energy has a gain of about 10. */
static void put_huge(struct test_signal *signal)
{
    static const double huge[] = {9.96921e36, FLT_MAX, -FLT_MAX, 1e20,  -1.9e19, 2e18,
                                  2e15,       1e12,    -1e13,    1e-30, 3.3e38};
    enum { HUGE_COUNT = sizeof huge / sizeof huge[0] };
    static const uint64_t places[] = {3, 130, 131, 199, 640, 1000, 1300};
    for (size_t i = 0; i < 4 * HUGE_COUNT; i++) {
        const uint64_t n = places[i % 7] + i / 7 * 2;
        const uint32_t c = (uint32_t)(i % signal->inputs);
        sample_encode(&signal->format, huge[i % HUGE_COUNT],
                      signal->bytes + (n * signal->inputs + c) * signal->format.bytes);
    }
    signal_decode(signal);
}

static void beyond_the_limit_is_zero(void **state)
{
    (void)state;
    static const struct channel_scale scales[] = {
        {.full_scale = 1}, {.full_scale = 10, .offset = 0.5}, {.full_scale = 1, .gain_db = 60}};
    const char *name;
    for (int v = 0; (name = engine_variant_name(v)) != NULL; v++)
        for (size_t i = 0; harness_runs(engine, name) && i < 2 * (sizeof scales / sizeof *scales);
             i++) {
            struct test_signal *signal = signal_noise(i % 2 ? "f32be" : "f32le", 2, 1500, 11);
            signal->scales[0] = scales[i / 2];
            signal->scales[1] = scales[0];
            put_huge(signal);
            run_and_check(name, signal, name, 100, 150);
            signal_free(signal);
        }
}

/* Channels whose full scale is beyond the limit, integers too: the variants that can compute them
 * zero just these samples, and the others refuse. */
static void full_scale_beyond_the_limit(void **state)
{
    (void)state;
    static const char *const formats_beyond[] = {"s16le", "s24be", "s32le", "u16be", "f32le"};
    const char *name;
    for (size_t i = 0; i < sizeof formats_beyond / sizeof formats_beyond[0]; i++) {
        uint32_t computed = 0;
        for (int v = 0; (name = engine_variant_name(v)) != NULL; v++) {
            if (!harness_runs(engine, name))
                continue;
            struct test_signal *signal = signal_noise(formats_beyond[i], 2, 1500, 11);
            signal->scales[1] = (struct channel_scale){.full_scale = 1e12, .gain_db = -60};
            signal_decode(signal);
            struct test_plan plan;
            test_plan_diagonal(&plan, signal, 100, 150, false, OUTPUT_REAL);
            plan.spec.variant = name;
            test_plan_bind(&plan, signal);
            struct problem problem = {0};
            const int error = plan_prepare(engine, &plan.spec, &plan.plan, &problem);
            if (error < 0)
                assert_int_equal(error, ERROR_UNSUPPORTED);
            test_plan_free(&plan);
            if (error == 0)
                run_and_check(name, signal, name, 100, 150);
            computed += error == 0;
            signal_free(signal);
        }
        assert_true(computed >= 3);
    }
}

/* The exact frames that a report counts, found again in the ring's memory. */
static void frames_beyond_are_found_again(void **state)
{
    (void)state;
    enum { FRAMES = 1024, FROM = 900, ABSENT = 131 };
    static const struct {
        const char *format;
        struct channel_scale scale;
    } cases[] = {
        {"f32le", {.full_scale = 1}},
        {"f32be", {.full_scale = 10, .offset = 0.5}},
        {"f32le", {.full_scale = 1, .gain_db = 60, .offset = -3}},
        {"s24be", {.full_scale = 1e12, .gain_db = -70}},
        {"s16le", {.full_scale = 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct test_signal *signal = signal_noise(cases[i].format, 2, 1500, 11);
        signal->scales[0] = signal->scales[1] = cases[i].scale;
        put_huge(signal);
        struct test_plan plan;
        test_plan_diagonal(&plan, signal, 100, 150, false, OUTPUT_REAL);
        test_plan_prepare(engine, &plan, signal);
        uint32_t present[FRAMES / 32];
        memset(present, 0xff, sizeof present);
        present[ABSENT / 32] &= ~(1u << ABSENT % 32);
        const struct ring ring = {.bytes = signal->bytes,
                                  .present = present,
                                  .frames = FRAMES,
                                  .frame_bytes = 2 * signal->format.bytes};
        for (uint32_t c = 0; c < 2; c++) {
            struct ring_range ranges[FRAMES];
            const uint32_t count =
                engine_nonfinite(plan.plan, &ring, c, FROM, FROM + FRAMES, 0, ranges, FRAMES);
            uint32_t found = 0;
            for (uint64_t at = FROM; at < FROM + FRAMES; at++) {
                const uint64_t n = at % FRAMES;
                if (n == ABSENT || fabs(value_of(signal, n, c)) <= limit_of(&plan, signal, c))
                    continue;
                assert_true(found < count && ranges[found].from == at);
                assert_int_equal(ranges[found++].until, at + 1);
            }
            assert_int_equal(found, count);
            assert_true(count > 3 || signal->format.bytes == 2);
            /* near ones join, and so do all once the list is full */
            struct ring_range few[2];
            const uint32_t joined =
                engine_nonfinite(plan.plan, &ring, c, FROM, FROM + FRAMES, 5, few, 2);
            assert_true(joined <= 2 && (joined > 0) == (count > 0));
            assert_true(count == 0 || (few[0].from == ranges[0].from &&
                                       few[joined - 1].until == ranges[count - 1].until));
        }
        test_plan_free(&plan);
        signal_free(signal);
    }
}

/* The limit falls with the greatest gain of an output, over all its edges. */
static void limit_follows_the_edges(void **state)
{
    (void)state;
    struct test_signal *signal = signal_noise("f32le", 2, 1500, 11);
    put_huge(signal);
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, 100, 150, false, OUTPUT_REAL);
    plan.edges[0].gain = 1e4f;
    plan.edges[1].gain = -1e6f;
    plan.edges[1].output = 0;
    plan.spec.variant = "general";
    test_plan_prepare(engine, &plan, signal);
    zero_beyond(&plan, signal);
    assert_true(limit_of(&plan, signal, 0) < 1e9);
    struct test_run run = run_plan(engine, &plan, signal, &(struct run_options){.seed = 5});
    expect_convolution("gains", &plan, signal, &run, 0, run.frames);
    for (uint64_t block = 0; block < run.blocks; block++)
        for (uint32_t c = 0; c < 2; c++)
            expect_report("gains", &plan, signal, &run.reports[block * 2 + c], block, c);
    test_run_free(&run);
    test_plan_free(&plan);
    signal_free(signal);
}

/* A small signal on a large offset that is subtracted: what is left keeps its digits. */
static void offset_is_subtracted_exactly(void **state)
{
    (void)state;
    static const char *const names[] = {"s32le", "s24be", "f32le"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct test_signal *signal = signal_noise(names[i], 1, 1000, 21);
        for (uint64_t n = 0; n < signal->frames; n++)
            sample_encode(&signal->format, 0.75 + 1e-4 * sin(0.3 * (double)n),
                          signal->bytes + n * signal->format.bytes);
        signal->scales[0] = (struct channel_scale){.full_scale = 10, .offset = 7.5};
        signal_decode(signal);
        run_and_check(names[i], signal, "local", 64, 65);
        signal_free(signal);
    }
}

static double direct_current(uint32_t input, uint64_t frame)
{
    (void)frame;
    return 0.5 + 0.25 * input;
}

/* 1 mV at 0.11 of the rate under 1 V at 0.31. */
static double small_under_large(uint32_t input, uint64_t frame)
{
    return 1e-3 * sin(2 * M_PI * 0.11 * (double)frame + input) +
           sin(2 * M_PI * 0.31 * (double)frame);
}

static double millivolt(uint32_t input, uint64_t frame)
{
    return 1e-3 * sin(2 * M_PI * 0.11 * (double)frame + input);
}

static void band_pass(struct taps *taps, double centre, double width)
{
    const double middle = (taps->count - 1) / 2.0;
    for (uint32_t k = 0; k < taps->count; k++) {
        const double t = k - middle, window = 0.42 + 0.5 * cos(M_PI * t / middle) +
                                              0.08 * cos(2 * M_PI * t / middle);
        const double sinc = t == 0 ? 2 * width : sin(2 * M_PI * width * t) / (M_PI * t);
        taps->re[k] = 2 * sinc * window * cos(2 * M_PI * centre * t);
    }
}

static void signals_that_are_hard(void **state)
{
    (void)state;
    static double (*const values[])(uint32_t, uint64_t) = {direct_current, small_under_large,
                                                           millivolt};
    static const char *const names[] = {"DC", "1 mV in band under 1 V out of band", "1 mV in band"};
    const char *variant;
    for (int v = 0; (variant = engine_variant_name(v)) != NULL; v++)
        for (size_t i = 0; harness_runs(engine, variant) && i < sizeof values / sizeof values[0];
             i++) {
            struct test_signal *signal = signal_from(2, 4000, values[i]);
            struct test_plan plan;
            test_plan_diagonal(&plan, signal, 256, 257, false, OUTPUT_REAL);
            band_pass(plan.taps[0], 0.11, 0.02);
            band_pass(plan.taps[1], 0.11, 0.02);
            plan.spec.variant = variant;
            test_plan_prepare(engine, &plan, signal);
            struct test_run run = run_plan(engine, &plan, signal, &(struct run_options){.seed = 9});
            expect_convolution(names[i], &plan, signal, &run, 0, run.frames);
            /* Block by block: a loud block must not cover for a quiet one. */
            for (uint64_t block = 0; block < run.blocks; block++)
                expect_convolution(names[i], &plan, signal, &run, block * 256, (block + 1) * 256);
            test_run_free(&run);
            test_plan_free(&plan);
            signal_free(signal);
        }
}

/* Signals inside the pass band: the error is small against the output itself. */
static double band_chirp(uint32_t input, uint64_t frame)
{
    const double n = (double)frame;
    return (0.5 + 0.1 * input) * sin(2 * M_PI * (0.10 * n + 0.5 * 5e-6 * n * n));
}

/* Noise inside the band: sines at random frequencies with random phases. */
static double band_noise(uint32_t input, uint64_t frame)
{
    struct random_state random = {77 + input};
    double sum = 0;
    for (int i = 0; i < 40; i++) {
        const double frequency = 0.10 + 0.02 * random_unit(&random);
        sum += sin(2 * M_PI * (frequency * (double)frame + random_unit(&random)));
    }
    return 0.02 * sum;
}

static void pass_band_against_the_output(void **state)
{
    (void)state;
    static double (*const values[])(uint32_t, uint64_t) = {band_chirp, band_noise};
    static const char *const names[] = {"chirp", "noise"};
    const char *variant;
    for (int v = 0; (variant = engine_variant_name(v)) != NULL; v++)
        for (size_t i = 0; harness_runs(engine, variant) && i < sizeof values / sizeof values[0];
             i++) {
            struct test_signal *signal = signal_from(1, 4000, values[i]);
            struct test_plan plan;
            test_plan_diagonal(&plan, signal, 256, 257, false, OUTPUT_REAL);
            band_pass(plan.taps[0], 0.11, 0.03);
            plan.spec.variant = variant;
            test_plan_prepare(engine, &plan, signal);
            struct test_run run = run_plan(engine, &plan, signal, &(struct run_options){.seed = 2});
            double *want = test_malloc((run.frames + 257) * sizeof *want), wrong = 0, size = 0;
            reference_convolve_direct(signal->values, run.frames, plan.taps[0]->re, 257, want);
            for (uint64_t n = 0; n < run.frames; n++) {
                wrong += (run.samples[n] - want[n]) * (run.samples[n] - want[n]);
                size += want[n] * want[n];
            }
            if (!(sqrt(wrong) <= 1e-6 * sqrt(size)))
                fail_msg("%s in the pass band, %s: error %.3g of the output's norm", names[i],
                         variant, sqrt(wrong / size));
            test_free(want);
            test_run_free(&run);
            test_plan_free(&plan);
            signal_free(signal);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format),
        cmocka_unit_test(reports_of_every_variant),
        cmocka_unit_test(not_finite_is_zero),
        cmocka_unit_test(offset_is_subtracted_exactly),
        cmocka_unit_test(beyond_the_limit_is_zero),
        cmocka_unit_test(full_scale_beyond_the_limit),
        cmocka_unit_test(frames_beyond_are_found_again),
        cmocka_unit_test(limit_follows_the_edges),
        cmocka_unit_test(signals_that_are_hard),
        cmocka_unit_test(pass_band_against_the_output),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
