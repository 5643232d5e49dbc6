/*
 * Long filters with a tail of longer partitions: the definition and the same bits wherever an item
 * begins within a long block, after jumps and resets, for filters shorter and longer than the
 * head side by side, with frames kept and left out, and for as many blocks at once as there are.
 *
 * takes: 2 s CPU in 2 s
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "convolve/check/prepare.h"
#include "convolve/plan/plan.h"
#include "tests/support/engine_group.h"

/* Taps in uniform partitions of at least this many a partition would be fewer: there is a tail. */
static const struct {
    uint32_t hop, taps, blocks_max, channels;
    bool complex_taps;
    enum output_form form;
} shapes[] = {
    {16, 2000, 4, 3, false, OUTPUT_REAL},
    {16, 3000, 300, 2, true, OUTPUT_COMPLEX}, /* items longer than a long block */
    {32, 9000, 8, 5, true, OUTPUT_ENVELOPE},
    {24, 6000, 16, 2, false, OUTPUT_REAL}, /* blocks that are no power of two */
};
/* A sanitized build runs the last two: the host's code is the same for all. */
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static void prepare(struct test_plan *plan, const struct test_signal *signal, int i)
{
    test_plan_diagonal(plan, signal, shapes[i].hop, shapes[i].taps, shapes[i].complex_taps,
                       shapes[i].form);
    plan->spec.variant = "partitioned";
    plan->spec.blocks_max = shapes[i].blocks_max;
    test_plan_prepare(engine, plan, signal);
    /* A tail: far fewer partitions than uniform ones of the same N would be. */
    const struct plan_info *info = plan_info(plan->plan);
    assert_true(info->partitions < shapes[i].taps / (info->fft - shapes[i].hop));
}

/* A frame of so many channels that the self-test's ring holds less than the filter: what lies
 * before its epoch is silence, not the newest frames. */
static void prepared_with_many_channels(void **state)
{
    (void)state;
    enum { CHANNELS = 512, TAPS = 20000 };
    static struct channel_scale scales[CHANNELS];
    static struct edge edges[CHANNELS];
    static enum output_form outputs[CHANNELS];
    struct problem problem = {0};
    struct taps *taps;
    assert_int_equal(taps_create(TAPS, false, &taps, &problem), 0);
    for (uint32_t k = 0; k < TAPS; k++)
        taps->re[k] = k * 7919u % 1000 / 1000.0 - 0.5;
    for (uint32_t c = 0; c < CHANNELS; c++) {
        scales[c].full_scale = 1;
        edges[c] = (struct edge){(uint16_t)c, (uint16_t)c, 0, 1};
    }
    struct plan_spec spec = {.inputs = CHANNELS,
                             .scales = scales,
                             .taps = (const struct taps *const[]){taps},
                             .taps_count = 1,
                             .edges = edges,
                             .edge_count = CHANNELS,
                             .outputs = outputs,
                             .outputs_count = CHANNELS,
                             .hop = 256,
                             .blocks_max = 4,
                             .variant = "partitioned"};
    assert_int_equal(sample_format_parse("f32le", &spec.format), 0);
    struct plan *plan = NULL;
    if (plan_prepare(engine, &spec, &plan, &problem) != 0)
        fail_msg("%s", problem.text);
    assert_true(plan_info(plan)->self_test_error < 1e-6);
    plan_close(plan);
    taps_free(taps);
}

static void expect_same(const char *what, int i, const struct test_run *a, const struct test_run *b,
                        uint32_t floats)
{
    for (uint64_t n = 0; n < a->frames * floats; n++)
        if (memcmp(&a->samples[n], &b->samples[n], sizeof(float)) != 0)
            fail_msg("%s, shape %d: frame %llu is %.9g and %.9g", what, i,
                     (unsigned long long)(n / floats), (double)a->samples[n],
                     (double)b->samples[n]);
}

static void as_defined_whatever_the_items(void **state)
{
    (void)state;
    for (int i = harness_sanitized() ? 2 : 0; i < SHAPES; i++) {
        struct test_signal *signal =
            signal_noise("s16le", shapes[i].channels, 3 * (uint64_t)shapes[i].taps + 700, 30 + i);
        signal_absent(signal, shapes[i].taps + 100, shapes[i].taps + 400);
        struct test_plan plan;
        prepare(&plan, signal, i);
        const uint32_t floats = plan_info(plan.plan)->output_floats;
        struct test_run ones = run_plan(engine, &plan, signal, &(struct run_options){.blocks = 1});
        expect_convolution("blocks one by one", &plan, signal, &ones, 0, ones.frames);
        struct test_run most =
            run_plan(engine, &plan, signal, &(struct run_options){.blocks = shapes[i].blocks_max});
        expect_same("as many blocks as there may be", i, &ones, &most, floats);
        struct test_run random =
            run_plan(engine, &plan, signal,
                     &(struct run_options){.seed = 9, .ring_offset = UINT64_C(0xFFFFFF00)});
        expect_same("random items, another place in the ring", i, &ones, &random, floats);
        struct test_run moved =
            run_plan(engine, &plan, signal, &(struct run_options){.seed = 4, .moves = true});
        expect_same("two equal plans by turns", i, &ones, &moved, floats);
        test_run_free(&ones);
        test_run_free(&most);
        test_run_free(&random);
        test_run_free(&moved);
        test_plan_free(&plan);
        signal_free(signal);
    }
}

