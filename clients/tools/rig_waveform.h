/*
 * What a rig's options say of a generated signal, and the waveform that they describe: the
 * defaults of its kind, and what is given in their place.
 *
 * Pure functions.
 */
#ifndef CONVOLV_TOOLS_RIG_WAVEFORM_H
#define CONVOLV_TOOLS_RIG_WAVEFORM_H

#include <stdint.h>

#include "core/error.h"
#include "signal/waveform.h"

/* Angles in degrees; NaN: not given. */
struct rig_waveform {
    const char *kind;
    double amplitude, frequency, frequency_end, length, cycles, period, phase, channel_phase;
    double channel_delay, channel_delay_frames, offset, noise, arrivals, rise, decay, taper;
    const char *window; /* NULL: not given */
};

/* Sets every number to "not given". */
void rig_waveform_defaults(struct rig_waveform *waveform);

/* Returns 0, or ERROR_ARGUMENT with a sentence that names the option. */
int rig_waveform_spec(const struct rig_waveform *waveform, double rate_hz, uint32_t channels,
                      uint64_t seed, struct waveform_spec *spec, struct problem *problem);

#endif
