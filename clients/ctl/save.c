/* Saving: see save.h. */
#include "clients/ctl/save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "clients/ctl/reply.h"
#include "config/config.h"

enum { PATH_BYTES = 4096 };

/* What --check would say of the configuration with the fragment. */
static int prove(const char *config, const char *fragment, const char *text,
                 struct problem *problem)
{
    struct config_errors errors = {0};
    struct config *loaded = NULL;
    const int error = config_load_with(config, fragment, text, strlen(text), &loaded, &errors);
    if (error != 0)
        config_errors_print(&errors, stderr);
    config_errors_free(&errors);
    config_free(loaded);
    return error == 0 ? 0
                      : problem_set(problem, error,
                                    "%s: the configuration is not valid with it; "
                                    "nothing was written",
                                    fragment);
}

/* The whole text or no file. */
static int write_file(const char *path, const char *text, struct problem *problem)
{
    const size_t bytes = strlen(text);
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return problem_set(problem, ERROR_NO_FILE, "%s: %s", path, strerror(errno));
    const bool whole = write(fd, text, bytes) == (ssize_t)bytes && fsync(fd) == 0;
    const int reason = errno;
    if (close(fd) == 0 && whole)
        return 0;
    unlink(path);
    return problem_set(problem, ERROR_SYSTEM, "%s: %s", path, strerror(reason));
}

/* path NULL: there was nothing to write. */
static void tell(const char *path, bool json)
{
    if (!json) {
        puts(path != NULL ? path : "nothing was changed while the daemon ran");
        return;
    }
    json_t *object = json_pack("{s:b, s:s?}", "ok", 1, "path", path);
    json_dumpf(object, stdout, JSON_COMPACT);
    fputc('\n', stdout);
    json_decref(object);
}

int save_write(const json_t *reply, bool json, struct problem *problem)
{
    const char *config = reply_string(reply, "config"), *text = reply_string(reply, "fragment");
    char folder[PATH_BYTES], path[PATH_BYTES + 64], when[32];
    const time_t now = time(NULL);
    struct tm utc;
    if (json_array_size(json_object_get(reply, "streams")) == 0) {
        tell(NULL, json);
        return 0;
    }
    if (config[0] != '/' || snprintf(folder, sizeof folder, "%s.d", config) >= (int)sizeof folder)
        return problem_set(problem, ERROR_FORMAT, "%s is no whole path", config);
    gmtime_r(&now, &utc);
    strftime(when, sizeof when, "%Y%m%d-%H%M%S", &utc);
    snprintf(path, sizeof path, "%s/99-saved-%s.conf", folder, when);
    int error = prove(config, path, text, problem);
    if (error == 0 && mkdir(folder, 0755) != 0 && errno != EEXIST)
        error = problem_set(problem, ERROR_NO_FILE, "%s: %s", folder, strerror(errno));
    if (error == 0)
        error = write_file(path, text, problem);
    if (error == 0)
        tell(path, json);
    return error;
}
