/* The message about the name of a filter or stream that nobody defined. */
#include "config/internal.h"

#include <string.h>

void report_unknown(struct build *build, struct config_place place, const struct raw_section *user,
                    enum section_kind kind, const char *name)
{
    bool filters = kind == SECTION_FILTER;
    struct raw_section *const *sections = filters ? build->filter_sections : build->stream_sections;
    uint32_t count = filters ? build->config->filter_count : build->config->stream_count;
    const char *word = schema_sections[kind].word, *nearest = NULL;
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
                     "%s %s names a %s %s that nobody defined; write %s, or add a section [%s %s]",
                     schema_sections[user->kind].word, user->name, word, name, nearest, word, name);
    else
        config_error(build->errors, place,
                     "%s %s names a %s %s that nobody defined; add a section [%s %s]",
                     schema_sections[user->kind].word, user->name, word, name, word, name);
}
