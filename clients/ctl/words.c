/* Words of the command line: see words.h. */
#include "clients/ctl/words.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- the command ------------------------------------------------------------------------- */

/* Whether convolvctl has a word for it. */
static bool is_word(const struct command_row *row)
{
    return row->name != NULL && row->shell != NULL;
}

const struct command_row *words_row(int count, char *const *words, int *used)
{
    char joined[64];
    *used = 1;
    int row = command_find(words[0]);
    if (row < 0 && count > 1) {
        snprintf(joined, sizeof joined, "%s-%s", words[0], words[1]);
        row = command_find(joined);
        *used = 2;
    }
    return row >= 0 && is_word(&command_table[row]) ? &command_table[row] : NULL;
}

/* A unit that ends the name of an argument is not part of its option. */
static const char *option_of(const struct command_argument *argument, char text[32])
{
    static const char *const units[] = {"_ms", "_db", "_hz"};
    snprintf(text, 32, "%s", argument->name);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        const size_t length = strlen(text), unit = strlen(units[i]);
        if (length > unit && strcmp(text + length - unit, units[i]) == 0)
            text[length - unit] = '\0';
    }
    for (char *at = text; *at != '\0'; at++)
        *at = *at == '_' ? '-' : *at;
    return text;
}

/* ---- sentences --------------------------------------------------------------------------- */

/* The row whose example the text begins with; NULL: there is none. */
static const struct command_row *example_at(const char *text)
{
    for (int i = 0; i < CONTROL_WORDS; i++) {
        const struct command_row *row = &command_table[i];
        if (is_word(row) && strncmp(text, row->example, strlen(row->example)) == 0)
            return row;
    }
    return NULL;
}

char *words_of_shell(const char *sentence)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL)
        return NULL;
    while (*sentence != '\0') {
        const struct command_row *row = example_at(sentence);
        if (row != NULL)
            fprintf(out, "`%s`", row->shell);
        else
            fputc(*sentence, out);
        sentence += row != NULL ? strlen(row->example) : 1;
    }
    fclose(out);
    return text;
}

/* ---- values ------------------------------------------------------------------------------ */

static json_t *flag_value(const char *word, struct problem *problem)
{
    static const char *const yes[] = {"on", "yes", "true", "1"}, *const no[] = {"off", "no",
                                                                                "false", "0"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        if (strcmp(word, yes[i]) == 0)
            return json_true();
        if (strcmp(word, no[i]) == 0)
            return json_false();
    }
    problem_set(problem, ERROR_ARGUMENT, "%s: write on or off", word);
    return NULL;
}

/* One word for each request: "gain vessel -6". */
static json_t *request_of_line(const char *line, struct problem *problem)
{
    enum { WORDS = 16 };
    char *copy = strdup(line), *words[WORDS], *rest = copy;
    int count = 0;
    json_t *request = NULL;
    for (char *word; copy != NULL && count < WORDS && (word = strtok_r(rest, " ", &rest)) != NULL;)
        words[count++] = word;
    if (count == 0)
        problem_set(problem, ERROR_ARGUMENT, "\"%s\" is no command", line);
    else
        words_request(count, words, &request, problem);
    free(copy);
    return request;
}

/* NULL: *problem says why. */
static json_t *value_of(const struct command_argument *argument, const char *word,
                        struct problem *problem)
{
    json_t *value;
    switch (argument->type) {
    case ARGUMENT_NUMBER:
    case ARGUMENT_INTEGER:
        return command_number(argument, word, problem);
    case ARGUMENT_FLAG:
        return flag_value(word, problem);
    default:
        value = json_string(word);
        if (value == NULL)
            problem_set(problem, ERROR_ARGUMENT, "%s is no UTF-8", argument->name);
        return value;
    }
}

/* ---- the request ------------------------------------------------------------------------- */

static const struct command_argument *find_option(const struct command_row *row, const char *name)
{
    char text[32];
    for (int i = 0; i < COMMAND_ARGUMENTS && row->arguments[i].type != ARGUMENT_NONE; i++)
        if (strcmp(option_of(&row->arguments[i], text), name) == 0)
            return &row->arguments[i];
    return NULL;
}

