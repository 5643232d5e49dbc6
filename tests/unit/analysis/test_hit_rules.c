/*
 * Hits against the rules of docs/analysis.md, on short signals on paper: above, HDT, HLT, PDT,
 * maximum duration, arms, edges, cuts, incomplete records.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "analysis/hit.h"
#include "tests/support/analysis_world.h"

/* One channel, threshold 10 V; samples as small numbers. */
struct expected_hit {
    uint64_t first, last, peak, counts, to_peak;
    uint32_t flags;
};

enum { SAMPLES_MAX = 48, HITS_MAX = 6, SETTINGS_MAX = 4 };

struct rule {
    const char *name;
    const char *settings[SETTINGS_MAX];
    int samples[SAMPLES_MAX], count;
    struct expected_hit hits[HITS_MAX];
    struct invalid_range invalid;
};

#define SAMPLES(...)                                                                               \
    .samples = {__VA_ARGS__}, .count = (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int))

static const struct rule rules[] = {
    {"equal to the threshold is not above", {"hdt = 2"}, SAMPLES(0, 10, -10, 0, 0, 0), {{0}}, {0}},
    {"either polarity begins and ends",
     {"hdt = 2"},
     SAMPLES(0, -11, 0, 12, 0, 0, 0, 0),
     {{1, 3, 3, 1, 1, 0}},
     {0}},
    {"above at b + H belongs",
     {"hdt = 3"},
     SAMPLES(0, 11, 0, 0, -11, 0, 0, 0, 0, 0),
     {{1, 4, 1, 1, 1, 0}},
     {0}},
    {"above at b + H + 1 does not",
     {"hdt = 3"},
     SAMPLES(0, 11, 0, 0, 0, -11, 0, 0, 0, 0),
     {{1, 1, 1, 1, 1, 0}, {5, 5, 5, 0, 0, 0}},
     {0}},
    {"hdt 0: each frame above is a hit",
     {"hdt = 0"},
     SAMPLES(0, 11, 12, 0, 13),
     {{1, 1, 1, 1, 1, 0}, {2, 2, 2, 0, 0, 0}, {4, 4, 4, 0, 0, 0}},
     {0}},
    {"the next hit begins at b + H + L + 1",
     {"hdt = 2", "hlt = 2"},
     SAMPLES(0, 11, 0, 0, 0, 11, -11, 0, 0, 0, 0, 0),
     {{1, 1, 1, 1, 1, 0}, {6, 6, 6, 0, 0, 0}},
     {0}},
    {"the lockout spends arms",
     {"hdt = 1", "hlt = 1"},
     SAMPLES(-1, 11, 0, -1, 12, 13, 14, 0, 0, 0),
     {{1, 1, 1, 1, 1, 0}, {4, 6, 6, 1, 1, 0}},
     {0}},
    {"a count needs a sample below 0 before it",
     {"hdt = 9"},
     SAMPLES(-1, 11, 5, 12, 0, 13, -1, 14, 9, 11, 0, 0),
     {{1, 9, 7, 2, 2, ANALYSIS_CUT}},
     {0}},
    {"both: the two arms, halved and rounded up",
     {"hdt = 9", "counts = both"},
     SAMPLES(-1, 11, -11, 12, -12, 13, 0, 0),
     {{1, 5, 5, 3, 3, ANALYSIS_CUT}},
     {0}},
    {"plain: upward crossings without arms",
     {"hdt = 9", "counts = plain"},
     SAMPLES(-1, 11, 5, 12, 13, 5, -11, 14, 0, 0),
     {{1, 7, 7, 3, 2, ANALYSIS_CUT}},
     {0}},
    {"the peak is the first of the largest",
     {"hdt = 2"},
     SAMPLES(0, 11, -20, 20, 12, 0, 0, 0, 0),
     {{1, 4, 2, 2, 1, 0}},
     {0}},
    {"pdt: no larger sample after it replaces the peak",
     {"hdt = 9", "pdt = 2"},
     SAMPLES(0, 11, 0, 12, 0, 0, 30, 0, 0),
     {{1, 6, 3, 1, 1, ANALYSIS_CUT}},
     {0}},
    {"pdt: each new peak begins anew",
     {"hdt = 9", "pdt = 2"},
     SAMPLES(0, 11, 0, 12, 0, 13, 0, 14, 0),
     {{1, 7, 7, 1, 1, ANALYSIS_CUT}},
     {0}},
    {"max duration, and the hit on the very next frame",
     {"hdt = 2", "max duration = 4"},
     SAMPLES(0, 11, 12, 13, 14, 15, 0, 0, 0, 0),
     {{1, 4, 4, 1, 1, ANALYSIS_TIMEOUT}, {5, 5, 5, 0, 0, ANALYSIS_AFTER_TIMEOUT}},
     {0}},
    {"a timeout locks nothing out; one frame later is no sequel",
     {"hdt = 2", "hlt = 9", "max duration = 4"},
     SAMPLES(0, 11, 12, 13, 14, 0, 15, 0, 0, 0, 0),
     {{1, 4, 4, 1, 1, ANALYSIS_TIMEOUT}, {6, 6, 6, 0, 0, 0}},
     {0}},
    {"hdt that ends with max duration is no timeout",
     {"hdt = 2", "max duration = 4"},
     SAMPLES(0, 11, 12, 0, 0, 0, 0, 0, 0),
     {{1, 2, 2, 1, 1, 0}},
     {0}},
    {"an excursion at the epoch's edge is a hit and no count",
     {"hdt = 1"},
     SAMPLES(11, 12, 0, -1, 0, 13, 0, 0),
     {{0, 1, 1, 0, 0, ANALYSIS_EDGE}, {5, 5, 5, 1, 1, 0}},
     {0}},
    {"at the edge the arm of the other side is set",
     {"hdt = 1"},
     SAMPLES(-11, 12, 0, 0, 0),
     {{0, 1, 1, 1, 1, ANALYSIS_EDGE}},
     {0}},
    {"an invalid frame cuts; behind it is an edge",
     {"hdt = 9", "hlt = 9"},
     SAMPLES(0, 11, 12, 0, 77, 13, 12, 0),
     {{1, 2, 2, 1, 1, ANALYSIS_CUT}, {5, 6, 5, 0, 0, ANALYSIS_EDGE | ANALYSIS_CUT}},
     {4, 5, INVALID_NETWORK}},
    {"behind an invalid frame below the threshold arms are set",
     {"hdt = 2"},
     SAMPLES(0, 77, 1, 12, 0, 0, 0, 0),
     {{3, 3, 3, 1, 1, 0}},
     {1, 2, INVALID_LATE}},
    {"invalid frames in the pre-trigger make a hit incomplete",
     {"hdt = 1", "pre-trigger = 3", "max record = 9"},
     SAMPLES(0, 77, 0, 11, 0, 0, 0),
     {{3, 3, 3, 1, 1, ANALYSIS_INCOMPLETE}},
     {1, 2, INVALID_NETWORK}},
    {"invalid frames before the pre-trigger do not",
     {"hdt = 1", "pre-trigger = 1", "max record = 9"},
     SAMPLES(0, 77, 0, 11, 0, 0, 0),
     {{3, 3, 3, 1, 1, 0}},
     {1, 2, INVALID_NETWORK}},
    {"invalid frames in the post-duration make a hit incomplete, and cut nothing",
     {"hdt = 1", "post-duration = 4", "max record = 9"},
     SAMPLES(0, 11, 0, 0, 77, 0, 0, 0),
     {{1, 1, 1, 1, 1, ANALYSIS_INCOMPLETE}},
     {4, 5, INVALID_LATE}},
    {"invalid frames after the post-duration do not",
     {"hdt = 1", "post-duration = 2", "max record = 9"},
     SAMPLES(0, 11, 0, 0, 77, 0, 0, 0),
     {{1, 1, 1, 1, 1, 0}},
     {4, 5, INVALID_LATE}},
    {"a hit that is cut while it is open is cut, and not incomplete",
     {"hdt = 4", "post-duration = 4", "max record = 9"},
     SAMPLES(0, 11, 12, 0, 77, 0, 0, 0),
     {{1, 2, 2, 1, 1, ANALYSIS_CUT}},
     {4, 5, INVALID_NETWORK}},
    {"the epoch's end in the post-duration leaves a hit complete",
     {"hdt = 1", "post-duration = 9", "max record = 20"},
     SAMPLES(0, 11, 0, 0, 0),
     {{1, 1, 1, 1, 1, 0}},
     {0}},
    {"threshold 0: everything but 0",
     {"threshold = 0", "hdt = 1"},
     SAMPLES(0, 1, 0, 0, -1, 2, 0, 0),
     {{1, 1, 1, 1, 1, 0}, {4, 5, 5, 1, 1, 0}},
     {0}},
};

