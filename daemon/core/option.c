/* Options: see option.h. */
#include "core/option.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { HOST_BYTES = 253 /* the longest DNS name */ };

/* Rotation takes a time or a size, each with a range of its own. */
#define ROTATION_MIN_S     0.01
#define ROTATION_MAX_S     (366.0 * 86400)
#define ROTATION_MIN_BYTES 65536.0
#define ROTATION_MAX_BYTES 1125899906842624.0
#define ROTATION_RANGE     "10 ms … 366 d, or 64 KiB … 1024 TiB"

static enum dimension dimension_of(enum option_type type)
{
    static const enum dimension dimensions[] = {
#define X(name, dimension, words) DIMENSION_##dimension,
        OPTION_TYPE_TABLE(X)
#undef X
    };
    assert((unsigned)type < OPTION_TYPES);
    return dimensions[type];
}

const char *option_words(const struct option_row *row)
{
    static const char *const words[] = {
#define X(name, dimension, text) text,
        OPTION_TYPE_TABLE(X)
#undef X
    };
    assert((unsigned)row->type < OPTION_TYPES);
    return row->words != NULL ? row->words : words[row->type];
}

bool option_name_valid(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length >= OPTION_NAME_BYTES || name[0] == '.' || name[0] == '-')
        return false;
    for (const char *at = name; *at != '\0'; at++)
        if (!isalnum((unsigned char)*at) && strchr("_-.", *at) == NULL)
            return false;
    return true;
}

static char folded(char c)
{
    return c == '_' || c == '-' ? ' ' : (char)tolower((unsigned char)c);
}

/* Levenshtein's distance with adjacent swaps as one edit, over folded letters. */
unsigned option_distance(const char *a, const char *b)
{
    enum { LENGTH = 63 };
    size_t rows = strlen(a), columns = strlen(b);
    if (rows > LENGTH || columns > LENGTH)
        return (unsigned)(rows > columns ? rows : columns);
    unsigned row[3][LENGTH + 1]; /* the two before and the current one */
    for (size_t j = 0; j <= columns; j++)
        row[0][j] = (unsigned)j;
    for (size_t i = 1; i <= rows; i++) {
        unsigned *above2 = row[(i + 1) % 3], *above = row[(i + 2) % 3], *here = row[i % 3];
        here[0] = (unsigned)i;
        for (size_t j = 1; j <= columns; j++) {
            bool same = folded(a[i - 1]) == folded(b[j - 1]);
            unsigned best = above[j - 1] + !same;
            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (here[j - 1] + 1 < best)
                best = here[j - 1] + 1;
            if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) &&
                folded(a[i - 2]) == folded(b[j - 1]) && above2[j - 2] + 1 < best)
                best = above2[j - 2] + 1;
            here[j] = best;
        }
    }
    return row[rows % 3][columns];
}

/* ---- ranges -----------------------------------------------------------------------------------
 */

static bool has_range(const struct option_row *row)
{
    return row->type >= OPTION_COUNT && row->maximum > row->minimum;
}

/* A bound as one would write it. */
static const char *bound_text(const struct option_row *row, double bound, char *text, size_t bytes)
{
    enum dimension dimension = dimension_of(row->type);
    if (row->type == OPTION_COUNT || row->type == OPTION_NUMBER ||
        dimension == DIMENSION_AMPLITUDE) {
        snprintf(text, bytes, "%.16g", bound);
        return text;
    }
    if (bound == 0 && dimension != DIMENSION_DECIBEL) {
        snprintf(text, bytes, "0");
        return text;
    }
    return quantity_print(dimension, bound, text, bytes);
}

const char *option_range_text(const struct option_row *row, char *text, size_t bytes)
{
    char low[48], high[48];
    text[0] = '\0';
    if (row->type == OPTION_ROTATION)
        snprintf(text, bytes, "%s", ROTATION_RANGE);
    else if (has_range(row))
        snprintf(text, bytes, "%s%s … %s", row->above_minimum ? "above " : "",
                 bound_text(row, row->minimum, low, sizeof low),
                 bound_text(row, row->maximum, high, sizeof high));
    return text;
}

