/*
 * Quantities: see quantity.h. The digits stay an integer and scaling moves the decimal exponent;
 * strtod makes the double at the end, and rounds correctly. Integers never pass through a double.
 * Pure functions, any thread.
 */
#include "core/quantity.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    DIGITS_MAX = 18,    /* significant digits that fit 64 bits whatever they are */
    EXPONENT_MAX = 200, /* with digits and unit, a double still holds it */
    QUOTE_BYTES = 48,   /* how much of a bad text a message repeats */
};

struct unit {
    const char *name;
    enum dimension dimension;
    uint64_t factor;
    int exponent;
};

/* The first row of each dimension and size is the one that messages print. */
static const struct unit units[] = {
    {"Hz", DIMENSION_FREQUENCY, 1, 0},
    {"kHz", DIMENSION_FREQUENCY, 1, 3},
    {"MHz", DIMENSION_FREQUENCY, 1, 6},
    {"GHz", DIMENSION_FREQUENCY, 1, 9},
    {"S/s", DIMENSION_FREQUENCY, 1, 0},
    {"kS/s", DIMENSION_FREQUENCY, 1, 3},
    {"MS/s", DIMENSION_FREQUENCY, 1, 6},
    {"GS/s", DIMENSION_FREQUENCY, 1, 9},
    {"/s", DIMENSION_FREQUENCY, 1, 0},
    {"s", DIMENSION_TIME, 1, 0},
    {"ms", DIMENSION_TIME, 1, -3},
    {"us", DIMENSION_TIME, 1, -6},
    {"µs", DIMENSION_TIME, 1, -6}, /* U+00B5 micro sign */
    {"μs", DIMENSION_TIME, 1, -6}, /* U+03BC Greek mu */
    {"ns", DIMENSION_TIME, 1, -9},
    {"min", DIMENSION_TIME, 60, 0},
    {"h", DIMENSION_TIME, 3600, 0},
    {"d", DIMENSION_TIME, 86400, 0},
    {"sec", DIMENSION_TIME, 1, 0},
    {"hour", DIMENSION_TIME, 3600, 0},
    {"hours", DIMENSION_TIME, 3600, 0},
    {"day", DIMENSION_TIME, 86400, 0},
    {"days", DIMENSION_TIME, 86400, 0},
    {"B", DIMENSION_MEMORY, 1, 0},
    {"KiB", DIMENSION_MEMORY, UINT64_C(1) << 10, 0},
    {"MiB", DIMENSION_MEMORY, UINT64_C(1) << 20, 0},
    {"GiB", DIMENSION_MEMORY, UINT64_C(1) << 30, 0},
    {"TiB", DIMENSION_MEMORY, UINT64_C(1) << 40, 0},
    {"kB", DIMENSION_MEMORY, 1, 3},
    {"MB", DIMENSION_MEMORY, 1, 6},
    {"GB", DIMENSION_MEMORY, 1, 9},
    {"TB", DIMENSION_MEMORY, 1, 12},
    {"bytes", DIMENSION_MEMORY, 1, 0},
    {"dB", DIMENSION_DECIBEL, 1, 0},
    {"%", DIMENSION_RATIO, 1, -2},
    {"frames", DIMENSION_FRAMES, 1, 0},
    {"frame", DIMENSION_FRAMES, 1, 0},
    {"samples", DIMENSION_FRAMES, 1, 0},
    {"deg", DIMENSION_ANGLE, 1, 0},
    {"°", DIMENSION_ANGLE, 1, 0},
    {"m", DIMENSION_LENGTH, 1, 0},
    {"km", DIMENSION_LENGTH, 1, 3},
    {"cm", DIMENSION_LENGTH, 1, -2},
    {"mm", DIMENSION_LENGTH, 1, -3},
    {"um", DIMENSION_LENGTH, 1, -6},
    {"µm", DIMENSION_LENGTH, 1, -6}, /* U+00B5 */
    {"μm", DIMENSION_LENGTH, 1, -6}, /* U+03BC */
    {"m/s", DIMENSION_VELOCITY, 1, 0},
    {"km/s", DIMENSION_VELOCITY, 1, 3},
    {"mm/us", DIMENSION_VELOCITY, 1, 3},
    {"mm/µs", DIMENSION_VELOCITY, 1, 3}, /* U+00B5 */
    {"mm/μs", DIMENSION_VELOCITY, 1, 3}, /* U+03BC */
};

