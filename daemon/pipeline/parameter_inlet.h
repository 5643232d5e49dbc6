/*
 * Parameter inlet: brings load, pressure or temperature of other streams to an analysis and stamps
 * them into its events by time (docs/analysis.md, "Parameters").
 *
 *     loop: other stream ──► port (parameter_links.h) ──► parameter_board
 *                                                              │
 *     thread: run ──► parameter_inlet_ready? ──► analysis ──► parameter_inlet_stamp
 *
 * A run of frames is analysed once every other stream has come as far as its last frame, so that
 * what an event carries depends on the frames and their times and not on which stream was faster.
 * The thread of a live stream waits for that as long as a value may be old, never longer, and not
 * at all while its own ring is half full or a stream has been silent for that long. Of streams that
 * can wait neither runs ahead of the other.
 *
 * The loop only writes boards and flags; the thread polls them.
 */
#ifndef CONVOLVD_PIPELINE_PARAMETER_INLET_H
#define CONVOLVD_PIPELINE_PARAMETER_INLET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "analysis/analysis.h"
#include "pipeline/parameter_board.h"

/* The channels of one other stream. */
struct parameter_link {
    const char *stream;
    struct parameter_inlet *inlet;
    uint32_t count;
    uint32_t at[PARAMETER_BOARD_VALUES];       /* [count] of the event's parameters … */
    uint32_t channels[PARAMETER_BOARD_VALUES]; /* … and of the stream */
    struct parameter_board *board;

    /* thread: when it last came further, and how far */
    int64_t heard_ns, heard_until_ns;

    /* loop writes */
    _Atomic bool over;      /* nothing more will come */
    _Atomic bool unbounded; /* the analysis takes nothing more: it holds nobody up */
    bool refused;           /* loop: the stream has no port left, which the log has told */
};

struct parameter_inlet {
    const struct analysis_options *options;
    bool waits; /* both streams can wait */
    uint32_t count;
    struct parameter_link links[ANALYSIS_PARAMETERS_WRITTEN];
    int64_t run_ns, run_since_ns; /* thread: the run that waits, and since when */
    _Atomic int64_t wanted_ns;    /* the instant of the last frame that the thread has looked at */
    _Atomic bool owed;            /* a stream waits for room */
};

/* WORKER. NULL in *out: no parameter comes from another stream. 0 or ERROR_MEMORY. */
int parameter_inlet_open(const struct analysis_options *options, bool waits,
                         struct parameter_inlet **out);
void parameter_inlet_close(struct parameter_inlet *inlet); /* NULL is fine */
/* ANY. The most memory that one takes [bytes]. */
uint64_t parameter_inlet_memory(const struct analysis_options *options);

/* THREAD, at now_ns [monotonic]. Whether the run may be analysed; else ask again soon. `hurry`: it
 * must not wait. */
bool parameter_inlet_ready(struct parameter_inlet *inlet, const struct analysis_run *run,
                           bool hurry, int64_t now_ns);
/* THREAD. Fills those of the event's parameters that come from other streams. */
void parameter_inlet_stamp(const struct parameter_inlet *inlet, struct analysis_event *event);

/* LOOP. As a port of the other stream takes results; context: a parameter_link. */
void parameter_link_put(void *link, const struct result *result);
uint64_t parameter_link_room(void *link);

/* LOOP, while the thread waits. False: what was read is none of such an analysis. */
bool parameter_inlet_walk(struct parameter_inlet *inlet, struct codec *codec);

#endif
