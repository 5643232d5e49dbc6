/*
 * Log-linear histogram of durations: 32 linear steps to each octave, so that a quantile is
 * right within 1/32 of its value from 1 ns to about 18 minutes, in fixed memory. Recording
 * is a handful of instructions and never allocates.
 *
 * One thread writes and reads; merge copies for other readers.
 */
#ifndef CONVOLVD_CORE_HISTOGRAM_H
#define CONVOLVD_CORE_HISTOGRAM_H

#include <stdint.h>

enum {
    HISTOGRAM_STEPS = 32,
    HISTOGRAM_OCTAVES = 36,
    HISTOGRAM_BINS = HISTOGRAM_STEPS * HISTOGRAM_OCTAVES
};

struct histogram {
    uint64_t count;
    int64_t max_ns;
    int64_t sum_ns; /* stays at INT64_MAX once it would be more */
    uint64_t bins[HISTOGRAM_BINS];
};

void histogram_reset(struct histogram *histogram);

/* Negative durations count as 0; those beyond the last bin count there, max stays exact. */
void histogram_record(struct histogram *histogram, int64_t duration_ns);

/* The upper edge of the first bin up to which at least `quantile` (0…1) of the records lie, but at
 * most max_ns [ns]. 0 when empty. */
int64_t histogram_quantile(const struct histogram *histogram, double quantile);

/* Counts of the records up to each of `bounds` [ns], ascending: counts[i] of those up to bounds[i].
 * A record within 1/32 below a bound may count above it, as quantiles do. */
void histogram_cumulate(const struct histogram *histogram, const int64_t *bounds,
                        unsigned bounds_count, uint64_t *counts);

void histogram_merge(struct histogram *into, const struct histogram *from);

#endif
