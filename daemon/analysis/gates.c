/* Gates of an A-scan: see gates.h. */
#include "analysis/gates.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/level.h"

/* ---- the line ---------------------------------------------------------------------------- */

enum part_kind { PART_NAME, PART_TIME, PART_LEVEL, PART_MEASURE, PART_ALARM };

/* The parts of a line, each at most once; those of one group exclude each other. */
static const struct part {
    const char *word;
    enum part_kind kind;
    size_t offset;
    int value; /* of MEASURE and ALARM */
    unsigned group;
} parts[] = {
    {"after", PART_NAME, offsetof(struct gate_line, after), 0, 0},
    {"start", PART_TIME, offsetof(struct gate_line, start_s), 0, 1},
    {"width", PART_TIME, offsetof(struct gate_line, width_s), 0, 2},
    {"gap", PART_TIME, offsetof(struct gate_line, gap_s), 0, 3},
    {"level", PART_LEVEL, 0, 0, 4},
    {"peak", PART_MEASURE, 0, GATE_PEAK, 5},
    {"flank", PART_MEASURE, 0, GATE_FLANK, 5},
    {"j-flank", PART_MEASURE, 0, GATE_J_FLANK, 5},
    {"alarm", PART_ALARM, 0, 0, 6},
};

enum { PARTS = sizeof parts / sizeof parts[0], GROUP_WIDTH = 2, GROUP_LEVEL = 4 };

#define EXAMPLE "backwall: start 2 us, width 20 us, level 0.1 V, flank"

static int parse_name(const char *text, char name[OPTION_NAME_BYTES], struct problem *problem)
{
    if (!option_name_valid(text))
        return problem_set(problem, ERROR_CONFIG,
                           "`gate`: `%.*s` is no name of a gate; write letters, digits, _ - and . "
                           "only, as in %s",
                           OPTION_QUOTE, text, EXAMPLE);
    snprintf(name, OPTION_NAME_BYTES, "%s", text);
    return 0;
}

static int parse_time(const struct part *part, const char *text, double *seconds,
                      struct problem *problem)
{
    struct quantity quantity;
    struct problem detail;
    if (quantity_parse(text, DIMENSION_TIME, &quantity, &detail) != 0)
        return problem_set(problem, ERROR_CONFIG, "`gate`: %s: %s", part->word, detail.text);
    const bool zero = quantity.dimension == DIMENSION_NUMBER && quantity.digits == 0;
    *seconds = quantity_value(&quantity);
    if ((quantity.dimension != DIMENSION_TIME && !zero) || *seconds > 3600)
        return problem_set(problem, ERROR_CONFIG,
                           "`gate`: `%s %.*s` is no time of at most an hour; write one, as in %s "
                           "2 us",
                           part->word, OPTION_QUOTE, text, part->word);
    return 0;
}

static int parse_level(const char *text, struct gate_line *gate, struct problem *problem)
{
    const struct option_row row = {.key = "gate"};
    struct option_value level = {.text = text};
    if (strlen(text) >= sizeof gate->level)
        return problem_set(problem, ERROR_CONFIG, "`gate`: `level %.*s` is no level; write a %s",
                           OPTION_QUOTE, text, LEVEL_WORDS);
    if (level_parse(&row, text, &level, problem) != 0)
        return ERROR_CONFIG;
    if (level.dimension != DIMENSION_DECIBEL && !(level.number > 0))
        return problem_set(problem, ERROR_CONFIG,
                           "`gate`: a level of `%s` would always be passed; write more than 0",
                           text);
    snprintf(gate->level, sizeof gate->level, "%s", text);
    return 0;
}

bool gate_level(const struct option_check *check, const struct gate_line *gate,
                const struct level_scale *scale, double *level)
{
    struct problem problem;
    if (level_read(gate->level, scale, level, &problem) == 0)
        return true;
    if (check != NULL)
        option_error(check, "gate", "gate %s: %s", gate->name, problem.text);
    *level = NAN;
    return false;
}

static int parse_part(const struct part *part, const char *text, struct gate_line *gate,
                      struct problem *problem)
{
    switch (part->kind) {
    case PART_NAME:
        return parse_name(text, (char *)gate + part->offset, problem);
    case PART_TIME:
        return parse_time(part, text, (double *)(void *)((char *)gate + part->offset), problem);
    case PART_LEVEL:
        return parse_level(text, gate, problem);
    case PART_MEASURE:
        gate->measure = (enum gate_measure)part->value;
        if (text[0] == '\0')
            return 0;
        break;
    case PART_ALARM:
        gate->alarm_absent = strcmp(text, "absent") == 0;
        if (gate->alarm_absent || strcmp(text, "present") == 0)
            return 0;
        return problem_set(problem, ERROR_CONFIG,
                           "`gate`: `alarm %.*s`: write alarm present or alarm absent",
                           OPTION_QUOTE, text);
    }
    return problem_set(problem, ERROR_CONFIG, "`gate`: nothing follows `%s`; remove `%.*s`",
                       part->word, OPTION_QUOTE, text);
}

