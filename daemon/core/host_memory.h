/*
 * Host memory: how much more this process may take before the system or its control group runs out.
 * Linux promises more than it has, so an allocation that succeeds proves nothing.
 *
 * Any thread; reads a few files of /proc and /sys.
 */
#ifndef CONVOLVD_CORE_HOST_MEMORY_H
#define CONVOLVD_CORE_HOST_MEMORY_H

#include <stdint.h>

/* Bytes: the least of what the machine can give without swapping (MemAvailable) and of what each
 * control group (version 2) on the way up leaves of its limit. UINT64_MAX where nothing can be
 * read. `root` goes before each path, "" outside tests. */
uint64_t host_memory_available(const char *root);

#endif
