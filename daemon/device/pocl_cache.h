/*
 * Where PoCL keeps the code it compiles. PoCL reads its environment when it initialises, at the
 * first OpenCL call of the process; it shows no device when it cannot make its directory, and its
 * compiler ends the whole process when a write there fails. So it gets a directory that it can
 * write and that has room before that call.
 *
 * NVIDIA's driver keeps the machine code of programs in files as well. It gets a directory beside
 * PoCL's: without it, it makes that code again whenever a program is loaded from our own cache,
 * and launches of other streams wait meanwhile (0.6 s on an H100).
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
 * pocl_cache_direct with POCL_CACHE_NEEDS_BYTES and nvidia_cache_direct, the first time that it is
 * called in the process; does nothing later. Before the first OpenCL call. Any thread.
 */
void pocl_cache_set(const char *cache_dir);

/*
 * Sets PoCL's environment: `cache_dir`/pocl (NULL: PoCL's own choice) where it can be written and
 * has room, else, with a warning, a directory for this run alone. What the user has set in
 * POCL_CACHE_DIR stays while that is so. Returns 0, or why that directory is not used: an errno,
 * ENOSPC for one without room.
 */
int pocl_cache_direct(const char *cache_dir, uint64_t needed_bytes);
/* Whether no directory could be written: PoCL then shows no device. */
bool pocl_cache_unusable(void);

/*
 * Sets the environment of NVIDIA's driver: `cache_dir`/nvidia where that can be written. What the
 * user has set in CUDA_CACHE_PATH stays.
 */
void nvidia_cache_direct(const char *cache_dir);

#endif
