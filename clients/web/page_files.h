/*
 * The files of the page: read whole into memory at start, each with its type and an ETag, and found
 * by their exact path afterwards. A request therefore touches no file system, and no path in a
 * request can lead out of the folders.
 *
 * Loop thread.
 */
#ifndef CONVOLV_WEB_PAGE_FILES_H
#define CONVOLV_WEB_PAGE_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

struct page_file {
    char *path; /* as in a request: "/app/main.js" */
    const char *type;
    char etag[36]; /* with its quotes: the first half of the SHA-256 */
    uint8_t *bytes;
    size_t size;
};

struct page_files;

/* The files of `page` below "/", subfolders included, and those of `dygraphs` below "/dygraphs/":
 * regular files and no links, of known types, whose names do not begin with a dot. A folder that is
 * not there counts as empty. 0, ERROR_MEMORY, or ERROR_LIMIT beyond 1024 files or 32 MiB. */
int page_files_open(const char *page, const char *dygraphs, struct page_files **out,
                    struct problem *problem);
void page_files_close(struct page_files *files); /* NULL is fine */

/* NULL: there is none. "/" is "/index.html". */
const struct page_file *page_files_find(const struct page_files *files, const char *path);
unsigned page_files_count(const struct page_files *files);

#endif
