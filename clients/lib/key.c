/* Key files: reads the secret of authentication tags (wire/auth.h). Any thread. */
#include "convolv.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "wire/auth.h"

static_assert((int)CONVOLV_KEY_BYTES == (int)AUTH_SECRET_BYTES, "both are one secret");

enum { FILE_BYTES_MAX = 256, OTHERS_MAY = S_IWGRP | S_IRWXO };

static int read_secret(int fd, const char *path, uint8_t key[CONVOLV_KEY_BYTES],
                       struct convolv_problem *problem)
{
    char text[FILE_BYTES_MAX];
    struct stat facts;
    if (fstat(fd, &facts) != 0)
        return convolv__problem(problem, CONVOLV_ERROR_FILE, "key %s: %s", path, strerror(errno));
    if (!S_ISREG(facts.st_mode))
        return convolv__problem(problem, CONVOLV_ERROR_FILE, "key %s: it is no file", path);
    if ((facts.st_mode & OTHERS_MAY) != 0)
        return convolv__problem(problem, CONVOLV_ERROR_FILE,
                                "key %s: others may read or change it; run chmod 600 %s", path,
                                path);
    ssize_t got = read(fd, text, sizeof text);
    bool good = got >= 0 && auth_secret_parse(text, (size_t)got, key);
    explicit_bzero(text, sizeof text);
    if (!good)
        return convolv__problem(problem, CONVOLV_ERROR_FILE,
                                "key %s: it must hold 64 hexadecimal digits, as `openssl rand -hex "
                                "32` writes them",
                                path);
    return CONVOLV_OK;
}

int convolv_key_read(const char *path, uint8_t key[CONVOLV_KEY_BYTES],
                     struct convolv_problem *problem)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return convolv__problem(problem, CONVOLV_ERROR_FILE, "key %s: %s", path, strerror(errno));
    int status = read_secret(fd, path, key, problem);
    close(fd);
    return status;
}
