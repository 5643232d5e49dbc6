/*
 * Packed reports (convolve/reports.h): the reports of short blocks are those of the definition,
 * counts and peaks exact, sums within the precision that batch.h states, whatever a block holds:
 * noise of any size, silence, samples at full scale and not finite, frames that are absent. They do
 * not depend on how blocks are batched, and full ones cross the bus only when they count. All of
 * this where host and device share memory, and on a device with memory of its own.
 *
 * sanitizers: no, sums of kernels; test_engine_small plans both programs
 * long: also, more shapes
 * turns: yes
 * kernels: optimised, two programs round alike only where the compiler forms the same multiply-adds
 * takes: 6 s CPU in 6 s
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "convolve/plan/plan.h"
#include "tests/support/engine_group.h"
#include "tests/support/engine_seams.h"

enum { BLOCKS = 48, BATCH_BLOCKS = 5, SHIFT = 512 };

static const struct shape {
    const char *format, *results; /* NULL: floats */
    uint32_t fft, hop, channels;
    double full_scale;
    enum plan_packing packing;
    const char *variant;
} shapes[] = {
    {"s16be", "s16le", 128, 120, 2, 1, PACKS_INT16, "fused"},
    {"f32le", NULL, 128, 64, 1, -1.7, PACKS_FLOAT, "fused"},
    /* with every shape: */
    {"s16le", NULL, 128, 64, 1, 3, PACKS_INT16, "fused"},
    {"s16le", "s16le", 256, 248, 16, 1, PACKS_INT16, "fused"},
    {"f32be", NULL, 256, 128, 2, 1, PACKS_FLOAT, "fused"},
    {"f32le", NULL, 512, 256, 16, 5, PACKS_FLOAT, "fused"},
    {"f32le", NULL, 512, 257, 1, 1, PACKS_NOTHING, "fused"},
};

enum { SHAPES_CHECKED = 2, SHAPES = sizeof shapes / sizeof shapes[0] };

/* ---- signals ----------------------------------------------------------------------------- */

/* What a block of a channel holds. */
enum content {
    NOISE,
    CONSTANT,
    SILENCE,
    TINY, /* floats: squares that are subnormal, or zero */
    FULL_SCALE,
    LEAST_CODE,
    NOT_A_NUMBER,
    CONTENTS
};

static double value_of(enum content content, uint32_t frame, uint32_t hop, double size,
                       double noise)
{
    const bool one = frame == hop / 3;
    switch (content) {
    case CONSTANT:
        return -0.999 * size;
    case SILENCE:
        return 0;
    case TINY:
        return 1e-21 * noise;
    case FULL_SCALE:
        return one ? 1 : size * noise;
    case LEAST_CODE:
        return one ? -1 : size * noise;
    case NOT_A_NUMBER:
        return one || frame == hop - 1 ? (double)NAN : size * noise;
    default:
        return size * noise;
    }
}

/* Blocks of every content and size. `loud`: with what makes reports full. */
static struct test_signal *mixed_signal(const struct shape *shape, bool loud)
{
    struct test_signal *signal =
        signal_noise(shape->format, shape->channels, BLOCKS * (uint64_t)shape->hop, 3);
    struct random_state random = {shape->hop + shape->fft};
    for (uint32_t b = 0; b < BLOCKS; b++)
        for (uint32_t c = 0; c < shape->channels; c++) {
            const uint32_t drawn = random_below(&random, loud ? 2 * CONTENTS : 2 * TINY);
            const enum content content = drawn < CONTENTS ? (enum content)drawn : NOISE;
            const double size =
                0.9 * pow(10, -(int)random_below(&random, signal->format.bytes == 2 ? 5 : 12));
            for (uint32_t i = 0; i < shape->hop; i++)
                sample_encode(&signal->format,
                              value_of(loud || content < TINY ? content : NOISE, i, shape->hop,
                                       size, 2 * random_unit(&random) - 1),
                              signal->bytes +
                                  (((uint64_t)b * shape->hop + i) * shape->channels + c) *
                                      signal->format.bytes);
        }
    for (uint32_t c = 0; c < shape->channels; c++)
        signal->scales[c].full_scale = shape->full_scale;
    signal_decode(signal);
    return signal;
}

/* ---- runs -------------------------------------------------------------------------------- */

