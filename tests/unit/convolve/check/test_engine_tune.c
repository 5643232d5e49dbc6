/*
 * Choosing by measurement: what is chosen is a candidate that passed its self-test and has the
 * least time of those that suit; plan_prepare follows it, and gives the same samples by it.
 *
 * sanitizers: no, it measures, and a sanitizer changes what is fastest
 * takes: 11 s CPU in 12 s
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "convolve/check/tune.h"
#include "device/spill.h"
#include "tests/support/engine_harness.h"
#include "tests/support/engine_seams.h"

static double cost(const struct candidate *candidate)
{
    return sqrt(candidate->one_us * candidate->each_us) / candidate->hop;
}

static void diagonal(struct test_plan *plan, const struct test_signal *signal, uint32_t hop,
                     uint32_t taps)
{
    test_plan_diagonal(plan, signal, hop, taps, false, OUTPUT_REAL);
    plan->spec.blocks_max = 4;
    test_plan_bind(plan, signal);
}

/* A device on which overlap-add with N = 512 is by far the quickest. */
static int64_t invented_ns(const struct plan_info *info, uint32_t blocks)
{
    const char *variant = info->variant;
    const bool best = strcmp(variant, "overlap-add") == 0 && info->fft == 512;
    const int64_t names = variant[0] + variant[strlen(variant) - 1]; /* no two alike */
    return (best ? 1000 : 5000 + names) * (10 + (int64_t)blocks) + info->fft + info->hop;
}

static uint32_t steps;

static void count_steps(void *context, uint32_t done, uint32_t total,
                        const struct candidate *candidate)
{
    assert_ptr_equal(context, &steps);
    assert_true(done < total && candidate->variant[0] != '\0');
    steps++;
}

static bool took_part(const struct wisdom_entry *entry, const char *variant, uint32_t vector)
{
    for (uint32_t i = 0; i < entry->count; i++)
        if (strcmp(entry->candidates[i].variant, variant) == 0 &&
            entry->candidates[i].vector == vector && entry->candidates[i].measured)
            return true;
    return false;
}

static void the_best_is_followed(void **state)
{
    (void)state;
    struct engine *engine = harness_engine();
    struct test_signal *signal = signal_noise("s16be", 4, 4096, 5);
    struct test_plan plan;
    diagonal(&plan, signal, 64, 100);
    assert_null(plan_wisdom(engine, &plan.spec));
    const struct wisdom_entry *entry = NULL;
    struct problem problem;
    steps = 0;
    engine_seams.time_ns = invented_ns;
    assert_int_equal(plan_tune(engine, &plan.spec, count_steps, &steps, &entry, &problem), 0);
    engine_seams.time_ns = NULL;
    assert_non_null(entry);
    assert_int_equal(steps, entry->count + 1);
    const struct candidate *chosen = &entry->candidates[entry->chosen];
    assert_true(chosen->measured && chosen->error < 1e-6 && chosen->reason[0] == '\0');
    uint32_t variants = 1;
    for (uint32_t i = 0; i < entry->count; i++) {
        const struct candidate *other = &entry->candidates[i];
        assert_true(i == entry->chosen || other->reason[0] != '\0');
        assert_true(!other->measured || cost(chosen) <= cost(other));
        if (i > 0 && strcmp(other->variant, entry->candidates[i - 1].variant) != 0)
            variants++;
    }
    for (uint32_t width = 16; harness_runs(engine, "lanes") && width >= 4; width /= 2)
        assert_true(took_part(entry, "lanes", width));
    assert_string_equal(chosen->variant, "overlap-add");
    assert_int_equal(chosen->fft, 512);
    assert_true(variants >= 4); /* every variant of the table that this device has took part */

    assert_ptr_equal(plan_wisdom(engine, &plan.spec), entry);
    test_plan_prepare(engine, &plan, signal);
    const struct plan_info *info = plan_info(plan.plan);
    assert_int_equal(info->choice, PLAN_BY_WISDOM);
    assert_string_equal(info->variant, chosen->variant);
    assert_int_equal(info->fft, chosen->fft);
    struct test_run run = run_plan(engine, &plan, signal, &(struct run_options){.blocks = 2});
    expect_convolution("tuned", &plan, signal, &run, 0, run.frames);
    test_run_free(&run);
    test_plan_free(&plan);

    /* A name is stronger than wisdom; another shape has none. */
    diagonal(&plan, signal, 64, 100);
    plan.spec.variant = "general";
    test_plan_prepare(engine, &plan, signal);
    assert_int_equal(plan_info(plan.plan)->choice, PLAN_BY_NAME);
    assert_string_equal(plan_info(plan.plan)->variant, "general");
    test_plan_free(&plan);
    diagonal(&plan, signal, 64, 101);
    assert_null(plan_wisdom(engine, &plan.spec));
    test_plan_prepare(engine, &plan, signal);
    assert_int_equal(plan_info(plan.plan)->choice, PLAN_BY_RULE);
    test_plan_free(&plan);
    signal_free(signal);
    harness_engine_close(engine);
}

/* ---- spilled registers ------------------------------------------------------------------- */

