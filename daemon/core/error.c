/* Errors: see error.h. */
#include "core/error.h"

#undef problem_set /* see the end of error.h */
#undef problem_prefix

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *error_name(int error)
{
    switch (error) {
#define X(name, value, sentence)                                                                   \
    case value:                                                                                    \
        return #name;
        ERROR_TABLE(X)
#undef X
    default:
        return error == ERROR_NONE ? "NONE" : "?";
    }
}

const char *error_sentence(int error)
{
    switch (error) {
#define X(name, value, sentence)                                                                   \
    case value:                                                                                    \
        return sentence;
        ERROR_TABLE(X)
#undef X
    default:
        return error == ERROR_NONE ? "no error" : "unknown error";
    }
}

int problem_set(struct problem *problem, enum error error, const char *format, ...)
{
    if (problem != NULL) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(problem->text, sizeof problem->text, format, arguments);
        va_end(arguments);
        problem->error = error;
    }
    return error;
}

int problem_prefix(struct problem *problem, int error, const char *format, ...)
{
    if (problem == NULL)
        return error;
    char prefix[sizeof problem->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(prefix, sizeof prefix, format, arguments);
    va_end(arguments);
    char joined[2 * sizeof problem->text + 4];
    snprintf(joined, sizeof joined, "%s: %s", prefix, problem->text);
    memcpy(problem->text, joined, sizeof problem->text - 1);
    problem->text[sizeof problem->text - 1] = '\0';
    problem->error = error;
    return error;
}
