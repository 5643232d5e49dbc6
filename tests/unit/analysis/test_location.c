/*
 * Sources from hits: exact arrivals of random sources come out where they were; which hits belong
 * to one source; when it is told of; state; clusters; Kaiser and Felicity marks; options.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "analysis/analyses.h"
#include "analysis/clusters.h"
#include "analysis/hit.h"
#include "analysis/load_history.h"
#include "analysis/source.h"
#include "tests/support/analysis_world.h"

#define RATE     1e6
#define VELOCITY 5000.0 /* m/s: 5 mm a frame */

static const double sensors[4][2] = {{0, 0}, {1, 0}, {1, 0.8}, {0, 0.8}};
#define PLATE "sensors = 0 0, 1 m 0, 1 m 0.8 m, 0 800 mm", "velocity = 5000 m/s"

static void open_location(struct analysis_world *world, uint32_t channels,
                          const char *const *settings)
{
    const struct analysis_stream stream = analysis_world_stream(channels, RATE, "V");
    analysis_world_open(world, &analysis_location, &stream, settings);
    if (world->analysis == NULL)
        fail_msg("%s", world->errors);
}

static const struct source_event *source(const struct analysis_world *world, size_t i)
{
    assert_in_range(i, 0, world->count - 1);
    assert_int_equal(world->events[i].event.kind, ANALYSIS_SOURCE);
    assert_int_equal(world->events[i].event.body_bytes, sizeof(struct source_event));
    return world->events[i].body;
}

/* ---- hits -------------------------------------------------------------------------------- */

struct sound {
    uint64_t epoch, frame, number;
    uint32_t channel;
    double pick, load;
    uint32_t flags;
};

static void put_hit(struct analysis_world *world, const struct sound *sound)
{
    const struct hit hit = {
        .pick_frames = sound->pick, .peak_db = 60 + sound->channel, .energy_eu = 10};
    const struct analysis_event event = {
        .kind = ANALYSIS_HIT,
        .ordered = true,
        .number = sound->number,
        .channel = sound->channel,
        .epoch = sound->epoch,
        .frame = sound->frame,
        .capture_ns = 1000 * (int64_t)sound->frame,
        .delay_frames = 100,
        .arrival_ns = 1000 * ((int64_t)sound->frame - 100),
        .flags = sound->flags,
        .parameters = {sound->load},
        .parameter_count = 1,
        .body = &hit,
        .body_bytes = sizeof hit,
    };
    world->ops->put_event(world->analysis, &event);
}

static int in_order(const void *a, const void *b)
{
    const struct sound *x = a, *y = b;
    return x->frame != y->frame ? (x->frame < y->frame ? -1 : 1)
                                : (int)x->channel - (int)y->channel;
}

/* Hits of a source at (x, y) that sounds `instant` frames into the epoch: the threshold is crossed
 * up to 20 frames after the arrival. */
static unsigned sounds_of(double x, double y, double instant, struct random_state *random,
                          struct sound sounds[4])
{
    for (uint32_t c = 0; c < 4; c++) {
        const double arrival =
            instant + hypot(x - sensors[c][0], y - sensors[c][1]) / VELOCITY * RATE;
        const uint64_t frame = (uint64_t)ceil(arrival) + random_below(random, 20);
        sounds[c] = (struct sound){.frame = frame, .channel = c, .pick = arrival - (double)frame};
    }
    qsort(sounds, 4, sizeof *sounds, in_order);
    return 4;
}

/* ---- where ------------------------------------------------------------------------------- */

enum { SOURCES = 200, APART = 1000 };

static void put_sources(struct analysis_world *world, bool restore, double truth[SOURCES][3])
{
    struct random_state random = {17}, when = {3};
    uint64_t number = 0;
    for (int i = 0; i < SOURCES; i++) {
        struct sound sounds[4];
        truth[i][0] = random_unit(&random);
        truth[i][1] = 0.8 * random_unit(&random);
        truth[i][2] = APART * (i + 1) + random_unit(&random);
        sounds_of(truth[i][0], truth[i][1], truth[i][2], &random, sounds);
        for (int k = 0; k < 4; k++) {
            sounds[k].number = ++number;
            sounds[k].load = i % 50;
            put_hit(world, &sounds[k]);
            if (restore && random_below(&when, 3) == 0)
                analysis_world_restore(world);
        }
    }
    world->ops->advance(world->analysis, 0, UINT64_MAX);
}

