/*
 * Log: what a line is about becomes fields of the journal, and nothing else does; its thread writes
 * what others log, and nobody waits for whoever reads it.
 *
 * threads: yes
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/line_ring.h"
#include "core/log.h"
#include "core/text_writer.h"

static void fields_of_a_line(void **state)
{
    (void)state;
    static const struct {
        const char *given, *expect;
    } table[] = {
        {"running: 2 streams", ""},
        {"stream ae: 5 frames lost", "STREAM=ae "},
        {"stream ae: channel 3: overload", "STREAM=ae CHANNEL=3 "},
        {"sink live: socket full", "SINK=live "},
        {"filter band: 3 taps", "FILTER=band "},
        {"stream a: sink b: channel 1: x", "STREAM=a SINK=b CHANNEL=1 "},
        {"stream a: text: channel 1: x", "STREAM=a "},
        /* Not a subject: no colon right after the name, no name, a word that only begins so. */
        {"stream ae lost 5: frames", ""},
        {"stream : x", ""},
        {"streams ae: x", ""},
        {"stream ae", ""},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct log_field fields[4];
        char got[200] = "";
        int count = log_fields(table[i].given, fields, 4);
        for (int f = 0; f < count; f++) {
            size_t used = strlen(got);
            snprintf(got + used, sizeof got - used, "%s=%.*s ", fields[f].name,
                     (int)fields[f].length, fields[f].value);
        }
        assert_string_equal(got, table[i].expect);
    }
    struct log_field one[1];
    assert_int_equal(log_fields("stream a: channel 2: x", one, 1), 1);
}

/* ---- a reader that does not read --------------------------------------------------------- */

enum { THREADS = 4, LINES = 600, PIPE_BYTES = 4096 };

/* A descriptor replaced by a pipe of one page. */
struct captured {
    int fd, saved, reader;
};

static struct captured capture(int fd, bool full)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES) >= PIPE_BYTES);
    struct captured captured = {fd, dup(fd), ends[0]};
    static const char page[PIPE_BYTES];
    if (full)
        assert_int_equal(write(ends[1], page, PIPE_BYTES), PIPE_BYTES);
    assert_int_equal(dup2(ends[1], fd), fd);
    close(ends[1]);
    return captured;
}

static void release(struct captured *captured)
{
    assert_int_equal(dup2(captured->saved, captured->fd), captured->fd);
    close(captured->saved);
    close(captured->reader);
}

static void *log_many(void *context)
{
    const int *thread = context;
    for (int i = 0; i < LINES; i++)
        log_info("thread %d line %d.", *thread, i);
    return NULL;
}

/* Reads and counts lines until one holds `last`: each thread's in order, each whole. */
struct counted {
    int lines[THREADS];
    uint64_t refused;
};

static void count_line(struct counted *counted, int newest[THREADS], char *text)
{
    int thread, line, end = 0;
    unsigned long long refused;
    if (sscanf(text, "convolvd: thread %d line %d.%n", &thread, &line, &end) == 2) {
        assert_int_equal(end, (int)strlen(text));
        assert_in_range(thread, 0, THREADS - 1);
        assert_true(line > newest[thread]);
        newest[thread] = line;
        counted->lines[thread]++;
    } else if (sscanf(text, "convolvd: warning: %llu lines of the log were dropped", &refused) == 1)
        counted->refused += refused;
    else
        fail_msg("a line that nobody logged: %s", text);
}

static struct counted read_lines(int reader, uint64_t wanted)
{
    struct counted counted = {0};
    int newest[THREADS] = {-1, -1, -1, -1};
    FILE *file = fdopen(dup(reader), "r");
    assert_non_null(file);
    char text[256];
    for (uint64_t seen = 0; seen < wanted;) {
        assert_non_null(fgets(text, sizeof text, file));
        text[strcspn(text, "\n")] = 0;
        count_line(&counted, newest, text);
        seen = counted.refused;
        for (int i = 0; i < THREADS; i++)
            seen += (uint64_t)counted.lines[i];
    }
    fclose(file);
    return counted;
}

static void log_from_threads(int numbers[THREADS])
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, log_many, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* Four threads log far more than pipe and ring hold while nobody reads: all return. Whoever reads
 * later finds the oldest lines whole and in order, and how many the rest were, exactly. */
static void nobody_waits_for_the_reader(void **state)
{
    (void)state;
    int numbers[THREADS];
    struct captured captured = capture(STDERR_FILENO, false);
    log_start();
    log_from_threads(numbers);
    struct counted counted = read_lines(captured.reader, (uint64_t)THREADS * LINES);
    assert_true(log_stop(10 * NS_PER_SECOND));
    release(&captured);
    uint64_t written = 0;
    for (int i = 0; i < THREADS; i++)
        written += (uint64_t)counted.lines[i];
    assert_true(written >= LINE_RING_SLOTS);
    assert_true(counted.refused > 0);
}

/* A stop waits for what the ring holds; after it each caller writes its own line again. */
static void a_stop_writes_the_rest(void **state)
{
    (void)state;
    struct captured captured = capture(STDERR_FILENO, false);
    log_start();
    for (int i = 0; i < 20; i++)
        log_info("thread 0 line %d.", i);
    assert_true(log_stop(10 * NS_PER_SECOND));
    log_info("thread 0 line 20.");
    assert_int_equal(read_lines(captured.reader, 21).lines[0], 21);
    release(&captured);
}

/* The same for the table on standard output; the third text finds the queue full. */
static void a_text_waits_in_its_thread(void **state)
{
    (void)state;
    struct captured captured = capture(STDOUT_FILENO, true);
    struct text_writer *writer;
    assert_int_equal(text_writer_open(&writer), 0);
    int taken = 0;
    for (int i = 0; i < 8; i++)
        taken += text_writer_put(writer, NULL, strdup("text\n"), 5);
    assert_in_range(taken, 2, 3);
    static char page[PIPE_BYTES];
    for (int got = 0; got < PIPE_BYTES;)
        got += (int)read(captured.reader, page, (size_t)(PIPE_BYTES - got));
    assert_true(text_writer_close(writer, 10 * NS_PER_SECOND));
    assert_int_equal(read(captured.reader, page, PIPE_BYTES), 5 * taken);
    release(&captured);
}

/* Last, as the thread keeps hanging: a stop with a full pipe ends at its deadline, later lines are
 * dropped, nothing blocks. */
static void a_stop_has_a_deadline(void **state)
{
    (void)state;
    struct captured captured = capture(STDERR_FILENO, true);
    log_start();
    log_info("never written");
    int64_t started_ns = clock_monotonic_ns();
    assert_false(log_stop(NS_PER_SECOND / 10));
    log_info("dropped");
    assert_true(clock_monotonic_ns() - started_ns < 5 * NS_PER_SECOND);
    release(&captured);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_of_a_line),       cmocka_unit_test(nobody_waits_for_the_reader),
        cmocka_unit_test(a_stop_writes_the_rest), cmocka_unit_test(a_text_waits_in_its_thread),
        cmocka_unit_test(a_stop_has_a_deadline),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
