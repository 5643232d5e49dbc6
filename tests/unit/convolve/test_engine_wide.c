/*
 * The two programs of "fused" for whole memory sectors (kernels/fused_wide.cl): the same blocks,
 * from windows that lie contiguous in the ring, wrap there, begin between two loads or may have
 * absent frames, and written whole or in part, are the convolution, and are the same to the bit,
 * with the same reports. Samples that saturate are counted anew in each batch, whatever the memory
 * held. All of this where host and device share memory, and on a device with memory of its own.
 *
 * timeout: 900
 * takes-long: 220 s CPU in 283 s
 * sanitizers: no, sums of kernels; test_engine_small plans both programs
 * long: also, every shape of the table
 * turns: yes
 * kernels: optimised, two programs round alike only where the compiler forms the same multiply-adds
 * takes: 15 s CPU in 15 s
 */
#include <assert.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "convolve/plan/plan.h"
#include "convolve/check/prepare.h"
#include "convolve/variants/wide.h"
#include "device/traits.h"
#include "tests/support/engine_group.h"
#include "tests/support/engine_seams.h"

enum { BLOCKS = 5 };

static const struct shape {
    const char *format, *results; /* NULL: floats */
    uint32_t fft, hop, channels;
    double full_scale, gain;
} shapes[] = {
    {"f32le", NULL, 256, 248, 1, 1, 1},       /* runs of two frames */
    {"s16be", "s16be", 128, 120, 1, 2, 1},    /* runs of four, results as codes */
    {"s16le", "s16le", 512, 480, 1, 1, 1},    /* a table of twiddles */
    {"s16le", "s16le", 256, 200, 6, 3, 0.5},  /* pairs, groups that are not full */
    {"f32be", NULL, 128, 100, 2, 1.7, -0.75}, /* pairs, few channels */
    {"f32le", "s24be", 128, 64, 4, 1, 9},     /* results that encode.clh writes, and saturate */
    {"s16le", "s16le", 128, 120, 2, 1, 20},   /* codes that saturate */
    {"f32le", NULL, 65536, 32768, 1, 1, 1},   /* exchanges in halves, two groups a window */
    /* with every shape: */
    {"s16le", NULL, 128, 101, 1, 1, 1}, /* blocks of an odd length */
    {"f32le", NULL, 128, 120, 1, 1, 1},
    {"f32le", NULL, 512, 400, 1, 1, 1},
    {"f32le", NULL, 1024, 512, 1, 1, 1},
    {"f32le", "s16le", 2048, 1024, 1, 1, 1},
    {"f32le", NULL, 4096, 2048, 1, 1, 1},
    {"f32le", NULL, 8192, 8160, 1, 1, 1},
    {"f32le", NULL, 16384, 8192, 1, 1, 1},
    {"f32le", NULL, 32768, 16384, 1, 1, 1},
    {"f32le", NULL, 32768, 30001, 1, 1, 1},
    {"f32le", NULL, 128, 120, 16, 1, 1},
    {"f32le", NULL, 256, 240, 16, 1, 1},
    {"f32le", NULL, 512, 300, 16, 1, 1},
    {"f32le", "s16be", 1024, 512, 16, 1, 1},
    {"f32le", NULL, 2048, 1024, 16, 1, 1},
    {"f32le", NULL, 4096, 2048, 10, 1, 1},
    {"f32le", NULL, 8192, 4096, 4, 1, 1},
    {"f32le", NULL, 16384, 8192, 2, 1, 1},
    {"s16le", "s16le", 256, 248, 1, 1, 1},
    {"s16le", "s16le", 1024, 900, 1, 1, 1},
    {"s16be", "s16be", 2048, 1024, 1, 1, 1},
    {"s16le", "s16le", 4096, 2048, 1, 1, 1},
    {"s16le", "s16le", 8192, 4096, 1, 1, 1},
    {"s16le", "s16le", 16384, 8192, 1, 1, 1},
    {"s16le", "s16be", 32768, 16384, 2, 1, 1},
    {"f32le", NULL, 65536, 50001, 1, 1, 1},
    {"s16be", "s16le", 65536, 65504, 1, 1, 1},
    {"s16be", "s16le", 65536, 2000, 1, 1, 20},
    {"f32le", "s24be", 65536, 40000, 2, 1, 9},
    {"s16le", "s16be", 65536, 32768, 2, 1.7, -0.75},
    {"s16le", "s16le", 128, 120, 16, 1, 1},
    {"s16be", "s16le", 256, 240, 16, 1, 1},
    {"s16le", "s16be", 512, 300, 34, 1, 1},
    {"s16le", "s16le", 1024, 512, 16, 1, 1},
    {"s16le", "s16le", 2048, 1024, 16, 1, 1},
    {"s16le", "s16le", 4096, 2048, 12, 1, 1},
    {"s16le", "s16le", 8192, 4096, 4, 1, 1},
};

