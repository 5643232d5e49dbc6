/*
 * Writer: see writer.h. Life of the files, transactions and the sets between events are here; the
 * rows of events are in rows.c.
 */
#include "io/vallen/writer.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

#include "core/clock.h"
#include "core/log.h"
#include "io/vallen/database.h"
#include "io/vallen/repair.h"
#include "io/vallen/rows.h"
#include "io/vallen/settings.h"
#include "io/vallen/vallen.h"

static const int64_t complaint_ns = 10 * NS_PER_SECOND, look_ns = NS_PER_SECOND;

/* The order of commits: what a row refers to is there before the row. */
static const enum vallen_file commit_order[VALLEN_FILES] = {VALLEN_TRADB, VALLEN_TRFDB,
                                                            VALLEN_PRIDB};

struct vallen_writer {
    const struct event_sink_options *options;
    const struct vallen_options *own;
    struct vallen_names names;
    struct vallen_file_set files;
    struct vallen_rows rows;
    bool opened;                 /* the section's first sets are written */
    bool uncommitted;            /* a transaction is open in each file */
    uint64_t events;             /* in it */
    uint64_t untold, told_in_it; /* events that no file holds, and that no label counts yet */
    bool opened_in_it;
    int64_t opened_ns; /* realtime */
    uint64_t moved;    /* that a date-time set tells of */
    int64_t next_look_ns;
    bool short_of_space;
    struct log_limit failures, clips;
    _Atomic uint64_t lost, clipped, bytes, moved_epochs;
};

/* ---- transactions ------------------------------------------------------------------------ */

static int each_file(struct vallen_writer *w, const char *text)
{
    int status = SQLITE_OK;
    for (int i = 0; i < VALLEN_FILES && status == SQLITE_OK; i++) {
        sqlite3 *db = w->files.db[commit_order[i]];
        if (db != NULL)
            status = database_run(db, text);
    }
    return status;
}

/* Gives up what is not committed. */
static int give_up(struct vallen_writer *w, int status)
{
    const char *message = sqlite3_errstr(status);
    for (int file = 0; file < VALLEN_FILES; file++) {
        sqlite3 *db = w->files.db[file];
        if (db != NULL && !sqlite3_get_autocommit(db))
            database_run(db, "ROLLBACK");
    }
    atomic_fetch_add(&w->lost, w->events);
    w->untold += w->events;
    w->told_in_it = 0;
    if (!w->short_of_space)
        log_limited(&w->failures, complaint_ns, LOG_LEVEL_ERROR,
                    "sink %s: writing %s failed: %s; the event and %" PRIu64
                    " since the last commit are lost",
                    w->options->name, w->names.path[VALLEN_PRIDB], message, w->events);
    if (w->opened_in_it)
        w->opened = false;
    vallen_rows_forget(&w->rows);
    w->uncommitted = w->opened_in_it = false;
    w->events = 0;
    return ERROR_SYSTEM;
}

/* The same, and the event that was to be put is lost with it. */
static int lose(struct vallen_writer *w, int status)
{
    w->untold++;
    return give_up(w, status);
}

/* Whether less is free than `min free`. */
static bool is_short_of_space(struct vallen_writer *w)
{
    const int64_t now_ns = clock_monotonic_ns();
    struct statvfs disk;
    if (w->own->min_free_bytes == 0 || now_ns < w->next_look_ns)
        return w->short_of_space;
    w->next_look_ns = now_ns + look_ns;
    const bool before = w->short_of_space;
    if (statvfs(w->names.path[VALLEN_PRIDB], &disk) == 0)
        w->short_of_space = (uint64_t)disk.f_bavail * disk.f_frsize < w->own->min_free_bytes;
    if (w->short_of_space && !before)
        log_error("sink %s: less than `min free` is free on the disk of %s; events are dropped "
                  "until there is more",
                  w->options->name, w->names.path[VALLEN_PRIDB]);
    else if (before && !w->short_of_space)
        log_notice("sink %s: there is room on the disk again; events are written",
                   w->options->name);
    return w->short_of_space;
}

/* Opens a transaction if there is none. */
static int begin(struct vallen_writer *w)
{
    if (w->uncommitted)
        return SQLITE_OK;
    if (is_short_of_space(w))
        return SQLITE_FULL;
    w->uncommitted = true;
    return each_file(w, "BEGIN");
}

