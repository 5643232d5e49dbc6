/* The table of options and its parser: see arguments.h. */
#include "cli/arguments.h"

#include <stddef.h>
#include <string.h>

enum { NO_COMMAND = -1 };

struct argument_row {
    const char *name;   /* with its dashes */
    const char *letter; /* the short form, or NULL */
    const char *value;  /* what its value is called, or NULL: it has none */
    bool optional;      /* the value may be left out, at the end or before another option */
    size_t text;        /* offset of the const char * it sets; (size_t)-1: none */
    size_t flag;        /* offset of the bool it sets; (size_t)-1: none */
    int command;        /* enum command it chooses, or NO_COMMAND */
    const char *shown;  /* as help and manual show it */
    const char *sentence;
};

#define NONE      ((size_t)-1)
#define AT(field) offsetof(struct arguments, field)

/* clang-format off */
static const struct argument_row table[] = {
    {"--config", "-c", "FILE", false, AT(config_path), NONE, NO_COMMAND, "-c, --config FILE",
     "Read this configuration (and its fragments, FILE.d/*.conf). A file named without an option means the same; the default is /etc/convolvd/convolvd.conf."},
    {"--check", NULL, "FILE", true, AT(config_path), NONE, COMMAND_CHECK, "--check [FILE]",
     "Print everything that is wrong with a configuration, or what it would do: latency by stage, filter delay, data rates. Exit status 0 if it is right, 1 if not. Touches no device and no socket."},
    {"--as-service", NULL, NULL, false, NONE, AT(as_service), NO_COMMAND, "--as-service",
     "With --check: also print what the sandbox of the unit hides, files in /home and folders outside ReadWritePaths= above all, what its user may not read, and which address of the socket unit no stream has. As root it tries the permissions of the unit's user."},
    {"--help-config", NULL, NULL, false, NONE, NONE, COMMAND_HELP_CONFIG, "--help-config",
     "Describe every section and key of the configuration."},
    {"--help-osc", NULL, NULL, false, NONE, NONE, COMMAND_HELP_OSC, "--help-osc",
     "Describe every OSC message the daemon takes and sends."},
    {"--help-control", NULL, NULL, false, NONE, NONE, COMMAND_HELP_CONTROL, "--help-control",
     "Describe every command of the control sockets, which convolvctl sends."},
    {"--design", NULL, "NAME", false, AT(design_name), NONE, COMMAND_DESIGN, "--design NAME",
     "Print the filter of that name: taps, response, delay, ripple, attenuation, noise floor."},
    {"--out", NULL, "FILE", false, AT(out_path), NONE, NO_COMMAND, "--out FILE",
     "With --design: write the taps to this file (.txt, .npy); convolv-design draws plots."},
    {"--list-devices", NULL, NULL, false, NONE, NONE, COMMAND_LIST_DEVICES, "--list-devices",
     "List the OpenCL devices; `device` in [device] takes their number or a part of their name. Then the sound devices with their host API, channels, rates and latencies; `card` of a stream or sink takes their name or a pattern."},
    {"--list-variants", NULL, NULL, false, NONE, NONE, COMMAND_LIST_VARIANTS, "--list-variants",
     "List the ways to compute a plan, in the order in which they are tried."},
    {"--tune", NULL, "FILE", true, AT(config_path), NONE, COMMAND_TUNE, "--tune [FILE]",
     "Measure every way to compute each stream of a configuration on its device, and keep the best in `cache` for the runs to come. Stop the daemon first, or the figures are those of a busy machine."},
    {"--explain", NULL, "FILE", true, AT(config_path), NONE, COMMAND_EXPLAIN, "--explain [FILE]",
     "Print which way is chosen for each stream of a configuration and why, with what --tune measured. Touches no socket."},
    {"--measure-loopback", NULL, "FILE", true, AT(config_path), NONE, COMMAND_MEASURE_LOOPBACK, "--measure-loopback [FILE]",
     "Play chirps on every sound card of a configuration that has duplex = yes, find the round trip from its outputs to its inputs, which must be connected, and keep it in `cache` for the runs to come."},
    {"--repair", NULL, "FILE", false, AT(repair_path), NONE, COMMAND_REPAIR, "--repair FILE",
     "Write a copy, FILE-repaired.SUFFIX, of a recording whose recorder died or that was cut, with a header that fits its samples, and its sidecar. The file itself is not changed; one that is still being written is refused."},
    {"--kernels", NULL, "DIR", false, AT(kernels_dir), NONE, NO_COMMAND, "--kernels DIR",
     "Use OpenCL kernels from this folder in place of the built-in ones of the same name."},
    {"--variant", NULL, "NAME", false, AT(variant), NONE, NO_COMMAND, "--variant NAME",
     "Compute every stream with this variant, whatever the configuration says."},
    {"--status-json", NULL, "FILE", false, AT(status_json), NONE, NO_COMMAND, "--status-json FILE",
     "Write the status as JSON to this file on SIGUSR1 and when stopping."},
    {"--status", NULL, NULL, false, NONE, NONE, COMMAND_STATUS, "--status",
     "Print the table of the running daemon: rates, losses, levels, latencies and ledgers."},
    {"--watch", NULL, NULL, false, NONE, AT(watch), NO_COMMAND, "--watch",
     "With --status: again every second, until the daemon ends."},
    {"--socket", NULL, "PATH", false, AT(socket_path), NONE, NO_COMMAND, "--socket PATH",
     "With --status: the socket of the daemon; else observe.sock in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/convolvd, /run/user/UID/convolvd, /tmp/convolvd-UID or /run/convolvd."},
    {"--verbose", "-v", NULL, false, NONE, AT(verbose), NO_COMMAND, "-v, --verbose",
     "Log details as well."},
    {"--quiet", "-q", NULL, false, NONE, AT(quiet), NO_COMMAND, "-q, --quiet",
     "Log warnings and errors only."},
    {"--man", NULL, "PAGE", false, AT(man_page), NONE, COMMAND_MAN, "--man PAGE",
     "Print the manual page `convolvd` or `convolvd.conf` as roff."},
    {"--help", "-h", NULL, false, NONE, NONE, COMMAND_HELP, "-h, --help",
     "Print this text."},
    {"--version", "-V", NULL, false, NONE, NONE, COMMAND_VERSION, "-V, --version",
     "Print the version."},
};
/* clang-format on */

