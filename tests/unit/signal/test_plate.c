/*
 * Acoustic emission on a plate: every sample against the sum of bursts that the emissions and the
 * ways to the sensors give, to a fraction of a frame; what is left of a wave; pieces; errors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "signal/waveform.h"

#define PI   3.14159265358979323846
#define RATE 1e6

enum { CHANNELS = 4, FRAMES = 100000, EMISSIONS = 256 };

static const struct point sensors[CHANNELS] = {{0, 0, 2}, {1, 0, 2}, {0, 0, 0}, {0.2, 0.8, 2}};

static struct waveform_spec spec_of(const struct plate_spec *plate)
{
    struct waveform_spec spec;
    waveform_defaults(&spec, WAVEFORM_AE);
    spec.rate_hz = RATE;
    spec.channels = CHANNELS;
    spec.amplitude = 2;
    spec.arrivals_per_s = 500;
    spec.plate = plate;
    return spec;
}

static struct waveform *created(const struct plate_spec *plate)
{
    const struct waveform_spec spec = spec_of(plate);
    struct waveform *waveform = NULL;
    struct problem problem = {0};
    if (waveform_create(&spec, &waveform, &problem) != 0)
        fail_msg("not created: %s", problem.text);
    return waveform;
}

/* The burst of waveform.h's model, t frames after its arrival. */
static double burst(const struct waveform_spec *spec, double t)
{
    const double rise = spec->rise_s * RATE, decay = spec->decay_s * RATE;
    if (t < 0 || t >= rise + 14 * decay)
        return 0;
    return (t < rise ? t / rise : exp(-(t - rise) / decay)) *
           sin(2 * PI * spec->frequency_hz / RATE * t);
}

static void compare(const struct plate_spec *plate, bool spreading)
{
    const struct waveform_spec spec = spec_of(plate);
    struct waveform *waveform = created(plate);
    static double values[FRAMES * CHANNELS];
    static struct waveform_emission emissions[EMISSIONS];
    waveform_fill(waveform, 0, FRAMES, values);
    const uint32_t count = waveform_emissions(waveform, 0, FRAMES, emissions, EMISSIONS);
    assert_in_range(count, 20, EMISSIONS);
    double worst = 0;
    for (uint32_t c = 0; c < CHANNELS; c++) {
        static double expected[FRAMES];
        memset(expected, 0, sizeof expected);
        for (uint32_t i = 0; i < count && sensors[c].coordinates > 0; i++) {
            const double way = hypot(emissions[i].place.x_m - sensors[c].x_m,
                                     emissions[i].place.y_m - sensors[c].y_m);
            const double arrival = emissions[i].frame + way / plate->velocity_m_s * RATE;
            const double left = spreading && way > 0.1 ? sqrt(0.1 / way) : 1;
            for (uint64_t n = (uint64_t)ceil(arrival); n < FRAMES && (double)n < arrival + 1500;
                 n++)
                expected[n] += left * emissions[i].amplitude * burst(&spec, (double)n - arrival);
        }
        for (uint64_t n = 0; n < FRAMES; n++)
            worst = fmax(worst, fabs(expected[n] - values[n * CHANNELS + c]));
    }
    if (!(worst < 1e-8)) /* of an amplitude of 2: 1e-9 of a frame */
        fail_msg("a sample is off by %g", worst);
    /* frame n is the same in whatever pieces */
    for (uint64_t first = 0; first < FRAMES; first += 997) {
        static double piece[997 * CHANNELS];
        const uint32_t frames = FRAMES - first < 997 ? (uint32_t)(FRAMES - first) : 997;
        waveform_fill(waveform, first, frames, piece);
        assert_memory_equal(piece, values + first * CHANNELS, frames * CHANNELS * sizeof *piece);
    }
    waveform_free(waveform);
}

