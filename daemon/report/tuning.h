/*
 * Choosing, for people: `convolvd --tune` measures the ways to compute every stream of a
 * configuration and keeps the best; `convolvd --explain` says what is chosen and why.
 *
 * Main thread; opens the device, no socket and no recording but those that give a stream its shape.
 */
#ifndef CONVOLVD_REPORT_TUNING_H
#define CONVOLVD_REPORT_TUNING_H

#include <stdbool.h>
#include <stdio.h>

#include "core/error.h"
#include "config/config.h"

struct choosing_options {
    const char *kernels_dir; /* NULL: the configuration's */
    const char *variant;     /* NULL: the configuration's; else only this one */
    bool progress;           /* on stderr: a bar on a terminal, else a line a stream */
};

/* 0, or what kept it from measuring or remembering. */
int choosing_tune(const struct config *config, const struct choosing_options *options, FILE *out,
                  struct problem *problem);
int choosing_explain(const struct config *config, const struct choosing_options *options, FILE *out,
                     struct problem *problem);

#endif
