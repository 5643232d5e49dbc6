/*
 * Contracts of time: the result is the same to the bit whatever the number of blocks in an
 * item, the neighbours in a batch, a rebuilt device, or a block computed early and again;
 * gaps and epochs are silence by presence bits; a change of plan inside a block is exact.
 *
 * takes: 4 s CPU in 4 s
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "convolve/object.h"
#include "convolve/plan/plan.h"
#include "core/clock.h"
#include "tests/support/engine_group.h"

/* One plan for each variant: one with partitions where the variant knows them. */
static const struct {
    const char *variant;
    uint32_t hop, fft, taps;
    enum output_form form;
} plans[] = {
    {"lanes", 64, 256, 150, OUTPUT_REAL},
    {"lanes", 64, 256, 150, OUTPUT_ENVELOPE},
    {"host", 64, 256, 150, OUTPUT_REAL},
    {"host", 64, 256, 150, OUTPUT_ENVELOPE},
    {"direct", 64, 128, 60, OUTPUT_COMPLEX},
    {"local", 64, 256, 150, OUTPUT_REAL},
    {"local", 64, 256, 150, OUTPUT_ENVELOPE},
    {"partitioned", 64, 128, 150, OUTPUT_REAL},
    {"general", 64, 128, 1000, OUTPUT_REAL},
    {"general", 64, 512, 1000, OUTPUT_COMPLEX},
    {"overlap-add", 64, 512, 300, OUTPUT_ENVELOPE},
    {"overlap-add-general", 64, 256, 900, OUTPUT_COMPLEX},
};
enum { PLANS = sizeof plans / sizeof plans[0] };

static void prepare(struct test_plan *plan, const struct test_signal *signal, int i)
{
    test_plan_diagonal(plan, signal, plans[i].hop, plans[i].taps, plans[i].form != OUTPUT_REAL,
                       plans[i].form);
    plan->spec.variant = plans[i].variant;
    plan->spec.fft = plans[i].fft;
    test_plan_prepare(engine, plan, signal);
}

static void expect_same(const char *what, int i, const struct test_run *a, const struct test_run *b,
                        uint32_t floats)
{
    for (uint64_t n = 0; n < a->frames; n++)
        for (uint32_t c = 0; c < floats; c++)
            if (memcmp(&a->samples[n * floats + c], &b->samples[n * floats + c], sizeof(float)) !=
                0)
                fail_msg("%s, plan %d (%s): frame %llu output %u is %.9g and %.9g", what, i,
                         plans[i].variant, (unsigned long long)n, c,
                         (double)a->samples[n * floats + c], (double)b->samples[n * floats + c]);
}

static void same_bits_whatever_the_batches(void **state)
{
    (void)state;
    for (int i = 0; i < PLANS; i++) {
        if (!harness_runs(engine, plans[i].variant))
            continue;
        struct test_signal *signal = signal_noise("s16le", 3, 64 * 40, 7);
        signal_absent(signal, 700, 900);
        struct test_plan plan;
        prepare(&plan, signal, i);
        const uint32_t floats = plan_info(plan.plan)->output_floats;
        struct test_run ones = run_plan(engine, &plan, signal, &(struct run_options){.blocks = 1});
        struct test_run eights =
            run_plan(engine, &plan, signal, &(struct run_options){.blocks = 8});
        struct test_run random =
            run_plan(engine, &plan, signal,
                     &(struct run_options){.seed = 3, .ring_offset = UINT64_C(0xFFFFFFF0)});
        expect_convolution("blocks one by one", &plan, signal, &ones, 0, ones.frames);
        expect_same("eight blocks an item", i, &ones, &eights, floats);
        expect_same("random items, another place in the ring", i, &ones, &random, floats);
        test_run_free(&ones);
        test_run_free(&eights);
        test_run_free(&random);
        test_plan_free(&plan);
        signal_free(signal);
    }
}

