/*
 * The registry of pipelines: every pipeline of the process, in the order of the configuration, with
 * those that a reload has replaced at the end. It makes pipelines, finds them by name, and takes
 * all of them, or the retired ones, through connect, start, drain and close together. Nobody else
 * keeps a list of pipelines.
 *
 * A pipeline that reads another one stands after it.
 *
 * Loop thread, except where WORKER is named. While the service prepares its first configuration,
 * one worker owns the registry and the loop does not look at it.
 */
#ifndef CONVOLVD_PIPELINE_PIPELINES_H
#define CONVOLVD_PIPELINE_PIPELINES_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "core/error.h"
#include "core/limits.h"
#include "pipeline/devices.h"
#include "pipeline/pipeline.h"

/* Twice what a configuration holds, as a reload's new pipelines stand beside those they replace. */
enum { PIPELINES_MAX = 2 * STREAMS_MAX };

struct pipelines;

struct pipelines_options {
    const struct io_environment *environment; /* of the main loop */
    struct loops *loops;
    struct devices *devices;
    const char *variant; /* overrides the configuration's; NULL: does not */
    /* Some pipeline ended or closed something. */
    void (*changed)(void *context);
    void *context;
};

enum pipelines_which {
    PIPELINES_RUNNING, /* in use; also before they are connected */
    PIPELINES_RETIRED, /* replaced or removed by a reload: they finish and are freed */
    PIPELINES_ALL,
};

int pipelines_open(const struct pipelines_options *options, struct pipelines **out,
                   struct problem *problem);
/* The loop has ended and every source and sink is closed: frees what is left, last one first. NULL
 * is fine. */
void pipelines_close(struct pipelines *pipelines);

/* Who changes the streams of all pipelines; LOOP, written once. */
struct pipeline_changer *pipelines_changer(struct pipelines *pipelines);

/* ---- one pipeline ------------------------------------------------------------------------ */

/* WORKER. A pipeline for stream `index` of the configuration, which outlives it, with a device to
 * run on; not prepared and not in the registry. `upstream`: the pipeline it reads; NULL: none. */
int pipelines_make(struct pipelines *pipelines, const struct config *config, uint32_t index,
                   struct pipeline *upstream, struct pipeline **out, struct problem *problem);
/* WORKER, or no loop runs. One that is in no registry any more; NULL is fine. */
void pipelines_destroy(struct pipeline *pipeline);

/* Appends; the registry holds at most PIPELINES_MAX. */
void pipelines_add(struct pipelines *pipelines, struct pipeline *pipeline);

/* Marks a pipeline as retired and stops it. One that reads another retired pipeline goes on until
 * that one has handed everything over. */
void pipelines_retire(struct pipeline *pipeline);

/* ---- queries: loop, or the worker of a reload -------------------------------------------- */

/* Another number whenever pipelines have come, gone, retired or changed their order. */
uint64_t pipelines_version(const struct pipelines *pipelines);

uint32_t pipelines_count(const struct pipelines *pipelines, enum pipelines_which which);

/* The next pipeline of that kind from position *at on; NULL past the end. Start with *at = 0. */
struct pipeline *pipelines_next(const struct pipelines *pipelines, enum pipelines_which which,
                                uint32_t *at);

/* The pipeline in use that has this name; NULL: there is none. */
struct pipeline *pipelines_find(const struct pipelines *pipelines, const char *name);

/* Whether this pipeline, which may have been freed, is still in use. */
bool pipelines_running(const struct pipelines *pipelines, const struct pipeline *pipeline);

/* Whether this pipeline, which may have been freed, is in the registry, in use or retired. */
bool pipelines_hold(const struct pipelines *pipelines, const struct pipeline *pipeline);

/* Whether some pipeline was made from this configuration. */
bool pipelines_use_config(const struct pipelines *pipelines, const struct config *config);

/* Every source has come to its end. */
bool pipelines_ended(const struct pipelines *pipelines);

/* A source was stopped before the end to which it would have come by itself. */
bool pipelines_interrupted(const struct pipelines *pipelines);

/* Sources and sinks whose close has not finished. */
uint32_t pipelines_closing(const struct pipelines *pipelines, enum pipelines_which which);

/* ---- phases ------------------------------------------------------------------------------ */

/* Of every pipeline in the registry; stops at the first that fails. */
int pipelines_connect(struct pipelines *pipelines, struct problem *problem);
int pipelines_start(struct pipelines *pipelines, struct problem *problem);

/* Results were delivered on this loop, in whose turn it is called: its sources that waited for room
 * go on. */
void pipelines_resume(struct pipelines *pipelines, uint32_t loop);

/* Stops every source; what they have delivered is still processed. */
void pipelines_stop(struct pipelines *pipelines);
/* Something has ended or changed: connects analyses that wait for parameters of another stream, and
 * stops the running sources all of whose results go to sinks that have ended, such as a pipe whose
 * reader is gone. */
void pipelines_advance(struct pipelines *pipelines);

/* Stops each chained pipeline whose upstream has handed everything over. True when all of that kind
 * have handed everything to their sinks. */
bool pipelines_drain(struct pipelines *pipelines, enum pipelines_which which);

void pipelines_close_sinks(struct pipelines *pipelines, enum pipelines_which which,
                           int64_t deadline_ns);
/* The log has all losses when it returns. */
void pipelines_close_sources(struct pipelines *pipelines, enum pipelines_which which);
/* Logs the losses that are still pending (losses.h). */
void pipelines_flush_losses(const struct pipelines *pipelines, enum pipelines_which which);

/* Takes them out of their schedulers: no batch is made of them any more. */
void pipelines_unschedule(struct pipelines *pipelines, enum pipelines_which which);

/* Takes the retired ones out of the registry into out[PIPELINES_MAX]; returns how many. */
uint32_t pipelines_take_retired(struct pipelines *pipelines, struct pipeline **out);

/* Share of the busiest device's time that all streams have had lately. */
double pipelines_load(const struct pipelines *pipelines);

/* Puts those in use into the order of this configuration, the retired ones behind them. */
void pipelines_order(struct pipelines *pipelines, const struct config *config);

#endif
