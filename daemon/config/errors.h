/*
 * Messages of a configuration: everything that is wrong with it, each at its file and line, so that
 * one run reports all. One thread at a time.
 */
#ifndef CONVOLVD_CONFIG_ERRORS_H
#define CONVOLVD_CONFIG_ERRORS_H

#include <stdbool.h>
#include <stdio.h>

/* Where something stands in the configuration, for messages. */
struct config_place {
    const char *file;
    unsigned line;
};

struct config_message {
    char *file;
    unsigned line; /* 0: the file as a whole */
    bool warning;
    char *text; /* what is wrong; what to write instead */
};

/* Start zeroed; free with config_errors_free. Sorted by file and line when config_load returns. */
struct config_errors {
    struct config_message *messages;
    unsigned count;  /* of messages, at most CONFIG_MESSAGES_MAX */
    unsigned errors; /* all that were found, kept or not */
    unsigned warnings;
};

enum { CONFIG_MESSAGES_MAX = 1000 };

/* "FILE:LINE: error: TEXT" a line. */
void config_errors_print(const struct config_errors *errors, FILE *out);
void config_errors_free(struct config_errors *errors);

void config_error(struct config_errors *errors, struct config_place place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void config_warning(struct config_errors *errors, struct config_place place, const char *format,
                    ...) __attribute__((format(printf, 3, 4)));

/* By file, `main_file` first, then by line. */
void config_errors_sort(struct config_errors *errors, const char *main_file);

#endif
