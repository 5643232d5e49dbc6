/* Results in integer formats: the runner and the reference; engine_results.h describes them. */
#include "tests/support/engine_results.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A device compiles one program for each. The first eight reach every branch of encode.clh. */
const struct given result_formats[RESULT_FORMATS] = {
    {"s16be", 0, false, 1},        {"s24le", 0, false, 1.0 / 3}, {"f32be", 0, false, 1},
    {"s32be", 24, false, 1.0 / 7}, {"u16be", 12, true, 0.25},    {"s8", 0, false, 0.5},
    {"s24be", 0, false, 0.5},      {"s32le", 0, false, 0.5},     {"f32le", 0, false, 0.3},
    {"s16le", 0, false, 0.5},      {"s32be", 0, false, 0.37},    {"u8", 0, false, 0.5},
    {"s16le", 12, false, 0.5},     {"s24be", 20, true, 0.6},     {"u24le", 0, false, 0.5},
    {"u32le", 0, false, 0.5},      {"s32le", 25, true, 0.5},     {"s32le", 23, true, 0.5},
    {"s16be", 0, false, 0x1p-20},  {"f32le", 0, false, 1},
};

struct result_format result_format_of(const struct given *given)
{
    struct result_format wanted = {.factor = given->factor};
    assert_int_equal(sample_format_parse(given->name, &wanted.format), 0);
    if (given->bits != 0)
        wanted.format.bits = given->bits;
    wanted.format.left = given->left;
    return wanted;
}

/* ---- running ----------------------------------------------------------------------------- */

struct got {
    uint8_t *bytes; /* [frames][output_floats] samples */
    uint64_t frames;
    uint64_t *saturated; /* [blocks][outputs] */
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
    /* A second copy: samples or counts written past the first item's end land in this one. */
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
            got->saturated[block * info->outputs + i] += first->saturated[i];
    }
    engine_batch_release(engine, done);
}

/* Runs the whole signal in items of random length, some of which begin or end inside a block. */
static struct got run(const struct test_plan *plan, const struct test_signal *signal, uint64_t seed)
{
    const struct plan_info *info = plan_info(plan->plan);
    struct got got = {.bytes = calloc(signal->frames * info->output_floats, info->sample_bytes),
                      .saturated = calloc((signal->frames / info->hop + 1) * info->outputs,
                                          sizeof *got.saturated)};
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

/* ---- the definition ---------------------------------------------------------------------- */

/* Encodes `floats` sample by sample and compares with `got`; returns how many samples clipped. */
static uint64_t expect_encoded(const char *label, const struct plan_info *info,
                               const enum output_form *forms, const struct given *given,
                               const struct got *floats, const struct got *got)
{
    const struct result_format wanted = result_format_of(given);
    assert_int_equal(got->frames, floats->frames);
    const uint64_t blocks = (got->frames + 1) * info->decimate / info->hop + 1;
    uint64_t *saturated = calloc(blocks * info->outputs, sizeof *saturated), all = 0;
    for (uint64_t n = 0; n < got->frames; n++)
        for (uint32_t o = 0, place = 0; o < info->outputs; o++)
            for (uint32_t v = 0; v < (forms[o] == OUTPUT_COMPLEX ? 2 : 1); v++, place++) {
                float value;
                uint8_t want[4];
                const uint64_t at = n * info->output_floats + place;
                memcpy(&value, floats->bytes + at * sizeof value, sizeof value);
                const uint64_t block = (info->decimate_phase + n * info->decimate) / info->hop;
                saturated[block * info->outputs + o] +=
                    sample_encode(&wanted.format, (double)value * wanted.factor, want);
                const uint8_t *wire = got->bytes + at * wanted.format.bytes;
                if (memcmp(wire, want, wanted.format.bytes) != 0)
                    fail_msg("%s, %s, %s %u bits, D = %u: frame %llu of output %u, %.9g: byte 0 is "
                             "%02x, wanted %02x",
                             label, info->variant, given->name, wanted.format.bits, info->decimate,
                             (unsigned long long)n, o, (double)value, wire[0], want[0]);
            }
    for (uint64_t i = 0; i < (blocks - 1) * info->outputs; i++) {
        if (got->saturated[i] != saturated[i])
            fail_msg("%s, %s, %s: %llu samples of output %u in block %llu were counted as clipped, "
                     "%llu were",
                     label, info->variant, given->name, (unsigned long long)got->saturated[i],
                     (uint32_t)(i % info->outputs), (unsigned long long)(i / info->outputs),
                     (unsigned long long)saturated[i]);
        all += saturated[i];
    }
    free(saturated);
    return all;
}

/* Compares the plan's floats with its results in each format. */
void compare_results(const char *label, const struct test_plan *like,
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
        plan.spec.results = result_format_of(&result_formats[i]);
        const bool native = result_format_native(&plan.spec.results);
        test_plan_prepare(engine, &plan, signal);
        const struct plan_info *info = plan_info(plan.plan);
        assert_int_equal(result_format_native(&info->results), native);
        struct got got = run(&plan, signal, (uint64_t)i);
        clipped += expect_encoded(label, info, plan.outputs, &result_formats[i], &floats, &got);
        got_free(&got);
        plan_close(plan.plan);
    }
    assert_true(clipped > 0);
    got_free(&floats);
}

void compare_diagonal(const char *label, const char *variant, const struct test_signal *signal,
                      uint32_t hop, uint32_t taps, enum output_form form, uint32_t decimate,
                      int count)
{
    struct test_plan plan;
    test_plan_diagonal(&plan, signal, hop, taps, form != OUTPUT_REAL, form);
    plan.spec.variant = variant;
    plan.spec.decimate = decimate;
    plan.spec.decimate_phase = decimate / 3;
    compare_results(label, &plan, signal, count);
    for (uint32_t t = 0; t < plan.spec.taps_count; t++)
        taps_free(plan.taps[t]);
}
