/*
 * The engine against the definition in double: every variant over blocks, transforms, taps,
 * channels and forms, in random splits into batches. What is given comes from the two
 * tables; what is expected is linear convolution within the error bound.
 *
 * long: also, every transform length
 * turns: yes
 * sanitizers: no, a sweep over sizes of the code that test_engine_edges runs
 * takes: 4 s CPU in 4 s
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/engine_group.h"

struct shape {
    const char *variant;
    uint32_t hop, fft, taps, channels;
    enum output_form form;
    bool complex_taps;
};

static double run_shape(const struct shape *shape, uint64_t seed)
{
    static const char *const forms[] = {"real", "complex", "envelope"};
    char label[200];
    snprintf(label, sizeof label, "%s, hop %u, fft %u, %u %s taps, %u channels, %s",
             shape->variant != NULL ? shape->variant : "chosen", shape->hop, shape->fft,
             shape->taps, shape->complex_taps ? "complex" : "real", shape->channels,
             forms[shape->form]);
    const uint64_t frames = shape->taps + 6 * (uint64_t)shape->hop;
    struct test_signal *signal = signal_noise("s16be", shape->channels, frames, seed);
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, shape->hop, shape->taps, shape->complex_taps, shape->form);
    plan.spec.variant = shape->variant;
    plan.spec.fft = shape->fft;
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

static const char *const variants[] = {"local", "partitioned", "general", "overlap-add",
                                       "overlap-add-general"};
static const uint32_t channel_counts[] = {1, 2, 3, 16, 17, 64};

/* One partition: taps at each end of what N and L allow. */
static void one_block_filters(void **state)
{
    (void)state;
    static const uint32_t ffts[] = {64, 128, 256, 512, 1024, 2048, 4096, 8192};
    uint64_t turn = 0;
    double worst = 0;
    for (size_t f = 0; f < sizeof ffts / sizeof ffts[0]; f++) {
        if (!harness_every_shape() && f != 0 && f != 3 && f != 7)
            continue;
        const uint32_t fft = ffts[f], hops[] = {fft / 2, fft / 4 + 3, 1, fft};
        for (size_t l = 0; l < sizeof hops / sizeof hops[0]; l++) {
            const uint32_t hop = hops[l], most = fft - hop + 1;
            const uint32_t taps[] = {1, 2, hop, hop + 1, most};
            for (size_t t = 0; t < sizeof taps / sizeof taps[0]; t++) {
                if (taps[t] > most || (t > 0 && taps[t] <= taps[t - 1]))
                    continue;
                if (hop == 1 && taps[t] > 2 && fft > 256)
                    continue;
                for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++, turn++) {
                    const struct shape shape = {
                        .variant = variants[v],
                        .hop = hop,
                        .fft = fft,
                        .taps = taps[t],
                        .channels = channel_counts[turn % (fft > 1024 ? 3 : 6)],
                        .form = (enum output_form)((turn / 2) % 3),
                        .complex_taps = turn % 3 != 0,
                    };
                    const double error = run_shape(&shape, turn);
                    worst = error > worst ? error : worst;
                }
            }
        }
    }
    print_message("%llu plans of one partition, largest error %.2g\n", (unsigned long long)turn,
                  worst);
}

/* Several partitions: N = 2L and longer ones, whose partitions span several blocks. */
static const struct shape partitioned[] = {
    {"general", 64, 128, 129, 1, OUTPUT_REAL, false},
    {"general", 64, 128, 1000, 17, OUTPUT_COMPLEX, true},
    {"general", 64, 256, 1000, 3, OUTPUT_ENVELOPE, true},
    {"general", 64, 1024, 5000, 2, OUTPUT_REAL, false},
    {"general", 100, 256, 999, 2, OUTPUT_REAL, true},
    {"general", 31, 64, 700, 2, OUTPUT_REAL, false},
    {"general", 32, 64, 32 * 130, 1, OUTPUT_REAL, false},
    {"general", 512, 1024, 10000, 16, OUTPUT_REAL, false},
    {"general", 3000, 8192, 20000, 2, OUTPUT_ENVELOPE, true},
    {"partitioned", 64, 128, 129, 1, OUTPUT_REAL, false},
    {"partitioned", 64, 0, 1000, 17, OUTPUT_COMPLEX, true},
    {"partitioned", 16, 0, 3000, 3, OUTPUT_ENVELOPE, true},
    {"partitioned", 31, 0, 5000, 2, OUTPUT_REAL, false},
    {"partitioned", 100, 0, 9999, 2, OUTPUT_REAL, true},
    {"partitioned", 64, 256, 20000, 16, OUTPUT_REAL, false},
    {"overlap-add-general", 64, 128, 129, 1, OUTPUT_REAL, false},
    {"overlap-add-general", 64, 256, 1000, 3, OUTPUT_COMPLEX, true},
    {"overlap-add-general", 100, 512, 3000, 2, OUTPUT_ENVELOPE, true},
    {"overlap-add-general", 512, 1024, 10000, 3, OUTPUT_REAL, false},
    /* chosen by rule */
    {NULL, 64, 0, 1, 64, OUTPUT_REAL, false},
    {NULL, 64, 0, 4095, 16, OUTPUT_REAL, false},
    {NULL, 512, 0, 513, 2, OUTPUT_ENVELOPE, true},
    {NULL, 1, 0, 31, 1, OUTPUT_REAL, false},
    {NULL, 480, 0, 100000, 1, OUTPUT_REAL, false},
    {NULL, 1000, 0, 1001, 1, OUTPUT_REAL, false},
    {NULL, 20000, 0, 3000, 1, OUTPUT_REAL, false},
};

static void partitioned_filters(void **state)
{
    (void)state;
    double worst = 0;
    for (size_t i = 0; i < sizeof partitioned / sizeof partitioned[0]; i++) {
        const double error = run_shape(&partitioned[i], 5000 + i);
        worst = error > worst ? error : worst;
    }
    print_message("partitions: largest error %.2g\n", worst);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_block_filters),
        cmocka_unit_test(partitioned_filters),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
