/*
 * The cells of the tables: what one variant did at one size, kept in a CSV file, one line a cell,
 * written as soon as it is known, so that an interrupted run goes on where it stopped. The first
 * line names the device; a file belongs to one device.
 *
 * One thread.
 */
#ifndef CONVOLVD_BENCH_PUBLISHED_CELLS_H
#define CONVOLVD_BENCH_PUBLISHED_CELLS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/error.h"

enum { CELL_TEXT = 24, CELL_NOTE = 120 };

struct cell {
    char system[CELL_TEXT];  /* convolution, fft, direct, pipeline, width */
    char variant[CELL_TEXT]; /* A …; "convolvd" */
    char part[CELL_TEXT];    /* pipeline: image, array; width: float, int, short; else empty */
    uint32_t m;              /* M = J; taps; local size; vector width; 0 */
    uint32_t n;
    double baseline_ns;   /* the sequential program on one core; 0: none */
    double total_ns;      /* host to host, transfers included */
    double kernel_ns;     /* launches alone, from events; 0: not measured, or none */
    double resident_ns;   /* convolvd in device memory, submitted to completed; 0: not measured */
    double steady_ns;     /* likewise its share with several batches in flight */
    double error;         /* ||e||2 / ||y||2 against double */
    char note[CELL_NOTE]; /* not empty and total_ns 0: why it was not run; else the plan's name */
};

struct cells {
    FILE *file; /* NULL when only read */
    char device[128];
    struct cell *cells;
    uint32_t count, capacity;
};

/* Reads `path` and, with `device`, goes on writing it. Returns 0, ERROR_NO_FILE, ERROR_MEMORY, or
 * ERROR_FORMAT for a file of another device or a damaged one. */
int cells_open(struct cells *cells, const char *path, const char *device, struct problem *problem);
void cells_close(struct cells *cells);

/* NULL: not there. */
const struct cell *cells_find(const struct cells *cells, const char *system, const char *variant,
                              const char *part, uint32_t m, uint32_t n);

/* Appends a line and flushes it. */
int cells_add(struct cells *cells, const struct cell *cell, struct problem *problem);

#endif
