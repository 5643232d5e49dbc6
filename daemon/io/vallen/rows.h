/*
 * Rows: what the sets of a .pridb, the transients of a .tradb and the features of a .trfdb hold of
 * an event. The writer (writer.h) owns the files and their transactions.
 *
 * Values are found by the names of the analysis' fields, so a set holds what the analysis knows and
 * NULL for the rest. Codes are rounded to nearest even.
 *
 * Functions that write return SQLite's result codes. One thread.
 */
#ifndef CONVOLVD_IO_VALLEN_ROWS_H
#define CONVOLVD_IO_VALLEN_ROWS_H

#include "io/event_sink.h"
#include "io/vallen/names.h"
#include "io/vallen/schema.h"
#include "io/vallen/times.h"
#include "io/vallen/transient.h"

struct vallen_file_set {
    bool wanted[VALLEN_FILES];
    sqlite3 *db[VALLEN_FILES]; /* NULL: not wanted, or not open */
};

/* Fields that have a column of ae_data. */
enum vallen_value {
    VALLEN_AMPLITUDE,
    VALLEN_THRESHOLD,
    VALLEN_RISE,
    VALLEN_DURATION,
    VALLEN_ENERGY,
    VALLEN_STRENGTH,
    VALLEN_RMS,
    VALLEN_COUNTS,
    VALLEN_VALUES,
};

struct vallen_rows {
    const struct event_sink_options *options;
    const struct vallen_file_set *files;
    struct vallen_scale *scales; /* [channels] */
    double *volts;               /* [channels]: one unit in volts */
    const struct analysis_field *fields;
    uint32_t field_count;
    const struct analysis_field *values[VALLEN_VALUES]; /* NULL: the analysis has none */
    uint32_t parameters;                                /* columns PA0 … */
    uint32_t transients;                                /* enum vallen_transients */
    int64_t rate_hz;

    struct vallen_times times;
    int64_t set_id, trai, transient_id; /* the last ones given */
    int labels;
    double last_parameters[ANALYSIS_PARAMETERS_MAX];
    bool parameters_known;
    int16_t *codes;
    size_t code_capacity;
    struct vallen_blob flac;

    sqlite3_stmt *insert_set, *insert_parameters, *insert_marker, *insert_transient,
        *insert_features, *update_info[VALLEN_FILES], *page_count[VALLEN_FILES];
};

/* Scales and fields; needs no file. 0 or ERROR_MEMORY, ERROR_CONFIG. */
int vallen_rows_open(struct vallen_rows *rows, const struct vallen_file_set *files,
                     const struct event_sink_options *options, struct problem *problem);
/* Compiles the statements; the files have their tables. */
int vallen_rows_prepare(struct vallen_rows *rows, struct problem *problem);
/* A zeroed structure and a second call are fine. */
void vallen_rows_close(struct vallen_rows *rows);

/* A hit with its transient and features, or an interval, at a time; before it the parameters, where
 * they have changed. Adds to *clipped. */
int vallen_rows_event(struct vallen_rows *rows, const struct analysis_event *event, int64_t ticks,
                      uint64_t *clipped);
/* A set with a row of ae_markers; number 0: NULL. */
int vallen_rows_marker(struct vallen_rows *rows, enum vallen_set set, int64_t ticks, int number,
                       const char *text);
/* A label with the next number. */
int vallen_rows_label(struct vallen_rows *rows, int64_t ticks, const char *text);
/* ValidSets and TRAI. */
int vallen_rows_update_info(struct vallen_rows *rows, enum vallen_file file);
uint64_t vallen_rows_file_bytes(struct vallen_rows *rows, enum vallen_file file);

/* What was written since the last commit is undone: the next set says the parameters again. */
void vallen_rows_forget(struct vallen_rows *rows);

#endif
