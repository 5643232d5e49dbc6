/* What the tests of Vallen's files share: see vallen_files.h. */
#include "tests/support/vallen_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <sqlite3.h>
#include <string.h>

#include "io/event_sinks.h"

static const char *const units[] = {"V", "V", "mV"};
static const double preamps[] = {34, 34, 0}, scales[] = {1, 1, 1000};

static const struct analysis_field *hit_table(const struct analysis_options *options,
                                              uint32_t *count)
{
    static struct analysis_field fields[HIT_FIELDS_MAX];
    (void)options;
    *count = hit_fields(fields, 2);
    return fields;
}

static const struct analysis_field *interval_table(const struct analysis_options *options,
                                                   uint32_t *count)
{
    (void)options;
    return interval_fields(count);
}

struct hits_options {
    const struct option_value *threshold;
    int64_t hdt_ns;
};

static const struct option_row hits_rows[] = {
    {.key = "threshold", .type = OPTION_AMPLITUDE, OPTION_FIELD(struct hits_options, threshold)},
    {.key = "hdt", .type = OPTION_TIME, OPTION_FIELD(struct hits_options, hdt_ns)},
};

static const struct analysis_ops hits = {
    .name = "hits",
    .emits = ANALYSIS_HIT,
    .options = hits_rows,
    .option_count = 2,
    .fields = hit_table,
};
static const struct analysis_ops intervals = {
    .name = "intervals",
    .emits = ANALYSIS_INTERVAL,
    .fields = interval_table,
};

void vallen_world(struct vallen_world *world, const char *path)
{
    static const struct option_value threshold = {.number = 40, .text = "40 dB"};
    static struct hits_options own = {&threshold, 200000};
    *world = (struct vallen_world){
        .analysis =
            {
                .name = "vessel",
                .stream =
                    {
                        .name = "rig",
                        .rate_hz = 1e6,
                        .channels = VALLEN_CHANNELS,
                        .units = units,
                        .taps_longest = 401,
                        .taps_hash = "0123abcd",
                        .config_hash = "feed",
                        .preamp_db = preamps,
                        .full_scale = scales,
                    },
                .own = &own,
            },
        .own = {.path = path, .flush_ns = 1000000000},
        .options = {.name = "archive", .analysis = &hits},
    };
    world->options.analysis_options = &world->analysis;
    world->options.own = &world->own;
}

void vallen_world_intervals(struct vallen_world *world, const char *path)
{
    vallen_world(world, path);
    world->options.analysis = &intervals;
    world->analysis.own = NULL;
}

struct event_sink *vallen_world_open(const struct vallen_world *world)
{
    struct event_sink *sink = NULL;
    struct problem problem = {0};
    const struct io_environment environment = {0};
    if (event_sink_vallen.open(&world->options, &environment, &sink, &problem) != 0)
        fail_msg("open: %s", problem.text);
    return sink;
}

int16_t vallen_hit_code(uint64_t number, uint32_t i)
{
    return (int16_t)((number * 1000 + (uint64_t)i * 37) % 60000) - 30000;
}

struct analysis_event vallen_hit(uint64_t number, uint64_t epoch, uint64_t frame)
{
    static struct hit body;
    static float samples[VALLEN_SAMPLES];
    const uint32_t channel = (uint32_t)(number % VALLEN_CHANNELS);
    const double n = (double)number, unit = channel == 2 ? 1000 : 1; /* of a volt */
    body = (struct hit){
        .last_frame = frame + 150,
        .peak_frame = frame + 20,
        .counts = 7 + number,
        .counts_to_peak = 2,
        .amplitude = (0.001 + n * 1e-6) * unit,
        .peak_db = 60 + n / 100,
        .rise_us = 20.5,
        .duration_us = 150.05,
        .energy_eu = 1000 + n,
        .strength_nvs = 50 + n,
        .average_khz = NAN,
        .rms = 3e-4 * unit,
        .threshold = 1e-4 * unit,
        .kurtosis = 1.0 / 3,
        .partial = {0.25, 0.5},
    };
    for (uint32_t i = 0; i < VALLEN_SAMPLES; i++)
        samples[i] = (float)(vallen_hit_code(number, i) / 32768.0 * unit);
    const int64_t at_ns = VALLEN_TEST_NS + (int64_t)frame * 1000 + (int64_t)epoch * 10000000000;
    return (struct analysis_event){
        .kind = ANALYSIS_HIT,
        .ordered = true,
        .number = number,
        .channel = channel,
        .epoch = epoch,
        .frame = frame,
        .capture_ns = at_ns,
        .arrival_ns = at_ns,
        .body = &body,
        .body_bytes = sizeof body,
        .samples = samples,
        .sample_count = VALLEN_SAMPLES,
        .first_sample = -VALLEN_PRETRIGGER,
    };
}

/* ---- reading ----------------------------------------------------------------------------- */

/* Runs a query and stands at its first row. */
static sqlite3 *query(const char *path, const char *sql, sqlite3_stmt **statement)
{
    sqlite3 *db = NULL;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
        fail_msg("%s: %s", path, sqlite3_errmsg(db));
    if (sqlite3_prepare_v2(db, sql, -1, statement, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    if (sqlite3_step(*statement) != SQLITE_ROW)
        fail_msg("%s: no row", sql);
    return db;
}

double vallen_number(const char *path, const char *sql)
{
    sqlite3_stmt *statement;
    sqlite3 *db = query(path, sql, &statement);
    const double value = sqlite3_column_type(statement, 0) == SQLITE_NULL
                             ? NAN
                             : sqlite3_column_double(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return value;
}

const char *vallen_text(const char *path, const char *sql)
{
    static char text[512];
    sqlite3_stmt *statement;
    sqlite3 *db = query(path, sql, &statement);
    const unsigned char *value = sqlite3_column_text(statement, 0);
    strncpy(text, value != NULL ? (const char *)value : "", sizeof text - 1);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return text;
}

uint32_t vallen_codes(const char *path, const char *sql, int16_t *codes, uint32_t capacity)
{
    sqlite3_stmt *statement;
    sqlite3 *db = query(path, sql, &statement);
    const uint32_t bytes = (uint32_t)sqlite3_column_bytes(statement, 0);
    assert_true(bytes / sizeof *codes <= capacity);
    memcpy(codes, sqlite3_column_blob(statement, 0), bytes);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return bytes / (uint32_t)sizeof *codes;
}
