/* Index of a .tradb: see tradb_index.h. */
#include "io/vallen/tradb_index.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "io/vallen/database.h"
#include "io/vallen/times.h"
#include "io/vallen/transient.h"

enum {
    PARAMS_MAX = 32767, /* rows of tr_params; two scales each */
    ROWS_MAX = TIMELINE_RECORDS_MAX,
};

#define RATE_MAX      INT64_C(4000000000)
#define TIME_BASE_MAX INT64_C(1000000000)
#define STEP_MV_MAX   1e6

/* ---- statements -------------------------------------------------------------------------- */

/* An integer column, also as text; false: it is none, or out of its range. */
static bool column_integer(sqlite3_stmt *s, int column, int64_t least, int64_t most, int64_t *value)
{
    const int type = sqlite3_column_type(s, column);
    if (type == SQLITE_NULL || type == SQLITE_BLOB)
        return false;
    if (type == SQLITE_FLOAT) {
        const double number = sqlite3_column_double(s, column);
        if (!(fabs(number) < 1e18) || number != rint(number))
            return false;
    }
    *value = sqlite3_column_int64(s, column);
    return *value >= least && *value <= most;
}

/* ---- scales ------------------------------------------------------------------------------ */

static int add_scales(struct tradb_index *index, int64_t id, int64_t channel, double tr_mv)
{
    struct tradb_scale *grown =
        realloc(index->scales, (index->scale_count + 2) * sizeof *index->scales);
    if (grown == NULL)
        return ERROR_MEMORY;
    index->scales = grown;
    const enum vallen_format formats[] = {VALLEN_RAW, VALLEN_FLAC};
    for (int i = 0; i < 2; i++)
        index->scales[index->scale_count++] = (struct tradb_scale){
            .id = id, .format = formats[i], .channel = (uint16_t)channel, .step_v = tr_mv / 1000};
    return 0;
}

static int read_params(struct tradb_index *index, struct problem *problem)
{
    sqlite3_stmt *s =
        database_prepare(index->db, "SELECT ID, Chan, TR_mV FROM tr_params ORDER BY ID", problem);
    int status = s != NULL ? 0 : ERROR_FORMAT, step = SQLITE_DONE;
    uint32_t rows = 0;
    while (status == 0 && (step = sqlite3_step(s)) == SQLITE_ROW && rows++ < PARAMS_MAX) {
        int64_t id, channel;
        const double tr_mv = sqlite3_column_double(s, 2);
        if (column_integer(s, 0, 0, INT64_MAX, &id) &&
            column_integer(s, 1, 1, TIMELINE_CHANNELS_MAX, &channel) && tr_mv > 0 &&
            tr_mv <= STEP_MV_MAX)
            status = add_scales(index, id, channel, tr_mv);
    }
    if (status == 0 && step != SQLITE_DONE)
        status = problem_set(problem, ERROR_FORMAT, "tr_params cannot be read: %s",
                             sqlite3_errmsg(index->db));
    else if (status == ERROR_MEMORY)
        problem_set(problem, ERROR_MEMORY, "out of memory");
    sqlite3_finalize(s);
    return status;
}

