/*
 * Plans on the host beside a device with memory of its own, which the device is made to look like,
 * whatever it is: batches of such plans alone touch neither the device nor the bus, and wherever
 * they meet a plan on the device, in one ring, one batch or one block, the results are those of an
 * undisturbed run.
 *
 * takes: 2 s CPU in 2 s
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/engine_group.h"

enum { HOP = 64, BLOCKS = 12, FRAMES = HOP * BLOCKS, TAPS = 200, CHANNELS = 2, SAMPLES = 128 };

/* One signal and one filter through two plans. */
struct scene {
    struct test_signal *signal;
    struct test_plan host, device;
    struct ring *ring;
    float want[2][BLOCKS][SAMPLES]; /* by the host, by the device */
};

static void scene_prepare(struct scene *scene, struct test_plan *plan, const char *variant,
                          const char *results)
{
    test_plan_diagonal(plan, scene->signal, HOP, TAPS, false, OUTPUT_REAL);
    plan->spec.variant = variant;
    if (results != NULL)
        assert_int_equal(sample_format_parse(results, &plan->spec.results.format), 0);
    test_plan_prepare(engine, plan, scene->signal);
}

/* Frames of the signal, all of them in a ring that the device has seen nothing of. */
static void ring_open(struct scene *scene)
{
    struct problem problem;
    const uint32_t frame_bytes = CHANNELS * scene->signal->format.bytes;
    assert_int_equal(engine_ring_open(engine, FRAMES, frame_bytes, &scene->ring, &problem), 0);
    memset(scene->ring->present, 0, scene->ring->frames / 8);
}

static void put_block(struct scene *scene, uint64_t block)
{
    const size_t bytes = (size_t)HOP * scene->ring->frame_bytes;
    memcpy(scene->ring->bytes + block * bytes, scene->signal->bytes + block * bytes, bytes);
    for (uint64_t n = block * HOP; n < (block + 1) * HOP; n++)
        scene->ring->present[n / 32] |= 1u << (n % 32);
}

static struct batch_item item_of(const struct scene *scene, const struct test_plan *plan,
                                 uint64_t block)
{
    return (struct batch_item){
        .plan = plan->plan,
        .ring = scene->ring,
        .position = block * HOP,
        .epoch_block = block,
        .blocks = 1,
        .write_until = HOP,
        .fresh_from = block * HOP,
        .fresh_until = (block + 1) * HOP,
        .absent = true,
    };
}

/* One batch of these items, computed. */
static struct batch *compute(const struct batch_item *items, uint32_t count)
{
    struct batch *batch = engine_batch_take(engine);
    assert_non_null(batch);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(engine_batch_add(engine, batch, &items[i]), 0);
    engine_submit(engine, batch);
    return harness_wait(engine);
}

static void scene_open(struct scene *scene, const char *results)
{
    scene->signal = signal_noise("s16le", CHANNELS, FRAMES, 5);
    scene_prepare(scene, &scene->host, "host", results);
    scene_prepare(scene, &scene->device, "local", results);
    for (int plan = 0; plan < 2; plan++) {
        ring_open(scene);
        for (uint64_t block = 0; block < BLOCKS; block++) {
            put_block(scene, block);
            const struct batch_item item =
                item_of(scene, plan == 0 ? &scene->host : &scene->device, block);
            struct batch *batch = compute(&item, 1);
            if (results == NULL)
                memcpy(scene->want[plan][block], batch->items[0].samples,
                       sizeof scene->want[plan][block]);
            engine_batch_release(engine, batch);
        }
        engine_ring_close(engine, scene->ring);
    }
    ring_open(scene);
}

static void scene_close(struct scene *scene)
{
    engine_ring_close(engine, scene->ring);
    test_plan_free(&scene->host);
    test_plan_free(&scene->device);
    signal_free(scene->signal);
}

static void no_byte_crosses_the_bus(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, NULL);
    struct engine_traffic before, after;
    engine_traffic(engine, &before);
    for (uint64_t block = 0; block < BLOCKS; block++) {
        put_block(&scene, block);
        const struct batch_item item = item_of(&scene, &scene.host, block);
        engine_batch_release(engine, compute(&item, 1));
    }
    engine_traffic(engine, &after);
    assert_memory_equal(&before, &after, sizeof before);
    struct test_run run =
        run_plan(engine, &scene.host, scene.signal, &(struct run_options){.seed = 3});
    expect_convolution("host", &scene.host, scene.signal, &run, 0, run.frames);
    test_run_free(&run);
    scene_close(&scene);
}

/* A change to a plan on the device, after any number of blocks, and back. */
static void the_device_reads_what_the_host_has_read(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, NULL);
    for (uint64_t period = 1; period < BLOCKS; period++) {
        engine_ring_close(engine, scene.ring);
        ring_open(&scene);
        for (uint64_t block = 0; block < BLOCKS; block++) {
            const int plan = (int)(block / period % 2);
            put_block(&scene, block);
            const struct batch_item item =
                item_of(&scene, plan == 0 ? &scene.host : &scene.device, block);
            struct batch *batch = compute(&item, 1);
            assert_memory_equal(batch->items[0].samples, scene.want[plan][block],
                                sizeof scene.want[plan][block]);
            engine_batch_release(engine, batch);
        }
    }
    scene_close(&scene);
}