struct scene {
    const struct shape *shape;
    struct test_signal *signal;
    struct test_plan plan;
    struct ring *ring;
};

/* All frames of the signal lie in the ring from SHIFT on, behind silence. */
static void scene_open(struct scene *scene, const struct shape *shape, bool loud, bool absent)
{
    *scene = (struct scene){.shape = shape, .signal = mixed_signal(shape, loud)};
    if (absent) {
        signal_absent(scene->signal, 3 * shape->hop - 20, 3 * shape->hop + 5);
        signal_absent(scene->signal, 7 * shape->hop, 8 * shape->hop);
    }
    test_plan_diagonal(&scene->plan, scene->signal, shape->hop, shape->fft - shape->hop + 1, false,
                       OUTPUT_REAL);
    if (shape->results != NULL) {
        assert_int_equal(sample_format_parse(shape->results, &scene->plan.spec.results.format), 0);
        scene->plan.spec.results.factor = 1;
    }
    scene->plan.spec.variant = shape->variant;
    scene->plan.spec.fft = shape->fft;
    scene->plan.spec.blocks_max = BATCH_BLOCKS;
    test_plan_prepare(engine, &scene->plan, scene->signal);
    assert_int_equal(scene->plan.plan->packing, shape->packing);

    struct problem problem = {0};
    const uint32_t frame = shape->channels * scene->signal->format.bytes;
    if (engine_ring_open(engine, SHIFT + scene->signal->frames, frame, &scene->ring, &problem) < 0)
        fail_msg("%s", problem.text);
    memset(scene->ring->bytes, 0, (size_t)scene->ring->frames * frame);
    memset(scene->ring->present, 0xff, scene->ring->frames / 8);
    memcpy(scene->ring->bytes + SHIFT * frame, scene->signal->bytes, scene->signal->frames * frame);
    for (uint64_t n = 0; absent && n < scene->signal->frames; n++)
        if (scene->signal->absent[n])
            scene->ring->present[(SHIFT + n) / 32] &= ~(1u << (SHIFT + n) % 32);
}

static void scene_close(struct scene *scene)
{
    engine_ring_close(engine, scene->ring);
    test_plan_free(&scene->plan);
    signal_free(scene->signal);
}

/* Adds blocks from `first` on; the host's memory holds other reports. */
static void add_blocks(const struct scene *scene, struct batch *batch, uint32_t first,
                       uint32_t blocks)
{
    const struct shape *shape = scene->shape;
    const struct batch_item item = {
        .plan = scene->plan.plan,
        .ring = scene->ring,
        .position = SHIFT + (uint64_t)first * shape->hop,
        .epoch_block = 1000 + first,
        .blocks = blocks,
        .write_until = blocks * shape->hop,
        .fresh_until = SHIFT + scene->signal->frames,
        .absent = scene->signal->absent != NULL,
    };
    assert_int_equal(engine_batch_add(engine, batch, &item), 0);
    struct block_report *reports = batch->items[batch->count - 1].reports;
    memset(reports, 0xee, sizeof *reports * blocks * shape->channels);
}

/* The reports of blocks from `first` on; the batch's status. */
static int run_blocks(const struct scene *scene, uint32_t first, uint32_t blocks,
                      struct block_report *reports)
{
    struct batch *batch = engine_batch_take(engine);
    assert_non_null(batch);
    add_blocks(scene, batch, first, blocks);
    engine_submit(engine, batch);
    assert_ptr_equal(harness_wait_any(engine), batch);
    memcpy(reports, batch->items[0].reports, sizeof *reports * blocks * scene->shape->channels);
    const int status = batch->status;
    engine_batch_release(engine, batch);
    return status;
}

static struct block_report *run_signal(const struct scene *scene, uint64_t seed)
{
    const uint32_t channels = scene->shape->channels;
    struct block_report *reports = calloc(BLOCKS * channels, sizeof *reports);
    struct random_state random = {seed};
    uint32_t blocks;
    for (uint32_t block = 0; block < BLOCKS; block += blocks) {
        blocks = seed == 0 ? 1 : 1 + random_below(&random, BATCH_BLOCKS);
        blocks = blocks < BLOCKS - block ? blocks : BLOCKS - block;
        assert_int_equal(run_blocks(scene, block, blocks, reports + block * channels), BATCH_OK);
    }
    return reports;
}