static const struct command_argument *next_positional(const struct command_row *row, int number)
{
    for (int i = 0; i < COMMAND_ARGUMENTS && row->arguments[i].type != ARGUMENT_NONE; i++)
        if (row->arguments[i].positional && number-- == 0)
            return &row->arguments[i];
    return NULL;
}

/* "-6" is a number, not an option. */
static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] == '-' && word[2] != '\0';
}

static int put(json_t *request, const struct command_argument *argument, const char *word,
               struct problem *problem)
{
    json_t *value = argument->type == ARGUMENT_COMMANDS ? request_of_line(word, problem)
                                                        : value_of(argument, word, problem);
    if (value == NULL)
        return problem->error;
    json_t *list = json_object_get(request, argument->name);
    if (argument->type != ARGUMENT_COMMANDS)
        return json_object_set_new(request, argument->name, value) == 0 ? 0 : ERROR_MEMORY;
    if (list == NULL) {
        list = json_array();
        json_object_set_new(request, argument->name, list);
    }
    return json_array_append_new(list, value) == 0 ? 0 : ERROR_MEMORY;
}

static int fill(json_t *request, const struct command_row *row, int count, char *const *words,
                struct problem *problem)
{
    int position = 0;
    for (int i = 0; i < count; i++) {
        const struct command_argument *argument;
        const char *word = words[i];
        if (is_option(word)) {
            argument = find_option(row, word + 2);
            if (argument == NULL)
                return problem_set(problem, ERROR_ARGUMENT,
                                   "%s: `%s` has no such option; see "
                                   "convolvctl --help",
                                   word, row->name);
            if (++i == count)
                return problem_set(problem, ERROR_ARGUMENT, "%s: its value is missing", word);
            word = words[i];
        } else {
            argument = next_positional(row, position);
            if (argument == NULL)
                return problem_set(problem, ERROR_ARGUMENT,
                                   "%s: one word too many for `%s`; see "
                                   "convolvctl --help",
                                   word, row->name);
            position += argument->type != ARGUMENT_COMMANDS;
        }
        const int error = put(request, argument, word, problem);
        if (error != 0)
            return error;
    }
    return command_check(row, request, problem);
}

int words_request(int count, char *const *words, json_t **request, struct problem *problem)
{
    int used;
    const struct command_row *row = words_row(count, words, &used);
    *request = NULL;
    if (row == NULL)
        return problem_set(problem, ERROR_ARGUMENT, "%s: no such command; see convolvctl --help",
                           words[0]);
    json_t *object = json_pack("{s:s}", "command", row->name);
    const int error = fill(object, row, count - used, words + used, problem);
    if (error != 0) {
        json_decref(object);
        return error;
    }
    *request = object;
    return 0;
}

/* ---- help -------------------------------------------------------------------------------- */

const struct own_word own_words[] = {
    {"save --write", "",
     "Writes what save prints as a fragment, CONFIG.d/99-saved-TIME.conf, once the configuration "
     "is "
     "proven valid with it."},
    {"reload --or-signal", "PID",
     "For systemctl reload: sends SIGHUP to this process where no control socket answers, and does "
     "not hear whether the configuration was taken over."},
    {"events -f", "[--since N]",
     "Goes on with what happens; without -f it prints the events that are kept."},
    {"hits -f", "[--analysis NAME] [--kind KIND] [--since N]",
     "Goes on with the events of analyses as they come; without -f it prints those that are kept."},
    {"snapshot", "STREAM --frames N [--channels 1,2] [--outputs 1,2] [--out NAME.npy|NAME.wav]",
     "Writes N consecutive frames of a stream's input and of its results as float32 in the "
     "stream's units: NAME-input and NAME-output, and NAME.json, which says what they hold. At "
     "most 16 channels of each side; without --outputs those of --channels, without both all."},
    {"watch", "[--seconds S]", "A live view of streams, rates, levels, losses, latency and load."},
    {"cluster", "[--config FILE] [--credentials FILE]",
     "Lists the partitions of the cluster that the configuration names: who owns their logs, in "
     "which term, how far they are. It asks the servers, and no daemon."},
    {"cluster create",
     "PARTITION [--storage file|memory] [--replicas N] [--window TIME] [--config FILE] "
     "[--credentials FILE]",
     "Makes both logs of a partition, as a sink nats with these keys would, where its user may "
     "not. "
     "--credentials takes the place of the configuration's."},
    {"check", "[FILE]",
     "Prints everything that is wrong with a configuration, or what it would do."},
    {"tune", "[FILE]", "Measures every way to compute each stream, and keeps the best."},
    {"explain", "[FILE]", "Prints which way is chosen for each stream, and why."},
    {"list-devices", "", "Lists the OpenCL and sound devices of this machine."},
    {"help", "[COMMAND]", "Prints this text, or what a command takes."},
    {NULL, NULL, NULL},
};

