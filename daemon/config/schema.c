/*
 * The schema's functions: see schema.h. schema_value_parse is the only place where a user's
 * text becomes a typed value; what it returns is within the row's range.
 */
#include "config/schema.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "filter/filter.h"

enum {
    QUOTE = 60,       /* bytes of a user's text that a message repeats */
    HOST_BYTES = 253, /* the longest DNS name */
};

/* Rotation takes a time or a size, each with a range of its own. */
#define ROTATION_MIN_S     0.01
#define ROTATION_MAX_S     (366.0 * 86400)
#define ROTATION_MIN_BYTES 65536.0
#define ROTATION_MAX_BYTES 1125899906842624.0
#define ROTATION_RANGE     "10 ms … 366 d, or 64 KiB … 1024 TiB"

static const char *const source_kinds[SOURCE_KINDS] = {
    [SOURCE_RTP] = "rtp",
    [SOURCE_UDP] = "udp",
    [SOURCE_UDP_SEQ] = "udp-seq",
    [SOURCE_FILE] = "file",
    [SOURCE_GENERATOR] = "generator",
    [SOURCE_OSC] = "osc",
    [SOURCE_PORTAUDIO] = "portaudio",
    [SOURCE_STREAM] = "stream",
};

static const char *const sink_kinds[SINK_KINDS] = {[SINK_RTP] = "rtp",
                                                   [SINK_RECORDING] = "recording",
                                                   [SINK_OSC] = "osc",
                                                   [SINK_PORTAUDIO] = "portaudio"};

const char *source_kind_name(int kind)
{
    return kind >= 0 && kind < SOURCE_KINDS ? source_kinds[kind] : NULL;
}

const char *sink_kind_name(int kind)
{
    return kind >= 0 && kind < SINK_KINDS ? sink_kinds[kind] : NULL;
}

const char *schema_type_name(enum section_kind section, int index)
{
    switch (section) {
    case SECTION_STREAM:
        return source_kind_name(index);
    case SECTION_FILTER:
        return index >= 0 && index < FILTER_TYPES ? filter_type_name(index) : NULL;
    case SECTION_SINK:
        return sink_kind_name(index);
    default:
        return NULL;
    }
}

static enum dimension value_dimension(enum value_type type)
{
    static const enum dimension dimensions[] = {
#define X(name, dimension, words) DIMENSION_##dimension,
        VALUE_TYPE_TABLE(X)
#undef X
    };
    assert((unsigned)type < VALUE_TYPES);
    return dimensions[type];
}

const char *value_type_words(enum value_type type)
{
    static const char *const words[] = {
#define X(name, dimension, text) text,
        VALUE_TYPE_TABLE(X)
#undef X
    };
    assert((unsigned)type < VALUE_TYPES);
    return words[type];
}

bool schema_name_valid(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length >= NAME_BYTES || name[0] == '.' || name[0] == '-')
        return false;
    for (const char *at = name; *at != '\0'; at++)
        if (!isalnum((unsigned char)*at) && strchr("_-.", *at) == NULL)
            return false;
    return true;
}

/* ---- finding keys ------------------------------------------------------------------------ */

const struct schema_key *schema_find(enum section_kind section, const char *key)
{
    for (int i = 0; i < KEYS; i++)
        if (schema_keys[i].section == section && strcmp(schema_keys[i].key, key) == 0)
            return &schema_keys[i];
    return NULL;
}

static char folded(char c)
{
    return c == '_' || c == '-' ? ' ' : (char)tolower((unsigned char)c);
}

/* Levenshtein's distance with adjacent swaps as one edit, over folded letters. */
unsigned schema_distance(const char *a, const char *b)
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

const struct schema_key *schema_nearest(enum section_kind section, const char *key)
{
    const struct schema_key *nearest = NULL;
    unsigned best = (unsigned)strlen(key) / 3 + 2; /* further away it is another word */
    for (int i = 0; i < KEYS; i++) {
        if (schema_keys[i].section != section)
            continue;
        unsigned distance = schema_distance(key, schema_keys[i].key);
        if (distance < best) {
            best = distance;
            nearest = &schema_keys[i];
        }
    }
    return nearest;
}

/* ---- ranges -----------------------------------------------------------------------------------
 */

