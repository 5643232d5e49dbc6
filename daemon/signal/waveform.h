/*
 * Test signals. Every sample follows from the specification, the frame number and the channel
 * alone, so frame n is the same in whatever pieces a caller computes the signal. The generator, the
 * tests and the replica of a matched filter all use it. Seeded; identical on every machine up to
 * libm's last bit.
 *
 * Pure functions over an immutable waveform object; any thread.
 */
#ifndef CONVOLVD_SIGNAL_WAVEFORM_H
#define CONVOLVD_SIGNAL_WAVEFORM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "signal/plate.h"
#include "signal/pulse_window.h"

enum waveform_kind {
    WAVEFORM_SINE,
    WAVEFORM_CHIRP,    /* linear from frequency to frequency_end over length, then repeated every
                          period */
    WAVEFORM_NOISE,    /* white, Gaussian, sigma = amplitude; independent per channel */
    WAVEFORM_IMPULSES, /* one sample of amplitude every period */
    WAVEFORM_DC,
    WAVEFORM_BURST_RECT, /* EN 13477-2: carrier with a rectangular envelope, once every period */
    WAVEFORM_BURST_TRIANGLE,
    WAVEFORM_BURST_SINE2, /* sin² envelope */
    WAVEFORM_AE,      /* acoustic emission: random arrivals, decaying bursts, per-channel delays */
    WAVEFORM_COUNTER, /* the frame number modulo 2^15, in LSB of 16 bits: tests find lost frames */
    WAVEFORM_TONE_BURST, /* w(t / T) sin(2 pi f t), T = cycles / f, once every period */
};

struct waveform_spec {
    enum waveform_kind kind;
    double rate_hz;          /* > 0 */
    uint32_t channels;       /* 1…1024 */
    double amplitude;        /* peak (noise: sigma), in the same unit as full scale */
    double frequency_hz;     /* sine, chirp start, carrier; 0 < f < rate/2 */
    double frequency_end_hz; /* chirp; 0 <= f < rate/2 */
    double length_s;         /* chirp sweep, burst duration; a tone burst's follows from cycles */
    double cycles;           /* tone burst: of the carrier; 0 < cycles */
    enum pulse_window
        window;      /* tone burst: over its duration; chirp: ends on its first and last frame */
    double taper;    /* of a Tukey window, 0 … 1 */
    double period_s; /* repetition; 0: none (once) */
    double phase_rad;
    double channel_phase_rad; /* added per channel number (sine) */
    double channel_delay_s;   /* added per channel number (bursts, impulses, chirp) */
    double offset;            /* DC added to every kind */
    double noise;             /* sigma of white noise added to every kind */
    uint64_t seed;
    /* AE model */
    double arrivals_per_s;  /* Poisson; AE */
    double rise_s, decay_s; /* burst envelope */
    /* Sensors and sources with their places; read by waveform_create only. NULL: sources lie on a
     * line of sensors, channel_delay_s apart. */
    const struct plate_spec *plate;
};

struct waveform;

/* Fills *spec with usable defaults for `kind` (the table in waveform.c); the caller sets rate and
 * channels. */
void waveform_defaults(struct waveform_spec *spec, enum waveform_kind kind);

/* "sine", "chirp", "noise", "impulses", "dc", "burst-rect", "burst-triangle", "burst-sine2", "ae",
 * "counter", "tone-burst". */
int waveform_kind_parse(const char *name, enum waveform_kind *kind);
const char *waveform_kind_name(enum waveform_kind kind);

/* 0, ERROR_MEMORY, or ERROR_ARGUMENT with a sentence that names the field at fault. */
int waveform_create(const struct waveform_spec *spec, struct waveform **out,
                    struct problem *problem);
void waveform_free(struct waveform *waveform); /* NULL is fine */

/* When what a waveform repeats begins on channel 0. */
struct waveform_excitation {
    double length_frames; /* of one pulse; 0: an impulse */
    double period_frames; /* from one to the next; 0: there is only one, at frame 0 */
};
/* False when it does not repeat a pulse that begins at frame 0 (sine, noise …). */
bool waveform_excitation(const struct waveform *waveform, struct waveform_excitation *excitation);

/* One acoustic emission on a plate: what the samples were made of. */
struct waveform_emission {
    double frame; /* at the source, with its fraction */
    struct point place;
    double amplitude; /* peak */
};
/* Writes the emissions in frames [first, first + frames) in no order, at most `capacity`; returns
 * how many there are. 0 without a plate. */
uint32_t waveform_emissions(const struct waveform *waveform, uint64_t first, uint32_t frames,
                            struct waveform_emission *out, uint32_t capacity);

/* Whether all channels have the same samples, to the bit. */
bool waveform_alike(const struct waveform *waveform);

/* values[frames][channels], frames [first, first + frames). Never allocates. */
void waveform_fill(const struct waveform *waveform, uint64_t first, uint32_t frames,
                   double *values);

#endif