/* The first of the two words that `record-start` and `cluster-hand-over` are written as; NULL: it
 * is written as it is. */
static const char *first_word(const struct command_row *row)
{
    static const char *const words[] = {"record", "cluster"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(row->name, words[i], strlen(words[i])) == 0 &&
            row->name[strlen(words[i])] == '-')
            return words[i];
    return NULL;
}

static void print_name(const struct command_row *row, FILE *out)
{
    const char *first = first_word(row);
    if (first != NULL)
        fprintf(out, "%s %s", first, row->name + strlen(first) + 1);
    else
        fputs(row->name, out);
}

static void print_upper(const char *name, FILE *out)
{
    for (; *name != '\0'; name++)
        fputc(toupper((unsigned char)*name), out);
}

void words_synopsis(const struct command_row *row, FILE *out)
{
    char option[32];
    print_name(row, out);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < COMMAND_ARGUMENTS && row->arguments[i].type != ARGUMENT_NONE; i++) {
            const struct command_argument *argument = &row->arguments[i];
            if (argument->positional != (pass == 0))
                continue;
            fputs(argument->required ? " " : " [", out);
            if (!argument->positional)
                fprintf(out, "--%s ", option_of(argument, option));
            print_upper(argument->name, out);
            fputs(argument->type == ARGUMENT_COMMANDS ? "..." : "", out);
            fputs(argument->required ? "" : "]", out);
        }
    }
}

void words_help(FILE *out)
{
    fputs("usage: convolvctl [--socket PATH | --instance NAME] [--json] COMMAND [ARGUMENT]...\n\n"
          "Asks and steers a running convolvd. It finds your own daemon, or the system's, by\n"
          "itself.\n\n",
          out);
    for (int i = 0; i < CONTROL_WORDS; i++) {
        if (!is_word(&command_table[i]))
            continue;
        fputs("  ", out);
        words_synopsis(&command_table[i], out);
        fprintf(out, "\n      %s\n", command_table[i].summary);
    }
    for (const struct own_word *own = own_words; own->name != NULL; own++)
        fprintf(out, "  %s %s\n      %s\n", own->name, own->arguments, own->sentence);
    fputs("\n  --socket PATH     this socket, and no other\n"
          "  --instance NAME   the daemon convolvd@NAME\n"
          "  --json            replies as JSON, one line each\n"
          "  --completion      the completion for bash\n"
          "  --man             the manual page convolvctl(1) as roff\n"
          "  --version\n",
          out);
}

void words_completion(FILE *out)
{
    char option[32];
    fputs("# bash completion of convolvctl, from its table of commands\n"
          "_convolvctl()\n{\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} command= i\n"
          "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
          "        case ${COMP_WORDS[i]} in\n"
          "        --socket | --instance) ((i++)) ;;\n"
          "        -*) ;;\n"
          "        *) command=${COMP_WORDS[i]}; break ;;\n"
          "        esac\n"
          "    done\n"
          "    local words=\n"
          "    case $command in\n"
          "    '') words='--socket --instance --json --help --version",
          out);
    for (int i = 0; i < CONTROL_WORDS; i++)
        if (is_word(&command_table[i]) && first_word(&command_table[i]) == NULL)
            fprintf(out, " %s", command_table[i].name);
    for (const struct own_word *own = own_words; own->name != NULL; own++)
        fprintf(out, " %s", own->name);
    if (command_table[CONTROL_RECORD_START].name != NULL)
        fputs(" record", out);
    fputs("' ;;\n", out);
    for (int i = 0; i < CONTROL_WORDS; i++) {
        const struct command_row *row = &command_table[i];
        if (!is_word(row))
            continue;
        fprintf(out, "    %s) words='", row->name);
        for (int a = 0; a < COMMAND_ARGUMENTS && row->arguments[a].type != ARGUMENT_NONE; a++) {
            if (!row->arguments[a].positional)
                fprintf(out, "--%s ", option_of(&row->arguments[a], option));
            if (row->arguments[a].choices != NULL)
                fprintf(out, "%s ", row->arguments[a].choices);
        }
        fputc('\'', out);
        if (row->arguments[0].type == ARGUMENT_STREAM)
            fputs("\" $(convolvctl streams --names 2>/dev/null)\"", out);
        fputs(" ;;\n", out);
    }
    fputs("    cluster) words='create hand-over --config --credentials --storage --replicas "
          "--window' ;;\n"
          "    record) words=\"start stop $(convolvctl streams --names 2>/dev/null)\" ;;\n"
          "    snapshot) words=\"--frames --channels --outputs --out "
          "$(convolvctl streams --names 2>/dev/null)\" ;;\n"
          "    check | tune | explain) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n"
          "    esac\n"
          "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
          "}\n"
          "complete -F _convolvctl convolvctl\n",
          out);
}

