/* The schema: see schema.h. */
#include "config/schema.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "config/schema_rows.h"
#include "filter/filter.h"
#include "io/sink.h"
#include "io/source.h"

enum {
    KEYS_MAX = 256,
    SLOTS_MAX = 128, /* keys of one section */
    TYPES_MAX = 31,  /* bits of a mask, less one for the chain */
    FORMATS_BYTES = 256,
    SENTENCE_BYTES = 2048,
};

/* ---- types of a section ------------------------------------------------------------------ */

static unsigned source_count(void)
{
    unsigned count = 0;
    while (source_at((int)count) != NULL)
        count++;
    return count;
}

static unsigned sink_count(void)
{
    unsigned count = 0;
    while (sink_at((int)count) != NULL)
        count++;
    return count;
}

const char *schema_type_name(enum section_kind section, int index)
{
    switch (section) {
    case SECTION_STREAM:
        if (index == (int)source_count())
            return "stream";
        return source_at(index) != NULL ? source_at(index)->name : NULL;
    case SECTION_FILTER:
        return index >= 0 && index < FILTER_TYPES ? filter_type_name(index) : NULL;
    case SECTION_SINK:
        return sink_at(index) != NULL ? sink_at(index)->name : NULL;
    default:
        return NULL;
    }
}

/* ---- making it --------------------------------------------------------------------------- */

struct option_choice sink_types[TYPES_MAX + 1];
char source_formats[FORMATS_BYTES], sink_formats[FORMATS_BYTES];
static struct option_choice source_types[TYPES_MAX + 2];
static char source_sentence[SENTENCE_BYTES], sink_sentence[SENTENCE_BYTES];

static struct {
    struct schema_key keys[KEYS_MAX];
    unsigned count;
    struct schema_key *slots[SECTIONS][SLOTS_MAX];
    unsigned slot_count[SECTIONS];
} schema;

static struct schema_key *add(enum section_kind section, const struct option_row *row,
                              struct schema_key *key)
{
    unsigned slot = schema.slot_count[section]++;
    assert(slot < SLOTS_MAX);
    *key = (struct schema_key){.row = *row, .section = section, .slot = slot};
    schema.slots[section][slot] = key;
    return key;
}

/* The rows of one driver; what another driver of the section has too gets one more type. */
static void add_driver(enum section_kind section, unsigned type, const struct option_row *rows,
                       unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct schema_key *key = NULL;
        for (unsigned k = KEYS; k < schema.count && key == NULL; k++)
            if (schema.keys[k].section == section &&
                strcmp(schema.keys[k].row.key, rows[i].key) == 0)
                key = &schema.keys[k];
        if (key == NULL) {
            assert(schema.count < KEYS_MAX);
            key = add(section, &rows[i], &schema.keys[schema.count++]);
        }
        key->applies |= 1u << type;
        key->required |= rows[i].required ? 1u << type : 0;
    }
}

static uint32_t source_mask(enum schema_scope scope)
{
    uint32_t mask = 0;
    for (unsigned i = 0; i < source_count(); i++) {
        const struct source_ops *driver = source_at((int)i);
        bool in = scope == SCOPE_OWN || (scope == SCOPE_TYPED && driver->format != NULL) ||
                  (scope == SCOPE_PADDED && driver->padded);
        mask |= in ? 1u << i : 0;
    }
    return mask;
}

static uint32_t sink_mask(enum schema_scope scope)
{
    uint32_t mask = 0;
    for (unsigned i = 0; i < sink_count(); i++)
        mask |= scope == SCOPE_TYPED && sink_at((int)i)->format != NULL ? 1u << i : 0;
    return mask;
}

static void add_row(const struct schema_row *from, struct schema_key *to)
{
    struct schema_key *key = add(from->section, &from->row, to);
    uint32_t (*mask)(enum schema_scope scope) =
        from->section == SECTION_STREAM ? source_mask : sink_mask;
    key->applies = from->scope != SCOPE_ALL ? mask(from->scope) : from->applies;
    key->required = from->row.required          ? ~0u
                    : from->needed != SCOPE_ALL ? mask(from->needed)
                                                : from->required;
}

static void append(char *text, size_t bytes, const char *lead, const char *name, const char *what)
{
    size_t used = strlen(text);
    int length = snprintf(text + used, bytes - used, "%s%s%s", lead, name, what);
    assert(length >= 0 && used + (size_t)length < bytes);
    (void)length;
}

static void append_sentence(char *text, const char *lead, const char *name, const char *sentence)
{
    append(text, SENTENCE_BYTES, lead, name, " (");
    append(text, SENTENCE_BYTES, sentence, ")", "");
}