static int check_range(const struct option_row *row, const char *text, double value,
                       struct problem *problem)
{
    if (!has_range(row) || (value >= row->minimum && value <= row->maximum &&
                            !(row->above_minimum && value == row->minimum)))
        return 0;
    char range[128];
    return problem_set(problem, ERROR_CONFIG, "`%s = %.*s` is out of range; write %s", row->key,
                       OPTION_QUOTE, text, option_range_text(row, range, sizeof range));
}

/* ---- values ------------------------------------------------------------------------------ */

const char *option_choices_text(const struct option_row *row, const char *separator, char *text,
                                size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (const struct option_choice *choice = row->choices; choice->word != NULL; choice++)
        if (used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used > 0 ? separator : "",
                                     choice->word);
    return text;
}

static int parse_choice(const struct option_row *row, const char *text, struct option_value *value,
                        struct problem *problem)
{
    const char *nearest = NULL;
    unsigned best = (unsigned)strlen(text) / 3 + 2;
    for (const struct option_choice *choice = row->choices; choice->word != NULL; choice++) {
        if (strcmp(choice->word, text) == 0) {
            value->integer = choice->value;
            return 0;
        }
        unsigned distance = option_distance(text, choice->word);
        if (distance < best) {
            best = distance;
            nearest = choice->word;
        }
    }
    char all[256];
    option_choices_text(row, ", ", all, sizeof all);
    if (nearest != NULL)
        return problem_set(problem, ERROR_CONFIG, "`%s = %.*s` is not known; write %s (of: %s)",
                           row->key, OPTION_QUOTE, text, nearest, all);
    return problem_set(problem, ERROR_CONFIG, "`%s = %.*s` is not known; write one of: %s",
                       row->key, OPTION_QUOTE, text, all);
}

static int parse_boolean(const struct option_row *row, const char *text, struct option_value *value,
                         struct problem *problem)
{
    static const struct {
        const char *word;
        bool truth;
    } words[] = {{"yes", true}, {"no", false},  {"true", true}, {"false", false},
                 {"on", true},  {"off", false}, {"1", true},    {"0", false}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(words[i].word, text) == 0) {
            value->integer = words[i].truth;
            return 0;
        }
    return problem_set(problem, ERROR_CONFIG, "`%s = %.*s` is neither yes nor no; write yes or no",
                       row->key, OPTION_QUOTE, text);
}

static int parse_uint32(const struct option_row *row, const char *text, struct option_value *value,
                        struct problem *problem)
{
    bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    const char *digits = hex ? text + 2 : text;
    size_t length = strlen(digits);
    bool clean = length > 0 && length <= 10 &&
                 strspn(digits, hex ? "0123456789abcdefABCDEF" : "0123456789") == length;
    unsigned long long number = clean ? strtoull(digits, NULL, hex ? 16 : 10) : 0;
    if (!clean || number > UINT32_MAX)
        return problem_set(problem, ERROR_CONFIG,
                           "`%s = %.*s` is not a 32-bit number; write 0 … 4294967295 or, in "
                           "hexadecimal, 0x0 … 0xffffffff",
                           row->key, OPTION_QUOTE, text);
    value->integer = (int64_t)number;
    return 0;
}

