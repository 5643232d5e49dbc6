/*
 * PoCL's cache: which directory it gets. Runs once while the engine opens, on the thread that
 * opens it; touches nothing but the environment and, on a full disk, one new directory.
 */
#include "device/pocl_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "core/log.h"

enum { PATH_BYTES = 4096 };

bool pocl_cache_has_room(const char *directory, uint64_t needed_bytes)
{
    char path[PATH_BYTES];
    struct statvfs disk;
    if (snprintf(path, sizeof path, "%s", directory) >= (int)sizeof path)
        return false;
    /* The directory is made later: its nearest parent that is there tells the file system. */
    while (statvfs(path, &disk) != 0) {
        char *slash = strrchr(path, '/');
        if (slash == path && path[1] != '\0')
            path[1] = '\0';
        else if (slash != NULL && slash != path)
            *slash = '\0';
        else if (slash == NULL && strcmp(path, ".") != 0)
            snprintf(path, sizeof path, ".");
        else
            return false;
    }
    return disk.f_bavail >= needed_bytes / disk.f_frsize + 1;
}

/* The directory that PoCL 3.1 takes by itself. */
static bool own_choice(char path[PATH_BYTES])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache != NULL && cache[0] != '\0')
        return snprintf(path, PATH_BYTES, "%s/pocl", cache) < PATH_BYTES;
    return home != NULL && snprintf(path, PATH_BYTES, "%s/.cache/pocl", home) < PATH_BYTES;
}

void pocl_cache_direct(const char *cache_dir, uint64_t needed_bytes)
{
    const char *set = getenv("POCL_CACHE_DIR");
    const char *temporary = getenv("TMPDIR");
    const char *others[] = {getenv("RUNTIME_DIRECTORY"), temporary, "/tmp", "/dev/shm"};
    char path[PATH_BYTES];
    if (set != NULL && set[0] != '\0') {
        if (snprintf(path, sizeof path, "%s", set) >= (int)sizeof path)
            return;
    } else if (cache_dir != NULL) {
        if (snprintf(path, sizeof path, "%s/pocl", cache_dir) >= (int)sizeof path)
            return;
        setenv("POCL_CACHE_DIR", path, 0);
    } else if (!own_choice(path)) {
        return;
    }
    if (pocl_cache_has_room(path, needed_bytes))
        return;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        char other[PATH_BYTES];
        if (others[i] == NULL || others[i][0] == '\0' ||
            !pocl_cache_has_room(others[i], needed_bytes) ||
            snprintf(other, sizeof other, "%s/convolvd-pocl-XXXXXX", others[i]) >=
                (int)sizeof other ||
            mkdtemp(other) == NULL)
            continue;
        setenv("POCL_CACHE_DIR", other, 1);
        setenv("POCL_KERNEL_CACHE", "0", 1); /* PoCL deletes its files when it ends */
        log_warning("%s: the disk is full; PoCL compiles in %s, at every start: free %llu MiB "
                    "there, or write another `cache` in [device]",
                    path, other, (unsigned long long)(needed_bytes >> 20));
        return;
    }
    log_warning("%s: the disk is full, and so is every other place for compiled kernels; free %llu "
                "MiB, or PoCL may end the daemon",
                path, (unsigned long long)(needed_bytes >> 20));
}
