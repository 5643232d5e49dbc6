/* Points: see point.h. */
#include "core/point.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/quantity.h"

enum { LENGTH_BYTES = 48 };

#define POINT_MOST_M 1e6

/* The next length of the text: a number, and its unit with or without a space between. Returns the
 * text behind it, NULL when it is too long. */
static const char *next_length(const char *text, char out[LENGTH_BYTES])
{
    size_t length = strcspn(text, " \t");
    size_t space = strspn(text + length, " \t");
    const char *behind = text + length + space;
    if (isalpha((unsigned char)*behind)) {
        length += space + strcspn(behind, " \t");
        behind = text + length + strspn(text + length, " \t");
    }
    if (length >= LENGTH_BYTES)
        return NULL;
    snprintf(out, LENGTH_BYTES, "%.*s", (int)length, text);
    return behind;
}

static int length_parse(const char *text, double *metres, struct problem *problem)
{
    struct quantity quantity;
    struct problem detail;
    if (quantity_parse(text, DIMENSION_LENGTH, &quantity, &detail) != 0)
        return problem_set(problem, ERROR_CONFIG, "%s", detail.text);
    const bool bare_zero = quantity.dimension == DIMENSION_NUMBER && quantity.digits == 0;
    if (quantity.dimension != DIMENSION_LENGTH && !bare_zero)
        return problem_set(problem, ERROR_CONFIG, "`%s` is no length: write such as 120 mm", text);
    *metres = quantity_value(&quantity);
    if (!(fabs(*metres) <= POINT_MOST_M))
        return problem_set(problem, ERROR_CONFIG, "`%s` is out of range: write at most %g km", text,
                           POINT_MOST_M / 1e3);
    return 0;
}

int point_parse(const char *text, struct point *point, struct problem *problem)
{
    *point = (struct point){0};
    double *const out[] = {&point->x_m, &point->y_m};
    const char *at = text + strspn(text, " \t");
    while (*at != '\0') {
        char length[LENGTH_BYTES];
        at = point->coordinates < 2 ? next_length(at, length) : NULL;
        if (at == NULL)
            return problem_set(problem, ERROR_CONFIG,
                               "`%.*s` is no point: write one length on a line, two on a plate, "
                               "such as 120 mm 400 mm",
                               OPTION_QUOTE, text);
        if (length_parse(length, out[point->coordinates], problem) != 0)
            return ERROR_CONFIG;
        point->coordinates++;
    }
    if (point->coordinates == 0)
        return problem_set(problem, ERROR_CONFIG, "a point is missing: write such as 120 mm 0");
    return 0;
}

int point_option(const struct option_row *row, const char *text, struct option_value *value,
                 struct problem *problem)
{
    struct point point;
    struct problem detail;
    (void)value;
    if (row->keyword != NULL && strcmp(text, row->keyword) == 0)
        return 0;
    if (point_parse(text, &point, &detail) != 0)
        return problem_set(problem, ERROR_CONFIG, "`%s`: %s", row->key, detail.text);
    return 0;
}

struct point point_of(const struct option_value *value)
{
    struct point point;
    struct problem problem;
    if (point_parse(value->text, &point, &problem) != 0)
        return (struct point){0};
    return point;
}
