/* The options of hits: what cannot be, said in a sentence before anything runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "analysis/analyses.h"
#include "tests/support/analysis_world.h"

#define RATE 1e6

static const double full_scale = 10, step = 10.0 / 32768;

static void test_check(void **state)
{
    (void)state;
    static const struct {
        const char *settings[4];
        const char *says;
    } cases[] = {
        {{"threshold = 40"}, "has no unit; write 40 dB(AE), 40 mV or 40 V"},
        {{"threshold = 12 V"},
         "warning: threshold: `threshold = 12 V` is not below full scale, 10"},
        {{"threshold = 20 dBFS"}, "is not below full scale"},
        {{"threshold = 100 uV"}, "below one step of the converter, 0.0003052 V"},
        {{"threshold = 40 dB(AE)"}, "below one step of the converter"},
        {{"threshold = 1 Pa"}, "is in Pa, but the unit here is V"},
        {{"threshold = 1 V", "spectrum = 100"}, "power of two"},
        {{"threshold = 1 V", "bands = 50-150 kHz"}, "needs a spectrum"},
        {{"threshold = 1 V", "spectrum = 64", "bands = 400-600 kHz"}, "half the rate"},
        {{"threshold = 1 V", "floating threshold = 5"}, "needs the noise"},
        {{"threshold = 1 V", "hdt = 1 ms", "max duration = 1 ms"}, "every hit ends by timeout"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct analysis_stream stream = analysis_world_stream(1, RATE, "V");
        stream.full_scale = &full_scale;
        stream.step = &step;
        struct analysis_world world;
        const char *settings[5] = {NULL};
        memcpy(settings, cases[k].settings, sizeof cases[k].settings);
        analysis_world_open(&world, &analysis_hits, &stream, settings);
        if (strstr(world.errors, cases[k].says) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", world.errors, cases[k].says);
        analysis_world_close(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
