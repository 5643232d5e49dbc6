/* Reload: see reload.h. */
#include "clients/ctl/reload.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/ctl/reply.h"

int reload_options_read(int count, char *const *words, struct reload_options *options,
                        struct problem *problem)
{
    *options = (struct reload_options){0};
    if (count == 1)
        return 0;
    char *end = NULL;
    const long pid = count == 3 && strcmp(words[1], "--or-signal") == 0 && words[2][0] >= '1' &&
                             words[2][0] <= '9'
                         ? strtol(words[2], &end, 10)
                         : 0;
    if (pid <= 1 || *end != '\0' || pid != (pid_t)pid)
        return problem_set(problem, ERROR_ARGUMENT,
                           "reload takes no words but --or-signal PID, the daemon's process");
    options->pid = (pid_t)pid;
    return 0;
}

/* Prints the lines of `convolvd --check`, and returns how many are errors. */
static unsigned print_problems(const json_t *reply, FILE *out)
{
    unsigned errors = 0;
    size_t i;
    json_t *problem;
    json_array_foreach(json_object_get(reply, "problems"), i, problem)
    {
        const json_t *line = json_object_get(problem, "line");
        reply_text(reply_string(problem, "file"), out);
        if (json_is_integer(line))
            fprintf(out, ":%lld", (long long)json_integer_value(line));
        fprintf(out, ": %s: ", reply_string(problem, "severity"));
        reply_text(reply_string(problem, "text"), out);
        fputc('\n', out);
        errors += strcmp(reply_string(problem, "severity"), "error") == 0;
    }
    return errors;
}

static void print_json(const json_t *reply)
{
    json_dumpf(reply, stdout, JSON_COMPACT);
    fputc('\n', stdout);
}

/* Instead of the control socket, whose failure `problem` has. */
static int send_signal(pid_t pid, struct problem *problem)
{
    char why[sizeof problem->text];
    snprintf(why, sizeof why, "%s", problem->text);
    if (kill(pid, SIGHUP) != 0)
        return problem_set(problem, ERROR_SYSTEM, "%s; and SIGHUP to process %d: %s", why, (int)pid,
                           strerror(errno));
    fprintf(stderr,
            "convolvctl: %s; process %d got SIGHUP instead, and its log says whether the "
            "configuration was taken over\n",
            why, (int)pid);
    return 0;
}

/* Whether the daemon answers here, but to observers alone. */
static bool is_role_refusal(const json_t *reply)
{
    return strcmp(reply_string(reply, "code"), "role") == 0;
}

int reload_run(const struct client_options *client_options, const struct reload_options *options,
               bool json, struct problem *problem)
{
    struct client_options wanted = *client_options;
    struct client *client;
    json_t *reply;
    wanted.role = ROLE_CONTROL;
    int error = client_open(&wanted, &client, problem);
    if (error != 0)
        return options->pid != 0 ? send_signal(options->pid, problem) : error;
    error = client_ask_long(client, json_pack("{s:s}", "command", "reload"), &reply, problem);
    client_close(client);
    if (error != 0 && reply != NULL && options->pid != 0 && is_role_refusal(reply)) {
        error = send_signal(options->pid, problem);
    } else if (reply != NULL && json) {
        print_json(reply);
        error = error != 0 ? RELOAD_PRINTED : 0;
    } else if (error != 0) {
        const unsigned errors = print_problems(reply, stderr);
        if (errors > 0)
            problem_set(problem, ERROR_CONFIG,
                        "the configuration has %u error%s; the one in use stays", errors,
                        errors == 1 ? "" : "s");
    } else {
        reply_print(&command_table[CONTROL_RELOAD], reply, stdout);
    }
    json_decref(reply);
    return error;
}