static bool has_range(const struct schema_key *key)
{
    return key->type >= VALUE_COUNT && key->maximum > key->minimum;
}

/* A bound as one would write it. */
static const char *bound_text(const struct schema_key *key, double bound, char *text, size_t bytes)
{
    enum dimension dimension = value_dimension(key->type);
    if (key->type == VALUE_COUNT || key->type == VALUE_NUMBER || dimension == DIMENSION_AMPLITUDE) {
        snprintf(text, bytes, "%.16g", bound);
        return text;
    }
    if (bound == 0 && dimension != DIMENSION_DECIBEL) {
        snprintf(text, bytes, "0");
        return text;
    }
    return quantity_print(dimension, bound, text, bytes);
}

const char *schema_range_text(const struct schema_key *key, char *text, size_t bytes)
{
    char low[48], high[48];
    text[0] = '\0';
    if (key->type == VALUE_ROTATION)
        snprintf(text, bytes, "%s", ROTATION_RANGE);
    else if (has_range(key))
        snprintf(text, bytes, "%s%s … %s", key->above_minimum ? "above " : "",
                 bound_text(key, key->minimum, low, sizeof low),
                 bound_text(key, key->maximum, high, sizeof high));
    return text;
}

static int check_range(const struct schema_key *key, const char *text, double value,
                       struct problem *problem)
{
    if (!has_range(key) || (value >= key->minimum && value <= key->maximum &&
                            !(key->above_minimum && value == key->minimum)))
        return 0;
    char range[128];
    return problem_set(problem, ERROR_CONFIG, "`%s = %.*s` is out of range; write %s", key->key,
                       QUOTE, text, schema_range_text(key, range, sizeof range));
}

/* ---- values -----------------------------------------------------------------------------------
 */

static int parse_choice(const struct schema_key *key, const char *text, struct value *value,
                        struct problem *problem)
{
    const char *nearest = NULL;
    int nearest_length = 0;
    unsigned best = (unsigned)strlen(text) / 3 + 2;
    int index = 0;
    for (const char *at = key->choices;; at++, index++) {
        size_t length = strcspn(at, "|");
        char choice[NAME_BYTES];
        snprintf(choice, sizeof choice, "%.*s", (int)length, at);
        if (strcmp(choice, text) == 0) {
            value->integer = index;
            return 0;
        }
        unsigned distance = schema_distance(text, choice);
        if (distance < best) {
            best = distance;
            nearest = at;
            nearest_length = (int)length;
        }
        at += length;
        if (*at == '\0')
            break;
    }
    char all[256];
    size_t used = 0;
    for (const char *at = key->choices; *at != '\0' && used + 3 < sizeof all; at++)
        used += (size_t)snprintf(all + used, sizeof all - used, *at == '|' ? ", " : "%c", *at);
    if (nearest != NULL)
        return problem_set(problem, ERROR_CONFIG, "`%s = %.*s` is not known; write %.*s (of: %s)",
                           key->key, QUOTE, text, nearest_length, nearest, all);
    return problem_set(problem, ERROR_CONFIG, "`%s = %.*s` is not known; write one of: %s",
                       key->key, QUOTE, text, all);
}

static int parse_boolean(const struct schema_key *key, const char *text, struct value *value,
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
                       key->key, QUOTE, text);
}

static int parse_format(const struct schema_key *key, const char *text, struct value *value,
                        struct problem *problem)
{
    char name[24];
    snprintf(name, sizeof name, "%s", strlen(text) < 16 ? text : "");
    value->order_written = true;
    if (sample_format_parse(name, &value->format) == 0)
        return 0;
    /* Without a byte order: the caller's default decides. */
    size_t length = strlen(name);
    snprintf(name + length, sizeof name - length, "le");
    value->order_written = false;
    if (length > 0 && sample_format_parse(name, &value->format) == 0)
        return 0;
    return problem_set(problem, ERROR_CONFIG,
                       "`%s = %.*s` is not a sample format; write u8, s16le, s16be, u16le, u16be, "
                       "s24le, s24be, s32le, s32be, f32le, f32be, L16 or L24",
                       key->key, QUOTE, text);
}

