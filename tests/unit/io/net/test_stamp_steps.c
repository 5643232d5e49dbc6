/*
 * Whether time stamps count the frames of the payloads: tables of packets, each with the verdict
 * that the definition gives it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "io/net/stamp_steps.h"

enum { MANY = 40 };

static const uint64_t mask = UINT16_MAX;

/* Packets of `frames` each whose time stamps advance by `step`; returns the last verdict. */
static enum stamp_verdict feed(struct stamp_steps *steps, uint64_t *sequence, uint32_t *stamp,
                               int packets, uint32_t step, uint32_t frames, bool records)
{
    enum stamp_verdict verdict = STAMPS_FIT;
    for (int i = 0; i < packets; i++) {
        const struct stamp_packet packet = {
            .sequence = *sequence & mask, .timestamp = *stamp, .frames = frames};
        verdict = stamp_steps_next(steps, &packet, mask, records);
        ++*sequence;
        *stamp += step;
    }
    return verdict;
}

static void test_factors(void **state)
{
    (void)state;
    static const struct {
        uint32_t step, frames;
        bool records;
        enum stamp_verdict first, after_8, after_9; /* pair, packets */
    } cases[] = {
        {20, 20, false, STAMPS_FIT, STAMPS_FIT, STAMPS_FIT},
        {20, 40, false, STAMPS_SUSPECT, STAMPS_SUSPECT, STAMPS_WRONG},
        {40, 20, false, STAMPS_SUSPECT, STAMPS_SUSPECT, STAMPS_WRONG},
        {20, 30, false, STAMPS_SUSPECT, STAMPS_SUSPECT, STAMPS_WRONG},
        /* A pause between records of one packet each. */
        {40, 20, true, STAMPS_FIT, STAMPS_FIT, STAMPS_FIT},
        {20, 40, true, STAMPS_SUSPECT, STAMPS_SUSPECT, STAMPS_WRONG},
        /* Time stamps that stand still or run backwards are jumps, see sequence.h. */
        {0, 20, false, STAMPS_FIT, STAMPS_FIT, STAMPS_FIT},
        {UINT32_MAX - 19, 20, false, STAMPS_FIT, STAMPS_FIT, STAMPS_FIT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct stamp_steps steps = {0};
        uint64_t sequence = 65530; /* wraps */
        uint32_t stamp = UINT32_MAX - 100;
        uint32_t step = cases[i].step, frames = cases[i].frames;
        bool records = cases[i].records;
        assert_int_equal(feed(&steps, &sequence, &stamp, 1, step, frames, records), STAMPS_FIT);
        assert_int_equal(feed(&steps, &sequence, &stamp, 1, step, frames, records), cases[i].first);
        assert_int_equal(feed(&steps, &sequence, &stamp, 6, step, frames, records),
                         cases[i].after_8);
        assert_int_equal(feed(&steps, &sequence, &stamp, 1, step, frames, records),
                         cases[i].after_9);
        assert_int_equal(feed(&steps, &sequence, &stamp, MANY, step, frames, records),
                         cases[i].after_9);
        /* Back when eight pairs in a row fit; the first of them begins with a packet of before. */
        feed(&steps, &sequence, &stamp, 8, frames, frames, records);
        assert_int_equal(feed(&steps, &sequence, &stamp, 1, frames, frames, records), STAMPS_FIT);
    }
}

static void test_packets_of_many_sizes_make_one_factor(void **state)
{
    (void)state;
    struct stamp_steps steps = {0};
    enum stamp_verdict verdict = STAMPS_FIT;
    uint32_t stamp = 0;
    for (uint32_t i = 0; i < 9; i++) {
        const struct stamp_packet packet = {
            .sequence = i, .timestamp = stamp, .frames = 2 * (i + 5)};
        verdict = stamp_steps_next(&steps, &packet, mask, false);
        stamp += i + 5;
    }
    assert_int_equal(verdict, STAMPS_WRONG);
}

/* A clock that is read anew for each packet: no two steps in a row are alike. */
static void test_jitter_decides_nothing(void **state)
{
    (void)state;
    struct stamp_steps steps = {0};
    uint32_t stamp = 0;
    int suspect = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        const struct stamp_packet packet = {.sequence = i & mask, .timestamp = stamp, .frames = 20};
        enum stamp_verdict verdict = stamp_steps_next(&steps, &packet, mask, false);
        assert_int_not_equal(verdict, STAMPS_WRONG);
        suspect += verdict == STAMPS_SUSPECT;
        stamp += 20 + i % 3 - 1;
    }
    assert_true(suspect <= 1); /* the first pair of an unknown sender */
}

/* Loss, doubling and reordering make no pair, and one odd step is a jump of its own. */
static void test_what_is_no_pair(void **state)
{
    (void)state;
    struct stamp_steps steps = {0};
    static const int order[] = {0, 1, 2, 3, 5, 4, 7, 7, 9, 10, 12, 14, 13, 15, 16, 17, 18, 19, 20};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        uint32_t odd = order[i] >= 10 ? 7 : 0;
        const struct stamp_packet packet = {.sequence = (uint64_t)order[i],
                                            .timestamp = 20 * (uint32_t)order[i] + odd,
                                            .frames = 20};
        assert_int_equal(stamp_steps_next(&steps, &packet, mask, false), STAMPS_FIT);
    }
    /* Every second packet lost: the pairs left over decide, however far apart. */
    steps = (struct stamp_steps){0};
    enum stamp_verdict verdict = STAMPS_FIT;
    for (uint32_t i = 0; i < 24 && verdict != STAMPS_WRONG; i++) {
        if (i % 3 == 2)
            continue;
        const struct stamp_packet packet = {.sequence = i, .timestamp = 20 * i, .frames = 40};
        verdict = stamp_steps_next(&steps, &packet, mask, false);
    }
    assert_int_equal(verdict, STAMPS_WRONG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_factors),
        cmocka_unit_test(test_packets_of_many_sizes_make_one_factor),
        cmocka_unit_test(test_jitter_decides_nothing),
        cmocka_unit_test(test_what_is_no_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
