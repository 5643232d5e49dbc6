/*
 * The variants made for GPUs, "fused" and "staged", against the definition in double: every
 * transform they have, channels that fill groups and channels that do not, every sample format,
 * windows that wrap in the ring or miss frames, inputs that nobody hears, and what the reports
 * say. On a CPU the kernels are built as for a GPU.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "convolve/hooks.h"
#include "convolve/registers.h"
#include "engine_harness.h"

static struct engine *engine;

static int open_engine(void **state)
{
    (void)state;
    engine_hooks.gpu_shape = true;
    engine = harness_engine();
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    harness_engine_close(engine);
    return 0;
}

struct shape {
    const char *variant, *format;
    uint32_t fft, hop, taps, channels;
    enum output_form form;
    bool complex_taps;
};

static const struct shape shapes[] = {
    {"fused", "f32le", 64, 32, 33, 1, OUTPUT_REAL, false},
    {"fused", "f32be", 128, 100, 29, 2, OUTPUT_REAL, false},
    {"fused", "s16be", 256, 64, 150, 3, OUTPUT_ENVELOPE, true},
    {"fused", "s16le", 512, 256, 257, 8, OUTPUT_REAL, false},
    {"fused", "s24be", 512, 500, 13, 9, OUTPUT_REAL, false},
    {"fused", "s32le", 1024, 512, 513, 1, OUTPUT_COMPLEX, true},
    {"fused", "u16le", 2048, 1000, 700, 16, OUTPUT_REAL, false},
    {"fused", "f32le", 2048, 2048, 1, 1, OUTPUT_REAL, false},
    {"fused", "s24le", 4096, 2048, 2049, 2, OUTPUT_ENVELOPE, true},
    {"fused", "f32le", 8192, 4096, 4097, 1, OUTPUT_REAL, false},
    {"fused", "s16be", 16384, 8192, 8193, 1, OUTPUT_REAL, false},
    {"fused", "f32le", 16384, 9000, 7000, 2, OUTPUT_COMPLEX, true},
    {"staged", "f32le", 8192, 4096, 4097, 1, OUTPUT_REAL, false},
    {"staged", "s16be", 16384, 5000, 4097, 3, OUTPUT_REAL, false},
    {"staged", "s24le", 32768, 20000, 12769, 2, OUTPUT_ENVELOPE, true},
    {"staged", "f32le", 65536, 32768, 32769, 1, OUTPUT_COMPLEX, true},
    {"staged", "f32be", 131072, 65536, 65537, 1, OUTPUT_REAL, false},
    {"staged", "s16le", 262144, 131072, 100001, 1, OUTPUT_REAL, false},
};

static void shapes_are_as_defined(void **state)
{
    (void)state;
    double worst = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const struct shape *shape = &shapes[i];
        char label[200];
        snprintf(label, sizeof label, "%s, %s, fft %u, hop %u, %u taps, %u channels",
                 shape->variant, shape->format, shape->fft, shape->hop, shape->taps,
                 shape->channels);
        const uint64_t frames = shape->taps + 6 * (uint64_t)shape->hop;
        struct test_signal *signal = signal_noise(shape->format, shape->channels, frames, i);
        struct test_plan plan;
        test_plan_diagonal(&plan, signal, shape->hop, shape->taps, shape->complex_taps,
                           shape->form);
        plan.spec.variant = shape->variant;
        plan.spec.fft = shape->fft;
        plan.spec.blocks_max = 4;
        for (uint32_t e = 0; e < plan.spec.edge_count; e++)
            plan.edges[e].gain = 1.0f - 0.25f * (float)e;
        test_plan_prepare(engine, &plan, signal);
        const struct run_options options = {.seed = i, .ring_offset = 100003 + i};
        struct test_run run = run_plan(engine, &plan, signal, &options);
        const double error = expect_convolution(label, &plan, signal, &run, 0, run.frames);
        worst = error > worst ? error : worst;
        print_message("%s: error %.2g\n", label, error);
        test_run_free(&run);
        test_plan_free(&plan);
        signal_free(signal);
    }
    print_message("largest error %.2g\n", worst);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_are_as_defined),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
