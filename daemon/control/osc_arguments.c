/* OSC arguments: see osc_arguments.h. */
#include "control/osc_arguments.h"

#include <math.h>
#include <string.h>

/* Beyond what i holds. */
static bool is_wide(const struct command_argument *argument)
{
    return argument->type == ARGUMENT_INTEGER && argument->high > INT32_MAX;
}

/* ---- addresses -------------------------------------------------------------------------- */

static const struct command_argument *stream_argument(const struct command_row *row)
{
    for (int i = 0; i < COMMAND_ARGUMENTS && row->arguments[i].type != ARGUMENT_NONE; i++)
        if (row->arguments[i].type == ARGUMENT_STREAM)
            return &row->arguments[i];
    return NULL;
}

bool osc_arguments_suit(const struct command_row *row, bool of_stream)
{
    const struct command_argument *stream = stream_argument(row);
    return of_stream ? stream != NULL : stream == NULL || !stream->required;
}

/* ---- reading ----------------------------------------------------------------------------- */

static int read_text(struct osc_reader *reader, const struct command_argument *argument,
                     json_t **value, struct problem *problem)
{
    const char *text;
    if (!osc_read_string(reader, &text))
        return 0;
    *value = json_string(text);
    if (*value == NULL)
        return problem_set(problem, ERROR_ARGUMENT, "`%s` is no UTF-8", argument->name);
    return 0;
}

static int read_json(struct osc_reader *reader, const struct command_argument *argument,
                     json_t **value, struct problem *problem)
{
    const char *text;
    if (!osc_read_string(reader, &text))
        return 0;
    *value = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    if (*value == NULL)
        return problem_set(problem, ERROR_ARGUMENT, "`%s` is no JSON list", argument->name);
    return 0;
}

/* Numbers other than 1 and 0 are left: a port may come next. */
static void read_flag(struct osc_reader *reader, json_t **value)
{
    struct osc_reader at = *reader;
    const char type = osc_peek(reader);
    double number = type == 'T';
    if (type == 'T' || type == 'F')
        osc_skip(&at);
    else if (!osc_read_number(&at, &number) || (number != 0 && number != 1))
        return;
    *reader = at;
    *value = json_boolean(number != 0);
}

/* A lone i is taken where the argument is required; elsewhere it is left: a port. */
static bool read_wide(struct osc_reader *reader, const struct command_argument *argument,
                      double *number)
{
    uint64_t wide;
    if (osc_read_wide(reader, &wide)) {
        *number = (double)(int64_t)wide;
        return true;
    }
    return argument->required && osc_read_number(reader, number);
}

static int read_number(struct osc_reader *reader, const struct command_argument *argument,
                       json_t **value, struct problem *problem)
{
    double number;
    const char *text;
    struct osc_reader behind = *reader;
    if (argument->unit != NULL && osc_read_string(&behind, &text) &&
        text[strspn(text, "+-.0123456789")] != text[0]) { /* "-6 dB", no word of another argument */
        *reader = behind;
        *value = command_number(argument, text, problem);
        return *value != NULL ? 0 : ERROR_ARGUMENT;
    }
    const bool given =
        is_wide(argument) ? read_wide(reader, argument, &number) : osc_read_number(reader, &number);
    if (!given)
        return 0;
    if (!isfinite(number))
        return problem_set(problem, ERROR_ARGUMENT, "`%s` is not finite", argument->name);
    if (number == 0 && argument->low == 1 && !argument->required)
        return 0;
    const bool whole = number == floor(number) && fabs(number) <= 0x1p53;
    *value = argument->type == ARGUMENT_INTEGER && whole ? json_integer((json_int_t)number)
                                                         : json_real(number);
    return 0;
}

/* The argument, if it comes next; else *value stays NULL. */
static int read_argument(struct osc_reader *reader, const struct command_argument *argument,
                         json_t **value, struct problem *problem)
{
    *value = NULL;
    if (osc_peek(reader) == 'N') {
        osc_skip(reader);
        return 0;
    }
    switch (argument->type) {
    case ARGUMENT_TEXT:
    case ARGUMENT_CHOICE:
        return read_text(reader, argument, value, problem);
    case ARGUMENT_COMMANDS:
    case ARGUMENT_OBJECTS:
        return read_json(reader, argument, value, problem);
    case ARGUMENT_FLAG:
        read_flag(reader, value);
        return 0;
    case ARGUMENT_NUMBER:
    case ARGUMENT_INTEGER:
        return read_number(reader, argument, value, problem);
    case ARGUMENT_STREAM: /* the address names it */
    case ARGUMENT_NONE:
        break;
    }
    return 0;
}

