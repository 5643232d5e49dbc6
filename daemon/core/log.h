/*
 * Log: one line per event to stderr. Where stderr is the journal's (JOURNAL_STREAM names it) the
 * line becomes a journal entry with its priority and with fields for its subject; else it carries a
 * readable level. Messages that may repeat go through log_limited, which counts the lines it
 * suppresses.
 *
 * A line begins with its subject, "stream NAME: " or "stream NAME: channel 3: ", which becomes the
 * fields STREAM=NAME, CHANNEL=3 (also SINK=, FILTER=).
 *
 * Between log_start and log_stop, which the service calls, a line goes into a bounded lock-free
 * ring (line_ring.h) and one thread writes it out: no other thread ever waits for whoever reads the
 * log. When the ring is full the line is dropped, and the writing thread says how many were as soon
 * as it gets on. Otherwise, as in commands, each line is one write(2) of the caller.
 *
 * Any thread.
 */
#ifndef CONVOLVD_CORE_LOG_H
#define CONVOLVD_CORE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* syslog(3) numbers, so that a level is its own journald priority. */
enum log_level {
    LOG_LEVEL_ERROR = 3,
    LOG_LEVEL_WARNING = 4,
    LOG_LEVEL_NOTICE = 5,
    LOG_LEVEL_INFO = 6,
    LOG_LEVEL_DEBUG = 7,
};

/* Lines above this level are not written. Default LOG_LEVEL_INFO. */
void log_set_level(enum log_level level);

/* The program that lines name, at most 32 bytes; default "convolvd". Before other threads start. */
void log_set_name(const char *name);

void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...)   log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_notice(...)  log_line(LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_info(...)    log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)   log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)

/* A line on a terminal that the next line of the log, or the next progress, replaces. Not written
 * where lines of LOG_LEVEL_INFO are not. */
void log_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* At most one line per `interval_ns` for this limiter; owned by one thread. Start zeroed. */
struct log_limit {
    int64_t next_ns;
    uint64_t suppressed;
};

void log_limited(struct log_limit *limit, int64_t interval_ns, enum log_level level,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

/* From now on a thread writes the lines; without a thread (no memory) callers go on writing them
 * themselves. Does nothing when it is started already. */
void log_start(void);

/* Waits up to `timeout_ns` for the thread to write what the ring holds, then ends it. False: it did
 * not get done, as with a full pipe that nobody reads; later lines are dropped, and the thread
 * hangs until the process exits. Call it when no other thread logs what matters. */
bool log_stop(int64_t timeout_ns);

/* A field of the journal found at the beginning of a line; `value` lies in the line. */
struct log_field {
    const char *name;
    const char *value;
    size_t length;
};

/* How many there are, at most `capacity`. Any thread. */
int log_fields(const char *text, struct log_field *fields, int capacity);

#endif
