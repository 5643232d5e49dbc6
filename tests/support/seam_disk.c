/* The disk under recordings, written down and replayed; disk_log.h describes it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/random.h"
#include "io/recording/disk.h"
#include "tests/support/disk_log.h"

enum { ENTRIES_MAX = 8192, PAGE_BYTES = 4096, SIDECAR_BYTES = 8192, FILE_BYTES_MAX = 1 << 20 };

struct disk_faults disk_faults;

static struct disk_entry entries[ENTRIES_MAX];
static size_t entry_count;
static bool logging;

/* ---- the log ----------------------------------------------------------------------------- */

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static void add(enum disk_change change, const char *path, uint64_t offset, const void *bytes,
                uint64_t count, bool synced)
{
    if (!logging)
        return;
    assert_true(entry_count < ENTRIES_MAX);
    struct disk_entry *entry = &entries[entry_count++];
    *entry =
        (struct disk_entry){.change = change, .offset = offset, .count = count, .synced = synced};
    snprintf(entry->name, sizeof entry->name, "%s", name_of(path));
    if (bytes != NULL) {
        entry->bytes = calloc(1, count + 1);
        assert_non_null(entry->bytes);
        memcpy(entry->bytes, bytes, count);
    }
}

static void add_open(enum disk_change change, int fd, uint64_t offset, const void *bytes,
                     uint64_t count)
{
    char link[64], target[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, target, sizeof target - 1);
    if (length <= 0)
        return;
    target[length] = '\0';
    add(change, target, offset, bytes, count, false);
}

void disk_log_start(void)
{
    for (size_t i = 0; i < entry_count; i++)
        free(entries[i].bytes);
    entry_count = 0;
    logging = true;
}

void disk_log_stop(void)
{
    logging = false;
}

size_t disk_log_count(void)
{
    return entry_count;
}

const struct disk_entry *disk_log_entry(size_t index)
{
    return &entries[index];
}

/* ---- the wrapped functions --------------------------------------------------------------- */

int __real_disk_create(const char *path);
int __wrap_disk_create(const char *path);
int __wrap_disk_create(const char *path)
{
    if (disk_faults.full || disk_faults.read_only) {
        errno = disk_faults.full ? ENOSPC : EROFS;
        return -1;
    }
    int fd = __real_disk_create(path);
    if (fd >= 0)
        add(DISK_CREATE, path, 0, NULL, 0, false);
    return fd;
}

uint64_t __real_disk_write(int fd, const uint8_t *bytes, uint64_t count, uint64_t offset);
uint64_t __wrap_disk_write(int fd, const uint8_t *bytes, uint64_t count, uint64_t offset);
uint64_t __wrap_disk_write(int fd, const uint8_t *bytes, uint64_t count, uint64_t offset)
{
    uint64_t allowed = count;
    if (disk_faults.read_only) {
        errno = EROFS;
        return 0;
    }
    if (offset > 0 && disk_faults.full) {
        allowed = 0;
    } else if (offset > 0 && disk_faults.room_bytes > 0) {
        allowed = count < disk_faults.room_bytes ? count : disk_faults.room_bytes;
        disk_faults.room_bytes -= allowed;
        disk_faults.full = disk_faults.room_bytes == 0;
    }
    uint64_t written = __real_disk_write(fd, bytes, allowed, offset);
    add_open(DISK_WRITE, fd, offset, bytes, written);
    if (allowed < count)
        errno = ENOSPC;
    return written;
}

int __real_disk_truncate(int fd, uint64_t bytes);
int __wrap_disk_truncate(int fd, uint64_t bytes);
int __wrap_disk_truncate(int fd, uint64_t bytes)
{
    if (disk_faults.read_only) {
        errno = EROFS;
        return -1;
    }
    add_open(DISK_TRUNCATE, fd, bytes, NULL, 0);
    return __real_disk_truncate(fd, bytes);
}

int __real_disk_sync(int fd);
int __wrap_disk_sync(int fd);
int __wrap_disk_sync(int fd)
{
    disk_faults.syncs++;
    if (disk_faults.sync_fails) {
        errno = EIO;
        return -1;
    }
    int status = __real_disk_sync(fd);
    add_open(DISK_SYNC, fd, 0, NULL, 0);
    return status;
}

int __real_disk_replace(const char *path, const char *text, bool sync, struct problem *problem);
int __wrap_disk_replace(const char *path, const char *text, bool sync, struct problem *problem);
int __wrap_disk_replace(const char *path, const char *text, bool sync, struct problem *problem)
{
    if (disk_faults.replace_fails || disk_faults.read_only ||
        (disk_faults.full && disk_faults.spare_bytes < SIDECAR_BYTES))
        return problem_set(problem, ERROR_SYSTEM, "%s: no room left", path);
    disk_faults.spare_bytes -= disk_faults.full ? SIDECAR_BYTES : 0;
    int status = __real_disk_replace(path, text, sync, problem);
    if (status == 0)
        add(DISK_REPLACE, path, 0, text, strlen(text), sync);
    return status;
}

int __real_disk_reserve(const char *folder, uint64_t bytes);
int __wrap_disk_reserve(const char *folder, uint64_t bytes);
int __wrap_disk_reserve(const char *folder, uint64_t bytes)
{
    if (disk_faults.read_only) {
        errno = EROFS;
        return -1;
    }
    if (disk_faults.no_reserve || (disk_faults.full && disk_faults.spare_bytes < bytes)) {
        errno = disk_faults.no_reserve ? EOPNOTSUPP : ENOSPC;
        return -1;
    }
    disk_faults.spare_bytes -= disk_faults.full ? bytes : 0;
    return __real_disk_reserve(folder, bytes);
}

