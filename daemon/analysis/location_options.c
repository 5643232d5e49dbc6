/* Options of a location: see location_options.h. */
#include "analysis/location_options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "core/quantity.h"

#define FIELD(member) OPTION_FIELD(struct location_options, member)

enum { ROW_SENSORS, ROW_EXTENT, ROW_MAX_DT, ROW_SILENCE, ROW_SIGMA_T };

const struct option_row location_rows[LOCATION_ROWS] = {
    [ROW_SENSORS] = {.key = "sensors",
                     .type = OPTION_OWN,
                     .list = LIST_COMMA,
                     .parse = point_option,
                     .keyword = "none",
                     .words = POINT_WORDS,
                     .required = true,
                     FIELD(sensors),
                     .sentence = "Where the sensor of each channel sits: x and y on a plate, x "
                                 "alone on a line; none where a channel has no sensor."},
    [ROW_EXTENT] = {.key = "extent",
                    .type = OPTION_OWN,
                    .list = LIST_COMMA,
                    .parse = point_option,
                    .words = POINT_WORDS,
                    .fallback_words = "the sensors' box and a tenth more on every side",
                    FIELD(extent),
                    .sentence = "Two opposite corners, or two ends, of where sources are looked "
                                "for."},
    [ROW_MAX_DT] = {.key = "max dt",
                    .type = OPTION_SPAN,
                    .minimum = 1,
                    .maximum = 1e12,
                    .fallback_words = "largest distance of two sensors / velocity, and 5 % more",
                    FIELD(max_dt),
                    .sentence = "Longest time from the first hit of a source to its last one."},
    [ROW_SILENCE] = {.key = "first hit discrimination",
                     .type = OPTION_SPAN,
                     .minimum = 0,
                     .maximum = 1e12,
                     .fallback_words = "max dt",
                     FIELD(silence),
                     .sentence = "A hit begins a source only when no hit has begun for so long; "
                                 "keeps echoes from being located."},
    [ROW_SIGMA_T] = {.key = "timing error",
                     .type = OPTION_DELAY,
                     .minimum = 1e-9,
                     .maximum = 1e12,
                     .fallback_words = "1 frame, at least half the inverse of the filter's "
                                       "bandwidth",
                     FIELD(sigma_t),
                     .sentence = "Standard uncertainty of an arrival, for the uncertainty of the "
                                 "place. Where more hits than unknowns disagree by more, their "
                                 "residuals count."},
    {.key = "velocity",
     .type = OPTION_VELOCITY,
     .above_minimum = true,
     .maximum = 1e6,
     .required = true,
     FIELD(velocity_m_s),
     .sentence = "Velocity of the wave mode that is picked."},
    {.key = "velocity error",
     .type = OPTION_RATIO,
     .maximum = 1,
     .fallback = "0 %",
     FIELD(velocity_error),
     .sentence = "Standard uncertainty of the velocity, for the uncertainty of the place."},
    {.key = "least hits",
     .type = OPTION_COUNT,
     .minimum = 2,
     .maximum = LOCATOR_ARRIVALS_MAX,
     .fallback_words = "3 on a plate, 2 on a line",
     FIELD(least),
     .sentence = "Sensors that a source must have reached."},
    {.key = "grid",
     .type = OPTION_COUNT,
     .minimum = 8,
     .maximum = 512,
     .fallback = "64",
     FIELD(grid),
     .sentence = "Cells along the longer side of the extent, in which the search begins."},
    {.key = "cluster radius",
     .type = OPTION_LENGTH,
     .above_minimum = true,
     .maximum = 1e6,
     .fallback_words = "sources are not clustered",
     FIELD(cluster_radius),
     .sentence = "Sources within this distance of a cluster's mean belong to it."},
    {.key = "kaiser",
     .type = OPTION_BOOLEAN,
     .fallback = "no",
     FIELD(kaiser),
     .sentence = "Marks sources below the greatest load of earlier load cycles, with their "
                 "Felicity ratio; the load is the first parameter of the hits."},
    {.key = "load drop",
     .type = OPTION_RATIO,
     .above_minimum = true,
     .maximum = 1,
     .fallback = "10 %",
     FIELD(load_drop),
     .sentence = "Part of its peak by which the load falls when a load cycle ends."},
};

/* ---- what they mean together ------------------------------------------------------------- */

void location_sensors(const struct location_options *own, uint32_t channels, struct point *sensors)
{
    for (uint32_t c = 0; c < channels; c++)
        sensors[c] = c < own->sensors.count ? point_of(&own->sensors.values[c]) : (struct point){0};
}

