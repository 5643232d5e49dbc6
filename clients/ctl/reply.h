/*
 * Replies for people: what convolvctl prints of each command's answer.
 *
 * Main thread.
 */
#ifndef CONVOLVCTL_REPLY_H
#define CONVOLVCTL_REPLY_H

#include <jansson.h>
#include <stdio.h>

#include "control/command_table.h"

void reply_print(const struct command_row *row, const json_t *reply, FILE *out);
/* One line of `events`: time, severity, stream, sentence, who asked. */
void reply_print_event(const json_t *line, FILE *out);

/* A text with its control characters replaced: what the daemon sends goes to a terminal. */
void reply_text(const char *text, FILE *out);

/* Numbers and texts of an object; 0 and "" where they are missing. */
double reply_number(const json_t *object, const char *name);
const char *reply_string(const json_t *object, const char *name);

#endif
