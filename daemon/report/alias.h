/*
 * What `--check` says of decimation: for every filter of a stream that decimates, what folds back
 * into the kept band, from where to where, and by how many dB.
 *
 * The main thread, before anything runs.
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
