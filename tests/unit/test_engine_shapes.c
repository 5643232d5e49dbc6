/*
 * The engine against direct convolution in double: every variant over blocks, transforms,
 * taps, channels and forms. The table says what is given; what is expected is the
 * definition.
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

struct shape {
    const char *variant; /* NULL: chosen */
    uint32_t hop, fft, taps, channels;
    enum output_form form;
};

static const struct shape shapes[] = {
    {"fused", 64, 0, 1, 1, OUTPUT_REAL},
    {"fused", 64, 0, 65, 3, OUTPUT_REAL},
    {"fused", 100, 256, 157, 2, OUTPUT_REAL},
    {"general", 64, 0, 64, 2, OUTPUT_REAL},
    {"general", 64, 128, 1000, 2, OUTPUT_REAL},
    {"overlap-add", 64, 0, 65, 3, OUTPUT_REAL},
    {"overlap-add", 32, 256, 200, 3, OUTPUT_ENVELOPE},
    {"overlap-add-general", 64, 128, 1000, 2, OUTPUT_REAL},
    {"fused", 256, 0, 257, 16, OUTPUT_COMPLEX},
    {"general", 256, 0, 2570, 2, OUTPUT_ENVELOPE},
};

static void matches_the_definition(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const struct shape *shape = &shapes[i];
        char label[160];
        snprintf(label, sizeof label, "%s, hop %u, fft %u, taps %u, channels %u, form %d",
                 shape->variant != NULL ? shape->variant : "chosen", shape->hop, shape->fft,
                 shape->taps, shape->channels, (int)shape->form);
        struct test_signal *signal =
            signal_noise("s16be", shape->channels, 3 * shape->taps + 20 * shape->hop, i);
        struct test_plan plan;
        test_plan_diagonal(&plan, signal, shape->hop, shape->taps, shape->form != OUTPUT_REAL,
                           shape->form);
        plan.spec.variant = shape->variant;
        plan.spec.fft = shape->fft;
        test_plan_prepare(engine, &plan, signal);
        struct test_run run = run_plan(engine, &plan, signal,
                                       &(struct run_options){.seed = i, .ring_offset = 1000003});
        double error = expect_convolution(label, &plan, signal, &run, 0, run.frames);
        print_message("%s: N %u, %u partitions, error %.2g\n", label, plan_info(plan.plan)->fft,
                      plan_info(plan.plan)->partitions, error);
        test_run_free(&run);
        test_plan_free(&plan);
        signal_free(signal);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_the_definition),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