static int32_t gather_spills, others_spill;
static int64_t gather_ns;

/* Plans of overlap-add gather with a kernel of their own. */
static int32_t invented_spill(const char *kernels)
{
    return strcmp(kernels, "overlap_add_gather") == 0 ? gather_spills : others_spill;
}

static bool gathers(const char *variant)
{
    return strstr(variant, "overlap-add") != NULL;
}

/* What gathers is the quickest, with every N: more candidates than there are finalists. */
static int64_t gathering_ns(const struct plan_info *info, uint32_t blocks)
{
    const char *variant = info->variant;
    const int64_t names = variant[0] + variant[strlen(variant) - 1]; /* no two alike */
    return ((gathers(variant) ? gather_ns : 50000) + names) * (10 + (int64_t)blocks) + info->fft +
           info->hop;
}

/* What spills registers loses against what is about as quick, unless it is too little to be felt or
 * there is nothing else. */
static void what_spills_loses(void **state)
{
    (void)state;
    static const struct {
        int32_t gather, others;
        const char *variant; /* NULL: all take part */
        int32_t plan;        /* a plan is as bad as its worst kernel */
        int64_t ns;          /* of 50000 that the others take */
        bool chosen;
    } cases[] = {
        {0, 0, NULL, 0, 49000, true},
        {16, 0, NULL, 16, 49000, true},
        {20, 0, NULL, 20, 49000, false},
        {20, 0, NULL, 20, 46000, true},
        {20, 80, "overlap-add", 80, 49000, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        engine_seams.spilled_bytes = invented_spill;
        engine_seams.time_ns = gathering_ns;
        gather_spills = cases[i].gather;
        others_spill = cases[i].others;
        gather_ns = cases[i].ns;
        struct engine *engine = harness_engine();
        struct test_signal *signal = signal_noise("s16be", 2, 4096, 5);
        struct test_plan plan;
        diagonal(&plan, signal, 64, 100);
        plan.spec.variant = cases[i].variant;
        const struct wisdom_entry *entry = NULL;
        struct problem problem;
        assert_int_equal(plan_tune(engine, &plan.spec, NULL, NULL, &entry, &problem), 0);
        uint32_t gathering = 0;
        for (uint32_t c = 0; c < entry->count; c++) {
            const struct candidate *candidate = &entry->candidates[c];
            if (!candidate->measured || !gathers(candidate->variant))
                continue;
            gathering++;
            assert_int_equal(candidate->spilled_bytes, cases[i].plan);
            assert_int_equal(!cases[i].chosen,
                             strstr(candidate->reason, "registers do not suffice") != NULL);
        }
        assert_true(gathering >= (cases[i].variant == NULL ? 4 : 1));
        const struct candidate *chosen = &entry->candidates[entry->chosen];
        assert_int_equal(gathers(chosen->variant), cases[i].chosen);

        test_plan_prepare(engine, &plan, signal);
        assert_int_equal(plan_info(plan.plan)->spilled_bytes, chosen->spilled_bytes);
        test_plan_free(&plan);
        engine_seams.time_ns = NULL;
        engine_seams.spilled_bytes = NULL;
        signal_free(signal);
        harness_engine_close(engine);
    }
}

/* A device on which `quickest_rows` rows a group take the least time at N = 512. */
static uint32_t quickest_rows;

static int64_t rows_ns(const struct plan_info *info, uint32_t blocks)
{
    const bool best = info->rows == quickest_rows && info->fft == 512;
    return (best ? 1000 : 5000) * (10 + (int64_t)blocks) + info->fft;
}

/* Whether that many rows were measured with N = 512 at the device's own vectors. */
static bool rows_took_part(const struct wisdom_entry *entry, uint32_t rows)
{
    for (uint32_t i = 0; i < entry->count; i++)
        if (entry->candidates[i].measured && entry->candidates[i].fft == 512 &&
            entry->candidates[i].rows == rows)
            return true;
    return false;
}

/* Each number of rows a group is a candidate with every N; what measured best is followed. */
static void rows_are_measured(void **state)
{
    (void)state;
    for (quickest_rows = 1; quickest_rows <= ROWS_MOST; quickest_rows++) {
        struct engine *engine = harness_engine();
        if (!harness_runs(engine, "lanes")) {
            harness_engine_close(engine);
            skip();
        }
        struct test_signal *signal = signal_noise("s16be", 32, 1024, 5);
        struct test_plan plan;
        diagonal(&plan, signal, 64, 100);
        plan.spec.variant = "lanes";
        const struct wisdom_entry *entry = NULL;
        struct problem problem;
        engine_seams.time_ns = rows_ns;
        assert_int_equal(plan_tune(engine, &plan.spec, NULL, NULL, &entry, &problem), 0);
        engine_seams.time_ns = NULL;
        assert_true(rows_took_part(entry, 1) && rows_took_part(entry, 2));
        assert_int_equal(entry->candidates[entry->chosen].rows, quickest_rows);
        plan.spec.variant = NULL;
        test_plan_prepare(engine, &plan, signal);
        assert_int_equal(plan_info(plan.plan)->choice, PLAN_BY_WISDOM);
        assert_int_equal(plan_info(plan.plan)->rows, quickest_rows);
        test_plan_free(&plan);
        signal_free(signal);
        harness_engine_close(engine);
    }
}

/* PoCL's compiler tells nothing. */
static void nothing_is_told(void **state)
{
    (void)state;
    struct engine *engine = harness_engine();
    struct test_signal *signal = signal_noise("f32le", 2, 4096, 8);
    struct test_plan plan;
    diagonal(&plan, signal, 64, 50);
    plan.spec.variant = "general";
    test_plan_prepare(engine, &plan, signal);
    assert_int_equal(plan_info(plan.plan)->spilled_bytes, SPILL_UNKNOWN);
    test_plan_free(&plan);
    signal_free(signal);
    harness_engine_close(engine);
}

/* With a free block nothing is chosen whose block lasts longer than the latency. */
static void the_latency_binds(void **state)
{
    (void)state;
    static const double latencies_frames[] = {100, 1000};
    struct engine *engine = harness_engine();
    struct test_signal *signal = signal_noise("f32le", 2, 4096, 6);
    for (size_t i = 0; i < 2; i++) {
        struct test_plan plan;
        diagonal(&plan, signal, 32, 20);
        plan.spec.variant = "general"; /* one is enough to see the blocks */
        plan.spec.hop_free = true;
        plan.spec.rate_hz = 1000; /* slow: only the block's own duration counts */
        plan.spec.latency_ns = (int64_t)(latencies_frames[i] * 1e6);
        const struct wisdom_entry *entry = NULL;
        struct problem problem;
        assert_int_equal(plan_tune(engine, &plan.spec, NULL, NULL, &entry, &problem), 0);
        uint32_t blocks = 0;
        for (uint32_t c = 0; c < entry->count; c++) {
            assert_true(entry->candidates[c].hop < latencies_frames[i]);
            blocks += c == 0 || entry->candidates[c].hop != entry->candidates[c - 1].hop;
        }
        assert_true(blocks >= 3);
        assert_true(entry->candidates[entry->chosen].hop < latencies_frames[i]);

        plan.spec.variant = NULL; /* the daemon asks without a name, and by its own rule's block */
        assert_int_equal(plan_tune(engine, &plan.spec, NULL, NULL, &entry, &problem), 0);
        const uint32_t hop = entry->candidates[entry->chosen].hop;
        test_plan_prepare(engine, &plan, signal);
        assert_int_equal(plan_info(plan.plan)->hop, hop);
        test_plan_free(&plan);
    }
    signal_free(signal);
    harness_engine_close(engine);
}

/* A rate that nothing can keep up with: the cheapest is still found, and says that it is too slow.
 */
static void too_fast_a_rate(void **state)
{
    (void)state;
    struct engine *engine = harness_engine();
    struct test_signal *signal = signal_noise("f32le", 2, 4096, 7);
    struct test_plan plan;
    diagonal(&plan, signal, 32, 20);
    plan.spec.variant = "general";
    plan.spec.rate_hz = 1e12;
    const struct wisdom_entry *entry = NULL;
    struct problem problem;
    assert_int_equal(plan_tune(engine, &plan.spec, NULL, NULL, &entry, &problem), 0);
    const struct candidate *chosen = &entry->candidates[entry->chosen];
    assert_non_null(strstr(chosen->reason, "more than half"));
    for (uint32_t i = 0; i < entry->count; i++)
        assert_true(!entry->candidates[i].measured || cost(&entry->candidates[i]) > 0);
    test_plan_free(&plan);
    signal_free(signal);
    harness_engine_close(engine);
}

static void what_cannot_says_why(void **state)
{
    (void)state;
    struct engine *engine = harness_engine();
    struct test_signal *signal = signal_noise("f32le", 2, 4096, 8);
    struct test_plan plan;
    diagonal(&plan, signal, 64, 50);
    plan.edges[1].output = 0; /* both inputs into one output: a matrix */
    plan.spec.outputs_count = 1;
    struct candidate ways[64];
    const uint32_t count = plan_explain(engine, &plan.spec, ways, 64);
    bool general = false;
    for (uint32_t i = 0; i < count; i++) {
        const bool can = strstr(ways[i].variant, "general") != NULL;
        assert_true(!can || ways[i].reason[0] == '\0');
        general = general || (can && ways[i].fft >= 113);
        if (strcmp(ways[i].variant, "local") == 0)
            assert_non_null(strstr(ways[i].reason, "an output has several edges"));
    }
    assert_true(general);
    plan.spec.variant = "nonsense";
    const struct wisdom_entry *entry = NULL;
    struct problem problem;
    assert_int_equal(plan_tune(engine, &plan.spec, NULL, NULL, &entry, &problem),
                     ERROR_UNSUPPORTED);
    assert_null(entry);
    test_plan_free(&plan);
    signal_free(signal);
    harness_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_is_followed), cmocka_unit_test(what_spills_loses),
        cmocka_unit_test(nothing_is_told),      cmocka_unit_test(the_latency_binds),
        cmocka_unit_test(rows_are_measured),    cmocka_unit_test(too_fast_a_rate),
        cmocka_unit_test(what_cannot_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
