/* Log: see log.h. */
#include "core/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define SD_JOURNAL_SUPPRESS_LOCATION /* users need no position in the source */
#include <systemd/sd-journal.h>

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

/* ---- the journal ------------------------------------------------------------------------- */

/* Whether stderr is the journal's stream. $JOURNAL_STREAM names its device and inode
 * (systemd.exec(5)); compare both, for a child with another stderr inherits the variable. */
static bool stderr_is_journal(void)
{
    static _Atomic int known; /* 0: not yet asked */
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer != 0)
        return answer > 0;
    const char *text = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat status;
    bool is = text != NULL && sscanf(text, "%llu:%llu", &device, &inode) == 2 &&
              fstat(STDERR_FILENO, &status) == 0 && status.st_dev == device &&
              status.st_ino == inode;
    atomic_store_explicit(&known, is ? 1 : -1, memory_order_relaxed);
    return is;
}

int log_fields(const char *text, struct log_field *fields, int capacity)
{
    static const struct {
        const char *subject, *name;
    } table[] = {
        {"stream ", "STREAM"}, {"channel ", "CHANNEL"}, {"sink ", "SINK"}, {"filter ", "FILTER"}};
    int count = 0;
    while (count < capacity) {
        size_t row = 0;
        while (row < sizeof table / sizeof *table &&
               strncmp(text, table[row].subject, strlen(table[row].subject)) != 0)
            row++;
        if (row == sizeof table / sizeof *table)
            break;
        const char *value = text + strlen(table[row].subject);
        size_t length = strcspn(value, ": ");
        if (length == 0 || value[length] != ':')
            break;
        fields[count++] = (struct log_field){table[row].name, value, length};
        text = value + length + 1;
        text += *text == ' ';
    }
    return count;
}

static bool write_journal(enum log_level level, const char *text)
{
    enum { SUBJECTS = 4, FIELD_BYTES = 128 };
    struct log_field subjects[SUBJECTS];
    int count = log_fields(text, subjects, SUBJECTS);
    char message[1100], priority[16], values[SUBJECTS][FIELD_BYTES];
    struct iovec fields[3 + SUBJECTS];
    fields[0] =
        (struct iovec){message, (size_t)snprintf(message, sizeof message, "MESSAGE=%s", text)};
    fields[1] = (struct iovec){
        priority, (size_t)snprintf(priority, sizeof priority, "PRIORITY=%d", (int)level)};
    static char identifier[] = "SYSLOG_IDENTIFIER=convolvd";
    fields[2] = (struct iovec){identifier, sizeof identifier - 1};
    for (int i = 0; i < count; i++) {
        int length = snprintf(values[i], FIELD_BYTES, "%s=%.*s", subjects[i].name,
                              (int)subjects[i].length, subjects[i].value);
        fields[3 + i] =
            (struct iovec){values[i], (size_t)(length < FIELD_BYTES ? length : FIELD_BYTES - 1)};
    }
    return sd_journal_sendv(fields, 3 + count) == 0;
}

__attribute__((format(printf, 2, 0))) static void
write_line(enum log_level level, const char *format, va_list arguments, uint64_t suppressed)
{
    char text[1024], line[1100];
    vsnprintf(text, sizeof text - 64, format, arguments);
    if (suppressed > 0) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, " (and %llu more like it)",
                 (unsigned long long)suppressed);
    }
    bool journal = stderr_is_journal();
    if (journal && write_journal(level, text))
        return;
    int used = journal ? snprintf(line, sizeof line - 1, "<%d>%s", (int)level, text)
                       : snprintf(line, sizeof line - 1, "convolvd: %s%s", level_word(level), text);
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
        limit->suppressed++;
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    write_line(level, format, arguments, limit->suppressed);
    va_end(arguments);
    limit->suppressed = 0;
    limit->next_ns = now_ns + interval_ns;
}
