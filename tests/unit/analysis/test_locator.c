/*
 * The locator: exact arrivals of random sources at random sensors are located to 1e-6 m on planes
 * and lines; the covariance against the scatter of noisy arrivals; LUCY by its formula; second
 * minima; layouts that cannot locate.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "analysis/locator.h"
#include "core/random.h"

enum { SENSORS = 12 };

struct world {
    struct point sensors[SENSORS];
    struct locator_spec spec;
    struct locator *locator;
};

static double between(struct random_state *random, double low, double high)
{
    return low + (high - low) * random_unit(random);
}

static void open_locator(struct world *w)
{
    struct problem problem;
    assert_int_equal(locator_layout(w->sensors, w->spec.count, w->spec.plane, &problem), 0);
    assert_int_equal(locator_open(&w->spec, &w->locator, &problem), 0);
}

/* Sensors in a box of a random size and place; the extent is the box and a tenth more. */
static void make_world(struct world *w, struct random_state *random, bool plane, uint32_t count)
{
    const double size = pow(10, between(random, -1, 1.5)), shape = between(random, 0.2, 1);
    const double x = between(random, -5, 5), y = between(random, -5, 5);
    struct problem problem;
    do {
        for (uint32_t i = 0; i < count; i++)
            w->sensors[i] =
                (struct point){x + between(random, 0, size),
                               plane ? y + between(random, 0, shape * size) : 0, plane ? 2 : 1};
    } while (locator_layout(w->sensors, count, plane, &problem) != 0);
    w->spec = (struct locator_spec){
        .plane = plane,
        .sensors = w->sensors,
        .count = count,
        .low = {x - 0.1 * size, plane ? y - 0.1 * size : 0, 2},
        .high = {x + 1.1 * size, plane ? y + (shape + 0.1) * size : 0, 2},
        .velocity_m_s = pow(10, between(random, 2, 4)),
        .sigma_t_s = 1e-9,
        .grid = 64,
    };
    open_locator(w);
}

/* In order of time, as hits come. */
static void arrivals_from(const struct world *w, double x, double y, double origin_s,
                          struct arrival *arrivals)
{
    for (uint32_t i = 0; i < w->spec.count; i++) {
        const struct arrival arrival = {
            i,
            origin_s + hypot(x - w->sensors[i].x_m, y - w->sensors[i].y_m) / w->spec.velocity_m_s};
        uint32_t k = i;
        for (; k > 0 && arrivals[k - 1].time_s > arrival.time_s; k--)
            arrivals[k] = arrivals[k - 1];
        arrivals[k] = arrival;
    }
}

static bool found(const struct place *place, double x, double y, double within)
{
    return hypot(place->x_m - x, place->y_m - y) < within ||
           (place->ambiguous && hypot(place->second_x_m - x, place->second_y_m - y) < within);
}

static void locate_random(bool plane, uint32_t count, uint64_t seed, unsigned sources)
{
    struct random_state random = {seed};
    struct world w;
    make_world(&w, &random, plane, count);
    for (unsigned n = 0; n < sources; n++) {
        double low = w.spec.low.x_m, high = w.spec.high.x_m;
        if (!plane) { /* beyond the outer sensors only the side is known */
            low = INFINITY, high = -INFINITY;
            for (uint32_t i = 0; i < count; i++) {
                low = fmin(low, w.sensors[i].x_m);
                high = fmax(high, w.sensors[i].x_m);
            }
        }
        const double x = between(&random, low, high);
        const double y = plane ? between(&random, w.spec.low.y_m, w.spec.high.y_m) : 0;
        const double origin = between(&random, -1e-3, 1e-3);
        struct arrival arrivals[SENSORS];
        arrivals_from(&w, x, y, origin, arrivals);
        struct place place;
        if (!locator_find(w.locator, arrivals, count, &place) || !found(&place, x, y, 1e-6))
            fail_msg("seed %llu, %u sensors, source %u: (%.9g, %.9g) instead of (%.9g, %.9g)%s",
                     (unsigned long long)seed, count, n, place.x_m, place.y_m, x, y,
                     place.ambiguous ? ", ambiguous" : "");
        if (hypot(place.x_m - x, place.y_m - y) < 1e-6) {
            assert_true(fabs(place.origin_s - origin) < 1e-6 / w.spec.velocity_m_s);
            assert_true(place.lucy_m < 1e-9);
        }
    }
    locator_close(w.locator);
}

