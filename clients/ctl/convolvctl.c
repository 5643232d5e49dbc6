/*
 * convolvctl: asks and steers a running convolvd from the command line. The words of the command
 * line become one request by the daemon's table of commands (words.c); the reply is printed for
 * people or, with --json, as it came. What needs no daemon (check, tune, explain, list-devices) is
 * the daemon's own code (local.c).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "clients/ctl/cluster.h"
#include "clients/ctl/hits.h"
#include "clients/ctl/local.h"
#include "clients/ctl/reload.h"
#include "clients/ctl/reply.h"
#include "clients/ctl/save.h"
#include "clients/ctl/snapshot.h"
#include "clients/ctl/view.h"
#include "clients/ctl/words.h"
#include "control/client.h"
#include "core/descriptor.h"

struct options {
    struct client_options client;
    bool json;
};

/* --json was given: a program reads what is printed, also of what failed. */
static bool json_wanted;

static void print_json(const json_t *object)
{
    json_dumpf(object, stdout, JSON_COMPACT);
    fputc('\n', stdout);
}

static int fail(const struct problem *problem)
{
    char *text = words_of_shell(problem->text);
    if (json_wanted) {
        json_t *reply =
            json_pack("{s:b, s:s}", "ok", 0, "error", text != NULL ? text : problem->text);
        if (reply != NULL)
            print_json(reply);
        json_decref(reply);
    }
    fflush(stdout);
    fputs("convolvctl: ", stderr);
    reply_text(text != NULL ? text : problem->text, stderr);
    fputc('\n', stderr);
    free(text);
    return EXIT_FAILURE;
}

static int usage(const char *word, const char *why)
{
    fprintf(stderr, "convolvctl: %s: %s; see convolvctl --help\n", word, why);
    return EXIT_FAILURE;
}

/* ---- without a daemon -------------------------------------------------------------------- */

static int run_local(enum command command, const struct options *options, int count,
                     char *const *words)
{
    if (count > 2)
        return usage(words[2], "one word too many");
    const struct arguments arguments = {.command = command,
                                        .config_path = count > 1 ? words[1] : NULL};
    return local_run(&arguments, options->json);
}

static int help(int count, char *const *words)
{
    int used;
    if (count < 2) {
        words_help(stdout);
        return EXIT_SUCCESS;
    }
    const struct command_row *row = words_row(count - 1, words + 1, &used);
    for (const struct own_word *own = own_words; row == NULL && own->name != NULL; own++) {
        if (strcmp(own->name, words[1]) != 0)
            continue;
        printf("convolvctl %s %s\n\n%s\n", own->name, own->arguments, own->sentence);
        return EXIT_SUCCESS;
    }
    if (row == NULL)
        return usage(words[1], "no such command");
    fputs("convolvctl ", stdout);
    words_synopsis(row, stdout);
    printf("\n\n%s\nFor example: %s\n", row->summary, row->shell);
    return EXIT_SUCCESS;
}

static int cluster(const struct options *options, int count, char *const *words)
{
    struct problem problem = {0};
    if (cluster_run(count, words, options->json, &problem) == 0)
        return EXIT_SUCCESS;
    return problem.text[0] != '\0' ? fail(&problem) : EXIT_FAILURE;
}

/* ---- with a daemon ----------------------------------------------------------------------- */

