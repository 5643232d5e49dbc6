/*
 * Heritage: what a pipeline leaves to the one that takes its place after a reload or a restart, so
 * that receivers see one stream: the next epoch has the next number, the timeline and with it the
 * RTP time stamps go on by the time that has passed, and each sink keeps what its receivers know
 * it by.
 *
 *     old pipeline ── heritage_take ──► heritage ──► pipeline->heritage, pipeline_prepare: SSRCs
 *                                          └───────► heritage_give: numbers, before the first
 * packet
 *
 * Plain data; a file keeps it over a restart (service/numbers.h).
 */
#ifndef CONVOLVD_PIPELINE_HERITAGE_H
#define CONVOLVD_PIPELINE_HERITAGE_H

#include <stdint.h>

#include "io/sink.h"
#include "stream/stream.h"

enum { HERITAGE_NAME = 128, HERITAGE_SINKS = 16 };

struct heritage_sink {
    char name[HERITAGE_NAME];
    struct sink_identity identity;
};

struct heritage {
    char stream[HERITAGE_NAME];
    struct stream_numbers numbers;
    struct heritage_sink sinks[HERITAGE_SINKS];
    uint32_t sink_count;
};

/* What a sink of this name is known by; NULL: nothing. Any thread. */
const struct sink_identity *heritage_sink(const struct heritage *heritage, const char *name);

#endif
