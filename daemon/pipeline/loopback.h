/*
 * Loopback: the command `convolvd --measure-loopback` measures the round trip of every source of a
 * configuration whose driver offers it (io/driver.h).
 *
 * Main thread, no loop.
 */
#ifndef CONVOLVD_PIPELINE_LOOPBACK_H
#define CONVOLVD_PIPELINE_LOOPBACK_H

#include <stdio.h>

#include "config/config.h"
#include "core/error.h"

/* Prints what was measured. ERROR_CONFIG when no stream has a round trip to measure. */
int loopback_measure(const struct config *config, FILE *out, struct problem *problem);

#endif
