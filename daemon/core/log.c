/* Log: see log.h. */
#include "core/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/clock.h"

static _Atomic int max_level = LOG_LEVEL_INFO;

void log_set_level(enum log_level level)
{
    atomic_store(&max_level, (int)level);
}

static const char *level_word(enum log_level level)
{
    switch (level) {
    case LOG_LEVEL_ERROR:
        return "error: ";
    case LOG_LEVEL_WARNING:
        return "warning: ";
    case LOG_LEVEL_DEBUG:
        return "debug: ";
    default:
        return "";
    }
}

__attribute__((format(printf, 2, 0))) static void
write_line(enum log_level level, const char *format, va_list arguments, uint64_t swallowed)
{
    char line[1024];
    int used = getenv("JOURNAL_STREAM") != NULL
                   ? snprintf(line, sizeof line, "<%d>", (int)level)
                   : snprintf(line, sizeof line, "convolvd: %s", level_word(level));
    int more = vsnprintf(line + used, sizeof line - (size_t)used - 64, format, arguments);
    int room = (int)sizeof line - used - 65;
    used += more < room ? more : room;
    if (swallowed > 0)
        used += snprintf(line + used, sizeof line - (size_t)used, " (and %llu more like it)",
                         (unsigned long long)swallowed);
    line[used++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, (size_t)used);
    (void)written; /* a closed stderr must not stop the daemon */
}

void log_line(enum log_level level, const char *format, ...)
{
    if ((int)level > atomic_load_explicit(&max_level, memory_order_relaxed))
        return;
    va_list arguments;
    va_start(arguments, format);
    write_line(level, format, arguments, 0);
    va_end(arguments);
}

void log_limited(struct log_limit *limit, int64_t interval_ns, enum log_level level,
                 const char *format, ...)
{
    if ((int)level > atomic_load_explicit(&max_level, memory_order_relaxed))
        return;
    int64_t now_ns = clock_monotonic_ns();
    if (now_ns < limit->next_ns) {
        limit->swallowed++;
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    write_line(level, format, arguments, limit->swallowed);
    va_end(arguments);
    limit->swallowed = 0;
    limit->next_ns = now_ns + interval_ns;
}
