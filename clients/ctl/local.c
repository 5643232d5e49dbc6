/* Local: see local.h. */
#include "clients/ctl/local.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/commands.h"

static const char *const severities[] = {"error", "warning", "notice"};

/* "FILE:LINE: error: text", "FILE: error: text" or "convolvd: error: text"; without a severity the
 * line is a note. */
static json_t *problem_of(char *line)
{
    for (size_t i = 0; i < sizeof severities / sizeof *severities; i++) {
        char mark[16];
        snprintf(mark, sizeof mark, ": %s: ", severities[i]);
        char *at = strstr(line, mark);
        if (at == NULL)
            continue;
        *at = '\0';
        char *colon = strrchr(line, ':'), *end = NULL;
        const long number = colon != NULL ? strtol(colon + 1, &end, 10) : 0;
        const bool placed = number > 0 && *end == '\0';
        if (placed)
            *colon = '\0';
        const bool own = !placed && strcmp(line, "convolvd") == 0;
        return json_pack("{s:s?, s:o, s:s, s:s}", "file", own ? NULL : line, "line",
                         placed ? json_integer(number) : json_null(), "severity", severities[i],
                         "text", at + strlen(mark));
    }
    return json_pack("{s:n, s:n, s:s, s:s}", "file", "line", "severity", "note", "text", line);
}

static json_t *problems_of(char *text)
{
    json_t *list = json_array();
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;)
        if (*line != '\0')
            json_array_append_new(list, problem_of(line));
    return list;
}

/* The whole file as a text; the caller's. NULL: no memory. */
static char *read_back(FILE *file)
{
    const long bytes = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    char *text = bytes >= 0 ? malloc((size_t)bytes + 1) : NULL;
    rewind(file);
    if (text != NULL)
        text[fread(text, 1, (size_t)bytes, file)] = '\0';
    return text;
}

/* Runs the command in a child whose output goes into the files. -1: it could not, or was killed. */
static int run_into(const struct arguments *arguments, FILE *report, FILE *problems)
{
    int status;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        if (dup2(fileno(report), STDOUT_FILENO) < 0 || dup2(fileno(problems), STDERR_FILENO) < 0)
            _exit(EXIT_FAILURE);
        exit(command_run(arguments));
    }
    while (child > 0 && waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int complain(void)
{
    fprintf(stderr, "convolvctl: the answer cannot be had: %s\n", strerror(errno));
    return EXIT_FAILURE;
}

/* Runs the command and prints what it wrote as one object. Returns its exit status. */
static int run_as_json(const struct arguments *arguments, FILE *report, FILE *problems)
{
    int status = run_into(arguments, report, problems);
    char *seen = status >= 0 ? read_back(report) : NULL;
    char *wrong = status >= 0 ? read_back(problems) : NULL;
    json_t *object = seen != NULL && wrong != NULL
                         ? json_pack("{s:b, s:o, s:s}", "ok", status == 0, "problems",
                                     problems_of(wrong), "report", seen)
                         : NULL;
    if (object != NULL) {
        json_dumpf(object, stdout, JSON_COMPACT);
        fputc('\n', stdout);
    } else {
        status = complain();
    }
    json_decref(object);
    free(seen);
    free(wrong);
    return status;
}

int local_run(const struct arguments *arguments, bool json)
{
    if (!json)
        return command_run(arguments);
    FILE *report = tmpfile(), *problems = tmpfile();
    const int status =
        report != NULL && problems != NULL ? run_as_json(arguments, report, problems) : complain();
    if (report != NULL)
        fclose(report);
    if (problems != NULL)
        fclose(problems);
    return status;
}