static int parse_address(const struct option_row *row, const char *text, struct option_value *value,
                         struct problem *problem)
{
    const char *host = text, *host_end = NULL, *port = NULL;
    if (text[0] == '[') {
        host = text + 1;
        host_end = strchr(host, ']');
        if (host_end != NULL && host_end[1] == ':')
            port = host_end + 2;
    } else {
        host_end = strchr(text, ':');
        if (host_end != NULL && strchr(host_end + 1, ':') != NULL)
            return problem_set(problem, ERROR_CONFIG,
                               "`%s = %.*s` has several colons; write an IPv6 address in brackets, "
                               "as in [ff15::1]:5004",
                               row->key, OPTION_QUOTE, text);
        if (host_end != NULL)
            port = host_end + 1;
    }
    if (port == NULL)
        return problem_set(problem, ERROR_CONFIG,
                           "`%s = %.*s` names no port; write host:port, as in 239.1.2.3:5004 or "
                           "[ff15::1]:5004",
                           row->key, OPTION_QUOTE, text);
    size_t host_length = (size_t)(host_end - host);
    bool clean = host_length > 0 && host_length <= HOST_BYTES;
    for (size_t i = 0; clean && i < host_length; i++)
        clean = isalnum((unsigned char)host[i]) || strchr(".-_:%*", host[i]) != NULL;
    if (!clean)
        return problem_set(
            problem, ERROR_CONFIG,
            "`%s = %.*s` names no host; write host:port, as in 192.168.1.20:5004, or "
            "*:5004 for every own address",
            row->key, OPTION_QUOTE, text);
    size_t port_length = strlen(port);
    unsigned long number =
        strspn(port, "0123456789") == port_length && port_length > 0 && port_length <= 5
            ? strtoul(port, NULL, 10)
            : 65536;
    if (number > 65535)
        return problem_set(
            problem, ERROR_CONFIG,
            "`%s = %.*s` has no valid port; write a port of 0 … 65535 after the colon", row->key,
            OPTION_QUOTE, text);
    value->integer = (int64_t)number;
    return 0;
}

struct option_address option_address(const char *text)
{
    const bool bracket = text[0] == '[';
    const char *host = text + bracket, *colon = strrchr(text, ':');
    const char *end = bracket ? strchr(host, ']') : colon;
    assert(colon != NULL && end != NULL);
    return (struct option_address){host, (unsigned)(end - host),
                                   (uint16_t)strtoul(colon + 1, NULL, 10)};
}

/* Which dimension a type accepts besides its own. */
static bool accepts(enum option_type type, enum dimension dimension)
{
    switch (type) {
    case OPTION_SPAN:
    case OPTION_DELAY: /* a bare number means frames */
        return dimension == DIMENSION_TIME || dimension == DIMENSION_NUMBER;
    case OPTION_ROTATION:
        return dimension == DIMENSION_MEMORY;
    case OPTION_AMPLITUDE:
        return dimension == DIMENSION_NUMBER;
    case OPTION_NUMBER:
        return dimension == DIMENSION_RATIO;
    default:
        return false;
    }
}

static const char *with_article(enum option_type type, enum dimension dimension)
{
    if (type == OPTION_ROTATION)
        return "a time or a size";
    if (type == OPTION_SPAN || type == OPTION_DELAY)
        return "frames or a time";
    return dimension_words(dimension);
}

/* The units that people write, those of a dimension's base values last. */
static const char *const written_units[DIMENSIONS][4] = {
    [DIMENSION_FREQUENCY] = {"MHz", "kHz", "Hz"},
    [DIMENSION_TIME] = {"us", "ms", "s"},
    [DIMENSION_MEMORY] = {"GiB", "MiB", "KiB", "B"},
    [DIMENSION_DECIBEL] = {"dB"},
    [DIMENSION_RATIO] = {"%"},
    [DIMENSION_FRAMES] = {"frames"},
    [DIMENSION_ANGLE] = {"deg"},
    [DIMENSION_LENGTH] = {"mm", "m"},
    [DIMENSION_VELOCITY] = {"m/s"},
    [DIMENSION_AMPLITUDE] = {"mV", "V"},
};
static const char *const rotation_units[4] = {"min", "h", "MiB", "GiB"};

enum { VALUES_SUGGESTED = 4, VALUE_BYTES = OPTION_QUOTE + 8 };

/* Values that a message suggests. */
struct suggestions {
    char text[VALUES_SUGGESTED][VALUE_BYTES];
    int count;
};

/* Adds the value unless the key would refuse it, or it is there. */
static void suggest(const struct option_row *row, const char *value, struct suggestions *to)
{
    struct option_value parsed;
    bool known = false;
    for (int i = 0; i < to->count; i++)
        known = known || strcmp(to->text[i], value) == 0;
    if (!known && to->count < VALUES_SUGGESTED && option_parse(row, value, &parsed, NULL) == 0)
        snprintf(to->text[to->count++], VALUE_BYTES, "%s", value);
}