static void test_exact_arrivals(void **state)
{
    (void)state;
    static double truth[SOURCES][3];
    struct analysis_world world;
    open_location(&world, 4, (const char *[]){PLATE, NULL});
    put_sources(&world, false, truth);
    assert_int_equal(world.count, SOURCES);
    for (int i = 0; i < SOURCES; i++) {
        const struct source_event *got = source(&world, (size_t)i);
        const struct analysis_event *event = &world.events[i].event;
        assert_true(hypot(got->x_mm / 1e3 - truth[i][0], got->y_mm / 1e3 - truth[i][1]) < 1e-6);
        /* the instant, with the filter's delay taken off */
        const double origin_us = (double)event->arrival_ns / 1e3 + got->origin_us;
        assert_true(fabs(origin_us - (truth[i][2] - 100)) < 1e-3);
        assert_int_equal(event->number, i + 1);
        assert_true(i == 0 || event->frame > world.events[i - 1].event.frame);
        assert_int_equal(got->hits, 4);
        assert_true(got->energy_eu == 40);
        assert_true(got->lucy_mm < 1e-3 && got->arrivals_us[0] == 0);
        for (int k = 1; k < 4; k++)
            assert_true(got->arrivals_us[k] >= got->arrivals_us[k - 1]);
        assert_true(isnan(got->arrivals_us[4]) && got->channels[4] == 0);
    }
    struct analysis_ledger ledger;
    analysis_location.ledger(world.analysis, &ledger);
    assert_int_equal(ledger.events[ANALYSIS_SOURCE], SOURCES);
    assert_int_equal(ledger.unlocated + ledger.unused, 0);
    analysis_world_close(&world);
}

static void test_state(void **state)
{
    (void)state;
    static double truth[SOURCES][3];
    const char *const settings[] = {PLATE, "cluster radius = 100 mm", "kaiser = yes", NULL};
    struct analysis_world whole, restored;
    open_location(&whole, 4, settings);
    open_location(&restored, 4, settings);
    put_sources(&whole, false, truth);
    put_sources(&restored, true, truth);
    analysis_world_equal(&whole, &restored);
    analysis_world_close(&whole);
    analysis_world_close(&restored);
}

/* Whole frames, as threshold picks give: the places scatter as the covariance says. */
static void test_whole_frames_scatter_as_the_covariance_says(void **state)
{
    (void)state;
    struct random_state random = {5};
    struct analysis_world world;
    open_location(&world, 4, (const char *[]){PLATE, "timing error = 0.288675 frames", NULL});
    double chi = 0;
    for (int i = 0; i < SOURCES; i++) {
        const double x = 0.1 + 0.8 * random_unit(&random), y = 0.1 + 0.6 * random_unit(&random);
        struct sound sounds[4];
        sounds_of(x, y, APART * (i + 1) + random_unit(&random), &random, sounds);
        for (int k = 0; k < 4; k++) {
            sounds[k].frame = (uint64_t)ceil((double)sounds[k].frame + sounds[k].pick);
            sounds[k].pick = 0;
        }
        qsort(sounds, 4, sizeof *sounds, in_order);
        for (int k = 0; k < 4; k++)
            put_hit(&world, &sounds[k]);
        world.ops->advance(world.analysis, 0, APART * ((uint64_t)i + 2));
        const struct source_event *got = source(&world, (size_t)i);
        const double dx = (got->x_mm - x * 1e3) / got->sigma_x_mm;
        const double dy = (got->y_mm - y * 1e3) / got->sigma_y_mm, r = got->correlation;
        chi += (dx * dx - 2 * r * dx * dy + dy * dy) / (1 - r * r) / 2 / SOURCES;
    }
    /* 1 / max(1, z²) expected, z the one residual in units of the timing error: 0.85; 0.07 its
     * deviation. */
    if (!(chi > 0.65 && chi < 1.05))
        fail_msg("chi squared a degree of freedom: %g", chi);
    analysis_world_close(&world);
}

