/*
 * Loopback: the command `convolvd --measure-loopback` measures the round trip of every source of a
 * configuration whose driver offers it (io/driver.h).
 *
 * Streams count what it has measured like the delay of a filter.
 */
#ifndef CONVOLVD_PIPELINE_LOOPBACK_H
#define CONVOLVD_PIPELINE_LOOPBACK_H

#include <stdint.h>
#include <stdio.h>

#include "config/config.h"
#include "core/error.h"

/* Main thread, no loop. Prints what was measured. ERROR_CONFIG when no stream has a round trip to
 * measure. */
int loopback_measure(const struct config *config, FILE *out, struct problem *problem);

/* WORKER. From an excitation's play to its capture, as configured or measured before [frames of the
 * input]; 0: the stream's driver has none. */
uint64_t loopback_declared(const struct config_stream *stream, const char *cache_dir);

#endif
