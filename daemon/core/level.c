/* Levels: see level.h. */
#include "core/level.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { PART_BYTES = 48 };

enum level_kind {
    LEVEL_NUMBER,     /* without a unit */
    LEVEL_AMPLITUDE,  /* number and unit */
    LEVEL_DECIBELS,   /* re the reference of the channel's unit */
    LEVEL_AE,         /* dB re 1 uV */
    LEVEL_RE,         /* dB re a reference that is written */
    LEVEL_DBFS,       /* dB re full scale */
    LEVEL_FULL_SCALE, /* share of full scale: "10 %" */
};

struct level {
    enum level_kind kind;
    struct quantity number;    /* in dB, of the share, or the amplitude */
    struct quantity reference; /* of LEVEL_RE, an amplitude */
};

/* ---- units ------------------------------------------------------------------------------- */

/* The amplitude of 0 dB: ISO 1683:2015 table 1, and 1 uV of dB(AE). */
static const struct {
    const char *unit;
    double reference;
} references[] = {
    {"V", 1e-6},   {"m/s2", 1e-6}, {"m/s\u00b2", 1e-6}, {"m/s^2", 1e-6}, {"g", 1e-6 / 9.80665},
    {"m/s", 1e-9}, {"Pa", 1e-6},   {"m", 1e-12},        {"N", 1e-6},
};

static bool find_reference(const char *unit, double *reference)
{
    for (size_t i = 0; i < sizeof references / sizeof references[0]; i++) {
        int exponent;
        if (quantity_unit_exponent(references[i].unit, unit, &exponent)) {
            *reference = references[i].reference * pow(10.0, exponent);
            return true;
        }
    }
    *reference = 1.0;
    return false;
}

double level_reference(const char *unit)
{
    double reference;
    find_reference(unit, &reference);
    return reference;
}

static bool is_share(const char *unit)
{
    return unit[0] == '\0' || strcmp(unit, LEVEL_FULL_SCALE_UNIT) == 0;
}

static bool is_volts(const char *unit)
{
    int exponent;
    return quantity_unit_exponent(unit, "V", &exponent);
}