enum { ROWS = sizeof table / sizeof *table };

/* The row of an argument; NULL: there is none. *value is what follows "=". */
static const struct argument_row *find(const char *argument, const char **value)
{
    const char *equals = strncmp(argument, "--", 2) == 0 ? strchr(argument, '=') : NULL;
    size_t length = equals != NULL ? (size_t)(equals - argument) : strlen(argument);
    *value = equals != NULL ? equals + 1 : NULL;
    for (size_t i = 0; i < ROWS; i++) {
        if (strlen(table[i].name) == length && memcmp(argument, table[i].name, length) == 0)
            return &table[i];
        if (table[i].letter != NULL && strcmp(argument, table[i].letter) == 0)
            return &table[i];
    }
    return NULL;
}

static void take(struct arguments *out, const struct argument_row *row, const char *value)
{
    if (row->text != NONE && value != NULL)
        *(const char **)(void *)((char *)out + row->text) = value;
    if (row->flag != NONE)
        *(bool *)(void *)((char *)out + row->flag) = true;
    if (row->command != NO_COMMAND)
        out->command = (enum command)row->command;
}

int arguments_parse(int argc, char **argv, struct arguments *out, struct problem *problem)
{
    *out = (struct arguments){.command = COMMAND_RUN};
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        if (argument[0] != '-') {
            if (out->config_path != NULL)
                return problem_set(
                    problem, ERROR_ARGUMENT,
                    "%s: a second configuration after %s; put fragments of the first into %s.d/",
                    argument, out->config_path, out->config_path);
            out->config_path = argument;
            continue;
        }
        const char *value;
        const struct argument_row *row = find(argument, &value);
        if (row == NULL)
            return problem_set(problem, ERROR_ARGUMENT, "%s: no such option; see convolvd --help",
                               argument);
        if (row->value == NULL && value != NULL)
            return problem_set(problem, ERROR_ARGUMENT, "%s: takes no value; write %s", argument,
                               row->name);
        bool more = i + 1 < argc && (!row->optional || argv[i + 1][0] != '-');
        if (row->value != NULL && value == NULL && (more || !row->optional)) {
            if (!more)
                return problem_set(problem, ERROR_ARGUMENT, "%s: its value is missing; write %s %s",
                                   argument, row->name, row->value);
            value = argv[++i];
        }
        take(out, row, value);
    }
    if (out->out_path != NULL && out->command != COMMAND_DESIGN)
        return problem_set(problem, ERROR_ARGUMENT,
                           "--out goes with --design; results of streams go to a [sink NAME]");
    if (out->as_service && out->command != COMMAND_CHECK)
        return problem_set(problem, ERROR_ARGUMENT,
                           "--as-service goes with --check; write convolvd --check --as-service "
                           "FILE");
    if ((out->watch || out->socket_path != NULL) && out->command != COMMAND_STATUS)
        return problem_set(
            problem, ERROR_ARGUMENT, "%s goes with --status; write convolvd --status %s",
            out->watch ? "--watch" : "--socket", out->watch ? "--watch" : "--socket PATH");
    return 0;
}

/* Prints the sentence in lines of at most `columns`; all but the first begin with `indent` spaces.
 */
static void print_wrapped(FILE *out, const char *sentence, int indent, int columns)
{
    int column = indent;
    for (const char *word = sentence; *word != '\0';) {
        int length = (int)strcspn(word, " ");
        if (column > indent && column + 1 + length > columns) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", length, word);
        column += length;
        word += length + (word[length] == ' ');
    }
    fputc('\n', out);
}

void arguments_print_help(FILE *out)
{
    fputs(
        "usage: convolvd [OPTION]... [FILE]\n"
        "\n"
        "Filters streams of samples from measuring devices with long FIR filters, in real time,\n"
        "on an OpenCL device. SIGTERM stops it once the last frames have been processed (a second\n"
        "one stops it at once), SIGUSR1 prints the state of every stream, SIGHUP reads the\n"
        "configuration again.\n\n",
        out);
    enum { INDENT = 26, COLUMNS = 98 };
    for (size_t i = 0; i < ROWS; i++) {
        fprintf(out, "  %-*s", INDENT - 2, table[i].shown);
        if (strlen(table[i].shown) > INDENT - 3)
            fprintf(out, "\n%*s", INDENT, "");
        print_wrapped(out, table[i].sentence, INDENT, COLUMNS);
    }
}

const struct manual_option *arguments_manual(unsigned *count)
{
    static struct manual_option rows[ROWS];
    for (size_t i = 0; i < ROWS; i++)
        rows[i] = (struct manual_option){.option = table[i].shown, .sentence = table[i].sentence};
    *count = ROWS;
    return rows;
}
