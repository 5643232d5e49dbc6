/*
 * convolv-alarm DIRECTORY PROGRAM [ARGUMENT...]: hands the event files that convolvd leaves in
 * DIRECTORY (control/alarm_files.h) to PROGRAM, one after the other, oldest first, until none is
 * left. The service manager starts it (convolv-alarm@.service).
 *
 * A file is removed before PROGRAM runs, so no event is handled twice, whatever becomes of PROGRAM.
 * PROGRAM gets the event as data: the JSON on standard input and its values in the environment
 * (CONVOLVD_ALARM, …). No shell is involved. Whoever writes into DIRECTORY is not trusted: only
 * regular files that are no links and not larger than 64 KiB are read, and what cannot be removed
 * is left alone and keeps no event behind it from PROGRAM.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/descriptor.h"

enum { EVENT_BYTES = 1 << 16, VALUE_BYTES = 4096, TURNS_MAX = 1000, EXIT_USAGE = 2 };

extern char **environ;

/* The members of an event that go into the environment. */
static const struct {
    const char *member, *variable;
} variables[] = {
    {"alarm", "CONVOLVD_ALARM"},       {"state", "CONVOLVD_STATE"},
    {"stream", "CONVOLVD_STREAM"},     {"channels", "CONVOLVD_CHANNELS"},
    {"quantity", "CONVOLVD_QUANTITY"}, {"value", "CONVOLVD_VALUE"},
    {"limit", "CONVOLVD_LIMIT"},       {"unit", "CONVOLVD_UNIT"},
    {"text", "CONVOLVD_TEXT"},
};

/* ---- one event --------------------------------------------------------------------------- */

/* A string as it is, a number in decimal, a list of numbers with commas, anything else as "". */
static void value_text(const json_t *value, char text[VALUE_BYTES])
{
    text[0] = '\0';
    if (json_is_string(value))
        snprintf(text, VALUE_BYTES, "%s", json_string_value(value));
    else if (json_is_number(value))
        snprintf(text, VALUE_BYTES, "%.15g", json_number_value(value));
    size_t used = 0;
    for (size_t i = 0; i < json_array_size(value) && used + 32 < VALUE_BYTES; i++)
        used += (size_t)snprintf(text + used, VALUE_BYTES - used, "%s%.15g", i > 0 ? "," : "",
                                 json_number_value(json_array_get(value, i)));
}

static void set_environment(const json_t *event)
{
    char text[VALUE_BYTES];
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        value_text(json_object_get(event, variables[i].member), text);
        setenv(variables[i].variable, text, 1);
    }
    const time_t seconds =
        (time_t)(json_integer_value(json_object_get(event, "realtime_ns")) / 1000000000);
    struct tm utc;
    if (gmtime_r(&seconds, &utc) == NULL || strftime(text, sizeof text, "%FT%TZ", &utc) == 0)
        text[0] = '\0';
    setenv("CONVOLVD_TIME", text, 1);
}

/* A line of the journal about an entry; its name is whoever's, so control characters do not go
 * there. */
static void tell(const char *name, const char *what)
{
    fputs("convolv-alarm: ", stderr);
    for (const char *at = name; *at != '\0'; at++)
        fputc((unsigned char)*at < 0x20 || *at == 0x7f ? '?' : *at, stderr);
    fprintf(stderr, " %s\n", what);
}

/* Removes an entry, an empty folder too; false with errno: it stays. */
static bool remove_entry(int directory, const char *name)
{
    return unlinkat(directory, name, 0) == 0 ||
           (errno == EISDIR && unlinkat(directory, name, AT_REMOVEDIR) == 0);
}

enum taken { TAKEN_EVENT, TAKEN_OTHER, STAYS };

/* Reads and removes the file. */
static enum taken take_file(int directory, const char *name, char *bytes, ssize_t *size)
{
    struct stat status;
    ssize_t count = -1;
    int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_size < EVENT_BYTES)
        count = read(file, bytes, EVENT_BYTES);
    if (file >= 0)
        close(file);
    *size = count;
    if (!remove_entry(directory, name))
        return STAYS; /* it would be handled for ever */
    return count > 0 ? TAKEN_EVENT : TAKEN_OTHER;
}

