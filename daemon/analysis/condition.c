/*
 * The fields of a condition. Constant data, any thread.
 */
#include "analysis/condition.h"

/* name, unit, type, member, sentence */
#define CONDITION_FIELD_TABLE(X)                                                                   \
    X("live", "frames", UINT64, live, "frames that rms, peak, crest and kurtosis rest on")         \
    X("dead", "frames", UINT64, dead, "invalid frames")                                            \
    X("segments", "", UINT32, segments, "segments that the spectra rest on")                       \
    X("bin_hz", "Hz", DOUBLE, bin_hz, "distance between the bins of the event's spectrum")         \
    X("rms", NULL, DOUBLE, rms, "root of the mean square about the mean")                          \
    X("peak", NULL, DOUBLE, peak, "largest distance from the mean")                                \
    X("crest", "", DOUBLE, crest, "peak / RMS")                                                    \
    X("kurtosis", "", DOUBLE, kurtosis, "m4 / m2^2, about the mean; Gauss: 3, a sine: 1.5")        \
    X("velocity_mms", "mm/s", DOUBLE, velocity_mms, "RMS velocity in the velocity band")           \
    X("speed_hz", "Hz", DOUBLE, speed_hz, "turns of the shaft a second")                           \
    X("speed_change", "", DOUBLE, speed_change,                                                    \
      "(longest - shortest) / mean time between pulses of the tacho")                              \
    X("spectral_kurtosis", "", DOUBLE, spectral_kurtosis, "the largest of all bins; Gauss: 0")     \
    X("spectral_kurtosis_hz", "Hz", DOUBLE, spectral_kurtosis_hz, "the bin it lies in")

static const struct analysis_field fields[] = {
#define X(name_, unit_, type_, member, sentence_)                                                  \
    {.name = (name_),                                                                              \
     .unit = (unit_),                                                                              \
     .type = ANALYSIS_##type_,                                                                     \
     .offset = offsetof(struct condition, member),                                                 \
     .sentence = (sentence_)},
    CONDITION_FIELD_TABLE(X)
#undef X
#define X(name_, what)                                                                             \
    {.name = #name_ "_hz",                                                                         \
     .unit = "Hz",                                                                                 \
     .offset = offsetof(struct condition, lines[CONDITION_##name_].expected_hz),                   \
     .sentence = "kinematic frequency of " what},                                                  \
        {.name = #name_ "_found_hz",                                                               \
         .unit = "Hz",                                                                             \
         .offset = offsetof(struct condition, lines[CONDITION_##name_].found_hz),                  \
         .sentence = "largest bin within the slip of " #name_ "_hz"},                              \
        {.name = #name_,                                                                           \
         .offset = offsetof(struct condition, lines[CONDITION_##name_].amplitude),                 \
         .sentence = "sum of its harmonics, each the largest bin within the slip"},
        CONDITION_DEFECT_TABLE(X)
#undef X
};

const struct analysis_field *condition_fields(uint32_t *count)
{
    *count = sizeof fields / sizeof fields[0];
    return fields;
}