static void test_exact_arrivals_on_planes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++)
        locate_random(true, 3 + (uint32_t)(seed % 7), seed, 40);
}

static void test_exact_arrivals_on_lines(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++)
        locate_random(false, 2 + (uint32_t)(seed % 6), seed, 40);
}

/* A source at a sensor, and on the line through two of them. */
static void test_exact_arrivals_at_sensors(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct random_state random = {seed};
        struct world w;
        make_world(&w, &random, true, 5);
        struct arrival arrivals[SENSORS];
        struct place place;
        for (uint32_t i = 0; i < 5; i++) {
            const struct point a = w.sensors[i], b = w.sensors[(i + 1) % 5];
            const double shares[] = {0, 0.5};
            for (int k = 0; k < 2; k++) {
                const double x = a.x_m + shares[k] * (b.x_m - a.x_m);
                const double y = a.y_m + shares[k] * (b.y_m - a.y_m);
                arrivals_from(&w, x, y, 0, arrivals);
                assert_true(locator_find(w.locator, arrivals, 5, &place));
                assert_true(found(&place, x, y, 1e-6));
            }
        }
        locator_close(w.locator);
    }
}

/* ---- uncertainty ------------------------------------------------------------------------- */

static struct world square_plate(double sigma_t_s, double sigma_v_m_s)
{
    struct world w = {.sensors = {{0, 0, 2}, {1, 0, 2}, {1, 0.8, 2}, {0, 0.8, 2}}};
    w.spec = (struct locator_spec){
        .plane = true,
        .count = 4,
        .low = {-0.1, -0.1, 2},
        .high = {1.1, 0.9, 2},
        .velocity_m_s = 5000,
        .sigma_t_s = sigma_t_s,
        .sigma_v_m_s = sigma_v_m_s,
        .grid = 64,
    };
    return w;
}

static void within(double got, double expected, double relative)
{
    if (!(fabs(got - expected) <= relative * fabs(expected)))
        fail_msg("%.9g is not within %g of %.9g", got, relative, expected);
}

