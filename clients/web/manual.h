/*
 * The manual page of convolv-web, from the table of its options.
 */
#ifndef CONVOLV_WEB_MANUAL_H
#define CONVOLV_WEB_MANUAL_H

#include <stdio.h>

#include "clients/tools/options.h"

void manual_print(const struct tool_option *rows, size_t count, FILE *out);

#endif
