/* Decimation against its definition: frames n ≡ phase (mod D) are kept, and counted one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "signal/decimation.h"

static void test_frame_numbers_follow_the_definition(void **state)
{
    (void)state;
    static const uint32_t factors[] = {1, 2, 3, 7, 8, 100};
    for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++)
        for (uint32_t phase = 0; phase < factors[i]; phase += 1 + factors[i] / 5) {
            const struct decimation d = {factors[i], phase};
            uint64_t kept = 0; /* of the frames below `frame` */
            for (uint64_t frame = 0; frame < 1000; frame++) {
                assert_int_equal(decimation_output(&d, frame), kept);
                const uint64_t next = decimation_input(&d, kept);
                assert_true(next >= frame && next % d.factor == phase);
                assert_int_equal(decimation_first(&d, frame), next - frame);
                assert_int_equal(decimation_kept(&d, 0, frame), kept);
                kept += frame % d.factor == phase;
            }
        }
}

static void test_runs_keep_what_lies_in_them(void **state)
{
    (void)state;
    const struct decimation d = {5, 3};
    for (uint64_t from = 0; from < 20; from++) {
        uint64_t kept = 0;
        for (uint64_t frames = 0; frames < 40; frames++) {
            assert_int_equal(decimation_kept(&d, from, frames), kept);
            assert_true(kept <= decimation_kept_most(5, frames));
            kept += (from + frames) % 5 == 3;
        }
    }
    /* Late in an epoch of 64 bits nothing overflows. */
    const struct decimation high = {DECIMATE_MAX, DECIMATE_MAX - 1};
    const uint64_t late = (UINT64_C(1) << 62) / DECIMATE_MAX * DECIMATE_MAX;
    assert_int_equal(decimation_first(&high, late), DECIMATE_MAX - 1);
    assert_int_equal(decimation_kept(&high, late, DECIMATE_MAX), 1);
    assert_int_equal(decimation_input(&high, decimation_output(&high, late)),
                     late + DECIMATE_MAX - 1);
}

static void test_bounds(void **state)
{
    (void)state;
    static const struct {
        uint32_t factor;
        uint64_t frames, most, span, grid;
    } cases[] = {
        {1, 0, 0, 0, 0},
        {1, 9, 9, 9, 9},
        {4, 0, 0, 0, 0},
        {4, 1, 1, 4, 4},
        {4, 4, 1, 16, 4},
        {4, 5, 2, 20, 8},
        {2, UINT64_MAX - 1, UINT64_MAX / 2, UINT64_MAX, UINT64_MAX - 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(decimation_kept_most(cases[i].factor, cases[i].frames), cases[i].most);
        assert_int_equal(decimation_span(cases[i].factor, cases[i].frames), cases[i].span);
        if (i < 6)
            assert_int_equal(decimation_grid(cases[i].factor, cases[i].frames), cases[i].grid);
    }
}

static void test_delays(void **state)
{
    (void)state;
    static const struct {
        uint32_t factor;
        double input_frames, output_frames;
        uint64_t shift;
        uint32_t phase;
    } cases[] = {
        {1, 0, 0, 0, 0},        {1, 127.5, 127.5, 127, 0}, {4, 128, 32, 32, 0},
        {4, 127, 31.75, 31, 3}, {10, 127.5, 12.75, 12, 7}, {8, 3, 0.375, 0, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint32_t factor = cases[i].factor;
        const double frames = cases[i].input_frames;
        assert_true(decimation_delay_frames(factor, frames) == cases[i].output_frames);
        assert_int_equal(decimation_shift(factor, frames), cases[i].shift);
        const struct decimation aligned = decimation_aligned(factor, frames);
        assert_int_equal(aligned.factor, factor);
        assert_int_equal(aligned.phase, cases[i].phase);
        /* Aligned output frame 0 answers input frame 0: its samples are those of the delay. */
        assert_int_equal(decimation_input(&aligned, cases[i].shift), (uint64_t)frames);
        assert_true(decimation_inherited_frames(factor, frames, false) == cases[i].output_frames);
        assert_true(decimation_inherited_frames(factor, frames, true) == 0);
    }
    assert_true(decimation_rate_hz(4, 1e6) == 250e3);
}

static void test_chains_multiply_up_to_the_limit(void **state)
{
    (void)state;
    uint32_t total = 77;
    assert_false(decimation_chain(257, 256, &total));
    assert_int_equal(total, 77);
    assert_false(decimation_chain(DECIMATE_MAX, DECIMATE_MAX, &total));
    assert_true(decimation_chain(257, 255, &total));
    assert_int_equal(total, DECIMATE_MAX);
    assert_true(decimation_chain(1, 1, &total));
    assert_int_equal(total, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frame_numbers_follow_the_definition),
        cmocka_unit_test(test_runs_keep_what_lies_in_them),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_delays),
        cmocka_unit_test(test_chains_multiply_up_to_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
