/* Log: see log.h. */
#include "core/log.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define SD_JOURNAL_SUPPRESS_LOCATION /* users need no position in the source */
#include <systemd/sd-journal.h>

#include "core/clock.h"
#include "core/line_ring.h"

static _Atomic int max_level = LOG_LEVEL_INFO;

static char identifier[64] = "SYSLOG_IDENTIFIER=convolvd";
static const char *const name = identifier + sizeof "SYSLOG_IDENTIFIER" /* the = as well */;

void log_set_name(const char *text)
{
    snprintf(identifier, sizeof identifier, "SYSLOG_IDENTIFIER=%s", text);
}

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
    char message[LINE_TEXT_BYTES + 76], priority[16], values[SUBJECTS][FIELD_BYTES];
    struct iovec fields[3 + SUBJECTS];
    fields[0] =
        (struct iovec){message, (size_t)snprintf(message, sizeof message, "MESSAGE=%s", text)};
    fields[1] = (struct iovec){
        priority, (size_t)snprintf(priority, sizeof priority, "PRIORITY=%d", (int)level)};
    fields[2] = (struct iovec){identifier, strlen(identifier)};
    for (int i = 0; i < count; i++) {
        int length = snprintf(values[i], FIELD_BYTES, "%s=%.*s", subjects[i].name,
                              (int)subjects[i].length, subjects[i].value);
        fields[3 + i] =
            (struct iovec){values[i], (size_t)(length < FIELD_BYTES ? length : FIELD_BYTES - 1)};
    }
    return sd_journal_sendv(fields, 3 + count) == 0;
}

/* Writes all of it, waiting for as long as the reader of the log takes. False when it fails. */
static bool write_whole(const char *line, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t written = write(STDERR_FILENO, line + done, bytes - done);
        if (written >= 0) {
            done += (size_t)written;
            continue;
        }
        struct pollfd writable = {.fd = STDERR_FILENO, .events = POLLOUT};
        if (errno != EINTR && (errno != EAGAIN || poll(&writable, 1, -1) < 0))
            return false;
    }
    return true;
}

static _Atomic uint64_t unwritten; /* lines: the disk is full, or stderr is closed */

/* ---- progress ---------------------------------------------------------------------------- */

enum { PROGRESS = LOG_LEVEL_DEBUG + 1 }; /* of a line in the ring, beside enum log_level */

#define CLEAR_LINE "\r\033[K" /* of a terminal */

static bool progress_shown; /* whoever writes the lines */

/* Replaces the progress; an empty text removes it. */
static void write_progress(const char *text)
{
    char line[LINE_TEXT_BYTES + sizeof CLEAR_LINE];
    if (!progress_shown && text[0] == '\0')
        return;
    const int used = snprintf(line, sizeof line, CLEAR_LINE "%s", text);
    (void)write_whole(line, (size_t)used < sizeof line ? (size_t)used : sizeof line - 1);
    progress_shown = text[0] != '\0';
}

static void write_text(int level, const char *text)
{
    char line[LINE_TEXT_BYTES + 76];
    if (level == PROGRESS) {
        write_progress(text);
        return;
    }
    write_progress("");
    bool journal = stderr_is_journal();
    if (journal && write_journal((enum log_level)level, text))
        return;
    int used = journal ? snprintf(line, sizeof line - 1, "<%d>%s", level, text)
                       : snprintf(line, sizeof line - 1, "%s: %s%s", name,
                                  level_word((enum log_level)level), text);
    line[used++] = '\n';
    const uint64_t before = atomic_exchange(&unwritten, 0);
    char report[120];
    int length =
        snprintf(report, sizeof report,
                 "%s: warning: %" PRIu64 " lines of the log could not be written\n", name, before);
    if ((before > 0 && !write_whole(report, (size_t)length)) || !write_whole(line, (size_t)used))
        atomic_fetch_add(&unwritten, before + 1);
}

/* ---- the writing thread ------------------------------------------------------------------ */

enum mode {
    MODE_DIRECT,    /* callers write */
    MODE_THREAD,    /* callers fill the ring */
    MODE_ABANDONED, /* the thread hangs in a write: lines are dropped */
};

static struct {
    _Atomic int mode;
    _Atomic bool stopping;
    pthread_t thread;
    sem_t filled;  /* posted for each line; posts that find the thread awake only wake it again */
    sem_t stopped; /* the thread has written everything and ends */
    struct line_ring ring;
} writer;

