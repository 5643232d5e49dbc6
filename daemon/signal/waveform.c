/*
 * Test signals: see waveform.h. An immutable object and pure functions; any thread.
 *
 * Everything is a function of (specification, frame, channel):
 *   - a sine's phase is frame · increment in turns, a 64-bit fraction that wraps exactly, so
 *     that it is as right after a week at 10 MHz as at the start;
 *   - repeated signals reduce the frame number modulo the period first, then compute in the
 *     small remainder;
 *   - noise draws number 2n and 2n+1 of the channel's sequence belong to frame n: splitmix64
 *     is a counter, so any draw can be had without those before it;
 *   - acoustic emission cuts time into slots; a slot's number seeds its arrivals, and a frame
 *     sums the arrivals of all slots that reach it, always in the same order.
 */
#include "signal/waveform.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"

#define PI 3.14159265358979323846

enum { AE_ARRIVALS_MAX = 32 }; /* per slot, mean 1: beyond it lies 1e-36 of the distribution */

/* A decaying burst is cut 14 time constants after its peak: 122 dB down. */
#define AE_DECAYS 14.0

/* What a kind reads of its specification, beyond amplitude and offset. */
/* clang-format off */
static const struct kind_row {
    const char *name;
    bool frequency, frequency_end, length, arrivals;
    struct waveform_spec defaults;
} kinds[] = {
    [WAVEFORM_SINE] = {"sine", true, false, false, false, {.frequency_hz = 1e3}},
    [WAVEFORM_CHIRP] = {"chirp", true, true, true, false,
                        {.frequency_hz = 1e3, .frequency_end_hz = 10e3, .length_s = 1.0,
                         .taper = 0.25, .period_s = 1.0}},
    [WAVEFORM_NOISE] = {"noise", false, false, false, false, {.amplitude = 0.1}},
    [WAVEFORM_IMPULSES] = {"impulses", false, false, false, false, {.period_s = 10e-3}},
    [WAVEFORM_DC] = {"dc", false, false, false, false, {.amplitude = 0.5}},
    [WAVEFORM_BURST_RECT] = {"burst-rect", true, false, true, false,
                             {.frequency_hz = 150e3, .length_s = 100e-6, .period_s = 10e-3}},
    [WAVEFORM_BURST_TRIANGLE] = {"burst-triangle", true, false, true, false,
                                 {.frequency_hz = 150e3, .length_s = 100e-6, .period_s = 10e-3}},
    [WAVEFORM_BURST_SINE2] = {"burst-sine2", true, false, true, false,
                              {.frequency_hz = 150e3, .length_s = 100e-6, .period_s = 10e-3}},
    [WAVEFORM_AE] = {"ae", true, false, false, true,
                     {.frequency_hz = 150e3, .arrivals_per_s = 20.0, .rise_s = 20e-6,
                      .decay_s = 100e-6}},
    [WAVEFORM_COUNTER] = {"counter", false, false, false, false, {.amplitude = 1.0}},
    [WAVEFORM_TONE_BURST] = {"tone-burst", true, false, true, false,
                             {.frequency_hz = 100e3, .cycles = 5, .window = PULSE_WINDOW_HANN,
                              .taper = 0.25, .period_s = 10e-3}},
};
/* clang-format on */

enum { KINDS = sizeof kinds / sizeof kinds[0] };

struct waveform {
    struct waveform_spec spec;
    double frequency;      /* cycles per frame */
    double sweep;          /* chirp: cycles per frame, per frame */
    double length;         /* frames */
    double window;         /* frames from the window's beginning to its end */
    long double period;    /* frames, 0: once */
    uint64_t period_whole; /* the same when it is a whole number of frames, else 0 */
    double delay;          /* frames per channel number */
    bool delay_whole;
    uint64_t turn;       /* sine: phase step per frame, 2^-64 turns */
    double rise, decay;  /* frames */
    uint64_t slot;       /* AE: frames of a slot */
    double slot_none;    /* AE: exp(-mean arrivals of a slot) */
    double reach;        /* AE: frames from an arrival's instant to the end of its last channel */
    struct plate *plate; /* AE: NULL without one */
};

