/* A chirp that comes back late, weak, inverted and in noise is found to the frame, and to a tenth
 * of one; noise alone is not taken for it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/error.h"
#include "core/random.h"
#include "signal/round_trip.h"

enum { FRAMES = 24000 };

struct given {
    double delay, gain, noise; /* noise: sigma */
    bool found;
};

/* The chirp `delay` later, by its spectrum's definition: a sinc of 64 frames. */
static void delayed(double *heard, const struct given *given)
{
    static float chirp[ROUND_TRIP_CHIRP_FRAMES];
    struct random_state random = {7};
    round_trip_chirp(chirp);
    int whole = (int)floor(given->delay);
    double part = given->delay - whole;
    for (int n = 0; n < FRAMES; n++) {
        double sum = 0;
        for (int k = -32; k <= 32; k++) {
            int m = n - whole + k;
            double t = k + part == 0 ? 1 : sin(M_PI * (k + part)) / (M_PI * (k + part));
            double window = 0.5 + 0.5 * cos(M_PI * (k + part) / 33.5);
            if (m >= 0 && m < ROUND_TRIP_CHIRP_FRAMES)
                sum += chirp[m] * t * window;
        }
        heard[n] = given->gain * sum + given->noise * random_normal(&random);
    }
}

static void test_found(void **state)
{
    (void)state;
    static const struct given table[] = {
        {0, 1, 0, true},         {64, 1, 0, true},        {1187, -0.01, 0.001, true},
        {1187.25, 0.1, 0, true}, {19000.5, 0.1, 0, true}, {333, 0.1, 0.1, true},
        {333, 0, 0.1, false},    {0, 0, 0, false}, /* silence */
    };
    double *heard = malloc(FRAMES * sizeof *heard);
    assert_non_null(heard);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct round_trip found;
        delayed(heard, &table[i]);
        assert_int_equal(round_trip_find(heard, FRAMES, &found), 0);
        assert_int_equal(found.found, table[i].found);
        if (!table[i].found)
            continue;
        if (fabs(found.frames - table[i].delay) > (table[i].noise > 0 ? 0.2 : 0.1))
            fail_msg("%g frames: found %g", table[i].delay, found.frames);
        assert_true(fabs(found.level / fabs(table[i].gain) - 1) < 0.25);
    }
    assert_int_equal(round_trip_find(heard, 100, &(struct round_trip){0}), ERROR_ARGUMENT);
    free(heard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
