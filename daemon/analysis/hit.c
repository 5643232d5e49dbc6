/*
 * The fields of a hit, and levels in dB. Constant data and pure functions, any thread.
 */
#include <math.h>
#include <string.h>

#include "analysis/hit.h"
#include "core/level.h"

/* name, unit, type, member, sentence */
#define HIT_FIELD_TABLE(X)                                                                         \
    X("amplitude", NULL, DOUBLE, amplitude, "largest |x|")                                         \
    X("peak_db", "dB", DOUBLE, peak_db, "20 lg(amplitude / reference): 1 uV, or as ISO 1683 says") \
    X("rise_us", "us", DOUBLE, rise_us, "from the first frame to the peak")                        \
    X("duration_us", "us", DOUBLE, duration_us,                                                    \
      "from the first frame above the threshold to the last")                                      \
    X("counts", "", UINT64, counts, "excursions above the threshold, as `counts` says")            \
    X("counts_to_peak", "", UINT64, counts_to_peak, "positive excursions up to the peak")          \
    X("energy_eu", "eu", DOUBLE, energy_eu, "integral of x^2; 1 eu = 1e-14 V^2 s")                 \
    X("strength_nvs", "nVs", DOUBLE, strength_nvs, "integral of |x| (MARSE)")                      \
    X("average_khz", "kHz", DOUBLE, average_khz, "counts / duration")                              \
    X("initiation_khz", "kHz", DOUBLE, initiation_khz, "counts to peak / rise time")               \
    X("reverberation_khz", "kHz", DOUBLE, reverberation_khz,                                       \
      "counts after the peak / time after it")                                                     \
    X("rms", NULL, DOUBLE, rms, "root of the mean of x^2 over the duration")                       \
    X("noise_rms", NULL, DOUBLE, noise_rms, "RMS of the last interval without a hit")              \
    X("ra_us_v", "us/V", DOUBLE, ra_us_v, "rise time / amplitude")                                 \
    X("crest", "", DOUBLE, crest, "amplitude / RMS")                                               \
    X("impulse", "", DOUBLE, impulse, "amplitude / mean |x|")                                      \
    X("clearance", "", DOUBLE, clearance, "amplitude / (mean of the root of |x|)^2")               \
    X("shape", "", DOUBLE, shape, "RMS / mean |x|")                                                \
    X("skewness", "", DOUBLE, skewness, "m3 / m2^1.5, about the mean")                             \
    X("kurtosis", "", DOUBLE, kurtosis, "m4 / m2^2, about the mean; Gauss: 3")                     \
    X("peak_khz", "kHz", DOUBLE, peak_khz, "frequency of the largest |X|")                         \
    X("median_khz", "kHz", DOUBLE, median_khz, "frequency that halves the sum of |X|")             \
    X("centroid_khz", "kHz", DOUBLE, centroid_khz, "mean frequency, weighted with |X|^2")          \
    X("threshold", NULL, DOUBLE, threshold, "when the hit began")                                  \
    X("margin_db", "dB", DOUBLE, margin_db, "threshold over noise RMS")                            \
    X("pick_frames", "frames", DOUBLE, pick_frames, "from the first frame to the picked arrival")  \
    X("last_frame", "frames", UINT64, last_frame, "last frame above the threshold")                \
    X("peak_frame", "frames", UINT64, peak_frame, "first frame of the largest |x|")

static const struct analysis_field scalar_fields[] = {
#define X(name_, unit_, type_, member, sentence_)                                                  \
    {.name = (name_),                                                                              \
     .unit = (unit_),                                                                              \
     .type = ANALYSIS_##type_,                                                                     \
     .offset = offsetof(struct hit, member),                                                       \
     .sentence = (sentence_)},
    HIT_FIELD_TABLE(X)
#undef X
};

enum { SCALAR_FIELDS = sizeof scalar_fields / sizeof scalar_fields[0] };
_Static_assert((int)SCALAR_FIELDS < (int)HIT_FIELDS_MAX, "a row more for `partial`");

uint32_t hit_fields(struct analysis_field fields[HIT_FIELDS_MAX], uint32_t bands)
{
    memcpy(fields, scalar_fields, sizeof scalar_fields);
    if (bands == 0)
        return SCALAR_FIELDS;
    fields[SCALAR_FIELDS] = (struct analysis_field){
        .name = "partial",
        .unit = "",
        .type = ANALYSIS_DOUBLE,
        .offset = offsetof(struct hit, partial),
        .repeat = bands,
        .sentence = "share of the spectrum's power in the band",
    };
    return SCALAR_FIELDS + 1;
}

/* ---- levels ------------------------------------------------------------------------------ */

double hit_level_db(double amplitude, const char *unit)
{
    return amplitude > 0 ? 20.0 * log10(amplitude / level_reference(unit)) : NAN;
}

double hit_level_amplitude(double level_db, const char *unit)
{
    return level_reference(unit) * pow(10.0, level_db / 20.0);
}

double hit_volts(const char *unit)
{
    int exponent;
    return quantity_unit_exponent(unit, "V", &exponent) ? pow(10.0, exponent) : 0.0;
}
