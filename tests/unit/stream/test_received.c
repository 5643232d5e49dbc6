/*
 * A look at received input: rows of a ring's presence, and the runs that must come out of it. The
 * ring has 64 slots of frames of 2 bytes; slot s holds the bytes {s, 0}.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stream/presence.h"
#include "stream/received.h"
#include "stream/state.h"

enum { SLOTS = 64, FRAME_BYTES = 2 };

static uint8_t bytes[SLOTS * FRAME_BYTES];
static uint32_t present[SLOTS / 32];
static struct ring ring = {bytes, present, SLOTS, FRAME_BYTES};
static struct stream stream; /* zeroed but for what is looked at */

/* A stream whose newest epoch begins at FIRST_POSITION + base and has `head` frames. */
static void set(uint64_t base, uint64_t head)
{
    memset(&stream, 0, sizeof stream);
    memset(present, 0, sizeof present);
    for (int slot = 0; slot < SLOTS; slot++)
        bytes[FRAME_BYTES * slot] = (uint8_t)slot;
    stream.ring = &ring;
    stream.epoch_next = 1;
    stream.epochs[0].base = FIRST_POSITION + base;
    stream.epochs[0].head = head;
    stream.cleared_until = FIRST_POSITION + base + head;
}

static void mark(uint64_t from, uint64_t until)
{
    presence_mark(&stream, FIRST_POSITION + from, FIRST_POSITION + until, true);
}

/* "10+5 20+3": position and count of each run, counted from FIRST_POSITION. */
static void expect_runs(uint64_t from, const char *want)
{
    struct received_run run;
    char got[256] = "";
    for (uint64_t at = FIRST_POSITION + from; received_run(&stream, at, &run);
         at = run.position + run.count) {
        size_t used = strlen(got);
        snprintf(got + used, sizeof got - used, "%s%llu+%llu", used > 0 ? " " : "",
                 (unsigned long long)(run.position - FIRST_POSITION),
                 (unsigned long long)run.count);
        for (uint64_t i = 0; i < run.count; i++)
            assert_int_equal(run.bytes[FRAME_BYTES * i], (run.position + i) % SLOTS);
    }
    assert_string_equal(got, want);
}

static void nothing_yet(void **state)
{
    (void)state;
    set(0, 0);
    stream.epoch_next = 0;
    assert_int_equal(received_end(&stream), 0);
    expect_runs(0, "");
    set(0, 0);
    expect_runs(0, "");
}

static void gaps_are_left_out(void **state)
{
    (void)state;
    set(0, 30);
    mark(0, 10);
    mark(12, 13);
    mark(20, 30);
    expect_runs(0, "0+10 12+1 20+10");
    expect_runs(5, "5+5 12+1 20+10");
    expect_runs(10, "12+1 20+10");
    expect_runs(30, "");
    expect_runs(1000, "");
}

/* A run ends where the ring does: its frames lie one behind the other. */
static void a_run_ends_with_the_ring(void **state)
{
    (void)state;
    set(0, 80);
    mark(48, 80);
    expect_runs(0, "48+16 64+16");
}

/* Older frames may be overwritten while they are looked at. */
static void only_the_newest_half(void **state)
{
    (void)state;
    set(0, 60);
    mark(0, 60);
    assert_int_equal(received_begin(&stream), FIRST_POSITION + 28);
    expect_runs(0, "28+32");
}

/* Positions ascend over epochs; what lies between them was not received. */
static void a_later_epoch(void **state)
{
    (void)state;
    set(40, 10);
    mark(30, 34); /* the end of the epoch before */
    mark(40, 50);
    expect_runs(0, "30+4 40+10");
    assert_int_equal(received_end(&stream), FIRST_POSITION + 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_yet),
        cmocka_unit_test(gaps_are_left_out),
        cmocka_unit_test(a_run_ends_with_the_ring),
        cmocka_unit_test(only_the_newest_half),
        cmocka_unit_test(a_later_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
