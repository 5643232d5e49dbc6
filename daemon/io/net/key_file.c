/* Key files: see key_file.h. */
#include "io/net/key_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES_MAX = 256, OTHERS_MAY = S_IWGRP | S_IRWXO };

static int read_secret(int fd, const char *path, uint8_t secret[AUTH_SECRET_BYTES],
                       struct problem *problem)
{
    char text[FILE_BYTES_MAX];
    struct stat facts;
    if (fstat(fd, &facts) != 0)
        return problem_set(problem, ERROR_NO_FILE, "key file %s: %s", path, strerror(errno));
    if (!S_ISREG(facts.st_mode))
        return problem_set(problem, ERROR_NO_FILE, "key file %s: it is no file", path);
    if (facts.st_uid != 0 && facts.st_uid != geteuid())
        return problem_set(problem, ERROR_NO_FILE,
                           "key file %s belongs to another user; give it to the daemon's or root "
                           "(chown)",
                           path);
    if ((facts.st_mode & OTHERS_MAY) != 0)
        return problem_set(
            problem, ERROR_NO_FILE,
            "key file %s: others may read or change it (mode %03o); run chmod 600 %s", path,
            (unsigned)facts.st_mode & 0777u, path);
    ssize_t got = read(fd, text, sizeof text);
    bool good = got >= 0 && auth_secret_parse(text, (size_t)got, secret);
    explicit_bzero(text, sizeof text);
    if (!good)
        return problem_set(problem, ERROR_NO_FILE,
                           "key file %s must hold 64 hexadecimal digits; make one with openssl "
                           "rand -hex 32",
                           path);
    return 0;
}

/* Returns 0, or ERROR_NO_FILE with a sentence that says what to do. */
static int read_key(const char *path, uint8_t secret[AUTH_SECRET_BYTES], struct problem *problem)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return problem_set(problem, ERROR_NO_FILE, "key file %s: %s", path, strerror(errno));
    int error = read_secret(fd, path, secret, problem);
    close(fd);
    return error;
}

int key_file_derive(const char *path, enum auth_use use, struct auth_key *key,
                    struct problem *problem)
{
    uint8_t secret[AUTH_SECRET_BYTES];
    int error = read_key(path, secret, problem);
    if (error == 0)
        auth_key_derive(secret, use, key);
    explicit_bzero(secret, sizeof secret);
    return error;
}

void key_file_check(const struct option_check *check, const char *path)
{
    uint8_t secret[AUTH_SECRET_BYTES];
    struct problem problem;
    if (path == NULL)
        return;
    if (read_key(path, secret, &problem) != 0)
        option_error(check, "key", "%s", problem.text);
    explicit_bzero(secret, sizeof secret);
}