/* ---- which hits -------------------------------------------------------------------------- */

/* The farthest two sensors are 256.1 frames apart; hits stand where a source in the middle of
 * the plate, or at sensor 1, would make them. */
static const struct {
    const char *what;
    struct sound sounds[10]; /* the first with number 0 ends them */
    const char *more;
    unsigned sources;
    uint64_t first[3], hits[3], unused, unlocated;
} groups[] = {
    {"one hit a channel",
     {{.number = 1, .frame = 500, .channel = 0},
      {.number = 2, .frame = 500, .channel = 1},
      {.number = 3, .frame = 501, .channel = 1},
      {.number = 4, .frame = 502, .channel = 2},
      {.number = 5, .frame = 503, .channel = 3}},
     NULL,
     1,
     {500},
     {4},
     1,
     0},
    {"max dt itself belongs, the frame behind it does not",
     {{.number = 1, .frame = 500, .channel = 0},
      {.number = 2, .frame = 660, .channel = 3},
      {.number = 3, .frame = 700, .channel = 1},
      {.number = 4, .frame = 701, .channel = 2}},
     "max dt = 200",
     1,
     {500},
     {3},
     1,
     0},
    {"too few",
     {{.number = 1, .frame = 500, .channel = 0}, {.number = 2, .frame = 510, .channel = 1}},
     NULL,
     0,
     {0},
     {0},
     2,
     0},
    {"silence: an echo opens none",
     {{.number = 1, .frame = 500, .channel = 0},
      {.number = 2, .frame = 500, .channel = 1},
      {.number = 3, .frame = 500, .channel = 2},
      {.number = 4, .frame = 800, .channel = 0},
      {.number = 5, .frame = 800, .channel = 1},
      {.number = 6, .frame = 800, .channel = 2},
      {.number = 7, .frame = 1201, .channel = 0},
      {.number = 8, .frame = 1201, .channel = 1},
      {.number = 9, .frame = 1201, .channel = 2}},
     "first hit discrimination = 400",
     2,
     {500, 1201},
     {3, 3},
     3,
     0},
    {"no silence asked for",
     {{.number = 1, .frame = 500, .channel = 0},
      {.number = 2, .frame = 500, .channel = 1},
      {.number = 3, .frame = 500, .channel = 2},
      {.number = 4, .frame = 770, .channel = 0},
      {.number = 5, .frame = 770, .channel = 1},
      {.number = 6, .frame = 770, .channel = 2}},
     "first hit discrimination = 0",
     2,
     {500, 770},
     {3, 3},
     0,
     0},
    {"epochs",
     {{.number = 1, .epoch = 1, .frame = 500, .channel = 0},
      {.number = 2, .epoch = 1, .frame = 500, .channel = 1},
      {.number = 3, .epoch = 2, .frame = 10, .channel = 0},
      {.number = 4, .epoch = 2, .frame = 10, .channel = 1},
      {.number = 5, .epoch = 2, .frame = 10, .channel = 3}},
     NULL,
     1,
     {10},
     {3},
     2,
     0},
    {"a pick may come before an earlier hit's",
     {{.number = 1, .frame = 500, .channel = 0, .pick = 0},
      {.number = 2, .frame = 510, .channel = 1, .pick = -10.5},
      {.number = 3, .frame = 511, .channel = 2, .pick = -11},
      {.number = 4, .frame = 520, .channel = 3, .pick = -20}},
     NULL,
     1,
     {500},
     {4},
     0,
     0},
    {"no place for such times",
     {{.number = 1, .frame = 500, .channel = 0},
      {.number = 2, .frame = 501, .channel = 2},
      {.number = 3, .frame = 760, .channel = 1}},
     "extent = 300 mm 0, 310 mm 10 mm",
     0,
     {0},
     {0},
     0,
     1},
};

