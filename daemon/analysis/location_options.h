/*
 * The options of `type = location`: sensors, extent, velocity, times, and what they mean together.
 * Constant tables and pure functions, any thread.
 */
#ifndef CONVOLVD_ANALYSIS_LOCATION_OPTIONS_H
#define CONVOLVD_ANALYSIS_LOCATION_OPTIONS_H

#include "analysis/analysis.h"
#include "analysis/locator.h"
#include "analysis/source.h"

struct location_options {
    /* as written */
    struct option_values sensors; /* points, or `none`; one a channel */
    struct option_values extent;  /* two corners; none: the sensors' box and a tenth more */
    const struct option_value *max_dt, *silence, *sigma_t, *cluster_radius, *least;
    double velocity_m_s, velocity_error, load_drop;
    uint32_t grid;
    bool kaiser;
    /* set by the check */
    bool plane;
    struct point low, high;
    double sigma_t_s;
    uint64_t max_dt_frames, silence_frames;
    uint32_t least_hits;
    struct analysis_field fields[SOURCE_FIELDS_MAX];
    uint32_t field_count;
};

enum { LOCATION_ROWS = 12 };
extern const struct option_row location_rows[LOCATION_ROWS];

void location_check(const struct option_check *check, struct analysis_options *options);
/* Places in metres, [x, y] for each channel, null without a sensor; extent [x0, y0, x1, y1]. */
struct json_t *location_describe(const struct analysis_options *options);
void location_report(const struct analysis_options *options, FILE *out);

/* The sensors of proven options; a channel that has none has no coordinates. */
void location_sensors(const struct location_options *own, uint32_t channels, struct point *sensors);

/* The locator of checked options, but for its sensors. */
struct locator_spec location_locator(const struct analysis_options *options);

#endif
