/* The line of `--check` on memory nodes. */
#ifndef CONVOLVD_REPORT_NODES_H
#define CONVOLVD_REPORT_NODES_H

#include <stdio.h>

#include "config/config.h"

/* What `node` in [device] means on the machine below `root` ("" outside tests). Warns where the
 * process may run on no processor of the node. */
void nodes_report(const char *root, const struct config *config, FILE *out,
                  struct config_errors *errors);

#endif