enum { UNITS = sizeof units / sizeof units[0] };

const char *dimension_words(enum dimension dimension)
{
    static const char *const words[] = {
#define X(name, text, example) text,
        DIMENSION_TABLE(X)
#undef X
    };
    assert((unsigned)dimension < DIMENSIONS);
    return words[dimension];
}

const char *dimension_example(enum dimension dimension)
{
    static const char *const examples[] = {
#define X(name, text, example) example,
        DIMENSION_TABLE(X)
#undef X
    };
    assert((unsigned)dimension < DIMENSIONS);
    return examples[dimension];
}

/* ---- reading ----------------------------------------------------------------------------- */

/* A number while it is read character by character. */
struct number {
    bool negative;
    uint64_t digits;
    unsigned significant; /* digits in `digits`, leading zeros apart */
    int exponent;
    bool any; /* at least one digit */
    bool too_long;
};

static void number_digit(struct number *number, int digit, bool fraction)
{
    number->any = true;
    if (number->significant == 0 && digit == 0) {
        if (fraction)
            number->exponent--;
        return;
    }
    if (number->significant == DIGITS_MAX) {
        /* Zeros beyond the last digit change nothing but the exponent. */
        if (digit != 0)
            number->too_long = true;
        else if (!fraction)
            number->exponent++;
        return;
    }
    number->digits = number->digits * 10 + (uint64_t)digit;
    number->significant++;
    if (fraction)
        number->exponent--;
}

/* Reads sign, digits, point and exponent; returns the first character after them. */
static const char *number_read(const char *text, struct number *number)
{
    const char *at = text;
    *number = (struct number){0};
    if (*at == '+' || *at == '-')
        number->negative = *at++ == '-';
    for (bool fraction = false;; at++) {
        if (isdigit((unsigned char)*at)) {
            number_digit(number, *at - '0', fraction);
        } else if (*at == '.' && !fraction) {
            fraction = true;
        } else {
            break;
        }
    }
    /* An exponent only when digits follow: the E of a unit must stay one. */
    if ((*at == 'e' || *at == 'E') && number->any) {
        const char *power = at + 1;
        bool down = *power == '-';
        if (*power == '+' || *power == '-')
            power++;
        if (isdigit((unsigned char)*power)) {
            int value = 0;
            for (; isdigit((unsigned char)*power); power++)
                value = value > 10000 ? value : value * 10 + (*power - '0');
            number->exponent += down ? -value : value;
            at = power;
        }
    }
    return at;
}

static bool geometric(enum dimension dimension)
{
    return dimension == DIMENSION_LENGTH || dimension == DIMENSION_VELOCITY;
}

/* Metres are units of length only where a length or a velocity is expected: elsewhere they are an
 * amplitude's (vibration in mm/s). */
static bool unit_counts(const struct unit *unit, enum dimension expect)
{
    return !geometric(unit->dimension) || geometric(expect);
}

static const struct unit *unit_find(const char *name, enum dimension expect)
{
    for (int i = 0; i < UNITS; i++)
        if (strcmp(units[i].name, name) == 0 && unit_counts(&units[i], expect))
            return &units[i];
    return NULL;
}

/* The unit that differs only in case, first among those of the expected dimension. */
static const struct unit *unit_suggestion(const char *name, enum dimension expect)
{
    for (int i = 0; i < UNITS; i++)
        if (strcasecmp(units[i].name, name) == 0 && units[i].dimension == expect)
            return &units[i];
    for (int i = 0; i < UNITS; i++)
        if (strcasecmp(units[i].name, name) == 0 && unit_counts(&units[i], expect))
            return &units[i];
    return NULL;
}