/* The number of a value that was written without a unit, or with the wrong one, in the units that
 * make it one that the key takes. A prefix only where people would use it, from 1 to 999. */
static void suggest_units(const struct option_row *row, const char *digits, struct suggestions *to)
{
    const enum dimension wanted = dimension_of(row->type);
    const double number = fabs(strtod(digits, NULL));
    const char *const *units = written_units[wanted];
    char value[VALUE_BYTES];
    int count = 0;
    if (row->type == OPTION_ROTATION)
        units = rotation_units;
    while (count < 4 && units[count] != NULL)
        count++;
    for (int i = 0; i < count; i++) {
        bool base = i + 1 == count && row->type != OPTION_ROTATION;
        if (!base && !(number >= 1 && number < 1000))
            continue;
        snprintf(value, sizeof value, "%s %s", digits, units[i]);
        if (wanted == DIMENSION_RATIO && number <= 1) /* a fraction */
            quantity_print(wanted, strtod(digits, NULL), value, sizeof value);
        suggest(row, value, to);
    }
    /* 2000000 Hz are 2 MHz, where four digits say so exactly. */
    struct quantity quantity;
    if (number >= 1000 && count > 1 &&
        quantity_parse(quantity_print(wanted, strtod(digits, NULL), value, sizeof value), wanted,
                       &quantity, NULL) == 0 &&
        quantity_value(&quantity) == strtod(digits, NULL))
        suggest(row, value, to);
}

/* "10 us, 10 ms or 10 s"; an example of the dimension where no unit makes the number fit. */
static const char *suggestions_text(const struct option_row *row, const char *digits, char *text,
                                    size_t bytes)
{
    struct suggestions found = {.count = 0};
    size_t used = 0;
    suggest_units(row, digits, &found);
    snprintf(text, bytes, "%s", dimension_example(dimension_of(row->type)));
    for (int i = 0; i < found.count && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s",
                                 i == 0                 ? ""
                                 : i + 1 == found.count ? " or "
                                                        : ", ",
                                 found.text[i]);
    return text;
}

static int wrong_dimension(const struct option_row *row, const char *text,
                           const struct quantity *quantity, struct problem *problem)
{
    enum dimension wanted = dimension_of(row->type);
    /* The number that was written. */
    size_t length = strcspn(text, " \t");
    const char *unit = quantity->unit[0] != '\0' ? strstr(text, quantity->unit) : NULL;
    if (unit != NULL && (size_t)(unit - text) < length)
        length = (size_t)(unit - text);
    char digits[OPTION_QUOTE + 1], values[VALUES_SUGGESTED * VALUE_BYTES];
    snprintf(digits, sizeof digits, "%.*s", (int)length, text);
    /* 40 dB are not 40 V, and 105 Hz no factor of 105: the number alone means something else. */
    const bool other_scale = quantity->dimension != DIMENSION_NUMBER &&
                             (wanted == DIMENSION_NUMBER || wanted == DIMENSION_AMPLITUDE ||
                              wanted == DIMENSION_DECIBEL || wanted == DIMENSION_RATIO);
    if (wanted == DIMENSION_NUMBER)
        return problem_set(problem, ERROR_CONFIG,
                           "`%.*s` is %s, `%s` takes a plain number; write one without a unit, as "
                           "in %s, if that is meant",
                           OPTION_QUOTE, text, dimension_words(quantity->dimension), row->key,
                           dimension_example(wanted));
    if (other_scale)
        snprintf(values, sizeof values, "it so, as in %s", dimension_example(wanted));
    else
        suggestions_text(row, digits, values, sizeof values);
    if (quantity->dimension == DIMENSION_NUMBER)
        return problem_set(problem, ERROR_CONFIG,
                           "`%s = %.*s` has no unit, `%s` takes %s: write %s", row->key,
                           OPTION_QUOTE, text, row->key, with_article(row->type, wanted), values);
    return problem_set(problem, ERROR_CONFIG, "`%.*s` is %s, `%s` takes %s: write %s", OPTION_QUOTE,
                       text, dimension_words(quantity->dimension), row->key,
                       with_article(row->type, wanted), values);
}

