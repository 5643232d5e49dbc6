/* The rows of the table of sinks (sinks.c): one for each protocol or kind of file. */
#ifndef CONVOLVD_IO_SINKS_H
#define CONVOLVD_IO_SINKS_H

#include "io/sink.h"

extern const struct sink_ops sink_rtp;
extern const struct sink_ops sink_recording, sink_osc, sink_portaudio, sink_stdout, sink_nats;

#endif
