/*
 * Wisdom: which plan was measured to be the best for a shape on a device, remembered in one
 * JSON file of the cache directory. An entry counts only for the device, driver and kernels it
 * was measured with: whatever changes one of them makes it a stranger that is kept and not used.
 * A damaged file costs the wisdom and nothing else.
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

/* One way to compute a shape, and what it took. */
struct candidate {
    char variant[WISDOM_NAME];
    uint32_t hop, fft, partitions;
    uint32_t items;  /* work-items of a group, 0: the variant's own */
    uint32_t vector; /* lanes of a vector, 0: the variant has no choice */
    bool measured;
    double one_us;              /* a block alone: submission to completion, median */
    double each_us;             /* a block among `blocks_max`, median */
    double error;               /* of the self-test, relative to the bound's reference */
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

/* `kernels_dir` is kept. Reads `directory`/wisdom.json (NULL: nothing is remembered). Always gives
 * a table, unless out of memory; a file that cannot be understood is reported in one log line and
 * taken as empty. */
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