void waveform_defaults(struct waveform_spec *spec, enum waveform_kind kind)
{
    assert((unsigned)kind < KINDS);
    *spec = kinds[kind].defaults;
    spec->kind = kind;
    spec->seed = 1;
    if (spec->amplitude == 0.0)
        spec->amplitude = 0.5;
}

int waveform_kind_parse(const char *name, enum waveform_kind *kind)
{
    for (unsigned i = 0; i < KINDS; i++) {
        if (strcmp(name, kinds[i].name) == 0) {
            *kind = (enum waveform_kind)i;
            return 0;
        }
    }
    return ERROR_ARGUMENT;
}

const char *waveform_kind_name(enum waveform_kind kind)
{
    return (unsigned)kind < KINDS ? kinds[kind].name : "?";
}

/* ---- creation ---------------------------------------------------------------------------- */

static int frequency_check(const char *what, double frequency_hz, double rate_hz,
                           struct problem *problem)
{
    if (isfinite(frequency_hz) && frequency_hz > 0.0 && frequency_hz < rate_hz / 2)
        return 0;
    return problem_set(problem, ERROR_ARGUMENT,
                       "%s %g Hz does not fit a rate of %g Hz: give one above 0 and below %g Hz, "
                       "half the rate",
                       what, frequency_hz, rate_hz, rate_hz / 2);
}

/* Of a chirp or burst. */
static double length_s(const struct waveform_spec *spec)
{
    return spec->kind == WAVEFORM_TONE_BURST ? spec->cycles / spec->frequency_hz : spec->length_s;
}

static int pulse_check(const struct waveform_spec *spec, struct problem *problem)
{
    const char *name = kinds[spec->kind].name;
    if (spec->kind == WAVEFORM_TONE_BURST && !(isfinite(spec->cycles) && spec->cycles > 0.0))
        return problem_set(problem, ERROR_ARGUMENT, "cycles %g of a %s: give a number above 0",
                           spec->cycles, name);
    if (!(isfinite(length_s(spec)) && length_s(spec) > 0.0))
        return problem_set(problem, ERROR_ARGUMENT, "length %g s of a %s: give one above 0",
                           spec->length_s, name);
    if (spec->period_s > 0.0 && spec->period_s < length_s(spec))
        return problem_set(problem, ERROR_ARGUMENT,
                           "period %g s is shorter than the %s itself: give at least its "
                           "length, %g s, or 0 for once",
                           spec->period_s, name, length_s(spec));
    if ((unsigned)spec->window >= PULSE_WINDOWS || !(spec->taper >= 0.0 && spec->taper <= 1.0))
        return problem_set(problem, ERROR_ARGUMENT, "taper %g of a %s: give a fraction of 0 to 1",
                           spec->taper, name);
    return 0;
}

