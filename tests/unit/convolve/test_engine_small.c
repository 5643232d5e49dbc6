/*
 * Every variant on shapes small enough for a simulator: tests/e2e/oclgrind.sh runs this
 * program under Oclgrind, which reports races, barriers not met by all, and accesses
 * outside a buffer. On a device it is a quick first look.
 *
 * takes: 12 s CPU in 17 s
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/engine_harness.h"
#include "tests/support/engine_seams.h"

static const struct {
    const char *variant, *format;
    uint32_t hop, fft, taps, channels;
    enum output_form form;
    bool local; /* false: as if local memory were too small */
} shapes[] = {
    {"lanes", "s16be", 32, 64, 33, 2, OUTPUT_REAL, true},
    {"lanes", "f32le", 32, 64, 20, 9, OUTPUT_ENVELOPE, true},
    {"lanes", "s24be", 20, 64, 33, 17, OUTPUT_REAL, true},
    {"fused", "s24be", 40, 64, 25, 2, OUTPUT_ENVELOPE, true},
    {"fused", "f32le", 100, 128, 29, 1, OUTPUT_REAL, true}, /* whole sectors: runs, pairs */
    {"fused", "s16be", 100, 128, 29, 4, OUTPUT_REAL, true},
    {"direct", "s16be", 32, 64, 20, 2, OUTPUT_REAL, true},
    {"direct", "s24le", 45, 64, 9, 17, OUTPUT_REAL, true},
    {"direct", "f32be", 32, 64, 30, 3, OUTPUT_ENVELOPE, true},
    {"local", "s16be", 32, 64, 33, 2, OUTPUT_REAL, true},
    {"local", "s24le", 50, 128, 60, 3, OUTPUT_ENVELOPE, true},
    {"local", "f32be", 100, 256, 157, 1, OUTPUT_COMPLEX, true},
    {"general", "u8", 32, 64, 100, 3, OUTPUT_REAL, true},
    {"general", "s32be", 30, 128, 200, 2, OUTPUT_ENVELOPE, true},
    {"general", "s16le", 128, 256, 129, 1, OUTPUT_REAL, false},
    {"overlap-add", "u16le", 32, 128, 90, 2, OUTPUT_COMPLEX, true},
    {"overlap-add-general", "s16be", 32, 64, 100, 2, OUTPUT_REAL, true},
};

static void small_shapes(void **state)
{
    (void)state;
    for (int local = 1; local >= 0; local--) {
        engine_seams.local_bytes = local ? 0 : 1;
        struct engine *engine = harness_small_engine();
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            if (shapes[i].local != (local != 0) || !harness_runs(engine, shapes[i].variant))
                continue;
            struct test_signal *signal = signal_noise(shapes[i].format, shapes[i].channels,
                                                      shapes[i].taps + 4 * shapes[i].hop, i);
            signal_absent(signal, shapes[i].hop / 2, shapes[i].hop);
            struct test_plan plan;
            test_plan_diagonal(&plan, signal, shapes[i].hop, shapes[i].taps,
                               shapes[i].form != OUTPUT_REAL, shapes[i].form);
            plan.spec.variant = shapes[i].variant;
            plan.spec.fft = shapes[i].fft;
            plan.spec.blocks_max = 2;
            test_plan_prepare(engine, &plan, signal);
            struct test_run run =
                run_plan(engine, &plan, signal, &(struct run_options){.seed = i, .ring_offset = 7});
            expect_convolution(shapes[i].variant, &plan, signal, &run, 0, run.frames);
            print_message("%s on %s: as defined\n", shapes[i].variant, engine_device(engine)->name);
            test_run_free(&run);
            test_plan_free(&plan);
            signal_free(signal);
        }
        harness_engine_close(engine);
    }
    engine_seams.local_bytes = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
