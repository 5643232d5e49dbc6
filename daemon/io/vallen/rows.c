/* Rows: see rows.h. */
#include "io/vallen/rows.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/hit.h"
#include "io/vallen/database.h"
#include "io/vallen/vallen.h"

/* The column Status. */
enum {
    STATUS_OF_EVENT =
        ANALYSIS_TIMEOUT | ANALYSIS_SATURATED | ANALYSIS_PULSE | ANALYSIS_AFTER_TIMEOUT,
    STATUS_AE_ON = 4, /* of other sets: acquisition of hits, and of transients */
    STATUS_TR_ON = 8,
};

enum { PARAMETER_ROW = 1, FIRST_CHANNEL_ROW = 2, PAGE_BYTES = 8192 };

static const char *const value_names[VALLEN_VALUES] = {
    [VALLEN_AMPLITUDE] = "amplitude",
    [VALLEN_THRESHOLD] = "threshold",
    [VALLEN_RISE] = "rise_us",
    [VALLEN_DURATION] = "duration_us",
    [VALLEN_ENERGY] = "energy_eu",
    [VALLEN_STRENGTH] = "strength_nvs",
    [VALLEN_RMS] = "rms",
    [VALLEN_COUNTS] = "counts",
};

/* ---- values of a body -------------------------------------------------------------------- */

static double value_of(const struct analysis_field *field, const void *body, uint32_t i)
{
    const char *at = (const char *)body + field->offset;
    switch (field->type) {
    case ANALYSIS_UINT32:
        return ((const uint32_t *)(const void *)at)[i];
    case ANALYSIS_UINT64:
        return (double)((const uint64_t *)(const void *)at)[i];
    default:
        return ((const double *)(const void *)at)[i];
    }
}

/* NAN: the analysis has no such field, or its value is undefined. */
static double value(const struct vallen_rows *rows, enum vallen_value which, const void *body)
{
    return rows->values[which] != NULL ? value_of(rows->values[which], body, 0) : NAN;
}

/* ---- sets -------------------------------------------------------------------------------- */

/* Columns of ae_data, as insert_set binds them. */
enum {
    SET_ID = 1,
    SET_TYPE,
    SET_TIME,
    SET_CHAN,
    SET_STATUS,
    SET_PARAM,
    SET_THR,
    SET_AMP,
    SET_RISE,
    SET_DUR,
    SET_ENY,
    SET_SS,
    SET_RMS,
    SET_COUNTS,
    SET_TRAI,
};

static const char *const set_text =
    "INSERT INTO ae_data (SetID, SetType, Time, Chan, Status, ParamID, Thr, Amp, RiseT, Dur, Eny,"
    " SS, RMS, Counts, TRAI) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

static sqlite3_stmt *begin_set(struct vallen_rows *rows, enum vallen_set set, int64_t ticks)
{
    sqlite3_stmt *s = rows->insert_set;
    sqlite3_bind_int64(s, SET_ID, ++rows->set_id);
    sqlite3_bind_int(s, SET_TYPE, (int)set);
    sqlite3_bind_int64(s, SET_TIME, ticks);
    return s;
}

/* What hits and intervals have in common. */
static void bind_levels(const struct vallen_rows *rows, const struct analysis_event *event)
{
    sqlite3_stmt *s = rows->insert_set;
    const struct vallen_scale *scale = &rows->scales[event->channel];
    const double uv = rows->volts[event->channel] * 1e6; /* one unit */
    const void *body = event->body;
    sqlite3_bind_int64(s, SET_CHAN, (int64_t)event->channel + 1);
    sqlite3_bind_int64(s, SET_PARAM, (int64_t)event->channel + FIRST_CHANNEL_ROW);
    database_bind_code(s, SET_THR, value(rows, VALLEN_THRESHOLD, body) * uv, scale->adc_uv);
    database_bind_code(s, SET_ENY, value(rows, VALLEN_ENERGY, body), scale->adc_te);
    database_bind_code(s, SET_SS, value(rows, VALLEN_STRENGTH, body), scale->adc_ss);
    database_bind_code(s, SET_RMS, value(rows, VALLEN_RMS, body) * uv,
                       scale->adc_uv * VALLEN_RMS_FACTOR);
}