/* Text as roff takes it: a dash and a backslash have meanings there, and so has a dot that begins a
 * line. */
static void print_roff(const char *text, FILE *out)
{
    for (; *text != '\0'; text++) {
        if (*text == '-' || *text == '\\')
            fputc('\\', out);
        if (*text != '`')
            fputc(*text, out);
    }
}

static void print_row_roff(const struct command_row *row, FILE *out)
{
    char *synopsis = NULL, option[32];
    size_t bytes;
    FILE *memory = open_memstream(&synopsis, &bytes);
    if (memory == NULL)
        return;
    words_synopsis(row, memory);
    fclose(memory);
    fputs(".TP\n.B ", out);
    print_roff(synopsis, out);
    fputc('\n', out);
    print_roff(row->summary, out);
    fprintf(out, " Role: %s.\n", command_role_word(row->role));
    for (int i = 0; i < COMMAND_ARGUMENTS && row->arguments[i].type != ARGUMENT_NONE; i++) {
        const struct command_argument *argument = &row->arguments[i];
        fputs(".br\n", out);
        if (!argument->positional) {
            fputs("\\-\\-", out);
            print_roff(option_of(argument, option), out);
        } else {
            print_upper(argument->name, out);
        }
        fputs(": ", out);
        print_roff(argument->sentence, out);
        if (argument->unit != NULL)
            fprintf(out, " [%s]", argument->unit);
        if (argument->choices != NULL)
            fprintf(out, " (%s)", argument->choices);
        fputs(".\n", out);
    }
    free(synopsis);
}

void words_manual(FILE *out)
{
    fputs(".TH CONVOLVCTL 1 \"\" \"convolvd " CONVOLVD_VERSION "\"\n"
          ".SH NAME\nconvolvctl \\- ask and steer a running convolvd\n"
          ".SH SYNOPSIS\n.B convolvctl\n[\\-\\-socket PATH | \\-\\-instance NAME] [\\-\\-json] "
          "COMMAND [ARGUMENT]...\n"
          ".SH DESCRIPTION\n"
          "Without \\-\\-socket and \\-\\-instance it takes the first daemon that answers in\n"
          "$RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/convolvd, /run/user/UID/convolvd, "
          "/tmp/convolvd\\-UID or\n/run/convolvd.\n"
          "Commands of the role observe go to observe.sock, others to control.sock there.\n"
          ".SH COMMANDS\n",
          out);
    for (int i = 0; i < CONTROL_WORDS; i++)
        if (is_word(&command_table[i]))
            print_row_roff(&command_table[i], out);
    for (const struct own_word *own = own_words; own->name != NULL; own++) {
        fputs(".TP\n.B ", out);
        print_roff(own->name, out);
        fputc(' ', out);
        print_roff(own->arguments, out);
        fputc('\n', out);
        print_roff(own->sentence, out);
        fputc('\n', out);
    }
    fputs(".SH EXIT STATUS\n0: done. 1: refused, or no daemon answers; standard error says "
          "why.\n.SH SEE ALSO\nconvolvd(8), convolvd.conf(5)\n",
          out);
}
