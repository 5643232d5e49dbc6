/* Files of alarms: see alarm_files.h. */
#include "control/alarm_files.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/log.h"
#include "core/loop_work.h"
#include "core/replace_file.h"

enum { WAITING_MAX = 64, LYING_MAX = 64, PATH_BYTES = 4096 };

/* Read and written by the group, which handles the files; nobody else's business. */
static const mode_t directory_mode = 0770;

struct event_file {
    struct event_file *next;
    char folder[PATH_BYTES]; /* STATE/alarms */
    char name[64];
    int64_t realtime_ns;
    char *text;
};

struct alarm_files {
    uv_loop_t *loop;
    struct loop_work work;
    struct event_file *first, *last; /* waiting; the first is the worker's while `busy` */
    uint32_t waiting;
    bool busy, closing;
    struct log_limit dropped; /* LOOP */
    struct log_limit failed;  /* the worker's */
};

/* ---- worker ------------------------------------------------------------------------------ */

static int make_directory(const char *path, struct problem *problem)
{
    if (mkdir(path, directory_mode) != 0) {
        if (errno == EEXIST)
            return 0;
        return problem_set(problem, ERROR_SYSTEM, "%s cannot be made: %s", path, strerror(errno));
    }
    chmod(path, directory_mode); /* past the umask */
    return 0;
}

static uint32_t count_files(const char *path)
{
    DIR *directory = opendir(path);
    uint32_t count = 0;
    const struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL)
        count += entry->d_name[0] != '.';
    if (directory != NULL)
        closedir(directory);
    return count;
}

static int write_file(const struct event_file *file, struct problem *problem)
{
    char path[PATH_BYTES + 128];
    snprintf(path, sizeof path, "%s/%s", file->folder, file->name);
    int error = make_directory(file->folder, problem);
    if (error == 0)
        error = make_directory(path, problem);
    if (error == 0 && count_files(path) >= LYING_MAX)
        error = problem_set(problem, ERROR_FULL,
                            "%d files lie in %s that nobody handles; systemctl enable --now "
                            "convolv-alarm@%s.path",
                            LYING_MAX, path, file->name);
    if (error != 0)
        return error;
    size_t used = strlen(path);
    snprintf(path + used, sizeof path - used, "/%020" PRId64 ".json", file->realtime_ns);
    return replace_file_text(path, file->text, problem);
}

static void work(void *context)
{
    struct alarm_files *files = context;
    struct problem problem;
    if (write_file(files->first, &problem) != 0)
        log_limited(&files->failed, 10 * NS_PER_SECOND, LOG_LEVEL_ERROR, "alarm %s: %s",
                    files->first->name, problem.text);
}

/* ---- loop -------------------------------------------------------------------------------- */

static void drop_first(struct alarm_files *files)
{
    struct event_file *file = files->first;
    files->first = file->next;
    if (files->first == NULL)
        files->last = NULL;
    files->waiting--;
    free(file->text);
    free(file);
}

static void start(struct alarm_files *files);

static void on_written(void *context)
{
    struct alarm_files *files = context;
    files->busy = false;
    drop_first(files);
    if (files->closing) {
        while (files->first != NULL)
            drop_first(files);
        free(files);
    } else if (files->first != NULL) {
        start(files);
    }
}

static void start(struct alarm_files *files)
{
    files->busy = true;
    loop_work_start(&files->work, files->loop, work, on_written, files);
}

void alarm_files_put(struct alarm_files *files, const char *state_directory, const char *name,
                     int64_t realtime_ns, char *text)
{
    struct event_file *file = files->waiting < WAITING_MAX ? calloc(1, sizeof *file) : NULL;
    if (file == NULL || text == NULL) {
        log_limited(&files->dropped, 10 * NS_PER_SECOND, LOG_LEVEL_ERROR,
                    "alarm %s: the disk is behind, or memory is short: its program is not started",
                    name);
        free(file);
        free(text);
        return;
    }
    snprintf(file->folder, sizeof file->folder, "%s/alarms", state_directory);
    snprintf(file->name, sizeof file->name, "%s", name);
    file->realtime_ns = realtime_ns;
    file->text = text;
    if (files->last != NULL)
        files->last->next = file;
    else
        files->first = file;
    files->last = file;
    files->waiting++;
    if (!files->busy)
        start(files);
}

int alarm_files_open(uv_loop_t *loop, struct alarm_files **out)
{
    struct alarm_files *files = calloc(1, sizeof *files);
    if (files == NULL)
        return ERROR_MEMORY;
    files->loop = loop;
    *out = files;
    return 0;
}

void alarm_files_close(struct alarm_files *files)
{
    if (files == NULL)
        return;
    files->closing = true;
    if (!files->busy) {
        while (files->first != NULL)
            drop_first(files);
        free(files);
    }
}
