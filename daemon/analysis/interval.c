/*
 * The fields of an interval. Constant data, any thread.
 */
#include "analysis/interval.h"

/* name, unit, type, member, sentence */
#define INTERVAL_FIELD_TABLE(X)                                                                    \
    X("live", "frames", UINT64, live, "frames that the values rest on")                            \
    X("dead", "frames", UINT64, dead, "invalid frames")                                            \
    X("rms", NULL, DOUBLE, rms, "root of the mean of x^2")                                         \
    X("asl_db", "dB", DOUBLE, asl_db, "average signal level: mean of |x|, or of lg |x|, in dB")    \
    X("peak", NULL, DOUBLE, peak, "largest |x|")                                                   \
    X("peak_db", "dB", DOUBLE, peak_db, "20 lg(peak / reference): 1 uV, or as ISO 1683 says")      \
    X("energy_eu", "eu", DOUBLE, energy_eu, "integral of x^2; 1 eu = 1e-14 V^2 s")                 \
    X("strength_nvs", "nVs", DOUBLE, strength_nvs, "integral of |x| (MARSE)")                      \
    X("crest", "", DOUBLE, crest, "peak / RMS")                                                    \
    X("kurtosis", "", DOUBLE, kurtosis, "m4 / m2^2, about the mean; Gauss: 3")                     \
    X("threshold", NULL, DOUBLE, threshold, "that counts and hits are taken at")                   \
    X("counts", "", DOUBLE, counts, "excursions above the threshold, as `counts` says")            \
    X("hits", "", DOUBLE, hits, "hits that begin in the interval")

static const struct analysis_field fields[] = {
#define X(name_, unit_, type_, member, sentence_)                                                  \
    {.name = (name_),                                                                              \
     .unit = (unit_),                                                                              \
     .type = ANALYSIS_##type_,                                                                     \
     .offset = offsetof(struct interval, member),                                                  \
     .sentence = (sentence_)},
    INTERVAL_FIELD_TABLE(X)
#undef X
};

const struct analysis_field *interval_fields(uint32_t *count)
{
    *count = sizeof fields / sizeof fields[0];
    return fields;
}
