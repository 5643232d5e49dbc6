/*
 * Event logs: a sink whose log holds the events of its stream's analyses beside the results, each
 * once, whoever computes them. Such a stream's analyses take no results of the stream. The sink
 * puts into them what it has appended, in the order and in the runs of the log, and takes their
 * events from them; what they hold is written into the log now and then. So whoever goes on reads
 * that back, puts what the log holds behind it, and gets the same events to the last bit.
 *
 *     sink ── put ──► analyses ── next, keep ──► sink: append ── acknowledged: deliver ──► files
 *
 * Events reach files, OSC and whoever looks only when the log has acknowledged them.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_IO_EVENT_LOG_H
#define CONVOLVD_IO_EVENT_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/result.h"

enum { EVENT_LOG_RUN_BYTES = 1 << 20 }; /* the longest run that is put, in bytes of its samples */

/* What the sink calls; all NULL: the stream has no analyses. */
struct event_log_host {
    void *context;
    /* How many analyses there are, 1 at least (also WORKER, in `open`), and their names. */
    uint32_t (*count)(void *context);
    const char *(*name)(void *context, uint32_t analysis);
    /* Marks of inputs near full scale that a run may have, as many as one result of the stream has
     * at least (also WORKER, in `open`). */
    uint32_t (*marks_most)(void *context);
    /* Those of a result, by channel of the output; valid until the next call. */
    uint32_t (*saturated)(void *context, const struct result *result,
                          const struct input_saturation **marks);
    /* Frames that all of them take now. Where that is too little, or not all is analysed yet, the
     * sink is told when it may be (sink_ops.analysed). */
    uint64_t (*room)(void *context);
    /* All that was put is analysed. */
    bool (*idle)(void *context);
    /* Saturated inputs by channel of the output. For at most `room` frames. */
    void (*put)(void *context, const struct result *result);

    /* The oldest event that was neither kept nor passed, as a line of JSON with its newline; NULL:
     * there is none. Valid until the next call of any of these. */
    const char *(*next)(void *context, uint32_t analysis, size_t *bytes);
    /* Keeps it for `deliver`. False: there is no room before something is delivered. */
    bool (*keep)(void *context, uint32_t analysis);
    /* It is of no use: the log has it. */
    void (*pass)(void *context, uint32_t analysis);
    /* The oldest `count` events that were kept go to those who look, and to files. */
    void (*deliver)(void *context, uint32_t analysis, uint64_t count);

    /* Nobody wants what was put any more, nor the events that follow from it. */
    void (*forget)(void *context);
    /* While idle: what all of them hold; the caller frees it. NULL: no memory. */
    uint8_t *(*write)(void *context, size_t *bytes);
    /* While idle: all of them go on from what was written (any bytes may be read), or, with NULL,
     * begin anew. False: they cannot; all of them are as new. */
    bool (*read)(void *context, const uint8_t *bytes, size_t count);
};

#endif