static int spec_check(const struct waveform_spec *spec, struct problem *problem)
{
    if ((unsigned)spec->kind >= KINDS)
        return problem_set(problem, ERROR_ARGUMENT, "waveform kind %d is not known", spec->kind);
    const struct kind_row *row = &kinds[spec->kind];
    if (!(isfinite(spec->rate_hz) && spec->rate_hz > 0.0))
        return problem_set(problem, ERROR_ARGUMENT, "rate %g Hz: give one above 0", spec->rate_hz);
    if (spec->channels < 1 || spec->channels > 1024)
        return problem_set(problem, ERROR_ARGUMENT, "%u channels: give 1 to 1024", spec->channels);

    const struct {
        const char *name;
        double value;
        double minimum;
    } values[] = {
        {"amplitude", spec->amplitude, -HUGE_VAL},
        {"offset", spec->offset, -HUGE_VAL},
        {"phase", spec->phase_rad, -HUGE_VAL},
        {"channel phase", spec->channel_phase_rad, -HUGE_VAL},
        {"noise", spec->noise, 0.0},
        {"period", spec->period_s, 0.0},
        {"channel delay", spec->channel_delay_s, 0.0},
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        if (!isfinite(values[i].value) || values[i].value < values[i].minimum)
            return problem_set(problem, ERROR_ARGUMENT, "%s %g of a %s: give a finite number%s",
                               values[i].name, values[i].value, row->name,
                               values[i].minimum == 0.0 ? " of at least 0" : "");
    }
    if (spec->period_s > 0.0 && spec->period_s * spec->rate_hz < 1.0)
        return problem_set(problem, ERROR_ARGUMENT,
                           "period %g s is shorter than one frame at %g Hz: give at least %g s",
                           spec->period_s, spec->rate_hz, 1.0 / spec->rate_hz);
    if (spec->channel_delay_s * spec->rate_hz * spec->channels > 0x1p40)
        return problem_set(problem, ERROR_ARGUMENT, "channel delay %g s is too long",
                           spec->channel_delay_s);

    int status = 0;
    if (row->frequency)
        status = frequency_check("frequency", spec->frequency_hz, spec->rate_hz, problem);
    if (status == 0 && row->frequency_end && spec->frequency_end_hz != 0)
        status = frequency_check("end frequency", spec->frequency_end_hz, spec->rate_hz, problem);
    if (status != 0)
        return status;
    status = row->length ? pulse_check(spec, problem) : 0;
    if (status != 0)
        return status;
    if (row->arrivals) {
        if (!(isfinite(spec->arrivals_per_s) && spec->arrivals_per_s > 0.0 &&
              spec->arrivals_per_s <= spec->rate_hz))
            return problem_set(problem, ERROR_ARGUMENT,
                               "%g arrivals per second: give more than 0 and at most one a frame "
                               "(%g)",
                               spec->arrivals_per_s, spec->rate_hz);
        if (!(isfinite(spec->rise_s) && spec->rise_s >= 0.0 && isfinite(spec->decay_s) &&
              spec->decay_s > 0.0))
            return problem_set(problem, ERROR_ARGUMENT,
                               "rise %g s, decay %g s: give a rise of at least 0 and a decay "
                               "above 0",
                               spec->rise_s, spec->decay_s);
        double reach_s =
            spec->rise_s + AE_DECAYS * spec->decay_s + spec->channel_delay_s * (spec->channels - 1);
        if (spec->plate != NULL && spec->channel_delay_s > 0)
            return problem_set(problem, ERROR_ARGUMENT,
                               "channel delay: the sensors' places and the velocity give the "
                               "delays; leave it out");
        if (spec->arrivals_per_s * reach_s > 1e4)
            return problem_set(problem, ERROR_ARGUMENT,
                               "%g arrivals per second with bursts of %g s: more than 10000 would "
                               "sound at once; give fewer arrivals or a shorter decay",
                               spec->arrivals_per_s, reach_s);
    }
    return 0;
}

/* 0.01 s at 500 kHz means 5000 frames, whatever the product's last bit says. */
static double near_whole(double frames)
{
    double whole = nearbyint(frames);
    return fabs(frames - whole) <= 1e-9 * fmax(1.0, frames) ? whole : frames;
}