static int parse_quantity(const struct option_row *row, const char *text,
                          struct option_value *value, struct problem *problem)
{
    struct quantity quantity;
    struct problem detail;
    enum dimension wanted = dimension_of(row->type);
    if (quantity_parse(text, wanted, &quantity, &detail) != 0)
        return problem_set(problem, ERROR_CONFIG, "`%s`: %s", row->key, detail.text);
    bool bare_zero = quantity.dimension == DIMENSION_NUMBER && quantity.digits == 0;
    if (quantity.dimension != wanted && !accepts(row->type, quantity.dimension) && !bare_zero)
        return wrong_dimension(row, text, &quantity, problem);
    if (bare_zero || ((row->type == OPTION_SPAN || row->type == OPTION_DELAY) &&
                      quantity.dimension == DIMENSION_NUMBER))
        quantity.dimension = wanted;
    value->dimension = quantity.dimension;
    value->number = quantity_value(&quantity);
    snprintf(value->unit, sizeof value->unit, "%s", quantity.unit);

    int scale = quantity.dimension == DIMENSION_TIME ? 9 : 0;
    bool whole = row->type == OPTION_COUNT || row->type == OPTION_TIME ||
                 row->type == OPTION_MEMORY || row->type == OPTION_SPAN ||
                 row->type == OPTION_ROTATION;
    /* The range first: what is far outside need not fit an integer. The units of a span differ, so
     * its frames are held against the range by those who know the rate. */
    bool span_time = (row->type == OPTION_SPAN || row->type == OPTION_DELAY) &&
                     quantity.dimension == DIMENSION_TIME;
    if (!span_time && check_range(row, text, value->number, problem) != 0)
        return ERROR_CONFIG;
    if (span_time && !(value->number >= 0 && value->number <= 366.0 * 86400))
        return problem_set(problem, ERROR_CONFIG,
                           "`%s = %.*s` is out of range; write a time above 0 and below a year",
                           row->key, OPTION_QUOTE, text);
    if (row->type == OPTION_ROTATION) {
        bool time = quantity.dimension == DIMENSION_TIME;
        if (!(value->number >= (time ? ROTATION_MIN_S : ROTATION_MIN_BYTES) &&
              value->number <= (time ? ROTATION_MAX_S : ROTATION_MAX_BYTES)))
            return problem_set(problem, ERROR_CONFIG, "`%s = %.*s` is out of range; write %s",
                               row->key, OPTION_QUOTE, text, ROTATION_RANGE);
    }
    if (whole && quantity_integer(&quantity, scale, &value->integer) != 0)
        return problem_set(problem, ERROR_CONFIG,
                           scale == 9
                               ? "`%s = %.*s` is finer than 1 ns; write whole nanoseconds"
                               : "`%s = %.*s` is not a whole number; write it without a fraction",
                           row->key, OPTION_QUOTE, text);
    return 0;
}

int option_parse(const struct option_row *row, const char *text, struct option_value *value,
                 struct problem *problem)
{
    *value = (struct option_value){.text = text};
    if (text[0] == '\0')
        return problem_set(problem, ERROR_CONFIG, "`%s` has an empty value; write %s or remove it",
                           row->key, option_words(row));
    switch (row->type) {
    case OPTION_TEXT:
    case OPTION_PATH:
        return 0;
    case OPTION_NAME:
        if (option_name_valid(text))
            return 0;
        return problem_set(problem, ERROR_CONFIG,
                           "`%s = %.*s` is not a name; write letters, digits, _ - and . only",
                           row->key, OPTION_QUOTE, text);
    case OPTION_ADDRESS:
        return parse_address(row, text, value, problem);
    case OPTION_CHOICE:
        return parse_choice(row, text, value, problem);
    case OPTION_BOOLEAN:
        return parse_boolean(row, text, value, problem);
    case OPTION_UINT32:
        return parse_uint32(row, text, value, problem);
    case OPTION_OWN:
        return row->parse(row, text, value, problem);
    default:
        return parse_quantity(row, text, value, problem);
    }
}