static bool unit_plausible(const char *name)
{
    if (strlen(name) >= QUANTITY_UNIT_BYTES || isdigit((unsigned char)name[0]))
        return false;
    for (const char *at = name; *at != '\0'; at++)
        if (!isalnum((unsigned char)*at) && strchr("/^_%*", *at) == NULL &&
            (unsigned char)*at < 0x80)
            return false;
    return true;
}

/* Bytes of a separator of groups of digits; 0: none. The last three are the narrow, the thin and
 * the usual no-break space. */
static size_t separator_bytes(const char *text)
{
    static const char *const separators[] = {
        ",", ".", "'", "_", " ", "’", "·", "\xe2\x80\xaf", "\xe2\x80\x89", "\xc2\xa0"};
    for (size_t i = 0; i < sizeof separators / sizeof *separators; i++)
        if (strncmp(text, separators[i], strlen(separators[i])) == 0)
            return strlen(separators[i]);
    return 0;
}

/* Whether the number's digits are in groups of three, as in 5,000,000 or 5 000: `joined` is then
 * the text without their separators. One comma or point between digits may be decimal, and counts
 * as no separator. */
static bool join_groups(const char *text, size_t length, char joined[QUOTE_BYTES])
{
    const size_t first = strspn(text, "0123456789");
    const size_t separator = separator_bytes(text + first);
    size_t used = first, at = first;
    unsigned groups = 0;
    if (first == 0 || first > 3 || separator == 0 || length >= QUOTE_BYTES)
        return false;
    memcpy(joined, text, first);
    while (strncmp(text + at, text + first, separator) == 0 &&
           strspn(text + at + separator, "0123456789") == 3) {
        memcpy(joined + used, text + at + separator, 3);
        used += 3;
        at += separator + 3;
        groups++;
    }
    if (groups == 0 || (groups == 1 && (text[first] == ',' || text[first] == '.')))
        return false;
    memcpy(joined + used, text + at, length - at);
    joined[used + length - at] = '\0';
    return true;
}

int quantity_parse(const char *text, enum dimension expect, struct quantity *quantity,
                   struct problem *problem)
{
    char joined[QUOTE_BYTES];
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        length--;
    if (length == 0)
        return problem_set(problem, ERROR_FORMAT, "the value is empty; write %s, as in %s",
                           dimension_words(expect), dimension_example(expect));

    if (join_groups(text, length, joined))
        return problem_set(problem, ERROR_FORMAT,
                           "`%.*s` has its digits in groups; write them without separators: %s",
                           (int)length, text, joined);
    struct number number;
    const char *rest = number_read(text, &number);
    int number_length = (int)(rest - text);
    if (!number.any)
        return problem_set(problem, ERROR_FORMAT, "`%.*s` is not a number; write %s, as in %s",
                           length < QUOTE_BYTES ? (int)length : QUOTE_BYTES, text,
                           dimension_words(expect), dimension_example(expect));
    if (number.too_long)
        return problem_set(problem, ERROR_FORMAT,
                           "the number has more than %d significant digits; write fewer",
                           DIGITS_MAX);
    if (number.exponent > EXPONENT_MAX || number.exponent < -EXPONENT_MAX)
        return problem_set(
            problem, ERROR_FORMAT,
            "the number is too large or too small for any setting; write %s, as in %s",
            dimension_words(expect), dimension_example(expect));

    while (isspace((unsigned char)*rest))
        rest++;
    size_t unit_length = length - (size_t)(rest - text);
    char unit[QUOTE_BYTES + 1];
    snprintf(unit, sizeof unit, "%.*s", unit_length < QUOTE_BYTES ? (int)unit_length : QUOTE_BYTES,
             rest);
    if (unit[0] == ',')
        return problem_set(problem, ERROR_FORMAT,
                           "`%.*s` has a comma; write decimals with a point, as in 1.5, and "
                           "thousands without a separator, as in 1500",
                           length < QUOTE_BYTES ? (int)length : QUOTE_BYTES, text);

