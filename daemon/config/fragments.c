/*
 * Fragments: the files that override a configuration key by key. Those of /etc/convolvd/rig.conf
 * are /etc/convolvd/rig.conf.d/(any).conf, so that configurations of several daemons share a
 * folder without sharing fragments.
 *
 * Earlier versions read conf.d/(any).conf for every file of its folder. That name is still read for
 * a file that is alone in its folder. Beside a second configuration it is refused with the command
 * that renames it, and never ignored: a daemon without its fragments would measure otherwise.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/internal.h"

static int is_fragment(const struct dirent *entry)
{
    const size_t length = strlen(entry->d_name);
    return entry->d_name[0] != '.' && length > 5 &&
           strcmp(entry->d_name + length - 5, ".conf") == 0;
}

static void free_entries(struct dirent **entries, int count)
{
    for (int i = 0; i < count; i++)
        free(entries[i]);
    if (count >= 0)
        free(entries);
}

/* The fragments of one folder behind those found before, in byte order of their names. */
static int add_folder(struct raw *raw, const char *folder, struct config_fragments *out)
{
    struct dirent **entries;
    const int count = scandir(folder, &entries, is_fragment, alphasort);
    if (count == 0)
        free_entries(entries, count);
    if (count == 0 || (count < 0 && errno == ENOENT))
        return 0;
    if (count < 0) {
        config_error(raw->errors, (struct config_place){folder, 0},
                     "the folder of fragments cannot be read (%s); check its permissions, or "
                     "rename it",
                     strerror(errno));
        return 0;
    }
    const char **paths = config_alloc(raw->memory, out->count + (unsigned)count, sizeof *paths);
    int status = paths != NULL ? 0 : ERROR_MEMORY;
    if (status == 0 && out->count > 0)
        memcpy(paths, out->paths, out->count * sizeof *paths);
    for (int i = 0; status == 0 && i < count; i++) {
        const size_t bytes = strlen(folder) + strlen(entries[i]->d_name) + 2;
        char *path = config_alloc(raw->memory, bytes, 1);
        if (path == NULL)
            status = ERROR_MEMORY;
        else
            snprintf(path, bytes, "%s/%s", folder, entries[i]->d_name);
        paths[out->count + (unsigned)i] = path;
    }
    if (status == 0) {
        out->paths = paths;
        out->count += (unsigned)count;
    }
    free_entries(entries, count);
    return status;
}

/* The name of another configuration in the folder of `path`, in `name`. A second name of the same
 * file is none. */
static bool find_other(const char *folder, const char *path, char name[NAME_MAX + 1])
{
    struct dirent **entries;
    struct stat own, other;
    const int count = scandir(folder, &entries, is_fragment, alphasort);
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool found = false;
    for (int i = 0; fd >= 0 && !found && i < count; i++) {
        found = stat(path, &own) == 0 && fstatat(fd, entries[i]->d_name, &other, 0) == 0 &&
                S_ISREG(other.st_mode) &&
                (other.st_ino != own.st_ino || other.st_dev != own.st_dev);
        if (found)
            snprintf(name, NAME_MAX + 1, "%s", entries[i]->d_name);
    }
    if (fd >= 0)
        close(fd);
    free_entries(entries, count);
    return found;
}

/* Whether the folder holds fragments; one that cannot be read may. */
static bool holds_fragments(const char *folder)
{
    struct dirent **entries;
    const int count = scandir(folder, &entries, is_fragment, alphasort);
    const bool holds = count > 0 || (count < 0 && errno != ENOENT && errno != ENOTDIR);
    free_entries(entries, count);
    return holds;
}

/* "mv OLD NEW", or into NEW where there is one. */
static void print_move(const char *old, const char *own, char *text, size_t bytes)
{
    if (access(own, F_OK) == 0)
        snprintf(text, bytes, "mv -n %s/*.conf %s/", old, own);
    else
        snprintf(text, bytes, "mv %s %s", old, own);
}

/* Fragments of the former name. */
static int add_former(struct raw *raw, const char *path, const char *own,
                      struct config_fragments *out)
{
    const char *slash = strrchr(path, '/');
    const int length = slash != NULL ? (int)(slash - path) + 1 : 0;
    char old[PATH_MAX], other_own[PATH_MAX + NAME_MAX], other[NAME_MAX + 1];
    char move[2 * PATH_MAX + 64], other_move[2 * PATH_MAX + NAME_MAX + 64];
    if (snprintf(old, sizeof old, "%.*sconf.d", length, path) >= (int)sizeof old ||
        !holds_fragments(old))
        return 0;
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%.*s", length > 0 ? length : 1, length > 0 ? path : ".");
    print_move(old, own, move, sizeof move);
    if (find_other(folder, path, other)) {
        snprintf(other_own, sizeof other_own, "%.*s%s.d", length, path, other);
        print_move(old, other_own, other_move, sizeof other_move);
        config_error(raw->errors, (struct config_place){path, 0},
                     "the fragments in %s belong to this file or to `%s` beside it; say to which: "
                     "%s, or %s",
                     old, other, move, other_move);
        return 0;
    }
    out->former = config_copy(raw->memory, old, strlen(old));
    out->move = config_copy(raw->memory, move, strlen(move));
    return out->former != NULL && out->move != NULL ? add_folder(raw, out->former, out)
                                                    : ERROR_MEMORY;
}

int fragments_find(struct raw *raw, const char *path, struct config_fragments *out)
{
    const size_t bytes = strlen(path) + 3;
    char *own = config_alloc(raw->memory, bytes, 1);
    *out = (struct config_fragments){0};
    if (own == NULL)
        return ERROR_MEMORY;
    snprintf(own, bytes, "%s.d", path);
    out->folder = own;
    int status = add_former(raw, path, own, out);
    out->former_count = out->count;
    if (status == 0)
        status = add_folder(raw, own, out);
    return status;
}
