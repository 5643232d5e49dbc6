/*
 * Velocity filters: see fk.h. The mask is a product of tapered steps in slowness and of the band in
 * frequency; what follows is one inverse transform over f a wavenumber and one direct sum over k.
 * No state; worker threads.
 */
#include "filter/fk.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/power.h"
#include "filter/kaiser.h"
#include "signal/reference.h"

#define PI 3.14159265358979323846264338328

/* Products of channels, wavenumbers and taps that a design may take: seconds. */
#define FK_WORK_MAX 2e9

/* The fan with every default filled in. */
struct fan {
    double from, until; /* slowness, from < until [s/m] */
    double taper;       /* full width of each edge [s/m] */
    double low_hz, high_hz;
    bool low_given, high_given;
    uint32_t wavenumbers; /* K */
};

static struct fan fan_of(const struct fk_spec *spec, double rate_hz)
{
    double high = spec->velocity_high != 0 ? spec->velocity_high : -spec->velocity_low;
    double a = 1 / spec->velocity_low, b = 1 / high;
    struct fan fan = {.from = fmin(a, b),
                      .until = fmax(a, b),
                      .low_hz = spec->low_hz,
                      .high_hz = spec->high_hz > 0 ? spec->high_hz : rate_hz / 2,
                      .low_given = spec->low_hz > 0,
                      .high_given = spec->high_hz > 0};
    fan.taper = spec->taper * (fan.until - fan.from);
    fan.wavenumbers = spec->channels + (spec->padding > 0 ? spec->padding : 3 * spec->channels);
    return fan;
}

static double attenuation_of(const struct fk_spec *spec)
{
    return spec->attenuation_db > 0 ? spec->attenuation_db : FK_ATTENUATION_DB;
}

double fk_transition_hz(const struct fk_spec *spec, double rate_hz)
{
    return kaiser_transition(attenuation_of(spec), spec->taps) * rate_hz;
}

/* ---- what is refused --------------------------------------------------------------------- */

static int check_numbers(const struct fk_spec *spec, struct problem *problem)
{
    if (spec->channels < FK_CHANNELS_MIN || spec->channels > FK_CHANNELS_MAX)
        return problem_set(problem, ERROR_CONFIG,
                           "type = fk needs a stream whose channels are a line array of %d to %d "
                           "sensors, this one has %u; write `channels`, or another filter",
                           FK_CHANNELS_MIN, FK_CHANNELS_MAX, spec->channels);
    if (!(spec->spacing_m > 0))
        return problem_set(problem, ERROR_CONFIG,
                           "spacing: the distance of two neighbouring sensors must be above 0; "
                           "write it, as in 5 mm");
    if (spec->velocity_low == 0)
        return problem_set(problem, ERROR_CONFIG,
                           "velocity low: no wave has the phase velocity 0; write the slowest of "
                           "the fan, as in 2000 m/s, negative where it runs towards channel 1");
    if (spec->velocity_high == spec->velocity_low)
        return problem_set(problem, ERROR_CONFIG,
                           "velocity high: the fan lies between two velocities and both are %.9g "
                           "m/s; write two that differ",
                           spec->velocity_low);
    if (!(spec->taper >= 0 && spec->taper <= 1))
        return problem_set(problem, ERROR_CONFIG, "taper: write 0 %% to 100 %%");
    if (spec->taps % 2 == 0 || spec->taps < 3 || spec->taps > FK_TAPS_MAX)
        return problem_set(
            problem, ERROR_CONFIG,
            "taps: the FIR of each wavenumber needs an odd length of 3 to %d, so that "
            "its delay is whole; write %u",
            FK_TAPS_MAX,
            spec->taps < 3             ? 3
            : spec->taps > FK_TAPS_MAX ? (unsigned)FK_TAPS_MAX
                                       : spec->taps + 1);
    if (spec->padding > 0 && spec->padding < spec->channels - 1)
        return problem_set(problem, ERROR_CONFIG,
                           "padding: %u zero channels behind %u let one end of the array wrap into "
                           "the other; write at least %u",
                           spec->padding, spec->channels, spec->channels - 1);
    if (spec->padding > FK_PADDING_MAX)
        return problem_set(problem, ERROR_CONFIG, "padding: %u is too many; write at most %d",
                           spec->padding, FK_PADDING_MAX);
    double wavenumbers =
        (double)spec->channels + (spec->padding > 0 ? spec->padding : 3 * spec->channels);
    if (wavenumbers * spec->channels * spec->taps > FK_WORK_MAX)
        return problem_set(
            problem, ERROR_CONFIG,
            "taps: %u taps at %.0f wavenumbers for %u channels take minutes to design; "
            "write at most %.0f, or less `padding`",
            spec->taps, wavenumbers, spec->channels,
            2 * floor((FK_WORK_MAX / wavenumbers / spec->channels - 1) / 2) + 1);
    return 0;
}

