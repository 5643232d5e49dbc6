/*
 * Files of Vallen's acoustic-emission software: the options of the sink `vallen` (sink.c), which
 * writes .pridb, .tradb and .trfdb, and of the source `tradb` (source.c), which replays a .tradb.
 *
 * Any thread that may wait for a disk.
 */
#ifndef CONVOLVD_IO_VALLEN_VALLEN_H
#define CONVOLVD_IO_VALLEN_VALLEN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/option.h"

/* What becomes of the samples of hits. */
enum vallen_transients {
    VALLEN_TRANSIENTS_RAW,
    VALLEN_TRANSIENTS_FLAC,
    VALLEN_TRANSIENTS_NONE, /* no .tradb */
};

/* Of the sink `vallen`. */
struct vallen_options {
    const char *path;                 /* of the .pridb; the others lie beside it */
    uint32_t transients;              /* enum vallen_transients */
    const struct option_value *range; /* of 16-bit codes; NULL: the full scale of each channel */
    double range_v;                   /* the same in volts at the sensor; 0: NULL */
    int64_t flush_ns;
    uint64_t min_free_bytes;
};

/* Of the source `tradb`. */
struct tradb_options {
    const char *path;
    uint32_t channel; /* the only one to play; 0: all */
};

#endif
