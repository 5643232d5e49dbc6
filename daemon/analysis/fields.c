/* Values of events by their fields: see fields.h. */
#include "analysis/fields.h"

#include <stdlib.h>
#include <string.h>

#include "core/option.h"

const char *event_total_field(enum event_total total)
{
    static const char *const names[EVENT_TOTALS] = {
#define X(name, field) [TOTAL_##name] = field,
        EVENT_TOTAL_TABLE(X)
#undef X
    };
    return names[total];
}

bool event_total_find(const char *field, enum event_total *total)
{
    for (int t = 0; t < EVENT_TOTALS; t++) {
        *total = (enum event_total)t;
        if (strcmp(field, event_total_field(*total)) == 0)
            return true;
    }
    return false;
}

static bool is_named(const struct analysis_field *field, const char *name, uint32_t *index)
{
    const size_t length = strlen(field->name);
    *index = 0;
    if (field->repeat == 0)
        return strcmp(field->name, name) == 0;
    if (strncmp(field->name, name, length) != 0 || name[length] != '_')
        return false;
    const unsigned long number = strtoul(name + length + 1, NULL, 10);
    *index = (uint32_t)(number - 1);
    return number >= 1 && number <= field->repeat;
}

const struct analysis_field *field_find(const struct analysis_field *fields, uint32_t count,
                                        const char *name, uint32_t *index)
{
    for (uint32_t f = 0; f < count; f++)
        if (is_named(&fields[f], name, index))
            return &fields[f];
    return NULL;
}

const struct analysis_field *field_nearest(const struct analysis_field *fields, uint32_t count,
                                           const char *name)
{
    const struct analysis_field *nearest = NULL;
    unsigned best = UINT32_MAX;
    for (uint32_t f = 0; f < count; f++) {
        const unsigned distance = option_distance(name, fields[f].name);
        if (distance < best) {
            best = distance;
            nearest = &fields[f];
        }
    }
    return nearest;
}

bool field_is_level(const struct analysis_field *field)
{
    static const char *const levels[] = {"peak_db", "asl_db", "mean_db", "least_db", "most_db"};
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++)
        if (strcmp(field->name, levels[i]) == 0)
            return true;
    return false;
}

double field_value(const struct analysis_field *field, uint32_t index,
                   const struct analysis_event *event)
{
    const uint8_t *body = (const uint8_t *)event->body + field->offset;
    uint32_t u32;
    uint64_t u64;
    double number;
    switch (field->type) {
    case ANALYSIS_UINT32:
        memcpy(&u32, body + index * sizeof u32, sizeof u32);
        return u32;
    case ANALYSIS_UINT64:
        memcpy(&u64, body + index * sizeof u64, sizeof u64);
        return (double)u64;
    default:
        memcpy(&number, body + index * sizeof number, sizeof number);
        return number;
    }
}
