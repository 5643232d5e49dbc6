/*
 * The entry of the program: parses the command line and runs the command. The daemon also starts
 * itself, with a hidden argument, as a helper process that talks to PortAudio, so that a crash
 * inside a sound library does not end the daemon; the entry sorts those out first.
 *
 * Main thread.
 */
#ifndef CONVOLVD_CLI_CLI_H
#define CONVOLVD_CLI_CLI_H

#include <stdbool.h>

/* Opens standard descriptors that are closed on /dev/null. Returns whether the process was started
 * as a helper of another one: it has then done its work, and ends with *status. First of all in
 * main; of every program that runs commands (commands.h). */
bool cli_helper(int argc, char **argv, int *status);

/* The exit status of the process. */
int cli_main(int argc, char **argv);

#endif
