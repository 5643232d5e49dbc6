/*
 * Key files: read the secret of authentication tags (wire/auth.h): 64 hexadecimal digits in a file
 * that belongs to root or the daemon's user, that its group cannot write and others cannot touch.
 *
 * No state; the thread that builds the configuration, and workers.
 */
#ifndef CONVOLVD_IO_NET_KEY_FILE_H
#define CONVOLVD_IO_NET_KEY_FILE_H

#include <stdint.h>

#include "core/error.h"
#include "core/option.h"
#include "wire/auth.h"

/* The row `key` of a driver whose options of type `type_` have the path in `member_`. */
#define KEY_FILE_ROW(type_, member_, sentence_)                                                    \
    {                                                                                              \
        .key = "key", .type = OPTION_PATH, .fallback_words = "none", OPTION_FIELD(type_, member_), \
        .sentence = sentence_                                                                      \
    }

/* Reads the file at `path` and makes the key of one use. The same errors. */
int key_file_derive(const char *path, enum auth_use use, struct auth_key *key,
                    struct problem *problem);

/* Reports at the key `key` what is wrong with the file. NULL path: nothing. */
void key_file_check(const struct option_check *check, const char *path);

#endif
