/*
 * The table of analyses, and the words of their events. A new type adds its row here.
 * Constant data, any thread.
 */
#include <stddef.h>
#include <string.h>

#include "analysis/analyses.h"

/* Ends with NULL. */
static const struct analysis_ops *const analyses[] = {
    &analysis_intervals,
    &analysis_ascan,
    NULL,
};

const struct analysis_ops *analysis_at(int index)
{
    return index >= 0 && index < (int)(sizeof analyses / sizeof analyses[0]) ? analyses[index]
                                                                             : NULL;
}

const struct analysis_ops *analysis_find(const char *name)
{
    for (int i = 0; analysis_at(i) != NULL; i++)
        if (strcmp(analysis_at(i)->name, name) == 0)
            return analysis_at(i);
    return NULL;
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