/* "s16be for rtp, f32le for udp" */
static void append_format(char *text, const char *format, const char *name)
{
    append(text, FORMATS_BYTES, text[0] != '\0' ? ", " : "", format, " for ");
    append(text, FORMATS_BYTES, name, "", "");
}

/* What the rows of `source` and `type` say comes from io's tables. */
static void make_texts(void)
{
    const unsigned sources = source_count(), sinks = sink_count();
    assert(sources <= TYPES_MAX && sinks <= TYPES_MAX);
    for (unsigned i = 0; i < sources; i++) {
        const struct source_ops *driver = source_at((int)i);
        source_types[i] = (struct option_choice){driver->name, (int)i};
        append_sentence(source_sentence, i > 0 ? ", " : "", driver->name, driver->sentence);
        if (driver->format != NULL)
            append_format(source_formats, driver->format, driver->name);
    }
    source_types[sources] = (struct option_choice){"stream NAME", (int)sources};
    append(source_sentence, SENTENCE_BYTES, ", or stream NAME (the output of another stream).", "",
           "");
    for (unsigned i = 0; i < sinks; i++) {
        const struct sink_ops *driver = sink_at((int)i);
        sink_types[i] = (struct option_choice){driver->name, (int)i};
        append_sentence(sink_sentence,
                        i == 0          ? ""
                        : i + 1 < sinks ? ", "
                                        : " or ",
                        driver->name, driver->sentence);
        if (driver->format != NULL)
            append_format(sink_formats, driver->format, driver->name);
    }
    append(sink_sentence, SENTENCE_BYTES, ".", "", "");
}

/* A driver's rows stand behind `source`, or behind what all sinks have. */
static void make(void)
{
    make_texts();
    schema.count = KEYS;
    for (int id = 0; id < KEYS; id++) {
        add_row(&schema_rows[id], &schema.keys[id]);
        if (id == KEY_SOURCE)
            for (unsigned i = 0; i < source_count(); i++)
                add_driver(SECTION_STREAM, i, source_at((int)i)->options,
                           source_at((int)i)->option_count);
        if (id == KEY_SINK_FULL_SCALE)
            for (unsigned i = 0; i < sink_count(); i++)
                add_driver(SECTION_SINK, i, sink_at((int)i)->options,
                           sink_at((int)i)->option_count);
    }
    schema.keys[KEY_SOURCE].row.choices = source_types;
    schema.keys[KEY_SOURCE].row.sentence = source_sentence;
    schema.keys[KEY_SINK_TYPE].row.sentence = sink_sentence;
}

static void open_schema(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make);
}

/* ---- finding keys ------------------------------------------------------------------------ */

const struct schema_key *schema_key(enum schema_id id)
{
    open_schema();
    return &schema.keys[id];
}

const struct schema_key *schema_at(enum section_kind section, unsigned slot)
{
    open_schema();
    return slot < schema.slot_count[section] ? schema.slots[section][slot] : NULL;
}

unsigned schema_count(enum section_kind section)
{
    open_schema();
    return schema.slot_count[section];
}

const struct schema_key *schema_find(enum section_kind section, const char *key)
{
    for (unsigned slot = 0; slot < schema_count(section); slot++)
        if (strcmp(schema_at(section, slot)->row.key, key) == 0)
            return schema_at(section, slot);
    return NULL;
}

const struct schema_key *schema_nearest(enum section_kind section, const char *key)
{
    const struct schema_key *nearest = NULL;
    unsigned best = (unsigned)strlen(key) / 3 + 2; /* further away it is another word */
    for (unsigned slot = 0; slot < schema_count(section); slot++) {
        const struct schema_key *candidate = schema_at(section, slot);
        unsigned distance = option_distance(key, candidate->row.key);
        if (distance < best) {
            best = distance;
            nearest = candidate;
        }
    }
    return nearest;
}

/* ---- values of the configuration itself -------------------------------------------------- */

/* False when `text` is no format. Without a byte order it is little-endian here. */
static bool read_format(const char *text, struct sample_format *format, bool *order_written)
{
    char name[24];
    snprintf(name, sizeof name, "%s", strlen(text) < 16 ? text : "");
    *order_written = true;
    if (sample_format_parse(name, format) == 0)
        return true;
    size_t length = strlen(name);
    snprintf(name + length, sizeof name - length, "le");
    *order_written = false;
    return length > 0 && sample_format_parse(name, format) == 0;
}

