/*
 * Spilled registers: what a kernel keeps in memory because a work-item's registers do not suffice.
 * Its results are right, but each spilled value costs a store and at least one load. NVIDIA's
 * compiler tells how much that is; of other devices nothing is known.
 *
 * Pure functions, any thread. Knows no OpenCL.
 */
#ifndef CONVOLVD_DEVICE_SPILL_H
#define CONVOLVD_DEVICE_SPILL_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SPILL_UNKNOWN = -1,
    /* Bytes of a work-item whose cost was not measurable: four registers. fused_wide.cl is fastest
     * at Q = 16 384 with two of them spilled. */
    SPILL_HARMLESS_BYTES = 16,
};

/* Whether so many spilled bytes of a work-item make a kernel slower; SPILL_UNKNOWN does not. */
static inline bool spill_harms(int32_t bytes)
{
    return bytes > SPILL_HARMLESS_BYTES;
}

/* The most bytes that a work-item of any function in a compiler's log stores for want of registers,
 * or SPILL_UNKNOWN: the log tells of none. ptxas writes with --verbose for each function
 *
 *     ptxas info    : Function properties for NAME
 *         8 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads
 */
int32_t spill_of_log(const char *log);

#endif
