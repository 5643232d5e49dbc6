/*
 * Spectra of convolv-web against the definition: the density of known signals in unit²/Hz, each
 * window, channels in pairs, and what is left out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "clients/web/spectrum.h"
#include "core/random.h"

enum { FFT = 256, BINS = FFT / 2 + 1, FRAMES = 64 * FFT };

static const double rate_hz = 48000;
static const uint16_t list[] = {2, 0, 1};

static struct trace trace;
static struct spectrum spectrum;
static float density[3 * BINS];

/* Channel 0: a sine of amplitude 0.5 in the middle of bin 32; 1: white noise of deviation 0.1; 2:
 * DC 0.25. */
static void make(void)
{
    struct random_state random = {.state = 5};
    float *values = malloc(FRAMES * 3 * sizeof *values);
    assert_int_equal(trace_open(&trace, 3, FRAMES, rate_hz), 0);
    for (int n = 0; n < FRAMES; n++) {
        values[3 * n] = (float)(0.5 * sin(2 * M_PI * 32 * n / FFT + 0.3));
        values[3 * n + 1] = (float)(0.1 * random_normal(&random));
        values[3 * n + 2] = 0.25f;
    }
    trace_put(&trace, 1, 0, FRAMES, values);
    free(values);
}

/* Mean square of a channel by Parseval. */
static double power(uint32_t channel)
{
    double sum = 0;
    for (int k = 0; k < BINS; k++)
        sum += (double)density[channel * BINS + (uint32_t)k] * rate_hz / FFT;
    return sum;
}

/* Each window keeps the mean square: that is what "density" means. */
static void known_signals(void **state)
{
    (void)state;
    for (int window = WINDOW_HANN; window <= WINDOW_FLAT_TOP; window++) {
        make();
        assert_int_equal(spectrum_open(&spectrum, FFT, (enum window)window, rate_hz, list, 3), 0);
        assert_int_equal(spectrum_take(&spectrum, &trace, 10000), 2 * FRAMES / FFT - 1);
        spectrum_read(&spectrum, density);
        assert_true(fabs(power(1) - 0.125) < 1e-4);    /* the sine: A² / 2 */
        assert_true(fabs(power(2) - 0.01) < 0.0006);   /* the noise */
        assert_true(fabs(power(0) - 0.0625) < 0.0125); /* DC: its bin counts half */
        double most = 0;
        int at = 0;
        for (int k = 0; k < BINS; k++) {
            if ((double)density[BINS + k] > most) {
                most = (double)density[BINS + k];
                at = k;
            }
        }
        assert_int_equal(at, 32);
        /* White noise: sigma² / (fs / 2) in every bin. */
        for (int k = 8; k < BINS - 8; k++)
            assert_true(fabs((double)density[2 * BINS + k] / (0.01 / (rate_hz / 2)) - 1) < 0.6);
        spectrum_close(&spectrum);
        trace_close(&trace);
    }
}

/* The Hann window's leakage of a sine in the middle of a bin: a quarter of its power in each
 * neighbour, nothing beyond. */
static void leakage(void **state)
{
    static const uint16_t sine[] = {0};
    (void)state;
    make();
    assert_int_equal(spectrum_open(&spectrum, FFT, WINDOW_HANN, rate_hz, sine, 1), 0);
    spectrum_take(&spectrum, &trace, 4);
    assert_int_equal(spectrum.averages, 4);
    spectrum_read(&spectrum, density);
    assert_true(fabs((double)(density[31] / density[32]) - 0.25) < 1e-4);
    assert_true(fabs((double)(density[33] / density[32]) - 0.25) < 1e-4);
    assert_true(density[34] < 1e-6f * density[32]);
    /* S = A² / 2 / (1.5 bins): the noise bandwidth of the window. */
    assert_true(fabs((double)density[32] / (0.125 / (1.5 * rate_hz / FFT)) - 1) < 1e-4);
    spectrum_close(&spectrum);
    trace_close(&trace);
}

/* Segments with an invalid frame are left out; another epoch goes on with the average. */
static void left_out(void **state)
{
    static const uint16_t first[] = {0};
    const float zeros[3 * FFT] = {0};
    (void)state;
    make();
    assert_int_equal(spectrum_open(&spectrum, FFT, WINDOW_HANN, rate_hz, first, 1), 0);
    trace_mark(&trace, 10 * FFT, 10 * FFT + 1, 1); /* in two segments */
    assert_int_equal(spectrum_take(&spectrum, &trace, 10000), 2 * FRAMES / FFT - 1 - 2);
    assert_int_equal(spectrum_take(&spectrum, &trace, 10000), 0);
    trace_put(&trace, 2, 0, FFT, zeros);
    assert_int_equal(spectrum_take(&spectrum, &trace, 10000), 1);
    assert_int_equal(spectrum.averages, 2 * FRAMES / FFT - 2);
    spectrum_clear(&spectrum);
    assert_int_equal(spectrum.averages, 0);
    spectrum_close(&spectrum);
    trace_close(&trace);
}

/* One that is behind goes on with the newest segments. */
static void behind(void **state)
{
    static const uint16_t first[] = {0};
    (void)state;
    make();
    assert_int_equal(spectrum_open(&spectrum, FFT, WINDOW_HANN, rate_hz, first, 1), 0);
    assert_int_equal(spectrum_take(&spectrum, &trace, 3), 3);
    assert_true(spectrum.position + FFT + FFT >= trace.next);
    spectrum_close(&spectrum);
    trace_close(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_signals),
        cmocka_unit_test(leakage),
        cmocka_unit_test(left_out),
        cmocka_unit_test(behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
