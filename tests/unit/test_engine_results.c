/*
 * Results in the formats of sinks: what leaves the device is, to the bit, what signal/format.c
 * makes of the same plan's floats, and what it clips is counted exactly, whatever the variant, the
 * form, the blocks of an item, the range that is written and the decimation.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "convolve/hooks.h"
#include "engine_group.h"

struct given {
    const char *name;
    uint8_t bits; /* 0: all */
    bool left;
    double factor; /* small enough for most values, so large that some are clipped */
};

static const struct given formats[] = {
    {"s16be", 0, false, 1},       {"s24le", 0, false, 1.0 / 3},  {"s24be", 0, false, 0.4},
    {"s16le", 0, false, 0.5},     {"s32le", 0, false, 0.5},      {"s32be", 0, false, 0.37},
    {"f32be", 0, false, 1},       {"f32le", 0, false, 0.3},      {"u8", 0, false, 0.5},
    {"s8", 0, false, 0.7},        {"u16be", 12, true, 0.25},     {"s16le", 12, false, 0.5},
    {"s24be", 20, true, 0.6},     {"u24le", 0, false, 0.5},      {"u32le", 0, false, 0.5},
    {"s32le", 25, true, 0.5},     {"s32be", 24, false, 1.0 / 7}, {"s32le", 23, true, 0.5},
    {"s16be", 0, false, 0x1p-20}, {"f32le", 0, false, 1},
};

enum { FORMATS = sizeof formats / sizeof formats[0] };

static struct result_format wish_of(const struct given *given)
{
    struct result_format wish = {.factor = given->factor};
    assert_int_equal(sample_format_parse(given->name, &wish.format), 0);
    if (given->bits != 0)
        wish.format.bits = given->bits;
    wish.format.left = given->left;
    return wish;
}

/* ---- running ------------------------------------------------------------------------------------ */

struct got {
    uint8_t *bytes;     /* [frames][output_floats] samples */
    uint64_t frames;
    uint64_t *saturated; /* [outputs] */
};

static uint64_t kept_of(const struct plan_info *info, uint64_t first, uint64_t end)
{
    uint64_t count = 0;
    for (uint64_t n = first; n < end; n++)
        count += n % info->decimate == info->decimate_phase;
    return count;
}

/* Frames [from, until) of the epoch, in an item that begins with the block of `from`. */
static void run_item(const struct test_plan *plan, struct ring *ring, uint64_t from, uint64_t until,
                     const struct test_signal *signal, struct got *got)
{
    const struct plan_info *info = plan_info(plan->plan);
    const uint64_t block = from / info->hop, start = block * info->hop;
    struct batch *batch = engine_batch_take(engine);
    assert_non_null(batch);
    const struct batch_item item = {
        .plan = plan->plan,
        .ring = ring,
        .position = start,
        .epoch_block = block,
        .blocks = (uint32_t)((until - start + info->hop - 1) / info->hop),
        .write_from = (uint32_t)(from - start),
        .write_until = (uint32_t)(until - start),
        .fresh_until = signal->frames,
        .absent = true,
    };
    assert_true(item.blocks <= engine_batch_room(engine, batch, plan->plan));
    assert_int_equal(engine_batch_add(engine, batch, &item), 0);
    /* Beside it, so that what is counted or written too much lands in its neighbour. */
    assert_int_equal(engine_batch_add(engine, batch, &item), 0);
    engine_submit(engine, batch);
    struct batch *done = harness_wait(engine);
    const uint64_t frame_bytes = (uint64_t)info->output_floats * info->sample_bytes;
    const uint64_t skipped = kept_of(info, start, from), frames = kept_of(info, from, until);
    const struct batch_item *first = &done->items[0], *second = &done->items[1];
    const uint8_t *samples = (const uint8_t *)first->samples + skipped * frame_bytes;
    assert_memory_equal(samples, (const uint8_t *)second->samples + skipped * frame_bytes,
                        frames * frame_bytes);
    memcpy(got->bytes + got->frames * frame_bytes, samples, frames * frame_bytes);
    got->frames += frames;
    if (result_format_native(&info->results)) {
        assert_null(first->saturated);
    } else {
        assert_memory_equal(first->saturated, second->saturated,
                            item.blocks * info->outputs * sizeof *first->saturated);
        for (uint32_t i = 0; i < item.blocks * info->outputs; i++)
            got->saturated[i % info->outputs] += first->saturated[i];
    }
    engine_batch_release(engine, done);
}

