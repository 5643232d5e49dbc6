/* The message about the name of a filter, stream or analysis that nobody defined. */
#include "config/internal.h"

#include <string.h>

void report_unknown(struct build *build, struct config_place place, const struct raw_section *user,
                    enum section_kind kind, const char *name)
{
    struct raw_section *const *sections = kind == SECTION_FILTER     ? build->filter_sections
                                          : kind == SECTION_ANALYSIS ? build->analysis_sections
                                                                     : build->stream_sections;
    uint32_t count = kind == SECTION_FILTER     ? build->config->filter_count
                     : kind == SECTION_ANALYSIS ? build->config->analysis_count
                                                : build->config->stream_count;
    const char *word = schema_sections[kind].word, *nearest = NULL;
    const char *article = kind == SECTION_ANALYSIS ? "an" : "a";
    unsigned best = (unsigned)strlen(name) / 3 + 2; /* further away it is another name */
    for (uint32_t i = 0; i < count; i++) {
        unsigned distance = option_distance(name, sections[i]->name);
        if (distance < best) {
            best = distance;
            nearest = sections[i]->name;
        }
    }
    if (nearest != NULL)
        config_error(build->errors, place,
                     "%s %s names %s %s %s that nobody defined; write %s, or add a section [%s %s]",
                     schema_sections[user->kind].word, user->name, article, word, name, nearest,
                     word, name);
    else
        config_error(build->errors, place,
                     "%s %s names %s %s %s that nobody defined; add a section [%s %s]",
                     schema_sections[user->kind].word, user->name, article, word, name, word, name);
}
