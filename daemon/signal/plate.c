/* Plates: see plate.h. */
#include "signal/plate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct plate {
    struct plate_spec spec;
    struct point low, high;
    struct point points[]; /* sensors, then sources */
};

static double distance(struct point a, struct point b)
{
    return hypot(a.x_m - b.x_m, a.y_m - b.y_m);
}

static void extend(struct plate *plate, struct point point)
{
    if (point.coordinates == 0)
        return;
    plate->low.x_m = fmin(plate->low.x_m, point.x_m);
    plate->low.y_m = fmin(plate->low.y_m, point.y_m);
    plate->high.x_m = fmax(plate->high.x_m, point.x_m);
    plate->high.y_m = fmax(plate->high.y_m, point.y_m);
}

/* All points have as many coordinates as the first sensor. */
static int check_points(const char *key, const struct point *points, uint32_t count,
                        uint32_t coordinates, bool absent, struct problem *problem)
{
    for (uint32_t i = 0; i < count; i++)
        if (points[i].coordinates != coordinates && !(absent && points[i].coordinates == 0))
            return problem_set(problem, ERROR_ARGUMENT,
                               "%s: point %u has %u coordinate%s, the sensors have %u", key, i + 1,
                               points[i].coordinates, points[i].coordinates == 1 ? "" : "s",
                               coordinates);
    return 0;
}

static int check(const struct plate_spec *spec, uint32_t channels, struct problem *problem)
{
    if (spec->sensor_count != channels)
        return problem_set(problem, ERROR_ARGUMENT,
                           "sensors: %u for %u channels; give a point for each, none for a "
                           "channel without a sensor",
                           spec->sensor_count, channels);
    if (!(isfinite(spec->velocity_m_s) && spec->velocity_m_s > 0))
        return problem_set(problem, ERROR_ARGUMENT,
                           "velocity: sensors need one above 0, such as 5000 m/s");
    uint32_t coordinates = 0;
    for (uint32_t i = 0; i < channels && coordinates == 0; i++)
        coordinates = spec->sensors[i].coordinates;
    if (coordinates == 0)
        return problem_set(problem, ERROR_ARGUMENT, "sensors: no channel has one");
    int status = check_points("sensors", spec->sensors, channels, coordinates, true, problem);
    if (status == 0)
        status =
            check_points("sources", spec->sources, spec->source_count, coordinates, false, problem);
    if (status == 0 && spec->extent != NULL)
        status = check_points("extent", spec->extent, 2, coordinates, false, problem);
    return status;
}

int plate_create(const struct plate_spec *spec, uint32_t channels, struct plate **out,
                 struct problem *problem)
{
    int status = check(spec, channels, problem);
    if (status != 0)
        return status;
    const size_t sensors = spec->sensor_count, sources = spec->source_count;
    struct plate *plate = malloc(sizeof *plate + (sensors + sources) * sizeof(struct point));
    if (plate == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for a plate");
    plate->spec = *spec;
    memcpy(plate->points, spec->sensors, sensors * sizeof(struct point));
    if (sources > 0)
        memcpy(plate->points + sensors, spec->sources, sources * sizeof(struct point));
    plate->spec.sensors = plate->points;
    plate->spec.sources = plate->points + sensors;
    plate->spec.extent = NULL;
    plate->low = (struct point){INFINITY, INFINITY, 2};
    plate->high = (struct point){-INFINITY, -INFINITY, 2};
    for (size_t i = 0; spec->extent == NULL && i < sensors; i++)
        extend(plate, spec->sensors[i]);
    for (size_t i = 0; spec->extent != NULL && i < 2; i++)
        extend(plate, spec->extent[i]);
    *out = plate;
    return 0;
}

void plate_free(struct plate *plate)
{
    free(plate);
}

struct point plate_source(const struct plate *plate, double u, double v)
{
    if (plate->spec.source_count > 0)
        return plate->spec.sources[(uint32_t)(u * plate->spec.source_count)];
    return (struct point){plate->low.x_m + u * (plate->high.x_m - plate->low.x_m),
                          plate->low.y_m + v * (plate->high.y_m - plate->low.y_m), 2};
}

double plate_travel_s(const struct plate *plate, uint32_t channel, struct point source)
{
    return distance(plate->spec.sensors[channel], source) / plate->spec.velocity_m_s;
}

double plate_gain(const struct plate *plate, uint32_t channel, struct point source)
{
    if (plate->spec.sensors[channel].coordinates == 0)
        return 0;
    const double way = distance(plate->spec.sensors[channel], source);
    return plate->spec.spreading && way > PLATE_REFERENCE_M ? sqrt(PLATE_REFERENCE_M / way) : 1;
}

double plate_reach_s(const struct plate *plate)
{
    const struct point corners[] = {plate->low,
                                    plate->high,
                                    {plate->low.x_m, plate->high.y_m, 2},
                                    {plate->high.x_m, plate->low.y_m, 2}};
    const struct point *from = corners;
    uint32_t count = 4;
    if (plate->spec.source_count > 0) {
        from = plate->spec.sources;
        count = plate->spec.source_count;
    }
    double reach = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t c = 0; c < plate->spec.sensor_count; c++)
            if (plate->spec.sensors[c].coordinates > 0)
                reach = fmax(reach, plate_travel_s(plate, c, from[i]));
    return reach;
}
