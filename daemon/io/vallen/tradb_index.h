/*
 * Index of a .tradb: what the file says of its records, checked, without their samples; and when
 * the recording began, where the .pridb beside it says so. Used by tradb.h alone.
 */
#ifndef CONVOLVD_IO_VALLEN_TRADB_INDEX_H
#define CONVOLVD_IO_VALLEN_TRADB_INDEX_H

#include <sqlite3.h>

#include "core/error.h"
#include "io/vallen/timeline.h"

/* A row of tr_params together with a DataFormat. */
struct tradb_scale {
    int64_t id;
    int64_t format; /* enum vallen_format */
    uint16_t channel;
    double step_v;
};

struct tradb_index {
    sqlite3 *db;
    struct timeline timeline;
    uint32_t channels;
    struct tradb_scale *scales; /* two for each row of tr_params: raw, FLAC */
    uint32_t scale_count;
    double *channel_step_v; /* [channels] */
    bool floats;            /* a channel has several steps */
    uint64_t left_out, disorder;
    bool dated;
    int64_t origin_ns;
};

/* As tradb_open. The structure is zeroed, and closed by the caller in any case. */
int tradb_index_open(struct tradb_index *index, const char *path, uint32_t channel,
                     struct problem *problem);
void tradb_index_close(struct tradb_index *index);
uint64_t tradb_index_bytes(const struct tradb_index *index);

#endif
