/* Events as text: see event_text.h. */
#include "io/event_text.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for what every event has, for a parameter or field beside its name, and for a sample. */
enum { FIXED_BYTES = 1024, VALUE_BYTES = EVENT_NUMBER_BYTES + 16, SAMPLE_BYTES = 20 };

struct event_text {
    const struct analysis_ops *ops;
    const struct analysis_options *options;
    const struct analysis_field *fields;
    uint32_t field_count;
    size_t line_bytes; /* room that a line without samples needs */
    char *line;
    size_t bytes, at; /* of `line`; how much is written */
};

/* ---- numbers ----------------------------------------------------------------------------- */

static size_t put_integer(uint64_t value, char *out)
{
    char digits[20];
    size_t count = 0;
    do {
        digits[count++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    for (size_t i = 0; i < count; i++)
        out[i] = digits[count - 1 - i];
    return count;
}

/* A finite number as text that reads back as the same double: with up to six decimals where that is
 * enough, else 17 digits. Returns its length. */
static size_t put_number(double value, char out[EVENT_NUMBER_BYTES])
{
    static const double decimals = 1e6, most = 9007199254740992.0; /* 2^53 */
    const double scaled = rint(fabs(value) * decimals);
    /* The quotient of two exact numbers is rounded once, as reading the decimal would be. */
    if (scaled >= most || scaled / decimals != fabs(value)) {
        snprintf(out, EVENT_NUMBER_BYTES, "%.17g", value);
        return strlen(out);
    }
    const uint64_t all = (uint64_t)scaled, whole = all / 1000000;
    uint32_t fraction = (uint32_t)(all % 1000000), digits = 6;
    size_t at = 0;
    if (signbit(value))
        out[at++] = '-';
    at += put_integer(whole, out + at);
    if (fraction > 0) {
        for (; fraction % 10 == 0; digits--)
            fraction /= 10;
        out[at++] = '.';
        for (uint32_t i = digits; i-- > 0; fraction /= 10)
            out[at + i] = (char)('0' + fraction % 10);
        at += digits;
    }
    out[at] = '\0';
    return at;
}

/* ---- the line ---------------------------------------------------------------------------- */

static void add_bytes(struct event_text *t, const char *bytes, size_t count)
{
    assert(t->at + count < t->bytes);
    memcpy(t->line + t->at, bytes, count);
    t->at += count;
    t->line[t->at] = '\0';
}

static void add(struct event_text *t, const char *text)
{
    add_bytes(t, text, strlen(text));
}

static void add_unsigned(struct event_text *t, uint64_t value)
{
    char digits[20];
    add_bytes(t, digits, put_integer(value, digits));
}

static void add_signed(struct event_text *t, int64_t value)
{
    if (value < 0)
        add(t, "-");
    add_unsigned(t, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

/* `undefined` where it is no number. */
static void add_number(struct event_text *t, double value, const char *undefined)
{
    char text[EVENT_NUMBER_BYTES];
    if (isfinite(value))
        add_bytes(t, text, put_number(value, text));
    else
        add(t, undefined);
}

static void add_field(struct event_text *t, const struct analysis_field *field, uint32_t index,
                      const struct analysis_event *event, const char *undefined)
{
    static const size_t sizes[] = {
        [ANALYSIS_DOUBLE] = sizeof(double),
        [ANALYSIS_UINT32] = sizeof(uint32_t),
        [ANALYSIS_UINT64] = sizeof(uint64_t),
    };
    const size_t bytes = sizes[field->type], offset = field->offset + index * bytes;
    const uint8_t *at = (const uint8_t *)event->body + offset;
    union {
        double number;
        uint32_t u32;
        uint64_t u64;
    } value;
    assert(offset + bytes <= event->body_bytes);
    memcpy(&value, at, bytes);
    if (field->type == ANALYSIS_DOUBLE)
        add_number(t, value.number, undefined);
    else
        add_unsigned(t, field->type == ANALYSIS_UINT32 ? value.u32 : value.u64);
}

static uint32_t repeats(const struct analysis_field *field)
{
    return field->repeat > 0 ? field->repeat : 1;
}

static void add_name(struct event_text *t, const struct analysis_field *field, uint32_t index)
{
    add(t, field->name);
    if (field->repeat > 0) {
        add(t, "_");
        add_unsigned(t, index + 1);
    }
}

/* The words of the bits that are set: each in `quote`, with `separator` between them. */
static void add_words(struct event_text *t, uint32_t bits, bool causes, const char *quote,
                      const char *separator)
{
    bool any = false;
    for (uint32_t i = 0; i < 32; i++) {
        if ((bits >> i & 1) == 0)
            continue;
        const char *word = causes ? (i < INVALID_CAUSES ? invalid_cause_name(i) : NULL)
                                  : analysis_flag_word(1u << i);
        if (word == NULL)
            continue;
        add(t, any ? separator : "");
        add(t, quote);
        add(t, word);
        add(t, quote);
        any = true;
    }
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void add_member(struct event_text *t, const char *name)
{
    add(t, ",\"");
    add(t, name);
    add(t, "\":");
}

static void add_times(struct event_text *t, const struct analysis_event *event)
{
    add_member(t, "frame");
    add_unsigned(t, event->frame);
    add_member(t, "arrival_ns");
    add_signed(t, event->arrival_ns);
    add_member(t, "capture_ns");
    add_signed(t, event->capture_ns);
    add_member(t, "clock");
    add(t, "\"");
    add(t, clock_source_name(event->clock));
    add(t, "\"");
    add_member(t, "clock_error_ns");
    add_signed(t, event->clock_error_ns);
    add_member(t, "delay_frames");
    add_number(t, event->delay_frames, "null");
}

static void add_values(struct event_text *t, const struct analysis_event *event)
{
    add_member(t, "parameters");
    add(t, "{");
    for (uint32_t i = 0; i < t->options->parameter_count; i++) {
        add(t, i > 0 ? ",\"" : "\"");
        add(t, t->options->parameters[i]);
        add(t, "\":");
        add_number(t, i < event->parameter_count ? event->parameters[i] : (double)NAN, "null");
    }
    add(t, "}");
    add_member(t, "values");
    add(t, "{");
    for (uint32_t f = 0; f < t->field_count; f++) {
        const struct analysis_field *field = &t->fields[f];
        for (uint32_t i = 0; i < repeats(field); i++) {
            add(t, f + i > 0 ? ",\"" : "\"");
            add_name(t, field, i);
            add(t, "\":");
            add_field(t, field, i, event, "null");
        }
    }
    add(t, "}");
}

static void add_samples(struct event_text *t, const struct analysis_event *event)
{
    add_member(t, "first_sample");
    add_signed(t, event->first_sample);
    add_member(t, "samples");
    add(t, "[");
    for (uint32_t i = 0; i < event->sample_count; i++) {
        char text[SAMPLE_BYTES];
        const int length =
            snprintf(text, sizeof text, i > 0 ? ",%.9g" : "%.9g", (double)event->samples[i]);
        add_bytes(t, text, (size_t)length);
    }
    add(t, "]");
}

/* Room for a line, and for the event's samples besides. */
static bool make_room(struct event_text *t, uint32_t samples)
{
    const size_t wanted = t->line_bytes + (size_t)samples * SAMPLE_BYTES;
    t->at = 0;
    if (wanted <= t->bytes)
        return true;
    char *grown = realloc(t->line, wanted);
    if (grown == NULL)
        return false;
    t->line = grown;
    t->bytes = wanted;
    return true;
}

char *event_text_json(struct event_text *t, const struct analysis_event *event, bool samples,
                      size_t *length)
{
    samples = samples && event->samples != NULL;
    if (!make_room(t, samples ? event->sample_count : 0))
        return NULL;
    add(t, "{\"analysis\":\"");
    add(t, t->options->name);
    add(t, "\",\"kind\":\"");
    add(t, analysis_event_word(event->kind));
    add(t, "\"");
    add_member(t, "number");
    add_unsigned(t, event->number);
    add_member(t, "channel");
    add_unsigned(t, event->channel + 1u);
    add_member(t, "epoch");
    add_unsigned(t, event->epoch);
    add_member(t, "record");
    add_unsigned(t, event->record);
    add_times(t, event);
    add_member(t, "flags");
    add(t, "[");
    add_words(t, event->flags, false, "\"", ",");
    add(t, "]");
    add_member(t, "causes");
    add(t, "[");
    add_words(t, event->causes, true, "\"", ",");
    add(t, "]");
    add_values(t, event);
    if (samples)
        add_samples(t, event);
    add(t, "}");
    if (length != NULL)
        *length = t->at;
    return t->line;
}

/* ---- tables ------------------------------------------------------------------------------ */

const char *event_text_columns(struct event_text *t, size_t *length)
{
    t->at = 0;
    add(t, "number,channel,epoch,record,frame,arrival_ns,capture_ns,clock,clock_error_ns,"
           "delay_frames,flags,causes");
    for (uint32_t i = 0; i < t->options->parameter_count; i++) {
        add(t, ",");
        add(t, t->options->parameters[i]);
    }
    for (uint32_t f = 0; f < t->field_count; f++)
        for (uint32_t i = 0; i < repeats(&t->fields[f]); i++) {
            add(t, ",");
            add_name(t, &t->fields[f], i);
        }
    add(t, "\n");
    *length = t->at;
    return t->line;
}

const char *event_text_line(struct event_text *t, const struct analysis_event *event,
                            size_t *length)
{
    const uint64_t first[] = {event->number, event->channel + 1u, event->epoch, event->record,
                              event->frame};
    t->at = 0;
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++) {
        add_unsigned(t, first[i]);
        add(t, ",");
    }
    add_signed(t, event->arrival_ns);
    add(t, ",");
    add_signed(t, event->capture_ns);
    add(t, ",");
    add(t, clock_source_name(event->clock));
    add(t, ",");
    add_signed(t, event->clock_error_ns);
    add(t, ",");
    add_number(t, event->delay_frames, "");
    add(t, ",");
    add_words(t, event->flags, false, "", "|");
    add(t, ",");
    add_words(t, event->causes, true, "", "|");
    for (uint32_t i = 0; i < t->options->parameter_count; i++) {
        add(t, ",");
        add_number(t, i < event->parameter_count ? event->parameters[i] : (double)NAN, "");
    }
    for (uint32_t f = 0; f < t->field_count; f++)
        for (uint32_t i = 0; i < repeats(&t->fields[f]); i++) {
            add(t, ",");
            add_field(t, &t->fields[f], i, event, "");
        }
    add(t, "\n");
    *length = t->at;
    return t->line;
}

/* ---- life -------------------------------------------------------------------------------- */

int event_text_open(const struct analysis_ops *ops, const struct analysis_options *options,
                    struct event_text **out)
{
    struct event_text *t = calloc(1, sizeof *t);
    if (t == NULL)
        return ERROR_MEMORY;
    t->ops = ops;
    t->options = options;
    t->fields = ops->fields(options, &t->field_count);
    t->line_bytes = FIXED_BYTES + strlen(options->name);
    for (uint32_t i = 0; i < options->parameter_count; i++)
        t->line_bytes += strlen(options->parameters[i]) + VALUE_BYTES;
    for (uint32_t f = 0; f < t->field_count; f++)
        t->line_bytes += repeats(&t->fields[f]) * (strlen(t->fields[f].name) + VALUE_BYTES);
    if (!make_room(t, 0)) {
        event_text_close(t);
        return ERROR_MEMORY;
    }
    *out = t;
    return 0;
}

void event_text_close(struct event_text *t)
{
    if (t == NULL)
        return;
    free(t->line);
    free(t);
}
