/*
 * Ledger lock: lets the loop read counters that a writing thread moves from one to another, such
 * that they add up. A sequence lock whose reader does not wait: a writer that is preempted between
 * begin and end would hold the loop for as long as the kernel lets it sleep, so after a number of
 * tries the reader takes what it read the last time, which added up too.
 *
 * One thread writes, the loop reads.
 */
#ifndef CONVOLVD_IO_LEDGER_LOCK_H
#define CONVOLVD_IO_LEDGER_LOCK_H

#include <stdatomic.h>

#include "io/sink.h"

enum { LEDGER_TRIES = 1000 }; /* some 10 us; a move takes a few instructions */

struct ledger_lock {
    _Atomic unsigned sequence; /* odd while counters move */
    struct sink_ledger last;   /* loop only */
};

/* WRITER. The counters change between these two only. */
static inline void ledger_lock_begin(struct ledger_lock *lock)
{
    atomic_fetch_add(&lock->sequence, 1);
}

static inline void ledger_lock_end(struct ledger_lock *lock)
{
    atomic_fetch_add(&lock->sequence, 1);
}

/* LOOP. `read` fills a whole ledger from counters that are atomic or the loop's own. */
static inline void ledger_lock_read(struct ledger_lock *lock, const struct sink *sink,
                                    void (*read)(const struct sink *sink,
                                                 struct sink_ledger *ledger),
                                    struct sink_ledger *ledger)
{
    for (int tries = 0; tries < LEDGER_TRIES; tries++) {
        struct sink_ledger now = {0};
        unsigned before = atomic_load(&lock->sequence);
        read(sink, &now);
        if (before % 2 == 0 && atomic_load(&lock->sequence) == before) {
            lock->last = now;
            break;
        }
    }
    *ledger = lock->last;
}

#endif