static int update_info(struct vallen_writer *w)
{
    int status = SQLITE_OK;
    for (int file = 0; file < VALLEN_FILES && status == SQLITE_OK; file++)
        if (w->files.db[file] != NULL)
            status = vallen_rows_update_info(&w->rows, file);
    return status;
}

static void count_bytes(struct vallen_writer *w)
{
    uint64_t bytes = 0;
    for (int file = 0; file < VALLEN_FILES; file++)
        if (w->files.db[file] != NULL)
            bytes += vallen_rows_file_bytes(&w->rows, file);
    atomic_store(&w->bytes, bytes);
}

void vallen_writer_commit(struct vallen_writer *w)
{
    if (!w->uncommitted)
        return;
    int status = update_info(w);
    if (status == SQLITE_OK)
        status = each_file(w, "COMMIT");
    if (status != SQLITE_OK) {
        give_up(w, status);
        return;
    }
    w->uncommitted = w->opened_in_it = false;
    w->events = 0;
    w->untold -= w->told_in_it;
    w->told_in_it = 0;
    count_bytes(w);
}

/* ---- sets between events ----------------------------------------------------------------- */

/* "2026-11-22 18:45:03", in UTC. */
enum { DATE_BYTES = 40, TIME_AT = 11, MINUTES = 5 };
static void date_text(int64_t realtime_ns, char text[DATE_BYTES])
{
    const time_t seconds = (time_t)(realtime_ns / NS_PER_SECOND);
    struct tm utc = {0};
    gmtime_r(&seconds, &utc);
    strftime(text, DATE_BYTES, "%Y-%m-%d %H:%M:%S", &utc);
}

/* "18:45 Resume". */
static void minute_text(int64_t realtime_ns, const char *what, char text[DATE_BYTES])
{
    char date[DATE_BYTES];
    date_text(realtime_ns, date);
    snprintf(text, DATE_BYTES, "%.*s %s", MINUTES, date + TIME_AT, what);
}

/* The section, when it begins, and what its times are. */
static int write_opening(struct vallen_writer *w)
{
    char date[DATE_BYTES], resume[DATE_BYTES];
    const int64_t origin_ns = w->rows.times.origin_ns;
    date_text(origin_ns, date);
    minute_text(origin_ns, "Resume", resume);
    const struct {
        enum vallen_set set;
        int number;
        const char *text;
    } sets[] = {
        {VALLEN_SET_SECTION, 1, w->options->analysis_options->stream.name},
        {VALLEN_SET_LABEL, 1, resume},
        {VALLEN_SET_DATE_TIME, 0, date},
        {VALLEN_SET_LABEL, 2, "TimeZone: +00:00 (UTC)"},
    };
    int status = SQLITE_OK;
    for (size_t i = 0; i < sizeof sets / sizeof sets[0] && status == SQLITE_OK; i++)
        status = vallen_rows_marker(&w->rows, sets[i].set, 0, sets[i].number, sets[i].text);
    w->rows.labels = 2;
    w->opened = w->opened_in_it = true;
    w->moved = w->rows.times.moved;
    return status;
}

/* An epoch that begins before the last event, by the wall clock, says what the wall clock was. */
static int write_step(struct vallen_writer *w, int64_t ticks, int64_t arrival_ns)
{
    char date[DATE_BYTES];
    date_text(arrival_ns, date);
    w->moved = w->rows.times.moved;
    atomic_store(&w->moved_epochs, w->moved);
    return vallen_rows_marker(&w->rows, VALLEN_SET_DATE_TIME, ticks, 0, date);
}

/* Writes the sets that must stand before what has this time. */
static int begin_at(struct vallen_writer *w, int64_t ticks, int64_t realtime_ns)
{
    if (!w->opened)
        return write_opening(w);
    return w->rows.times.moved != w->moved ? write_step(w, ticks, realtime_ns) : SQLITE_OK;
}

/* A label counts the events that the disk did not take before this time. */
static int write_lost(struct vallen_writer *w, int64_t ticks)
{
    char text[64];
    if (w->untold == w->told_in_it)
        return SQLITE_OK;
    snprintf(text, sizeof text, "%" PRIu64 " events lost: disk", w->untold - w->told_in_it);
    w->told_in_it = w->untold;
    return vallen_rows_label(&w->rows, ticks, text);
}

/* The text of a label: what was noted, and by whom. */
static void label_text(const struct sink_mark *mark, char *text, size_t bytes)
{
    snprintf(text, bytes, mark->who[0] != '\0' ? "%s (%s)" : "%s", mark->text, mark->who);
}

