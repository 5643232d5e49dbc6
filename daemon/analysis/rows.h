/*
 * Option rows that several analyses have: a key means the same in all of them. Each stands in a
 * table as {ANALYSIS_ROW_HDT, FIELD(hdt)}.
 */
#ifndef CONVOLVD_ANALYSIS_ROWS_H
#define CONVOLVD_ANALYSIS_ROWS_H

#include "core/level.h"

#define ANALYSIS_FRAMES_MAX 1e12

/* clang-format off */
#define ANALYSIS_ROW_THRESHOLD                                                                     \
    .key = "threshold", .type = OPTION_OWN, .list = LIST_CHANNEL, .parse = level_parse,            \
    .words = LEVEL_WORDS, .fallback_words = "none: hits need one",                                 \
    .sentence = "A sample lies above when |x| is greater; one for all channels or one each. "      \
                "Plain dB of volts are dB(AE), re 1 uV at the sensor."

#define ANALYSIS_ROW_HDT                                                                           \
    .key = "hdt", .type = OPTION_SPAN, .maximum = ANALYSIS_FRAMES_MAX, .fallback = "200 us",       \
    .sentence = "Hit definition time (duration discrimination time): so long without a sample "    \
                "above the threshold ends a hit."

#define ANALYSIS_ROW_HLT                                                                           \
    .key = "hlt", .type = OPTION_SPAN, .maximum = ANALYSIS_FRAMES_MAX, .fallback = "0 frames",     \
    .sentence = "Hit lockout time: so long after a hit none begins."

#define ANALYSIS_ROW_MAX_DURATION                                                                  \
    .key = "max duration", .type = OPTION_SPAN, .minimum = 1, .maximum = ANALYSIS_FRAMES_MAX,      \
    .fallback_words = "100 ms, at least a frame",                                                  \
    .sentence = "Longest hit; it ends there with the flag timeout, and what goes on is the next. " \
                "Files get a hit at most this much, and hdt, late."

#define ANALYSIS_ROW_COUNTS                                                                        \
    .key = "counts", .type = OPTION_CHOICE, .choices = analysis_counts, .fallback = "positive",    \
    .sentence = "What a count is: a positive excursion after a sample below 0 (Vallen), positive " \
                "and negative ones halved (MISTRAS), or each upward crossing (vallenae)."
/* clang-format on */

/* Words of enum hit_counts (hit_features.h). */
extern const struct option_choice analysis_counts[];

#endif
