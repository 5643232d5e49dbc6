/* Invalid ranges against a map of frames: joined, clipped, overfull, never less flagged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "core/random.h"
#include "stream/ranges.h"

static void test_ranges_never_flag_less(void **state)
{
    (void)state;
    enum { FRAMES = 4096 };
    for (uint64_t seed = 1; seed < 40; seed++) {
        struct random_state random = {seed};
        static struct ranges ranges;
        static uint8_t map[INVALID_CAUSES][FRAMES];
        memset(&ranges, 0, sizeof ranges);
        memset(map, 0, sizeof map);
        bool overflowed = false;
        for (int i = 0; i < (seed % 2 ? 60 : 900); i++) {
            uint64_t from = random_below(&random, FRAMES - 40);
            uint64_t until = from + random_below(&random, seed % 2 ? 40 : 3);
            enum invalid_cause cause = random_below(&random, 3);
            ranges_add(&ranges, from, until, cause);
            memset(&map[cause][from], 1, until - from);
            overflowed = overflowed || ranges.count == RANGES_MAX;
            assert_true(ranges.count <= RANGES_MAX);
        }
        static uint8_t got[INVALID_CAUSES][FRAMES];
        memset(got, 0, sizeof got);
        struct invalid_range clipped[RANGES_MAX];
        uint32_t count = ranges_clip(&ranges, 100, FRAMES - 100, clipped, RANGES_MAX);
        for (uint32_t i = 0; i < count; i++)
            memset(&got[clipped[i].cause][clipped[i].from], 1, clipped[i].until - clipped[i].from);
        uint64_t any = 0;
        for (int n = 100; n < FRAMES - 100; n++) {
            bool flagged = false;
            for (int cause = 0; cause < 3; cause++) {
                assert_true(got[cause][n] >= map[cause][n]);
                if (!overflowed)
                    assert_int_equal(got[cause][n], map[cause][n]);
                flagged = flagged || got[cause][n];
            }
            any += flagged;
        }
        assert_int_equal(ranges_union(clipped, count), any);
        /* too small a list covers the rest, never drops it */
        struct invalid_range few[2];
        uint32_t kept = ranges_clip(&ranges, 0, FRAMES, few, 2);
        uint64_t reach = 0;
        for (uint32_t i = 0; i < kept; i++)
            reach = few[i].until > reach ? few[i].until : reach;
        uint64_t last = 0;
        for (uint32_t i = 0; i < ranges.count; i++)
            last = ranges.list[i].until > last ? ranges.list[i].until : last;
        assert_int_equal(reach, last);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges_never_flag_less),
    };
    return cmocka_run_group_tests_name("ranges", tests, NULL, NULL);
}