static int parse_ssrc(const struct schema_key *key, const char *text, struct value *value,
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
                           key->key, QUOTE, text);
    value->integer = (int64_t)number;
    return 0;
}

static int parse_address(const struct schema_key *key, const char *text, struct value *value,
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
                               key->key, QUOTE, text);
        if (host_end != NULL)
            port = host_end + 1;
    }
    if (port == NULL)
        return problem_set(problem, ERROR_CONFIG,
                           "`%s = %.*s` names no port; write host:port, as in 239.1.2.3:5004 or "
                           "[ff15::1]:5004",
                           key->key, QUOTE, text);
    size_t host_length = (size_t)(host_end - host);
    bool clean = host_length > 0 && host_length <= HOST_BYTES;
    for (size_t i = 0; clean && i < host_length; i++)
        clean = isalnum((unsigned char)host[i]) || strchr(".-_:%*", host[i]) != NULL;
    if (!clean)
        return problem_set(
            problem, ERROR_CONFIG,
            "`%s = %.*s` names no host; write host:port, as in 192.168.1.20:5004, or "
            "*:5004 for every own address",
            key->key, QUOTE, text);
    size_t port_length = strlen(port);
    unsigned long number =
        strspn(port, "0123456789") == port_length && port_length > 0 && port_length <= 5
            ? strtoul(port, NULL, 10)
            : 65536;
    if (number > 65535)
        return problem_set(
            problem, ERROR_CONFIG,
            "`%s = %.*s` has no valid port; write a port of 0 … 65535 after the colon", key->key,
            QUOTE, text);
    value->host = host;
    value->host_length = (unsigned)host_length;
    value->port = (uint16_t)number;
    return 0;
}

static int parse_source(const struct schema_key *key, const char *text, struct value *value,
                        struct problem *problem)
{
    if (strncmp(text, "stream", 6) == 0 && isspace((unsigned char)text[6])) {
        const char *name = text + 6;
        while (isspace((unsigned char)*name))
            name++;
        if (!schema_name_valid(name))
            return problem_set(
                problem, ERROR_CONFIG,
                "`%s = %.*s` names no stream; write stream NAME, as in stream bandpass", key->key,
                QUOTE, text);
        value->integer = SOURCE_STREAM;
        snprintf(value->name, sizeof value->name, "%s", name);
        return 0;
    }
    for (int kind = 0; kind < SOURCE_STREAM; kind++)
        if (strcmp(source_kinds[kind], text) == 0) {
            value->integer = kind;
            return 0;
        }
    for (int kind = 0; kind < SOURCE_STREAM; kind++)
        if (schema_distance(source_kinds[kind], text) <= 1)
            return problem_set(problem, ERROR_CONFIG, "`%s = %.*s` is not known; write %s",
                               key->key, QUOTE, text, source_kinds[kind]);
    return problem_set(problem, ERROR_CONFIG,
                       "`%s = %.*s` is not known; write rtp, udp, udp-seq, file, generator or "
                       "stream NAME",
                       key->key, QUOTE, text);
}

/* Trims the piece [from, until) into out; false when it does not fit. */
static bool piece(const char *from, const char *until, char *out, size_t bytes)
{
    while (from < until && isspace((unsigned char)*from))
        from++;
    while (until > from && isspace((unsigned char)until[-1]))
        until--;
    size_t length = (size_t)(until - from);
    if (length >= bytes)
        return false;
    memcpy(out, from, length);
    out[length] = '\0';
    return true;
}

/* "1" … "1024". 0 when it is none. */
static uint32_t channel_number(const char *text)
{
    size_t length = strlen(text);
    if (length == 0 || length > 4 || strspn(text, "0123456789") != length)
        return 0;
    unsigned long number = strtoul(text, NULL, 10);
    return number <= 1024 ? (uint32_t)number : 0;
}

