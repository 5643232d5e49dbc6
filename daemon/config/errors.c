/* Messages of a configuration: see errors.h. */
#include "config/errors.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void __attribute__((format(printf, 4, 0)))
add_message(struct config_errors *errors, struct config_place place, bool warning,
            const char *format, va_list arguments)
{
    *(warning ? &errors->warnings : &errors->errors) += 1;
    if (errors->count >= CONFIG_MESSAGES_MAX)
        return;
    if ((errors->count & (errors->count - 1)) == 0) { /* grow at powers of two */
        size_t capacity = errors->count == 0 ? 1 : 2 * (size_t)errors->count;
        struct config_message *grown =
            realloc(errors->messages, capacity * sizeof *errors->messages);
        if (grown == NULL)
            return;
        errors->messages = grown;
    }
    char text[1024];
    vsnprintf(text, sizeof text, format, arguments);
    struct config_message message = {
        .file = strdup(place.file != NULL ? place.file : ""),
        .line = place.line,
        .warning = warning,
        .text = strdup(text),
    };
    if (message.file == NULL || message.text == NULL) {
        free(message.file);
        free(message.text);
        return;
    }
    errors->messages[errors->count++] = message;
}

void config_error(struct config_errors *errors, struct config_place place, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_message(errors, place, false, format, arguments);
    va_end(arguments);
}

void config_warning(struct config_errors *errors, struct config_place place, const char *format,
                    ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_message(errors, place, true, format, arguments);
    va_end(arguments);
}

/* An insertion sort keeps equal ones in order. */
void config_errors_sort(struct config_errors *errors, const char *main_file)
{
    for (unsigned i = 1; i < errors->count; i++) {
        struct config_message message = errors->messages[i];
        unsigned k = i;
        for (; k > 0; k--) {
            const struct config_message *before = &errors->messages[k - 1];
            bool message_main = strcmp(message.file, main_file) == 0;
            bool before_main = strcmp(before->file, main_file) == 0;
            int order = message_main != before_main ? (message_main ? -1 : 1)
                                                    : strcmp(message.file, before->file);
            if (order > 0 || (order == 0 && message.line >= before->line))
                break;
            errors->messages[k] = *before;
        }
        errors->messages[k] = message;
    }
}

void config_errors_print(const struct config_errors *errors, FILE *out)
{
    for (unsigned i = 0; i < errors->count; i++) {
        const struct config_message *message = &errors->messages[i];
        fprintf(out, "%s:", message->file);
        if (message->line > 0)
            fprintf(out, "%u:", message->line);
        fprintf(out, " %s: %s\n", message->warning ? "warning" : "error", message->text);
    }
    unsigned all = errors->errors + errors->warnings;
    if (all > errors->count)
        fprintf(out, "… and %u more\n", all - errors->count);
}

void config_errors_free(struct config_errors *errors)
{
    for (unsigned i = 0; i < errors->count; i++) {
        free(errors->messages[i].file);
        free(errors->messages[i].text);
    }
    free(errors->messages);
    *errors = (struct config_errors){0};
}