/* The whole signal, in items of any length, that also begin and end inside blocks. */
static struct got run(const struct test_plan *plan, const struct test_signal *signal, uint64_t seed)
{
    const struct plan_info *info = plan_info(plan->plan);
    struct got got = {.bytes = calloc(signal->frames * info->output_floats, sizeof(float)),
                      .saturated = calloc(info->outputs, sizeof *got.saturated)};
    struct ring *ring = NULL;
    struct problem problem = {0};
    if (engine_ring_open(engine, 2 * signal->frames + info->history_frames,
                         info->inputs * signal->format.bytes, &ring, &problem) < 0)
        fail_msg("%s", problem.text);
    memcpy(ring->bytes, signal->bytes, signal->frames * ring->frame_bytes);
    for (uint64_t n = 0; n < signal->frames; n++)
        if (signal->absent == NULL || !signal->absent[n])
            ring->present[n / 32] |= 1u << (n % 32);
    struct random_state random = {seed};
    const uint64_t frames = signal->frames / info->hop * info->hop;
    for (uint64_t n = 0; n < frames;) {
        uint64_t until =
            (n / info->hop + 1 + random_below(&random, plan->spec.blocks_max - 1)) * info->hop;
        if (random_below(&random, 3) == 0)
            until = n + 1 + random_below(&random, info->hop - (uint32_t)(n % info->hop));
        until = until < frames ? until : frames;
        run_item(plan, ring, n, until, signal, &got);
        n = until;
    }
    engine_ring_close(engine, ring);
    return got;
}

static void got_free(struct got *got)
{
    free(got->bytes);
    free(got->saturated);
}

/* ---- the definition ------------------------------------------------------------------------------ */

/* `floats` through the encoder, sample by sample; returns how many it clipped in all. */
static uint64_t expect_encoded(const char *label, const struct plan_info *info,
                               const enum output_form *forms, const struct given *given,
                               const struct got *floats, const struct got *got)
{
    const struct result_format wish = wish_of(given);
    uint64_t *saturated = calloc(info->outputs, sizeof *saturated), all = 0;
    assert_int_equal(got->frames, floats->frames);
    for (uint64_t n = 0; n < got->frames; n++)
        for (uint32_t o = 0, place = 0; o < info->outputs; o++)
            for (uint32_t v = 0; v < (forms[o] == OUTPUT_COMPLEX ? 2 : 1); v++, place++) {
                float value;
                uint8_t want[4];
                const uint64_t at = n * info->output_floats + place;
                memcpy(&value, floats->bytes + at * sizeof value, sizeof value);
                saturated[o] += sample_encode(&wish.format, (double)value * wish.factor, want);
                const uint8_t *wire = got->bytes + at * wish.format.bytes;
                if (memcmp(wire, want, wish.format.bytes) != 0)
                    fail_msg("%s, %s, %s %u bits, D = %u: frame %llu of output %u, %.9g: byte 0 is "
                             "%02x, wanted %02x",
                             label, info->variant, given->name, wish.format.bits, info->decimate,
                             (unsigned long long)n, o, (double)value, wire[0], want[0]);
            }
    for (uint32_t o = 0; o < info->outputs; o++) {
        if (got->saturated[o] != saturated[o])
            fail_msg("%s, %s, %s: %llu samples of output %u were counted as clipped, %llu were",
                     label, info->variant, given->name, (unsigned long long)got->saturated[o], o,
                     (unsigned long long)saturated[o]);
        all += saturated[o];
    }
    free(saturated);
    return all;
}

/* The plan's floats against its results in each of the formats. */
static void compare(const char *label, const struct test_plan *like,
                    const struct test_signal *signal, int count)
{
    struct test_plan plan = *like;
    test_plan_prepare(engine, &plan, signal);
    assert_true(result_format_native(&plan_info(plan.plan)->results));
    struct got floats = run(&plan, signal, 3);
    const uint32_t fft = plan_info(plan.plan)->fft;
    plan_close(plan.plan);
    uint64_t clipped = 0;
    for (int i = 0; i < count; i++) {
        plan = *like;
        plan.spec.fft = fft;
        plan.spec.results = wish_of(&formats[i]);
        const bool native = result_format_native(&plan.spec.results);
        test_plan_prepare(engine, &plan, signal);
        const struct plan_info *info = plan_info(plan.plan);
        assert_int_equal(result_format_native(&info->results), native);
        struct got got = run(&plan, signal, (uint64_t)i);
        clipped += expect_encoded(label, info, plan.outputs, &formats[i], &floats, &got);
        got_free(&got);
        plan_close(plan.plan);
    }
    assert_true(clipped > 0);
    got_free(&floats);
}

