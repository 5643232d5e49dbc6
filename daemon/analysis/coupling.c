/*
 * The fields of a coupling. Constant data, any thread.
 */
#include "analysis/coupling.h"

/* name, unit, type, member, sentence */
#define COUPLING_FIELD_TABLE(X)                                                                    \
    X("pulser", "", UINT32, pulser, "the channel that pulsed")                                     \
    X("peak_db", "dB", DOUBLE, peak_db, "peak amplitude that was heard; none: nothing was")        \
    X("delay_us", "us", DOUBLE, delay_us, "arrival after the pulse")                               \
    X("mean_db", "dB", DOUBLE, mean_db, "mean of the pair's answers so far")                       \
    X("least_db", "dB", DOUBLE, least_db, "quietest of them")                                      \
    X("most_db", "dB", DOUBLE, most_db, "loudest of them")                                         \
    X("change_db", "dB", DOUBLE, change_db, "this answer less the mean of those before")           \
    X("pulses", "", UINT64, pulses, "pulses of this pulser so far")                                \
    X("answers", "", UINT64, answers, "of them heard by this channel")

static const struct analysis_field fields[] = {
#define X(name_, unit_, type_, member, sentence_)                                                  \
    {.name = (name_),                                                                              \
     .unit = (unit_),                                                                              \
     .type = ANALYSIS_##type_,                                                                     \
     .offset = offsetof(struct coupling, member),                                                  \
     .sentence = (sentence_)},
    COUPLING_FIELD_TABLE(X)
#undef X
};

const struct analysis_field *coupling_fields(uint32_t *count)
{
    *count = sizeof fields / sizeof fields[0];
    return fields;
}
