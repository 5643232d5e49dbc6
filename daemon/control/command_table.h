/*
 * The table of commands: one row for everything a running daemon can be asked or told, whichever
 * way it comes: control socket, convolvctl, HTTP, OSC. Dispatch (commands.c), convolvctl with its
 * help, completion and manual page, docs/control.md and the tests read it.
 *
 * command_check is the one gate: it proves that a request has the arguments of its row, of the
 * right type and in their range, and nothing else. Handlers behind it assume that.
 *
 * Constant data and pure functions; any thread.
 */
#ifndef CONVOLVD_CONTROL_COMMAND_TABLE_H
#define CONVOLVD_CONTROL_COMMAND_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "core/error.h"

/* Who may: each role may do what those before it may. */
enum command_role { ROLE_OBSERVE, ROLE_CONTROL, ROLES };

const char *command_role_word(enum command_role role);
/* False: there is no role of this name. */
bool command_role_find(const char *word, enum command_role *role);

enum argument_type {
    ARGUMENT_NONE, /* ends the list */
    ARGUMENT_STREAM,
    ARGUMENT_TEXT,    /* `high`: at most so many bytes; no control characters */
    ARGUMENT_NUMBER,  /* from `low` to `high` */
    ARGUMENT_INTEGER, /* likewise */
    ARGUMENT_FLAG,
    ARGUMENT_CHOICE,   /* one word of `choices` */
    ARGUMENT_COMMANDS, /* requests, at most `high` of them */
    ARGUMENT_OBJECTS,  /* objects that the handler checks, at most `high` of them */
};

struct command_argument {
    const char *name;
    enum argument_type type;
    bool required;
    bool positional; /* for convolvctl: not written as an option */
    double low, high;
    const char *unit;    /* NULL: none */
    const char *choices; /* words, one space between them */
    const char *sentence;
};

enum { COMMAND_ARGUMENTS = 6 };

enum command_word {
    CONTROL_STATUS,
    CONTROL_STREAMS,
    CONTROL_COMMANDS,
    CONTROL_EVENTS,
    CONTROL_DEVICES,
    CONTROL_RESPONSE,
    CONTROL_SAVE,
    CONTROL_FILTER,
    CONTROL_GAIN,
    CONTROL_MUTE,
    CONTROL_TRANSACTION,
    CONTROL_RESET_COUNTERS,
    CONTROL_MARK,
    CONTROL_ACKNOWLEDGE,
    CONTROL_NOISE_FLOOR,
    CONTROL_RECORD_START,
    CONTROL_RECORD_STOP,
    CONTROL_RELOAD,
    CONTROL_HAND_OVER,
    CONTROL_WATCH,
    CONTROL_ANALYSES,
    CONTROL_HITS,
    CONTROL_TRANSIENT,
    CONTROL_WORDS,
};

struct command_row {
    const char *name;
    enum command_role role;
    bool change;         /* may stand in a transaction */
    bool costly;         /* takes time to answer: asked less often */
    const char *summary; /* a sentence */
    struct command_argument arguments[COMMAND_ARGUMENTS];
    const char *answer;  /* what the reply holds besides `ok` and `id` */
    const char *example; /* a request */
    const char *shell;   /* the same for convolvctl; NULL: it has none */
    const char *osc; /* an OSC message, as oscsend writes it; NULL: not over OSC, where its answer
                        would have no end or carry a descriptor */
};

extern const struct command_row command_table[CONTROL_WORDS];

/* -1: there is no command of this name. */
int command_find(const char *name);

/* 0, or ERROR_ARGUMENT with a sentence: an argument is missing, unknown, of another type or out of
 * its range. Besides its arguments a request has `command`, `id`, `holder` and `role`. Texts of a
 * number with its unit become numbers (command_number). */
int command_check(const struct command_row *row, json_t *request, struct problem *problem);

/* A number as people write it, "-6 dB" or "10 ms", in the argument's unit; without a unit it is in
 * that one. NULL: *problem says why. */
json_t *command_number(const struct command_argument *argument, const char *text,
                       struct problem *problem);

/* No control characters: names and marks go into logs, files and terminals. */
bool command_text_is_clean(const char *text);

/* The row as JSON, as the command `commands` answers it; the caller's. NULL: out of memory. */
json_t *command_row_json(const struct command_row *row);

/* The reference of docs/control.md. */
void command_table_print(FILE *out);

#endif