static void test_groups(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        struct analysis_world world;
        open_location(&world, 4, (const char *[]){PLATE, groups[i].more, NULL});
        uint64_t epoch = 0;
        for (int k = 0; k < 10 && groups[i].sounds[k].number > 0; k++) {
            put_hit(&world, &groups[i].sounds[k]);
            epoch = groups[i].sounds[k].epoch;
        }
        world.ops->advance(world.analysis, epoch, UINT64_MAX);
        struct analysis_ledger ledger;
        analysis_location.ledger(world.analysis, &ledger);
        if (world.count != groups[i].sources || ledger.unused != groups[i].unused ||
            ledger.unlocated != groups[i].unlocated)
            fail_msg("%s: %zu sources, %llu hits unused, %llu unlocated", groups[i].what,
                     world.count, (unsigned long long)ledger.unused,
                     (unsigned long long)ledger.unlocated);
        for (size_t k = 0; k < world.count; k++) {
            assert_int_equal(world.events[k].event.frame, groups[i].first[k]);
            assert_int_equal(source(&world, k)->hits, groups[i].hits[k]);
        }
        analysis_world_close(&world);
    }
}

static void test_channels_without_sensor(void **state)
{
    (void)state;
    struct analysis_world world;
    open_location(
        &world, 4,
        (const char *[]){"sensors = 0 0, 1 m 0, none, 0 800 mm", "velocity = 5000 m/s", NULL});
    for (uint32_t c = 0; c < 4; c++)
        put_hit(&world, &(struct sound){.number = c + 1, .frame = 500, .channel = c});
    world.ops->advance(world.analysis, 0, 5000);
    assert_int_equal(world.count, 1);
    const struct source_event *got = source(&world, 0);
    assert_int_equal(got->hits, 3);
    for (int k = 0; k < 3; k++)
        assert_true(got->channels[k] != 3);
    analysis_world_close(&world);
}

static void test_line(void **state)
{
    (void)state;
    struct analysis_world world;
    open_location(&world, 2, (const char *[]){"sensors = 0, 2 m", "velocity = 5000 m/s", NULL});
    put_hit(&world, &(struct sound){.number = 1, .frame = 500, .channel = 1});
    put_hit(&world, &(struct sound){.number = 2, .frame = 600, .channel = 0, .pick = 0.5});
    world.ops->advance(world.analysis, 0, 5000);
    assert_int_equal(world.count, 1);
    const struct source_event *got = source(&world, 0);
    assert_true(fabs(got->x_mm - (1000 + 100.5 * 5 / 2)) < 1e-6);
    assert_true(isnan(got->y_mm) && isnan(got->sigma_y_mm) && isnan(got->second_y_mm));
    /* one frame each: sqrt(2) frames of way, halved */
    assert_true(fabs(got->sigma_x_mm - sqrt(2) * 5 / 2) < 1e-9);
    analysis_world_close(&world);
}

/* ---- when -------------------------------------------------------------------------------- */

static void test_told_when_no_hit_can_follow(void **state)
{
    (void)state;
    struct analysis_world world;
    open_location(&world, 4, (const char *[]){PLATE, "max dt = 300", NULL});
    world.ops->advance(world.analysis, 0, 400);
    assert_int_equal(world.advanced, 400);
    for (uint32_t c = 0; c < 3; c++)
        put_hit(&world, &(struct sound){.number = c + 1, .frame = 500, .channel = c});
    world.ops->advance(world.analysis, 0, 800);
    assert_int_equal(world.count, 0);
    assert_int_equal(world.advanced, 500); /* a source at 500 may follow */
    world.ops->advance(world.analysis, 0, 801);
    assert_int_equal(world.count, 1);
    assert_int_equal(world.advanced, 801);
    analysis_world_close(&world);
}

/* ---- clusters, load ---------------------------------------------------------------------- */