static void test_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const struct rule *rule = &rules[i];
        const char *settings[SETTINGS_MAX + 2] = {"threshold = 10 V"};
        for (int k = 0; k < SETTINGS_MAX; k++)
            settings[k + 1] = rule->settings[k];
        if (strncmp(rule->settings[0], "threshold", 9) == 0)
            memmove(settings, settings + 1, SETTINGS_MAX * sizeof *settings);
        float samples[SAMPLES_MAX];
        for (int k = 0; k < rule->count; k++)
            samples[k] = (float)rule->samples[k];
        const struct analysis_signal signal = {.channels = 1,
                                               .frames = (uint64_t)rule->count,
                                               .samples = samples,
                                               .rate_hz = ANALYSIS_WORLD_RATE,
                                               .invalid = &rule->invalid,
                                               .invalid_count = rule->invalid.until > 0};
        struct analysis_world world;
        analysis_world_hits(&world, 1, settings);
        analysis_world_put(&world, &signal, 0, signal.frames);
        size_t at = 0, count = 0;
        for (; count < HITS_MAX && rule->hits[count].first + rule->hits[count].last > 0; count++)
            ;
        for (size_t k = 0; k < count; k++, at++) {
            const struct expected_hit *expected = &rule->hits[k];
            at = analysis_world_next_ordered(&world, at);
            if (at == world.count)
                fail_msg("%s: %zu hits, not %zu", rule->name, k, count);
            const struct analysis_event *event = &world.events[at].event;
            const struct hit *hit = analysis_world_hit(&world, at);
            if (event->frame != expected->first || hit->last_frame != expected->last ||
                hit->peak_frame != expected->peak || hit->counts != expected->counts ||
                hit->counts_to_peak != expected->to_peak || event->flags != expected->flags)
                fail_msg("%s: hit %zu: %d … %d, peak %d, %d counts, %d to peak, flags %x",
                         rule->name, k, (int)event->frame, (int)hit->last_frame,
                         (int)hit->peak_frame, (int)hit->counts, (int)hit->counts_to_peak,
                         event->flags);
            const bool broken = (expected->flags & (ANALYSIS_CUT | ANALYSIS_EDGE)) != 0;
            if ((broken && rule->invalid.until > 0 && expected->last < rule->invalid.from) ||
                (expected->flags & ANALYSIS_INCOMPLETE) != 0)
                assert_int_equal(event->causes, 1u << rule->invalid.cause);
            if (expected->flags == 0)
                assert_int_equal(event->causes, 0);
        }
        if (analysis_world_next_ordered(&world, at) != world.count)
            fail_msg("%s: more than %zu hits", rule->name, count);
        analysis_world_close(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
