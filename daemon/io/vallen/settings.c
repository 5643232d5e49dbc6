/* Settings: see settings.h. */
#include "io/vallen/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/clock.h"
#include "core/option.h"
#include "core/random.h"

void vallen_guid(char text[VALLEN_GUID_BYTES])
{
    uint8_t b[16];
    if (getrandom(b, sizeof b, 0) != sizeof b) {
        struct random_state random = {(uint64_t)clock_realtime_ns()};
        for (size_t i = 0; i < sizeof b; i++)
            b[i] = (uint8_t)random_u64(&random);
    }
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40); /* version 4: random (RFC 9562) */
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    snprintf(text, VALLEN_GUID_BYTES,
             "{%02X%02X%02X%02X-%02X%02X-%02X%02X-%02X%02X-%02X%02X%02X%02X%02X%02X}", b[0], b[1],
             b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
             b[15]);
}

/* ---- texts ------------------------------------------------------------------------------- */

/* Writes the rows; the first failure stays. */
struct settings {
    sqlite3 *db;
    const char *table;
    int status;
};

static void put(struct settings *s, const char *key, const char *value)
{
    char name[96];
    snprintf(name, sizeof name, "convolvd.%s", key);
    if (s->status == SQLITE_OK)
        s->status = vallen_schema_info(s->db, s->table, name, value != NULL ? value : "");
}

static void put_number(struct settings *s, const char *key, double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.17g", value);
    put(s, key, text);
}

/* One text for each channel, from `write`. */
static void put_list(struct settings *s, const char *key, uint32_t channels,
                     void (*write)(const void *of, uint32_t channel, FILE *out), const void *of)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    for (uint32_t c = 0; c < channels && out != NULL; c++) {
        fputs(c > 0 ? ", " : "", out);
        write(of, c, out);
    }
    if (out == NULL || fclose(out) != 0)
        s->status = SQLITE_NOMEM;
    else
        put(s, key, text);
    free(text);
}

static void write_text(const void *of, uint32_t channel, FILE *out)
{
    fputs(((const char *const *)of)[channel], out);
}

static void write_number(const void *of, uint32_t channel, FILE *out)
{
    fprintf(out, "%.17g", ((const double *)of)[channel]);
}

static void write_step(const void *of, uint32_t channel, FILE *out)
{
    fprintf(out, "%.17g", ((const struct vallen_scale *)of)[channel].step_v);
}

/* ---- options of the analysis -------------------------------------------------------------- */

static const char *choice_word(const struct option_row *row, uint32_t value)
{
    for (const struct option_choice *c = row->choices; c != NULL && c->word != NULL; c++)
        if (c->value == (int)value)
            return c->word;
    return NULL;
}

static void write_values(const struct option_value *values, unsigned count, FILE *out)
{
    for (unsigned i = 0; i < count; i++)
        fprintf(out, "%s%s", i > 0 ? ", " : "", values[i].text != NULL ? values[i].text : "");
}

/* The value that the row's field of `own` holds. */
static void write_option(const struct option_row *row, const void *own, FILE *out)
{
    const void *field = (const char *)own + row->offset;
    char text[48];
    switch (row->field) {
    case FIELD_NONE:
        break;
    case FIELD_TEXT: {
        const char *value = *(const char *const *)field;
        fputs(value != NULL ? value : "", out);
        break;
    }
    case FIELD_BOOLEAN:
        fputs(*(const bool *)field ? "yes" : "no", out);
        break;
    case FIELD_UINT32: {
        const char *word = choice_word(row, *(const uint32_t *)field);
        if (word != NULL)
            fputs(word, out);
        else
            fprintf(out, "%" PRIu32, *(const uint32_t *)field);
        break;
    }
    case FIELD_UINT64:
        fprintf(out, "%" PRIu64, *(const uint64_t *)field);
        break;
    case FIELD_INT64: {
        const double seconds = (double)*(const int64_t *)field / 1e9;
        fputs(quantity_print(DIMENSION_TIME, seconds, text, sizeof text), out);
        break;
    }
    case FIELD_NUMBER:
        fprintf(out, "%.17g", *(const double *)field);
        break;
    case FIELD_VALUE: {
        const struct option_value *value = *(const struct option_value *const *)field;
        write_values(value, value != NULL, out);
        break;
    }
    case FIELD_LIST: {
        const struct option_values *list = field;
        write_values(list->values, list->count, out);
        break;
    }
    }
}

static void put_option(struct settings *s, const struct option_row *row, const void *own)
{
    char key[80], *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    snprintf(key, sizeof key, "analysis.%.60s", row->key);
    if (out != NULL)
        write_option(row, own, out);
    if (out == NULL || fclose(out) != 0)
        s->status = SQLITE_NOMEM;
    else if (length > 0)
        put(s, key, text);
    free(text);
}

int vallen_settings_write(sqlite3 *db, const char *table, const struct event_sink_options *options,
                          const struct vallen_scale *scales)
{
    const struct analysis_options *analysis = options->analysis_options;
    const struct analysis_stream *stream = &analysis->stream;
    struct settings s = {.db = db, .table = table, .status = SQLITE_OK};
    put(&s, "version", CONVOLVD_VERSION);
    put(&s, "stream", stream->name);
    put_number(&s, "rate_hz", stream->rate_hz);
    put(&s, "taps_hash", stream->taps_hash);
    put_number(&s, "taps_longest", stream->taps_longest);
    put(&s, "config_hash", stream->config_hash);
    put_number(&s, "delay_frames", stream->delay_frames);
    put(&s, "aligned", stream->aligned ? "yes" : "no");
    put_list(&s, "units", stream->channels, write_text, stream->units);
    if (stream->preamp_db != NULL)
        put_list(&s, "preamp_db", stream->channels, write_number, stream->preamp_db);
    if (stream->full_scale != NULL)
        put_list(&s, "full_scale", stream->channels, write_number, stream->full_scale);
    put_list(&s, "step_v", stream->channels, write_step, scales);
    if (analysis->parameter_count > 0)
        put_list(&s, "parameters", analysis->parameter_count, write_text, analysis->parameters);
    put(&s, "analysis", analysis->name);
    put(&s, "analysis.type", options->analysis->name);
    for (unsigned i = 0; i < options->analysis->option_count; i++)
        if (!options->analysis->options[i].common && analysis->own != NULL)
            put_option(&s, &options->analysis->options[i], analysis->own);
    return s.status;
}
