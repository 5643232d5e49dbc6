/* Recording files: see files.h. */
#include "io/recording/files.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "io/recording/disk.h"
#include "io/recording/recording.h"

/* Give up after this many names that are in use. */
enum { NUMBERS_MAX = 1000000 };

/* "…/name.wav" → "…/name", ".wav"; a name without a dot gets the container's extension. */
static int split_path(struct recording_files *files, const struct sink_options *options,
                      struct problem *problem)
{
    const struct recording_options *own = options->own;
    const char *path = own->path != NULL ? own->path : "";
    size_t length = strlen(path);
    if (length == 0 || length > PATH_MAX - 64)
        return problem_set(problem, ERROR_CONFIG, "`path` is %s; write the file to record to",
                           length == 0 ? "empty" : "too long");
    const char *slash = strrchr(path, '/');
    size_t directory_length = slash == NULL ? 0 : (size_t)(slash - path);
    if (directory_length == 0)
        files->directory[0] = slash == NULL ? '.' : '/';
    else
        memcpy(files->directory, path, directory_length); /* the caller zeroed `files` */
    const char *name = slash == NULL ? path : slash + 1;
    if (*name == '\0') { /* the path is a directory: name the files after the sink */
        snprintf(files->stem, sizeof files->stem, "%s%.200s", path, options->name);
        snprintf(files->extension, sizeof files->extension, ".%s", own->container);
        return 0;
    }
    const char *dot = strrchr(name, '.');
    if (dot != NULL && dot != name && strlen(dot) < sizeof files->extension) {
        memcpy(files->stem, path, (size_t)(dot - path));
        memcpy(files->extension, dot, strlen(dot) + 1);
    } else {
        memcpy(files->stem, path, length);
        if (dot == NULL)
            snprintf(files->extension, sizeof files->extension, ".%s", own->container);
    }
    return 0;
}

/* True when what follows the stem is -YYYYmmddTHHMMSS.uuuuuuZ-N and the extension. */
static bool is_dated_name(const char *rest, const char *extension)
{
    static const char pattern[] = "-########T######.######Z-";
    for (const char *p = pattern; *p != '\0'; p++, rest++) {
        if (*p == '#' ? !isdigit((unsigned char)*rest) : *p != *rest)
            return false;
    }
    if (!isdigit((unsigned char)*rest))
        return false;
    while (isdigit((unsigned char)*rest))
        rest++;
    return strcmp(rest, extension) == 0;
}

/* True when what follows the stem is the extension, or -N and the extension. */
static bool is_numbered_name(const char *rest, const char *extension)
{
    if (*rest == '-' && isdigit((unsigned char)rest[1])) {
        rest++;
        while (isdigit((unsigned char)*rest))
            rest++;
    }
    return strcmp(rest, extension) == 0;
}

static const char *stem_name(const struct recording_files *files)
{
    const char *slash = strrchr(files->stem, '/');
    return slash == NULL ? files->stem : slash + 1;
}

bool recording_files_match(const struct recording_files *files, const char *name)
{
    size_t length = strlen(stem_name(files));
    return strncmp(name, stem_name(files), length) == 0 &&
           (is_numbered_name(name + length, files->extension) ||
            is_dated_name(name + length, files->extension));
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lists files of earlier runs, oldest first: names sort as their times do. */
static void find_earlier_files(struct recording_files *files)
{
    DIR *directory = opendir(files->directory);
    if (directory == NULL)
        return;
    size_t stem_length = strlen(stem_name(files));
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (strncmp(entry->d_name, stem_name(files), stem_length) == 0 &&
            is_dated_name(entry->d_name + stem_length, files->extension)) {
            char path[2 * PATH_MAX];
            snprintf(path, sizeof path, "%s%s", files->stem, entry->d_name + stem_length);
            recording_files_add(files, path);
        }
    }
    closedir(directory);
    if (files->finished_count > 0)
        qsort(files->finished, files->finished_count, sizeof *files->finished, by_name);
}

/* Whether files can be made where the path says. */
static int check_place(const struct recording_files *files, const char *path,
                       struct problem *problem)
{
    struct stat facts;
    if (path[strlen(path) - 1] != '/' && stat(path, &facts) == 0 && S_ISDIR(facts.st_mode))
        return problem_set(problem, ERROR_CONFIG,
                           "%s is a directory; write a file in it, as %s/%s.wav, or %s/ for a file "
                           "named after the sink",
                           path, path, files->sink, path);
    if (stat(files->directory, &facts) != 0 || !S_ISDIR(facts.st_mode))
        return problem_set(
            problem, ERROR_NO_FILE,
            "the directory %s of the recording does not exist; create it: mkdir -p %s",
            files->directory, files->directory);
    if (access(files->directory, W_OK | X_OK) != 0)
        return problem_set(problem, ERROR_SYSTEM,
                           "no file can be created in %s: %s; let the daemon's user write there",
                           files->directory, strerror(errno));
    return 0;
}