static int put_hit(struct vallen_rows *rows, const struct analysis_event *event, int64_t ticks)
{
    const double us = (double)VALLEN_TIME_BASE / 1e6;
    const double uv = rows->volts[event->channel] * 1e6;
    const void *body = event->body;
    sqlite3_stmt *s = begin_set(rows, VALLEN_SET_HIT, ticks);
    bind_levels(rows, event);
    sqlite3_bind_int64(s, SET_STATUS, event->flags & STATUS_OF_EVENT);
    database_bind_code(s, SET_AMP, value(rows, VALLEN_AMPLITUDE, body) * uv,
                       rows->scales[event->channel].adc_uv);
    database_bind_code(s, SET_RISE, value(rows, VALLEN_RISE, body) * us, 1.0);
    database_bind_code(s, SET_DUR, value(rows, VALLEN_DURATION, body) * us, 1.0);
    database_bind_code(s, SET_COUNTS, value(rows, VALLEN_COUNTS, body), 1.0);
    sqlite3_bind_int64(s, SET_TRAI, rows->trai);
    return database_step(s);
}

static int put_interval(struct vallen_rows *rows, const struct analysis_event *event, int64_t ticks)
{
    sqlite3_stmt *s = begin_set(rows, VALLEN_SET_STATUS, ticks);
    bind_levels(rows, event);
    sqlite3_bind_int(s, SET_STATUS, STATUS_AE_ON);
    return database_step(s);
}

int vallen_rows_marker(struct vallen_rows *rows, enum vallen_set set, int64_t ticks, int number,
                       const char *text)
{
    sqlite3_stmt *s = begin_set(rows, set, ticks), *marker = rows->insert_marker;
    const int status = database_step(s);
    if (status != SQLITE_OK)
        return status;
    sqlite3_bind_int64(marker, 1, rows->set_id);
    if (number > 0)
        sqlite3_bind_int(marker, 2, number);
    sqlite3_bind_text(marker, 3, text, -1, SQLITE_TRANSIENT);
    return database_step(marker);
}

int vallen_rows_label(struct vallen_rows *rows, int64_t ticks, const char *text)
{
    return vallen_rows_marker(rows, VALLEN_SET_LABEL, ticks, ++rows->labels, text);
}

/* ---- parameters -------------------------------------------------------------------------- */

static bool parameters_changed(const struct vallen_rows *rows, const struct analysis_event *event,
                               uint32_t count)
{
    if (!rows->parameters_known)
        return true;
    for (uint32_t i = 0; i < count; i++) {
        const double a = rows->last_parameters[i], b = event->parameters[i];
        if (!(a == b || (isnan(a) && isnan(b))))
            return true;
    }
    return false;
}

static int put_parameters(struct vallen_rows *rows, const struct analysis_event *event,
                          int64_t ticks)
{
    const uint32_t count =
        event->parameter_count < rows->parameters ? event->parameter_count : rows->parameters;
    if (count == 0 || !parameters_changed(rows, event, count))
        return SQLITE_OK;
    sqlite3_stmt *s = rows->insert_parameters;
    sqlite3_bind_int64(s, 1, ++rows->set_id);
    sqlite3_bind_int64(s, 2, ticks);
    sqlite3_bind_int(s, 3,
                     STATUS_AE_ON | (rows->files->db[VALLEN_TRADB] != NULL ? STATUS_TR_ON : 0));
    for (uint32_t i = 0; i < count; i++)
        database_bind_real(s, (int)(4 + i), event->parameters[i]);
    memcpy(rows->last_parameters, event->parameters, count * sizeof event->parameters[0]);
    rows->parameters_known = true;
    return database_step(s);
}

void vallen_rows_forget(struct vallen_rows *rows)
{
    rows->parameters_known = false;
}

/* ---- transients and features ------------------------------------------------------------- */