static void test_covariance_is_the_scatter(void **state)
{
    (void)state;
    enum { TRIALS = 4000 };
    static const struct {
        bool plane;
        double x, y;
    } cases[] = {{true, 0.3, 0.5}, {true, 0.5, 0.4}, {true, 0.05, 0.75}, {false, 0.3, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world w = square_plate(0.2e-6, 0);
        if (!cases[i].plane) {
            w.spec.plane = false;
            w.spec.count = 3;
            w.sensors[0] = (struct point){0, 0, 1};
            w.sensors[1] = (struct point){0.7, 0, 1};
            w.sensors[2] = (struct point){2, 0, 1};
            w.spec.high.x_m = 3;
        }
        w.spec.sensors = w.sensors;
        open_locator(&w);
        struct random_state random = {i + 1};
        double x = 0, y = 0, xx = 0, xy = 0, yy = 0, tt = 0;
        struct place place;
        for (int n = 0; n < TRIALS; n++) {
            struct arrival arrivals[SENSORS];
            arrivals_from(&w, cases[i].x, cases[i].y, 0, arrivals);
            for (uint32_t k = 0; k < w.spec.count; k++)
                arrivals[k].time_s += w.spec.sigma_t_s * random_normal(&random);
            assert_true(locator_find(w.locator, arrivals, w.spec.count, &place));
            const double dx = place.x_m - cases[i].x, dy = place.y_m - cases[i].y;
            x += dx / TRIALS;
            y += dy / TRIALS;
            xx += dx * dx / TRIALS;
            xy += dx * dy / TRIALS;
            yy += dy * dy / TRIALS;
            tt += place.origin_s * place.origin_s / TRIALS;
        }
        /* Exact arrivals have the uncertainty that is given. */
        struct arrival exact[SENSORS];
        arrivals_from(&w, cases[i].x, cases[i].y, 0, exact);
        assert_true(locator_find(w.locator, exact, w.spec.count, &place));
        within(xx, place.xx_m2, 0.1);
        within(tt, place.origin_variance_s2, 0.1);
        if (cases[i].plane) {
            within(yy, place.yy_m2, 0.1);
            assert_true(fabs(xy - place.xy_m2) < 0.1 * sqrt(xx * yy));
        }
        assert_true(x * x < 20 * xx / TRIALS + 1e-10 && y * y < 20 * yy / TRIALS + 1e-10);
        locator_close(w.locator);
    }
}

/* A wrong velocity moves the place by its derivative. */
static void test_covariance_of_the_velocity(void **state)
{
    (void)state;
    const double off = 0.5; /* m/s */
    struct world w = square_plate(1e-15, off);
    w.spec.sensors = w.sensors;
    open_locator(&w);
    struct arrival arrivals[SENSORS]; /* three leave no residuals */
    struct place place;
    arrivals_from(&w, 0.2, 0.3, 0, arrivals);
    for (uint32_t i = 0; i < 4; i++) /* as if the velocity were higher */
        arrivals[i].time_s *= 5000 / (5000 + off);
    assert_true(locator_find(w.locator, arrivals, 3, &place));
    within(sqrt(place.xx_m2), fabs(place.x_m - 0.2), 1e-2);
    within(sqrt(place.yy_m2), fabs(place.y_m - 0.3), 1e-2);
    within(place.xy_m2, (place.x_m - 0.2) * (place.y_m - 0.3), 1e-2);
    within(sqrt(place.origin_variance_s2), fabs(place.origin_s), 2e-2);
    locator_close(w.locator);
}

/* Arrivals that disagree by more than the uncertainty that is given: the place is as uncertain as
 * they are. Three arrivals fit any place exactly, and say nothing. */
static void test_residuals_widen_the_covariance(void **state)
{
    (void)state;
    enum { TRIALS = 2000 };
    const double given_s = 1e-7, true_s = 1e-6;
    struct world w = square_plate(given_s, 0);
    w.spec.sensors = w.sensors;
    open_locator(&w);
    struct random_state random = {5};
    struct place place;
    double squares = 0, stated = 0, least = INFINITY;
    for (int n = 0; n < TRIALS; n++) {
        struct arrival arrivals[SENSORS];
        arrivals_from(&w, 0.4, 0.5, 0, arrivals);
        for (uint32_t k = 0; k < 4; k++)
            arrivals[k].time_s += true_s * random_normal(&random);
        assert_true(locator_find(w.locator, arrivals, 4, &place));
        squares += (place.x_m - 0.4) * (place.x_m - 0.4) / TRIALS;
        stated += place.xx_m2 / TRIALS;
        least = fmin(least, place.xx_m2);
        assert_true(locator_find(w.locator, arrivals, 3, &place));
        const double three = place.xx_m2;
        arrivals[2].time_s += 5e-6;
        assert_true(!locator_find(w.locator, arrivals, 3, &place) || place.xx_m2 < 20 * three);
    }
    within(stated, squares, 0.1);
    struct arrival exact[SENSORS];
    arrivals_from(&w, 0.4, 0.5, 0, exact);
    assert_true(locator_find(w.locator, exact, 4, &place));
    assert_true(least >= place.xx_m2 * (1 - 1e-2));
    within(place.xx_m2, squares * given_s * given_s / (true_s * true_s), 0.1);
    locator_close(w.locator);
}

static void test_lucy_and_residuals(void **state)
{
    (void)state;
    struct world w = square_plate(1e-6, 0);
    w.spec.sensors = w.sensors;
    open_locator(&w);
    struct arrival arrivals[SENSORS];
    struct place place;
    arrivals_from(&w, 0.4, 0.5, 2e-3, arrivals);
    arrivals[1].time_s += 3e-6;
    arrivals[3].time_s -= 2e-6;
    assert_true(locator_find(w.locator, arrivals, 4, &place));
    double distance[4], sum = 0, mean = 0;
    for (int i = 0; i < 4; i++) {
        const struct point s = w.sensors[arrivals[i].sensor];
        distance[i] = hypot(place.x_m - s.x_m, place.y_m - s.y_m);
        const double difference =
            distance[i] - distance[0] - 5000 * (arrivals[i].time_s - arrivals[0].time_s);
        sum += i > 0 ? difference * difference : 0;
        mean += place.residuals_s[i];
        within(place.residuals_s[i], arrivals[i].time_s - place.origin_s - distance[i] / 5000,
               1e-6);
    }
    within(place.lucy_m, sqrt(sum / 3), 1e-9);
    assert_true(fabs(mean) < 1e-15);
    /* no place is better: the least sum of squares */
    for (int k = 0; k < 8; k++) {
        const double x = place.x_m + 1e-4 * cos(k), y = place.y_m + 1e-4 * sin(k);
        double r[4], average = 0, own = 0, other = 0;
        for (int i = 0; i < 4; i++) {
            const struct point s = w.sensors[arrivals[i].sensor];
            r[i] = arrivals[i].time_s - hypot(x - s.x_m, y - s.y_m) / 5000;
            average += r[i] / 4;
        }
        for (int i = 0; i < 4; i++) {
            other += (r[i] - average) * (r[i] - average);
            own += place.residuals_s[i] * place.residuals_s[i];
        }
        assert_true(other > own);
    }
    locator_close(w.locator);
}

/* ---- second minima ----------------------------------------------------------------------- */

/* Behind a sensor two hyperbolas of three sensors cross twice. */
static void test_two_places_of_three_sensors(void **state)
{
    (void)state;
    struct world w = {.sensors = {{0, 0, 2}, {1, 0, 2}, {0.5, 0.8, 2}}};
    w.spec = (struct locator_spec){.plane = true,
                                   .sensors = w.sensors,
                                   .count = 3,
                                   .low = {-1, -1, 2},
                                   .high = {2, 2, 2},
                                   .velocity_m_s = 3000,
                                   .sigma_t_s = 1e-7,
                                   .grid = 64};
    open_locator(&w);
    struct arrival arrivals[SENSORS];
    struct place place, other;
    arrivals_from(&w, -0.3, -0.1, 0, arrivals);
    assert_true(locator_find(w.locator, arrivals, 3, &place));
    assert_true(place.ambiguous && found(&place, -0.3, -0.1, 1e-6));
    /* the other one gives the same differences */
    arrivals_from(&w, place.second_x_m, place.second_y_m, 0, arrivals);
    assert_true(locator_find(w.locator, arrivals, 3, &other));
    assert_true(other.ambiguous && found(&other, -0.3, -0.1, 1e-6));
    arrivals_from(&w, 0.5, 0.3, 0, arrivals); /* within the triangle there is one */
    assert_true(locator_find(w.locator, arrivals, 3, &place));
    assert_false(place.ambiguous);
    assert_true(isnan(place.second_x_m));
    locator_close(w.locator);
}

static void test_beyond_the_ends_of_a_line(void **state)
{
    (void)state;
    struct world w = {.sensors = {{1, 0, 1}, {3, 0, 1}}};
    w.spec = (struct locator_spec){.sensors = w.sensors,
                                   .count = 2,
                                   .low = {0, 0, 1},
                                   .high = {5, 0, 1},
                                   .velocity_m_s = 5000,
                                   .sigma_t_s = 1e-7,
                                   .grid = 64};
    open_locator(&w);
    struct arrival arrivals[SENSORS];
    struct place place;
    static const double sources[][3] = {{0.5, 1, 0}, {4.2, 3, 5}}; /* x, sensor, end */
    for (int i = 0; i < 2; i++) {
        arrivals_from(&w, sources[i][0], 0, 0, arrivals);
        assert_true(locator_find(w.locator, arrivals, 2, &place));
        assert_true(place.ambiguous);
        within(place.x_m, sources[i][1], 1e-12);
        assert_true(place.second_x_m == sources[i][2]);
    }
    arrivals_from(&w, 1.5, 0, 0, arrivals);
    assert_true(locator_find(w.locator, arrivals, 2, &place));
    assert_false(place.ambiguous);
    locator_close(w.locator);
}

static void test_outside_the_extent(void **state)
{
    (void)state;
    struct world w = square_plate(1e-7, 0);
    w.spec.sensors = w.sensors;
    open_locator(&w);
    struct arrival arrivals[SENSORS];
    struct place place;
    arrivals_from(&w, 1.5, 1.6, 0, arrivals);
    assert_false(locator_find(w.locator, arrivals, 4, &place));
    locator_close(w.locator);
}

/* ---- layouts ----------------------------------------------------------------------------- */

static void test_layouts(void **state)
{
    (void)state;
    static const struct {
        bool plane;
        struct point sensors[4];
        const char *error; /* NULL: it can locate */
    } cases[] = {
        {true, {{0, 0, 2}, {1, 0, 2}, {0, 1, 2}, {1, 1, 2}}, NULL},
        {true, {{0, 0, 2}, {1, 0, 2}, {0, 1, 2}, {0, 0, 0}}, NULL},
        {true, {{0, 0, 2}, {1, 0, 2}, {0, 0, 0}, {0, 0, 0}}, "2 sensors: a plane needs at least 3"},
        {true, {{0, 0, 2}, {1, 1, 2}, {2, 2, 2}, {3, 3, 2}}, "all sensors lie in one line"},
        {true, {{0, 0, 2}, {1, 1, 2}, {2, 2.001, 2}, {3, 3, 2}}, "all sensors lie in one line"},
        {true, {{0, 0, 2}, {1, 0, 2}, {0, 1, 2}, {1, 0, 2}}, "channels 2 and 4 are in one place"},
        {true, {{0, 0, 0}, {1, 0, 2}, {0, 1, 2}, {1, 1, 2}}, NULL},
        {false, {{0, 0, 1}, {1, 0, 1}, {0, 0, 0}, {0, 0, 0}}, NULL},
        {false, {{0, 0, 1}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}}, "1 sensor: a line needs at least 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct problem problem = {0};
        const int status = locator_layout(cases[i].sensors, 4, cases[i].plane, &problem);
        assert_int_equal(status, cases[i].error != NULL ? ERROR_CONFIG : 0);
        if (cases[i].error != NULL && strstr(problem.text, cases[i].error) == NULL)
            fail_msg("no “%s” in: %s", cases[i].error, problem.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_arrivals_on_planes),
        cmocka_unit_test(test_exact_arrivals_on_lines),
        cmocka_unit_test(test_exact_arrivals_at_sensors),
        cmocka_unit_test(test_covariance_is_the_scatter),
        cmocka_unit_test(test_covariance_of_the_velocity),
        cmocka_unit_test(test_residuals_widen_the_covariance),
        cmocka_unit_test(test_lucy_and_residuals),
        cmocka_unit_test(test_two_places_of_three_sensors),
        cmocka_unit_test(test_beyond_the_ends_of_a_line),
        cmocka_unit_test(test_outside_the_extent),
        cmocka_unit_test(test_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
