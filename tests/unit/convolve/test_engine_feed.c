/*
 * Results that become another ring's input inside the device: the same values as by way of the
 * host, and no sample crosses the bus. The device is given memory of its own, whatever it is,
 * and what the host's copy of the second ring says is wrong on purpose.
 *
 * takes: 2 s CPU in 2 s
 * threads: yes
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/engine_group.h"

enum { HOP = 96, BLOCKS = 24, FRAMES = HOP * BLOCKS, SMALL_RING = 512 };

static struct engine_traffic traffic_now(void)
{
    struct engine_traffic traffic;
    engine_traffic(engine, &traffic);
    return traffic;
}

struct chain {
    struct test_signal *signal, *shape; /* shape: what the second stage reads */
    struct test_plan first, second;
    struct ring *input, *between;
};

static void open_chain(struct chain *chain, uint64_t ring_frames)
{
    struct problem problem;
    chain->signal = signal_noise("s16le", 2, FRAMES, 5);
    chain->shape = signal_noise("f32le", 2, 1, 6);
    test_plan_diagonal(&chain->first, chain->signal, HOP, 60, true, OUTPUT_ENVELOPE);
    test_plan_diagonal(&chain->second, chain->shape, HOP, 130, false, OUTPUT_REAL);
    chain->second.spec.decimate = 8;
    chain->first.spec.variant = chain->second.spec.variant = "local"; /* both on the device */
    test_plan_prepare(engine, &chain->first, chain->signal);
    test_plan_prepare(engine, &chain->second, chain->shape);
    assert_int_equal(engine_ring_open(engine, FRAMES, 4, &chain->input, &problem), 0);
    assert_int_equal(engine_ring_open(engine, ring_frames, 8, &chain->between, &problem), 0);
    memcpy(chain->input->bytes, chain->signal->bytes, (size_t)FRAMES * 4);
    for (uint32_t n = 0; n < FRAMES; n++)
        chain->input->present[n / 32] |= 1u << (n % 32);
}

static void close_chain(struct chain *chain)
{
    engine_ring_close(engine, chain->input);
    engine_ring_close(engine, chain->between);
    test_plan_free(&chain->first);
    test_plan_free(&chain->second);
    signal_free(chain->signal);
    signal_free(chain->shape);
}

static struct batch *run_block(struct test_plan *plan, struct ring *ring, uint64_t base,
                               uint64_t block, uint64_t fresh_from, uint64_t fresh_until,
                               bool absent)
{
    struct batch *batch = engine_batch_take(engine);
    assert_non_null(batch);
    const struct batch_item item = {
        .plan = plan->plan,
        .ring = ring,
        .position = base + block * HOP,
        .epoch_block = block,
        .blocks = 1,
        .write_until = HOP,
        .fresh_from = fresh_from,
        .fresh_until = fresh_until,
        .absent = absent,
    };
    assert_int_equal(engine_batch_add(engine, batch, &item), 0);
    engine_submit(engine, batch);
    return harness_wait(engine);
}

static void mark(struct ring *ring, uint64_t from, uint64_t until, bool present)
{
    for (uint64_t n = from; n < until; n++) {
        const uint64_t slot = n & (ring->frames - 1);
        ring->present[slot / 32] &= ~(1u << (slot % 32));
        if (present)
            ring->present[slot / 32] |= 1u << (slot % 32);
    }
}

static void write_frames(struct ring *ring, uint64_t position, const float *samples,
                         uint64_t frames)
{
    for (uint64_t n = 0; n < frames; n++)
        memcpy(ring->bytes + ((position + n) & (ring->frames - 1)) * ring->frame_bytes,
               (const uint8_t *)samples + n * ring->frame_bytes, ring->frame_bytes);
}

/*
 * Both stages block by block; `gap` is a block of the first stage that never reaches the second.
 * Fed inside the device, or told as fresh. The epoch begins a ring's history behind position 0,
 * where all is absent.
 */
