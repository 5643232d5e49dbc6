/*
 * PoCL's cache: which directory it gets. Runs once, before the first OpenCL call; touches nothing
 * but the environment and that directory.
 */
#include "device/pocl_cache.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

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

/* 0 where files can be written into the directory, which is made if need be; else errno. */
static int pocl_cache_writable(const char *directory)
{
    char path[PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/convolvd-XXXXXX", directory) >= (int)sizeof path)
        return ENAMETOOLONG;
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0755) != 0 && errno != EEXIST)
            return errno;
        *slash = '/';
    }
    /* also as root, on a file system that is mounted to be read only */
    const int file = mkstemp(path);
    if (file < 0)
        return errno;
    close(file);
    unlink(path);
    return 0;
}

/* The directory that PoCL 3.1 takes by itself. */
static bool own_choice(char path[PATH_BYTES])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache != NULL && cache[0] != '\0')
        return snprintf(path, PATH_BYTES, "%s/pocl", cache) < PATH_BYTES;
    return home != NULL && snprintf(path, PATH_BYTES, "%s/.cache/pocl", home) < PATH_BYTES;
}

static bool unusable;

bool pocl_cache_unusable(void)
{
    return unusable;
}

int pocl_cache_direct(const char *cache_dir, uint64_t needed_bytes)
{
    const char *set = getenv("POCL_CACHE_DIR");
    const char *temporary = getenv("TMPDIR");
    const char *others[] = {getenv("RUNTIME_DIRECTORY"), temporary, "/tmp", "/dev/shm"};
    char path[PATH_BYTES];
    if (set != NULL && set[0] != '\0') {
        if (snprintf(path, sizeof path, "%s", set) >= (int)sizeof path)
            return 0;
    } else if (cache_dir != NULL) {
        if (snprintf(path, sizeof path, "%s/pocl", cache_dir) >= (int)sizeof path)
            return 0;
        setenv("POCL_CACHE_DIR", path, 0);
    } else if (!own_choice(path)) {
        snprintf(path, sizeof path, "/tmp"); /* PoCL's choice without a home */
    }
    char reason[160] = "the disk is full";
    int error = pocl_cache_writable(path);
    if (error == 0 && !pocl_cache_has_room(path, needed_bytes))
        error = ENOSPC;
    if (error == 0)
        return 0;
    if (error != ENOSPC)
        snprintf(reason, sizeof reason, "nothing can be written there (%s)", strerror(error));
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
        log_warning("%s: %s; PoCL compiles in %s, at every start: make it writable, with %llu MiB "
                    "free, or write another `cache` in [device]",
                    path, reason, other, (unsigned long long)(needed_bytes >> 20));
        return error;
    }
    unusable = true;
    log_warning(
        "%s: %s, and no other directory takes compiled kernels; make one writable, with %llu "
        "MiB free, or PoCL shows no device or ends the daemon",
        path, reason, (unsigned long long)(needed_bytes >> 20));
    return error;
}

void nvidia_cache_direct(const char *cache_dir)
{
    char path[PATH_BYTES];
    if (cache_dir == NULL ||
        snprintf(path, sizeof path, "%s/nvidia", cache_dir) >= (int)sizeof path)
        return;
    mkdir(cache_dir, 0755);
    if (access(cache_dir, W_OK) == 0)
        setenv("CUDA_CACHE_PATH", path, 0);
}

static struct {
    pthread_mutex_t mutex;
    bool set;
} once = {.mutex = PTHREAD_MUTEX_INITIALIZER};

void pocl_cache_set(const char *cache_dir)
{
    pthread_mutex_lock(&once.mutex);
    if (!once.set) {
        pocl_cache_direct(cache_dir, POCL_CACHE_NEEDS_BYTES);
        nvidia_cache_direct(cache_dir);
    }
    once.set = true;
    pthread_mutex_unlock(&once.mutex);
}
