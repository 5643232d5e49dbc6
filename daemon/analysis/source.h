/*
 * The body of a source: where the hits of several channels came from. The event's frame, channel
 * and times are those of its first hit in order; origin_us leads from its arrival_ns to the instant
 * of the source.
 *
 * Undefined values are NAN: the second coordinate on a line, and what the configuration did not
 * ask for.
 */
#ifndef CONVOLVD_ANALYSIS_SOURCE_H
#define CONVOLVD_ANALYSIS_SOURCE_H

#include <stdint.h>

#include "analysis/analysis.h"

/* The hits of one source that are used and told of, the earliest ones. */
enum { SOURCE_HITS_MAX = 16 };

struct source_event {
    double x_mm, y_mm;
    double origin_us; /* the source's instant, after the event's arrival_ns: negative */
    /* Standard uncertainties from those of timing and velocity, and the correlation of x and y. */
    double sigma_x_mm, sigma_y_mm, correlation, sigma_origin_us;
    double lucy_mm;                  /* location uncertainty from the residuals */
    double second_x_mm, second_y_mm; /* the other place that fits as well (ANALYSIS_AMBIGUOUS) */
    double peak_db;                  /* of the first hit */
    double energy_eu;                /* of its hits together */
    double load;           /* the first parameter at the first hit, when `load` names one */
    double felicity;       /* load / greatest load of earlier cycles; NAN in the first cycle */
    uint64_t cluster;      /* number of its cluster, 0: not asked for */
    uint64_t cluster_size; /* sources in it, this one included */
    uint32_t hits;         /* values that the lists below hold, at most SOURCE_HITS_MAX */
    uint32_t kaiser;       /* 1: below the greatest load of earlier cycles */
    uint32_t channels[SOURCE_HITS_MAX];   /* counted from 1, in order of arrival; 0: no more */
    double arrivals_us[SOURCE_HITS_MAX];  /* after the first one's */
    double residuals_us[SOURCE_HITS_MAX]; /* measured less computed from the place */
    uint64_t numbers[SOURCE_HITS_MAX];    /* analysis_event.number of each hit */
};

/* The rows of struct source_event whose lists hold `hits` values, 1 … SOURCE_HITS_MAX. The table is
 * the caller's; returns how many rows were written. */
enum { SOURCE_FIELDS_MAX = 24 };
uint32_t source_fields(struct analysis_field fields[SOURCE_FIELDS_MAX], uint32_t hits);

#endif
