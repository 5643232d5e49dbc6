/*
 * The table of OSC addresses: one row for every message that comes in or goes out. Dispatch
 * (osc_control.c), `convolvd --help-osc`, the page docs/osc.md and the tests read it. Commands have
 * a table of their own (command_table.h), which is printed between the two halves of this one.
 *
 * Constant data; any thread.
 */
#ifndef CONVOLVD_CONTROL_OSC_TABLE_H
#define CONVOLVD_CONTROL_OSC_TABLE_H

#include <stdbool.h>
#include <stdio.h>

enum osc_word {
    OSC_BLOCK,
    OSC_LIST,
    OSC_INFO,
    OSC_SUBSCRIBE,
    OSC_UNSUBSCRIBE,
    OSC_NARROW,
    OSC_PROVE,
    /* going out only */
    OSC_RESULT,
    OSC_LEVELS,
    OSC_ENVELOPE,
    OSC_LATENCY,
    OSC_ALARM,
    OSC_FIELDS,
    OSC_EVENT,
    OSC_CHANGED,
    OSC_REPLY,
    OSC_ERROR,
    OSC_CHALLENGE,
    OSC_WORDS,
};

struct osc_row {
    const char *word;
    bool of_stream; /* /convolvd/STREAM/word, else /convolvd/word */
    bool inward;
    bool port;             /* its last argument may name the port that answers and errors go to */
    const char *arguments; /* types, meaning, unit */
    const char *sentence;
    const char *example; /* as oscsend and oscdump write it */
};

extern const struct osc_row osc_table[OSC_WORDS];

/* The types of the arguments of an address that takes one list of types and no port, so that a
 * message without type tags is clear; NULL: another address. */
const char *osc_signature(const char *address);

/* The tables of docs/osc.md. */
void osc_table_print(FILE *out);

#endif
