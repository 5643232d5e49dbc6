/* Host memory: see host_memory.h. */
#include "core/host_memory.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The number after `key` in a file of lines "key number …"; with an empty key, the first word of
 * the file. False when there is none, as "max" is. */
static bool read_number(const char *path, const char *key, uint64_t *value)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    char line[256];
    bool found = false;
    while (!found && fgets(line, sizeof line, file) != NULL)
        found = strncmp(line, key, strlen(key)) == 0 &&
                sscanf(line + strlen(key), "%" SCNu64, value) == 1;
    fclose(file);
    return found;
}

/* What the group at this folder leaves of its limit. Pages of files count as used and are given up
 * when they are needed, so they count as free here. */
static uint64_t left_of_group(const char *folder)
{
    char path[PATH_MAX + 32];
    uint64_t limit, used, files = 0;
    snprintf(path, sizeof path, "%s/memory.max", folder);
    if (!read_number(path, "", &limit))
        return UINT64_MAX;
    snprintf(path, sizeof path, "%s/memory.current", folder);
    if (!read_number(path, "", &used))
        return UINT64_MAX;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    read_number(path, "inactive_file ", &files);
    used = used > files ? used - files : 0;
    return limit > used ? limit - used : 0;
}

/* The folder of this process's group; false where version 2 is not in use. */
static bool find_group(const char *root, char folder[PATH_MAX])
{
    char path[PATH_MAX], line[PATH_MAX];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool found = false;
    while (!found && fgets(line, sizeof line, file) != NULL)
        found = strncmp(line, "0::/", 4) == 0;
    fclose(file);
    if (!found)
        return false;
    line[strcspn(line, "\n")] = '\0';
    return snprintf(folder, PATH_MAX, "%s/sys/fs/cgroup%s", root, line + 3) < PATH_MAX;
}

uint64_t host_memory_available(const char *root)
{
    char path[PATH_MAX], folder[PATH_MAX];
    uint64_t least = UINT64_MAX, kib;
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    if (read_number(path, "MemAvailable:", &kib))
        least = kib << 10;
    if (!find_group(root, folder))
        return least;
    const size_t top = strlen(root) + strlen("/sys/fs/cgroup");
    for (;;) {
        const uint64_t left = left_of_group(folder);
        least = left < least ? left : least;
        char *slash = strrchr(folder, '/');
        if (slash == NULL || (size_t)(slash - folder) < top)
            return least;
        *slash = '\0';
    }
}
