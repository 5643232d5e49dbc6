/* The values of a hit: see hit_features.h. */
#include "analysis/hit_features.h"

#include <math.h>
#include <stdlib.h>

#include "analysis/picker.h"
#include "analysis/spectrum.h"
#include "core/error.h"

struct hit_features {
    struct hit_features_options options;
    struct spectrum_plan *plan;                  /* NULL: no spectrum */
    double *window, *samples, *real, *imaginary; /* [M], [M], [B], [B] */
};

int hit_features_open(const struct hit_features_options *options, struct hit_features **out)
{
    const uint32_t points = options->spectrum_points;
    struct hit_features *f = calloc(1, sizeof *f);
    if (f == NULL)
        return ERROR_MEMORY;
    f->options = *options;
    if (points > 0) {
        const uint32_t bins = spectrum_bins(points);
        f->window = malloc(points * sizeof *f->window);
        f->samples = malloc(points * sizeof *f->samples);
        f->real = malloc(bins * sizeof *f->real);
        f->imaginary = malloc(bins * sizeof *f->imaginary);
        if (f->window == NULL || f->samples == NULL || f->real == NULL || f->imaginary == NULL ||
            spectrum_plan_open(points, &f->plan) != 0) {
            hit_features_close(f);
            return ERROR_MEMORY;
        }
        spectrum_window(SPECTRUM_HAMMING, points, f->window);
    }
    *out = f;
    return 0;
}

void hit_features_close(struct hit_features *features)
{
    if (features == NULL)
        return;
    spectrum_plan_close(features->plan);
    free(features->window);
    free(features->samples);
    free(features->real);
    free(features->imaginary);
    free(features);
}

uint64_t hit_features_memory(const struct hit_features_options *options)
{
    const uint64_t points = options->spectrum_points;
    uint64_t bytes = sizeof(struct hit_features);
    if (points > 0)
        bytes += (2 * points + 2 * (points / 2 + 1)) * sizeof(double) +
                 spectrum_memory(options->spectrum_points);
    return bytes;
}

/* a / b; NAN where b is 0. */
static double over(double a, double b)
{
    return b > 0 ? a / b : (double)NAN;
}

/* ---- shape ------------------------------------------------------------------------------- */

static void measure_shape(const struct detector_hit *seen, struct hit *hit)
{
    const double n = (double)(seen->last - seen->first + 1);
    const double magnitude = seen->sums.magnitude / n, root = seen->sums.root / n;
    hit->rms = sqrt(seen->sums.square / n);
    hit->crest = over(hit->amplitude, hit->rms);
    hit->impulse = over(hit->amplitude, magnitude);
    hit->clearance = over(hit->amplitude, root * root);
    hit->shape = over(hit->rms, magnitude);
    /* Central moments from those about the first sample. */
    const double m1 = seen->sums.power[0] / n, p2 = seen->sums.power[1] / n,
                 p3 = seen->sums.power[2] / n, p4 = seen->sums.power[3] / n;
    const double m2 = p2 - m1 * m1;
    const double m3 = p3 - 3 * m1 * p2 + 2 * m1 * m1 * m1;
    const double m4 = p4 - 4 * m1 * p3 + 6 * m1 * m1 * p2 - 3 * m1 * m1 * m1 * m1;
    hit->skewness = over(m3, m2 * sqrt(m2 > 0 ? m2 : 0));
    hit->kurtosis = over(m4, m2 * m2);
}

static void measure_times(const struct hit_features_options *options,
                          const struct detector_hit *seen, struct hit *hit)
{
    const double rise = (double)(seen->peak_frame - seen->first);
    const double duration = (double)(seen->last - seen->first);
    const double per_khz = options->rate_hz / 1e3;
    hit->rise_us = rise * 1e6 / options->rate_hz;
    hit->duration_us = duration * 1e6 / options->rate_hz;
    hit->counts = options->counts == HIT_COUNTS_POSITIVE ? seen->positive
                  : options->counts == HIT_COUNTS_BOTH   ? (seen->positive + seen->negative + 1) / 2
                                                         : seen->crossings;
    hit->counts_to_peak = seen->positive_to_peak;
    hit->average_khz = over((double)hit->counts * per_khz, duration);
    hit->initiation_khz = over((double)hit->counts_to_peak * per_khz, rise);
    hit->reverberation_khz =
        over(((double)hit->counts - (double)hit->counts_to_peak) * per_khz, duration - rise);
}

/* ---- spectrum ---------------------------------------------------------------------------- */

