/*
 * OSC arguments: reads those of a message as the arguments of a command (command_table.h).
 *
 * They come in the order of the command's row, without the stream, which the address names:
 *
 *     s            a text, a choice, a list of requests as JSON
 *     i f h d      a number; a whole one beyond 32 bits as h, as two i (high, low) or as f or d
 *     T F, i 1, 0  a flag
 *     N            leaves an optional argument out; so does 0 where numbers start at 1, and so does
 *                  an argument whose type fits only one further on
 *
 * One i more, the last argument, is the port that the answer goes to. Types are checked here,
 * ranges by command_check.
 *
 * Pure functions; any thread.
 */
#ifndef CONVOLVD_CONTROL_OSC_ARGUMENTS_H
#define CONVOLVD_CONTROL_OSC_ARGUMENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "control/command_table.h"
#include "core/error.h"
#include "wire/osc.h"

/* Whether the address of this command may name a stream (of_stream), or may do without. */
bool osc_arguments_suit(const struct command_row *row, bool of_stream);

/* Reads all of them into *request, the caller's: `command` and the arguments given. *port: where
 * the answer is to go, 0 when the message does not say; it is read in any case. Returns 0, or an
 * error with a sentence that shows the row's example, and *request is NULL. */
int osc_arguments_read(const struct command_row *row, const struct osc_message *message,
                       json_t **request, uint16_t *port, struct problem *problem);

/* "f gain_db in dB, [i output], [h frame], [i port]" */
void osc_arguments_print(const struct command_row *row, FILE *out);

#endif