    *quantity = (struct quantity){
        .dimension = DIMENSION_NUMBER,
        .negative = number.negative && number.digits != 0,
        .digits = number.digits,
        .factor = 1,
        .exponent = number.digits == 0 ? 0 : number.exponent,
    };
    if (unit[0] == '\0')
        return 0;
    const struct unit *row = unit_find(unit, expect);
    if (row == NULL) {
        const struct unit *suggestion = unit_suggestion(unit, expect);
        /* An amplitude may have any unit; where none is expected it is a misspelling. */
        if (expect != DIMENSION_AMPLITUDE && suggestion != NULL)
            return problem_set(problem, ERROR_FORMAT, "`%s` is not a unit; write %.*s %s", unit,
                               number_length < QUOTE_BYTES ? number_length : QUOTE_BYTES, text,
                               suggestion->name);
        if (!unit_plausible(unit) || expect != DIMENSION_AMPLITUDE)
            return problem_set(problem, ERROR_FORMAT, "`%s` is not a unit; write %s, as in %s",
                               unit, dimension_words(expect), dimension_example(expect));
        quantity->dimension = DIMENSION_AMPLITUDE;
    } else {
        quantity->dimension = row->dimension;
        quantity->factor = row->factor;
        quantity->exponent += number.digits == 0 ? 0 : row->exponent;
    }
    snprintf(quantity->unit, sizeof quantity->unit, "%.*s", QUANTITY_UNIT_BYTES - 1, unit);
    return 0;
}

/* ---- values ------------------------------------------------------------------------------ */

double quantity_value(const struct quantity *quantity)
{
    unsigned __int128 product = (unsigned __int128)quantity->digits * quantity->factor;
    char text[64];
    char *at = text + sizeof text;
    at -= 16;
    snprintf(at, 16, "e%d", quantity->exponent);
    do {
        *--at = (char)('0' + (int)(product % 10));
        product /= 10;
    } while (product != 0);
    if (quantity->negative)
        *--at = '-';
    return strtod(at, NULL);
}

int quantity_integer(const struct quantity *quantity, int scale, int64_t *value)
{
    unsigned __int128 product = (unsigned __int128)quantity->digits * quantity->factor;
    int exponent = quantity->exponent + scale;
    for (; product != 0 && exponent < 0; exponent++) {
        if (product % 10 != 0)
            return ERROR_FORMAT;
        product /= 10;
    }
    for (; product != 0 && exponent > 0; exponent--) {
        if (product > INT64_MAX)
            return ERROR_LIMIT;
        product *= 10;
    }
    if (product > INT64_MAX)
        return ERROR_LIMIT;
    *value = quantity->negative ? -(int64_t)product : (int64_t)product;
    return 0;
}

/* ---- amplitudes' units ------------------------------------------------------------------- */

struct prefix {
    const char *text;
    int exponent;
};

static const struct prefix prefixes[] = {
    {"", 0},   {"p", -12}, {"n", -9}, {"u", -6}, {"µ", -6}, /* U+00B5 */
    {"μ", -6},                                              /* U+03BC */
    {"m", -3}, {"k", 3},   {"M", 6},  {"G", 9},
};

enum { PREFIXES = sizeof prefixes / sizeof prefixes[0] };

bool quantity_unit_exponent(const char *from, const char *to, int *exponent)
{
    for (int i = 0; i < PREFIXES; i++) {
        size_t from_length = strlen(prefixes[i].text);
        if (strncmp(from, prefixes[i].text, from_length) != 0 || from[from_length] == '\0')
            continue;
        for (int k = 0; k < PREFIXES; k++) {
            size_t to_length = strlen(prefixes[k].text);
            if (strncmp(to, prefixes[k].text, to_length) == 0 &&
                strcmp(from + from_length, to + to_length) == 0) {
                *exponent = prefixes[i].exponent - prefixes[k].exponent;
                return true;
            }
        }
    }
    *exponent = 0;
    return strcmp(from, to) == 0;
}

/* ---- printing ---------------------------------------------------------------------------- */

static double unit_size(const struct unit *unit)
{
    return (double)unit->factor * pow(10, unit->exponent);
}

