/* Schema: see schema.h. */
#include "io/vallen/schema.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/vallen/database.h"
#include "io/vallen/times.h"

_Static_assert(VALLEN_TIME_BASE == 10000000, "the views divide by it");

/* ---- scales ------------------------------------------------------------------------------ */

struct vallen_scale vallen_scale_of(double full_scale_v)
{
    const double time_base = (double)VALLEN_TIME_BASE;
    const double wanted = full_scale_v / 32768.0;
    struct vallen_scale scale = {.tr_mv = wanted * 1000.0};
    /* Readers divide by 1000: of the neighbours, the one that gives them the step exactly. */
    const double neighbours[] = {nextafter(scale.tr_mv, 0.0), nextafter(scale.tr_mv, INFINITY)};
    for (int i = 0; i < 2 && scale.tr_mv / 1000.0 != wanted; i++)
        if (neighbours[i] / 1000.0 == wanted)
            scale.tr_mv = neighbours[i];
    scale.step_v = scale.tr_mv / 1000.0;
    scale.adc_uv = scale.step_v * 1e6 / 2.0;
    scale.adc_te = scale.step_v * scale.step_v / time_base / 1e-14;
    scale.adc_ss = scale.step_v / time_base / 1e-9;
    return scale;
}

/* ---- texts ------------------------------------------------------------------------------- */

static const char *const pridb_tables =
    "CREATE TABLE acq_setup (ID INTEGER PRIMARY KEY, Data TEXT);"
    "CREATE TABLE ae_fieldinfo (field, Unit, SetTypes, Parameter, Factor);"
    "CREATE TABLE ae_globalinfo (Key UNIQUE, Value);"
    "CREATE TABLE ae_markers (\"SetID\" INT UNIQUE, \"Number\" INT, \"Data\" TEXT);"
    "CREATE TABLE data_integrity (TableName TEXT PRIMARY KEY UNIQUE, HashV1 INT, LastRow INT);"
    "CREATE VIEW view_ae_markers AS SELECT m.*, d.SetType, d.Time * 1E-7 AS Time "
    "FROM ae_markers m CROSS JOIN ae_data d ON d.SetID = m.SetID;";

static const char *const tradb_tables =
    "CREATE TABLE tr_data (\"SetID\" INTEGER PRIMARY KEY, \"Time\" INT, \"TRAI\" INT, \"Status\" "
    "INT,"
    " \"ParamID\" INT, \"Chan\" INT, \"Pretrigger\" INT, \"Thr\" INT, \"SampleRate\" INT,"
    " \"Samples\" INT, \"DataFormat\" INT, \"Data\" BLOB);"
    "CREATE TABLE tr_fieldinfo (field, Unit, Parameter);"
    "CREATE TABLE tr_globalinfo (Key UNIQUE, Value);"
    "CREATE TABLE tr_params (\"ID\" INTEGER PRIMARY KEY, \"SetupID\" INT, \"Chan\" INT,"
    " \"ADC_\u00b5V\" REAL, \"TR_mV\" REAL);"
    "CREATE INDEX idx_TRAI ON tr_data (TRAI);"
    "CREATE INDEX idx_SetupID_Chan ON tr_params (SetupID, Chan);"
    "CREATE VIEW view_tr_data AS SELECT d.SetID AS SetID, d.Time * 1E-7 AS Time, d.TRAI AS TRAI,"
    " d.Status AS Status, d.Chan AS Chan, d.Pretrigger AS Pretrigger,"
    " d.Thr * p.\"ADC_\u00b5V\" AS Thr, d.SampleRate AS SampleRate, d.Samples AS Samples,"
    " d.DataFormat AS DataFormat, p.TR_mV AS TR_mV, d.Data AS Data"
    " FROM tr_data d LEFT JOIN tr_params p ON p.ID = d.ParamID;"
    "INSERT INTO tr_fieldinfo VALUES ('Time', '[s]', NULL), ('Thr', '[\u00b5V]', 'ADC_\u00b5V'),"
    " ('SampleRate', '[Hz]', NULL), ('Data', NULL, 'TR_mV');"
    "INSERT INTO tr_params VALUES (1, 1, 0, 0, 0);";

static const char *const trfdb_tables =
    "CREATE TABLE trf_fieldinfo (field, SetTypes, Unit, LongName, Description, ShortName,"
    " FormatStr);"
    "CREATE TABLE trf_globalinfo (Key UNIQUE, Value);";

/* ---- columns of ae_data ------------------------------------------------------------------ */

/* SetTypes is a mask of 1 << SetType. */
enum { IN_PARAMETRIC = 2, IN_HIT = 4, IN_STATUS = 8, IN_ALL = 14 };

