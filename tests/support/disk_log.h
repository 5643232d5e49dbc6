/*
 * The disk under recordings, see daemon/io/recording/disk.h: writes down every change in order,
 * refuses some, and builds what a disk may hold after a power cut at any point of that order.
 *
 * A disk keeps its promise for what was synced. Of the rest it may hold all (the process was
 * killed), nothing, or some: the file lengths and sidecars without the samples, or single pages.
 *
 * Wraps the functions of disk.h in every unit test that links them (ld --wrap); while nothing is
 * asked for they do what the real ones do. Set and read by one thread while no other writes.
 */
#ifndef CONVOLVD_TESTS_DISK_LOG_H
#define CONVOLVD_TESTS_DISK_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct disk_faults {
    uint64_t room_bytes;  /* the disk is full after so many more bytes of samples; 0: never */
    bool full;            /* it is: sidecars fit into spare_bytes only */
    bool read_only;       /* it was mounted again so: nothing can be changed */
    bool no_reserve;      /* the file system cannot reserve space */
    uint64_t spare_bytes; /* what released reserves leave on a full disk */
    bool sync_fails;      /* every sync fails with EIO */
    bool replace_fails;   /* no sidecar can be written */
    unsigned syncs;       /* counts calls of disk_sync */
};
extern struct disk_faults disk_faults;

enum disk_change { DISK_CREATE, DISK_WRITE, DISK_TRUNCATE, DISK_SYNC, DISK_REPLACE };

struct disk_entry {
    enum disk_change change;
    char name[64]; /* of the file, without folder */
    uint64_t offset, count;
    uint8_t *bytes; /* WRITE and REPLACE: [count] */
    bool synced;    /* REPLACE: the disk holds it */
};

/* Begins to write down changes; what was written down before is freed. */
void disk_log_start(void);
void disk_log_stop(void);
size_t disk_log_count(void);
const struct disk_entry *disk_log_entry(size_t index);

/* What a disk may hold of the changes that it was not asked to sync. */
enum disk_kept {
    DISK_ALL,    /* everything */
    DISK_SYNCED, /* nothing */
    DISK_NAMES,  /* headers and sidecars, no samples */
    DISK_PAGES,  /* sidecars, and some pages of 4 KiB of the files */
    DISK_KEPT,
};

/* Makes the files of a folder as they may be after the first `count` changes. `seed` chooses the
 * pages. */
void disk_log_replay(const char *folder, size_t count, enum disk_kept kept, uint64_t seed);

/* The text of the sidecar of `name` (without .json) that the first `count` changes wrote last, or
 * synced last; NULL: none. Ends with a zero byte. */
const char *disk_log_sidecar(const char *name, size_t count, bool synced);

#endif