/* Units of acceleration, with their size in m/s2. */
static bool find_acceleration(const char *unit, int *exponent, double *size)
{
    static const struct {
        const char *unit;
        double size;
    } units[] = {{"m/s2", 1}, {"m/s\u00b2", 1}, {"m/s^2", 1}, {"g", 9.80665}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (quantity_unit_exponent(unit, units[i].unit, exponent)) {
            *size = units[i].size;
            return true;
        }
    return false;
}

/* An amplitude in `unit`; false: its own unit is of another kind. */
static bool convert(struct quantity amplitude, const char *unit, double *out)
{
    int exponent, from, to;
    double size_from, size_to;
    if (quantity_unit_exponent(amplitude.unit, unit, &exponent)) {
        /* Through the decimal exponent, so that 10 mV in V is the double nearest to 0.01. */
        amplitude.exponent += amplitude.digits == 0 ? 0 : exponent;
        *out = quantity_value(&amplitude);
        return true;
    }
    if (!find_acceleration(amplitude.unit, &from, &size_from) ||
        !find_acceleration(unit, &to, &size_to))
        return false;
    amplitude.exponent += amplitude.digits == 0 ? 0 : from - to;
    *out = quantity_value(&amplitude) * (size_from / size_to);
    return true;
}

/* Whether a level can be written in this unit. */
static bool is_writable(const char *unit)
{
    char text[PART_BYTES];
    struct quantity quantity;
    snprintf(text, sizeof text, "1 %s", unit);
    return quantity_parse(text, DIMENSION_AMPLITUDE, &quantity, NULL) == 0 &&
           quantity.dimension == DIMENSION_AMPLITUDE && strcmp(quantity.unit, unit) == 0;
}

const char *level_unit(const char *unit)
{
    return !is_share(unit) && is_writable(unit) ? unit : "";
}

/* ---- reading ----------------------------------------------------------------------------- */

/* The dB behind the number; NULL: there are none. */
static const char *find_decibels(const char *text)
{
    const char *at = text + strspn(text, " \t+-.0123456789eE");
    return at > text && strncasecmp(at, "dB", 2) == 0 ? at : NULL;
}

/* Copies the text without blanks at its ends and without brackets around it. False: too long. */
static bool trim(const char *text, char out[PART_BYTES])
{
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        length--;
    if (length > 1 && text[0] == '(' && text[length - 1] == ')') {
        text++;
        length -= 2;
    }
    if (length >= PART_BYTES)
        return false;
    memcpy(out, text, length);
    out[length] = '\0';
    return true;
}

/* "1 uV", "20 uPa", "V". */
static bool read_reference(const char *text, struct quantity *reference)
{
    char one[PART_BYTES + 2];
    snprintf(one, sizeof one, isdigit((unsigned char)text[0]) || text[0] == '.' ? "%s" : "1 %s",
             text);
    return quantity_parse(one, DIMENSION_AMPLITUDE, reference, NULL) == 0 &&
           reference->dimension == DIMENSION_AMPLITUDE && !reference->negative &&
           reference->digits != 0;
}

/* Reads the reference after "dB": "(AE)", "FS", "re 1 uV" or none. */
static bool read_decibels(const char *text, struct level *level)
{
    char what[PART_BYTES] = "";
    if (!trim(text, what))
        return false;
    const char *re = strncasecmp(what, "re", 2) == 0 ? what + 2 : what;
    if (re > what && *re != '\0' && strchr(" \t.:", *re) == NULL)
        return false;
    re += strspn(re, " \t.:");
    const bool bracketed = strchr(text, '(') != NULL;
    if (what[0] == '\0') {
        level->kind = LEVEL_DECIBELS;
        return !bracketed;
    }
    if (strcasecmp(re, "FS") == 0 || strcasecmp(re, "full scale") == 0) {
        level->kind = LEVEL_DBFS;
        return true;
    }
    if (strcasecmp(what, "AE") == 0 || strcasecmp(what, "_AE") == 0) {
        level->kind = LEVEL_AE;
        return true;
    }
    level->kind = LEVEL_RE;
    if (!read_reference(re, &level->reference))
        return false;
    /* Behind dB without a word between them only volts are usual: dBA and dBm mean other things. */
    return re > what || bracketed || is_volts(level->reference.unit);
}

static int no_level(const char *text, struct problem *problem)
{
    return problem_set(problem, ERROR_CONFIG, "`%.*s` is no level; write a %s", OPTION_QUOTE, text,
                       LEVEL_WORDS);
}

static int read_level(const char *text, struct level *level, struct problem *problem)
{
    const char *decibels = find_decibels(text);
    *level = (struct level){.kind = LEVEL_NUMBER};
    if (decibels != NULL) {
        char number[PART_BYTES];
        if (decibels - text >= PART_BYTES - 4)
            return no_level(text, problem);
        snprintf(number, sizeof number, "%.*s %.2s", (int)(decibels - text), text, decibels);
        const int status = quantity_parse(number, DIMENSION_DECIBEL, &level->number, problem);
        if (status == 0 && level->number.dimension == DIMENSION_DECIBEL)
            return read_decibels(decibels + 2, level) ? 0 : no_level(text, problem);
        if (status != 0)
            return ERROR_CONFIG;
    }
    if (quantity_parse(text, DIMENSION_AMPLITUDE, &level->number, problem) != 0)
        return ERROR_CONFIG;
    switch (level->number.dimension) {
    case DIMENSION_NUMBER:
        return 0;
    case DIMENSION_AMPLITUDE:
        level->kind = LEVEL_AMPLITUDE;
        return 0;
    case DIMENSION_RATIO:
        level->kind = LEVEL_FULL_SCALE;
        return 0;
    default:
        return problem_set(problem, ERROR_CONFIG, "`%.*s` is %s; write a %s", OPTION_QUOTE, text,
                           dimension_words(level->number.dimension), LEVEL_WORDS);
    }
}

static bool in_decibels(const struct level *level)
{
    return level->kind == LEVEL_DECIBELS || level->kind == LEVEL_AE || level->kind == LEVEL_RE ||
           level->kind == LEVEL_DBFS;
}

int level_parse(const struct option_row *row, const char *text, struct option_value *value,
                struct problem *problem)
{
    struct level level;
    struct problem detail;
    if (read_level(text, &level, &detail) != 0)
        return problem_set(problem, ERROR_CONFIG, "`%s`: %s", row->key, detail.text);
    value->number = quantity_value(&level.number);
    value->dimension = level.number.dimension;
    snprintf(value->unit, sizeof value->unit, "%s", level.number.unit);
    if (in_decibels(&level) ? fabs(value->number) > 1000 : fabs(value->number) > 1e30)
        return problem_set(problem, ERROR_CONFIG, "`%s = %.*s` is out of range; write a %s",
                           row->key, OPTION_QUOTE, text, LEVEL_WORDS);
    if (value->number < 0 && row->minimum >= 0 && !in_decibels(&level))
        return problem_set(problem, ERROR_CONFIG, "`%s = %.*s` is below 0; write a %s", row->key,
                           OPTION_QUOTE, text, LEVEL_WORDS);
    return 0;
}

/* ---- amplitudes -------------------------------------------------------------------------- */

/* Without the prefix of SI, where what remains is a unit of the table: "mV" is one of "V". */
static const char *base_of(const char *unit)
{
    const char *base = unit;
    for (size_t i = 0; i < sizeof references / sizeof references[0]; i++) {
        const size_t length = strlen(unit), known = strlen(references[i].unit);
        int exponent;
        if (strcmp(unit, references[i].unit) == 0)
            return unit;
        if (length > known && strcmp(unit + length - known, references[i].unit) == 0 &&
            quantity_unit_exponent(unit, references[i].unit, &exponent))
            base = unit + length - known;
    }
    return base;
}

/* The number as it was written. */
static int digits_of(const char *text)
{
    return (int)strspn(text, "+-.0123456789eE");
}

static int refuse_number(const char *text, const char *unit, struct problem *problem)
{
    const char *base = base_of(unit);
    const int digits = digits_of(text);
    double reference;
    if (is_volts(unit))
        return problem_set(problem, ERROR_CONFIG,
                           "`%.*s` has no unit; write %.*s dB(AE), %.*s mV or %.*s V", OPTION_QUOTE,
                           text, digits, text, digits, text, digits, text);
    if (find_reference(unit, &reference))
        return problem_set(problem, ERROR_CONFIG, "`%.*s` has no unit; write %.*s dB or %.*s %s",
                           OPTION_QUOTE, text, digits, text, digits, text, base);
    return problem_set(problem, ERROR_CONFIG, "`%.*s` has no unit; write %.*s %s", OPTION_QUOTE,
                       text, digits, text, unit);
}

/* Nobody means 40 times full scale. */
static int refuse_share(const char *text, struct problem *problem)
{
    const int digits = digits_of(text);
    return problem_set(problem, ERROR_CONFIG,
                       "`%.*s` has no unit, and the channel is not calibrated: that is %.*s times "
                       "full scale; write the stream's `full scale`, as full scale = 10 V, and "
                       "%.*s dB(AE), or a level in dBFS",
                       OPTION_QUOTE, text, digits, text, digits, text);
}

/* "40 mv" for 40 mV: the same unit but for the case of its letters. */
static bool find_case(const char *wrong, const char *unit, char out[PART_BYTES])
{
    static const char *const prefixes[] = {"", "p", "n", "u", "m", "k", "M", "G"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        snprintf(out, PART_BYTES, "%s%s", prefixes[i], base_of(unit));
        if (strcasecmp(out, wrong) == 0)
            return true;
    }
    return false;
}

static int refuse_unit(const char *text, const char *wrong, const char *unit,
                       struct problem *problem)
{
    char right[PART_BYTES];
    if (find_case(wrong, unit, right))
        return problem_set(problem, ERROR_CONFIG,
                           "`%.*s` is in %s, but the unit here is %s; write %.*s %s", OPTION_QUOTE,
                           text, wrong, unit, digits_of(text), text, right);
    if (is_share(unit))
        return problem_set(problem, ERROR_CONFIG,
                           "`%.*s` is in %s, but the channel is not calibrated; write the stream's "
                           "`full scale`, as full scale = 10 V, or a level in dBFS",
                           OPTION_QUOTE, text, wrong);
    return problem_set(problem, ERROR_CONFIG,
                       "`%.*s` is in %s, but the unit here is %s; write it in %s, or set `unit`",
                       OPTION_QUOTE, text, wrong, unit, unit);
}

/* A share of full scale. */
static int of_full_scale(const char *text, double share, const struct level_scale *scale,
                         double *amplitude, struct problem *problem)
{
    const double full_scale =
        scale->full_scale > 0 ? scale->full_scale : (double)is_share(scale->unit);
    if (!(full_scale > 0))
        return problem_set(problem, ERROR_CONFIG,
                           "`%.*s` is a share of full scale, which is not known here; write the "
                           "level in %s",
                           OPTION_QUOTE, text, scale->unit);
    *amplitude = share * full_scale;
    return 0;
}

/* A number with a unit. */
static int of_amplitude(const char *text, const struct level *level,
                        const struct level_scale *scale, double *amplitude, struct problem *problem)
{
    if (convert(level->number, scale->unit, amplitude))
        return 0;
    if (strcmp(level->number.unit, LEVEL_FULL_SCALE_UNIT) == 0)
        return of_full_scale(text, quantity_value(&level->number), scale, amplitude, problem);
    return refuse_unit(text, level->number.unit, scale->unit, problem);
}

int level_read(const char *text, const struct level_scale *scale, double *amplitude,
               struct problem *problem)
{
    struct level level;
    double reference;
    *amplitude = 0;
    if (read_level(text, &level, problem) != 0)
        return ERROR_CONFIG;
    const double number = quantity_value(&level.number);
    const double ratio = in_decibels(&level) ? pow(10.0, number / 20.0) : 0;
    switch (level.kind) {
    case LEVEL_NUMBER:
        if (number != 0 && !is_share(scale->unit) && is_writable(scale->unit))
            return refuse_number(text, scale->unit, problem);
        if (is_share(scale->unit) && fabs(number) > 1)
            return refuse_share(text, problem);
        *amplitude = number;
        return 0;
    case LEVEL_AMPLITUDE:
        return of_amplitude(text, &level, scale, amplitude, problem);
    case LEVEL_DECIBELS:
        *amplitude = level_reference(scale->unit) * ratio;
        return 0;
    case LEVEL_AE:
        if (!is_volts(scale->unit))
            return refuse_unit(text, "dB re 1 uV", scale->unit, problem);
        *amplitude = level_reference(scale->unit) * ratio;
        return 0;
    case LEVEL_RE:
        if (!convert(level.reference, scale->unit, &reference))
            return refuse_unit(text, level.reference.unit, scale->unit, problem);
        *amplitude = reference * ratio;
        return 0;
    case LEVEL_DBFS:
        return of_full_scale(text, ratio, scale, amplitude, problem);
    case LEVEL_FULL_SCALE:
        if (strcmp(scale->unit, "%") == 0) {
            *amplitude = 100 * number;
            return 0;
        }
        return of_full_scale(text, number, scale, amplitude, problem);
    }
    return ERROR_CONFIG;
}

bool level_amplitude(const struct option_check *check, const char *key,
                     const struct option_value *value, const struct level_scale *scale, double *out)
{
    struct problem problem;
    if (level_read(value->text, scale, out, &problem) == 0)
        return true;
    if (check != NULL) {
        /* "`40` has no unit" becomes "`threshold = 40` has no unit". */
        const char *rest = problem.text + 1;
        rest += strncmp(rest, value->text, strlen(value->text)) == 0 ? strlen(value->text) : 0;
        option_error(check, key, "`%s = %s%s", key, value->text, rest);
    }
    return false;
}

/* ---- what cannot be meant ---------------------------------------------------------------- */

bool level_warn(const struct option_check *check, const char *key, const char *name,
                const char *text, double amplitude, const struct level_scale *scale)
{
    if (scale->full_scale > 0 && amplitude >= scale->full_scale) {
        option_warning(check, key,
                       "`%s %s` is not below full scale, %.4g %s at the sensor: a sample passes it "
                       "only behind a filter that amplifies; write less",
                       name, text, scale->full_scale, scale->unit);
        return true;
    }
    if (is_share(scale->unit) && amplitude != 0) {
        option_warning(check, key,
                       "`%s %s` is %.4g of full scale, since the channel is not calibrated; write "
                       "the stream's `full scale`, as full scale = 10 V, and the level in its unit",
                       name, text, amplitude);
        return true;
    }
    if (amplitude > 0 && amplitude < scale->step) {
        option_warning(check, key,
                       "`%s %s` is below one step of the converter, %.4g %s at the sensor; write "
                       "more, or correct `full scale`, `preamp` or `bits`",
                       name, text, scale->step, scale->unit);
        return true;
    }
    return false;
}
