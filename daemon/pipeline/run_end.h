/*
 * End of a run: what is left to do, and what is lost, once every source has come to its end by
 * itself (a recording, a generator with a length, a closed pipe). Such a run has no reason to
 * hurry: it waits for its slowest sink as long as that makes progress. Only a sink, an analysis or
 * a stream that gets nowhere for the patience is cut off, and what is lost makes the exit status
 * SERVICE_EXIT_LOSSES.
 *
 * Only success counts as progress: frames that a stream hands on, frames and events that a sink
 * has delivered, frames and events that an analysis has taken. A block on a device is progress too:
 * its batch has a deadline of its own.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_PIPELINE_RUN_END_H
#define CONVOLVD_PIPELINE_RUN_END_H

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/pipelines.h"

struct run_end {
    int64_t patience_ns;     /* without progress */
    int64_t began_ns;        /* monotonic */
    int64_t looked_ns;       /* the last look */
    int64_t waited_ns;       /* since the last progress that a look has seen */
    uint64_t progress;       /* as the last look has seen it */
    uint64_t stopped_before; /* frames and events that commands had dropped before the end */
    bool told;               /* the log names what the run waits for */
};

/* Every source has come to its end. */
void run_end_begin(struct run_end *end, const struct pipelines *pipelines, int64_t patience_ns,
                   int64_t now_ns);

/* Frames and events that sinks and analyses have taken and not yet delivered. */
uint64_t run_end_pending(const struct pipelines *pipelines);

/* Looks for progress. True: the run has made none for the patience. After a second of waiting it
 * logs once what the run waits for. */
bool run_end_late(struct run_end *end, const struct pipelines *pipelines, int64_t now_ns);

/* The decision of run_end_late: `progress` is the sum at this look, `busy` that a device computes.
 */
bool run_end_is_late(struct run_end *end, uint64_t progress, bool busy, int64_t now_ns);

/* The sinks are closed. Logs what each of them and each analysis has lost; returns how many frames
 * and events that is. Of a stream that cannot wait only what the end has cut off counts. */
uint64_t run_end_losses(const struct run_end *end, const struct pipelines *pipelines);

#endif
