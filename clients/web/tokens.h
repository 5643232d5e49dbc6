/*
 * Tokens: who may do what. A file lists the holders, one a line:
 *
 *     NAME observe|control SHA-256-OF-THE-TOKEN-IN-HEX
 *
 * A token is 32 random bytes in hexadecimal, so its plain hash tells nothing of it. A presented
 * token is hashed and compared with every line, in constant time and to the end of the list.
 *
 * A login exchanges a token for a session, whose number (32 random bytes) the browser keeps in a
 * cookie; only its hash is kept here. Sessions are lost with the process, and with their holder's
 * line when the file is read again.
 *
 * One thread.
 */
#ifndef CONVOLV_WEB_TOKENS_H
#define CONVOLV_WEB_TOKENS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/error.h"

enum {
    TOKENS_MAX = 256,
    TOKEN_NAME_MAX = 40,
    TOKEN_TEXT = 65, /* 64 hexadecimal digits and the final zero */
    SESSIONS_MAX = 256,
};

enum role { ROLE_NONE, ROLE_OBSERVE, ROLE_CONTROL };

/* "none", "observe" or "control". */
const char *role_name(enum role role);

/* Who asks, and what he may. */
struct holder {
    char name[TOKEN_NAME_MAX + 1]; /* "": nobody has identified himself */
    enum role role;
};

struct tokens;

/* Reads the file; NULL: there are no tokens. Its owner must be root or this process's user, and
 * nobody else may write it. 0 or an error with its sentence. */
int tokens_open(const char *path, struct tokens **out, struct problem *problem);
/* Reads the file again; an error leaves everything as it was. */
int tokens_reload(struct tokens *tokens, struct problem *problem);
void tokens_close(struct tokens *tokens); /* NULL is fine */

unsigned tokens_count(const struct tokens *tokens);

/* The holder of this token; false: nobody's. */
bool tokens_find(const struct tokens *tokens, const char *token, struct holder *holder);

/* A session for this holder, and its number in `cookie`. When SESSIONS_MAX are open, the one unused
 * longest ends. False: the system has no random numbers. */
bool tokens_login(struct tokens *tokens, const struct holder *holder, int64_t now_ns,
                  char cookie[TOKEN_TEXT]);
/* The holder of the session with this number, used within the last 12 hours; false: there is none.
 */
bool tokens_session(struct tokens *tokens, const char *cookie, int64_t now_ns,
                    struct holder *holder);
void tokens_logout(struct tokens *tokens, const char *cookie);

/* A new token in `token`, and the line for the file in `line`. ERROR_ARGUMENT: the name does not
 * consist of 1 to 40 letters, digits, `_`, `-`, `.`, `@`. */
int tokens_make(const char *name, enum role role, char token[TOKEN_TEXT], char line[256],
                struct problem *problem);

#endif
