/*
 * Count lock: lets the loop read counters that several threads move from one to another, such that
 * they add up at that instant. Nobody waits: a reader that never finds a quiet instant keeps what
 * it read the last time, which added up too (ledger_lock.h has one writer; this has any number).
 *
 *     writers: count_lock_begin, change atomic counters, count_lock_end
 *     reader:  do { token = count_lock_look(…); read; } while (!count_lock_held(…, token))
 *
 * Writers never exclude each other: each counter is changed by atomic additions.
 */
#ifndef CONVOLVD_IO_COUNT_LOCK_H
#define CONVOLVD_IO_COUNT_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { COUNT_LOCK_TRIES = 1000 }; /* some 10 us; a change takes a few instructions */

struct count_lock {
    _Atomic uint64_t begun, ended; /* changes */
};

static inline void count_lock_begin(struct count_lock *lock)
{
    atomic_fetch_add(&lock->begun, 1);
}

static inline void count_lock_end(struct count_lock *lock)
{
    atomic_fetch_add(&lock->ended, 1);
}

/* Before the counters are read. */
static inline uint64_t count_lock_look(const struct count_lock *lock)
{
    return atomic_load(&lock->ended);
}

/* After it: no change was under way in between. */
static inline bool count_lock_held(const struct count_lock *lock, uint64_t token)
{
    return atomic_load(&lock->begun) == token;
}

#endif