int fk_check(const struct fk_spec *spec, double rate_hz, struct problem *problem)
{
    int error = check_numbers(spec, problem);
    if (error != 0)
        return error;
    struct fan fan = fan_of(spec, rate_hz);
    if (fan.high_hz > rate_hz / 2)
        return problem_set(problem, ERROR_CONFIG,
                           "high: %.9g Hz is above half the rate; write at most %.9g Hz",
                           fan.high_hz, rate_hz / 2);
    double transition = fk_transition_hz(spec, rate_hz);
    if (!(fan.low_hz < fan.high_hz))
        return problem_set(
            problem, ERROR_CONFIG,
            "low: the band from %.9g to %.9g Hz is empty; write a `low` below `high`", fan.low_hz,
            fan.high_hz);
    double nyquist = 1 / (2 * spec->spacing_m);
    double edges[2] = {spec->velocity_low,
                       spec->velocity_high != 0 ? spec->velocity_high : -spec->velocity_low};
    for (int i = 0; i < 2; i++) {
        double wavenumber = fan.high_hz / fabs(edges[i]);
        if (wavenumber <= nyquist * (1 + 1e-6))
            continue;
        return problem_set(
            problem, ERROR_CONFIG,
            "velocity %s: at %.6g Hz a wave of %.6g m/s has the wavenumber %.6g per metre, beyond "
            "the spatial Nyquist 1/(2 spacing) = %.6g per metre, and would be taken for another; "
            "write a velocity of at least %.6g m/s, or %s `high = %.6g Hz` at most, or a spacing "
            "of "
            "%.4g mm",
            i == 0 || spec->velocity_high == 0 ? "low" : "high", fan.high_hz, edges[i], wavenumber,
            nyquist, copysign(fan.high_hz / nyquist, edges[i]),
            fan.high_given ? "lower" : "bound the band with", fabs(edges[i]) * nyquist,
            1e3 * fabs(edges[i]) / (2 * fan.high_hz));
    }
    if (transition > (fan.high_hz - fan.low_hz) / 2 && (fan.low_given || fan.high_given))
        return problem_set(
            problem, ERROR_CONFIG,
            "taps: %u taps smear frequencies over %.6g Hz, more than half the band from %.6g to "
            "%.6g "
            "Hz; write %.0f or more, or a wider band",
            spec->taps, transition, fan.low_hz, fan.high_hz,
            1 + 2 * ceil(kaiser_length(attenuation_of(spec),
                                       (fan.high_hz - fan.low_hz) / 2 / rate_hz) /
                         2));
    return 0;
}

/* ---- the mask ---------------------------------------------------------------------------- */

/* A step at 0 with a raised-cosine taper of the full width: 0 before, one half at 0, 1 behind. */
static double step(double x, double width)
{
    if (width <= 0)
        return x > 0 ? 1 : x < 0 ? 0 : 0.5;
    double at = fmin(fmax(x / width + 0.5, 0), 1);
    double root = sin(PI / 2 * at);
    return root * root;
}

/* What the fan holds of one wave, f >= 0; `cell_hz` is the width over which band edges count in
 * part, so that they stay where they are on a grid. */
static double fan_weight(const struct fan *fan, double f, double k, double cell_hz)
{
    double slowness = f > 0 ? k / f : 0;
    if (f == 0 && k != 0)
        return 0; /* no wave of finite slowness lies there */
    double weight =
        step(slowness - fan->from, fan->taper) * step(fan->until - slowness, fan->taper);
    if (fan->low_given)
        weight *= fmin(fmax((f - fan->low_hz) / cell_hz + 0.5, 0), 1);
    if (fan->high_given)
        weight *= fmin(fmax((fan->high_hz - f) / cell_hz + 0.5, 0), 1);
    return weight;
}

static double mask_at(const struct fk_spec *spec, const struct fan *fan, double f, double k,
                      double cell_hz)
{
    double weight = f >= 0 ? fan_weight(fan, f, k, cell_hz) : fan_weight(fan, -f, -k, cell_hz);
    return spec->reject ? 1 - weight : weight;
}

double fk_mask(const struct fk_spec *spec, double rate_hz, double frequency_hz,
               double wavenumber_per_m)
{
    struct fan fan = fan_of(spec, rate_hz);
    return mask_at(spec, &fan, frequency_hz, wavenumber_per_m, rate_hz * 1e-12);
}

/* ---- the taps ---------------------------------------------------------------------------- */

/* The FIR of wavenumber j of K: out[S] pairs, time 0 in the middle, window applied. `work` holds
 * `points` pairs. */