enum { SHAPES_CHECKED = 8, SHAPES = sizeof shapes / sizeof shapes[0] };

/* One way to have the blocks computed. */
struct way {
    const char *name;
    uint64_t shift;           /* ring position of the signal's first frame */
    bool absent;              /* frames may be absent; none is */
    uint32_t write_from, cut; /* frames of the item that are not written, at its ends */
};

struct got {
    uint8_t *samples;
    struct block_report *reports;
    uint32_t *saturated; /* NULL: results are floats */
};

static struct got run_way(const struct test_plan *plan, const struct test_signal *signal,
                          struct ring *ring, const struct way *way)
{
    const struct plan_info *info = plan_info(plan->plan);
    const uint64_t slots = ring->frames, frame = ring->frame_bytes;
    const uint32_t written = BLOCKS * info->hop;
    memset(ring->bytes, 0xee, slots * frame);
    memset(ring->present, 0, slots / 8);
    for (uint64_t n = 0; n < signal->frames; n++) {
        const uint64_t slot = (way->shift + n) & (slots - 1);
        memcpy(ring->bytes + slot * frame, signal->bytes + n * frame, frame);
        ring->present[slot / 32] |= 1u << (slot % 32);
    }
    const struct batch_item item = {
        .plan = plan->plan,
        .ring = ring,
        .position = way->shift + signal->frames - written,
        .epoch_block = 1000,
        .blocks = BLOCKS,
        .write_from = way->write_from,
        .write_until = written - way->cut,
        .fresh_from = way->shift,
        .fresh_until = way->shift + signal->frames,
        .absent = way->absent,
    };
    struct batch *batch = engine_batch_take(engine);
    assert_int_equal(engine_batch_add(engine, batch, &item), 0);
    const uint64_t bytes = (uint64_t)written * info->output_floats * info->sample_bytes;
    const uint64_t counts = sizeof(uint32_t) * BLOCKS * info->outputs;
    const uint32_t *saturated = batch->items[0].saturated;
    memset(batch->items[0].samples, 0, bytes);
    if (saturated != NULL)
        memset((uint32_t *)(uintptr_t)saturated, 0xee, counts);
    engine_submit(engine, batch);
    batch = harness_wait(engine);
    struct got got = {malloc(bytes), malloc(sizeof(struct block_report) * BLOCKS * info->inputs),
                      saturated != NULL ? malloc(counts) : NULL};
    memcpy(got.samples, batch->items[0].samples, bytes);
    memcpy(got.reports, batch->items[0].reports,
           sizeof(struct block_report) * BLOCKS * info->inputs);
    if (saturated != NULL)
        memcpy(got.saturated, saturated, counts);
    engine_batch_release(engine, batch);
    return got;
}

static void got_free(struct got *got)
{
    free(got->samples);
    free(got->reports);
    free(got->saturated);
}

/* Every code at either end of the range has saturated: noise hits them by chance hardly ever. */
static uint32_t expect_counts(const struct shape *shape, const struct way *way,
                              const struct got *got)
{
    uint32_t all = 0;
    struct sample_format format;
    if (shape->results == NULL)
        return 0;
    assert_int_equal(sample_format_parse(shape->results, &format), 0);
    assert(got->saturated != NULL);
    const double most = 1 - ldexp(1, 1 - (int)format.bits);
    for (uint32_t b = 0; b < BLOCKS; b++)
        for (uint32_t c = 0; c < shape->channels; c++) {
            uint32_t want = 0;
            for (uint64_t n = b * shape->hop; n < (b + 1) * (uint64_t)shape->hop; n++) {
                const double value =
                    sample_decode(&format, got->samples + (n * shape->channels + c) * format.bytes);
                want += n >= way->write_from && n < (uint64_t)BLOCKS * shape->hop - way->cut &&
                        (value <= -1 || value >= most);
            }
            assert_int_equal(got->saturated[b * shape->channels + c], want);
            all += want;
        }
    return all;
}

