/*
 * What plane waves see of a velocity filter: see fk_measure in fk.h. Everything is computed from
 * the taps as the engine gets them, by the sum over channels itself; nothing of the design is
 * trusted. No state; worker threads.
 */
#include "filter/fk.h"

#include <math.h>
#include <stdlib.h>

#define TWO_PI 6.283185307179586476925286766559

enum { FREQUENCIES = 24, WAVENUMBERS = 8 }; /* of the second: a resolution cell */

void fk_spectra(const struct fk_spec *spec, struct taps *const *sets, double rate_hz,
                double frequency_hz, double *spectra)
{
    uint32_t taps = spec->taps, middle = (taps - 1) / 2;
    for (uint32_t set = 0; set < 2 * spec->channels - 1; set++)
        spectra[2 * (size_t)set] = spectra[2 * (size_t)set + 1] = 0;
    for (uint32_t n = 0; n < taps; n++) {
        double turns = frequency_hz / rate_hz * ((double)n - middle);
        double angle = TWO_PI * (turns - floor(turns)), c = cos(angle), s = sin(angle);
        for (uint32_t set = 0; set < 2 * spec->channels - 1; set++) {
            spectra[2 * (size_t)set] += sets[set]->re[n] * c;
            spectra[2 * (size_t)set + 1] -= sets[set]->re[n] * s;
        }
    }
}

void fk_gains(const struct fk_spec *spec, const double *spectra, double wavenumber_per_m,
              double *gains)
{
    uint32_t channels = spec->channels, sets = 2 * channels - 1;
    /* y_m = sum over l = m-M+1 … m of H_l exp(j 2 pi k l d): a window of M sets that moves by one
     * from channel to channel. */
    double re = 0, im = 0;
    double terms[2 * (2 * FK_CHANNELS_MAX - 1)];
    for (uint32_t set = 0; set < sets; set++) {
        double turns = wavenumber_per_m * spec->spacing_m * ((double)set - (channels - 1));
        double angle = TWO_PI * (turns - floor(turns)), c = cos(angle), s = sin(angle);
        double h_re = spectra[2 * (size_t)set], h_im = spectra[2 * (size_t)set + 1];
        terms[2 * (size_t)set] = h_re * c - h_im * s;
        terms[2 * (size_t)set + 1] = h_re * s + h_im * c;
    }
    for (uint32_t set = 0; set < sets; set++) {
        re += terms[2 * (size_t)set];
        im += terms[2 * (size_t)set + 1];
        if (set >= channels) {
            re -= terms[2 * (size_t)(set - channels)];
            im -= terms[2 * (size_t)(set - channels) + 1];
        }
        if (set + 1 >= channels)
            gains[set + 1 - channels] = hypot(re, im);
    }
}

/* The fan's edges with what belongs to them at one frequency, as wavenumbers. */
struct rims {
    double inner_from, inner_until; /* within: inside of the fan beyond doubt */
    double outer_from, outer_until; /* beyond: outside */
};

static struct rims rims_at(const struct fk_spec *spec, const struct fk_measure *m, double f)
{
    double high = spec->velocity_high != 0 ? spec->velocity_high : -spec->velocity_low;
    double from = fmin(1 / spec->velocity_low, 1 / high);
    double until = fmax(1 / spec->velocity_low, 1 / high);
    double taper = spec->taper * (until - from);
    double cell = m->resolution_per_m, smear = m->transition_hz / 2;
    double before = cell + smear * fmax(fabs(from - taper / 2), fabs(from + taper / 2));
    double behind = cell + smear * fmax(fabs(until - taper / 2), fabs(until + taper / 2));
    return (struct rims){.inner_from = f * (from + taper / 2) + before,
                         .inner_until = f * (until - taper / 2) - behind,
                         .outer_from = f * (from - taper / 2) - before,
                         .outer_until = f * (until + taper / 2) + behind};
}

static void judge(const struct fk_spec *spec, const double *gains, bool passes,
                  struct fk_measure *m, double *power_worst)
{
    double power = 0;
    for (uint32_t c = 0; c < spec->channels; c++) {
        double db = 20 * log10(fmax(gains[c], 1e-15));
        power += gains[c] * gains[c] / spec->channels;
        if (passes)
            m->ripple_db[c] = fmax(m->ripple_db[c], fabs(db));
        else
            m->rejection_db[c] = fmin(m->rejection_db[c], -db);
    }
    if (passes) {
        m->passed++;
    } else {
        m->stopped++;
        *power_worst = fmax(*power_worst, power);
    }
}