/* A descriptor to read the bytes from. */
static int input_of(const char *bytes, size_t count)
{
    int input = memfd_create("event", MFD_CLOEXEC);
    if (input >= 0 && (write(input, bytes, count) != (ssize_t)count || lseek(input, 0, SEEK_SET))) {
        close(input);
        return -1;
    }
    return input;
}

/* Runs the program and waits for it; false: it could not be started, or failed. */
static bool run(char **program, int input)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status = 0;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    int error = posix_spawn(&pid, program[0], &actions, NULL, program, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
        fprintf(stderr, "convolv-alarm: %s cannot be started: %s\n", program[0], strerror(error));
        return false;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    fprintf(stderr, "convolv-alarm: %s failed (%s %d)\n", program[0],
            WIFEXITED(status) ? "exit status" : "signal",
            WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return false;
}

/* False: the program failed, or it was no event. *removed is set unless it stays; then it says so,
 * with `first`. */
static bool handle(int directory, const char *name, char **program, bool first, bool *removed)
{
    static char bytes[EVENT_BYTES];
    char why[128];
    ssize_t count;
    const enum taken taken = take_file(directory, name, bytes, &count);
    if (taken == STAYS) {
        snprintf(why, sizeof why, "cannot be removed: %s; it is left alone", strerror(errno));
        if (first)
            tell(name, why);
        return false;
    }
    json_t *event = taken == TAKEN_EVENT ? json_loadb(bytes, (size_t)count, 0, NULL) : NULL;
    bool good = false;
    *removed = true;
    if (!json_is_object(event)) {
        tell(name, "was no event of convolvd; it is removed");
    } else {
        const int input = input_of(bytes, (size_t)count);
        set_environment(event);
        good = input >= 0 && run(program, input);
        if (input >= 0)
            close(input);
    }
    json_decref(event);
    return good;
}

/* ---- all of them ------------------------------------------------------------------------- */

/* Hidden ones are still being written, and do not start the path unit. */
static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Handles what lies there now; *removed: whether anything was. False: not everything was an event
 * that its program has handled. */
static bool handle_all(const char *path, int directory, char **program, bool first, bool *removed)
{
    struct dirent **entries = NULL;
    const int count = scandir(path, &entries, is_shown, alphasort);
    bool good = true;
    *removed = false;
    for (int i = 0; i < count; i++) {
        good = handle(directory, entries[i]->d_name, program, first, removed) && good;
        free(entries[i]);
    }
    free(entries);
    return good;
}

static int usage(FILE *out, int status)
{
    fprintf(
        out,
        "usage: convolv-alarm DIRECTORY PROGRAM [ARGUMENT...]\n\n"
        "Runs PROGRAM for each event file that convolvd has left in DIRECTORY, oldest first.\n"
        "The event is its standard input, as JSON, and in its environment:\n"
        "CONVOLVD_ALARM, CONVOLVD_STATE (raised or ended), CONVOLVD_STREAM,\n"
        "CONVOLVD_CHANNELS (such as 1,3), CONVOLVD_QUANTITY, CONVOLVD_VALUE, CONVOLVD_LIMIT,\n"
        "CONVOLVD_UNIT, CONVOLVD_TEXT, CONVOLVD_TIME (UTC). Exit status 1: it failed for one.\n");
    return status;
}

int main(int argc, char **argv)
{
    descriptor_open_standard();
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return usage(stdout, EXIT_SUCCESS);
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("convolv-alarm %s\n", CONVOLVD_VERSION);
        return EXIT_SUCCESS;
    }
    if (argc < 3 || argv[1][0] == '-')
        return usage(stderr, EXIT_USAGE);
    const int directory = open(argv[1], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory < 0) {
        fprintf(stderr, "convolv-alarm: %s: %s\n", argv[1], strerror(errno));
        return EXIT_FAILURE;
    }
    bool good = true, removed = true;
    for (int turn = 0; removed && turn < TURNS_MAX; turn++)
        good = handle_all(argv[1], directory, argv + 2, turn == 0, &removed) && good;
    if (!good)
        sleep(1); /* what stays starts the path unit again at once, which gives up after too many */
    close(directory);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
