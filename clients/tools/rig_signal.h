/*
 * What a rig sends: a recording (libsndfile) or a generated signal, as normalised samples by frame.
 *
 * One owner.
 */
#ifndef CONVOLV_TOOLS_RIG_SIGNAL_H
#define CONVOLV_TOOLS_RIG_SIGNAL_H

#include <stdint.h>

#include "core/error.h"
#include "signal/waveform.h"

struct rig_signal;

/* Samples are divided by full_scale, so that an amplitude of full_scale is code 1.0. */
int rig_signal_generate(const struct waveform_spec *spec, double full_scale,
                        struct rig_signal **out, struct problem *problem);

/* A recording, `repeat` times over (0: without end). Integer files hold fractions of full scale
 * already: 1. */
int rig_signal_load(const char *path, double full_scale, uint64_t repeat, struct rig_signal **out,
                    struct problem *problem);
void rig_signal_close(struct rig_signal *signal); /* NULL is fine */

uint32_t rig_signal_channels(const struct rig_signal *signal);
double rig_signal_rate_hz(const struct rig_signal *signal);

/* The next `frames` frames, interleaved; fewer only at the end of a recording. */
uint64_t rig_signal_read(struct rig_signal *signal, uint64_t frames, double *values);

/* Writes where and when the acoustic emissions of the first `frames` frames come from, in order, as
 * lines of CSV: frame (at the source, with its fraction), x_mm, y_mm, amplitude. ERROR_ARGUMENT
 * when the signal has no plate. */
int rig_signal_write_emissions(const struct rig_signal *signal, const char *path, uint64_t frames,
                               struct problem *problem);

#endif
