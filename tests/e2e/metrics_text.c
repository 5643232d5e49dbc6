/* The daemon's status from standard input as Prometheus text; "--document": the table of metrics.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/web/metrics.h"

int main(int argc, char **argv)
{
    const struct metrics_options options = {.channels_max = 1024};
    json_error_t error;
    size_t bytes;
    if (argc > 1 && strcmp(argv[1], "--document") == 0) {
        metrics_document(stdout);
        return EXIT_SUCCESS;
    }
    json_t *status = json_loadf(stdin, 0, &error);
    char *text = metrics_text(status, &options, &bytes);
    if (text == NULL)
        return EXIT_FAILURE;
    fwrite(text, 1, bytes, stdout);
    free(text);
    json_decref(status);
    return EXIT_SUCCESS;
}
