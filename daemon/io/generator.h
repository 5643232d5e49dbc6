/* Options of the source `generator` (generator.c): as written, and the waveform they make. */
#ifndef CONVOLVD_IO_GENERATOR_H
#define CONVOLVD_IO_GENERATOR_H

#include "core/option.h"
#include "signal/waveform.h"

struct generator_options {
    /* as written; NULL: a rule of the waveform */
    enum waveform_kind kind;
    const struct option_value *amplitude, *frequency, *frequency_end, *length, *period, *phase,
        *channel_phase, *channel_delay, *dc, *noise, *arrivals, *rise, *decay, *duration, *cycles,
        *window, *velocity;
    struct option_values sensors, sources, extent; /* points; none: no plate */
    bool spreading;
    double taper;
    uint64_t seed;
    /* set by the check, and all that open reads */
    struct waveform_spec waveform; /* amplitudes in the unit of the scales */
    uint64_t length_frames;        /* 0: endless */
};

#endif
