/* The files of the page: see page_files.h. */
#include "page_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_MAX = 1024, DEPTH_MAX = 8, PATH_TEXT = 512, BYTES_MAX = 32 << 20 };

struct page_files {
    struct page_file list[FILES_MAX];
    unsigned count;
    size_t bytes;
};

/* Packages install some scripts compressed as well (NAME.js.gz): those endings are not listed. */
static const struct {
    const char *ending, *type;
} types[] = {
    {".html", "text/html; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".mjs", "text/javascript; charset=utf-8"},
    {".json", "application/json"},
    {".webmanifest", "application/manifest+json"},
    {".svg", "image/svg+xml"},
    {".png", "image/png"},
    {".ico", "image/x-icon"},
    {".woff2", "font/woff2"},
    {".txt", "text/plain; charset=utf-8"},
};

/* The media type for a name, by its ending; NULL: not one that is served. */
static const char *type_of(const char *name)
{
    const char *ending = strrchr(name, '.');
    for (size_t i = 0; ending != NULL && i < sizeof types / sizeof *types; i++)
        if (strcmp(ending, types[i].ending) == 0)
            return types[i].type;
    return NULL;
}

static void set_etag(struct page_file *file)
{
    struct sha256_ctx sha;
    uint8_t hash[SHA256_DIGEST_SIZE];
    sha256_init(&sha);
    sha256_update(&sha, file->size, file->bytes);
    sha256_digest(&sha, sizeof hash, hash);
    char *text = file->etag;
    *text++ = '"';
    for (int i = 0; i < 16; i++)
        text += sprintf(text, "%02x", hash[i]);
    *text++ = '"';
    *text = '\0';
}

/* All of a regular file; false with the sentence. */
static bool read_whole(int fd, struct page_file *file, struct problem *problem)
{
    size_t used = 0;
    while (used < file->size) {
        const ssize_t got = read(fd, file->bytes + used, file->size - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            problem_set(problem, ERROR_NO_FILE, "%s: %s", file->path,
                        got < 0 ? strerror(errno) : "it became shorter while it was read");
            return false;
        }
        used += (size_t)got;
    }
    return true;
}

/* One file of an open folder; `path` as requests name it. */
static int add_file(struct page_files *files, int folder, const char *name, const char *path,
                    struct problem *problem)
{
    struct stat facts;
    const int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    const size_t size = (size_t)facts.st_size;
    if (files->count == FILES_MAX || size > BYTES_MAX - files->bytes) {
        close(fd);
        return problem_set(problem, ERROR_LIMIT,
                           "the page has more than %d files or %d MiB; is --page the right folder?",
                           FILES_MAX, BYTES_MAX >> 20);
    }
    struct page_file *file = &files->list[files->count];
    *file = (struct page_file){.path = strdup(path),
                               .type = type_of(name),
                               .bytes = malloc(size > 0 ? size : 1),
                               .size = size};
    int error = 0;
    files->count++;
    files->bytes += size;
    if (file->path == NULL || file->bytes == NULL)
        error = problem_set(problem, ERROR_MEMORY, "no memory for the page");
    else if (!read_whole(fd, file, problem))
        error = problem->error;
    else
        set_etag(file);
    close(fd);
    return error;
}

/* The files of a folder and of those below it. Takes the descriptor over. */
static int add_folder(struct page_files *files, int fd, const char *prefix, int depth,
                      struct problem *problem)
{
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (folder == NULL) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    int error = 0;
    struct dirent *entry;
    while (error == 0 && (entry = readdir(folder)) != NULL) {
        char path[PATH_TEXT];
        if (entry->d_name[0] == '.' ||
            snprintf(path, sizeof path, "%s/%s", prefix, entry->d_name) >= (int)sizeof path)
            continue;
        if (type_of(entry->d_name) != NULL)
            error = add_file(files, dirfd(folder), entry->d_name, path, problem);
        else if (depth < DEPTH_MAX)
            error = add_folder(files,
                               openat(dirfd(folder), entry->d_name,
                                      O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW),
                               path, depth + 1, problem);
    }
    closedir(folder);
    return error;
}

int page_files_open(const char *page, const char *dygraphs, struct page_files **out,
                    struct problem *problem)
{
    struct page_files *files = calloc(1, sizeof *files);
    if (files == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for the page");
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    int error = add_folder(files, open(page, flags), "", 0, problem);
    if (error == 0)
        error = add_folder(files, open(dygraphs, flags), "/dygraphs", DEPTH_MAX, problem);
    if (error < 0) {
        page_files_close(files);
        return error;
    }
    *out = files;
    return 0;
}

void page_files_close(struct page_files *files)
{
    if (files == NULL)
        return;
    for (unsigned i = 0; i < files->count; i++) {
        free(files->list[i].path);
        free(files->list[i].bytes);
    }
    free(files);
}

const struct page_file *page_files_find(const struct page_files *files, const char *path)
{
    if (strcmp(path, "/") == 0)
        path = "/index.html";
    for (unsigned i = 0; i < files->count; i++)
        if (strcmp(files->list[i].path, path) == 0)
            return &files->list[i];
    return NULL;
}

unsigned page_files_count(const struct page_files *files)
{
    return files->count;
}
