/*
 * The fields of a source. Constant data, any thread.
 */
#include "analysis/source.h"

#include <string.h>

/* name, unit, type, member, repeat, sentence */
#define SOURCE_FIELD_TABLE(X)                                                                      \
    X("x_mm", "mm", DOUBLE, x_mm, 0, "first coordinate of the source")                             \
    X("y_mm", "mm", DOUBLE, y_mm, 0, "second coordinate; none on a line")                          \
    X("origin_us", "us", DOUBLE, origin_us, 0,                                                     \
      "the source's instant, after the event's arrival time")                                      \
    X("sigma_x_mm", "mm", DOUBLE, sigma_x_mm, 0, "standard uncertainty of x")                      \
    X("sigma_y_mm", "mm", DOUBLE, sigma_y_mm, 0, "standard uncertainty of y")                      \
    X("correlation", "", DOUBLE, correlation, 0, "of the errors of x and y, -1 to 1")              \
    X("sigma_origin_us", "us", DOUBLE, sigma_origin_us, 0, "standard uncertainty of the instant")  \
    X("lucy_mm", "mm", DOUBLE, lucy_mm, 0, "location uncertainty from the residuals")              \
    X("second_x_mm", "mm", DOUBLE, second_x_mm, 0, "another place that fits as well")              \
    X("second_y_mm", "mm", DOUBLE, second_y_mm, 0, "another place that fits as well")              \
    X("peak_db", "dB", DOUBLE, peak_db, 0, "peak amplitude of the first hit")                      \
    X("energy_eu", "eu", DOUBLE, energy_eu, 0, "energy of its hits together")                      \
    X("load", "", DOUBLE, load, 0, "the load at the first hit, in the unit it is read in")         \
    X("felicity", "", DOUBLE, felicity, 0, "load / greatest load of earlier cycles")               \
    X("kaiser", "", UINT32, kaiser, 0, "1: below the greatest load of earlier cycles")             \
    X("cluster", "", UINT64, cluster, 0, "number of its cluster")                                  \
    X("cluster_size", "", UINT64, cluster_size, 0, "sources of the cluster so far")                \
    X("hits", "", UINT32, hits, 0, "hits that the place rests on")                                 \
    X("channels", "", UINT32, channels, SOURCE_HITS_MAX, "their channels, in order of arrival")    \
    X("arrivals_us", "us", DOUBLE, arrivals_us, SOURCE_HITS_MAX, "after the first one's")          \
    X("residuals_us", "us", DOUBLE, residuals_us, SOURCE_HITS_MAX, "measured less computed")       \
    X("numbers", "", UINT64, numbers, SOURCE_HITS_MAX, "their hits' numbers")

static const struct analysis_field rows[] = {
#define X(name_, unit_, type_, member, repeat_, sentence_)                                         \
    {.name = (name_),                                                                              \
     .unit = (unit_),                                                                              \
     .type = ANALYSIS_##type_,                                                                     \
     .offset = offsetof(struct source_event, member),                                              \
     .repeat = (repeat_),                                                                          \
     .sentence = (sentence_)},
    SOURCE_FIELD_TABLE(X)
#undef X
};

enum { ROWS = sizeof rows / sizeof rows[0] };
_Static_assert((int)ROWS <= (int)SOURCE_FIELDS_MAX, "the caller's table holds all rows");

uint32_t source_fields(struct analysis_field fields[SOURCE_FIELDS_MAX], uint32_t hits)
{
    memcpy(fields, rows, sizeof rows);
    for (int i = 0; i < ROWS; i++)
        if (fields[i].repeat > 0)
            fields[i].repeat = hits;
    return ROWS;
}