/* 32768 is the Status of every record. */
static const char *const transient_text =
    "INSERT INTO tr_data (SetID, Time, TRAI, ParamID, Chan, Pretrigger, Thr, SampleRate, Samples,"
    " DataFormat, Data, Status) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 32768)";

static bool reserve_codes(struct vallen_rows *rows, size_t count)
{
    if (count <= rows->code_capacity)
        return true;
    int16_t *grown = realloc(rows->codes, count * sizeof *grown);
    if (grown == NULL)
        return false;
    rows->codes = grown;
    rows->code_capacity = count;
    return true;
}

/* Binds the samples; FLAC where that was chosen and is shorter. False: no memory. */
static bool bind_samples(struct vallen_rows *rows, const struct analysis_event *event,
                         uint64_t *clipped)
{
    sqlite3_stmt *s = rows->insert_transient;
    const size_t bytes = event->sample_count * sizeof *rows->codes;
    if (!reserve_codes(rows, event->sample_count))
        return false;
    const double step = rows->scales[event->channel].step_v / rows->volts[event->channel];
    *clipped += vallen_quantise(event->samples, event->sample_count, step, rows->codes);
    const bool flac = rows->transients == VALLEN_TRANSIENTS_FLAC && event->sample_count > 0 &&
                      vallen_flac_encode(rows->codes, event->sample_count, &rows->flac) == 0 &&
                      rows->flac.count < bytes;
    sqlite3_bind_int(s, 10, flac ? VALLEN_FLAC : VALLEN_RAW);
    sqlite3_bind_blob64(s, 11, flac ? (const void *)rows->flac.bytes : rows->codes,
                        flac ? rows->flac.count : bytes, SQLITE_STATIC);
    return true;
}

static int put_transient(struct vallen_rows *rows, const struct analysis_event *event,
                         int64_t ticks, uint64_t *clipped)
{
    sqlite3_stmt *s = rows->insert_transient;
    if (s == NULL || event->samples == NULL)
        return SQLITE_OK;
    const double uv = rows->volts[event->channel] * 1e6;
    if (!bind_samples(rows, event, clipped))
        return SQLITE_NOMEM;
    sqlite3_bind_int64(s, 1, ++rows->transient_id);
    sqlite3_bind_int64(s, 2, ticks);
    sqlite3_bind_int64(s, 3, rows->trai);
    sqlite3_bind_int64(s, 4, (int64_t)event->channel + FIRST_CHANNEL_ROW);
    sqlite3_bind_int64(s, 5, (int64_t)event->channel + 1);
    sqlite3_bind_int64(s, 6, -event->first_sample);
    database_bind_code(s, 7, value(rows, VALLEN_THRESHOLD, event->body) * uv,
                       rows->scales[event->channel].adc_uv);
    sqlite3_bind_int64(s, 8, rows->rate_hz);
    sqlite3_bind_int64(s, 9, event->sample_count);
    return database_step(s);
}

static int put_features(struct vallen_rows *rows, const struct analysis_event *event)
{
    sqlite3_stmt *s = rows->insert_features;
    int column = VALLEN_TRF_LEADING;
    if (s == NULL)
        return SQLITE_OK;
    sqlite3_bind_int64(s, 1, rows->trai);
    sqlite3_bind_double(s, 2, (double)event->epoch);
    sqlite3_bind_double(s, 3, (double)event->record);
    sqlite3_bind_double(s, 4, (double)event->frame);
    sqlite3_bind_double(s, 5, event->flags);
    sqlite3_bind_double(s, 6, event->causes);
    for (uint32_t f = 0; f < rows->field_count; f++) {
        const struct analysis_field *field = &rows->fields[f];
        /* Fields in the channel's unit are stored in volts. */
        const double unit = field->unit == NULL ? rows->volts[event->channel] : 1.0;
        for (uint32_t i = 0; i < (field->repeat > 0 ? field->repeat : 1); i++)
            database_bind_real(s, ++column, value_of(field, event->body, i) * unit);
    }
    return database_step(s);
}