static void expect_same(const struct shape *shape, const struct way *way, const struct got *want,
                        const struct got *got)
{
    const uint32_t bytes = shape->results == NULL ? 4 : shape->results[1] == '1' ? 2 : 3;
    const uint64_t frame = (uint64_t)shape->channels * bytes;
    const uint64_t end = (uint64_t)BLOCKS * shape->hop - way->cut;
    for (uint64_t n = way->write_from; n < end; n++)
        if (memcmp(want->samples + n * frame, got->samples + n * frame, frame) != 0)
            fail_msg("%s, fft %u, %u channels, %s: frame %llu differs", shape->format, shape->fft,
                     shape->channels, way->name, (unsigned long long)n);
    for (uint32_t i = 0; i < BLOCKS * shape->channels; i++)
        if (memcmp(&want->reports[i], &got->reports[i], sizeof *want->reports) != 0)
            fail_msg("%s, fft %u, %u channels, %s: report %u differs", shape->format, shape->fft,
                     shape->channels, way->name, i);
}

static struct test_signal *shape_signal(const struct shape *shape, uint32_t taps)
{
    struct test_signal *signal =
        signal_noise(shape->format, shape->channels, BLOCKS * (uint64_t)shape->hop + taps - 1, 7);
    for (uint32_t c = 0; c < shape->channels; c++)
        signal->scales[c].full_scale = shape->full_scale;
    /* At full scale, and not finite: in every channel but the first, in two blocks and before. */
    const uint64_t at[] = {3, taps + shape->hop / 2, taps + 2 * shape->hop + 1};
    for (uint32_t c = 1; c < shape->channels; c++)
        for (int i = 0; i < 3; i++) {
            uint8_t *sample = signal->bytes + (at[i] * shape->channels + c) * signal->format.bytes;
            sample_encode(&signal->format,
                          i == 1                      ? -1
                          : signal->format.bytes == 2 ? 1
                          : c % 2                     ? 9.96921e36
                                                      : NAN,
                          sample);
        }
    signal_decode(signal);
    return signal;
}

/* Of the new frames one is not finite, in each channel of floats but the first: that of
 * shape_signal in the third block. */
static void expect_nonfinite(const struct shape *shape, const struct got *got)
{
    for (uint32_t b = 0; b < BLOCKS; b++)
        for (uint32_t c = 0; c < shape->channels; c++) {
            const struct block_report *report = &got->reports[b * shape->channels + c];
            const bool one = shape->format[0] == 'f' && b == 2 && c > 0;
            assert_int_equal(report->nonfinite, one);
            assert_true(!one || (report->nonfinite_first == 2 && report->nonfinite_last == 2));
        }
}

/* Whether the device has no plan of the shape, because its compiler cannot take two groups a window
 * of that length; the refusal names the variant to use. */
static bool refused(struct test_plan *plan, const struct test_signal *signal,
                    const struct shape *shape)
{
    const uint32_t most = device_traits_of(engine_device(engine)).split_points_most;
    if (shape->fft < 65536 || most >= shape->fft / 2)
        return false;
    struct problem problem = {0};
    test_plan_bind(plan, signal);
    assert_int_equal(plan_prepare(engine, &plan->spec, &plan->plan, &problem), ERROR_UNSUPPORTED);
    assert_non_null(strstr(problem.text, "use the variant \"staged\""));
    print_message("N = %u is refused here: %s\n", shape->fft, problem.text);
    test_plan_free(plan);
    return true;
}