static void same_bits_whatever_the_neighbours(void **state)
{
    (void)state;
    for (int i = 0; i < PLANS; i++) {
        if (!harness_runs(engine, plans[i].variant))
            continue;
        struct test_signal *signal = signal_noise("s16be", 2, 64 * 30, 8);
        struct test_signal *theirs = signal_noise("f32le", 5, 96 * 20, 9);
        struct test_plan plan, neighbour;
        prepare(&plan, signal, i);
        /* Of the same N and variant, so that the rows stand in one launch. */
        test_plan_diagonal(&neighbour, theirs, 96, plans[i].taps > 160 ? 97 : plans[i].taps, false,
                           OUTPUT_REAL);
        neighbour.spec.variant = plans[i].variant;
        neighbour.spec.fft = plans[i].fft > 128 ? plans[i].fft : 256;
        test_plan_prepare(engine, &neighbour, theirs);
        const uint32_t floats = plan_info(plan.plan)->output_floats;
        struct test_run alone = run_plan(engine, &plan, signal, &(struct run_options){.seed = 4});
        struct test_run beside = run_plan(
            engine, &plan, signal,
            &(struct run_options){.seed = 5, .neighbour = &neighbour, .neighbour_signal = theirs});
        expect_same("beside another stream", i, &alone, &beside, floats);
        test_run_free(&alone);
        test_run_free(&beside);
        test_plan_free(&plan);
        test_plan_free(&neighbour);
        signal_free(signal);
        signal_free(theirs);
    }
}

static void same_bits_from_two_equal_plans_by_turns(void **state)
{
    (void)state;
    for (int i = 0; i < PLANS; i++) {
        if (!harness_runs(engine, plans[i].variant))
            continue;
        struct test_signal *signal = signal_noise("s24be", 2, 64 * 24, 10);
        struct test_plan plan;
        prepare(&plan, signal, i);
        const uint32_t floats = plan_info(plan.plan)->output_floats;
        struct test_run whole = run_plan(engine, &plan, signal, &(struct run_options){.blocks = 4});
        struct test_run moved =
            run_plan(engine, &plan, signal, &(struct run_options){.blocks = 4, .moves = true});
        expect_same("two equal plans by turns", i, &whole, &moved, floats);
        test_run_free(&whole);
        test_run_free(&moved);
        test_plan_free(&plan);
        signal_free(signal);
    }
}

/* ---- items made by hand ------------------------------------------------------------------ */

/* A ring that holds the whole signal from position 0, every frame present unless the signal says
 * otherwise. */
static struct ring *whole_ring(const struct test_signal *signal)
{
    struct ring *ring = NULL;
    struct problem problem;
    const uint32_t frame_bytes = signal->inputs * signal->format.bytes;
    assert_int_equal(engine_ring_open(engine, signal->frames + 64, frame_bytes, &ring, &problem),
                     0);
    memcpy(ring->bytes, signal->bytes, signal->frames * frame_bytes);
    for (uint64_t n = 0; n < signal->frames; n++)
        if (signal->absent == NULL || !signal->absent[n])
            ring->present[n / 32] |= 1u << (n % 32);
    return ring;
}

static struct batch_item item_of(const struct test_plan *plan, struct ring *ring, uint64_t block,
                                 uint32_t blocks)
{
    const uint32_t hop = plan_info(plan->plan)->hop;
    return (struct batch_item){
        .plan = plan->plan,
        .ring = ring,
        .position = block * hop,
        .epoch_block = block,
        .blocks = blocks,
        .write_until = blocks * hop,
        .fresh_until = ring->frames,
        .absent = true,
    };
}

static struct batch *submit(const struct batch_item *items, uint32_t count)
{
    struct batch *batch = engine_batch_take(engine);
    assert_non_null(batch);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(engine_batch_add(engine, batch, &items[i]), 0);
    engine_submit(engine, batch);
    return harness_wait(engine);
}

/* Blocks asked for in any order: what the plan keeps is rebuilt from the ring. */
static void blocks_in_any_order(void **state)
{
    (void)state;
    static const uint64_t order[] = {30, 3, 4, 4, 5, 2, 31, 32, 0, 1, 2, 3, 38, 37, 36};
    for (int i = 0; i < PLANS; i++) {
        if (!harness_runs(engine, plans[i].variant))
            continue;
        struct test_signal *signal = signal_noise("s16le", 2, 64 * 40, 12);
        struct test_plan plan;
        prepare(&plan, signal, i);
        const uint32_t floats = plan_info(plan.plan)->output_floats;
        struct test_run run = run_plan(engine, &plan, signal, &(struct run_options){.blocks = 2});
        struct ring *ring = whole_ring(signal);
        for (size_t k = 0; k < sizeof order / sizeof order[0]; k++) {
            const struct batch_item item = item_of(&plan, ring, order[k], 1 + k % 2);
            struct batch *batch = submit(&item, 1);
            struct test_run part = {.samples = batch->items[0].samples, .frames = item.blocks * 64};
            struct test_run want = {.samples = run.samples + order[k] * 64 * floats,
                                    .frames = part.frames};
            expect_same("blocks in any order", i, &want, &part, floats);
            engine_batch_release(engine, batch);
        }
        engine_ring_close(engine, ring);
        test_run_free(&run);
        test_plan_free(&plan);
        signal_free(signal);
    }
}

