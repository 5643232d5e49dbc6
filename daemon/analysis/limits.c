/* Limits: see limits.h. */
#include "analysis/limits.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/fields.h"

enum { NAME_BYTES = 64 };

struct parts {
    char field[NAME_BYTES];
    const char *text; /* number and unit */
    int relation;
    double value;
    const char *unit;
};

static const char *skip(const char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

/* The relation that `at` begins with, and what stands behind it; NULL: none. */
static const char *read_relation(const char *at, int *relation)
{
    if (*at != '<' && *at != '>')
        return NULL;
    const bool equal = at[1] == '=';
    *relation = *at == '>' ? equal ? LIMIT_AT_LEAST : LIMIT_ABOVE
                : equal    ? LIMIT_AT_MOST
                           : LIMIT_BELOW;
    return at + 1 + equal;
}

static bool split(const char *text, struct parts *parts)
{
    text = skip(text);
    const size_t length = strcspn(text, " \t<>");
    if (length == 0 || length >= sizeof parts->field)
        return false;
    memcpy(parts->field, text, length);
    parts->field[length] = '\0';
    const char *at = read_relation(skip(text + length), &parts->relation);
    if (at == NULL)
        return false;
    char *end;
    parts->text = skip(at);
    parts->value = strtod(parts->text, &end);
    parts->unit = skip(end);
    return end != parts->text && isfinite(parts->value);
}

int limit_option(const struct option_row *row, const char *text, struct option_value *value,
                 struct problem *problem)
{
    struct parts parts;
    (void)value;
    if (split(text, &parts))
        return 0;
    return problem_set(problem, ERROR_CONFIG,
                       "`%s = %.*s` is no limit; write a field, a relation and a number, as in "
                       "peak_db > 45, duration_us >= 50",
                       row->key, OPTION_QUOTE, text);
}

/* The value of a level, in the channel's unit or, for a field in dB, in dB. It is the same for all
 * channels. */
static int read_level(const struct parts *parts, const struct analysis_field *field,
                      const struct analysis_stream *stream, double *value, struct problem *problem)
{
    for (uint32_t c = 0; c < stream->channels; c++) {
        const struct level_scale scale = analysis_scale(stream, c);
        double level;
        if (level_read(parts->text, &scale, &level, problem) != 0)
            return ERROR_CONFIG;
        if (field->unit != NULL)
            level = 20 * log10(level / level_reference(scale.unit));
        if (c > 0 && level != *value)
            return problem_set(problem, ERROR_CONFIG,
                               "`%s` is another level on each channel, for their units or full "
                               "scales differ; analyse them apart",
                               parts->text);
        *value = level;
    }
    return 0;
}

int limit_find(const char *text, const struct analysis_field *fields, uint32_t field_count,
               const struct analysis_stream *stream, struct analysis_limit *out,
               struct problem *problem)
{
    struct parts parts;
    uint32_t index;
    if (!split(text, &parts))
        return problem_set(problem, ERROR_CONFIG, "`keep = %s` is no limit", text);
    const struct analysis_field *field = field_find(fields, field_count, parts.field, &index);
    if (field == NULL) {
        const struct analysis_field *nearest = field_nearest(fields, field_count, parts.field);
        return problem_set(
            problem, ERROR_CONFIG,
            "`keep = %s`: these events have no field %s; write %s, or see the fields in "
            "docs/analysis.md",
            text, parts.field, nearest != NULL ? nearest->name : "another");
    }
    const bool own_unit =
        field->unit != NULL && (parts.unit[0] == '\0' || strcmp(parts.unit, field->unit) == 0);
    if (!own_unit && (field->unit == NULL || field_is_level(field))) {
        struct problem detail;
        if (read_level(&parts, field, stream, &parts.value, &detail) != 0)
            return problem_set(problem, ERROR_CONFIG, "`keep = %s`: %s", text, detail.text);
    } else if (!own_unit) {
        return problem_set(problem, ERROR_CONFIG,
                           "`keep = %s`: the unit of %s is %s; write the number in it", text,
                           field->name, field->unit[0] != '\0' ? field->unit : "none");
    }
    *out = (struct analysis_limit){
        .field = field, .index = index, .relation = parts.relation, .value = parts.value};
    return 0;
}

bool limits_hold(const struct analysis_limit *limits, uint32_t count,
                 const struct analysis_event *event)
{
    for (uint32_t i = 0; i < count; i++) {
        const double value = field_value(limits[i].field, limits[i].index, event);
        const double limit = limits[i].value;
        const bool holds = limits[i].relation == LIMIT_ABOVE      ? value > limit
                           : limits[i].relation == LIMIT_AT_LEAST ? value >= limit
                           : limits[i].relation == LIMIT_BELOW    ? value < limit
                                                                  : value <= limit;
        if (!holds)
            return false;
    }
    return true;
}