struct locator_spec location_locator(const struct analysis_options *options)
{
    const struct location_options *own = options->own;
    return (struct locator_spec){
        .plane = own->plane,
        .count = options->stream.channels,
        .low = own->low,
        .high = own->high,
        .velocity_m_s = own->velocity_m_s,
        .sigma_t_s = own->sigma_t_s,
        .sigma_v_m_s = own->velocity_error * own->velocity_m_s,
        .grid = own->grid,
    };
}

/* False when reported. */
static bool check_sensors(const struct option_check *check, struct analysis_options *options,
                          const struct point *sensors)
{
    struct location_options *own = options->own;
    const uint32_t channels = options->stream.channels;
    struct problem problem;
    if (own->sensors.count != channels) {
        option_error(check, "sensors",
                     "%u sensors for the %u channels of stream %s: write a point for each "
                     "channel, none for one without a sensor",
                     own->sensors.count, channels, options->stream.name);
        return false;
    }
    uint32_t coordinates = 0;
    for (uint32_t c = 0; c < channels; c++) {
        if (sensors[c].coordinates == 0)
            continue;
        if (coordinates != 0 && sensors[c].coordinates != coordinates) {
            option_error(check, "sensors",
                         "the sensor of channel %u has %u coordinate%s, one before it has %u: "
                         "write x and y for each on a plate, x alone for each on a line",
                         c + 1, sensors[c].coordinates, sensors[c].coordinates == 1 ? "" : "s",
                         coordinates);
            return false;
        }
        coordinates = sensors[c].coordinates;
    }
    own->plane = coordinates == 2;
    if (locator_layout(sensors, channels, own->plane, &problem) != 0) {
        option_error(check, "sensors", "%s", problem.text);
        return false;
    }
    return true;
}

static void default_extent(struct location_options *own, const struct point *sensors,
                           uint32_t channels)
{
    struct point low = {INFINITY, INFINITY, 2}, high = {-INFINITY, -INFINITY, 2};
    for (uint32_t c = 0; c < channels; c++) {
        if (sensors[c].coordinates == 0)
            continue;
        low.x_m = fmin(low.x_m, sensors[c].x_m);
        low.y_m = fmin(low.y_m, sensors[c].y_m);
        high.x_m = fmax(high.x_m, sensors[c].x_m);
        high.y_m = fmax(high.y_m, sensors[c].y_m);
    }
    const double more = 0.1 * fmax(high.x_m - low.x_m, high.y_m - low.y_m);
    const double more_y = own->plane ? more : 0;
    own->low = (struct point){low.x_m - more, low.y_m - more_y, 2};
    own->high = (struct point){high.x_m + more, high.y_m + more_y, 2};
}

static void check_extent(const struct option_check *check, struct location_options *own,
                         const struct point *sensors, uint32_t channels)
{
    default_extent(own, sensors, channels);
    if (own->extent.count == 0)
        return;
    if (own->extent.count != 2) {
        option_error(check, "extent",
                     "`extent` has %u point%s; write two opposite corners, such as 0 0, 500 mm "
                     "400 mm",
                     own->extent.count, own->extent.count == 1 ? "" : "s");
        return;
    }
    const struct point a = point_of(&own->extent.values[0]), b = point_of(&own->extent.values[1]);
    const uint32_t coordinates = own->plane ? 2 : 1;
    if (a.coordinates != coordinates || b.coordinates != coordinates) {
        option_error(check, "extent", "the sensors have %u coordinate%s each; write `extent` so",
                     coordinates, coordinates == 1 ? "" : "s");
        return;
    }
    own->low = (struct point){fmin(a.x_m, b.x_m), fmin(a.y_m, b.y_m), 2};
    own->high = (struct point){fmax(a.x_m, b.x_m), fmax(a.y_m, b.y_m), 2};
    if (own->low.x_m == own->high.x_m || (own->plane && own->low.y_m == own->high.y_m))
        option_error(check, "extent",
                     "`extent` is empty: its corners differ in one direction "
                     "only");
}

