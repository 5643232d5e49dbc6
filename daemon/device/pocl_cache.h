/*
 * Where PoCL keeps the code it compiles. Its compiler ends the whole process when a write there
 * fails, so the engine gives it a directory with room before PoCL starts.
 */
#ifndef CONVOLVD_DEVICE_POCL_CACHE_H
#define CONVOLVD_DEVICE_POCL_CACHE_H

#include <stdbool.h>
#include <stdint.h>

/* Far more than the kernels of one daemon take. */
#define POCL_CACHE_NEEDS_BYTES ((uint64_t)16 << 20)

/* Whether a file system has `needed_bytes` free for a directory that may not exist yet. */
bool pocl_cache_has_room(const char *directory, uint64_t needed_bytes);

/*
 * Sets PoCL's environment, before its first call and before other threads run: `cache_dir`/pocl
 * (NULL: PoCL's own choice) where there is room, else, with a warning, a directory for this run
 * alone on another file system. What the user has set in POCL_CACHE_DIR stays while it has room.
 */
void pocl_cache_direct(const char *cache_dir, uint64_t needed_bytes);

#endif
