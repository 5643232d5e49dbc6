/* Names of the files of one measurement: see names.h. */
#include "io/vallen/names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const endings[VALLEN_FILES] = {
    [VALLEN_PRIDB] = ".pridb",
    [VALLEN_TRADB] = ".tradb",
    [VALLEN_TRFDB] = ".trfdb",
};

/* What SQLite keeps beside a file. */
static const char *const logs[] = {"-wal", "-shm", "-journal"};

enum { LOGS = sizeof logs / sizeof logs[0], LONGEST_ENDING = 32, NUMBERS_MAX = 1000000 };

/* The length of the path without its ending, if it has that one; 0: it names no file. */
static size_t stem_length(const char *path)
{
    const size_t length = strlen(path), ending = strlen(endings[VALLEN_PRIDB]);
    const bool ends =
        length >= ending && strcmp(path + length - ending, endings[VALLEN_PRIDB]) == 0;
    const size_t stem = ends ? length - ending : length;
    return stem > 0 && stem < PATH_MAX - LONGEST_ENDING && path[stem - 1] != '/' ? stem : 0;
}

int vallen_names_check(const char *path, struct problem *problem)
{
    char folder[PATH_MAX];
    struct stat status;
    if (stem_length(path) == 0)
        return problem_set(
            problem, ERROR_CONFIG,
            "`path = %.200s` is no name of a .pridb; write one, as vessel.pridb: the "
            ".tradb and the .trfdb get the same name",
            path);
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash != NULL ? (int)(slash - path) + 1 : 1,
             slash != NULL ? path : ".");
    if (stat(folder, &status) != 0 || !S_ISDIR(status.st_mode))
        return problem_set(problem, ERROR_NO_FILE, "there is no folder %.200s; make it first",
                           folder);
    if (access(folder, W_OK | X_OK) != 0)
        return problem_set(problem, ERROR_SYSTEM, "the folder %.200s cannot be written to: %s",
                           folder, strerror(errno));
    return 0;
}

static void name_files(const char *path, size_t stem, unsigned number, struct vallen_names *names)
{
    char suffix[16] = "";
    if (number > 1)
        snprintf(suffix, sizeof suffix, "-%04u", number);
    names->number = number;
    for (int file = 0; file < VALLEN_FILES; file++)
        snprintf(names->path[file], PATH_MAX, "%.*s%s%s", (int)stem, path, suffix, endings[file]);
}

/* Whether a file with this name or a log of it exists: SQLite would apply the log of another file
 * to a new one. */
static bool in_use(const char *path)
{
    char name[PATH_MAX + 16];
    for (int i = 0; i < LOGS; i++) {
        snprintf(name, sizeof name, "%s%s", path, logs[i]);
        if (access(name, F_OK) == 0)
            return true;
    }
    return access(path, F_OK) == 0;
}

/* 0 or errno. */
static int create(const char *path)
{
    const int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    return fd >= 0 ? close(fd) : errno;
}

/* 0, EEXIST or another errno. */
static int try_names(const struct vallen_names *names, const bool wanted[VALLEN_FILES])
{
    bool made[VALLEN_FILES] = {false};
    int error = 0;
    for (int file = 0; file < VALLEN_FILES && error == 0; file++)
        if (in_use(names->path[file]))
            error = EEXIST;
    for (int file = 0; file < VALLEN_FILES && error == 0; file++) {
        if (!wanted[file])
            continue;
        error = create(names->path[file]);
        made[file] = error == 0;
    }
    for (int file = 0; file < VALLEN_FILES && error != 0; file++)
        if (made[file])
            unlink(names->path[file]);
    return error;
}

int vallen_names_create(const char *path, const bool wanted[VALLEN_FILES],
                        struct vallen_names *names, struct problem *problem)
{
    int status = vallen_names_check(path, problem);
    if (status != 0)
        return status;
    const size_t stem = stem_length(path);
    for (unsigned number = 1; number <= NUMBERS_MAX; number++) {
        name_files(path, stem, number, names);
        const int error = try_names(names, wanted);
        if (error == 0)
            return 0;
        if (error != EEXIST)
            return problem_set(problem, ERROR_SYSTEM, "%.200s cannot be made: %s",
                               names->path[VALLEN_PRIDB], strerror(error));
    }
    return problem_set(problem, ERROR_NO_FILE, "no free name is left beside %.200s", path);
}

/* "" or "-0002", a number as name_files writes them. */
static bool is_number(const char *suffix, size_t bytes)
{
    enum { LEAST_DIGITS = 4 };
    if (bytes == 0)
        return true;
    if (bytes < 1 + LEAST_DIGITS || suffix[0] != '-')
        return false;
    return strspn(suffix + 1, "0123456789") >= bytes - 1;
}

bool vallen_names_match(const char *path, const char *name, enum vallen_file *file)
{
    const char *slash = strrchr(path, '/'), *own = slash != NULL ? slash + 1 : path;
    const size_t stem = stem_length(path) - (size_t)(own - path), length = strlen(name);
    const char *dot = strrchr(name, '.');
    if (stem_length(path) == 0 || dot == NULL || length < stem || (size_t)(dot - name) < stem ||
        memcmp(name, own, stem) != 0 || !is_number(name + stem, (size_t)(dot - name) - stem))
        return false;
    for (int i = 0; i < VALLEN_FILES; i++) {
        *file = (enum vallen_file)i;
        if (strcmp(dot, endings[i]) == 0)
            return true;
    }
    return false;
}

void vallen_names_remove(const struct vallen_names *names, const bool wanted[VALLEN_FILES])
{
    char name[PATH_MAX + 16];
    for (int file = 0; file < VALLEN_FILES; file++) {
        for (int i = 0; i < LOGS && wanted[file]; i++) {
            snprintf(name, sizeof name, "%s%s", names->path[file], logs[i]);
            unlink(name);
        }
        if (wanted[file])
            unlink(names->path[file]);
    }
}
