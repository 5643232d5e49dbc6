/* The lines of `--check` on the loops that run streams. */
#ifndef CONVOLVD_REPORT_LOOPS_H
#define CONVOLVD_REPORT_LOOPS_H

#include <stdio.h>

#include "config/config.h"

/* How many there are, and which streams cannot leave the main one; nothing where it is the only
 * one.
 */
void loops_report(const struct config *config, FILE *out);

#endif