static const struct column {
    const char *name, *unit;
    int sets;
    const char *parameter; /* of ae_params, multiplies the code; NULL: none */
    const char *factor;    /* multiplies as well; NULL: 1 */
} columns[] = {
    {"SetType", NULL, 0, NULL, NULL},
    {"Time", "[s]", 0, NULL, "1E-7"},
    {"Chan", NULL, IN_HIT | IN_STATUS, NULL, NULL},
    {"Status", NULL, IN_ALL, NULL, NULL},
    {"ParamID", NULL, IN_ALL, NULL, NULL},
    {"Thr", "[\u00b5V]", IN_HIT | IN_STATUS, "ADC_\u00b5V", NULL},
    {"Amp", "[\u00b5V]", IN_HIT, "ADC_\u00b5V", NULL},
    {"RiseT", "[\u00b5s]", IN_HIT, NULL, "0.1"},
    {"Dur", "[\u00b5s]", IN_HIT, NULL, "0.1"},
    {"Eny", "[eu]", IN_HIT | IN_STATUS, "ADC_TE", NULL},
    {"SS", "[nVs]", IN_HIT | IN_STATUS, "ADC_SS", NULL},
    {"RMS", "[\u00b5V]", IN_HIT | IN_STATUS, "ADC_\u00b5V", "0.0065536"},
    {"Counts", NULL, IN_HIT, NULL, NULL},
    {"TRAI", NULL, IN_HIT, NULL, NULL},
    {"CCnt", NULL, IN_HIT, NULL, NULL},
    {"CEny", "[eu]", IN_HIT, "ADC_TE", NULL},
    {"CSS", "[nVs]", IN_HIT, "ADC_SS", NULL},
    {"CHits", NULL, IN_HIT, NULL, NULL},
    {"PCTD", NULL, IN_PARAMETRIC, NULL, NULL},
    {"PCTA", NULL, IN_PARAMETRIC, NULL, NULL},
};

enum { COLUMNS = sizeof columns / sizeof columns[0] };

/* Column i, those of the parameters behind the others; their texts lie in `text`. */
static struct column column_at(uint32_t i, char text[2][16])
{
    if (i < COLUMNS)
        return columns[i];
    snprintf(text[0], sizeof text[0], "PA%u", i - COLUMNS);
    snprintf(text[1], sizeof text[1], "PA%u_mV", i - COLUMNS);
    return (struct column){text[0], NULL, IN_PARAMETRIC, text[1], NULL};
}

static int run_stream(sqlite3 *db, FILE *text, char **bytes)
{
    const int failed = ferror(text) | fclose(text);
    const int status = failed == 0 ? database_run(db, *bytes) : SQLITE_NOMEM;
    free(*bytes);
    return status;
}

static void put_text(FILE *text, const char *value)
{
    if (value != NULL)
        fprintf(text, "'%s'", value);
    else
        fputs("NULL", text);
}

/* ae_data, its view and its rows of ae_fieldinfo. */
static int create_ae_data(sqlite3 *db, uint32_t parameters)
{
    char *bytes = NULL, names[2][16];
    size_t count;
    FILE *text = open_memstream(&bytes, &count);
    if (text == NULL)
        return SQLITE_NOMEM;
    fputs("CREATE TABLE ae_data (\"SetID\" INTEGER PRIMARY KEY", text);
    for (uint32_t i = 0; i < COLUMNS + parameters; i++)
        fprintf(text, ", \"%s\" INT", column_at(i, names).name);
    fputs("); CREATE VIEW view_ae_data AS SELECT d.SetID AS SetID", text);
    for (uint32_t i = 0; i < COLUMNS + parameters; i++) {
        const struct column c = column_at(i, names);
        if (strcmp(c.name, "ParamID") == 0)
            continue;
        fprintf(text, ", d.\"%s\"", c.name);
        if (c.factor != NULL)
            fprintf(text, " * %s", c.factor);
        if (c.parameter != NULL)
            fprintf(text, " * p.\"%s\"", c.parameter);
        fprintf(text, " AS \"%s\"", c.name);
    }
    fputs(" FROM ae_data d LEFT JOIN ae_params p ON p.ID = d.ParamID;", text);
    for (uint32_t i = 1; i < COLUMNS + parameters; i++) {
        const struct column c = column_at(i, names);
        fprintf(text, "INSERT INTO ae_fieldinfo VALUES ('%s', ", c.name);
        put_text(text, c.unit);
        fprintf(text, ", nullif(%d, 0), ", c.sets);
        put_text(text, c.parameter);
        fprintf(text, ", %s);", c.factor != NULL ? c.factor : "NULL");
    }
    return run_stream(db, text, &bytes);
}

static int create_ae_params(sqlite3 *db, const struct vallen_scale *scales, uint32_t channels,
                            uint32_t parameters)
{
    char *bytes = NULL;
    size_t count;
    FILE *text = open_memstream(&bytes, &count);
    if (text == NULL)
        return SQLITE_NOMEM;
    fputs("CREATE TABLE ae_params (\"ID\" INTEGER PRIMARY KEY, \"SetupID\" INT, \"Chan\" INT,"
          " \"ADC_\u00b5V\" REAL, \"ADC_TE\" REAL, \"ADC_SS\" REAL",
          text);
    for (uint32_t i = 0; i < parameters; i++)
        fprintf(text, ", \"PA%u_mV\" REAL", i);
    fputs("); CREATE INDEX idx_SetupID_Chan ON ae_params (SetupID, Chan);", text);
    for (uint32_t c = 0; c <= channels; c++) {
        const struct vallen_scale none = {0}, *scale = c > 0 ? &scales[c - 1] : &none;
        fprintf(text, "INSERT INTO ae_params VALUES (%u, 1, %u, %.17g, %.17g, %.17g", c + 1, c,
                scale->adc_uv, scale->adc_te, scale->adc_ss);
        for (uint32_t i = 0; i < parameters; i++)
            fputs(c > 0 ? ", 0" : ", 1", text);
        fputs(");", text);
    }
    return run_stream(db, text, &bytes);
}