static void compare_diagonal(const char *label, const char *variant,
                             const struct test_signal *signal, uint32_t hop, uint32_t taps,
                             enum output_form form, uint32_t decimate, int count)
{
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, hop, taps, form != OUTPUT_REAL, form);
    plan.spec.variant = variant;
    plan.spec.decimate = decimate;
    plan.spec.decimate_phase = decimate / 3;
    compare(label, &plan, signal, count);
    for (uint32_t t = 0; t < plan.spec.taps_count; t++)
        taps_free(plan.taps[t]);
}

static const char *const variants[] = {"local",       "general",             "direct",
                                       "overlap-add", "overlap-add-general", "partitioned", "host"};

enum { VARIANTS = sizeof variants / sizeof variants[0] };

/* ---- tests ---------------------------------------------------------------------------------------- */

/* A format is a program of its own: all of them in the variant that is built soonest, a power of two and
 * another factor in each. */
static void every_format_and_every_variant(void **state)
{
    (void)state;
    struct test_signal *signal = signal_noise("s16be", 3, 2000, 7);
    signal_absent(signal, 700, 741);
    for (int v = 0; v < VARIANTS; v++)
        if (harness_runs(engine, variants[v]))
            compare_diagonal("real", variants[v], signal, 100, 77, OUTPUT_REAL, 1,
                             strcmp(variants[v], "direct") == 0 || strcmp(variants[v], "host") == 0
                                 ? FORMATS
                                 : 2);
    signal_free(signal);
}

static void complex_outputs_and_envelopes(void **state)
{
    (void)state;
    struct test_signal *signal = signal_noise("f32le", 2, 1500, 8);
    for (int v = 0; v < VARIANTS; v++) {
        if (!harness_runs(engine, variants[v]))
            continue;
        compare_diagonal("complex", variants[v], signal, 96, 50, OUTPUT_COMPLEX, 1, 1);
        compare_diagonal("envelope", variants[v], signal, 96, 50, OUTPUT_ENVELOPE, 1, 2);
        compare_diagonal("kept envelope", variants[v], signal, 96, 50, OUTPUT_ENVELOPE, 12, 1);
        compare_diagonal("kept", variants[v], signal, 96, 50, OUTPUT_REAL, 5, 1);
    }
    signal_free(signal);
}

/* A long block's tail is added before the sum is encoded. */
static void long_filters(void **state)
{
    (void)state;
    struct test_signal *signal = signal_noise("s24le", 1, 6400, 9);
    compare_diagonal("partitions", "partitioned", signal, 64, 3000, OUTPUT_ENVELOPE, 1, 1);
    compare_diagonal("partitions", "general", signal, 64, 1500, OUTPUT_REAL, 1, 1);
    signal_free(signal);
}

/* Outputs of every form side by side, sums of several inputs. */
static void a_bank_of_matrices(void **state)
{
    (void)state;
    static const char *const all[] = {"general", "overlap-add-general"};
    struct test_signal *signal = signal_noise("s16le", 2, 1500, 12);
    for (int v = 0; v < 2; v++) {
        struct test_plan plan;
        memset(&plan, 0, sizeof plan);
        for (uint32_t t = 0; t < 6; t++) {
            plan.taps[t] = taps_noise(40 + 30 * t, t % 2 == 1, 60 + t);
            plan.edges[t] = (struct edge){(uint16_t)(t % 2), (uint16_t)(t / 2), (uint16_t)t, 1};
        }
        plan.outputs[0] = OUTPUT_COMPLEX;
        plan.outputs[1] = OUTPUT_REAL;
        plan.outputs[2] = OUTPUT_ENVELOPE;
        plan.spec = (struct plan_spec){.taps_count = 6,
                                       .edge_count = 6,
                                       .outputs_count = 3,
                                       .hop = 125,
                                       .blocks_max = 3,
                                       .fft = 512,
                                       .variant = all[v]};
        compare("matrix", &plan, signal, 1);
        for (uint32_t t = 0; t < 6; t++)
            taps_free(plan.taps[t]);
    }
    signal_free(signal);
}

