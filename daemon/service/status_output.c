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
};

static void write_table(struct status_output *output, const struct process *process)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out != NULL) {
        status_print(process, out);
        fclose(out);
    }
    if (!text_writer_put(output->tables, NULL, text, bytes))
        log_warning("the status table was dropped: whoever reads standard output is too slow");
}

void status_output_write(struct status_output *output, const struct process *process, bool table,
                         const char *path)
{
    if (table)
        write_table(output, process);
    if (path == NULL)
        return;
    char *text = status_json_text(process);
    if (!text_writer_put(output->files, path, text, text != NULL ? strlen(text) : 0))
        log_warning("%s: the status was dropped: the disk is too slow", path);
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
    free(output);
}