static void test_arrivals_are_exact(void **state)
{
    (void)state;
    const struct point extent[] = {{0.9, -0.1, 2}, {0.1, 0.7, 2}};
    struct plate_spec plate = {
        .sensors = sensors, .sensor_count = CHANNELS, .velocity_m_s = 5317, .extent = extent};
    compare(&plate, false);
    plate.spreading = true;
    plate.velocity_m_s = 500; /* thousands of frames of way */
    compare(&plate, true);
}

static void test_sources_lie_where_they_may(void **state)
{
    (void)state;
    static struct waveform_emission emissions[EMISSIONS], parts[EMISSIONS];
    const struct point sources[] = {{0.3, 0.4, 2}, {5, -2, 2}};
    const struct point extent[] = {{0.9, -0.1, 2}, {0.1, 0.7, 2}};
    for (int k = 0; k < 3; k++) {
        const struct plate_spec plate = {.sensors = sensors,
                                         .sensor_count = CHANNELS,
                                         .velocity_m_s = 5000,
                                         .sources = sources,
                                         .source_count = k == 0 ? 2 : 0,
                                         .extent = k == 1 ? extent : NULL};
        struct waveform *waveform = created(&plate);
        const uint32_t count = waveform_emissions(waveform, 0, FRAMES, emissions, EMISSIONS);
        unsigned at_first = 0;
        for (uint32_t i = 0; i < count; i++) {
            const struct point place = emissions[i].place;
            at_first += place.x_m == 0.3;
            if (k == 0)
                assert_true((place.x_m == 0.3 && place.y_m == 0.4) ||
                            (place.x_m == 5 && place.y_m == -2));
            else if (k == 1)
                assert_true(place.x_m >= 0.1 && place.x_m <= 0.9 && place.y_m >= -0.1 &&
                            place.y_m <= 0.7);
            else /* the sensors' box */
                assert_true(place.x_m >= 0 && place.x_m <= 1 && place.y_m >= 0 && place.y_m <= 0.8);
            assert_true(emissions[i].amplitude > 0.2 && emissions[i].amplitude <= 2);
        }
        assert_true(k != 0 || (at_first > 5 && at_first < count - 5));
        /* the same in pieces; a full list tells how many there are */
        uint32_t told = 0;
        for (uint64_t first = 0; first < FRAMES; first += 1234) {
            const uint32_t frames = FRAMES - first < 1234 ? (uint32_t)(FRAMES - first) : 1234;
            told += waveform_emissions(waveform, first, frames, parts, EMISSIONS);
        }
        assert_int_equal(told, count);
        assert_int_equal(waveform_emissions(waveform, 0, FRAMES, parts, 3), count);
        waveform_free(waveform);
    }
}

static void test_errors(void **state)
{
    (void)state;
    const struct point line[] = {{0, 0, 1}, {1, 0, 1}, {2, 0, 1}, {3, 0, 1}}, none[4] = {{0}};
    const struct {
        struct plate_spec plate;
        const char *words;
    } cases[] = {
        {{.sensors = sensors, .sensor_count = 3, .velocity_m_s = 1}, "sensors: 3 for 4 channels"},
        {{.sensors = sensors, .sensor_count = 4}, "velocity: sensors need one above 0"},
        {{.sensors = none, .sensor_count = 4, .velocity_m_s = 1}, "sensors: no channel has one"},
        {{.sensors = sensors,
          .sensor_count = 4,
          .velocity_m_s = 1,
          .sources = line,
          .source_count = 2},
         "sources: point 1 has 1 coordinate, the sensors have 2"},
        {{.sensors = line, .sensor_count = 4, .velocity_m_s = 1, .extent = sensors},
         "extent: point 1 has 2 coordinates, the sensors have 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct waveform_spec spec = spec_of(&cases[i].plate);
        struct waveform *waveform;
        struct problem problem = {0};
        assert_int_equal(waveform_create(&spec, &waveform, &problem), ERROR_ARGUMENT);
        if (strstr(problem.text, cases[i].words) == NULL)
            fail_msg("no “%s” in: %s", cases[i].words, problem.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arrivals_are_exact),
        cmocka_unit_test(test_sources_lie_where_they_may),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
