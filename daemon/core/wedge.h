/*
 * Wedge: a test's handle that stops one stage of the pipeline for ever, as a hung driver, disk or
 * loop would. It proves that the watchdog notices. Zero in the daemon unless the control socket was
 * told so by a test (CONVOLVD_TEST_HOOKS=1 in the environment).
 *
 * Any thread.
 */
#ifndef CONVOLVD_CORE_WEDGE_H
#define CONVOLVD_CORE_WEDGE_H

#include <stdatomic.h>

enum wedge {
    WEDGE_LOOP = 1,
    WEDGE_DEVICE = 2,
    WEDGE_WRITER = 4,
    WEDGE_READER = 8,
};

/* Bits of the stages that stop. */
extern _Atomic unsigned wedged;

/* Does not return. */
_Noreturn void wedge_sleep(void);

/* At a place the stage passes whenever it works. */
static inline void wedge_here(enum wedge stage)
{
    if (atomic_load_explicit(&wedged, memory_order_relaxed) & (unsigned)stage)
        wedge_sleep();
}

#endif