static void run_chain(struct chain *chain, bool feed, int gap, float *out)
{
    const uint64_t base = HOP * 4;
    uint64_t told = 0, kept = 0;
    for (uint64_t block = 0; block < BLOCKS; block++) {
        struct batch *first = run_block(&chain->first, chain->input, 0, block, block * HOP,
                                        (block + 1) * HOP, block == 0);
        const uint64_t position = base + block * HOP;
        mark(chain->between, told, position, false);
        mark(chain->between, position, position + HOP, (int)block != gap);
        if ((int)block != gap) {
            const float *samples = first->items[0].samples;
            write_frames(chain->between, position, samples, HOP);
            if (feed) {
                /* In two parts, the second first: positions are what counts. */
                enum { PART = 41 };
                assert_true(engine_ring_feed(engine, chain->between, position + PART,
                                             position + PART, samples + 2 * PART, HOP - PART));
                assert_true(
                    engine_ring_feed(engine, chain->between, told, position, samples, PART));
                for (uint64_t n = position; n < position + HOP; n++) /* the device must not look */
                    memset(chain->between->bytes + (n & (chain->between->frames - 1)) * 8, 0x7E, 8);
                told = position + HOP;
            }
        }
        engine_batch_release(engine, first);
        const uint64_t history = plan_info(chain->second.plan)->history_frames;
        const bool absent =
            position < base + history ||
            ((int)block >= gap && gap >= 0 && (block - (uint64_t)gap - 1) * HOP < history + HOP);
        struct batch *second = run_block(&chain->second, chain->between, base, block,
                                         feed && (int)block != gap ? position + HOP : told,
                                         position + HOP, absent || (int)block == gap);
        memcpy(out + kept * 2, second->items[0].samples, HOP / 8 * 2 * sizeof(float));
        kept += HOP / 8;
        engine_batch_release(engine, second);
        told = position + HOP;
    }
}

enum { KEPT = FRAMES / 8 };

static void the_same_as_by_the_host(void **state)
{
    (void)state;
    static const struct {
        uint64_t ring_frames;
        int gap;
    } cases[] = {
        {4 * FRAMES, -1},
        {SMALL_RING, -1},
        {SMALL_RING, 9},
        {4 * FRAMES, 9},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float *want = calloc(KEPT, 2 * sizeof *want), *got = calloc(KEPT, 2 * sizeof *got);
        for (int feed = 0; feed < 2; feed++) {
            struct chain chain;
            open_chain(&chain, cases[i].ring_frames);
            run_chain(&chain, feed, cases[i].gap, feed ? got : want);
            close_chain(&chain);
        }
        for (int n = 0; n < 2 * KEPT; n++)
            if (memcmp(&want[n], &got[n], sizeof *want) != 0)
                fail_msg("case %zu: kept frame %d is %.9g, by the host %.9g", i, n / 2,
                         (double)got[n], (double)want[n]);
        free(want);
        free(got);
    }
}

static void no_sample_crosses_the_bus(void **state)
{
    (void)state;
    struct chain chain;
    float *out = calloc(KEPT, 2 * sizeof *out);
    open_chain(&chain, SMALL_RING);
    const struct engine_traffic before = traffic_now();
    run_chain(&chain, true, -1, out);
    const struct engine_traffic after = traffic_now();
    assert_int_equal(after.ring_bytes - before.ring_bytes,
                     FRAMES * 4); /* the first stage's input */
    assert_int_equal(after.fed_bytes - before.fed_bytes, FRAMES * 8);
    /* Presence goes in with the input, and once where the second stage's epoch begins. */
    assert_true(after.presence_bytes - before.presence_bytes < FRAMES / 8 + BLOCKS * 8 + 128);
    close_chain(&chain);

    open_chain(&chain, SMALL_RING);
    run_chain(&chain, false, -1, out);
    const struct engine_traffic by_host = traffic_now();
    assert_true(by_host.ring_bytes - after.ring_bytes >= FRAMES * 4 + FRAMES * 8);
    assert_int_equal(by_host.fed_bytes, after.fed_bytes);
    close_chain(&chain);
    free(out);
}

static void what_cannot_be_fed_is_refused(void **state)
{
    (void)state;
    struct chain chain;
    open_chain(&chain, SMALL_RING);
    float elsewhere[8] = {0};
    assert_false(engine_ring_feed(engine, chain.between, 0, 0, elsewhere, 1));
    struct batch *first = run_block(&chain.first, chain.input, 0, 0, 0, HOP, true);
    const float *samples = first->items[0].samples;
    assert_true(engine_ring_feed(engine, chain.between, 0, 0, samples, 0));
    uint32_t taken = 0;
    while (taken < 100000 && engine_ring_feed(engine, chain.between, 0, 0, samples, HOP))
        taken++;
    assert_in_range(taken, 1, 99999); /* bounded */
    engine_batch_release(engine, first);
    close_chain(&chain); /* with all of them waiting */
    const struct engine_traffic traffic = traffic_now();
    assert_true(traffic.fed_bytes >= (uint64_t)taken * HOP * 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_as_by_the_host),
        cmocka_unit_test(no_sample_crosses_the_bus),
        cmocka_unit_test(what_cannot_be_fed_is_refused),
    };
    return cmocka_run_group_tests(tests, open_mirrored_engine, close_engine);
}
