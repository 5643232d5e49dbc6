/* The size of an input ring, against the sum that ring_size.h states. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "core/clock.h"
#include "core/random.h"
#include "stream/ring_size.h"

static void test_sizes_are_the_sums_of_their_parts(void **state)
{
    (void)state;
    static const struct {
        struct ring_need need;
        uint64_t least, by_default;
    } cases[] = {
        /* one block a batch, nothing else: 4 blocks and the one in flight, one between epochs */
        {{.rate_hz = 1000, .frame_bytes = 2, .hop = 100, .history = 1, .blocks_in_flight = 1},
         3 * 1 + 5 * 100 + 100,
         3 * 1 + 5 * 100 + 100 + 8 * 100},
        /* at a high rate half a second is longer than eight blocks */
        {{.rate_hz = 1e6,
          .frame_bytes = 4,
          .hop = 512,
          .history = 4096,
          .blocks_in_flight = 20,
          .reorder_ns = 5 * NS_PER_MS,
          .max_gap_ns = 100 * NS_PER_MS},
         3 * 4096 + 2 * 5000 + 24 * 512 + 512,
         3 * 4096 + 2 * 5000 + 24 * 512 + 512 + 500000 + 100000},
        /* a gap counts up to 64 MiB */
        {{.rate_hz = 1e6,
          .frame_bytes = 1024,
          .hop = 512,
          .history = 100,
          .blocks_in_flight = 2,
          .max_gap_ns = 10 * NS_PER_SECOND},
         3 * 100 + 6 * 512 + 512,
         3 * 100 + 6 * 512 + 512 + 500000 + 65536},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(ring_size_least(&cases[i].need), cases[i].least);
        assert_int_equal(ring_size_default(&cases[i].need), cases[i].by_default);
    }
}

static void test_history_is_at_least_the_taps(void **state)
{
    (void)state;
    assert_int_equal(ring_history_of(&(struct plan_info){.history_frames = 7, .taps_longest = 9}),
                     9);
    assert_int_equal(ring_history_of(&(struct plan_info){.history_frames = 12, .taps_longest = 9}),
                     12);
}

static void test_what_the_sizes_promise(void **state)
{
    (void)state;
    struct random_state random = {7};
    for (int i = 0; i < 1000; i++) {
        const struct ring_need need = {
            .rate_hz = 1 + (double)random_below(&random, 10000000),
            .frame_bytes = 1 + (uint32_t)random_below(&random, 1000),
            .hop = 1 + (uint32_t)random_below(&random, 65536),
            .history = 1 + (uint32_t)random_below(&random, 1 << 20),
            .blocks_in_flight = 1 + (uint32_t)random_below(&random, 300),
            .reorder_ns = (int64_t)random_below(&random, NS_PER_SECOND),
            .max_gap_ns = (int64_t)random_below(&random, NS_PER_SECOND),
        };
        const uint64_t least = ring_size_least(&need), size = ring_size_default(&need);
        /* What batches read, with the blocks behind them, fits; the default has more. */
        assert_true(least >= need.history + (uint64_t)need.blocks_in_flight * need.hop);
        assert_true(size >= least + 8 * (uint64_t)need.hop);
        /* The longest gap of a default ring is the one asked for, as far as memory allows. */
        const uint64_t gap = (uint64_t)(1e-9 * (double)need.max_gap_ns * need.rate_hz);
        if (gap * need.frame_bytes < 64 << 20)
            assert_true(ring_size_gap_max(&need, size) >= gap);
        /* The least ring for a gap bridges it, and a smaller one does not. */
        const uint64_t asked = 1 + random_below(&random, 1 << 24);
        const uint64_t bridges = ring_size_of_gap(&need, asked);
        assert_true(ring_size_gap_max(&need, bridges) >= asked);
        assert_true(ring_size_gap_max(&need, bridges - 1) < asked);
        /* A ring grown for a longer history is a ring made for it. */
        struct ring_need shorter = need;
        shorter.history = 1 + (uint32_t)random_below(&random, need.history);
        assert_int_equal(ring_size_grown(&need, ring_size_least(&shorter), shorter.history), least);
        assert_int_equal(ring_size_gap_max(&need, 10), 5);
    }
}

/* A ring without room is halved as long as it holds what the plan needs. */
static void test_a_ring_gives_way(void **state)
{
    (void)state;
    const struct ring_need need = {
        .rate_hz = 1000, .frame_bytes = 2, .hop = 100, .history = 1, .blocks_in_flight = 1};
    assert_int_equal(ring_size_least(&need), 603);
    assert_int_equal(ring_size_smaller(&need, 1403), 1024);
    assert_int_equal(ring_size_smaller(&need, 1024), 0); /* 512 is too small */
    /* What lies beyond the least may wait; a whole ring waits for 0.5 s or eight blocks. */
    assert_int_equal(ring_patience_ns(&need, 0, 2048), 800 * NS_PER_MS);
    assert_int_equal(ring_patience_ns(&need, 0, 1024), 421 * NS_PER_MS);
    assert_int_equal(ring_patience_ns(&need, 0, 603), 100 * NS_PER_MS);
    assert_int_equal(ring_patience_ns(&need, 900, 1024), 900 * NS_PER_MS); /* as the user says */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_are_the_sums_of_their_parts),
        cmocka_unit_test(test_a_ring_gives_way),
        cmocka_unit_test(test_history_is_at_least_the_taps),
        cmocka_unit_test(test_what_the_sizes_promise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