static void test_clusters(void **state)
{
    (void)state;
    struct clusters *clusters = calloc(1, sizeof *clusters);
    clusters->radius_m = 1;
    static const struct {
        double x, y;
        uint64_t number, size;
    } cases[] = {
        {0, 0, 1, 1},   {1, 0, 1, 2}, /* mean 0.5 */
        {1.5, 0, 1, 3},               /* exactly the radius; mean 5/6 */
        {0, 3, 2, 1},   {-0.5, 0, 3, 1}, {0.2, 0, 1, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct cluster *got = clusters_put(clusters, cases[i].x, cases[i].y);
        assert_int_equal(got->number, cases[i].number);
        assert_int_equal(got->size, cases[i].size);
    }
    /* a full list: the smallest that waited longest makes room, the largest stays */
    for (int i = 0; i < 3 * CLUSTERS_MAX; i++)
        assert_int_equal(clusters_put(clusters, 100.0 + 5 * i, 0)->size, 1);
    assert_int_equal(clusters->count, CLUSTERS_MAX);
    assert_int_equal(clusters_put(clusters, 0.6, 0)->number, 1);
    assert_int_equal(clusters_put(clusters, 0, 3)->size, 1); /* number 2 is forgotten */
    free(clusters);
}

static void test_load_history(void **state)
{
    (void)state;
    static const struct {
        double load;
        bool kaiser;
        double felicity;
    } cases[] = {
        {10, false, NAN},  {100, false, NAN}, {95, false, NAN}, /* no cycle has ended */
        {NAN, false, NAN}, {90, true, 0.9},                     /* fallen by a tenth */
        {20, true, 0.2},   {80, true, 0.8},   {100, false, 1},  {120, false, 1.2}, {60, true, 0.5},
    };
    struct load_history history = load_history_start(0.1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct load_mark got = load_history_put(&history, cases[i].load);
        assert_int_equal(got.kaiser, cases[i].kaiser);
        assert_true(isnan(cases[i].felicity) ? isnan(got.felicity)
                                             : fabs(got.felicity - cases[i].felicity) < 1e-12);
    }
}

/* The values of a source are those of its first hit, and so is that they are not known. */
static void test_a_parameter_that_is_not_known(void **state)
{
    (void)state;
    for (uint32_t without = 0; without < 4; without++) {
        struct analysis_world world;
        open_location(&world, 4, (const char *[]){PLATE, NULL});
        for (uint32_t c = 0; c < 4; c++)
            put_hit(&world, &(struct sound){.number = c + 1,
                                            .frame = 500 + c,
                                            .channel = c,
                                            .load = c == without ? NAN : 7,
                                            .flags = c == without ? ANALYSIS_NO_PARAMETER : 0});
        analysis_world_restore(&world);
        world.ops->advance(world.analysis, 0, UINT64_MAX);
        assert_int_equal(world.count, 1);
        const struct analysis_event *event = &world.events[0].event;
        assert_int_equal(event->flags & ANALYSIS_NO_PARAMETER,
                         without == 0 ? ANALYSIS_NO_PARAMETER : 0);
        assert_true(isnan(event->parameters[0]) == (without == 0));
        analysis_world_close(&world);
    }
}

static void test_marks_of_a_source(void **state)
{
    (void)state;
    struct analysis_world world;
    open_location(&world, 4,
                  (const char *[]){PLATE, "kaiser = yes", "cluster radius = 5 mm", NULL});
    static const double loads[] = {100, 40, 70};
    for (uint64_t i = 0; i < 3; i++) {
        for (uint32_t c = 0; c < 4; c++)
            put_hit(&world, &(struct sound){.number = 4 * i + c + 1,
                                            .frame = 1000 * (i + 1) + (i == 2 ? 10 * c : 0),
                                            .channel = c,
                                            .load = loads[i]});
        world.ops->advance(world.analysis, 0, 1000 * (i + 1) + 500);
    }
    assert_int_equal(world.count, 3);
    assert_true(isnan(source(&world, 0)->felicity) && source(&world, 0)->kaiser == 0);
    assert_true(source(&world, 1)->felicity == 0.4 && source(&world, 1)->kaiser == 1);
    assert_true(source(&world, 2)->load == 70 && source(&world, 2)->felicity == 0.7);
    assert_int_equal(source(&world, 1)->cluster, 1);
    assert_int_equal(source(&world, 1)->cluster_size, 2);
    assert_int_equal(source(&world, 2)->cluster, 2);
    analysis_world_close(&world);
}

/* ---- options ----------------------------------------------------------------------------- */

static void test_check(void **state)
{
    (void)state;
    static const struct {
        const char *settings[4];
        const char *error; /* NULL: none */
    } cases[] = {
        {{PLATE}, NULL},
        {{PLATE, "max dt = 300 us"}, NULL},
        {{PLATE, "max dt = 100 us"}, "warning: max dt: a wave takes 256.1 us from one sensor"},
        {{PLATE, "least hits = 2"}, "a place on a plate needs 3 hits"},
        {{PLATE, "least hits = 5"}, "there are 4 sensors; write at most 4"},
        {{PLATE, "load drop = 5 %"}, "`load drop` belongs to `kaiser = yes`"},
        {{PLATE, "extent = 0 0, 1 m 0"}, "`extent` is empty"},
        {{PLATE, "extent = 0 0"}, "`extent` has 1 point; write two opposite corners"},
        {{PLATE, "extent = 0, 1 m"}, "the sensors have 2 coordinates each; write `extent` so"},
        {{"velocity = 5 km/s", "sensors = 0 0, 1 m 0, 0 1 m"},
         "3 sensors for the 4 channels of stream vessel"},
        {{"velocity = 5 km/s", "sensors = 0 0, 1 m 0, 0 1 m, 2 m"},
         "the sensor of channel 4 has 1 coordinate, one before it has 2"},
        {{"velocity = 5 km/s", "sensors = 0 0, 1 m 0, 2 m 0, none"}, "all sensors lie in one line"},
        {{"velocity = 5 km/s", "sensors = 0 0, 1 m 0, 1000 mm 0, 0 1 m"},
         "the sensors of channels 2 and 3 are in one place"},
        {{"velocity = 5 km/s", "sensors = 0 0, none, none, 0 1 m"},
         "2 sensors: a plane needs at least 3"},
        {{"velocity = 5 km/s", "sensors = 0, none, none, 1 m"}, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct analysis_stream stream = analysis_world_stream(4, RATE, "V");
        struct analysis_world world;
        analysis_world_open(&world, &analysis_location, &stream, cases[i].settings);
        if (cases[i].error == NULL)
            assert_string_equal(world.errors, "");
        else if (strstr(world.errors, cases[i].error) == NULL)
            fail_msg("no “%s” in: %s", cases[i].error, world.errors);
        analysis_world_close(&world);
    }
}

/* What the live page draws under the sources. */
static void test_describe(void **state)
{
    (void)state;
    struct analysis_world world;
    open_location(&world, 4,
                  (const char *[]){"sensors = 0 0, 1 m 0, none, 0 800 mm", "velocity = 5000 m/s",
                                   "extent = 2 m 1 m, -1 m 0", NULL});
    json_t *told = analysis_location.describe(&world.options);
    json_t *expected = json_pack("{s:[[ff][ff]n[ff]], s:[ffff], s:f, s:b, s:i}", "sensors", 0.0,
                                 0.0, 1.0, 0.0, 0.0, 0.8, "extent", -1.0, 0.0, 2.0, 1.0, "velocity",
                                 5000.0, "plane", 1, "max_dt_frames", 269);
    assert_true(json_equal(told, expected));
    json_decref(told);
    json_decref(expected);
    analysis_world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_arrivals),
        cmocka_unit_test(test_state),
        cmocka_unit_test(test_whole_frames_scatter_as_the_covariance_says),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_channels_without_sensor),
        cmocka_unit_test(test_line),
        cmocka_unit_test(test_told_when_no_hit_can_follow),
        cmocka_unit_test(test_clusters),
        cmocka_unit_test(test_load_history),
        cmocka_unit_test(test_a_parameter_that_is_not_known),
        cmocka_unit_test(test_marks_of_a_source),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_describe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
