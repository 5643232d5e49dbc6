/*
 * Text writer: a thread that writes whole texts to standard output or into files, for callers that
 * must not wait for whoever reads the pipe or for the disk. The queue is short, as each text is the
 * newest of its kind: a writer that hangs costs the next texts, never the caller's time.
 *
 * One thread puts and closes.
 */
#ifndef CONVOLVD_CORE_TEXT_WRITER_H
#define CONVOLVD_CORE_TEXT_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text_writer;

/* Starts the thread. 0 or ERROR_MEMORY. */
int text_writer_open(struct text_writer **out);

/* Queues a text, which it frees after use; `path` is copied: the file to replace (replace_file.h),
 * NULL: standard output. A file that cannot be written is logged. False: the thread still writes
 * earlier ones or memory is short, and this text is dropped. */
bool text_writer_put(struct text_writer *writer, const char *path, char *text, size_t bytes);

/* Waits up to `timeout_ns` for the thread to write what is queued, then ends it. False: the thread
 * hangs; it keeps what it uses until the process exits. NULL is fine. */
bool text_writer_close(struct text_writer *writer, int64_t timeout_ns);

#endif
