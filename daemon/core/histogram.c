/* Log-linear histogram: see histogram.h. */
#include "core/histogram.h"

#include <math.h>
#include <string.h>

/* Values below 2·STEPS have a bin each; above, the top bits select octave and step. */
static unsigned bin_of(uint64_t value)
{
    if (value < 2 * HISTOGRAM_STEPS)
        return (unsigned)value;
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - 5u; /* 2^5 == HISTOGRAM_STEPS */
    unsigned bin = shift * HISTOGRAM_STEPS + (unsigned)(value >> shift);
    return bin < HISTOGRAM_BINS ? bin : HISTOGRAM_BINS - 1;
}

static int64_t upper_edge(unsigned bin)
{
    if (bin < 2 * HISTOGRAM_STEPS)
        return bin;
    unsigned shift = bin / HISTOGRAM_STEPS - 1;
    uint64_t step = bin - shift * HISTOGRAM_STEPS;
    return (int64_t)(((step + 1) << shift) - 1);
}

void histogram_reset(struct histogram *histogram)
{
    memset(histogram, 0, sizeof *histogram);
}

void histogram_record(struct histogram *histogram, int64_t duration_ns)
{
    int64_t value = duration_ns > 0 ? duration_ns : 0;
    histogram->bins[bin_of((uint64_t)value)]++;
    histogram->count++;
    histogram->sum_ns +=
        value < INT64_MAX - histogram->sum_ns ? value : INT64_MAX - histogram->sum_ns;
    if (value > histogram->max_ns)
        histogram->max_ns = value;
}

int64_t histogram_quantile(const struct histogram *histogram, double quantile)
{
    if (histogram->count == 0)
        return 0;
    uint64_t wanted = (uint64_t)ceil(quantile * (double)histogram->count);
    if (wanted < 1)
        wanted = 1;
    uint64_t seen = 0;
    for (unsigned bin = 0; bin < HISTOGRAM_BINS; bin++) {
        seen += histogram->bins[bin];
        if (seen >= wanted) {
            int64_t edge = upper_edge(bin);
            return edge < histogram->max_ns ? edge : histogram->max_ns;
        }
    }
    return histogram->max_ns;
}

void histogram_cumulate(const struct histogram *histogram, const int64_t *bounds,
                        unsigned bounds_count, uint64_t *counts)
{
    uint64_t seen = 0;
    unsigned bin = 0;
    for (unsigned i = 0; i < bounds_count; i++) {
        for (; bin < HISTOGRAM_BINS && upper_edge(bin) <= bounds[i]; bin++)
            seen += histogram->bins[bin];
        counts[i] = seen;
    }
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    into->count += from->count;
    into->sum_ns += from->sum_ns;
    if (from->max_ns > into->max_ns)
        into->max_ns = from->max_ns;
    for (unsigned bin = 0; bin < HISTOGRAM_BINS; bin++)
        into->bins[bin] += from->bins[bin];
}
