/*
 * The analyses of a stream in the report of `--check`: what each looks for, with what memory, and
 * where its events go.
 *
 * Any thread.
 */
#ifndef CONVOLVD_REPORT_ANALYSES_H
#define CONVOLVD_REPORT_ANALYSES_H

#include <stdint.h>
#include <stdio.h>

#include "config/config.h"

/* Of stream `index`. taps_longest and delay_frames: of its filters, at the input's rate. */
void analyses_report(const struct config *config, uint32_t index, uint32_t taps_longest,
                     double delay_frames, FILE *out);

#endif