/* Events from `request` on; without `follow` those that are kept. */
static int show_events(struct client *client, json_t *request, bool follow, bool json)
{
    struct problem problem;
    json_t *reply, *line;
    if (!follow && json_object_get(request, "since") == NULL)
        json_object_set_new(request, "since", json_integer(0));
    if (client_ask(client, request, &reply, &problem) != 0)
        return fail(&problem);
    const json_int_t last = json_integer_value(json_object_get(reply, "next")) - 1;
    const json_int_t since = json_integer_value(json_object_get(request, "since"));
    json_decref(reply);
    for (json_int_t number = since; follow || number < last;) {
        line = client_next(client, follow ? -1 : 2000, &problem);
        if (line == NULL)
            return fail(&problem);
        if (json)
            print_json(line);
        else if (json_object_get(line, "analysis_event") != NULL)
            hits_print(line, stdout);
        else
            reply_print_event(line, stdout);
        const json_t *event = json_object_get(line, "event");
        number = event != NULL ? json_integer_value(json_object_get(event, "number")) : number;
        json_decref(line);
        if (fflush(stdout) != 0)
            return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

static int watch(const struct options *options, int count, char *const *words)
{
    struct problem problem;
    struct client *client;
    double seconds = 0;
    char *end = NULL;
    if (count == 3 && strcmp(words[1], "--seconds") == 0)
        seconds = strtod(words[2], &end);
    if (count != 1 && (count != 3 || end == words[2] || end == NULL || !(seconds > 0)))
        return usage("watch", "it takes nothing but --seconds S");
    if (client_open(&options->client, &client, &problem) != 0)
        return fail(&problem);
    const int error = view_run(client, seconds, options->json, &problem);
    client_close(client);
    return error == 0 ? EXIT_SUCCESS : fail(&problem);
}

static int snapshot(const struct options *options, int count, char *const *words)
{
    struct problem problem;
    struct snapshot_options snapshot_options;
    int error = snapshot_options_read(count, words, &snapshot_options, &problem);
    if (error == 0)
        error = snapshot_run(&options->client, &snapshot_options, options->json, &problem);
    return error == 0 ? EXIT_SUCCESS : fail(&problem);
}

static int print_names(const json_t *reply)
{
    size_t i;
    json_t *stream;
    json_array_foreach(json_object_get(reply, "streams"), i, stream)
        puts(reply_string(stream, "name"));
    return EXIT_SUCCESS;
}

static int reload(const struct options *options, int count, char *const *words)
{
    struct problem problem;
    struct reload_options reload_options;
    int error = reload_options_read(count, words, &reload_options, &problem);
    if (error == 0)
        error = reload_run(&options->client, &reload_options, options->json, &problem);
    return error == 0 ? EXIT_SUCCESS : error == RELOAD_PRINTED ? EXIT_FAILURE : fail(&problem);
}

/* Removes the word from the list; false: it is not there. */
static bool take_word(int *count, char **words, const char *word)
{
    for (int i = 1; i < *count; i++) {
        if (strcmp(words[i], word) != 0)
            continue;
        memmove(&words[i], &words[i + 1], (size_t)(*count - i - 1) * sizeof *words);
        --*count;
        return true;
    }
    return false;
}

static int ask(struct options *options, int count, char **words)
{
    struct problem problem;
    struct client *client;
    json_t *request, *reply;
    int used;
    const struct command_row *row = words_row(count, words, &used);
    if (row == NULL)
        return usage(words[0], "no such command");
    const bool events = row == &command_table[CONTROL_EVENTS];
    const bool hits = row == &command_table[CONTROL_HITS];
    const bool follow = (events || hits) &&
                        (take_word(&count, words, "-f") || take_word(&count, words, "--follow"));
    const bool names =
        row == &command_table[CONTROL_STREAMS] && take_word(&count, words, "--names");
    const bool write = row == &command_table[CONTROL_SAVE] && take_word(&count, words, "--write");
    if (words_request(count, words, &request, &problem) != 0)
        return fail(&problem);
    if (options->json && row == &command_table[CONTROL_STATUS])
        json_object_set_new(request, "format", json_string("json"));
    options->client.role = row->role;
    int error = client_open(&options->client, &client, &problem);
    if (error == 0 && events) {
        json_incref(request);
        const int status = show_events(client, request, follow, options->json);
        json_decref(request);
        client_close(client);
        return status;
    }
    if (error == 0 && hits) {
        error = hits_show(client, request, follow, options->json, &problem);
        client_close(client);
        return error == 0 ? EXIT_SUCCESS : fail(&problem);
    }
    if (error != 0) {
        json_decref(request);
        return fail(&problem);
    }
    error = client_ask(client, request, &reply, &problem);
    client_close(client);
    if (error != 0)
        return fail(&problem);
    if (write)
        error = save_write(reply, options->json, &problem);
    else if (names)
        print_names(reply);
    else if (options->json)
        print_json(reply);
    else if (row == &command_table[CONTROL_TRANSIENT])
        hits_print_transient(reply, stdout);
    else
        reply_print(row, reply, stdout);
    json_decref(reply);
    return error == 0 ? EXIT_SUCCESS : fail(&problem);
}

/* ---- entry ------------------------------------------------------------------------------- */

static int run(struct options *options, int count, char **words)
{
    static const struct {
        const char *word;
        enum command command;
    } local[] = {{"check", COMMAND_CHECK},
                 {"tune", COMMAND_TUNE},
                 {"explain", COMMAND_EXPLAIN},
                 {"list-devices", COMMAND_LIST_DEVICES}};
    if (count == 0) {
        words_help(stderr);
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        if (strcmp(words[0], local[i].word) == 0)
            return run_local(local[i].command, options, count, words);
    if (strcmp(words[0], "help") == 0)
        return help(count, words);
    if (strcmp(words[0], "cluster") == 0 && (count < 2 || strcmp(words[1], "hand-over") != 0))
        return cluster(options, count, words);
    if (strcmp(words[0], "watch") == 0)
        return watch(options, count, words);
    if (strcmp(words[0], "snapshot") == 0)
        return snapshot(options, count, words);
    if (strcmp(words[0], "reload") == 0)
        return reload(options, count, words);
    return ask(options, count, words);
}

static int print_own(const char *option)
{
    static const struct {
        const char *option;
        void (*print)(FILE *out);
    } table[] = {{"--help", words_help},
                 {"-h", words_help},
                 {"--completion", words_completion},
                 {"--man", words_manual}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(option, table[i].option) == 0) {
            table[i].print(stdout);
            return EXIT_SUCCESS;
        }
    }
    if (strcmp(option, "--version") != 0)
        return usage(option, "no such option");
    puts("convolvctl " CONVOLVD_VERSION);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct options options = {.client = {.role = ROLE_OBSERVE}};
    int status, at = 1;
    if (cli_helper(argc, argv, &status))
        return status;
    for (; at < argc && argv[at][0] == '-'; at++) {
        const bool value = at + 1 < argc;
        if (strcmp(argv[at], "--json") == 0)
            options.json = true;
        else if (strcmp(argv[at], "--socket") == 0 && value)
            options.client.socket = argv[++at];
        else if (strcmp(argv[at], "--instance") == 0 && value)
            options.client.instance = argv[++at];
        else
            return print_own(argv[at]);
    }
    int count = argc - at;
    while (take_word(&count, argv + at, "--json"))
        options.json = true;
    json_wanted = options.json;
    status = run(&options, count, argv + at);
    const bool unread = descriptor_was_closed(STDOUT_FILENO); /* what it says is lost */
    return fflush(stdout) != 0 || ferror(stdout) || unread ? EXIT_FAILURE : status;
}
