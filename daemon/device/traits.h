/*
 * Traits: how kernels are built for a device and how the engine works with it. Everything that
 * differs between a CPU and a GPU is decided here, once, from what OpenCL says of the device; the
 * other modules read the traits and never ask what kind of device they have.
 *
 * Pure functions, any thread.
 */
#ifndef CONVOLVD_DEVICE_TRAITS_H
#define CONVOLVD_DEVICE_TRAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "device/info.h"

/* Local memory that kernels add up a work-item's report in: struct report_row of kernels/row.h. */
enum { DEVICE_REPORT_BYTES = 32 };

/* Batches in a device's queue unless the user asks for another depth: one computes while the next
 * waits, and on a GPU the copies of the last run beside both. Short batches on a GPU: more, so that
 * it does not wait while a completed batch comes back and the next one is launched. As numbers and
 * as the manual has it. */
#define DEVICE_DEPTH_CPU       2
#define DEVICE_DEPTH_GPU       3
#define DEVICE_DEPTH_GPU_SHORT 6
#define DEVICE_DEPTH_TEXT(n)   #n
#define DEVICE_DEPTH_WORDS_(c, g, s)                                                               \
    DEVICE_DEPTH_TEXT(c)                                                                           \
    " on a CPU, " DEVICE_DEPTH_TEXT(g) " on a GPU, up to " DEVICE_DEPTH_TEXT(s) " short ones "     \
                                                                                "there"
#define DEVICE_DEPTH_WORDS                                                                         \
    DEVICE_DEPTH_WORDS_(DEVICE_DEPTH_CPU, DEVICE_DEPTH_GPU, DEVICE_DEPTH_GPU_SHORT)

struct device_traits {
    /* GPU: work-groups with barriers, one float a lane. CPU: one work-item, vectors of 16 lanes. */
    uint32_t lanes;              /* LANES of the kernels: 1 or 16 */
    uint32_t items;              /* ITEMS of the kernels: work-items of a group, 1 on a CPU */
    uint32_t vector;             /* lanes of the device's own vectors: 16, 8 or 4 */
    uint64_t local_budget_bytes; /* local memory of a group for transforms */
    uint32_t threads;            /* that run one group each; 0: groups are not threads of a CPU */
    uint32_t depth;              /* batches to keep in the device's queue, by default */
    uint32_t depth_short;        /* of short ones */
    bool builds_apart; /* the driver holds launches up while it builds a program: see compiler.h */
    bool polled; /* the driver reports completions late: threads of the engine poll for them */
    /* A kernel's first launch is to be as wide as any that follows. PoCL (3.1 to 5.0) counts what
     * runs of a kernel in one entry for each launch that was wider than all before it, and may end
     * a launch in another entry than it began in: below zero it ends the process. */
    bool widest_first;
    /* The most points of a transform that two work-groups share. PoCL 6.0 ends the process with a
     * failed assertion of its compiler at 32 768 points; 1024 work there, and all sizes in
     * PoCL 3.1. Versions between are not known and count as 6.0. */
    uint32_t split_points_most;
};

struct device_traits device_traits_of(const struct device_info *info);

/* Whether NVIDIA's own driver has it, whose compiler takes options of its own (-cl-nv-…). */
bool device_is_nvidia(const struct device_info *info);

/* Local memory that kernels take beside their transforms: reports of `items` work-items, which
 * they add up, and the compiler's own. */
uint64_t device_reserved_bytes(uint32_t items);

#endif