static int add_argument(json_t *request, struct osc_reader *reader, const struct command_row *row,
                        const struct command_argument *argument, struct problem *problem)
{
    json_t *value;
    int error = read_argument(reader, argument, &value, problem);
    if (error != 0)
        return error;
    if (value != NULL)
        return json_object_set_new(request, argument->name, value) == 0
                   ? 0
                   : problem_set(problem, ERROR_MEMORY, "out of memory");
    if (!argument->required)
        return 0;
    if (reader->index + 1 < reader->message->count) /* something else stands in its place */
        osc_skip(reader);
    return problem_set(problem, ERROR_ARGUMENT, "`%s` needs `%s`: %s", row->name, argument->name,
                       argument->sentence);
}

/* What stands behind the command's own arguments: nothing, or the port. */
static int read_port(struct osc_reader *reader, const struct command_row *row, uint16_t *port,
                     struct problem *problem)
{
    double number;
    if (osc_peek(reader) == '\0')
        return 0;
    if (reader->index + 1 < reader->message->count || !osc_read_number(reader, &number))
        return problem_set(problem, ERROR_ARGUMENT, "`%s` takes other arguments", row->name);
    if (!(number >= 1 && number <= UINT16_MAX) || number != floor(number))
        return problem_set(problem, ERROR_ARGUMENT,
                           "the last argument is no port; write i 9001, or leave it out");
    *port = (uint16_t)number;
    return 0;
}

int osc_arguments_read(const struct command_row *row, const struct osc_message *message,
                       json_t **request, uint16_t *port, struct problem *problem)
{
    struct osc_reader reader = {.message = message, .at = message->arguments};
    struct problem first = {.error = 0}, next;
    json_t *made = json_pack("{s:s}", "command", row->name);
    *request = NULL;
    *port = 0;
    if (made == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    /* All of them, whatever is wrong with the first: the port comes last. */
    for (int i = 0; i < COMMAND_ARGUMENTS && row->arguments[i].type != ARGUMENT_NONE; i++)
        if (row->arguments[i].type != ARGUMENT_STREAM &&
            add_argument(made, &reader, row, &row->arguments[i], &next) != 0 && first.error == 0)
            first = next;
    if (read_port(&reader, row, port, &next) != 0 && first.error == 0)
        first = next;
    if (first.error == 0) {
        *request = made;
        return 0;
    }
    json_decref(made);
    return problem_set(problem, first.error, "%s; for example %s", first.text, row->osc);
}

/* ---- showing ----------------------------------------------------------------------------- */

static const char *type_of(const struct command_argument *argument)
{
    switch (argument->type) {
    case ARGUMENT_NUMBER:
        return "f";
    case ARGUMENT_INTEGER:
        return is_wide(argument) ? "h" : "i";
    case ARGUMENT_FLAG:
        return "i";
    default:
        return "s";
    }
}

static void print_argument(const struct command_argument *argument, FILE *out)
{
    fprintf(out, "%s%s %s", argument->required ? "" : "[", type_of(argument), argument->name);
    if (argument->unit != NULL && argument->type == ARGUMENT_NUMBER)
        fprintf(out, " in %s", argument->unit);
    if (argument->choices != NULL)
        fprintf(out, ": %s", argument->choices);
    if (argument->type == ARGUMENT_FLAG)
        fputs(": 1 or 0", out);
    if (argument->type == ARGUMENT_COMMANDS || argument->type == ARGUMENT_OBJECTS)
        fputs(" as JSON", out);
    fputs(argument->required ? ", " : "], ", out);
}

void osc_arguments_print(const struct command_row *row, FILE *out)
{
    for (int i = 0; i < COMMAND_ARGUMENTS && row->arguments[i].type != ARGUMENT_NONE; i++)
        if (row->arguments[i].type != ARGUMENT_STREAM)
            print_argument(&row->arguments[i], out);
    fputs("[i port]", out);
}