/* ---- the definition ---------------------------------------------------------------------- */

struct definition {
    double sum, squares, peak, sizes; /* sizes: sum of magnitudes */
    uint32_t overload, nonfinite, first, last, present;
};

static struct definition define(const struct scene *scene, uint64_t block, uint32_t c)
{
    const struct test_signal *signal = scene->signal;
    const uint32_t hop = scene->shape->hop, bytes = signal->format.bytes;
    struct definition want = {.first = UINT32_MAX};
    for (uint32_t i = 0; i < hop; i++) {
        const uint64_t n = block * hop + i;
        if (signal->absent != NULL && signal->absent[n])
            continue;
        const double code = sample_decode(&signal->format,
                                          signal->bytes + (n * scene->shape->channels + c) * bytes);
        want.present++;
        if (!isfinite(code)) {
            want.first = want.nonfinite++ == 0 ? i : want.first;
            want.last = i;
            continue;
        }
        const double value = signal->values[c * signal->frames + n];
        want.sum += value;
        want.squares += value * value;
        want.sizes += fabs(value);
        want.peak = fmax(want.peak, fabs(value));
        want.overload += bytes == 4 ? fabs(code) >= 1 : code <= -1 || code >= 1 - 0x1p-15;
    }
    return want;
}

static void expect_report(const struct scene *scene, uint64_t block, uint32_t c,
                          const struct block_report *got)
{
    const struct shape *shape = scene->shape;
    const struct definition want = define(scene, block, c);
    assert_int_equal(got->present, want.present);
    assert_int_equal(got->overload, want.overload);
    assert_int_equal(got->nonfinite, want.nonfinite);
    assert_int_equal(got->nonfinite_first, want.first);
    assert_int_equal(got->nonfinite_last, want.last);
    const bool rounded = shape->packing == PACKS_FLOAT && want.overload == 0;
    /* of single floats, and of what a packed one rounds; squares of 1e-19 are no normal numbers */
    const double sum = 1e-6 * want.sizes + (rounded ? 1.6e-5 * shape->hop * want.peak : 0);
    const double squares = want.squares * (4e-6 + (rounded                         ? 6.2e-5
                                                   : shape->packing == PACKS_INT16 ? 2e-6
                                                                                   : 0));
    if (!(fabs((double)got->peak - want.peak) <= 1e-7 * want.peak) ||
        !(fabs((double)got->sum - want.sum) <= sum) ||
        !(fabs((double)got->sum_squares - want.squares) <= squares + 1e-36))
        fail_msg("%s, hop %u, block %u, channel %u: sum %.9g of %.9g, squares %.9g of %.9g, peak "
                 "%.9g of %.9g",
                 shape->format, shape->hop, (unsigned)block, c, (double)got->sum, want.sum,
                 (double)got->sum_squares, want.squares, (double)got->peak, want.peak);
}

/* ---- tests ------------------------------------------------------------------------------- */

static void reports_are_as_defined(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * (harness_every_shape() ? SHAPES : SHAPES_CHECKED); i++) {
        struct scene scene;
        scene_open(&scene, &shapes[i / 2], true, i % 2);
        struct block_report *ones = run_signal(&scene, 0), *random = run_signal(&scene, 7);
        for (uint32_t b = 0; b < BLOCKS; b++)
            for (uint32_t c = 0; c < shapes[i / 2].channels; c++)
                expect_report(&scene, b, c, &ones[b * shapes[i / 2].channels + c]);
        assert_memory_equal(ones, random, BLOCKS * shapes[i / 2].channels * sizeof *ones);
        free(ones);
        free(random);
        scene_close(&scene);
    }
}

