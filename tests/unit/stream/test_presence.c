/*
 * Presence bits: what presence_find says of rings of several sizes, held against a walk over single
 * bits. Runs are shorter and longer than a word and a cache line, begin and end anywhere, and go
 * over the end of the ring.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/random.h"
#include "stream/presence.h"
#include "stream/state.h"

enum { SLOTS_MAX = 8192, RUN_MAX = 2000 };

static uint32_t present[SLOTS_MAX / 32];
static struct ring ring = {.present = present};
static struct stream stream = {.ring = &ring};

static bool bit_of(uint64_t position)
{
    const uint64_t slot = position % ring.frames;
    return present[slot / 32] >> (slot % 32) & 1;
}

static uint64_t walk(uint64_t from, uint64_t until, bool wanted)
{
    while (from < until && bit_of(from) != wanted)
        from++;
    return from;
}

/* Fills the ring with runs, set and clear in turns, of up to `most` frames. */
static void fill(struct random_state *random, uint32_t most)
{
    const uint64_t begin = FIRST_POSITION + random_below(random, SLOTS_MAX);
    bool set = false;
    for (uint64_t at = begin; at < begin + ring.frames; set = !set) {
        const uint64_t left = begin + ring.frames - at;
        const uint64_t run = 1 + random_below(random, most);
        presence_mark(&stream, at, at + (run < left ? run : left), set);
        at += run;
    }
}

static void finds_what_a_walk_finds(void **state)
{
    (void)state;
    struct random_state random = {20261128};
    static const uint32_t most[] = {3, 70, 600, RUN_MAX};
    for (ring.frames = 64; ring.frames <= SLOTS_MAX; ring.frames *= 2)
        for (int i = 0; i < 2000; i++) {
            if (i % 100 == 0)
                fill(&random, most[i / 100 % 4]);
            const uint64_t from = FIRST_POSITION + random_below(&random, 3 * SLOTS_MAX);
            const uint64_t until = from + random_below(&random, ring.frames + 1);
            for (int wanted = 0; wanted < 2; wanted++)
                assert_int_equal(presence_find(&stream, from, until, wanted),
                                 walk(from, until, wanted));
        }
}

/* A lap without a change, from each slot of three lines: the end is found, no bit behind it is. */
static void a_whole_lap_is_passed_over(void **state)
{
    (void)state;
    ring.frames = SLOTS_MAX;
    for (int set = 0; set < 2; set++)
        for (uint64_t from = FIRST_POSITION; from < FIRST_POSITION + 1536; from++) {
            memset(present, set ? 0xff : 0, sizeof present);
            assert_int_equal(presence_find(&stream, from, from + SLOTS_MAX, !set),
                             from + SLOTS_MAX);
            presence_mark(&stream, from + 4000, from + 4001, !set);
            assert_int_equal(presence_find(&stream, from, from + SLOTS_MAX, !set), from + 4000);
            assert_int_equal(presence_find(&stream, from, from + 4000, !set), from + 4000);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_a_walk_finds),
        cmocka_unit_test(a_whole_lap_is_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
