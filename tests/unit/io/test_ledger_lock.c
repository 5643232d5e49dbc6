/*
 * Ledger lock: what the loop reads always adds up, and a writer that sleeps between begin and end
 * does not hold it: the reader takes the last ledger that added up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "io/ledger_lock.h"

enum { MOVES = 200000 };

struct sink {
    struct ledger_lock lock;
    _Atomic uint64_t pending, delivered;
    uint64_t frames; /* the loop's */
};

static void read_sink(const struct sink *s, struct sink_ledger *ledger)
{
    ledger->pending = atomic_load(&s->pending);
    ledger->delivered = atomic_load(&s->delivered);
    ledger->frames = s->frames;
}

static void move(struct sink *s)
{
    ledger_lock_begin(&s->lock);
    atomic_fetch_add(&s->delivered, 1);
    atomic_fetch_sub(&s->pending, 1);
    ledger_lock_end(&s->lock);
}

static void *move_all(void *context)
{
    for (int i = 0; i < MOVES; i++)
        move(context);
    return NULL;
}

static void it_adds_up_while_it_moves(void **state)
{
    (void)state;
    static struct sink s = {.pending = MOVES, .frames = MOVES};
    struct sink_ledger ledger = {0};
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, move_all, &s), 0);
    uint64_t newest = 0;
    while (newest < MOVES) {
        ledger_lock_read(&s.lock, &s, read_sink, &ledger);
        assert_int_equal(ledger.frames, ledger.pending + ledger.delivered);
        assert_true(ledger.delivered >= newest);
        newest = ledger.delivered;
    }
    pthread_join(writer, NULL);
}

static void a_writer_that_sleeps_holds_nobody(void **state)
{
    (void)state;
    struct sink s = {.pending = 10, .frames = 10};
    struct sink_ledger ledger;
    ledger_lock_read(&s.lock, &s, read_sink, &ledger);
    ledger_lock_begin(&s.lock);
    atomic_fetch_add(&s.delivered, 4);
    s.frames = 12; /* the loop puts more meanwhile */
    atomic_fetch_add(&s.pending, 2);
    ledger_lock_read(&s.lock, &s, read_sink, &ledger); /* the writer never wakes */
    assert_int_equal(ledger.frames, 10);
    assert_int_equal(ledger.pending, 10);
    assert_int_equal(ledger.delivered, 0);
    atomic_fetch_sub(&s.pending, 4);
    ledger_lock_end(&s.lock);
    ledger_lock_read(&s.lock, &s, read_sink, &ledger);
    assert_int_equal(ledger.frames, 12);
    assert_int_equal(ledger.pending, 8);
    assert_int_equal(ledger.delivered, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_adds_up_while_it_moves),
        cmocka_unit_test(a_writer_that_sleeps_holds_nobody),
    };
    return cmocka_run_group_tests_name("ledger_lock", tests, NULL, NULL);
}
