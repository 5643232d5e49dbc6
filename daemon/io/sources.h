/*
 * The rows of the table of sources (sources.c): one for each protocol or kind of file. A chain
 * (`source = stream NAME`) is wired by the service and is no row.
 */
#ifndef CONVOLVD_IO_SOURCES_H
#define CONVOLVD_IO_SOURCES_H

#include "io/source.h"

extern const struct source_ops source_rtp;
extern const struct source_ops source_udp;          /* headerless */
extern const struct source_ops source_udp_sequence; /* 64-bit sequence numbers */
extern const struct source_ops source_file;
extern const struct source_ops source_generator, source_osc, source_portaudio, source_stdin;
extern const struct source_ops source_tradb, source_nats;

/* No row: takes the place of source_rtp where it has `standby`. */
extern const struct source_ops source_standby;

#endif