int vallen_writer_label(struct vallen_writer *w, const struct sink_mark *mark,
                        const struct analysis_event *next)
{
    struct vallen_times *times = &w->rows.times;
    char text[SINK_MARK_BYTES + EVENT_WHO_BYTES + 8];
    int status = begin(w);
    if (status != SQLITE_OK)
        return give_up(w, status);
    if (next != NULL && next->epoch == mark->epoch)
        vallen_times_anchor(times, next->epoch, next->frame, next->arrival_ns);
    const int64_t ticks = times->anchored && times->epoch == mark->epoch
                              ? vallen_times_at(times, mark->frame)
                              : vallen_times_wall(times, mark->realtime_ns);
    label_text(mark, text, sizeof text);
    status = begin_at(w, ticks, mark->realtime_ns);
    if (status == SQLITE_OK)
        status = vallen_rows_label(&w->rows, ticks, text);
    return status == SQLITE_OK ? 0 : give_up(w, status);
}

int vallen_writer_put(struct vallen_writer *w, const struct analysis_event *event)
{
    struct vallen_times *times = &w->rows.times;
    uint64_t clipped = 0;
    int status = begin(w);
    if (status != SQLITE_OK)
        return lose(w, status);
    vallen_times_anchor(times, event->epoch, event->frame, event->arrival_ns);
    const int64_t ticks = vallen_times_at(times, event->frame);
    status = begin_at(w, ticks, event->arrival_ns);
    if (status == SQLITE_OK)
        status = write_lost(w, ticks);
    if (status == SQLITE_OK)
        status = vallen_rows_event(&w->rows, event, ticks, &clipped);
    if (status != SQLITE_OK)
        return lose(w, status);
    w->events++;
    if (clipped == 0)
        return 0;
    const uint64_t all = atomic_fetch_add(&w->clipped, clipped) + clipped;
    log_limited(&w->clips, complaint_ns, LOG_LEVEL_WARNING,
                "sink %s: %" PRIu64 " samples of transients were beyond 16 bits and are clipped; "
                "write a larger `range`",
                w->options->name, all);
    return 0;
}

/* ---- life -------------------------------------------------------------------------------- */

static int write_keys(struct vallen_writer *w, enum vallen_file file, const char *guid,
                      const char *reference)
{
    const char *const prefix = vallen_prefix(file);
    const bool ticks = file != VALLEN_TRFDB;
    const struct {
        const char *key, *value;
        bool wanted;
    } keys[] = {
        {"Version", "1", true},
        {"FileStatus", "2", true},
        {"TimeBase", "10000000", ticks},
        {"BytesPerSample", "2", file == VALLEN_TRADB},
        {"WriterID", "convolvd " CONVOLVD_VERSION, true},
        {"FileID", guid, true},
        {"ReferenceID", reference, reference != NULL},
        {"ValidSets", "0", true},
        {"TRAI", "0", ticks},
    };
    int status = SQLITE_OK;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && status == SQLITE_OK; i++)
        if (keys[i].wanted)
            status = vallen_schema_info(w->files.db[file], prefix, keys[i].key, keys[i].value);
    if (status != SQLITE_OK)
        return status;
    return vallen_settings_write(w->files.db[file], prefix, w->options, w->rows.scales);
}

static int write_schema(struct vallen_writer *w, enum vallen_file file)
{
    const uint32_t channels = w->options->analysis_options->stream.channels;
    sqlite3 *db = w->files.db[file];
    switch (file) {
    case VALLEN_PRIDB:
        return vallen_schema_pridb(db, w->rows.scales, channels, w->rows.parameters);
    case VALLEN_TRADB:
        return vallen_schema_tradb(db, w->rows.scales, channels);
    default:
        return vallen_schema_trfdb(db, w->rows.fields, w->rows.field_count);
    }
}

static int open_file(struct vallen_writer *w, enum vallen_file file, const char *guid,
                     const char *reference, struct problem *problem)
{
    int status = database_create(w->names.path[file], &w->files.db[file], problem);
    if (status != 0)
        return status;
    sqlite3 *db = w->files.db[file];
    status = database_run(db, "BEGIN");
    if (status == SQLITE_OK)
        status = write_schema(w, file);
    if (status == SQLITE_OK)
        status = write_keys(w, file, guid, reference);
    if (status == SQLITE_OK)
        status = database_run(db, "COMMIT");
    if (status == SQLITE_OK)
        return 0;
    return problem_set(problem, ERROR_SYSTEM, "%s cannot be written: %s", w->names.path[file],
                       sqlite3_errmsg(db));
}