/* `files` becomes zeros and what the options say. */
static int begin(struct recording_files *files, const struct sink_options *options,
                 struct problem *problem)
{
    const struct recording_options *own = options->own;
    memset(files, 0, sizeof *files);
    files->sink = options->name;
    files->number = 1;
    int status = split_path(files, options, problem);
    return status != 0 ? status : check_place(files, own->path, problem);
}

int recording_files_check(const struct sink_options *options, struct problem *problem)
{
    struct recording_files files;
    return begin(&files, options, problem);
}

int recording_files_open(struct recording_files *files, const struct sink_options *options,
                         bool dated, struct problem *problem)
{
    const struct recording_options *own = options->own;
    int status = begin(files, options, problem);
    if (status != 0)
        return status;
    files->dated = dated;
    if (dated && own->keep > 0)
        find_earlier_files(files);
    return 0;
}

void recording_files_close(struct recording_files *files)
{
    for (size_t i = 0; i < files->finished_count; i++)
        free(files->finished[i]);
    free(files->finished);
    files->finished = NULL;
    files->finished_count = files->finished_capacity = 0;
}

static int name_file(const struct recording_files *files, int64_t capture_ns, unsigned number,
                     char path[PATH_MAX])
{
    int used;
    if (files->dated) {
        time_t seconds = (time_t)(capture_ns / NS_PER_SECOND);
        struct tm utc;
        char day[32];
        gmtime_r(&seconds, &utc);
        strftime(day, sizeof day, "%Y%m%dT%H%M%S", &utc);
        used = snprintf(path, PATH_MAX, "%s-%s.%06dZ-%04u%s", files->stem, day,
                        (int)(capture_ns % NS_PER_SECOND / 1000), number, files->extension);
    } else if (number == 1) {
        used = snprintf(path, PATH_MAX, "%s%s", files->stem, files->extension);
    } else {
        used = snprintf(path, PATH_MAX, "%s-%04u%s", files->stem, number, files->extension);
    }
    return used < PATH_MAX ? 0 : ERROR_CONFIG;
}

int recording_files_create(struct recording_files *files, struct container_file *file,
                           const struct container_spec *spec, int64_t capture_ns,
                           char path[PATH_MAX], struct problem *problem)
{
    unsigned first = files->number;
    for (; files->number < first + NUMBERS_MAX; files->number++) {
        if (name_file(files, capture_ns, files->number, path) != 0)
            return problem_set(problem, ERROR_CONFIG, "`path` is too long");
        int status = container_create(file, path, spec, problem);
        if (status == 0) {
            if (!files->dated && first == 1 && files->number > 1)
                log_notice("sink %s: %s%s exists and is not overwritten; recording to %s",
                           files->sink, files->stem, files->extension, path);
            files->number++;
            return 0;
        }
        if (errno != EEXIST)
            return status;
    }
    return problem_set(problem, ERROR_NO_FILE, "no free name is left beside %s%s", files->stem,
                       files->extension);
}

void recording_files_add(struct recording_files *files, const char *path)
{
    if (files->finished_count == files->finished_capacity) {
        size_t capacity = files->finished_capacity > 0 ? 2 * files->finished_capacity : 16;
        char **grown = realloc(files->finished, capacity * sizeof *grown);
        if (grown == NULL)
            return;
        files->finished = grown;
        files->finished_capacity = capacity;
    }
    char *copy = strdup(path);
    if (copy != NULL)
        files->finished[files->finished_count++] = copy;
}

void recording_files_prune(struct recording_files *files, uint32_t keep)
{
    if (keep == 0 || files->finished_count < keep)
        return;
    size_t surplus = files->finished_count - keep + 1;
    for (size_t i = 0; i < surplus; i++) {
        char sidecar[PATH_MAX + 8];
        snprintf(sidecar, sizeof sidecar, "%s.json", files->finished[i]);
        if (disk_remove(files->finished[i]) != 0 && errno != ENOENT)
            log_warning("sink %s: %s cannot be deleted: %s", files->sink, files->finished[i],
                        strerror(errno));
        else
            log_debug("sink %s: %s deleted", files->sink, files->finished[i]);
        disk_remove(sidecar);
        free(files->finished[i]);
    }
    memmove(files->finished, files->finished + surplus,
            (files->finished_count - surplus) * sizeof *files->finished);
    files->finished_count -= surplus;
}