static void check_times(const struct option_check *check, struct analysis_options *options,
                        const struct point *sensors)
{
    struct location_options *own = options->own;
    const double rate = options->stream.rate_hz;
    const double longest = locator_span(sensors, options->stream.channels) / own->velocity_m_s;
    own->max_dt_frames = (uint64_t)fmin(1e12, fmax(1, ceil(1.05 * longest * rate)));
    if (own->max_dt != NULL &&
        option_frames(check, &location_rows[ROW_MAX_DT], own->max_dt, rate, &own->max_dt_frames) &&
        (double)own->max_dt_frames < longest * rate) {
        char text[40];
        option_warning(check, "max dt",
                       "a wave takes %s from one sensor to the farthest: with a shorter `max dt` "
                       "some sources are not located",
                       quantity_print(DIMENSION_TIME, longest, text, sizeof text));
    }
    own->silence_frames = own->max_dt_frames;
    if (own->silence != NULL)
        option_frames(check, &location_rows[ROW_SILENCE], own->silence, rate, &own->silence_frames);
    /* An onset behind a filter of bandwidth B rises within 1/B. */
    own->sigma_t_s = 1 / rate;
    if (options->stream.bandwidth_hz > 0)
        own->sigma_t_s = fmax(own->sigma_t_s, 0.5 / options->stream.bandwidth_hz);
    if (own->sigma_t == NULL)
        return;
    own->sigma_t_s = own->sigma_t->number / (own->sigma_t->dimension == DIMENSION_TIME ? 1 : rate);
    if (!(own->sigma_t_s > 0))
        option_error(check, "timing error", "`timing error` must be above 0; write 1 frame");
}

static void check_hits(const struct option_check *check, struct analysis_options *options,
                       const struct point *sensors)
{
    struct location_options *own = options->own;
    const uint32_t least = own->plane ? 3 : 2;
    own->least_hits = own->least != NULL ? (uint32_t)own->least->integer : least;
    uint32_t present = 0;
    for (uint32_t c = 0; c < options->stream.channels; c++)
        present += sensors[c].coordinates > 0;
    own->field_count =
        source_fields(own->fields, present < SOURCE_HITS_MAX ? present : SOURCE_HITS_MAX);
    if (own->least_hits < least)
        option_error(check, "least hits", "a place on a plate needs 3 hits; write at least 3");
    else if (own->least_hits > present)
        option_error(check, "least hits", "there are %u sensors; write at most %u", present,
                     present);
    if (own->kaiser && options->parameter_count == 0)
        option_warning(
            check, "kaiser",
            "`kaiser` marks nothing: the hits carry no load; write `parameters = load N` "
            "in their analysis, N the channel of the load");
    if (option_given(check, "load drop") && !own->kaiser)
        option_error(check, "load drop",
                     "`load drop` belongs to `kaiser = yes`; write that, or remove it");
}

void location_check(const struct option_check *check, struct analysis_options *options)
{
    const uint32_t channels = options->stream.channels;
    struct location_options *own = options->own;
    struct point *sensors = calloc(channels, sizeof *sensors);
    if (sensors == NULL) {
        option_error(check, "sensors", "out of memory");
        return;
    }
    location_sensors(own, channels, sensors);
    if (own->sensors.count > 0 && own->velocity_m_s > 0 && check_sensors(check, options, sensors)) {
        check_extent(check, own, sensors, channels);
        check_times(check, options, sensors);
        check_hits(check, options, sensors);
    }
    free(sensors);
}

struct json_t *location_describe(const struct analysis_options *options)
{
    const struct location_options *own = options->own;
    json_t *sensors = json_array();
    for (unsigned c = 0; c < own->sensors.count; c++) {
        const struct point point = point_of(&own->sensors.values[c]);
        json_array_append_new(
            sensors, point.coordinates > 0 ? json_pack("[ff]", point.x_m, point.y_m) : json_null());
    }
    return json_pack("{s:o, s:[ffff], s:f, s:b, s:I}", "sensors", sensors, "extent", own->low.x_m,
                     own->low.y_m, own->high.x_m, own->high.y_m, "velocity", own->velocity_m_s,
                     "plane", own->plane, "max_dt_frames", (json_int_t)own->max_dt_frames);
}

void location_report(const struct analysis_options *options, FILE *out)
{
    const struct location_options *own = options->own;
    const double rate = options->stream.rate_hz;
    char width[40], height[40], velocity[40], dt[40], error[40];
    fprintf(out, "on a %s of %s", own->plane ? "plate" : "line",
            quantity_print(DIMENSION_LENGTH, own->high.x_m - own->low.x_m, width, sizeof width));
    if (own->plane)
        fprintf(
            out, " x %s",
            quantity_print(DIMENSION_LENGTH, own->high.y_m - own->low.y_m, height, sizeof height));
    fprintf(out, ", %s, at least %u hits within %s\n",
            quantity_print(DIMENSION_VELOCITY, own->velocity_m_s, velocity, sizeof velocity),
            own->least_hits,
            quantity_print(DIMENSION_TIME, (double)own->max_dt_frames / rate, dt, sizeof dt));
    fprintf(
        out, "%19stiming error %s: %s of way\n", "",
        quantity_print(DIMENSION_TIME, own->sigma_t_s, dt, sizeof dt),
        quantity_print(DIMENSION_LENGTH, own->sigma_t_s * own->velocity_m_s, error, sizeof error));
}