const struct option_row *option_find(const struct option_row *rows, unsigned count, const char *key)
{
    for (unsigned i = 0; i < count; i++)
        if (strcmp(rows[i].key, key) == 0)
            return &rows[i];
    return NULL;
}

void option_store(const struct option_row *row, const struct option_value *values, unsigned count,
                  void *options)
{
    void *field = (char *)options + row->offset;
    switch (row->field) {
    case FIELD_NONE:
        break;
    case FIELD_TEXT:
        *(const char **)field = values->text;
        break;
    case FIELD_BOOLEAN:
        *(bool *)field = values->integer != 0;
        break;
    case FIELD_UINT32:
        *(uint32_t *)field = (uint32_t)values->integer;
        break;
    case FIELD_UINT64:
        *(uint64_t *)field = (uint64_t)values->integer;
        break;
    case FIELD_INT64:
        *(int64_t *)field = values->integer;
        break;
    case FIELD_NUMBER:
        *(double *)field = values->number;
        break;
    case FIELD_VALUE:
        *(const struct option_value **)field = values;
        break;
    case FIELD_LIST:
        *(struct option_values *)field = (struct option_values){values, count};
        break;
    }
}

/* ---- what the owner of options checks ---------------------------------------------------- */

enum { MESSAGE_BYTES = 1024 };

void option_error(const struct option_check *check, const char *key, const char *format, ...)
{
    char text[MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    check->report(check->context, key, false, text);
}

void option_warning(const struct option_check *check, const char *key, const char *format, ...)
{
    char text[MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    check->report(check->context, key, true, text);
}

bool option_given(const struct option_check *check, const char *key)
{
    return check->written(check->context, key) != NULL;
}

bool option_frames(const struct option_check *check, const struct option_row *row,
                   const struct option_value *value, double rate_hz, uint64_t *frames)
{
    *frames = 0;
    if (value == NULL)
        return true;
    if (value->dimension != DIMENSION_TIME) { /* option_parse has held it against the range */
        *frames = (uint64_t)value->integer;
        return true;
    }
    double count = nearbyint(value->number * rate_hz);
    if (count >= row->minimum && count <= row->maximum) {
        *frames = (uint64_t)count;
        return true;
    }
    char rate[40], shortest[40], longest[40];
    option_error(check, row->key, "`%s = %s` is %.0f frames at %s; write %s … %s", row->key,
                 value->text, count,
                 quantity_print(DIMENSION_FREQUENCY, rate_hz, rate, sizeof rate),
                 quantity_print(DIMENSION_TIME, row->minimum / rate_hz, shortest, sizeof shortest),
                 quantity_print(DIMENSION_TIME, row->maximum / rate_hz, longest, sizeof longest));
    return false;
}

bool option_amplitude(const struct option_check *check, const char *key,
                      const struct option_value *value, const char *unit, double *out)
{
    int exponent = 0;
    *out = value->number;
    if (value->unit[0] == '\0' || strcmp(value->unit, unit) == 0)
        return true;
    if (!quantity_unit_exponent(value->unit, unit, &exponent)) {
        option_error(check, key,
                     "`%s = %s` is in %s, but the unit here is %s; write it in %s, or set `unit`",
                     key, value->text, value->unit, unit, unit);
        return false;
    }
    /* Through the decimal exponent, so that 10 mV in V is the double nearest to 0.01. */
    struct quantity quantity;
    struct problem problem;
    if (quantity_parse(value->text, DIMENSION_AMPLITUDE, &quantity, &problem) == 0) {
        quantity.exponent += quantity.digits == 0 ? 0 : exponent;
        *out = quantity_value(&quantity);
    }
    return true;
}