/* ---- files ------------------------------------------------------------------------------- */

const char *vallen_prefix(enum vallen_file file)
{
    static const char *const prefixes[VALLEN_FILES] = {
        [VALLEN_PRIDB] = "ae",
        [VALLEN_TRADB] = "tr",
        [VALLEN_TRFDB] = "trf",
    };
    return prefixes[file];
}

int vallen_schema_info(sqlite3 *db, const char *table, const char *key, const char *value)
{
    char text[96];
    sqlite3_stmt *statement = NULL;
    snprintf(text, sizeof text, "INSERT OR REPLACE INTO %.8s_globalinfo VALUES (?, ?)", table);
    int status = sqlite3_prepare_v2(db, text, -1, &statement, NULL);
    if (status != SQLITE_OK)
        return status;
    sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 2, value, -1, SQLITE_STATIC);
    status = database_step(statement);
    sqlite3_finalize(statement);
    return status;
}

int vallen_schema_pridb(sqlite3 *db, const struct vallen_scale *scales, uint32_t channels,
                        uint32_t parameters)
{
    int status = create_ae_params(db, scales, channels, parameters);
    if (status == SQLITE_OK)
        status = database_run(db, pridb_tables);
    return status == SQLITE_OK ? create_ae_data(db, parameters) : status;
}

int vallen_schema_tradb(sqlite3 *db, const struct vallen_scale *scales, uint32_t channels)
{
    int status = database_run(db, tradb_tables);
    for (uint32_t c = 0; c < channels && status == SQLITE_OK; c++) {
        char text[160];
        snprintf(text, sizeof text, "INSERT INTO tr_params VALUES (%u, 1, %u, %.17g, %.17g)", c + 2,
                 c + 1, scales[c].adc_uv, scales[c].tr_mv);
        status = database_run(db, text);
    }
    return status;
}

/* A row of trf_fieldinfo. `number`: of a repeated field, from 1; 0: of a single one. */
static int describe_field(sqlite3_stmt *statement, const struct analysis_field *field,
                          uint32_t number)
{
    char name[80], unit[40];
    snprintf(name, sizeof name, number > 0 ? "%.64s_%u" : "%.64s", field->name, number);
    const char *word = field->unit != NULL ? field->unit : "V";
    snprintf(unit, sizeof unit, "[%.32s]", word);
    sqlite3_bind_text(statement, 1, name, -1, SQLITE_TRANSIENT);
    sqlite3_bind_int(statement, 2, IN_HIT);
    if (word[0] != '\0')
        sqlite3_bind_text(statement, 3, unit, -1, SQLITE_TRANSIENT);
    sqlite3_bind_text(statement, 4, name, -1, SQLITE_TRANSIENT);
    sqlite3_bind_text(statement, 5, field->sentence, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 6, name, -1, SQLITE_TRANSIENT);
    sqlite3_bind_text(statement, 7, "%.6g", -1, SQLITE_STATIC);
    return database_step(statement);
}

static int describe_fields(sqlite3 *db, const struct analysis_field *fields, uint32_t count)
{
    sqlite3_stmt *statement = NULL;
    int status = sqlite3_prepare_v2(db, "INSERT INTO trf_fieldinfo VALUES (?, ?, ?, ?, ?, ?, ?)",
                                    -1, &statement, NULL);
    for (uint32_t f = 0; f < count && status == SQLITE_OK; f++) {
        const uint32_t repeat = fields[f].repeat;
        for (uint32_t i = 0; i < (repeat > 0 ? repeat : 1) && status == SQLITE_OK; i++)
            status = describe_field(statement, &fields[f], repeat > 0 ? i + 1 : 0);
    }
    sqlite3_finalize(statement);
    return status;
}

int vallen_schema_trfdb(sqlite3 *db, const struct analysis_field *fields, uint32_t count)
{
    char *bytes = NULL;
    size_t length;
    FILE *text = open_memstream(&bytes, &length);
    if (text == NULL)
        return SQLITE_NOMEM;
    fputs("CREATE TABLE trf_data (" VALLEN_TRF_COLUMNS, text);
    for (uint32_t f = 0; f < count; f++) {
        if (fields[f].repeat == 0)
            fprintf(text, ", \"%s\" REAL", fields[f].name);
        for (uint32_t i = 0; i < fields[f].repeat; i++)
            fprintf(text, ", \"%s_%u\" REAL", fields[f].name, i + 1);
    }
    fputs(");", text);
    fputs(trfdb_tables, text);
    const int status = run_stream(db, text, &bytes);
    return status == SQLITE_OK ? describe_fields(db, fields, count) : status;
}