int vallen_rows_event(struct vallen_rows *rows, const struct analysis_event *event, int64_t ticks,
                      uint64_t *clipped)
{
    assert(event->channel < rows->options->analysis_options->stream.channels);
    int status = put_parameters(rows, event, ticks);
    if (status != SQLITE_OK)
        return status;
    if (event->kind == ANALYSIS_INTERVAL)
        return put_interval(rows, event, ticks);
    rows->trai++;
    status = put_transient(rows, event, ticks, clipped);
    if (status == SQLITE_OK)
        status = put_features(rows, event);
    return status == SQLITE_OK ? put_hit(rows, event, ticks) : status;
}

/* ---- what the files say of themselves ---------------------------------------------------- */

int vallen_rows_update_info(struct vallen_rows *rows, enum vallen_file file)
{
    const int64_t sets[VALLEN_FILES] = {
        [VALLEN_PRIDB] = rows->set_id,
        [VALLEN_TRADB] = rows->transient_id,
        [VALLEN_TRFDB] = rows->trai,
    };
    sqlite3_stmt *s = rows->update_info[file];
    char valid[24], trai[24];
    snprintf(valid, sizeof valid, "%lld", (long long)sets[file]);
    snprintf(trai, sizeof trai, "%lld", (long long)rows->trai);
    sqlite3_bind_text(s, 1, valid, -1, SQLITE_TRANSIENT);
    sqlite3_bind_text(s, 2, trai, -1, SQLITE_TRANSIENT);
    return database_step(s);
}

uint64_t vallen_rows_file_bytes(struct vallen_rows *rows, enum vallen_file file)
{
    sqlite3_stmt *s = rows->page_count[file];
    const uint64_t pages = sqlite3_step(s) == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(s, 0) : 0;
    sqlite3_reset(s);
    return pages * PAGE_BYTES;
}

/* ---- life -------------------------------------------------------------------------------- */

static const struct analysis_field *field_named(const struct vallen_rows *rows, const char *name)
{
    for (uint32_t f = 0; f < rows->field_count; f++)
        if (strcmp(rows->fields[f].name, name) == 0)
            return &rows->fields[f];
    return NULL;
}

int vallen_rows_open(struct vallen_rows *rows, const struct vallen_file_set *files,
                     const struct event_sink_options *options, struct problem *problem)
{
    const struct analysis_options *analysis = options->analysis_options;
    const struct analysis_stream *stream = &analysis->stream;
    const struct vallen_options *own = options->own;
    rows->options = options;
    rows->files = files;
    rows->transients = own->transients;
    rows->parameters = analysis->parameter_count;
    rows->rate_hz = (int64_t)stream->rate_hz;
    vallen_times_open(&rows->times, rows->rate_hz);
    rows->fields = options->analysis->fields(analysis, &rows->field_count);
    for (int i = 0; i < VALLEN_VALUES; i++)
        rows->values[i] = field_named(rows, value_names[i]);
    rows->scales = calloc(stream->channels, sizeof *rows->scales);
    rows->volts = calloc(stream->channels, sizeof *rows->volts);
    if (rows->scales == NULL || rows->volts == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    for (uint32_t c = 0; c < stream->channels; c++) {
        rows->volts[c] = hit_volts(stream->units[c]);
        const double full_scale_v =
            own->range_v > 0 ? own->range_v : stream->full_scale[c] * rows->volts[c];
        if (!(full_scale_v > 0))
            return problem_set(problem, ERROR_CONFIG,
                               "channel %u has no full scale in volts; write `range`", c + 1);
        rows->scales[c] = vallen_scale_of(full_scale_v);
    }
    return 0;
}

/* "INSERT INTO TABLE VALUES (?, ?, …)"; `columns` of them. */
static sqlite3_stmt *prepare_insert(sqlite3 *db, const char *table, uint32_t columns,
                                    struct problem *problem)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    sqlite3_stmt *statement = NULL;
    if (out != NULL) {
        fprintf(out, "INSERT INTO %s VALUES (?", table);
        for (uint32_t i = 1; i < columns; i++)
            fputs(", ?", out);
        fputc(')', out);
    }
    if (out == NULL || fclose(out) != 0)
        problem_set(problem, ERROR_MEMORY, "out of memory");
    else
        statement = database_prepare(db, text, problem);
    free(text);
    return statement;
}

