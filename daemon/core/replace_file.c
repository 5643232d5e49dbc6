/* File replacement: see replace_file.h. */
#include "core/replace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int failed(const char *path, enum error error, int reason, struct problem *problem)
{
    return problem_set(problem, error, "%s cannot be written: %s", path, strerror(reason));
}

/* False with errno. */
static bool write_parts(FILE *file, const struct file_part *parts, size_t count, bool sync)
{
    bool good = true;
    for (size_t i = 0; good && i < count; i++)
        good = parts[i].count == 0 || fwrite(parts[i].bytes, parts[i].count, 1, file) == 1;
    if (good && sync)
        good = fflush(file) == 0 && fdatasync(fileno(file)) == 0;
    int saved = errno;
    if (fclose(file) != 0 && good)
        return false;
    errno = saved;
    return good;
}

/* Syncs the folder of `path`, which holds its name. False with errno. */
static bool sync_folder(const char *path)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path); /* it is shorter: the temporary name fitted */
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        slash[slash == folder ? 1 : 0] = '\0';
    int fd = open(slash != NULL ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool good = fsync(fd) == 0;
    int saved = errno;
    close(fd);
    errno = saved;
    return good;
}

static int replace(const char *path, const struct file_part *parts, size_t part_count, bool sync,
                   struct problem *problem)
{
    char temporary[PATH_MAX];
    int length = snprintf(temporary, sizeof temporary, "%s.%ld.part", path, (long)gettid());
    if (length >= (int)sizeof temporary)
        return failed(path, ERROR_NO_FILE, ENAMETOOLONG, problem);
    FILE *file = fopen(temporary, "wbe");
    if (file == NULL)
        return failed(path, ERROR_NO_FILE, errno, problem);
    if (!write_parts(file, parts, part_count, sync) || rename(temporary, path) != 0) {
        int reason = errno;
        unlink(temporary);
        return failed(path, ERROR_SYSTEM, reason, problem);
    }
    if (sync && !sync_folder(path))
        return failed(path, ERROR_SYSTEM, errno, problem);
    return 0;
}

int replace_file(const char *path, const struct file_part *parts, size_t part_count,
                 struct problem *problem)
{
    return replace(path, parts, part_count, false, problem);
}

static int replace_text(const char *path, const char *text, bool sync, struct problem *problem)
{
    if (text == NULL)
        return failed(path, ERROR_MEMORY, ENOMEM, problem);
    return replace(path, &(struct file_part){text, strlen(text)}, 1, sync, problem);
}

int replace_file_text(const char *path, const char *text, struct problem *problem)
{
    return replace_text(path, text, false, problem);
}

int replace_file_text_synced(const char *path, const char *text, struct problem *problem)
{
    return replace_text(path, text, true, problem);
}
