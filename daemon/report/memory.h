/*
 * The memory of a configuration: the most that its streams take of the process, by what takes it.
 * All of it is bounded and known beforehand:
 *
 *     rings     the input rings, resident from the start
 *     spectra   filters: their taps and spectra, and the delay lines of long ones
 *     batches   results on their way from the device
 *     queues    buffers and queues of sources, sinks and analyses; what is not needed is never
 * touched
 *
 * The program itself and its OpenCL driver come on top. A device with memory of its own holds
 * rings, spectra and batches a second time. The transform is that of the rule (check_plan_make), so
 * spectra are an estimate.
 *
 * Pure functions, any thread.
 */
#ifndef CONVOLVD_REPORT_MEMORY_H
#define CONVOLVD_REPORT_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "config/config.h"

/* The transform that a stream probably gets: N and the number of partitions. */
struct memory_plan {
    uint32_t taps_longest, fft, partitions;
    uint64_t taps_bytes; /* of its filters, in double */
};

/* Bytes. */
struct memory_figure {
    uint64_t rings, spectra, batches, queues;
    uint64_t input; /* of `input memory`: rings, on one device */
};

/* The input ring of a stream: as large as the rule wants, or as `buffer` says, unless the rings of
 * the streams before it leave less of `input memory`. */
struct memory_ring {
    uint64_t bytes, wanted_bytes; /* samples */
    double ms;                    /* that it holds */
    bool fits;                    /* false: not even the least that its plan needs */
    double gap_s, wanted_gap_s;   /* the longest loss that it bridges, and `max gap` */
    double gap_buffer_s;          /* the `buffer` that bridges `max gap` */
};

/* The ring that stream `index` gets after the streams of `figure`. */
struct memory_ring memory_ring(const struct memory_figure *figure, const struct config *config,
                               uint32_t index, const struct memory_plan *plan);

/* Adds what stream `index` takes. */
void memory_add_stream(struct memory_figure *figure, const struct config *config, uint32_t index,
                       const struct memory_plan *plan);

/* Adds, after the streams, what all of them share: the pages that batches take of each device. */
void memory_add_shared(struct memory_figure *figure, const struct config *config);

uint64_t memory_total(const struct memory_figure *figure);

/* "147 MiB: rings 128 MiB, spectra 1.2 MiB, batches 8.4 MiB, queues 9.4 MiB" */
void memory_print(const struct memory_figure *figure, FILE *out);

#endif
