/*
 * What a group of the variant "host" leaves of a block: the reports of its lanes, and its samples
 * of the frames that are wanted, as floats or in the plan's result format.
 *
 * Device thread.
 */
#ifndef CONVOLVD_CONVOLVE_VARIANTS_HOST_WRITE_H
#define CONVOLVD_CONVOLVE_VARIANTS_HOST_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "convolve/host/lanes.h"
#include "convolve/plan/rows.h"

enum { NO_REPORT = UINT32_MAX };

/* A group's constants, in SPECTRUM. */
struct host_table {
    const struct host_functions *functions;
    struct host_target target;
    uint32_t count;                         /* lanes in use */
    uint32_t channel_bytes[HOST_LANES_MAX]; /* within the frame */
    uint32_t reports[HOST_LANES_MAX]; /* the input whose report this lane gives, or NO_REPORT */
    bool contiguous;
    bool silent; /* read for its reports only: no output */
    /* In the time domain: all lanes have the constants of one channel, each a frame farther than
     * the one before. */
    bool direct;
    uint32_t taps;
    /* For results in another format than native f32: the group writes these samples of the frame,
     * and the target's offsets count from the first of them. */
    uint32_t sample_first, samples;
    uint32_t outputs[HOST_LANES_MAX]; /* the output of each of these samples */
    _Alignas(HOST_ALIGNMENT) float scale[HOST_LANES_MAX];
    float offset_hi[HOST_LANES_MAX], offset_lo[HOST_LANES_MAX], limit[HOST_LANES_MAX];
};

/* In the time domain: where a block's samples lie behind its window in z. */
static inline uint32_t host_direct_samples(const struct host_table *table, uint32_t q)
{
    return HOST_DIRECT_TAPS + 2 * q + table->functions->width;
}

/* The reports of block k of the row's item; NO_REPORT lanes have none. */
void host_write_reports(const struct host_table *table, const struct host_statistics *stats,
                        const struct row *row, uint32_t k, float *output);

/* The frames of block k that the item wants, from the Q points z or the samples behind them, to
 * OUTPUT; clipped samples are added to the row's counts. */
void host_write_block(const struct host_table *table, const struct row *row, uint32_t k,
                      const float *z, uint32_t q, const struct result_format *results,
                      float *output);

#endif
