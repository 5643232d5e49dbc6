/*
 * The table of analyses, and the words of their events. A new type adds its row here.
 * Constant data, any thread.
 */
#include <stddef.h>
#include <string.h>

#include "analysis/analyses.h"

/* Ends with NULL. */
static const struct analysis_ops *const analyses[] = {
    &analysis_hits,
    &analysis_intervals,
    &analysis_ascan,
    &analysis_location,
    &analysis_sensor_test,
    &analysis_vibration,
    NULL,
};

const struct analysis_ops *analysis_at(int index)
{
    return index >= 0 && index < (int)(sizeof analyses / sizeof analyses[0]) ? analyses[index]
                                                                             : NULL;
}

const char *analysis_event_word(enum analysis_event_kind kind)
{
    static const char *const words[ANALYSIS_EVENT_KINDS] = {
#define X(name, word, sentence) [ANALYSIS_##name] = word,
        ANALYSIS_EVENT_TABLE(X)
#undef X
    };
    return words[kind];
}

const char *analysis_flag_word(uint32_t flag)
{
    static const struct {
        uint32_t flag;
        const char *word;
    } words[] = {
        {ANALYSIS_TIMEOUT, "timeout"},
        {ANALYSIS_SATURATED, "saturated"},
        {ANALYSIS_PULSE, "pulse"},
        {ANALYSIS_AFTER_TIMEOUT, "after timeout"},
        {ANALYSIS_CUT, "cut"},
        {ANALYSIS_EDGE, "edge"},
        {ANALYSIS_AMBIGUOUS, "ambiguous"},
        {ANALYSIS_INCOMPLETE, "incomplete"},
        {ANALYSIS_NO_PARAMETER, "no-parameter"},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (words[i].flag == flag)
            return words[i].word;
    return NULL;
}
