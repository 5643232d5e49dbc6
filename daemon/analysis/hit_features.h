/*
 * From what the detector knows of a hit, and from its record, to the values of struct hit, by the
 * formulas of docs/analysis.md.
 *
 * One owner; nothing but `open` allocates.
 */
#ifndef CONVOLVD_ANALYSIS_HIT_FEATURES_H
#define CONVOLVD_ANALYSIS_HIT_FEATURES_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/detector.h"
#include "analysis/hit.h"

enum hit_counts { HIT_COUNTS_POSITIVE, HIT_COUNTS_BOTH, HIT_COUNTS_PLAIN };
enum hit_picker {
    HIT_PICKER_THRESHOLD,
    HIT_PICKER_AIC,
    HIT_PICKER_HINKLEY,
    HIT_PICKER_ENERGY_RATIO,
};

struct hit_band {
    double from_hz, until_hz;
};

struct hit_features_options {
    double rate_hz;
    enum hit_counts counts;
    enum hit_picker picker;
    bool interpolate;         /* the threshold picker: between two frames */
    uint32_t pick_window;     /* frames from the first one on that a picker looks at, at most */
    double alpha;             /* Hinkley's */
    uint32_t ratio_window;    /* frames, the energy ratio's */
    uint32_t spectrum_points; /* M, a power of two; 0: no spectrum */
    uint32_t band_count;      /* 0 … HIT_BANDS_MAX */
    struct hit_band bands[HIT_BANDS_MAX];
};

struct hit_features;

/* What a channel's unit is in volts (0: no voltage), and which amplitude of it is 0 dB. */
struct hit_scale {
    double volts, reference;
};
struct hit_scale hit_scale_of(const char *unit);

/* 0 or ERROR_MEMORY. */
int hit_features_open(const struct hit_features_options *options, struct hit_features **out);
void hit_features_close(struct hit_features *features); /* NULL is fine */
uint64_t hit_features_memory(const struct hit_features_options *options);

/* `record` holds `frames` samples, from detector_hit.lead before the first frame on: those of the
 * record and those that the picker and the spectrum need. */
void hit_features_measure(struct hit_features *features, const struct detector_hit *seen,
                          const float *record, const struct hit_scale *scale, struct hit *hit);

#endif