/* The unit that quantity_print shows a value in. NULL: none of the table. */
static const struct unit *shown_unit(enum dimension dimension, double value)
{
    static const char *const shown[] = {"GHz", "MHz", "kHz", "Hz", "d",   "h",   "min",
                                        "s",   "ms",  "us",  "ns", "TiB", "GiB", "MiB",
                                        "KiB", "B",   "km",  "m",  "mm",  "um",  "m/s"};
    const struct unit *best = NULL;
    if (value == 0 && dimension == DIMENSION_TIME)
        return unit_find("s", dimension);
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        const struct unit *row = unit_find(shown[i], dimension);
        if (row == NULL || row->dimension != dimension)
            continue;
        best = row;
        /* The largest unit that leaves at least 1; two of minutes, hours and days, so that 90 s
         * stays 90 s. */
        const double size = unit_size(row);
        const double least = row->dimension == DIMENSION_TIME && row->factor > 1 ? 2 * size : size;
        if (fabs(value) >= least * (1 - 1e-9))
            break;
    }
    return best;
}

const char *quantity_print(enum dimension dimension, double value, char *text, size_t bytes)
{
    const struct unit *unit = shown_unit(dimension, value);
    switch (dimension) {
    case DIMENSION_DECIBEL:
        snprintf(text, bytes, "%.4g dB", value);
        break;
    case DIMENSION_RATIO:
        snprintf(text, bytes, "%.4g %%", value * 100);
        break;
    case DIMENSION_FRAMES:
        snprintf(text, bytes, "%.15g frame%s", value, value == 1 ? "" : "s");
        break;
    case DIMENSION_ANGLE:
        snprintf(text, bytes, "%.4g deg", value);
        break;
    default:
        if (unit == NULL) {
            snprintf(text, bytes, "%.6g", value);
        } else {
            const double shown_value = value / unit_size(unit);
            snprintf(text, bytes, fabs(shown_value) < 1e4 ? "%.4g %s" : "%.0f %s", shown_value,
                     unit->name);
        }
    }
    return text;
}

static int decimals_of(const char *text)
{
    const char *point = strchr(text, '.');
    return point != NULL ? (int)strspn(point + 1, "0123456789") : 0;
}

void quantity_print_pair(enum dimension dimension, double first, double second,
                         struct quantity_pair *pair)
{
    enum { DECIMALS_MOST = 12 };
    const double values[2] = {first, second};
    char *const texts[2] = {pair->first, pair->second};
    const struct unit *in[2];
    int decimals[2];
    bool plain = false; /* as quantity_print does it */
    for (int i = 0; i < 2; i++) {
        quantity_print(dimension, values[i], texts[i], sizeof pair->first);
        in[i] = shown_unit(dimension, values[i]);
        decimals[i] = decimals_of(texts[i]);
        plain = plain || in[i] == NULL || dimension == DIMENSION_FRAMES || fabs(values[i]) > 1e15 ||
                strspn(texts[i], "-.0123456789 ") != strcspn(texts[i], " ") + 1;
    }
    if (plain || first == second)
        return;
    if (in[0] == in[1])
        decimals[0] = decimals[1] = decimals[0] > decimals[1] ? decimals[0] : decimals[1];
    for (; decimals[0] <= DECIMALS_MOST && decimals[1] <= DECIMALS_MOST;
         decimals[0]++, decimals[1]++) {
        double read[2];
        for (int i = 0; i < 2; i++) {
            snprintf(texts[i], sizeof pair->first, "%.*f %s", decimals[i],
                     values[i] / unit_size(in[i]), in[i]->name);
            read[i] = strtod(texts[i], NULL) * unit_size(in[i]);
        }
        if (fabs(read[0] - read[1]) > 1e-14 * fabs(read[0]))
            break;
    }
}

const char *duration_text(int64_t duration_ns, char text[24])
{
    static const struct {
        double ns;
        const char *unit;
    } steps[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
    size_t i = 0;
    while (i < 3 && fabs((double)duration_ns) < steps[i].ns)
        i++;
    double value = (double)duration_ns / steps[i].ns;
    int decimals = steps[i].ns == 1 || fabs(value) >= 99.95 ? 0 : fabs(value) >= 9.995 ? 1 : 2;
    snprintf(text, 24, "%.*f %s", decimals, value, steps[i].unit);
    return text;
}
