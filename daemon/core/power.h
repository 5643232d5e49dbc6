/*
 * Powers of two, for sizes of rings and lengths of transforms. Pure, any thread.
 */
#ifndef CONVOLVD_CORE_POWER_H
#define CONVOLVD_CORE_POWER_H

#include <stdint.h>

/* `start`, a power of two, doubled until it is at least `least`; 2^63 at the most. */
static inline uint64_t power_of_two_from(uint64_t start, uint64_t least)
{
    uint64_t power = start;
    while (power < least && power < UINT64_C(1) << 63)
        power *= 2;
    return power;
}

#endif