int schema_parse_format(const struct option_row *row, const char *text, struct option_value *value,
                        struct problem *problem)
{
    struct sample_format format;
    bool order_written;
    (void)value;
    if (read_format(text, &format, &order_written))
        return 0;
    return problem_set(problem, ERROR_CONFIG,
                       "`%s = %.*s` is not a sample format; write u8, s16le, s16be, u16le, u16be, "
                       "s24le, s24be, s32le, s32be, f32le, f32be, L16 or L24",
                       row->key, OPTION_QUOTE, text);
}

struct sample_format schema_format(const struct option_value *value, bool *order_written)
{
    struct sample_format format = {0};
    read_format(value->text, &format, order_written);
    return format;
}

/* The name behind `stream`, NULL when the text does not begin so. */
static const char *upstream_of(const char *text)
{
    if (strncmp(text, "stream", 6) != 0 || !isspace((unsigned char)text[6]))
        return NULL;
    text += 6;
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

const char *schema_upstream(const struct option_value *value)
{
    return upstream_of(value->text);
}

/* value->integer becomes the index of the type. */
int schema_parse_source(const struct option_row *row, const char *text, struct option_value *value,
                        struct problem *problem)
{
    const char *upstream = upstream_of(text);
    if (upstream != NULL) {
        if (!option_name_valid(upstream))
            return problem_set(
                problem, ERROR_CONFIG,
                "`%s = %.*s` names no stream; write stream NAME, as in stream bandpass", row->key,
                OPTION_QUOTE, text);
        value->integer = (int64_t)source_count();
        return 0;
    }
    const char *nearest = NULL;
    char all[256] = "";
    for (int i = 0; source_at(i) != NULL; i++) {
        const char *name = source_at(i)->name;
        if (strcmp(name, text) == 0) {
            value->integer = i;
            return 0;
        }
        if (option_distance(name, text) <= 1 && nearest == NULL)
            nearest = name;
        append(all, sizeof all, i > 0 ? ", " : "", name, "");
    }
    if (nearest != NULL)
        return problem_set(problem, ERROR_CONFIG, "`%s = %.*s` is not known; write %s", row->key,
                           OPTION_QUOTE, text, nearest);
    return problem_set(problem, ERROR_CONFIG, "`%s = %.*s` is not known; write %s or stream NAME",
                       row->key, OPTION_QUOTE, text, all);
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
                           OPTION_QUOTE, text);
    return 0;
}

/* The parts of IN -> FILTER [GAIN] -> OUT; the gain stays a text. False: it is no route. */
static bool split_route(const char *text, struct schema_route *route, char *gain, size_t gain_bytes)
{
    const char *first = strstr(text, "->");
    const char *second = first != NULL ? strstr(first + 2, "->") : NULL;
    char input[16], middle[128], output[16];
    bool cut = second != NULL && strstr(second + 2, "->") == NULL &&
               piece(text, first, input, sizeof input) &&
               piece(first + 2, second, middle, sizeof middle) &&
               piece(second + 2, second + strlen(second), output, sizeof output);
    size_t name_length = cut ? strcspn(middle, " \t") : 0;
    if (!cut || name_length >= sizeof route->filter)
        return false;
    memcpy(route->filter, middle, name_length);
    route->filter[name_length] = '\0';
    route->input = channel_number(input);
    route->output = channel_number(output);
    return option_name_valid(route->filter) &&
           piece(middle + name_length, middle + strlen(middle), gain, gain_bytes);
}

int schema_parse_route(const struct option_row *row, const char *text, struct option_value *value,
                       struct problem *problem)
{
    struct schema_route route;
    char gain[128];
    (void)value;
    if (!split_route(text, &route, gain, sizeof gain))
        return problem_set(problem, ERROR_CONFIG,
                           "`%s = %.*s` is not a route; write IN -> FILTER [GAIN] -> OUT, as in "
                           "1 -> bandpass -6 dB -> 2",
                           row->key, OPTION_QUOTE, text);
    if (route.input == 0 || route.output == 0)
        return problem_set(problem, ERROR_CONFIG,
                           "`%s = %.*s`: channels and outputs are numbers counted from 1, up to "
                           "1024; write them so, as in 1 -> %s -> 1",
                           row->key, OPTION_QUOTE, text, route.filter);
    return gain[0] == '\0' ? 0 : parse_gain(gain, &route.gain, problem);
}

void schema_route(const struct option_value *value, struct schema_route *route)
{
    char gain[128] = "";
    struct problem problem;
    split_route(value->text, route, gain, sizeof gain);
    route->gain = 1;
    if (gain[0] != '\0')
        parse_gain(gain, &route->gain, &problem);
}
