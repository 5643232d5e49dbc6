/* The schema: see schema.h. */
#include "config/schema.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "alarm/alarm.h"
#include "analysis/analysis.h"
#include "config/schema_rows.h"
#include "filter/filter.h"
#include "io/event_sink.h"
#include "io/sink.h"
#include "io/source.h"

enum {
    KEYS_MAX = 512,
    SLOTS_MAX = 192, /* keys of one section */
    TYPES_MAX = 30,  /* bits of a mask, less one for the chain and NO_TYPE */
    FORMATS_BYTES = 256,
    SENTENCE_BYTES = 2048,
};

#define NO_TYPE (1u << 31)

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

static unsigned event_sink_count(void)
{
    unsigned count = 0;
    while (event_sink_at((int)count) != NULL)
        count++;
    return count;
}

static unsigned analysis_count(void)
{
    unsigned count = 0;
    while (analysis_at((int)count) != NULL)
        count++;
    return count;
}

const struct event_sink_ops *schema_event_sink(int type)
{
    return event_sink_at(type - (int)sink_count());
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
        if (schema_event_sink(index) != NULL)
            return schema_event_sink(index)->name;
        return sink_at(index) != NULL ? sink_at(index)->name : NULL;
    case SECTION_ANALYSIS:
        return analysis_at(index) != NULL ? analysis_at(index)->name : NULL;
    case SECTION_ALARM:
        return index >= 0 && index < ALARM_QUANTITIES
                   ? alarm_quantity_name((enum alarm_quantity)index)
                   : NULL;
    default:
        return NULL;
    }
}

/* ---- making it --------------------------------------------------------------------------- */

struct option_choice sink_types[TYPES_MAX + 1], analysis_types[TYPES_MAX + 1];
char source_formats[FORMATS_BYTES], sink_formats[FORMATS_BYTES];
static struct option_choice source_types[TYPES_MAX + 2];
static char source_sentence[SENTENCE_BYTES], sink_sentence[SENTENCE_BYTES];
char alarm_sentence[SENTENCE_BYTES], analysis_sentence[SENTENCE_BYTES];

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

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* Whether both are parsed and described alike. */
static bool is_same(const struct option_row *a, const struct option_row *b)
{
    return a->type == b->type && a->list == b->list && a->minimum == b->minimum &&
           a->maximum == b->maximum && a->above_minimum == b->above_minimum &&
           a->choices == b->choices && a->parse == b->parse &&
           same_text(a->fallback, b->fallback) && same_text(a->fallback_words, b->fallback_words) &&
           same_text(a->sentence, b->sentence);
}

/* The key as an analysis means it that is not the first to have it. */
static struct schema_key *add_meaning(struct schema_key *key, const struct option_row *row)
{
    while (!is_same(&key->row, row) && key->other != NULL)
        key = (struct schema_key *)key->other;
    if (is_same(&key->row, row))
        return key;
    assert(schema.count < KEYS_MAX);
    struct schema_key *other = &schema.keys[schema.count++];
    *other = (struct schema_key){.row = *row, .section = key->section, .slot = key->slot};
    key->other = other;
    return other;
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
        } else if (section == SECTION_ANALYSIS) {
            key = add_meaning(key, &rows[i]);
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
    for (unsigned i = 0; i < sink_count(); i++) {
        bool in =
            scope == SCOPE_FRAMES || (scope == SCOPE_TYPED && sink_at((int)i)->format != NULL);
        mask |= in ? 1u << i : 0;
    }
    for (unsigned i = 0; i < event_sink_count(); i++)
        mask |= scope == SCOPE_EVENTS ? 1u << (sink_count() + i) : 0;
    return mask;
}

static uint32_t analysis_mask(enum schema_scope scope)
{
    uint32_t mask = 0;
    for (unsigned i = 0; i < analysis_count(); i++)
        mask |= analysis_at((int)i)->of_events == (scope == SCOPE_EVENTS) ? 1u << i : 0;
    return mask;
}

/* A scope that no type has: no bit of a type that is there, so that the row applies to none. */
static uint32_t mask_of(enum section_kind section, enum schema_scope scope)
{
    const uint32_t mask = section == SECTION_STREAM ? source_mask(scope)
                          : section == SECTION_SINK ? sink_mask(scope)
                                                    : analysis_mask(scope);
    return mask != 0 ? mask : NO_TYPE;
}

static void add_row(const struct schema_row *from, struct schema_key *to)
{
    struct schema_key *key = add(from->section, &from->row, to);
    key->applies = from->scope != SCOPE_ALL ? mask_of(from->section, from->scope) : from->applies;
    key->required = from->row.required          ? ~0u
                    : from->needed != SCOPE_ALL ? mask_of(from->section, from->needed)
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
    assert(sources <= TYPES_MAX && sinks + event_sink_count() <= TYPES_MAX);
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
        append_sentence(sink_sentence, i == 0 ? "" : ", ", driver->name, driver->sentence);
        if (driver->format != NULL)
            append_format(sink_formats, driver->format, driver->name);
    }
    for (unsigned i = 0; i < event_sink_count(); i++) {
        const struct event_sink_ops *driver = event_sink_at((int)i);
        sink_types[sinks + i] = (struct option_choice){driver->name, (int)(sinks + i)};
        append_sentence(sink_sentence, i == 0 ? "; of events: " : ", ", driver->name,
                        driver->sentence);
    }
    append(sink_sentence, SENTENCE_BYTES, ".", "", "");
    for (unsigned i = 0; i < analysis_count(); i++) {
        const struct analysis_ops *type = analysis_at((int)i);
        analysis_types[i] = (struct option_choice){type->name, (int)i};
        append_sentence(analysis_sentence, i == 0 ? "What it looks for: " : ", ", type->name,
                        type->sentence);
    }
    append(analysis_sentence, SENTENCE_BYTES, ".", "", "");
    for (int q = 0; q < ALARM_QUANTITIES; q++)
        append_sentence(alarm_sentence, q > 0 ? ", " : "The figure: ", alarm_quantity_name(q),
                        alarm_quantity_sentence(q));
    append(alarm_sentence, SENTENCE_BYTES, ".", "", "");
}

static void add_sinks(void)
{
    for (unsigned i = 0; i < sink_count(); i++)
        add_driver(SECTION_SINK, i, sink_at((int)i)->options, sink_at((int)i)->option_count);
    for (unsigned i = 0; i < event_sink_count(); i++)
        add_driver(SECTION_SINK, sink_count() + i, event_sink_at((int)i)->options,
                   event_sink_at((int)i)->option_count);
}

/* A driver's rows stand behind `source`, or behind what all sinks or analyses have. */
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
            add_sinks();
        if (id == KEY_ANALYSIS_BUFFER)
            for (unsigned i = 0; i < analysis_count(); i++)
                add_driver(SECTION_ANALYSIS, i, analysis_at((int)i)->options,
                           analysis_at((int)i)->option_count);
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

const struct schema_key *schema_for(const struct schema_key *key, int type)
{
    for (const struct schema_key *at = key; at != NULL; at = at->other)
        if (type >= 0 && at->applies >> type & 1)
            return at;
    return key;
}

uint32_t schema_applies(const struct schema_key *key)
{
    uint32_t applies = 0;
    for (; key != NULL; key = key->other)
        applies |= key->applies;
    return applies;
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
