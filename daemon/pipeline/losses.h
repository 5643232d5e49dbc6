/*
 * Losses: what a stream lost since it was last told, as one line of the log at most every ten
 * seconds, however many packets were concerned. Reads counters; counts nothing itself.
 *
 * Loop thread, about once a second.
 */
#ifndef CONVOLVD_PIPELINE_LOSSES_H
#define CONVOLVD_PIPELINE_LOSSES_H

#include <stdint.h>

#include "io/sink.h"
#include "io/sound/shared.h"
#include "stream/stream.h"

struct pipeline;

/* Of each counter, how much the log has told. Start zeroed. */
struct sound_losses {
    uint64_t counters[SOUND_COUNTERS];
    int64_t told_ns;
};

struct losses {
    struct sound_losses card;
    uint64_t gap[INVALID_CAUSES], shed[SHEDS];
    int64_t told_ns;
};

struct sink_losses {
    struct sound_losses card;
    uint64_t dropped[DROPS];
    int64_t told_ns;
};

/* Of each channel's overloads. */
struct channel_losses {
    uint64_t overload;
    int64_t told_ns;
};

/* Tells what is new and due. */
void losses_tell(struct pipeline *pipeline, int64_t now_ns);

#endif
