/*
 * What a driver's checks see while a configuration is built: the facts that its options are held
 * against, and for checks across sections all sources and sinks at once. Errors and warnings go
 * through struct option_check to the line of the key.
 *
 * The thread that builds the configuration; nothing here outlives the checks but the options.
 */
#ifndef CONVOLVD_IO_CHECK_H
#define CONVOLVD_IO_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/option.h"
#include "wire/format.h"

struct source_ops;
struct source_options;
struct sink_ops;
struct sink_options;

/* Of the daemon as a whole. */
struct daemon_facts {
    const char *runtime_directory; /* NULL: none */
    const char *osc_address;       /* of the OSC server */
    int64_t lease_ns;              /* of [cluster] */
    bool debug;                    /* the log shows everything */
};

/* Of a stream, once it is built. */
struct stream_facts {
    const char *name;
    const char *upstream; /* the stream whose output is the source; NULL: none */
    bool live;            /* as source_ops.live; a chain: as its first stream */
    bool paced;           /* as source_options.paced */
    bool aligned;
    uint32_t hop_frames; /* L */
    uint32_t decimate;
    double output_rate_hz;
    uint32_t output_floats; /* of one output frame */
};

struct source_section {
    const struct source_ops *driver; /* NULL: a chain, or not known */
    struct source_options *options;
    struct stream_facts facts;
    struct option_check check;
    bool broken; /* has errors: fields of the options may be missing */
};

struct sink_section {
    const struct sink_ops *driver; /* NULL: not known */
    struct sink_options *options;
    const struct source_section *stream; /* whose results it takes; NULL: not known */
    struct option_check check;
    bool broken;
};

/* In the order in which the sections are written, chains last. */
struct driver_sections {
    struct source_section *sources;
    struct sink_section *sinks;
    uint32_t source_count, sink_count;
};

#endif