int waveform_create(const struct waveform_spec *spec, struct waveform **out,
                    struct problem *problem)
{
    int status = spec_check(spec, problem);
    if (status != 0)
        return status;
    struct waveform *w = calloc(1, sizeof *w);
    if (w == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for a waveform");
    w->spec = *spec;
    const struct kind_row *row = &kinds[spec->kind];
    if (row->frequency) {
        long double turns = (long double)spec->frequency_hz / (long double)spec->rate_hz;
        w->frequency = (double)turns;
        w->turn = (uint64_t)(turns * 0x1p64L);
    }
    if (row->length)
        w->length = near_whole(length_s(spec) * spec->rate_hz);
    w->window = spec->kind == WAVEFORM_CHIRP ? fmax(1.0, ceil(w->length) - 1.0) : w->length;
    if (row->frequency_end)
        w->sweep = (spec->frequency_end_hz - spec->frequency_hz) / spec->rate_hz / w->length;
    double period = near_whole(spec->period_s * spec->rate_hz);
    w->period = period;
    if (period == nearbyint(period) && period < 0x1p63)
        w->period_whole = (uint64_t)period;
    w->delay = near_whole(spec->channel_delay_s * spec->rate_hz);
    if (spec->kind == WAVEFORM_IMPULSES)
        w->delay = nearbyint(w->delay);
    w->delay_whole = w->delay == nearbyint(w->delay);
    if (row->arrivals) {
        w->rise = spec->rise_s * spec->rate_hz;
        w->decay = spec->decay_s * spec->rate_hz;
        double slot = nearbyint(spec->rate_hz / spec->arrivals_per_s);
        w->slot = slot < 1.0 ? 1 : slot > 0x1p40 ? UINT64_C(1) << 40 : (uint64_t)slot;
        w->slot_none = exp(-spec->arrivals_per_s * (double)w->slot / spec->rate_hz);
        w->reach = w->rise + AE_DECAYS * w->decay + w->delay * (spec->channels - 1);
    }
    w->spec.plate = NULL;
    if (row->arrivals && spec->plate != NULL) {
        status = plate_create(spec->plate, spec->channels, &w->plate, problem);
        if (status != 0) {
            waveform_free(w);
            return status;
        }
        w->reach += plate_reach_s(w->plate) * spec->rate_hz;
    }
    *out = w;
    return 0;
}

void waveform_free(struct waveform *waveform)
{
    if (waveform != NULL)
        plate_free(waveform->plate);
    free(waveform);
}

bool waveform_excitation(const struct waveform *waveform, struct waveform_excitation *excitation)
{
    const struct waveform *w = waveform;
    if (!kinds[w->spec.kind].length && w->spec.kind != WAVEFORM_IMPULSES)
        return false;
    *excitation = (struct waveform_excitation){w->length, (double)w->period};
    return true;
}

/* ---- random numbers by place ------------------------------------------------------------- */

/* A state far from those of every other (seed, purpose, number). */
static struct random_state random_place(uint64_t seed, uint64_t purpose, uint64_t number)
{
    struct random_state r = {seed};
    r.state = random_u64(&r) ^ purpose;
    r.state = random_u64(&r) ^ number;
    r.state = random_u64(&r);
    return r;
}

enum { PURPOSE_NOISE = 1, PURPOSE_ADDED_NOISE = 2, PURPOSE_ARRIVALS = 3 };

static void add_noise(const struct waveform *w, uint64_t purpose, double sigma, uint64_t first,
                      uint32_t frames, double *values)
{
    uint32_t channels = w->spec.channels;
    for (uint32_t c = 0; c < channels; c++) {
        struct random_state r = random_place(w->spec.seed, purpose, c);
        r.state += 2 * first * UINT64_C(0x9E3779B97F4A7C15); /* two draws a frame */
        for (uint32_t i = 0; i < frames; i++)
            values[(size_t)i * channels + c] += sigma * random_normal(&r);
    }
}

/* ---- repeated signals -------------------------------------------------------------------- */

/* Frames since the latest repetition began on this channel; negative before the first, and
 * beyond any length when the signal comes once and long ago. */
static double repetition_time(const struct waveform *w, uint64_t frame, uint32_t channel)
{
    double delay = w->delay * channel;
    if (w->delay_whole && (w->period_whole > 0 || w->period == 0.0L)) {
        uint64_t behind = (uint64_t)delay;
        if (frame < behind)
            return -1.0;
        uint64_t since = frame - behind;
        return (double)(w->period_whole > 0 ? since % w->period_whole : since);
    }
    long double since = (long double)frame - (long double)delay;
    if (since < 0.0L)
        return -1.0;
    return (double)(w->period > 0.0L ? fmodl(since, w->period) : since);
}

static double envelope(const struct waveform *w, double t)
{
    const double place = t / w->length;
    switch (w->spec.kind) {
    case WAVEFORM_CHIRP:
    case WAVEFORM_TONE_BURST:
        return pulse_window_value(w->spec.window, w->spec.taper, t / w->window);
    case WAVEFORM_BURST_TRIANGLE:
        return 1.0 - fabs(2.0 * place - 1.0);
    case WAVEFORM_BURST_SINE2: {
        double s = sin(PI * place);
        return s * s;
    }
    default:
        return 1.0;
    }
}

static double repeated_value(const struct waveform *w, uint64_t frame, uint32_t channel)
{
    double t = repetition_time(w, frame, channel);
    if (t < 0.0)
        return 0.0;
    if (w->spec.kind == WAVEFORM_IMPULSES)
        return t < 1.0 ? w->spec.amplitude : 0.0;
    if (t >= w->length)
        return 0.0;
    double turns = (w->frequency + 0.5 * w->sweep * t) * t;
    return w->spec.amplitude * envelope(w, t) *
           sin(2.0 * PI * (turns - floor(turns)) + w->spec.phase_rad);
}

/* ---- acoustic emission ------------------------------------------------------------------- */

struct arrival {
    double instant;     /* frames after the slot's start, at the source's position */
    double position;    /* of the source on the line of sensors, in sensor spacings */
    double amplitude;   /* peak */
    struct point place; /* of the source on a plate */
};

/* Poisson by counting exponential gaps (Knuth), then each arrival's place and size. */
static unsigned slot_arrivals(const struct waveform *w, uint64_t slot,
                              struct arrival arrivals[AE_ARRIVALS_MAX])
{
    struct random_state r = random_place(w->spec.seed, PURPOSE_ARRIVALS, slot);
    unsigned count = 0;
    for (double product = random_unit(&r); product > w->slot_none && count < AE_ARRIVALS_MAX;
         product *= random_unit(&r))
        count++;
    for (unsigned i = 0; i < count; i++) {
        arrivals[i].instant = random_unit(&r) * (double)w->slot;
        const double along = random_unit(&r);
        arrivals[i].position = along * (w->spec.channels - 1);
        /* Uniform in decibels over 20 dB below the amplitude. */
        arrivals[i].amplitude = w->spec.amplitude * pow(10.0, -random_unit(&r));
        if (w->plate != NULL)
            arrivals[i].place = plate_source(w->plate, along, random_unit(&r));
    }
    return count;
}

/* Frames from the source to the sensor. */
static double travel_to(const struct waveform *w, const struct arrival *arrival, uint32_t channel)
{
    if (w->plate != NULL)
        return plate_travel_s(w->plate, channel, arrival->place) * w->spec.rate_hz;
    return w->delay * fabs((double)channel - arrival->position);
}

static double amplitude_at(const struct waveform *w, const struct arrival *arrival,
                           uint32_t channel)
{
    if (w->plate == NULL)
        return arrival->amplitude;
    return arrival->amplitude * plate_gain(w->plate, channel, arrival->place);
}

uint32_t waveform_emissions(const struct waveform *waveform, uint64_t first, uint32_t frames,
                            struct waveform_emission *out, uint32_t capacity)
{
    const struct waveform *w = waveform;
    uint32_t count = 0;
    if (w->plate == NULL || frames == 0)
        return 0;
    for (uint64_t slot = first / w->slot; slot <= (first + frames - 1) / w->slot; slot++) {
        struct arrival arrivals[AE_ARRIVALS_MAX];
        const unsigned arrived = slot_arrivals(w, slot, arrivals);
        for (unsigned i = 0; i < arrived; i++) {
            const double frame = (double)(slot * w->slot) + arrivals[i].instant;
            if (frame < (double)first || frame >= (double)(first + frames))
                continue;
            if (count < capacity)
                out[count] =
                    (struct waveform_emission){frame, arrivals[i].place, arrivals[i].amplitude};
            count++;
        }
    }
    return count;
}

/*
 * Adds one channel's view of an arrival. `offset` frames lie between the slot's start and the
 * piece; the burst reaches the sensor `reached` frames after the slot's start. A frame's time
 * is (frame - slot start) - reached, a whole number less one double, so that it is the same
 * in whatever piece the frame is asked for.
 */
static void add_burst(const struct waveform *w, int64_t offset, double reached, double amplitude,
                      uint32_t frames, double *values)
{
    double duration = w->rise + AE_DECAYS * w->decay;
    int64_t from = (int64_t)ceil(reached) - offset;
    for (int64_t i = from > 0 ? from : 0; i < (int64_t)frames; i++) {
        double t = (double)(offset + i) - reached;
        if (t >= duration)
            break;
        double level = t < w->rise ? t / w->rise : exp(-(t - w->rise) / w->decay);
        double turns = t * w->frequency;
        values[(size_t)i * w->spec.channels] +=
            amplitude * level * sin(2.0 * PI * (turns - floor(turns)) + w->spec.phase_rad);
    }
}

static void add_arrivals(const struct waveform *w, uint64_t first, uint32_t frames, double *values)
{
    uint64_t reach = (uint64_t)ceil(w->reach) + 1;
    uint64_t last_slot = (first + frames - 1) / w->slot;
    for (uint64_t slot = (first > reach ? first - reach : 0) / w->slot; slot <= last_slot; slot++) {
        struct arrival arrivals[AE_ARRIVALS_MAX];
        unsigned count = slot_arrivals(w, slot, arrivals);
        int64_t offset = (int64_t)(first - slot * w->slot);
        for (unsigned a = 0; a < count; a++) {
            for (uint32_t c = 0; c < w->spec.channels; c++)
                add_burst(w, offset, arrivals[a].instant + travel_to(w, &arrivals[a], c),
                          amplitude_at(w, &arrivals[a], c), frames, values + c);
        }
    }
}

/* ---- all kinds --------------------------------------------------------------------------- */

static double steady_value(const struct waveform *w, uint64_t frame, uint32_t channel)
{
    switch (w->spec.kind) {
    case WAVEFORM_SINE: {
        int64_t turns = (int64_t)(frame * w->turn); /* wraps by whole turns, exactly */
        double phase = 2.0 * PI * ldexp((double)turns, -64);
        return w->spec.amplitude *
               sin(phase + w->spec.phase_rad + channel * w->spec.channel_phase_rad);
    }
    case WAVEFORM_DC:
        return w->spec.amplitude;
    case WAVEFORM_COUNTER:
        return w->spec.amplitude * (double)(frame & 0x7FFF) / 32768.0;
    case WAVEFORM_CHIRP:
    case WAVEFORM_IMPULSES:
    case WAVEFORM_BURST_RECT:
    case WAVEFORM_BURST_TRIANGLE:
    case WAVEFORM_BURST_SINE2:
    case WAVEFORM_TONE_BURST:
        return repeated_value(w, frame, channel);
    case WAVEFORM_NOISE:
    case WAVEFORM_AE:
        break; /* added below */
    }
    return 0.0;
}

/* Whether steady_value does not depend on the channel. */
static bool steady_alike(const struct waveform *w)
{
    return w->delay == 0.0 && w->spec.channel_phase_rad == 0.0;
}

bool waveform_alike(const struct waveform *waveform)
{
    const struct waveform_spec *spec = &waveform->spec;
    return steady_alike(waveform) && spec->kind != WAVEFORM_NOISE && spec->kind != WAVEFORM_AE &&
           spec->noise == 0.0;
}

void waveform_fill(const struct waveform *waveform, uint64_t first, uint32_t frames, double *values)
{
    const struct waveform_spec *spec = &waveform->spec;
    if (frames == 0)
        return;
    const uint32_t computed = steady_alike(waveform) ? 1 : spec->channels;
    double *value = values;
    for (uint32_t i = 0; i < frames; i++, value += spec->channels) {
        for (uint32_t c = 0; c < computed; c++)
            value[c] = spec->offset + steady_value(waveform, first + i, c);
        for (uint32_t c = computed; c < spec->channels; c++)
            value[c] = value[0];
    }
    if (spec->kind == WAVEFORM_AE)
        add_arrivals(waveform, first, frames, values);
    if (spec->kind == WAVEFORM_NOISE)
        add_noise(waveform, PURPOSE_NOISE, spec->amplitude, first, frames, values);
    if (spec->noise > 0.0)
        add_noise(waveform, PURPOSE_ADDED_NOISE, spec->noise, first, frames, values);
}