static int parse_gain(const char *text, double *gain, struct problem *problem)
{
    struct quantity quantity;
    struct problem detail;
    if (quantity_parse(text, DIMENSION_DECIBEL, &quantity, &detail) != 0)
        return problem_set(problem, ERROR_CONFIG, "the gain of the route is not readable: %s",
                           detail.text);
    double number = quantity_value(&quantity);
    if (quantity.dimension == DIMENSION_DECIBEL && fabs(number) <= 200)
        *gain = pow(10, number / 20);
    else if (quantity.dimension == DIMENSION_NUMBER && fabs(number) <= 1e10 && number != 0)
        *gain = number;
    else
        return problem_set(problem, ERROR_CONFIG,
                           "`%.*s` cannot be the gain of a route; write a factor other than 0, as "
                           "-0.5, or a level, as -6 dB",
                           QUOTE, text);
    return 0;
}

/* IN -> FILTER [GAIN] -> OUT */
static int parse_route(const struct schema_key *key, const char *text, struct value *value,
                       struct problem *problem)
{
    const char *first = strstr(text, "->");
    const char *second = first != NULL ? strstr(first + 2, "->") : NULL;
    char input[16], middle[128], output[16];
    bool cut = second != NULL && strstr(second + 2, "->") == NULL &&
               piece(text, first, input, sizeof input) &&
               piece(first + 2, second, middle, sizeof middle) &&
               piece(second + 2, second + strlen(second), output, sizeof output);
    size_t name_length = cut ? strcspn(middle, " \t") : 0;
    if (cut && name_length < sizeof value->name) {
        memcpy(value->name, middle, name_length);
        value->name[name_length] = '\0';
    }
    if (!cut || !schema_name_valid(value->name))
        return problem_set(problem, ERROR_CONFIG,
                           "`%s = %.*s` is not a route; write IN -> FILTER [GAIN] -> OUT, as in "
                           "1 -> bandpass -6 dB -> 2",
                           key->key, QUOTE, text);
    value->input = channel_number(input);
    value->output = channel_number(output);
    if (value->input == 0 || value->output == 0)
        return problem_set(problem, ERROR_CONFIG,
                           "`%s = %.*s`: channels and outputs are numbers counted from 1, up to "
                           "1024; write them so, as in 1 -> %s -> 1",
                           key->key, QUOTE, text, value->name);
    const char *gain = middle + name_length;
    while (isspace((unsigned char)*gain))
        gain++;
    value->gain = 1;
    return *gain == '\0' ? 0 : parse_gain(gain, &value->gain, problem);
}

/* Which dimension a type accepts besides its own. */
static bool accepts(enum value_type type, enum dimension dimension)
{
    switch (type) {
    case VALUE_SPAN:
    case VALUE_DELAY: /* a bare number means frames */
        return dimension == DIMENSION_TIME || dimension == DIMENSION_NUMBER;
    case VALUE_ROTATION:
        return dimension == DIMENSION_MEMORY;
    case VALUE_AMPLITUDE:
        return dimension == DIMENSION_NUMBER;
    case VALUE_NUMBER:
        return dimension == DIMENSION_RATIO;
    default:
        return false;
    }
}

static const char *with_article(enum value_type type, enum dimension dimension)
{
    if (type == VALUE_ROTATION)
        return "a time or a size";
    if (type == VALUE_SPAN || type == VALUE_DELAY)
        return "frames or a time";
    return dimension_words(dimension);
}

static int wrong_dimension(const struct schema_key *key, const char *text,
                           const struct quantity *quantity, struct problem *problem)
{
    enum dimension wanted = value_dimension(key->type);
    if (quantity->dimension == DIMENSION_NUMBER) {
        const char *unit = strchr(dimension_example(wanted), ' ');
        return problem_set(problem, ERROR_CONFIG,
                           "`%s = %.*s` has no unit, `%s` takes %s: write the unit, as in %.*s%s",
                           key->key, QUOTE, text, key->key, with_article(key->type, wanted), QUOTE,
                           text, unit);
    }
    /* The number that was written, with a unit of the right kind. */
    int digits = (int)strcspn(text, " \t");
    const char *unit_at = strstr(text, quantity->unit);
    if (unit_at != NULL && unit_at - text < digits)
        digits = (int)(unit_at - text);
    const char *example = strchr(dimension_example(wanted), ' ');
    return problem_set(problem, ERROR_CONFIG, "`%.*s` is %s, `%s` takes %s: write %.*s%s", QUOTE,
                       text, dimension_words(quantity->dimension), key->key,
                       with_article(key->type, wanted), digits < QUOTE ? digits : QUOTE, text,
                       example != NULL ? example : "");
}

