/*
 * Which streams may run on a loop of their own choice (loops.h). A chain stays together, so one
 * stream that needs the main loop keeps the whole chain there.
 *
 * Pure; any thread.
 */
#ifndef CONVOLVD_PIPELINE_LOOP_CHOICE_H
#define CONVOLVD_PIPELINE_LOOP_CHOICE_H

#include "config/config.h"

/* What of the main loop's the stream, or one of its chain, uses: "the OSC server"; NULL: nothing,
 * so that it may run on any loop. */
const char *stream_needs_main_loop(const struct config *config, const struct config_stream *stream);

#endif
