/*
 * What goes with a request: who makes it, and how it is answered. See commands.h.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_CONTROL_REQUEST_H
#define CONVOLVD_CONTROL_REQUEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "control/command_table.h"
#include "core/event.h"

enum { CALLS_MAX = 256 };

/* Who asks, as logs and events name it: "anna (uid 1000)", "anna via convolv-web (uid 998)", "OSC
 * 127.0.0.1:9001". */
struct caller {
    enum command_role role;
    const char *role_help; /* what to do when a command needs a higher role; NULL: ask on the socket
                              of that role */
    char name[EVENT_WHO_BYTES];
};

/* An answer: an object, or its text as a line with a newline; the receiver's. Both NULL: out of
 * memory. `fd`: a descriptor that goes with it, closed by the receiver; -1: none. */
struct command_reply {
    json_t *object;
    char *text;
    size_t bytes;
    int fd;
};

typedef void command_answered(void *context, const struct command_reply *reply);

/* What the owner of the process does for commands. */
struct commands_host {
    void *context;
    /* Reads the configuration again; false: not now. commands_reloaded follows. */
    bool (*reload)(void *context);
};

/* {"ok": false, …} with the sentence; `code` is one word for programs. NULL: out of memory. */
json_t *commands_failure(const char *code, const char *sentence);

#endif