/* Items of plans that pack their reports and of one that does not, in one batch. */
static void plans_of_both_kinds_share_a_batch(void **state)
{
    (void)state;
    static const struct {
        uint32_t scene, first, blocks;
    } items[] = {{0, 8, 3}, {2, 5, 2}, {1, 20, 5}, {0, 30, 5}, {2, 11, 1}, {0, 2, 1}};
    enum { ITEMS = sizeof items / sizeof items[0] };
    const struct shape plain = {"s16be", "s16le", 256, 100, 3, 1, PACKS_NOTHING, "direct"};
    const struct shape *const of[] = {&shapes[0], &shapes[1], &plain};
    struct scene scenes[3];
    for (int i = 0; i < 3; i++)
        scene_open(&scenes[i], of[i], true, false);
    struct batch *batch = engine_batch_take(engine);
    for (int i = 0; i < ITEMS; i++)
        add_blocks(&scenes[items[i].scene], batch, items[i].first, items[i].blocks);
    engine_submit(engine, batch);
    assert_ptr_equal(harness_wait(engine), batch);
    for (int i = 0; i < ITEMS; i++) {
        const struct scene *scene = &scenes[items[i].scene];
        const uint32_t channels = scene->shape->channels;
        for (uint32_t b = 0; b < items[i].blocks; b++)
            for (uint32_t c = 0; c < channels; c++)
                expect_report(scene, items[i].first + b, c,
                              &batch->items[i].reports[b * channels + c]);
    }
    engine_batch_release(engine, batch);
    for (int i = 0; i < 3; i++)
        scene_close(&scenes[i]);
}

/* Bytes of results that a run of blocks brings to the host. */
static uint64_t bytes_of(const struct scene *scene, uint32_t first, uint32_t blocks)
{
    struct block_report reports[BATCH_BLOCKS * 16];
    struct engine_traffic before, after;
    engine_traffic(engine, &before);
    assert_int_equal(run_blocks(scene, first, blocks, reports), BATCH_OK);
    engine_traffic(engine, &after);
    return after.result_bytes - before.result_bytes;
}

/* Eight bytes of a block come to the host, the rest when they count, and then for a while. */
static void full_reports_come_when_they_count(void **state)
{
    (void)state;
    const struct shape *shape = &shapes[1];
    struct scene scene;
    scene_open(&scene, shape, false, false);
    const uint64_t samples = 4 * shape->hop * sizeof(float), packed = 4 * 8, full = 4 * 32;
    assert_int_equal(bytes_of(&scene, 0, 4), samples + packed);
    assert_int_equal(bytes_of(&scene, 4, 4), samples + packed);
    sample_encode(&scene.signal->format, 1, scene.ring->bytes + (SHIFT + 9 * shape->hop) * 4);
    assert_int_equal(bytes_of(&scene, 8, 4), samples + packed + full);
    assert_int_equal(bytes_of(&scene, 12, 4), samples + packed + full);
    for (int batch = 0; batch < 255; batch++)
        bytes_of(&scene, 12, 4);
    assert_int_equal(bytes_of(&scene, 12, 4), samples + packed);
    scene_close(&scene);
}

/* A batch whose full reports the device refuses has failed, and is computed again. */
static void refused_reports_fail_their_batch(void **state)
{
    (void)state;
    struct block_report reports[4];
    struct scene scene;
    scene_open(&scene, &shapes[1], false, false);
    sample_encode(&scene.signal->format, 1, scene.signal->bytes + 5 * shapes[1].hop * 4);
    signal_decode(scene.signal);
    memcpy(scene.ring->bytes + SHIFT * 4, scene.signal->bytes, scene.signal->frames * 4);
    assert_int_equal(run_blocks(&scene, 0, 4, reports), BATCH_OK);
    engine_seams.refused_read = 1;
    assert_int_equal(run_blocks(&scene, 4, 4, reports), BATCH_FAILED);
    assert_int_equal(engine_seams.refused_read, 0);
    assert_int_equal(run_blocks(&scene, 4, 4, reports), BATCH_OK);
    for (uint32_t b = 0; b < 4; b++)
        expect_report(&scene, 4 + b, 0, &reports[b]);
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest shared[] = {cmocka_unit_test(reports_are_as_defined),
                                        cmocka_unit_test(plans_of_both_kinds_share_a_batch)};
    const struct CMUnitTest apart[] = {cmocka_unit_test(reports_are_as_defined),
                                       cmocka_unit_test(plans_of_both_kinds_share_a_batch),
                                       cmocka_unit_test(full_reports_come_when_they_count),
                                       cmocka_unit_test(refused_reports_fail_their_batch)};
    int failed =
        cmocka_run_group_tests_name("shared memory", shared, open_gpu_shape_engine, close_engine);
    failed +=
        cmocka_run_group_tests_name("memory of its own", apart, open_mirrored_engine, close_engine);
    return failed;
}
