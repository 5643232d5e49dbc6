/* Levels as options: see level.h. */
#include "analysis/level.h"

#include <stdio.h>
#include <string.h>

#include "analysis/hit.h"
#include "core/quantity.h"

int level_parse(const struct option_row *row, const char *text, struct option_value *value,
                struct problem *problem)
{
    struct quantity quantity;
    struct problem detail;
    if (quantity_parse(text, DIMENSION_AMPLITUDE, &quantity, &detail) != 0)
        return problem_set(problem, ERROR_CONFIG, "`%s`: %s", row->key, detail.text);
    switch (quantity.dimension) {
    case DIMENSION_DECIBEL:
    case DIMENSION_AMPLITUDE:
    case DIMENSION_NUMBER:
        break;
    default:
        return problem_set(problem, ERROR_CONFIG, "`%s = %.*s` is %s; write a %s", row->key,
                           OPTION_QUOTE, text, dimension_words(quantity.dimension), LEVEL_WORDS);
    }
    if (quantity.negative && quantity.dimension != DIMENSION_DECIBEL && quantity.digits != 0)
        return problem_set(problem, ERROR_CONFIG, "`%s = %.*s` is below 0; write a %s", row->key,
                           OPTION_QUOTE, text, LEVEL_WORDS);
    value->dimension = quantity.dimension;
    value->number = quantity_value(&quantity);
    snprintf(value->unit, sizeof value->unit, "%s", quantity.unit);
    return 0;
}

bool level_amplitude(const struct option_check *check, const char *key,
                     const struct option_value *value, const char *unit, double *out)
{
    if (value->dimension != DIMENSION_DECIBEL)
        return option_amplitude(check, key, value, unit, out);
    *out = hit_level_amplitude(value->number, unit);
    return true;
}
