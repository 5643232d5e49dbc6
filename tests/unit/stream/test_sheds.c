/* The list of what was shed and not reported yet, against a model that keeps a cause a frame. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "core/random.h"
#include "stream/sheds.h"

enum { EPOCHS = 4, FRAMES = 4096 };

struct model {
    struct sheds sheds;
    uint8_t shed[EPOCHS][FRAMES]; /* cause + 1, until it is reported; 0: not shed */
    uint8_t told[EPOCHS][FRAMES];
};

static void add(struct model *m, uint64_t epoch, uint64_t from, uint64_t until, int cause)
{
    sheds_add(&m->sheds, epoch, (struct invalid_range){from, until, (enum invalid_cause)cause});
    memset(&m->shed[epoch][from], cause + 1, until - from);
}

/* Takes what lies below `until`; each frame has the cause it was shed with, unless `merged`. */
static uint64_t take(struct model *m, uint64_t epoch, uint64_t until, bool merged)
{
    struct invalid_range ranges[SHEDS_MAX];
    uint64_t frames = 0;
    uint32_t count = sheds_take(&m->sheds, epoch, until, ranges);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(ranges[i].until <= until);
        for (uint64_t n = ranges[i].from; n < ranges[i].until; n++) {
            if (!merged)
                assert_int_equal(m->shed[epoch][n], ranges[i].cause + 1);
            assert_int_equal(m->told[epoch][n]++, 0);
            frames++;
        }
    }
    return frames;
}

/* As a stream adds them: parts of an epoch from its start to its end, those behind what is in
 * flight before those in flight. */
static void test_each_frame_once_with_its_cause(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        static struct model m;
        m = (struct model){0};
        struct random_state random = {seed};
        for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
            uint64_t at = 0;
            while (at + 100 < FRAMES) {
                uint64_t flight = at + 1 + random_below(&random, 40);
                uint64_t behind = flight + 1 + random_below(&random, 40);
                add(&m, epoch, flight, behind, INVALID_OVERLOAD);
                if (random_below(&random, 2) == 0)
                    add(&m, epoch, at, flight, INVALID_DEVICE);
                if (random_below(&random, 3) == 0)
                    take(&m, epoch, behind, false);
                at = behind + random_below(&random, 3);
            }
        }
        for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
            take(&m, epoch, FRAMES, false);
            for (uint64_t n = 0; n < FRAMES; n++)
                assert_int_equal(m.told[epoch][n], m.shed[epoch][n] > 0);
        }
        assert_int_equal(m.sheds.count, 0);
    }
}

/* A full list joins the nearest; it reports more frames, never fewer, and each once. */
static void test_a_full_list_forgets_nothing(void **state)
{
    (void)state;
    static struct model m;
    m = (struct model){0};
    uint64_t added = 0;
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        for (uint64_t n = 0; n + 16 <= FRAMES; n += 16) {
            add(&m, epoch, n, n + 8, n % 32 == 0 ? INVALID_DEVICE : INVALID_OVERLOAD);
            added += 8;
        }
    }
    assert_in_range(m.sheds.count, SHEDS_MAX - 1, SHEDS_MAX);
    uint64_t told = take(&m, 0, FRAMES, true) + take(&m, 1, FRAMES, true);
    assert_true(told >= added);
    for (uint64_t epoch = 0; epoch < 2; epoch++)
        for (uint64_t n = 0; n < FRAMES; n++)
            assert_true(m.told[epoch][n] >= (m.shed[epoch][n] > 0));
}

/* Where causes differ, the joined run has neither. */
static void test_joined_causes(void **state)
{
    (void)state;
    static struct model m;
    m = (struct model){0};
    for (uint64_t i = 0; i < SHEDS_MAX; i++)
        add(&m, 0, 16 * i, 16 * i + 15, i % 2 == 0 ? INVALID_DEVICE : INVALID_OVERLOAD);
    assert_int_equal(m.sheds.count, SHEDS_MAX);
    add(&m, 0, 16 * SHEDS_MAX, 16 * SHEDS_MAX + 1, INVALID_DEVICE);
    assert_int_equal(m.sheds.count, SHEDS_MAX);
    struct invalid_range ranges[SHEDS_MAX];
    assert_int_equal(sheds_take(&m.sheds, 0, 31, ranges), 1);
    assert_int_equal(ranges[0].from, 0);
    assert_int_equal(ranges[0].until, 31);
    assert_int_equal(ranges[0].cause, INVALID_UPSTREAM);
    /* What is not over yet stays. */
    assert_int_equal(sheds_take(&m.sheds, 0, 46, ranges), 0);
    assert_int_equal(sheds_take(&m.sheds, 1, FRAMES, ranges), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_frame_once_with_its_cause),
        cmocka_unit_test(test_a_full_list_forgets_nothing),
        cmocka_unit_test(test_joined_causes),
    };
    return cmocka_run_group_tests_name("sheds", tests, NULL, NULL);
}
