/*
 * The tuning report: `convolvd --tune` measures the ways to compute each stream of a configuration
 * on every device it may run on and keeps the best; `convolvd --explain` prints which way is chosen
 * and why.
 *
 * Main thread. Opens devices, but no socket, and of recordings only those that give a stream its
 * rate and channels.
 */
#ifndef CONVOLVD_REPORT_TUNING_H
#define CONVOLVD_REPORT_TUNING_H

#include <stdbool.h>
#include <stdio.h>

#include "core/error.h"
#include "config/config.h"

struct tuning_options {
    const char *kernels_dir; /* NULL: the configuration's */
    const char *variant;     /* NULL: the configuration's; else only this one */
    bool progress;           /* on stderr: a bar on a terminal, else a line for each stream */
};

/* 0, or why nothing could be measured or kept. */
int tuning_measure(const struct config *config, const struct tuning_options *options, FILE *out,
                   struct problem *problem);
int tuning_explain(const struct config *config, const struct tuning_options *options, FILE *out,
                   struct problem *problem);

#endif
