/* Status output: see status_output.h. */
#include "service/status_output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/text_writer.h"
#include "control/status.h"

/* Two threads: a pipe that nobody reads must not hold the file back. */
struct status_output {
    struct text_writer *tables, *files;
    char *path; /* of the file that was requested last */
};

static void put_table(void *context, char *text, size_t bytes)
{
    const struct status_output *output = context;
    if (!text_writer_put(output->tables, NULL, text, bytes))
        log_warning("the status table was dropped: whoever reads standard output is too slow");
}

static void put_file(const struct status_output *output, const char *path, char *text, size_t bytes)
{
    if (!text_writer_put(output->files, path, text, bytes))
        log_warning("%s: the status was dropped: the disk is too slow", path);
}

static void put_requested_file(void *context, char *text, size_t bytes)
{
    struct status_output *output = context;
    put_file(output, output->path, text, bytes);
}

void status_output_write(struct status_output *output, const struct process *process, bool table,
                         const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = table ? open_memstream(&text, &bytes) : NULL;
    if (out != NULL) {
        status_print(process, out);
        fclose(out);
        put_table(output, text, bytes);
    }
    if (path == NULL)
        return;
    text = status_json_text(process);
    put_file(output, path, text, text != NULL ? strlen(text) : 0);
}

void status_output_request(struct status_output *output, struct status_queue *queue, bool table,
                           const char *path)
{
    if (table)
        status_queue_request(queue, STATUS_TABLE, put_table, output);
    if (path == NULL)
        return;
    if (output->path == NULL || strcmp(output->path, path) != 0) {
        free(output->path);
        output->path = strdup(path);
    }
    if (output->path != NULL)
        status_queue_request(queue, STATUS_JSON, put_requested_file, output);
}

int status_output_open(struct status_output **out)
{
    struct status_output *output = calloc(1, sizeof *output);
    if (output == NULL)
        return ERROR_MEMORY;
    if (text_writer_open(&output->tables) < 0 || text_writer_open(&output->files) < 0) {
        status_output_close(output, 0);
        return ERROR_MEMORY;
    }
    *out = output;
    return 0;
}

void status_output_close(struct status_output *output, int64_t timeout_ns)
{
    if (output == NULL)
        return;
    if (!text_writer_close(output->tables, timeout_ns))
        log_warning("the status table was cut: nobody reads standard output");
    if (!text_writer_close(output->files, timeout_ns))
        log_warning("the status file was not written: its disk hangs");
    free(output->path);
    free(output);
}
