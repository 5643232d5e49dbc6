/* File replacement: see replace_file.h. */
#include "core/replace_file.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int failed(const char *path, enum error error, int reason, struct problem *problem)
{
    return problem_set(problem, error, "%s cannot be written: %s", path, strerror(reason));
}

static bool write_parts(FILE *file, const struct file_part *parts, size_t count)
{
    bool good = true;
    for (size_t i = 0; good && i < count; i++)
        good = parts[i].count == 0 || fwrite(parts[i].bytes, parts[i].count, 1, file) == 1;
    return fclose(file) == 0 && good;
}

int replace_file(const char *path, const struct file_part *parts, size_t part_count,
                 struct problem *problem)
{
    char temporary[PATH_MAX];
    int length = snprintf(temporary, sizeof temporary, "%s.%ld.part", path, (long)gettid());
    if (length >= (int)sizeof temporary)
        return failed(path, ERROR_NO_FILE, ENAMETOOLONG, problem);
    FILE *file = fopen(temporary, "wbe");
    if (file == NULL)
        return failed(path, ERROR_NO_FILE, errno, problem);
    if (write_parts(file, parts, part_count) && rename(temporary, path) == 0)
        return 0;
    int reason = errno;
    unlink(temporary);
    return failed(path, ERROR_SYSTEM, reason, problem);
}

int replace_file_text(const char *path, const char *text, struct problem *problem)
{
    if (text == NULL)
        return failed(path, ERROR_MEMORY, ENOMEM, problem);
    return replace_file(path, &(struct file_part){text, strlen(text)}, 1, problem);
}