static uint32_t bin_of(const struct hit_features_options *options, double hz)
{
    const uint32_t bins = spectrum_bins(options->spectrum_points);
    const double bin = floor((bins - 1) * hz / (options->rate_hz / 2));
    return bin < bins ? (uint32_t)bin : bins;
}

static void measure_spectrum(struct hit_features *f, const struct detector_hit *seen,
                             const float *record, struct hit *hit)
{
    const struct hit_features_options *options = &f->options;
    const uint32_t points = options->spectrum_points, bins = spectrum_bins(points);
    for (uint32_t i = 0; i < points; i++)
        f->samples[i] = i < seen->record_frames ? (double)record[i] * f->window[i] : 0;
    spectrum_forward(f->plan, f->samples, f->real, f->imaginary);
    /* Magnitudes take the place of the real parts, powers that of the imaginary ones. */
    double *magnitude = f->real, *power = f->imaginary;
    double magnitudes = 0, powers = 0, weighted = 0;
    uint32_t peak = 1;
    for (uint32_t k = 0; k < bins; k++) {
        power[k] = f->real[k] * f->real[k] + f->imaginary[k] * f->imaginary[k];
        magnitude[k] = sqrt(power[k]);
        magnitudes += magnitude[k];
        powers += power[k];
        weighted += k * power[k];
        if (k > 0 && power[k] > power[peak])
            peak = k;
    }
    if (!(powers > 0))
        return;
    const double khz = options->rate_hz / points / 1e3;
    uint32_t median = 0;
    for (double sum = magnitude[0]; sum < magnitudes / 2 && median + 1 < bins;)
        sum += magnitude[++median];
    hit->peak_khz = peak * khz;
    hit->median_khz = median * khz;
    hit->centroid_khz = weighted / powers * khz;
    for (uint32_t band = 0; band < options->band_count; band++) {
        double sum = 0;
        const uint32_t until = bin_of(options, options->bands[band].until_hz);
        for (uint32_t k = bin_of(options, options->bands[band].from_hz); k < until; k++)
            sum += power[k];
        hit->partial[band] = sum / powers;
    }
}

/* ---- arrival ----------------------------------------------------------------------------- */

static double pick(const struct hit_features_options *options, const struct detector_hit *seen,
                   const float *record)
{
    if (options->picker == HIT_PICKER_THRESHOLD)
        return options->interpolate ? picker_crossing(seen->before, seen->origin, seen->threshold)
                                    : 0;
    uint64_t window = seen->peak_frame - seen->first;
    if (window > options->pick_window)
        window = options->pick_window;
    const uint32_t frames = seen->lead + (uint32_t)window;
    const int64_t index = options->picker == HIT_PICKER_AIC ? picker_aic(record, frames)
                          : options->picker == HIT_PICKER_HINKLEY
                              ? picker_hinkley(record, frames, options->alpha)
                              : picker_energy_ratio(record, frames, options->ratio_window);
    return index < 0 ? (double)NAN : (double)(index - (int64_t)seen->lead);
}

struct hit_scale hit_scale_of(const char *unit)
{
    return (struct hit_scale){.volts = hit_volts(unit), .reference = hit_level_amplitude(0, unit)};
}

void hit_features_measure(struct hit_features *features, const struct detector_hit *seen,
                          const float *record, const struct hit_scale *scale, struct hit *hit)
{
    const struct hit_features_options *options = &features->options;
    const double volts = scale->volts;
    *hit = (struct hit){
        .last_frame = seen->last,
        .peak_frame = seen->peak_frame,
        .amplitude = seen->peak,
        .peak_db = seen->peak > 0 ? 20 * log10((double)seen->peak / scale->reference) : (double)NAN,
        .energy_eu = volts > 0 ? seen->window_square * volts * volts / options->rate_hz / 1e-14
                               : (double)NAN,
        .strength_nvs =
            volts > 0 ? seen->window_magnitude * volts / options->rate_hz / 1e-9 : (double)NAN,
        .noise_rms = seen->noise_rms,
        .peak_khz = NAN,
        .median_khz = NAN,
        .centroid_khz = NAN,
        .threshold = seen->threshold,
        .margin_db = seen->threshold > 0 && seen->noise_rms > 0
                         ? 20 * log10(seen->threshold / seen->noise_rms)
                         : (double)NAN,
        .pick_frames = pick(options, seen, record),
    };
    for (int i = 0; i < HIT_BANDS_MAX; i++)
        hit->partial[i] = NAN;
    measure_times(options, seen, hit);
    measure_shape(seen, hit);
    hit->ra_us_v = volts > 0 ? over(hit->rise_us, hit->amplitude * volts) : (double)NAN;
    if (features->plan != NULL)
        measure_spectrum(features, seen, record, hit);
}
