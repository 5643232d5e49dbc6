/*
 * Options of the analysis `hits`: what a user writes, and what follows from it for a stream, in
 * frames.
 *
 * The thread that builds the configuration fills and checks them; immutable afterwards.
 */
#ifndef CONVOLVD_ANALYSIS_HIT_OPTIONS_H
#define CONVOLVD_ANALYSIS_HIT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/analysis.h"
#include "analysis/detector.h"
#include "analysis/hit.h"
#include "analysis/hit_features.h"
#include "core/option.h"

struct hit_options {
    /* As written. */
    struct option_values thresholds, bands;
    const struct option_value *hdt, *hlt, *pdt, *max_duration, *pre_trigger, *post_duration,
        *max_record, *noise_interval, *floating_time, *pick_window, *ratio_window, *spectrum;
    enum hit_counts counts;
    enum hit_picker picker;
    uint32_t energy_to_end;
    bool interpolate;
    double floating; /* k; 0: the threshold is fixed */
    double alpha;
    uint64_t queue_bytes;

    /* What follows, once checked. */
    struct detector_rules rules;
    struct hit_features_options features;
    uint64_t noise_frames;     /* I; 0: no noise is measured */
    uint64_t floating_frames;  /* T, at least 1 */
    uint32_t transient_frames; /* of an event: pre-trigger and max record; 0: it has none */
    uint32_t queue_blocks;
    struct analysis_field fields[HIT_FIELDS_MAX];
    uint32_t field_count;
};

enum { HIT_OPTION_ROWS = 21 };
extern const struct option_row hit_option_rows[HIT_OPTION_ROWS];

void hit_options_check(const struct option_check *check, struct analysis_options *options);
void hit_options_report(const struct analysis_options *options, FILE *out);
/* As analysis_ops.describe. */
struct json_t *hit_options_describe(const struct analysis_options *options);

/* The fixed threshold of a channel, in its unit. */
double hit_options_threshold(const struct analysis_options *options, uint32_t channel);

#endif
