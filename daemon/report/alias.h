/*
 * The lines of `--check` about decimation: for each filter of a stream that decimates, which
 * frequencies fold back into the kept band, where they land, and how many dB they are attenuated.
 *
 * Main thread, before anything runs.
 */
#ifndef CONVOLVD_REPORT_ALIAS_H
#define CONVOLVD_REPORT_ALIAS_H

#include <stdio.h>

#include "core/error.h"
#include "config/config.h"

/* stream->decimate ≥ 2. Returns 0, or the error of a filter that cannot be made. */
int alias_report(const struct config *config, const struct config_stream *stream, FILE *out,
                 struct problem *problem);

#endif
