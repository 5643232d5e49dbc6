/*
 * Disk: every change that a recording makes on the disk goes through one of these functions, so
 * that a test can write down their order and replay any part of it (tests/support/disk_log.h).
 *
 * Any thread. Every function waits for the disk.
 */
#ifndef CONVOLVD_IO_RECORDING_DISK_H
#define CONVOLVD_IO_RECORDING_DISK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

/* Creates a file that must not exist, and locks it until its descriptor is closed: disk_open_unused
 * refuses it until then. Returns the descriptor, or -1 (errno). */
int disk_create(const char *path);

/* Opens an existing file for reading and writing and locks it. Returns -1 when another descriptor,
 * also of another process, holds the lock (errno EWOULDBLOCK), or for another reason. */
int disk_open_unused(const char *path);

/* Writes at a byte offset. Returns how many bytes it wrote: fewer than `count` when a write failed
 * (errno). */
uint64_t disk_write(int fd, const uint8_t *bytes, uint64_t count, uint64_t offset);

/* Sets the length of a file. Returns 0 or -1 (errno). */
int disk_truncate(int fd, uint64_t bytes);

/* Returns when the disk holds what has been written to the file: 0, or -1 (errno). After a failure
 * the kernel may have dropped what it could not write, and a later call succeeds all the same. */
int disk_sync(int fd);

/* Asks the kernel to begin writing to the disk, and does not wait for it. A later disk_sync then
 * waits for less. */
void disk_begin_sync(int fd);

/* Replaces a file with this text (core/replace_file.h). With `sync`, the disk holds the text when
 * the call returns 0. */
int disk_replace(const char *path, const char *text, bool sync, struct problem *problem);

/* Reserves `bytes` of the disk that holds `folder`, in a file without a name. Returns its
 * descriptor: disk_release gives the space back, and so does the end of the process. -1 with errno:
 * ENOSPC or EDQUOT when the disk is full, EOPNOTSUPP when the file system cannot reserve. */
int disk_reserve(const char *folder, uint64_t bytes);
void disk_release(int fd);

/* Deletes a file. Returns 0 or -1 (errno). */
int disk_remove(const char *path);

#endif
