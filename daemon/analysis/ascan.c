/*
 * The fields of an A-scan. Pure, any thread.
 */
#include "analysis/ascan.h"

#include <string.h>

/* name, unit, type, member, sentence */
#define ASCAN_FIELD_TABLE(X)                                                                       \
    X("shots", "", UINT32, shots, "shots asked for: K, of a pair of codes 2 K")                    \
    X("averages", "", UINT32, averages, "shots that the average rests on")                         \
    X("dead", "", UINT32, dead, "shots left out for an invalid or a missing frame")                \
    X("start_us", "us", DOUBLE, start_us, "time of flight of the trace's first sample")            \
    X("peak", NULL, DOUBLE, peak, "largest |x| of the trace")                                      \
    X("thickness_mm", "mm", DOUBLE, thickness_mm, "v (t2 - t1) / 2 between the echoes of two gates")

/* The same, of each gate. */
#define GATE_FIELD_TABLE(X)                                                                        \
    X("amplitude", NULL, DOUBLE, amplitude, "height of the echo in the gate")                      \
    X("above_db", "dB", DOUBLE, above_db, "20 lg(amplitude / the gate's level)")                   \
    X("time_us", "us", DOUBLE, time_us, "time of flight of the echo")                              \
    X("path_mm", "mm", DOUBLE, path_mm, "v t / 2, without the probe's delay")                      \
    X("depth_mm", "mm", DOUBLE, depth_mm, "of a diffracting tip: sqrt((v t / 2)^2 - S^2)")         \
    X("alarm", "", UINT32, alarm, "1: the echo is there, or missing, against what is expected")

uint32_t ascan_fields(struct analysis_field fields[ASCAN_FIELDS_MAX], uint32_t gates)
{
    const struct analysis_field all[] = {
#define X(name_, unit_, type_, member, sentence_)                                                  \
    {.name = (name_),                                                                              \
     .unit = (unit_),                                                                              \
     .type = ANALYSIS_##type_,                                                                     \
     .offset = offsetof(struct ascan, member),                                                     \
     .sentence = (sentence_)},
        ASCAN_FIELD_TABLE(X)
#undef X
#define X(name_, unit_, type_, member, sentence_)                                                  \
    {.name = (name_),                                                                              \
     .unit = (unit_),                                                                              \
     .type = ANALYSIS_##type_,                                                                     \
     .offset = offsetof(struct ascan, member),                                                     \
     .repeat = gates,                                                                              \
     .sentence = (sentence_)},
            GATE_FIELD_TABLE(X)
#undef X
    };
    uint32_t count = 0;
#define X(name, unit, type, member, sentence) count++;
    ASCAN_FIELD_TABLE(X)
    if (gates > 0) {
        GATE_FIELD_TABLE(X)
    }
#undef X
    _Static_assert(sizeof all / sizeof all[0] <= ASCAN_FIELDS_MAX, "room for all");
    memcpy(fields, all, count * sizeof all[0]);
    return count;
}