/* A block computed while half of it is missing, then again when it is whole. */
static void partial_block_then_whole(void **state)
{
    (void)state;
    for (int i = 0; i < PLANS; i++) {
        if (!harness_runs(engine, plans[i].variant))
            continue;
        struct test_signal *signal = signal_noise("s16le", 2, 64 * 24, 13);
        struct test_plan plan;
        prepare(&plan, signal, i);
        const uint32_t floats = plan_info(plan.plan)->output_floats;
        struct test_run run = run_plan(engine, &plan, signal, &(struct run_options){.blocks = 1});
        struct ring *ring = whole_ring(signal);
        for (uint64_t block = 0; block < 24; block++) {
            if (block % 5 == 2) {
                /* Frames 20…63 have not come yet. */
                uint32_t saved[2];
                memcpy(saved, &ring->present[block * 2], sizeof saved);
                ring->present[block * 2] &= 0x000FFFFFu;
                ring->present[block * 2 + 1] = 0;
                struct batch_item early = item_of(&plan, ring, block, 1);
                early.write_until = 20;
                struct batch *batch = submit(&early, 1);
                const float *part = batch->items[0].samples,
                            *want = run.samples + block * 64 * floats;
                for (uint64_t n = 0; n < 20 * floats; n++)
                    if (!(part[n] - want[n] < 1e-5f && want[n] - part[n] < 1e-5f))
                        fail_msg("plan %d: an early block differs at value %llu", i,
                                 (unsigned long long)n);
                engine_batch_release(engine, batch);
                memcpy(&ring->present[block * 2], saved, sizeof saved);
            }
            const struct batch_item item = item_of(&plan, ring, block, 1);
            struct batch *batch = submit(&item, 1);
            struct test_run part = {.samples = batch->items[0].samples, .frames = 64};
            struct test_run want = {.samples = run.samples + block * 64 * floats, .frames = 64};
            expect_same("after a partial block", i, &want, &part, floats);
            engine_batch_release(engine, batch);
        }
        engine_ring_close(engine, ring);
        test_run_free(&run);
        test_plan_free(&plan);
        signal_free(signal);
    }
}

/* Two epochs of one ring: the second sees nothing of the first, its frames having been overwritten
 * with silence by presence. Both in one batch. */
static void two_epochs_in_one_batch(void **state)
{
    (void)state;
    static const struct {
        uint32_t block, blocks; /* of the first epoch */
        uint32_t skipped;       /* blocks of the second that were shed: its first is not block 0 */
    } cases[] = {{18, 2, 0}, {0, 4, 3}};
    for (int i = 0; i < PLANS; i++) {
        if (!harness_runs(engine, plans[i].variant))
            continue;
        struct test_signal *signal = signal_noise("s16le", 2, 64 * 64, 14);
        signal_absent(signal, 64 * 20,
                      64 * 40); /* silence between the epochs, longer than any filter here */
        struct test_plan plan;
        prepare(&plan, signal, i);
        struct ring *ring = whole_ring(signal);
        const uint32_t floats = plan_info(plan.plan)->output_floats;
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
            const uint64_t first = cases[c].block, second = 40 + cases[c].skipped;
            struct batch_item items[2] = {item_of(&plan, ring, first, cases[c].blocks),
                                          item_of(&plan, ring, second, 3)};
            items[1].epoch_block = cases[c].skipped;
            struct batch *batch = submit(items, 2);
            struct test_run run = {.samples = calloc(64 * 46 * floats, sizeof(float)),
                                   .frames = 64 * 46};
            memcpy(run.samples + 64 * first * floats, batch->items[0].samples,
                   64 * cases[c].blocks * floats * sizeof(float));
            memcpy(run.samples + 64 * second * floats, batch->items[1].samples,
                   64 * 3 * floats * sizeof(float));
            expect_convolution("the first epoch", &plan, signal, &run, 64 * first,
                               64 * (first + cases[c].blocks));
            expect_convolution("the second epoch", &plan, signal, &run, 64 * second,
                               64 * (second + 3));
            engine_batch_release(engine, batch);
            free(run.samples);
        }
        engine_ring_close(engine, ring);
        test_plan_free(&plan);
        signal_free(signal);
    }
}

