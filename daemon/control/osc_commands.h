/*
 * OSC commands: runs messages as commands of the table (command_table.h) and sends their answers.
 *
 *     /convolvd/STREAM/COMMAND      a command of a stream
 *     /convolvd/COMMAND             one that needs none
 *
 * A change of filter, gain or mute is answered by /convolvd/STREAM/changed with its frame, any
 * other command by a message with the address of the command and the reply of the control socket, a
 * text of JSON in as many pieces as it needs: i piece (from 1), i pieces, s text. A failure is
 * answered by /convolvd/error. Who asks has the role of the address (osc_commands_open).
 *
 * Commands that take time to answer are refused beyond COSTLY_A_SECOND; answers wait for at most 64
 * messages, and a later one takes the place of the oldest.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_CONTROL_OSC_COMMANDS_H
#define CONVOLVD_CONTROL_OSC_COMMANDS_H

#include <stdbool.h>

#include "control/commands.h"
#include "io/osc/peers.h"
#include "wire/osc.h"

struct osc_commands;

/* Peers within `control` have the role of that name, others observe. Both outlive it; this takes
 * the commands' repeats (commands_on_repeat). NULL: out of memory. */
struct osc_commands *osc_commands_open(struct commands *commands,
                                       const struct osc_networks *control);
/* Sends no further answer. NULL is fine. */
void osc_commands_close(struct osc_commands *osc);

/* The command whose name matches this last part of an address, with a stream before it or without;
 * -1: none. */
int osc_commands_find(const struct osc_part *word, bool of_stream);

/* A message on its way: read once, then run for each stream that its address matches. */
struct osc_command {
    int row; /* of the command table */
    struct osc_peer *sender;
    struct osc_peer *answered; /* at the port that the message names, else the sender */
    const struct osc_message *message;
    json_t *request; /* NULL: it has been answered */
};

/* Reads the message, which `row` and `sender` came with. Returns false when it is answered: by an
 * error or by a challenge to the port that it names. */
bool osc_command_read(struct osc_command *command, int row, struct osc_peer *sender,
                      const struct osc_message *message);
/* stream NULL: a command without. */
void osc_command_run(struct osc_commands *osc, const struct osc_command *command,
                     const char *stream);
void osc_command_end(struct osc_command *command);

#endif