/* White noise of RMS 1 in every channel comes out of the middle one with this RMS. */
static double noise_gain(const struct fk_spec *spec, struct taps *const *sets)
{
    double sum = 0;
    for (uint32_t i = 0; i < spec->channels; i++) {
        const struct taps *h = sets[fk_set(spec->channels, i, spec->channels / 2)];
        for (uint32_t n = 0; n < h->count; n++)
            sum += h->re[n] * h->re[n];
    }
    return sqrt(sum);
}

static void summarise(const struct fk_spec *spec, double power_worst, struct fk_measure *m)
{
    m->middle_from = spec->channels / 4;
    m->middle_until = spec->channels - spec->channels / 4;
    m->middle_ripple_db = -INFINITY;
    m->middle_rejection_db = INFINITY;
    for (uint32_t c = 0; c < spec->channels; c++) {
        if (c >= m->middle_from && c < m->middle_until) {
            m->middle_ripple_db = fmax(m->middle_ripple_db, m->ripple_db[c]);
            m->middle_rejection_db = fmin(m->middle_rejection_db, m->rejection_db[c]);
        }
        m->ripple_db[c] = m->passed > 0 ? m->ripple_db[c] : NAN;
        m->rejection_db[c] = m->stopped > 0 ? m->rejection_db[c] : NAN;
    }
    if (m->passed == 0)
        m->middle_ripple_db = NAN;
    if (m->stopped == 0)
        m->middle_rejection_db = NAN;
    m->array_rejection_db = m->stopped > 0 ? -10 * log10(fmax(power_worst, 1e-30)) : NAN;
}

int fk_measure(const struct fk_spec *spec, double rate_hz, struct taps *const *sets,
               struct fk_measure *out, struct problem *problem)
{
    double *spectra = malloc(2 * (2 * (size_t)spec->channels - 1) * sizeof *spectra);
    if (spectra == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory to measure a velocity filter");
    double high = spec->velocity_high != 0 ? spec->velocity_high : -spec->velocity_low;
    *out = (struct fk_measure){
        .resolution_per_m = 1 / (spec->channels * spec->spacing_m),
        .nyquist_per_m = 1 / (2 * spec->spacing_m),
        .transition_hz = fk_transition_hz(spec, rate_hz),
    };
    out->resolved_hz = out->resolution_per_m / fabs(1 / spec->velocity_low - 1 / high);
    double band_high = spec->high_hz > 0 ? spec->high_hz : rate_hz / 2;
    out->pass_from_hz = spec->low_hz + out->transition_hz / 2;
    out->pass_until_hz = band_high - out->transition_hz / 2;
    for (uint32_t c = 0; c < spec->channels; c++) {
        out->ripple_db[c] = -INFINITY;
        out->rejection_db[c] = INFINITY;
    }
    double power_worst = 0, gains[FK_CHANNELS_MAX];
    uint32_t half = WAVENUMBERS * spec->channels / 2;
    for (int i = 0; i < FREQUENCIES; i++) {
        double f =
            out->pass_from_hz + (out->pass_until_hz - out->pass_from_hz) * i / (FREQUENCIES - 1);
        struct rims rims = rims_at(spec, out, f);
        fk_spectra(spec, sets, rate_hz, f, spectra);
        for (uint32_t j = 0; j <= 2 * half; j++) {
            double k = ((double)j - half) / half * out->nyquist_per_m;
            bool inside = k >= rims.inner_from && k <= rims.inner_until;
            bool outside = k <= rims.outer_from || k >= rims.outer_until;
            /* What lies one period of the array away is the same wave to it. */
            double period = 2 * out->nyquist_per_m;
            outside = outside && (k + period >= rims.outer_until && k - period <= rims.outer_from);
            if (!inside && !outside)
                continue;
            fk_gains(spec, spectra, k, gains);
            judge(spec, gains, inside != spec->reject, out, &power_worst);
        }
    }
    summarise(spec, power_worst, out);
    out->noise_gain = noise_gain(spec, sets);
    free(spectra);
    return 0;
}