/* Another filter from frame F of a block on: two items share the samples. */
static void filter_exchanged_inside_a_block(void **state)
{
    (void)state;
    for (int i = 0; i < PLANS; i++) {
        if (!harness_runs(engine, plans[i].variant))
            continue;
        struct test_signal *signal = signal_noise("s16le", 2, 64 * 30, 15);
        struct test_plan before, after;
        prepare(&before, signal, i);
        prepare(&after, signal, i);
        test_plan_free(&after);
        test_plan_diagonal(&after, signal, 64, 33, plans[i].form != OUTPUT_REAL, plans[i].form);
        for (uint32_t c = 0; c < 2; c++)
            after.taps[c]->re[0] += 1;
        test_plan_prepare(engine, &after, signal);
        const uint32_t floats = plan_info(before.plan)->output_floats;
        struct test_run old = run_plan(engine, &before, signal, &(struct run_options){.blocks = 1});
        struct test_run new = run_plan(engine, &after, signal, &(struct run_options){.blocks = 1});
        struct ring *ring = whole_ring(signal);
        const uint32_t change = 64 + 23;
        struct batch_item items[2] = {item_of(&before, ring, 20, 3), item_of(&after, ring, 20, 3)};
        items[0].write_until = change;
        items[1].write_from = change;
        items[1].share_previous = true;
        struct batch *batch = submit(items, 2);
        assert_ptr_equal(batch->items[0].samples, batch->items[1].samples);
        struct test_run got = {.samples = batch->items[0].samples, .frames = change};
        struct test_run want = {.samples = old.samples + 64 * 20 * floats, .frames = change};
        expect_same("before the change", i, &want, &got, floats);
        got =
            (struct test_run){.samples = got.samples + change * floats, .frames = 64 * 3 - change};
        want = (struct test_run){.samples = new.samples + (64 * 20 + change) * floats,
                                 .frames = got.frames};
        expect_same("after the change", i, &want, &got, floats);
        engine_batch_release(engine, batch);
        engine_ring_close(engine, ring);
        test_run_free(&old);
        test_run_free(&new);
        test_plan_free(&before);
        test_plan_free(&after);
        signal_free(signal);
    }
}

/* Frames outside write_from … write_until keep what the memory held. */
static void writes_only(const struct test_plan *plan, struct ring *ring, uint32_t from,
                        uint32_t until)
{
    const uint32_t floats = plan_info(plan->plan)->output_floats;
    const struct batch_item all = item_of(plan, ring, 4, 3);
    struct batch_item some = item_of(plan, ring, 7, 3);
    some.write_from = from;
    some.write_until = until;
    struct batch *batch = submit(&all, 1);
    float *kept = malloc(64 * 3 * floats * sizeof(float));
    memcpy(kept, batch->items[0].samples, 64 * 3 * floats * sizeof(float));
    const float *place = batch->items[0].samples;
    engine_batch_release(engine, batch);
    batch = submit(&some, 1);
    if (batch->items[0].samples == place) {
        assert_memory_equal(place, kept, from * floats * sizeof(float));
        assert_memory_equal(place + until * floats, kept + until * floats,
                            (64 * 3 - until) * floats * sizeof(float));
    }
    engine_batch_release(engine, batch);
    free(kept);
}

static void writes_only_what_was_asked(void **state)
{
    (void)state;
    static const uint32_t ranges[][2] = {{10, 150}, {0, 150}, {10, 192}};
    for (int i = 0; i < PLANS; i++) {
        if (!harness_runs(engine, plans[i].variant))
            continue;
        struct test_signal *signal = signal_noise("s16le", 2, 64 * 12, 16);
        struct test_plan plan;
        prepare(&plan, signal, i);
        struct ring *ring = whole_ring(signal);
        for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; r++)
            writes_only(&plan, ring, ranges[r][0], ranges[r][1]);
        engine_ring_close(engine, ring);
        test_plan_free(&plan);
        signal_free(signal);
    }
}