static void short_and_long_filters(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {1, 40, 500, 2500, 6000};
    struct test_signal *signal = signal_noise("f32le", 5, 15000, 77);
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, 16, 6000, false, OUTPUT_REAL);
    for (uint32_t c = 0; c < 5; c++) {
        taps_free(plan.taps[c]);
        plan.taps[c] = taps_noise(lengths[c], false, 200 + c);
        plan.edges[c].gain = 0.5f + (float)c;
    }
    plan.spec.variant = "partitioned";
    test_plan_prepare(engine, &plan, signal);
    struct test_run run = run_plan(engine, &plan, signal, &(struct run_options){.seed = 5});
    expect_convolution("filters of all lengths", &plan, signal, &run, 0, run.frames);
    test_run_free(&run);
    test_plan_free(&plan);
    signal_free(signal);
}

/* Single blocks in any order: each rebuilds what it needs from the ring. */
static void jumps(void **state)
{
    (void)state;
    struct test_signal *signal = signal_noise("s16be", 2, 12000, 78);
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, 16, 3000, false, OUTPUT_REAL);
    plan.spec.variant = "partitioned";
    test_plan_prepare(engine, &plan, signal);
    struct test_run run = run_plan(engine, &plan, signal, &(struct run_options){.blocks = 1});
    struct ring *ring = NULL;
    struct problem problem;
    const uint64_t bytes = signal->frames * 2 * signal->format.bytes;
    assert_int_equal(
        engine_ring_open(engine, signal->frames, 2 * signal->format.bytes, &ring, &problem), 0);
    memcpy(ring->bytes, signal->bytes, bytes);
    for (uint64_t n = 0; n < signal->frames; n++)
        ring->present[n / 32] |= 1u << (n % 32);
    static const uint32_t blocks[] = {700, 3, 701, 5, 0, 64, 130, 129, 700, 127, 128};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        struct batch *batch = engine_batch_take(engine);
        const struct batch_item item = {
            .plan = plan.plan,
            .ring = ring,
            .position = blocks[i] * 16u,
            .epoch_block = blocks[i],
            .blocks = 1,
            .write_until = 16,
            .fresh_until = i == 0 ? signal->frames : 0,
        };
        assert_int_equal(engine_batch_add(engine, batch, &item), 0);
        engine_submit(engine, batch);
        batch = harness_wait(engine);
        assert_int_equal(batch->status, BATCH_OK);
        if (memcmp(batch->items[0].samples, run.samples + blocks[i] * 16u * 2,
                   16 * 2 * sizeof(float)) != 0)
            fail_msg("block %u after a jump differs", blocks[i]);
        engine_batch_release(engine, batch);
    }
    engine_ring_close(engine, ring);
    test_run_free(&run);
    test_plan_free(&plan);
    signal_free(signal);
}

/* The delay line of a tail holds the windows that a block reads, and those that one launch
 * transforms beside them: fewer would be overwritten before they are read. It does not double
 * because a few too many are kept. */
static void slots_of_the_tail(void **state)
{
    (void)state;
    enum { HOP = 16, FIRST_TAPS = 9000 };
    struct test_signal *signal = signal_noise("s16le", 1, 1000, 79);
    uint32_t span = 0;
    static const struct {
        uint32_t partitions, blocks_max, slots;
    } table[] = {{0, 4, 0}, {13, 4, 16}, {14, 4, 16}, {15, 4, 32}, {15, 1, 16}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct test_plan test;
        const uint32_t taps = i == 0 ? FIRST_TAPS : (2 + table[i].partitions) * span * HOP;
        test_plan_diagonal(&test, signal, HOP, taps, false, OUTPUT_REAL);
        test.spec.variant = "partitioned";
        test.spec.blocks_max = table[i].blocks_max;
        test_plan_prepare(engine, &test, signal);
        const struct plan *plan = test.plan;
        const struct stage *forward = &plan->stages[0];
        const uint64_t slots = forward->numbers[2];
        assert_true(forward->span_blocks > 0 && forward->keeps == KEEPS_SPECTRA);
        if (i == 0)
            span = plan->layout.tail.span; /* the filters to come are about as long */
        const struct plan_keeps keeps = plan_keeps(plan);
        const uint32_t blocks =
            forward->keeps_blocks != 0 ? forward->keeps_blocks : keeps.history + keeps.tail;
        if (plan->layout.tail.span != span || blocks / span > slots)
            fail_msg("%u taps: %u windows at once in %llu slots", taps, blocks / span,
                     (unsigned long long)slots);
        if (i > 0) {
            assert_int_equal(plan->layout.tail.partitions, table[i].partitions);
            assert_int_equal(slots, table[i].slots);
        }
        test_plan_free(&test);
    }
    signal_free(signal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_defined_whatever_the_items),
        cmocka_unit_test(short_and_long_filters),
        cmocka_unit_test(jumps),
        cmocka_unit_test(prepared_with_many_channels),
        cmocka_unit_test(slots_of_the_tail),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
