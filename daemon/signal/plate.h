/*
 * A plate (or a line) with sensors on it and sources of acoustic emission in it: how long a wave
 * travels from a place to each sensor, and what is left of it. Straight ways at one velocity.
 *
 * Pure functions over an immutable object; any thread.
 */
#ifndef CONVOLVD_SIGNAL_PLATE_H
#define CONVOLVD_SIGNAL_PLATE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "core/point.h"

/* Read by plate_create only. */
struct plate_spec {
    const struct point *sensors; /* one a channel; without coordinates: none, it hears nothing */
    uint32_t sensor_count;
    const struct point *sources; /* where emissions come from; none: from anywhere in the extent */
    uint32_t source_count;
    const struct point *extent; /* two opposite corners; NULL: the sensors' box */
    double velocity_m_s;        /* > 0 */
    /* Amplitudes fall with the root of the way, as those of plate waves do; they are what a sensor
     * PLATE_REFERENCE_M from the source hears, and closer ones hear no more. */
    bool spreading;
};

#define PLATE_REFERENCE_M 0.1

struct plate;

/* 0, ERROR_MEMORY, or ERROR_ARGUMENT with a sentence that begins with the key at fault: sensors,
 * sources, extent or velocity. */
int plate_create(const struct plate_spec *spec, uint32_t channels, struct plate **out,
                 struct problem *problem);
void plate_free(struct plate *plate); /* NULL is fine */

/* Where an emission comes from; u and v are uniform in [0, 1). */
struct point plate_source(const struct plate *plate, double u, double v);

double plate_travel_s(const struct plate *plate, uint32_t channel, struct point source);

/* Of the amplitude, 0 … 1; 0 without a sensor. */
double plate_gain(const struct plate *plate, uint32_t channel, struct point source);

/* The longest travel there can be. */
double plate_reach_s(const struct plate *plate);

#endif