static void write_refused(void)
{
    uint64_t refused = line_ring_take_refused(&writer.ring);
    if (refused == 0)
        return;
    char text[160];
    snprintf(text, sizeof text,
             "%" PRIu64 " lines of the log were dropped: whoever reads it is too slow", refused);
    write_text(LOG_LEVEL_WARNING, text);
}

static void write_ring(void)
{
    const struct line *line;
    for (uint32_t written = 1; (line = line_ring_front(&writer.ring)) != NULL; written++) {
        write_text(line->level, line->text);
        line_ring_release(&writer.ring);
        if (written % LINE_RING_SLOTS == 0) /* one that never empties reports too */
            write_refused();
    }
    write_refused();
}

static void *run_writer(void *unused)
{
    pthread_setname_np(pthread_self(), "log");
    while (!atomic_load_explicit(&writer.stopping, memory_order_acquire)) {
        sem_wait(&writer.filled);
        write_ring();
    }
    write_ring();
    sem_post(&writer.stopped);
    return unused;
}

void log_start(void)
{
    if (atomic_load(&writer.mode) != MODE_DIRECT)
        return;
    line_ring_reset(&writer.ring);
    atomic_store(&writer.stopping, false);
    sem_init(&writer.filled, 0, 0);
    sem_init(&writer.stopped, 0, 0);
    sigset_t all, before; /* signals belong to other threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&writer.thread, NULL, run_writer, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed == 0)
        atomic_store_explicit(&writer.mode, MODE_THREAD, memory_order_release);
}

bool log_stop(int64_t timeout_ns)
{
    if (atomic_load(&writer.mode) != MODE_THREAD)
        return atomic_load(&writer.mode) == MODE_DIRECT;
    atomic_store_explicit(&writer.stopping, true, memory_order_release);
    sem_post(&writer.filled);
    int64_t deadline_ns = clock_monotonic_ns() + timeout_ns;
    const struct timespec deadline = {deadline_ns / NS_PER_SECOND, deadline_ns % NS_PER_SECOND};
    int failed;
    do
        failed = sem_clockwait(&writer.stopped, CLOCK_MONOTONIC, &deadline);
    while (failed != 0 && errno == EINTR);
    if (failed != 0) {
        atomic_store(&writer.mode, MODE_ABANDONED);
        pthread_detach(writer.thread);
        return false;
    }
    pthread_join(writer.thread, NULL);
    atomic_store(&writer.mode, MODE_DIRECT);
    write_ring(); /* what others have put in since the thread's last round */
    return true;
}

__attribute__((format(printf, 2, 0))) static void
format_text(char text[LINE_TEXT_BYTES], const char *format, va_list arguments, uint64_t suppressed)
{
    vsnprintf(text, LINE_TEXT_BYTES - 64, format, arguments);
    if (suppressed > 0) {
        size_t used = strlen(text);
        snprintf(text + used, LINE_TEXT_BYTES - used, " (and %llu more like it)",
                 (unsigned long long)suppressed);
    }
}

__attribute__((format(printf, 2, 0))) static void put_line(int level, const char *format,
                                                           va_list arguments, uint64_t suppressed)
{
    int mode = atomic_load_explicit(&writer.mode, memory_order_acquire);
    if (mode == MODE_DIRECT) {
        char text[LINE_TEXT_BYTES];
        format_text(text, format, arguments, suppressed);
        write_text(level, text);
    } else if (mode == MODE_THREAD) {
        struct line *line = line_ring_claim(&writer.ring);
        if (line == NULL)
            return;
        line->level = level;
        format_text(line->text, format, arguments, suppressed);
        line_ring_publish(line);
        sem_post(&writer.filled);
    }
}

void log_line(enum log_level level, const char *format, ...)
{
    if ((int)level > atomic_load_explicit(&max_level, memory_order_relaxed))
        return;
    va_list arguments;
    va_start(arguments, format);
    put_line(level, format, arguments, 0);
    va_end(arguments);
}

void log_progress(const char *format, ...)
{
    if (LOG_LEVEL_INFO > atomic_load_explicit(&max_level, memory_order_relaxed))
        return;
    va_list arguments;
    va_start(arguments, format);
    put_line(PROGRESS, format, arguments, 0);
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
    put_line(level, format, arguments, limit->suppressed);
    va_end(arguments);
    limit->suppressed = 0;
    limit->next_ns = now_ns + interval_ns;
}