static sqlite3_stmt *prepare_parameters(struct vallen_rows *rows, struct problem *problem)
{
    char text[512] = "INSERT INTO ae_data (SetType, ParamID, SetID, Time, Status";
    size_t used = strlen(text);
    for (uint32_t i = 0; i < rows->parameters; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, ", PA%u", i);
    used += (size_t)snprintf(text + used, sizeof text - used, ") VALUES (%d, %d, ?1, ?2, ?3",
                             VALLEN_SET_PARAMETRIC, PARAMETER_ROW);
    for (uint32_t i = 0; i < rows->parameters; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, ", ?%u", 4 + i);
    snprintf(text + used, sizeof text - used, ")");
    return database_prepare(rows->files->db[VALLEN_PRIDB], text, problem);
}

static bool prepare_info(struct vallen_rows *rows, enum vallen_file file, const char *prefix,
                         struct problem *problem)
{
    sqlite3 *db = rows->files->db[file];
    char text[200];
    snprintf(text, sizeof text,
             "UPDATE %s_globalinfo SET Value = CASE Key WHEN 'TRAI' THEN ?2 ELSE ?1 END"
             " WHERE Key IN ('ValidSets', 'TRAI')",
             prefix);
    rows->update_info[file] = database_prepare(db, text, problem);
    rows->page_count[file] = database_prepare(db, "PRAGMA page_count", problem);
    return rows->update_info[file] != NULL && rows->page_count[file] != NULL;
}

int vallen_rows_prepare(struct vallen_rows *rows, struct problem *problem)
{
    sqlite3 *const *db = rows->files->db;
    uint32_t features = VALLEN_TRF_LEADING;
    for (uint32_t f = 0; f < rows->field_count; f++)
        features += rows->fields[f].repeat > 0 ? rows->fields[f].repeat : 1;
    rows->insert_set = database_prepare(db[VALLEN_PRIDB], set_text, problem);
    rows->insert_marker = prepare_insert(db[VALLEN_PRIDB], "ae_markers", 3, problem);
    rows->insert_parameters = prepare_parameters(rows, problem);
    bool good = rows->insert_set != NULL && rows->insert_marker != NULL &&
                rows->insert_parameters != NULL && prepare_info(rows, VALLEN_PRIDB, "ae", problem);
    if (good && db[VALLEN_TRADB] != NULL) {
        rows->insert_transient = database_prepare(db[VALLEN_TRADB], transient_text, problem);
        good = rows->insert_transient != NULL && prepare_info(rows, VALLEN_TRADB, "tr", problem);
    }
    if (good && db[VALLEN_TRFDB] != NULL) {
        rows->insert_features = prepare_insert(db[VALLEN_TRFDB], "trf_data", features, problem);
        good = rows->insert_features != NULL && prepare_info(rows, VALLEN_TRFDB, "trf", problem);
    }
    return good ? 0 : ERROR_SYSTEM;
}

static void finalize(sqlite3_stmt **statement)
{
    sqlite3_finalize(*statement);
    *statement = NULL;
}

void vallen_rows_close(struct vallen_rows *rows)
{
    finalize(&rows->insert_set);
    finalize(&rows->insert_parameters);
    finalize(&rows->insert_marker);
    finalize(&rows->insert_transient);
    finalize(&rows->insert_features);
    for (int file = 0; file < VALLEN_FILES; file++) {
        finalize(&rows->update_info[file]);
        finalize(&rows->page_count[file]);
    }
    free(rows->scales);
    free(rows->volts);
    free(rows->codes);
    vallen_blob_free(&rows->flac);
    rows->scales = NULL;
    rows->volts = NULL;
    rows->codes = NULL;
    rows->code_capacity = 0;
}