void __real_disk_release(int fd);
void __wrap_disk_release(int fd);
void __wrap_disk_release(int fd)
{
    struct stat status;
    if (fstat(fd, &status) == 0 && disk_faults.full)
        disk_faults.spare_bytes += (uint64_t)status.st_size;
    __real_disk_release(fd);
}

/* ---- after a power cut ------------------------------------------------------------------- */

/* One file as the disk holds it. */
struct contents {
    bool exists;
    uint64_t bytes;
    uint8_t data[FILE_BYTES_MAX];
};

static void apply(struct contents *contents, const struct disk_entry *entry)
{
    contents->exists = true;
    switch (entry->change) {
    case DISK_REPLACE:
        contents->bytes = 0;
        /* fall through */
    case DISK_WRITE:
        assert_true(entry->offset + entry->count <= FILE_BYTES_MAX);
        memcpy(contents->data + entry->offset, entry->bytes, entry->count);
        if (entry->offset + entry->count > contents->bytes)
            contents->bytes = entry->offset + entry->count;
        break;
    case DISK_TRUNCATE:
        memset(contents->data + entry->offset, 0,
               contents->bytes > entry->offset ? contents->bytes - entry->offset : 0);
        contents->bytes = entry->offset;
        break;
    default:
        break;
    }
}

/* The number of the last change among the first `count` that made this file's contents durable,
 * plus 1; 0: none. */
static size_t durable_until(const char *name, size_t count)
{
    for (size_t i = count; i > 0; i--) {
        const struct disk_entry *entry = &entries[i - 1];
        if (strcmp(entry->name, name) == 0 &&
            (entry->change == DISK_SYNC || (entry->change == DISK_REPLACE && entry->synced)))
            return i;
    }
    return 0;
}

/* True when the folder was synced after the file was made. */
static bool has_durable_name(const char *name, size_t count)
{
    bool made = false;
    for (size_t i = 0; i < count; i++) {
        const struct disk_entry *entry = &entries[i];
        made |= entry->change == DISK_CREATE && strcmp(entry->name, name) == 0;
        if (made && entry->change == DISK_REPLACE && entry->synced)
            return true;
    }
    return false;
}

static bool is_sidecar(const char *name)
{
    size_t length = strlen(name);
    return length > 5 && strcmp(name + length - 5, ".json") == 0;
}

/* Writes the file; a page that is missing becomes a hole. */
static void store(const char *folder, const char *name, const struct contents *contents,
                  const bool *missing)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0644);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)contents->bytes), 0);
    for (uint64_t at = 0; at < contents->bytes; at += PAGE_BYTES) {
        uint64_t count = contents->bytes - at < PAGE_BYTES ? contents->bytes - at : PAGE_BYTES;
        if (missing == NULL || !missing[at / PAGE_BYTES])
            assert_int_equal(pwrite(fd, contents->data + at, count, (off_t)at), count);
    }
    close(fd);
}

static void replay_file(const char *folder, const char *name, size_t count, enum disk_kept kept,
                        struct random_state *random)
{
    static struct contents contents;
    memset(&contents, 0, sizeof contents);
    const size_t durable = durable_until(name, count);
    const bool sidecar = is_sidecar(name);
    uint64_t durable_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const struct disk_entry *entry = &entries[i];
        bool keeps = i < durable || kept == DISK_ALL || kept == DISK_PAGES;
        if (kept == DISK_NAMES)
            keeps |= sidecar || (entry->change == DISK_WRITE && entry->offset == 0);
        if (strcmp(entry->name, name) == 0 && keeps)
            apply(&contents, entry);
        if (i + 1 == durable)
            durable_bytes = contents.bytes;
    }
    contents.exists |= has_durable_name(name, count) && !sidecar;
    if (!contents.exists)
        return;
    static bool missing[FILE_BYTES_MAX / PAGE_BYTES];
    for (uint64_t page = 0; page < FILE_BYTES_MAX / PAGE_BYTES; page++)
        missing[page] = kept == DISK_PAGES && !sidecar && (page + 1) * PAGE_BYTES > durable_bytes &&
                        page * PAGE_BYTES >= durable_bytes && random_below(random, 3) == 0;
    store(folder, name, &contents, missing);
}

void disk_log_replay(const char *folder, size_t count, enum disk_kept kept, uint64_t seed)
{
    struct random_state random = {seed};
    for (size_t i = 0; i < count; i++) {
        bool first = true;
        for (size_t j = 0; j < i && first; j++)
            first = strcmp(entries[j].name, entries[i].name) != 0;
        if (first)
            replay_file(folder, entries[i].name, count, kept, &random);
    }
}

const char *disk_log_sidecar(const char *name, size_t count, bool synced)
{
    char sidecar[80];
    snprintf(sidecar, sizeof sidecar, "%s.json", name);
    for (size_t i = count; i > 0; i--) {
        const struct disk_entry *entry = &entries[i - 1];
        if (entry->change == DISK_REPLACE && strcmp(entry->name, sidecar) == 0 &&
            (entry->synced || !synced))
            return (const char *)entry->bytes;
    }
    return NULL;
}
