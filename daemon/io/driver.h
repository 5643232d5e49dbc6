/*
 * What a source or sink driver may offer beyond moving samples, each as a small table of functions
 * that its row in source_ops or sink_ops points to. The pipeline and the control surfaces call them
 * without knowing which driver it is; NULL in the row: the driver does not offer it.
 */
#ifndef CONVOLVD_IO_DRIVER_H
#define CONVOLVD_IO_DRIVER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/error.h"
#include "io/environment.h"

struct plan_spec;
struct source_options;

/* ---- status ------------------------------------------------------------------------------ */

enum { DRIVER_FAULTS_MAX = 8 };

/* A counter that grows when something goes wrong. */
struct driver_fault {
    const char *name;
    uint64_t count;
};

/*
 * What a driver tells about its device besides the ledger, such as the state of a sound card. The
 * driver fills a structure of its own (source_ops.read_status, sink_ops.read_status); the pipeline
 * owns the memory, so the last status can still be shown when the driver is closed. Loop thread.
 */
struct driver_status {
    const char *name; /* of the object in the JSON status, "sound" */
    const char *what; /* in the log, "sound card" */
    size_t bytes;     /* of the structure */
    /* Lines of the status table; the first begins with two spaces. rate_hz: of the stream. */
    void (*print)(const void *status, double rate_hz, FILE *out);
    /* The same as a JSON object, the caller's. */
    json_t *(*json)(const void *status);
    /* Counters for the log, in a fixed order; returns how many, at most DRIVER_FAULTS_MAX. */
    uint32_t (*faults)(const void *status, struct driver_fault *faults);
};

/* ---- direct mode ------------------------------------------------------------------------- */

/*
 * A driver that filters by itself (MODE_DIRECT). One source and one sink then share the structure
 * behind `own`; a copy of it with the filters takes its place in both. Worker threads, except
 * `set`.
 */
struct driver_direct {
    /* *out: a copy of `own` with the filters of the plan. full_scale: the sink's. only: nobody else
     * wants the stream's results. */
    int (*make)(const void *own, const struct plan_spec *spec, double full_scale, bool only,
                void **out, struct problem *problem);
    void (*free)(void *made); /* NULL is fine */
    /* The filters of a copy as a descriptor for `set`, or an error. */
    int (*filters)(const void *made, struct problem *problem);
    /* Loop thread. The device opened with this copy and environment changes to other filters. Takes
     * the descriptor. */
    void (*set)(const struct io_environment *environment, const void *made, int filters);
};

/* ---- loopback ---------------------------------------------------------------------------- */

/* A driver that plays and captures in step, so that the frames from its output back to its input
 * are a fixed number: the round trip. */
struct driver_loopback {
    /* Any thread. The round trip in frames that the stream declares as delay: as configured, else
     * as measured and kept in cache_dir (NULL: none), else 0. `note`: how it was measured, empty
     * when it was not. */
    uint64_t (*declared)(const struct source_options *options, const char *cache_dir, char *note,
                         size_t note_bytes);
    /* Whether it can be measured with these options. */
    bool (*measurable)(const struct source_options *options);
    /* Main thread, no loop. Measures, prints what it found and keeps it in cache_dir. */
    int (*measure)(const struct source_options *options, const char *cache_dir, FILE *out,
                   struct problem *problem);
};

#endif