/* All slots in flight at once complete in order and give the same bits. */
static void many_batches_in_flight(void **state)
{
    (void)state;
    for (int i = 0; i < PLANS; i++) {
        if (!harness_runs(engine, plans[i].variant))
            continue;
        struct test_signal *signal = signal_noise("s16le", 2, 64 * 40, 17);
        struct test_plan plan;
        prepare(&plan, signal, i);
        const uint32_t floats = plan_info(plan.plan)->output_floats;
        struct test_run run = run_plan(engine, &plan, signal, &(struct run_options){.blocks = 1});
        struct ring *ring = whole_ring(signal);
        uint64_t sent = 0, received = 0;
        while (received < 39) {
            struct batch *batch;
            while (sent < 39 && (batch = engine_batch_take(engine)) != NULL) {
                struct batch_item item = item_of(&plan, ring, sent, 1);
                item.owner = (void *)(uintptr_t)sent++;
                assert_int_equal(engine_batch_add(engine, batch, &item), 0);
                engine_submit(engine, batch);
            }
            batch = harness_wait(engine);
            assert_int_equal((uintptr_t)batch->items[0].owner, received);
            assert_true(batch->submitted_ns <= batch->started_ns &&
                        batch->started_ns <= batch->completed_ns);
            struct test_run part = {.samples = batch->items[0].samples, .frames = 64};
            struct test_run want = {.samples = run.samples + received * 64 * floats, .frames = 64};
            expect_same("many in flight", i, &want, &part, floats);
            engine_batch_release(engine, batch);
            received++;
        }
        assert_int_equal(engine_in_flight(engine), 0);
        engine_ring_close(engine, ring);
        test_run_free(&run);
        test_plan_free(&plan);
        signal_free(signal);
    }
}

/* What one channel holds never changes a bit of another: silence, full scale, NaN. */
static void channels_do_not_touch(void **state)
{
    (void)state;
    const char *variant;
    for (int v = 0; (variant = engine_variant_name(v)) != NULL; v++) {
        if (!harness_runs(engine, variant))
            continue;
        struct test_signal *quiet = signal_noise("f32le", 3, 64 * 20, 18);
        struct test_signal *loud = signal_noise("f32le", 3, 64 * 20, 18);
        struct random_state random = {19};
        for (uint64_t n = 0; n < loud->frames; n++) {
            const float other[2] = {n % 97 == 5 ? NAN : 1e6f * (float)random_normal(&random), 0};
            memcpy(loud->bytes + n * 12, other, 4); /* channels 0 and 2 change, 1 does not */
            memcpy(loud->bytes + n * 12 + 8, other + 1, 4);
        }
        struct test_plan plan;
        test_plan_diagonal(&plan, quiet, 64, 65, false, OUTPUT_REAL);
        plan.spec.variant = variant;
        test_plan_prepare(engine, &plan, quiet);
        struct test_run a = run_plan(engine, &plan, quiet, &(struct run_options){.blocks = 3});
        struct test_run b = run_plan(engine, &plan, loud, &(struct run_options){.blocks = 3});
        for (uint64_t n = 0; n < a.frames; n++)
            if (memcmp(&a.samples[n * 3 + 1], &b.samples[n * 3 + 1], sizeof(float)) != 0)
                fail_msg("%s: channel 1 changes with its neighbours at frame %llu: %.9g and %.9g",
                         variant, (unsigned long long)n, (double)a.samples[n * 3 + 1],
                         (double)b.samples[n * 3 + 1]);
        test_run_free(&a);
        test_run_free(&b);
        test_plan_free(&plan);
        signal_free(quiet);
        signal_free(loud);
    }
}

/* A batch's end is seen when it comes, also where it is expected seconds later. */
static void an_end_sooner_than_expected(void **state)
{
    (void)state;
    struct test_signal *signal = signal_noise("f32le", 1, 256, 3);
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, 64, 5, false, OUTPUT_REAL);
    plan.spec.variant = "direct";
    test_plan_prepare(engine, &plan, signal);
    const int64_t expected_ns = 5 * NS_PER_SECOND;
    atomic_store(&plan.plan->cost_base_ns, expected_ns);
    const int64_t begin_ns = clock_monotonic_ns();
    struct test_run run = run_plan(engine, &plan, signal, &(struct run_options){.blocks = 1});
    assert_true(clock_monotonic_ns() - begin_ns < expected_ns / 2);
    assert_true(plan_cost_ns(plan.plan, 1) < expected_ns);
    expect_convolution("early", &plan, signal, &run, 0, run.frames);
    test_run_free(&run);
    test_plan_free(&plan);
    signal_free(signal);
}

