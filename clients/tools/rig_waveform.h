/*
 * What a rig's options say of a generated signal, and the waveform that they describe: the
 * defaults of its kind, and what is given in their place.
 *
 * Pure functions.
 */
#ifndef CONVOLV_TOOLS_RIG_WAVEFORM_H
#define CONVOLV_TOOLS_RIG_WAVEFORM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "signal/waveform.h"

/* Angles in degrees; NaN: not given. */
struct rig_waveform {
    const char *kind;
    double amplitude, frequency, frequency_end, length, cycles, period, phase, channel_phase;
    double channel_delay, channel_delay_frames, offset, noise, arrivals, rise, decay, taper;
    const char *window; /* NULL: not given */
    /* Points, separated by commas; NULL: not given. */
    const char *sensors, *sources, *extent;
    double velocity;
    bool spreading;
};

/* The points of a plate that a spec refers to. */
enum { RIG_POINTS_MAX = 1024 };
struct rig_plate {
    struct plate_spec spec;
    struct point sensors[RIG_POINTS_MAX], sources[RIG_POINTS_MAX], extent[2];
};

/* Sets every number to "not given". */
void rig_waveform_defaults(struct rig_waveform *waveform);

/* Returns 0, or ERROR_ARGUMENT with a sentence that names the option. `plate` holds what the spec
 * refers to. */
int rig_waveform_spec(const struct rig_waveform *waveform, double rate_hz, uint32_t channels,
                      uint64_t seed, struct waveform_spec *spec, struct rig_plate *plate,
                      struct problem *problem);

#endif