static int parse_quantity(const struct schema_key *key, const char *text, struct value *value,
                          struct problem *problem)
{
    struct quantity quantity;
    struct problem detail;
    enum dimension wanted = value_dimension(key->type);
    if (quantity_parse(text, wanted, &quantity, &detail) != 0)
        return problem_set(problem, ERROR_CONFIG, "`%s`: %s", key->key, detail.text);
    bool bare_zero = quantity.dimension == DIMENSION_NUMBER && quantity.digits == 0;
    if (quantity.dimension != wanted && !accepts(key->type, quantity.dimension) && !bare_zero)
        return wrong_dimension(key, text, &quantity, problem);
    if (bare_zero || ((key->type == VALUE_SPAN || key->type == VALUE_DELAY) &&
                      quantity.dimension == DIMENSION_NUMBER))
        quantity.dimension = wanted;
    value->dimension = quantity.dimension;
    value->number = quantity_value(&quantity);
    snprintf(value->unit, sizeof value->unit, "%s", quantity.unit);

    int scale = quantity.dimension == DIMENSION_TIME ? 9 : 0;
    bool whole = key->type == VALUE_COUNT || key->type == VALUE_TIME || key->type == VALUE_MEMORY ||
                 key->type == VALUE_SPAN || key->type == VALUE_ROTATION;
    /* The range first: what is far outside need not fit an integer. The units of a span differ, so
     * its frames are held against the range by those who know the rate. */
    bool span_time = (key->type == VALUE_SPAN || key->type == VALUE_DELAY) &&
                     quantity.dimension == DIMENSION_TIME;
    if (!span_time && check_range(key, text, value->number, problem) != 0)
        return ERROR_CONFIG;
    if (span_time && !(value->number >= 0 && value->number <= 366.0 * 86400))
        return problem_set(problem, ERROR_CONFIG,
                           "`%s = %.*s` is out of range; write a time above 0 and below a year",
                           key->key, QUOTE, text);
    if (key->type == VALUE_ROTATION) {
        bool time = quantity.dimension == DIMENSION_TIME;
        if (!(value->number >= (time ? ROTATION_MIN_S : ROTATION_MIN_BYTES) &&
              value->number <= (time ? ROTATION_MAX_S : ROTATION_MAX_BYTES)))
            return problem_set(problem, ERROR_CONFIG, "`%s = %.*s` is out of range; write %s",
                               key->key, QUOTE, text, ROTATION_RANGE);
    }
    if (whole && quantity_integer(&quantity, scale, &value->integer) != 0)
        return problem_set(problem, ERROR_CONFIG,
                           scale == 9
                               ? "`%s = %.*s` is finer than 1 ns; write whole nanoseconds"
                               : "`%s = %.*s` is not a whole number; write it without a fraction",
                           key->key, QUOTE, text);
    return 0;
}

int schema_value_parse(const struct schema_key *key, const char *text, struct value *value,
                       struct problem *problem)
{
    *value = (struct value){.text = text};
    if (text[0] == '\0')
        return problem_set(problem, ERROR_CONFIG, "`%s` has an empty value; write %s or remove it",
                           key->key, value_type_words(key->type));
    switch (key->type) {
    case VALUE_TEXT:
    case VALUE_PATH:
        return 0;
    case VALUE_NAME:
        if (schema_name_valid(text))
            return 0;
        return problem_set(problem, ERROR_CONFIG,
                           "`%s = %.*s` is not a name; write letters, digits, _ - and . only",
                           key->key, QUOTE, text);
    case VALUE_ADDRESS:
        return parse_address(key, text, value, problem);
    case VALUE_CHOICE:
        return parse_choice(key, text, value, problem);
    case VALUE_BOOLEAN:
        return parse_boolean(key, text, value, problem);
    case VALUE_FORMAT:
        return parse_format(key, text, value, problem);
    case VALUE_SSRC:
        return parse_ssrc(key, text, value, problem);
    case VALUE_SOURCE:
        return parse_source(key, text, value, problem);
    case VALUE_ROUTE:
        return parse_route(key, text, value, problem);
    default:
        return parse_quantity(key, text, value, problem);
    }
}
