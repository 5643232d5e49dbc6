/* The rows of the table of event sinks (event_sinks.c): one for each kind of file. */
#ifndef CONVOLVD_IO_EVENT_SINKS_H
#define CONVOLVD_IO_EVENT_SINKS_H

#include "io/event_sink.h"

extern const struct event_sink_ops event_sink_csv, event_sink_jsonl, event_sink_vallen;

#endif
