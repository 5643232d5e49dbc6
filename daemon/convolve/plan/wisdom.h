/*
 * Wisdom: which plan measured best for a shape on a device, kept in one JSON file of the cache
 * directory. An entry holds for the device, driver and kernels it was measured with; wisdom_find
 * ignores an entry of others, and the file keeps it. A damaged file loses the wisdom and nothing
 * else.
 *
 * Immutable between wisdom_open and wisdom_put; worker threads, one at a time.
 */
#ifndef CONVOLVD_CONVOLVE_PLAN_WISDOM_H
#define CONVOLVD_CONVOLVE_PLAN_WISDOM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/digest.h"
#include "core/error.h"
#include "device/info.h"

enum { WISDOM_NAME = 32, WISDOM_REASON = 240, WISDOM_SHAPE = 256, WISDOM_DATE = 24 };

/* One way to compute a shape, and how long it took. */
struct candidate {
    char variant[WISDOM_NAME];
    uint32_t hop, fft, partitions;
    uint32_t items;  /* work-items of a group, 0: the variant's own */
    uint32_t vector; /* lanes of a vector, 0: the variant has no choice */
    uint32_t rows;   /* rows that a group computes, 0: the variant has no choice */
    bool measured;
    double one_us;              /* a block alone: submission to completion, median */
    double each_us;             /* a block among `blocks_max`, median */
    double error;               /* of the self-test, relative to the bound's reference */
    int32_t spilled_bytes;      /* as in plan_info; SPILL_UNKNOWN: also before it was measured */
    char reason[WISDOM_REASON]; /* why it was not measured or not chosen; "": chosen */
};

struct wisdom_entry {
    char device[384];          /* platform, name, driver and version */
    char kernels[DIGEST_TEXT]; /* SHA-256 of every kernel's text */
    char shape[WISDOM_SHAPE];
    char date[WISDOM_DATE]; /* UTC, ISO 8601 */
    struct candidate *candidates;
    uint32_t count;
    uint32_t chosen; /* index */
};

struct wisdom;

/* Reads `directory`/wisdom.json (NULL: nothing is remembered); `kernels_dir` must outlive the
 * table. 0 or ERROR_MEMORY: a file that it cannot read costs one log line and counts as empty. */
int wisdom_open(const char *directory, const char *kernels_dir, const struct device_info *info,
                struct wisdom **out, struct problem *problem);
void wisdom_close(struct wisdom *wisdom); /* NULL is fine */

/* This device's entry for the shape; NULL: there is none. Valid until the next wisdom_put. */
const struct wisdom_entry *wisdom_find(const struct wisdom *wisdom, const char *shape);

/* Remembers a measurement, in place of an older one of this device and shape, and writes the file:
 * ERROR_NO_FILE with the reason when it cannot be written (the table has it all the same). */
int wisdom_put(struct wisdom *wisdom, const char *shape, const struct candidate *candidates,
               uint32_t count, uint32_t chosen, struct problem *problem);

#endif