/* Rows come by ID, so this is a search in order. -1: there is none. */
static int find_scale(const struct tradb_index *index, int64_t id, int64_t format)
{
    uint32_t low = 0, high = index->scale_count / 2;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (index->scales[2 * middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    if (2 * low >= index->scale_count || index->scales[2 * low].id != id)
        return -1;
    return format == VALLEN_RAW ? (int)(2 * low) : format == VALLEN_FLAC ? (int)(2 * low + 1) : -1;
}

/* ---- records ----------------------------------------------------------------------------- */

enum { ROW, TIME, PARAM, CHAN, LEAD, RATE, SAMPLES, FORMAT, LENGTH };

static const char *const records_text =
    "SELECT rowid, Time, ParamID, Chan, Pretrigger, SampleRate, Samples, DataFormat, length(Data)"
    " FROM tr_data ORDER BY rowid";

/* The most bytes that so many samples take: FLAC has frames of its own, and tags before them. */
static int64_t longest_blob(int64_t samples)
{
    return 2 * samples + samples / 16 + 65536;
}

/* Reads a row; false: it is no record that can be played. */
static bool read_record(const struct tradb_index *index, sqlite3_stmt *s,
                        struct timeline_record *record, int64_t *rate_hz)
{
    int64_t row, ticks, param, channel, lead = 0, samples, format, length;
    if (!column_integer(s, ROW, INT64_MIN, INT64_MAX, &row) ||
        !column_integer(s, TIME, INT64_MIN, INT64_MAX, &ticks) ||
        !column_integer(s, PARAM, 0, INT64_MAX, &param) ||
        !column_integer(s, CHAN, 1, TIMELINE_CHANNELS_MAX, &channel) ||
        !column_integer(s, RATE, 1, RATE_MAX, rate_hz) ||
        !column_integer(s, SAMPLES, 1, TIMELINE_SAMPLES_MAX, &samples) ||
        !column_integer(s, FORMAT, 0, 2, &format) ||
        !column_integer(s, LENGTH, 1, longest_blob(samples), &length))
        return false;
    if (sqlite3_column_type(s, LEAD) != SQLITE_NULL &&
        !column_integer(s, LEAD, INT32_MIN, INT32_MAX, &lead))
        return false;
    const int scale = find_scale(index, param, format);
    if (scale < 0 || (format == VALLEN_RAW && length != 2 * samples))
        return false;
    *record = (struct timeline_record){
        .row = row,
        .ticks = ticks,
        .lead = (int32_t)lead,
        .frames = (uint32_t)samples,
        .channel = (uint16_t)(channel - 1),
        .scale = (uint16_t)scale,
    };
    return true;
}

/* Adds one row; the first one that is wanted says the rate. */
static int add_row(struct tradb_index *index, sqlite3_stmt *s, uint32_t channel, int64_t time_base,
                   int64_t *last_ticks, struct problem *problem)
{
    struct timeline_record record;
    int64_t rate_hz;
    if (!read_record(index, s, &record, &rate_hz)) {
        index->left_out++;
        return 0;
    }
    if (channel > 0 && record.channel != channel - 1)
        return 0;
    if (channel > 0)
        record.channel = 0;
    if (index->timeline.rate_hz == 0)
        timeline_open(&index->timeline, rate_hz, time_base);
    if (index->timeline.rate_hz != rate_hz)
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "it holds records at %lld Hz and at %lld Hz, and a stream has one rate; "
                           "play one `file channel`, if each has one",
                           (long long)index->timeline.rate_hz, (long long)rate_hz);
    index->disorder += record.ticks < *last_ticks;
    *last_ticks = record.ticks;
    const int status = timeline_add(&index->timeline, &record);
    if (status == ERROR_ARGUMENT)
        index->left_out++;
    else if (status == ERROR_LIMIT)
        problem_set(problem, status, "it has more than %d records; split it", ROWS_MAX);
    else if (status == ERROR_MEMORY)
        problem_set(problem, status, "out of memory for its records");
    return status == ERROR_ARGUMENT ? 0 : status;
}

static int read_records(struct tradb_index *index, uint32_t channel, struct problem *problem)
{
    char text[40] = "";
    int64_t last_ticks = INT64_MIN;
    char *end;
    const bool known = database_key(index->db, "tr_globalinfo", "TimeBase", text, sizeof text);
    const double time_base = strtod(text, &end);
    if (!known || *end != '\0' || !(time_base >= 1 && time_base <= (double)TIME_BASE_MAX) ||
        time_base != rint(time_base))
        return problem_set(problem, ERROR_FORMAT,
                           "its tr_globalinfo says no TimeBase, without which no time is known");
    sqlite3_stmt *s = database_prepare(index->db, records_text, problem);
    int status = s != NULL ? 0 : ERROR_FORMAT, step = SQLITE_DONE;
    for (uint32_t rows = 0; status == 0 && (step = sqlite3_step(s)) == SQLITE_ROW; rows++)
        status =
            rows < ROWS_MAX
                ? add_row(index, s, channel, (int64_t)time_base, &last_ticks, problem)
                : problem_set(problem, ERROR_LIMIT, "it has more than %d rows; split it", ROWS_MAX);
    if (status == 0 && step != SQLITE_DONE)
        status = problem_set(problem, ERROR_FORMAT, "tr_data cannot be read: %s",
                             sqlite3_errmsg(index->db));
    sqlite3_finalize(s);
    if (status == 0 && index->timeline.count == 0)
        status =
            problem_set(problem, ERROR_FORMAT,
                        "it holds no record%s that can be played (%llu rows are damaged or of "
                        "an unknown kind)",
                        channel > 0 ? " of this channel" : "", (unsigned long long)index->left_out);
    if (status == 0 && timeline_build(&index->timeline) != 0)
        status = problem_set(problem, ERROR_MEMORY, "out of memory for its records");
    return status;
}

/* ---- channels ---------------------------------------------------------------------------- */

/* Channels of the file, and the step of each: of its records, else of its row of tr_params. */
static int read_channels(struct tradb_index *index, uint32_t channel, struct problem *problem)
{
    const struct timeline *timeline = &index->timeline;
    for (uint32_t i = 0; channel == 0 && i < index->scale_count; i++)
        if (index->scales[i].channel > index->channels)
            index->channels = index->scales[i].channel;
    for (uint32_t i = 0; i < timeline->count; i++)
        if (timeline->records[i].channel >= index->channels)
            index->channels = timeline->records[i].channel + 1u;
    index->channel_step_v = calloc(index->channels, sizeof *index->channel_step_v);
    if (index->channel_step_v == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    for (uint32_t i = 0; i < timeline->count; i++) {
        const struct timeline_record *record = &timeline->records[i];
        const double step_v = index->scales[record->scale].step_v;
        double *known = &index->channel_step_v[record->channel];
        index->floats = index->floats || (*known > 0 && *known != step_v);
        *known = step_v;
    }
    for (uint32_t c = 0; c < index->channels; c++) {
        for (uint32_t i = 0; index->channel_step_v[c] == 0 && i < index->scale_count; i++)
            if (index->scales[i].channel == c + 1)
                index->channel_step_v[c] = index->scales[i].step_v;
        if (index->channel_step_v[c] == 0)
            index->channel_step_v[c] = 1.0 / 32768;
    }
    return 0;
}

/* ---- when it began ----------------------------------------------------------------------- */

/* "TimeZone: +01:00 (…)" in seconds east of UTC; 0 for anything else. */
static int zone_seconds(const char *text)
{
    int hours, minutes;
    char sign;
    if (sscanf(text, "TimeZone: %c%2d:%2d", &sign, &hours, &minutes) != 3 ||
        (sign != '+' && sign != '-') || hours < 0 || hours > 15 || minutes < 0 || minutes > 59)
        return 0;
    return (sign == '-' ? -60 : 60) * (60 * hours + minutes);
}

/* "2022-11-17 18:45:03" in seconds since 1970, as if it were UTC. */
static bool date_seconds(const char *text, int64_t *seconds)
{
    struct tm tm = {0};
    int used = 0;
    if (sscanf(text, "%4d-%2d-%2d %2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
               &tm.tm_min, &tm.tm_sec, &used) != 6 ||
        text[used] != '\0' || tm.tm_year < 1970 || tm.tm_year > 2149)
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon--;
    const struct tm written = tm;
    *seconds = timegm(&tm);
    return tm.tm_mon == written.tm_mon && tm.tm_mday == written.tm_mday &&
           tm.tm_hour == written.tm_hour && tm.tm_min == written.tm_min &&
           tm.tm_sec == written.tm_sec;
}

/* The realtime of Time 0, from the first date-time set and the time zone. */
static bool read_date(sqlite3 *db, int64_t time_base, int64_t *origin_ns)
{
    static const char *const text =
        "SELECT d.SetType, d.Time, m.Data FROM ae_data d JOIN ae_markers m ON m.SetID = d.SetID"
        " WHERE d.SetType IN (4, 5) ORDER BY d.SetID LIMIT 100";
    sqlite3_stmt *s = NULL;
    int64_t seconds = 0, ticks = 0;
    int zone = 0;
    bool dated = false;
    if (!database_is_table(db, "ae_data") || !database_is_table(db, "ae_markers") ||
        sqlite3_prepare_v2(db, text, -1, &s, NULL) != SQLITE_OK)
        return false;
    while (sqlite3_step(s) == SQLITE_ROW) {
        const char *data = (const char *)sqlite3_column_text(s, 2);
        if (data == NULL)
            continue;
        if (sqlite3_column_int(s, 0) == 5 && !dated)
            dated =
                date_seconds(data, &seconds) && column_integer(s, 1, 0, INT64_C(1) << 53, &ticks);
        else if (sqlite3_column_int(s, 0) == 4 && zone == 0)
            zone = zone_seconds(data);
    }
    sqlite3_finalize(s);
    *origin_ns = (seconds - zone) * NS_PER_SECOND - vallen_rescale(ticks, NS_PER_SECOND, time_base);
    return dated;
}

/* The .pridb beside it, if it is the one that the .tradb refers to. */
static void read_origin(struct tradb_index *index, const char *path)
{
    char name[PATH_MAX], wanted[80] = "", has[80] = "";
    const size_t length = strlen(path);
    sqlite3 *db = NULL;
    struct problem problem;
    if (length < 6 || length >= sizeof name || strcmp(path + length - 6, ".tradb") != 0)
        return;
    snprintf(name, sizeof name, "%.*s.pridb", (int)(length - 6), path);
    if (database_open_untrusted(name, &db, &problem) != 0)
        return;
    database_key(index->db, "tr_globalinfo", "ReferenceID", wanted, sizeof wanted);
    database_key(db, "ae_globalinfo", "FileID", has, sizeof has);
    if (strcmp(wanted, has) == 0)
        index->dated = read_date(db, index->timeline.time_base, &index->origin_ns);
    if (!index->dated)
        index->origin_ns = 0;
    sqlite3_close(db);
}

/* ---- life -------------------------------------------------------------------------------- */

int tradb_index_open(struct tradb_index *index, const char *path, uint32_t channel,
                     struct problem *problem)
{
    int status = database_open_untrusted(path, &index->db, problem);
    if (status != 0)
        return status;
    if (!database_is_table(index->db, "tr_data") || !database_is_table(index->db, "tr_params"))
        return problem_set(problem, ERROR_FORMAT,
                           "is no .tradb: %s; give a file of transients by Vallen's software, or "
                           "by a sink of type vallen",
                           sqlite3_errcode(index->db) == SQLITE_OK
                               ? "it has no tables tr_data and tr_params"
                               : sqlite3_errmsg(index->db));
    status = read_params(index, problem);
    if (status == 0)
        status = read_records(index, channel, problem);
    if (status == 0)
        status = read_channels(index, channel, problem);
    if (status == 0)
        read_origin(index, path);
    return status;
}

void tradb_index_close(struct tradb_index *index)
{
    timeline_close(&index->timeline);
    free(index->scales);
    free(index->channel_step_v);
    sqlite3_close(index->db);
    *index = (struct tradb_index){0};
}

uint64_t tradb_index_bytes(const struct tradb_index *index)
{
    return index->timeline.capacity * sizeof(struct timeline_record) +
           index->timeline.epoch_capacity * sizeof(struct timeline_epoch) +
           index->scale_count * sizeof(struct tradb_scale);
}