/* The most batches in flight of blocks that should take so long, while the queue takes more. */
static uint32_t taken(const struct test_plan *plan, struct ring *ring, int64_t block_ns)
{
    atomic_store(&plan->plan->cost_base_ns, block_ns);
    uint32_t submitted = 0;
    while (engine_takes_batch(engine)) {
        struct batch *batch = engine_batch_take(engine);
        const struct batch_item item = item_of(plan, ring, submitted++, 1);
        assert_non_null(batch);
        assert_int_equal(engine_batch_add(engine, batch, &item), 0);
        engine_submit(engine, batch);
    }
    for (uint32_t i = 0; i < submitted; i++)
        engine_batch_release(engine, harness_wait(engine));
    return submitted;
}

/* Short batches may be more than long ones in the device's queue, where its traits say so. */
static void more_short_batches_than_long_ones(void **state)
{
    (void)state;
    struct test_signal *signal = signal_noise("f32le", 1, 64 * 8, 3);
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, 64, 5, false, OUTPUT_REAL);
    test_plan_prepare(engine, &plan, signal);
    struct ring *ring = whole_ring(signal);
    const uint32_t depth = engine->depth, depth_short = engine->depth_short;
    engine->depth = 2;
    engine->depth_short = 5;
    const int64_t short_ns = 50 * NS_PER_US, medium_ns = 150 * NS_PER_US, long_ns = NS_PER_MS;
    assert_int_equal(taken(&plan, ring, short_ns), 5);
    assert_int_equal(taken(&plan, ring, medium_ns), 3); /* 450 us are enough */
    assert_int_equal(taken(&plan, ring, long_ns), 2);
    assert_int_equal(engine->busy_ns, 0);
    engine->depth = depth;
    engine->depth_short = depth_short;
    engine_ring_close(engine, ring);
    test_plan_free(&plan);
    signal_free(signal);
}

/* LOOP stays awake for a short batch that is the only one, and for no other. */
static void awake_for_a_short_batch_alone(void **state)
{
    (void)state;
    struct test_signal *signal = signal_noise("f32le", 1, 64 * 8, 3);
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, 64, 5, false, OUTPUT_REAL);
    plan.spec.variant = "direct";
    test_plan_prepare(engine, &plan, signal);
    struct ring *ring = whole_ring(signal);
    static const struct {
        int64_t block_ns;
        uint32_t batches;
        bool awake;
    } rows[] = {{50 * NS_PER_US, 1, true}, {NS_PER_MS, 1, false}, {50 * NS_PER_US, 2, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(engine_poll_until_ns(engine), 0);
        atomic_store(&plan.plan->cost_base_ns, rows[i].block_ns);
        atomic_store(&plan.plan->cost_block_ps, 0);
        int64_t submitted_ns = 0;
        for (uint32_t n = 0; n < rows[i].batches; n++) {
            struct batch *batch = engine_batch_take(engine);
            const struct batch_item item = item_of(&plan, ring, n, 1);
            assert_int_equal(engine_batch_add(engine, batch, &item), 0);
            engine_submit(engine, batch);
            submitted_ns = batch->submitted_ns;
        }
        const int64_t until_ns = engine_poll_until_ns(engine);
        if (rows[i].awake)
            assert_in_range(until_ns - submitted_ns, rows[i].block_ns, 2 * rows[i].block_ns);
        else
            assert_int_equal(until_ns, 0);
        for (uint32_t n = 0; n < rows[i].batches; n++)
            engine_batch_release(engine, harness_wait(engine));
    }
    engine_ring_close(engine, ring);
    test_plan_free(&plan);
    signal_free(signal);
}

int main(void)
{
    const struct CMUnitTest gpu_tests[] = {cmocka_unit_test(an_end_sooner_than_expected),
                                           cmocka_unit_test(awake_for_a_short_batch_alone)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_whatever_the_batches),
        cmocka_unit_test(same_bits_whatever_the_neighbours),
        cmocka_unit_test(same_bits_from_two_equal_plans_by_turns),
        cmocka_unit_test(blocks_in_any_order),
        cmocka_unit_test(partial_block_then_whole),
        cmocka_unit_test(two_epochs_in_one_batch),
        cmocka_unit_test(filter_exchanged_inside_a_block),
        cmocka_unit_test(writes_only_what_was_asked),
        cmocka_unit_test(many_batches_in_flight),
        cmocka_unit_test(more_short_batches_than_long_ones),
        cmocka_unit_test(channels_do_not_touch),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine) +
           cmocka_run_group_tests(gpu_tests, open_gpu_shape_engine, close_engine);
}