static void programs_compute_the_same_bits(void **state)
{
    (void)state;
    for (int i = 0; i < (harness_every_shape() ? SHAPES : SHAPES_CHECKED); i++) {
        const struct shape *shape = &shapes[i];
        const uint32_t taps = shape->fft - shape->hop + 1, old = taps - 1;
        struct test_signal *signal = shape_signal(shape, taps);
        struct test_plan plan;
        test_plan_diagonal(&plan, signal, shape->hop, taps, false, OUTPUT_REAL);
        for (uint32_t e = 0; e < plan.spec.edge_count; e++)
            plan.edges[e].gain = (float)shape->gain;
        if (shape->results != NULL) {
            assert_int_equal(sample_format_parse(shape->results, &plan.spec.results.format), 0);
            plan.spec.results.factor = 0.25;
        }
        plan.spec.variant = "fused";
        plan.spec.fft = shape->fft;
        plan.spec.blocks_max = BLOCKS;
        if (refused(&plan, signal, shape)) {
            signal_free(signal);
            continue;
        }
        test_plan_prepare(engine, &plan, signal);
        assert_non_null(plan.plan->stages[0].rare);

        struct ring *ring = NULL;
        struct problem problem = {0};
        if (engine_ring_open(engine, 2 * signal->frames, shape->channels * signal->format.bytes,
                             &ring, &problem) < 0)
            fail_msg("%s", problem.text);
        const uint64_t slots = ring->frames;
        /* A window begins at shift + k hop: at whole loads when shift is a multiple of four. */
        const struct way ways[] = {
            {"contiguous", 0, false, 0, 0},
            {"perhaps absent", 0, true, 0, 0},
            {"one window wraps", 7 * slots - 3 * shape->hop - old / 2, false, 0, 0},
            {"between two loads", 1, false, 0, 0},
            {"written in part", 0, false, shape->hop / 3, shape->hop + 1},
            {"all of it", slots - 2 * shape->hop - 1, true, 5, 2},
        };
        struct got whole = run_way(&plan, signal, ring, &ways[0]);
        assert_true(expect_counts(shape, &ways[0], &whole) > 0 || shape->gain < 9);
        expect_nonfinite(shape, &whole);
        for (size_t w = 1; w < sizeof ways / sizeof ways[0]; w++) {
            struct got got = run_way(&plan, signal, ring, &ways[w]);
            expect_same(shape, &ways[w], &whole, &got);
            expect_counts(shape, &ways[w], &got);
            got_free(&got);
        }
        engine_ring_close(engine, ring);
        if (shape->results == NULL) {
            struct test_run run = run_plan(engine, &plan, signal, &(struct run_options){.seed = 5});
            print_message("%s, fft %u, %u channels: error %.2g\n", shape->format, shape->fft,
                          shape->channels,
                          expect_convolution("wide", &plan, signal, &run, 0, run.frames));
            test_run_free(&run);
        }
        got_free(&whole);
        test_plan_free(&plan);
        signal_free(signal);
    }
}

/* Every table holds the powers of the angle of the node that its place stands for. */
static void tables_hold_unit_vectors(void **state)
{
    (void)state;
    static const char *const formats[] = {"f32le", "s16le"};
    enum { CHANNELS = 16 };
    struct channel_scale scales[CHANNELS] = {{0}};
    struct edge edges[CHANNELS];
    enum output_form outputs[CHANNELS] = {OUTPUT_REAL};
    for (int c = 0; c < CHANNELS; c++)
        edges[c] = (struct edge){(uint16_t)c, (uint16_t)c, (uint16_t)c, 1};
    int tables = 0;
    for (int i = 0; i < 4; i++)
        for (uint32_t points = 64; points <= 32768; points *= 2) {
            struct plan_spec spec = {.scales = scales, .edges = edges, .outputs = outputs};
            spec.inputs = spec.outputs_count = spec.edge_count = i % 2 ? CHANNELS : 1;
            assert_int_equal(sample_format_parse(formats[i / 2], &spec.format), 0);
            const struct wide *wide = wide_find(&spec, points);
            assert_non_null(wide);
            const uint64_t floats = wide_table_floats(&wide->shape);
            assert_true((floats > 0) == wide->shape.tables);
            if (floats == 0)
                continue;
            float *table = calloc(floats, sizeof *table);
            wide_table(&wide->shape, table);
            for (uint64_t k = 0; k < floats; k += 2)
                assert_float_equal(hypotf(table[k], table[k + 1]), 1, 1e-6);
            free(table);
            tables++;
        }
    assert_true(tables > 0);
}

int main(void)
{
    const struct CMUnitTest shared[] = {
        cmocka_unit_test(tables_hold_unit_vectors),
        cmocka_unit_test(programs_compute_the_same_bits),
    };
    const struct CMUnitTest apart[] = {cmocka_unit_test(programs_compute_the_same_bits)};
    int failed =
        cmocka_run_group_tests_name("shared memory", shared, open_gpu_shape_engine, close_engine);
    failed +=
        cmocka_run_group_tests_name("memory of its own", apart, open_mirrored_engine, close_engine);
    return failed;
}