/* Ends the text before the next of `separators` and trims it; *rest is what follows. */
static char *split(char *text, const char *separators, char **rest)
{
    char *end = text + strcspn(text, separators);
    *rest = *end != '\0' ? end + 1 : end;
    *end = '\0';
    text += strspn(text, " \t");
    for (end = text + strlen(text); end > text && (end[-1] == ' ' || end[-1] == '\t');)
        *--end = '\0';
    return text;
}

int gate_parse(const char *text, struct gate_line *gate, struct problem *problem)
{
    char line[512];
    unsigned given = 0;
    *gate = (struct gate_line){.measure = GATE_PEAK};
    if (strlen(text) >= sizeof line || strchr(text, ':') == NULL)
        return problem_set(problem, ERROR_CONFIG,
                           "`gate`: `%.*s` is no gate; write its name, a colon and its parts, as "
                           "in %s",
                           OPTION_QUOTE, text, EXAMPLE);
    snprintf(line, sizeof line, "%s", text);
    char *rest;
    if (parse_name(split(line, ":", &rest), gate->name, problem) != 0)
        return ERROR_CONFIG;
    while (*rest != '\0') {
        char *value, *words = split(rest, ",", &rest);
        const char *word = split(words, " \t", &value);
        const struct part *part = parts;
        while (part < parts + PARTS && strcmp(part->word, word) != 0)
            part++;
        if (part == parts + PARTS)
            return problem_set(problem, ERROR_CONFIG,
                               "`gate`: %s: `%.*s` is no part of a gate; write start, width, "
                               "level, after, gap, peak, flank, j-flank or alarm, as in %s",
                               gate->name, OPTION_QUOTE, word, EXAMPLE);
        if ((given & 1u << part->group) != 0)
            return problem_set(problem, ERROR_CONFIG, "`gate`: %s: a second `%s`; write one",
                               gate->name, word);
        given |= 1u << part->group;
        char *end;
        if (parse_part(part, split(value, ",", &end), gate, problem) != 0)
            return ERROR_CONFIG;
    }
    if ((given & 1u << GROUP_LEVEL) == 0 || !(gate->width_s > 0))
        return problem_set(problem, ERROR_CONFIG, "`gate`: %s has no %s; write one, as in %s",
                           gate->name, gate->width_s > 0 ? "level" : "width", EXAMPLE);
    return 0;
}

/* ---- echoes ------------------------------------------------------------------------------ */

static double rectified(const struct gate_trace *trace, uint32_t i)
{
    const double x = trace->x[i];
    return trace->rectify == GATE_FULL ? fabs(x) : trace->rectify == GATE_NEGATIVE ? -x : x;
}

/* Where the trace crosses the level on its way up to sample i, which is above it. */
static double crossing(const struct gate_trace *trace, uint32_t i, double level)
{
    if (i == 0 || rectified(trace, i - 1) > level)
        return i;
    const double sign = rectified(trace, i) == trace->x[i] ? 1 : -1;
    const double before = sign * trace->x[i - 1], here = sign * trace->x[i];
    return i - 1 + (level - before) / (here - before);
}

/* The vertex of the parabola through sample i and its neighbours. */
static double vertex(const struct gate_trace *trace, uint32_t i)
{
    if (i == 0 || i + 1 >= trace->count)
        return i;
    const double sign = rectified(trace, i) == trace->x[i] ? 1 : -1;
    const double before = sign * trace->x[i - 1], here = sign * trace->x[i];
    const double behind = sign * trace->x[i + 1], bend = before - 2 * here + behind;
    if (before > here || behind > here || !(bend < 0))
        return i;
    return i + 0.5 * (before - behind) / bend;
}

struct gate_echo gate_find(const struct gate *gate, const struct gate_trace *trace, double base,
                           double level)
{
    struct gate_echo echo = {NAN, NAN};
    const double begin = round(base + gate->start + trace->zero);
    const double end = begin + fmax(1, round(gate->width));
    if (!(end > 0 && begin < trace->count))
        return echo;
    const uint32_t from = begin > 0 ? (uint32_t)begin : 0;
    const uint32_t until = end < trace->count ? (uint32_t)end : trace->count;
    uint32_t highest = from, first = until, above = until; /* above: the last one above the level */
    for (uint32_t i = from; i < until; i++) {
        const double x = rectified(trace, i);
        if (x > level) {
            if (gate->measure == GATE_J_FLANK && first < until && i - above > gate->gap + 1)
                break;
            first = first < until ? first : i;
            above = i;
        }
        if (x > rectified(trace, highest))
            highest = i;
    }
    echo.height = rectified(trace, highest);
    if (first < until)
        echo.time =
            (gate->measure == GATE_PEAK ? vertex(trace, highest) : crossing(trace, first, level)) -
            trace->zero;
    return echo;
}

bool gate_alarms(const struct gate *gate, const struct gate_echo *echo)
{
    return isnan(echo->time) == gate->alarm_absent;
}