static int wavenumber_fir(const struct fk_spec *spec, const struct fan *fan, double rate_hz,
                          uint32_t j, uint32_t points, const double *window, double *work,
                          double *out)
{
    uint32_t wavenumbers = fan->wavenumbers;
    double k = j / (wavenumbers * spec->spacing_m), cell_hz = rate_hz / points;
    bool both = 2 * j == wavenumbers; /* +Nyquist and -Nyquist are one sample */
    for (uint32_t i = 0; i < points; i++) {
        double f = (i <= points / 2 ? (double)i : (double)i - points) * cell_hz;
        double gain = mask_at(spec, fan, f, k, cell_hz);
        if (both)
            gain = (gain + mask_at(spec, fan, f, -k, cell_hz)) / 2;
        /* half the rate stands for both signs as well */
        if (2 * i == points)
            gain = (gain + mask_at(spec, fan, -f, k, cell_hz)) / 2;
        work[2 * (size_t)i] = gain;
        work[2 * (size_t)i + 1] = 0;
    }
    if (reference_fft(work, points, 1) != 0)
        return ERROR_MEMORY;
    uint32_t middle = (spec->taps - 1) / 2;
    for (uint32_t n = 0; n < spec->taps; n++) {
        size_t at = (n + points - middle) & (points - 1); /* a power of two */
        out[2 * (size_t)n] = work[2 * at] * window[n] / points;
        out[2 * (size_t)n + 1] = work[2 * at + 1] * window[n] / points;
    }
    return 0;
}

/* h_l += the part of wavenumber j; `cosine` and `sine` hold one turn in K steps. */
static void add_wavenumber(const struct fk_spec *spec, const struct fan *fan, uint32_t j,
                           const double *fir, const double *cosine, const double *sine,
                           struct taps **sets)
{
    uint32_t wavenumbers = fan->wavenumbers, reach = spec->channels - 1;
    /* The other sign of k gives the conjugate: twice the real part. */
    double weight = (j == 0 || 2 * j == wavenumbers ? 1.0 : 2.0) / wavenumbers;
    for (uint32_t set = 0; set <= 2 * reach; set++) {
        uint64_t lag = (uint64_t)(set + wavenumbers - reach) % wavenumbers;
        uint32_t turn = (uint32_t)((uint64_t)j * lag % wavenumbers);
        double c = weight * cosine[turn], s = weight * sine[turn];
        double *h = sets[set]->re;
        for (uint32_t n = 0; n < spec->taps; n++) /* Re(g exp(-j 2 pi j l / K)) */
            h[n] += c * fir[2 * (size_t)n] + s * fir[2 * (size_t)n + 1];
    }
}

static int create_sets(const struct fk_spec *spec, struct taps ***sets, uint32_t *count,
                       struct problem *problem)
{
    *count = 2 * spec->channels - 1;
    *sets = calloc(*count, sizeof **sets);
    if (*sets == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for the taps of an array");
    int error = 0;
    for (uint32_t i = 0; error == 0 && i < *count; i++) {
        error = taps_create(spec->taps, false, &(*sets)[i], problem);
        if (error == 0) {
            (*sets)[i]->delay_frames = (spec->taps - 1) / 2.0; /* whole: S is odd */
            (*sets)[i]->delay_source = DELAY_DESIGN;
        }
    }
    return error;
}

int fk_make(const struct fk_spec *spec, double rate_hz, struct taps ***sets, uint32_t *count,
            struct problem *problem)
{
    *sets = NULL;
    *count = 0;
    int error = fk_check(spec, rate_hz, problem);
    if (error != 0)
        return error;
    struct fan fan = fan_of(spec, rate_hz);
    const uint32_t points = (uint32_t)power_of_two_from(1024, 8 * (uint64_t)spec->taps);
    double *window = malloc(spec->taps * sizeof *window);
    double *work = malloc(2 * (size_t)points * sizeof *work);
    double *fir = malloc(2 * (size_t)spec->taps * sizeof *fir);
    double *cosine = malloc(fan.wavenumbers * sizeof *cosine);
    double *sine = malloc(fan.wavenumbers * sizeof *sine);
    if (window == NULL || work == NULL || fir == NULL || cosine == NULL || sine == NULL)
        error = problem_set(problem, ERROR_MEMORY, "no memory to design a velocity filter");
    if (error == 0)
        error = create_sets(spec, sets, count, problem);
    if (error == 0) {
        kaiser_window(window, spec->taps, kaiser_beta(attenuation_of(spec)));
        for (uint32_t i = 0; i < fan.wavenumbers; i++) {
            cosine[i] = cos(2 * PI * i / fan.wavenumbers);
            sine[i] = sin(2 * PI * i / fan.wavenumbers);
        }
    }
    for (uint32_t j = 0; error == 0 && j <= fan.wavenumbers / 2; j++) {
        if (wavenumber_fir(spec, &fan, rate_hz, j, points, window, work, fir) != 0)
            error = problem_set(problem, ERROR_MEMORY, "no memory for a transform of %u", points);
        else
            add_wavenumber(spec, &fan, j, fir, cosine, sine, *sets);
    }
    for (uint32_t i = 0; error == 0 && i < *count; i++)
        taps_hash((*sets)[i]);
    if (error != 0) {
        taps_sets_free(*sets, *count);
        *sets = NULL;
        *count = 0;
    }
    free(window);
    free(work);
    free(fir);
    free(cosine);
    free(sine);
    return error;
}

uint32_t fk_set(uint32_t channels, uint32_t input, uint32_t output)
{
    assert(input < channels && output < channels);
    return output + channels - 1 - input;
}
