/* Values of the configuration itself: see own_values.h. */
#include "config/own_values.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alarm/alarm.h"
#include "analysis/analysis.h"
#include "io/source.h"

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
        int sources = 0;
        while (source_at(sources) != NULL)
            sources++;
        value->integer = sources;
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
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", i > 0 ? ", " : "", name);
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
    else if (quantity.dimension == DIMENSION_NUMBER && fabs(number) <= 1e10)
        *gain = number;
    else
        return problem_set(problem, ERROR_CONFIG,
                           "`%.*s` cannot be the gain of a route; write a factor, as "
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

/* ---- quantities of alarms ---------------------------------------------------------------- */

const char *schema_quantities_text(char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int q = 0; q < ALARM_QUANTITIES && used < bytes; q++)
        if (!alarm_quantity_of_analysis((enum alarm_quantity)q))
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used > 0 ? ", " : "",
                                     alarm_quantity_name((enum alarm_quantity)q));
    return text;
}

/* "hits" of "hit". */
static bool is_plural_of(const char *text, const char *word)
{
    const size_t length = strlen(word);
    return strncmp(text, word, length) == 0 && strcmp(text + length, "s") == 0;
}

/* A quantity as written, but for FIELD; ALARM_FIELD: none of them. */
static enum alarm_quantity named_quantity(const char *text)
{
    for (int q = 0; q < ALARM_QUANTITIES; q++)
        if (q != ALARM_FIELD && strcmp(text, alarm_quantity_name((enum alarm_quantity)q)) == 0)
            return (enum alarm_quantity)q;
    for (int kind = 0; kind < ANALYSIS_EVENT_KINDS; kind++)
        if (is_plural_of(text, analysis_event_word((enum analysis_event_kind)kind)))
            return ALARM_EVENTS;
    return strncmp(text, "sum ", 4) == 0 ? ALARM_SUM : ALARM_FIELD;
}

int schema_parse_quantity(const struct option_row *row, const char *text,
                          struct option_value *value, struct problem *problem)
{
    char all[256];
    value->integer = named_quantity(text);
    if (value->integer != ALARM_FIELD)
        return 0;
    for (int q = 0; q < ALARM_QUANTITIES; q++)
        if (option_distance(text, alarm_quantity_name((enum alarm_quantity)q)) == 1)
            return problem_set(problem, ERROR_CONFIG, "`%s = %.*s` is not known; write %s",
                               row->key, OPTION_QUOTE, text,
                               alarm_quantity_name((enum alarm_quantity)q));
    if (text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0')
        return 0;
    return problem_set(
        problem, ERROR_CONFIG,
        "`%s = %.*s` is not known; write %s, or with `analysis` a field of its events", row->key,
        OPTION_QUOTE, text, schema_quantities_text(all, sizeof all));
}

/* ---- memory nodes ------------------------------------------------------------------------ */

enum { NODE_MOST = 1023 }; /* of Linux (CONFIG_NODES_SHIFT) */

int schema_parse_node(const struct option_row *row, const char *text, struct option_value *value,
                      struct problem *problem)
{
    const size_t digits = strspn(text, "0123456789");
    (void)value;
    if (strcmp(text, "auto") == 0 || strcmp(text, "none") == 0)
        return 0;
    if (digits > 0 && digits <= 4 && text[digits] == '\0' && atoi(text) <= NODE_MOST)
        return 0;
    return problem_set(problem, ERROR_CONFIG,
                       "`%s = %.*s` is no memory node; write auto, none or the number of a node, "
                       "such as 0",
                       row->key, OPTION_QUOTE, text);
}

struct node_setting schema_node(const struct option_value *value)
{
    if (strcmp(value->text, "none") == 0)
        return (struct node_setting){NODE_NONE, 0};
    if (strcmp(value->text, "auto") == 0)
        return (struct node_setting){NODE_AUTO, 0};
    return (struct node_setting){NODE_NUMBER, (uint32_t)atoi(value->text)};
}
