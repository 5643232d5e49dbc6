/*
 * The rows of the table of analyses (analyses.c): one for each type.
 */
#ifndef CONVOLVD_ANALYSIS_ANALYSES_H
#define CONVOLVD_ANALYSIS_ANALYSES_H

#include "analysis/analysis.h"

extern const struct analysis_ops analysis_hits;
extern const struct analysis_ops analysis_intervals;
extern const struct analysis_ops analysis_ascan;
extern const struct analysis_ops analysis_location;
extern const struct analysis_ops analysis_sensor_test;
extern const struct analysis_ops analysis_vibration;

#endif