/* Both in one batch, in either order, each with samples of its own. */
static void one_batch_of_both(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, NULL);
    for (uint64_t block = 0; block < BLOCKS; block++) {
        put_block(&scene, block);
        struct batch_item items[] = {item_of(&scene, &scene.host, block),
                                     item_of(&scene, &scene.device, block)};
        const uint32_t first = block % 2;
        const struct batch_item ordered[] = {items[first], items[1 - first]};
        struct batch *batch = compute(ordered, 2);
        for (uint32_t i = 0; i < 2; i++)
            assert_memory_equal(batch->items[i].samples, scene.want[i == first ? 0 : 1][block],
                                sizeof scene.want[0][block]);
        for (uint32_t c = 0; c < CHANNELS; c++) {
            assert_int_equal(batch->items[0].reports[c].present, HOP);
            assert_int_equal(batch->items[1].reports[c].present, HOP);
        }
        engine_batch_release(engine, batch);
    }
    scene_close(&scene);
}

/* A change of plan inside a block: each writes its frames of the same samples. */
static void one_block_of_both(void **state)
{
    (void)state;
    enum { CHANGE = 24 };
    struct scene scene;
    scene_open(&scene, NULL);
    for (uint64_t block = 0; block < BLOCKS; block++) {
        const int first = (int)(block % 2);
        put_block(&scene, block);
        struct batch_item items[] = {
            item_of(&scene, first == 0 ? &scene.host : &scene.device, block),
            item_of(&scene, first == 0 ? &scene.device : &scene.host, block)};
        items[0].write_until = items[1].write_from = CHANGE;
        items[1].fresh_from = items[1].fresh_until;
        items[1].share_previous = true;
        struct batch *batch = compute(items, 2);
        const float *samples = batch->items[1].samples;
        assert_memory_equal(samples, scene.want[first][block], CHANGE * CHANNELS * sizeof *samples);
        assert_memory_equal(samples + CHANGE * CHANNELS,
                            scene.want[1 - first][block] + CHANGE * CHANNELS,
                            (HOP - CHANGE) * CHANNELS * sizeof *samples);
        engine_batch_release(engine, batch);
    }
    scene_close(&scene);
}

/* Their results are not on the device, from where a feed would take them. */
static void results_of_the_host_are_not_fed(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, NULL);
    for (int plan = 0; plan < 2; plan++) {
        put_block(&scene, 0);
        const struct batch_item item = item_of(&scene, plan == 0 ? &scene.host : &scene.device, 0);
        struct batch *batch = compute(&item, 1);
        assert_int_equal(engine_ring_feed(engine, scene.ring, HOP, HOP, batch->items[0].samples, 1),
                         plan == 1);
        engine_batch_release(engine, batch);
    }
    scene_close(&scene);
}

/* Alone and beside a plan on the device, which clears the counts in the device's memory. */
static void counts_of_clipped_samples(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, "s16le");
    for (uint32_t turn = 0; turn < 4; turn++) {
        put_block(&scene, 0);
        const struct batch_item items[] = {item_of(&scene, &scene.host, 0),
                                           item_of(&scene, &scene.device, 0)};
        struct batch *batch = compute(items, 1 + turn % 2);
        for (uint32_t i = 0; i < batch->count; i++)
            for (uint32_t c = 0; c < CHANNELS; c++)
                assert_int_equal(batch->items[i].saturated[c], 0);
        engine_batch_release(engine, batch);
    }
    scene_close(&scene);
}

/* By rule the host has the batches whose blocks are cheaper than a share in a launch. */
static void the_smallest_batches_stay_on_the_host_by_rule(void **state)
{
    (void)state;
    static const struct {
        uint32_t channels, hop, blocks;
        bool host;
    } rows[] = {
        {1, 64, 1, true},    {1, 64, 8, true},
        {4, 16, 2, true},                         /* 2×2 vectors of 32 points, and 5×5 */
        {10, 16, 5, true},   {1, 64, 100, false}, /* a batch that would hold others up */
        {64, 64, 1, false},                       /* a block that costs more than its copy */
        {2, 1024, 1, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct test_signal *signal = signal_noise("s16le", rows[i].channels, 600, i);
        struct test_plan plan;
        test_plan_diagonal(&plan, signal, rows[i].hop, rows[i].hop + 1, false, OUTPUT_REAL);
        plan.spec.blocks_max = rows[i].blocks;
        test_plan_prepare(engine, &plan, signal);
        const struct plan_info *info = plan_info(plan.plan);
        if ((strcmp(info->variant, "host") == 0) != rows[i].host || info->on_host != rows[i].host)
            fail_msg("row %zu: %s was chosen", i, info->variant);
        test_plan_free(&plan);
        signal_free(signal);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_byte_crosses_the_bus),
        cmocka_unit_test(the_device_reads_what_the_host_has_read),
        cmocka_unit_test(one_batch_of_both),
        cmocka_unit_test(one_block_of_both),
        cmocka_unit_test(results_of_the_host_are_not_fed),
        cmocka_unit_test(counts_of_clipped_samples),
        cmocka_unit_test(the_smallest_batches_stay_on_the_host_by_rule),
    };
    return cmocka_run_group_tests(tests, open_mirrored_engine, close_engine);
}