static int open_files(struct vallen_writer *w, struct problem *problem)
{
    char ids[VALLEN_FILES][VALLEN_GUID_BYTES];
    int status = 0;
    for (int file = 0; file < VALLEN_FILES && status == 0; file++) {
        vallen_guid(ids[file]);
        if (w->files.wanted[file])
            status = open_file(w, file, ids[file], file != VALLEN_PRIDB ? ids[VALLEN_PRIDB] : NULL,
                               problem);
    }
    return status != 0 ? status : vallen_rows_prepare(&w->rows, problem);
}

static void close_files(struct vallen_writer *w)
{
    vallen_rows_close(&w->rows);
    for (int file = 0; file < VALLEN_FILES; file++)
        sqlite3_close(w->files.db[file]);
}

int vallen_writer_open(const struct event_sink_options *options, struct vallen_writer **out,
                       struct problem *problem)
{
    struct vallen_writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        return problem_set(problem, ERROR_MEMORY, "sink %s: out of memory", options->name);
    const bool hits = options->analysis->emits == ANALYSIS_HIT;
    w->options = options;
    w->own = options->own;
    w->opened_ns = clock_realtime_ns();
    w->files.wanted[VALLEN_PRIDB] = true;
    w->files.wanted[VALLEN_TRADB] = hits && w->own->transients != VALLEN_TRANSIENTS_NONE;
    w->files.wanted[VALLEN_TRFDB] = hits;
    int status = vallen_rows_open(&w->rows, &w->files, options, problem);
    if (status == 0)
        vallen_repair(options->name, w->own->path);
    if (status == 0)
        status = vallen_names_create(w->own->path, w->files.wanted, &w->names, problem);
    const bool made = status == 0;
    if (status == 0)
        status = open_files(w, problem);
    if (status != 0) {
        close_files(w);
        if (made)
            vallen_names_remove(&w->names, w->files.wanted);
        free(w);
        return problem_prefix(problem, status, "sink %s", options->name);
    }
    if (w->names.number > 1)
        log_notice("sink %s: %s exists and is not overwritten; writing to %s", options->name,
                   w->own->path, w->names.path[VALLEN_PRIDB]);
    count_bytes(w);
    *out = w;
    return 0;
}

/* The last sets, and that nothing follows. A file without events still says when it was open. */
static int write_end(struct vallen_writer *w)
{
    char suspend[DATE_BYTES];
    int64_t ticks = w->rows.times.last;
    minute_text(clock_realtime_ns(), "Suspend", suspend);
    int status = begin(w);
    if (status == SQLITE_OK && !w->opened) {
        ticks = vallen_times_wall(&w->rows.times, w->opened_ns);
        status = write_opening(w);
    }
    if (status == SQLITE_OK)
        status = write_lost(w, ticks);
    if (status == SQLITE_OK)
        status = vallen_rows_label(&w->rows, ticks, suspend);
    for (int file = 0; file < VALLEN_FILES && status == SQLITE_OK; file++)
        if (w->files.db[file] != NULL)
            status = vallen_schema_info(w->files.db[file], vallen_prefix(file), "FileStatus", "0");
    return status;
}

void vallen_writer_close(struct vallen_writer *w)
{
    if (w == NULL)
        return;
    vallen_writer_commit(w);
    const int status = write_end(w);
    if (status == SQLITE_OK)
        vallen_writer_commit(w);
    else
        give_up(w, status);
    vallen_rows_close(&w->rows);
    for (int file = 0; file < VALLEN_FILES; file++)
        if (w->files.db[file] != NULL && database_leave_log(w->files.db[file]) != SQLITE_OK)
            log_info("sink %s: somebody reads %s; its log stays until they are done",
                     w->options->name, w->names.path[file]);
    close_files(w);
    free(w);
}

void vallen_writer_counts(const struct vallen_writer *w, struct vallen_counts *counts)
{
    *counts = (struct vallen_counts){
        .lost = atomic_load(&w->lost),
        .clipped = atomic_load(&w->clipped),
        .bytes = atomic_load(&w->bytes),
        .moved = atomic_load(&w->moved_epochs),
    };
    for (int file = 0; file < VALLEN_FILES; file++)
        counts->files += w->files.wanted[file];
}
