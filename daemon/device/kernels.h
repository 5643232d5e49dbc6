/*
 * Kernel sources: the files of kernels/, embedded at build time by embed.sh. A file of the same
 * name in the directory of --kernels takes the place of an embedded one. kernel_source resolves
 * `#include "file"` itself, so that no driver opens files.
 *
 * No state; any thread.
 */
#ifndef CONVOLVD_DEVICE_KERNELS_H
#define CONVOLVD_DEVICE_KERNELS_H

#include <stdint.h>

#include "core/error.h"

/* One embedded file; `text` is terminated. The table ends with a NULL name. */
struct kernel_file {
    const char *name;
    const char *text;
    uint64_t bytes;
};

extern const struct kernel_file kernel_files[];

/* The text of `name` with its includes, each file once, to be freed by the caller. `directory` may
 * be NULL. Returns 0, ERROR_NO_FILE (naming file and includer), ERROR_LIMIT or ERROR_MEMORY. */
int kernel_source(const char *directory, const char *name, char **text, struct problem *problem);

#endif