/* The rule chooses as without a wish, and no plan is refused for one. */
static void a_wish_changes_no_choice(void **state)
{
    (void)state;
    struct test_signal *signal = signal_noise("s16le", 2, 640, 5);
    const char *variant[2];
    for (int wished = 0; wished < 2; wished++) {
        struct test_plan plan;
        test_plan_diagonal(&plan, signal, 64, 60, false, OUTPUT_REAL);
        if (wished)
            plan.spec.results = wish_of(&formats[0]);
        test_plan_prepare(engine, &plan, signal);
        variant[wished] = plan_info(plan.plan)->variant;
        test_plan_free(&plan);
    }
    assert_string_equal(variant[0], variant[1]);
    signal_free(signal);
}

static void impossible_formats_are_refused(void **state)
{
    (void)state;
    static const struct {
        struct result_format results;
        int want;
    } cases[] = {
        {{{0}, 0}, 0},
        {{{SAMPLE_SIGNED, 2, 16, true, false}, 0}, 0},
        {{{SAMPLE_SIGNED, 2, 17, true, false}, 0}, ERROR_ARGUMENT},
        {{{SAMPLE_SIGNED, 5, 16, true, false}, 0}, ERROR_ARGUMENT},
        {{{SAMPLE_SIGNED, 2, 16, true, false}, INFINITY}, ERROR_ARGUMENT},
        {{{SAMPLE_FLOAT, 2, 16, true, false}, 1}, ERROR_ARGUMENT},
    };
    struct test_signal *signal = signal_noise("s16le", 1, 64, 13);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct test_plan plan;
        test_plan_diagonal(&plan, signal, 64, 20, false, OUTPUT_REAL);
        test_plan_bind(&plan, signal);
        plan.spec.results = cases[i].results;
        struct problem problem = {0};
        assert_int_equal(plan_prepare(engine, &plan.spec, &plan.plan, &problem), cases[i].want);
        test_plan_free(&plan);
    }
    signal_free(signal);
}

/* A filter a hundredth too strong is seen through sixteen bits. */
static void the_self_test_sees_through_codes(void **state)
{
    (void)state;
    struct test_signal *signal = signal_noise("s16le", 1, 640, 5);
    struct test_plan plan;
    engine_hooks.wrong_variant = "local";
    test_plan_diagonal(&plan, signal, 64, 60, false, OUTPUT_REAL);
    test_plan_bind(&plan, signal);
    plan.spec.variant = "local";
    plan.spec.results = wish_of(&formats[0]);
    struct problem problem = {0};
    assert_int_equal(plan_prepare(engine, &plan.spec, &plan.plan, &problem), ERROR_ACCURACY);
    engine_hooks.wrong_variant = NULL;
    test_plan_free(&plan);
    signal_free(signal);
}

/* With kernels as for a GPU, and results that are copied. */
static void as_on_a_gpu(void **state)
{
    harness_engine_close(engine);
    open_twin_engine(state);
    struct test_signal *signal = signal_noise("s16be", 3, 1000, 7);
    for (int v = 0; v < 3; v++)
        compare_diagonal("real", variants[v], signal, 100, 33, OUTPUT_REAL, 1, 1);
    compare_diagonal("envelope", "local", signal, 100, 33, OUTPUT_ENVELOPE, 4, 1);
    compare_diagonal("envelope", "direct", signal, 100, 33, OUTPUT_ENVELOPE, 1, 1);
    signal_free(signal);
    close_engine(state);
    open_engine(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_and_every_variant),
        cmocka_unit_test(complex_outputs_and_envelopes),
        cmocka_unit_test(long_filters),
        cmocka_unit_test(a_bank_of_matrices),
        cmocka_unit_test(a_wish_changes_no_choice),
        cmocka_unit_test(impossible_formats_are_refused),
        cmocka_unit_test(the_self_test_sees_through_codes),
        cmocka_unit_test(as_on_a_gpu),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
