/*
 * Words of the command line as a request: `filter vessel band2 --fade 20ms` becomes {"command":
 * "filter", "stream": "vessel", "filter": "band2", "fade_ms": 20}. The daemon's table of commands
 * says which words there are; the daemon proves the values.
 *
 * Pure functions; any thread.
 */
#ifndef CONVOLVCTL_WORDS_H
#define CONVOLVCTL_WORDS_H

#include <jansson.h>
#include <stdio.h>

#include "control/command_table.h"
#include "core/error.h"

/* What convolvctl does beside the table. */
struct own_word {
    const char *name, *arguments, *sentence;
};
extern const struct own_word own_words[];

/* words[0] is the command; `record start` counts as `record-start`. 0, or ERROR_ARGUMENT with what
 * to write. */
int words_request(int count, char *const *words, json_t **request, struct problem *problem);

/* The command of these words; NULL: it is not in the table. *used: how many words it took. */
const struct command_row *words_row(int count, char *const *words, int *used);

/* "gain STREAM GAIN_DB [--output OUTPUT] [--frame FRAME]" */
void words_synopsis(const struct command_row *row, FILE *out);
/* A sentence of the daemon's as it is said in a shell: an example of the table, which is a request,
 * becomes the words of convolvctl for it. The caller's; NULL: out of memory. */
char *words_of_shell(const char *sentence);
void words_help(FILE *out);
void words_completion(FILE *out); /* for bash */
void words_manual(FILE *out);     /* convolvctl(1) as roff */

#endif
