/*
 * Sink `csv`: a table of events, comma-separated, UTF-8, one line an event in order of frame and
 * channel. Before it stands one line that begins with # and holds what was measured with what
 * (text_sink_facts) as JSON: pandas.read_csv(path, comment="#") reads the rest. Marks stand between
 * the lines, behind # as well.
 */
#include <stdlib.h>
#include <string.h>

#include "io/event_sinks.h"
#include "io/events/text_sink.h"
#include "io/rows.h"

struct event_sink {
    struct text_file *file;
    struct event_text *text;
};

static void csv_close(struct event_sink *sink)
{
    text_file_close(sink->file);
    event_text_close(sink->text);
    free(sink);
}

/* "# {…}" and a newline; the JSON is freed. */
static int add_comment(struct event_sink *sink, json_t *json)
{
    char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL, *line = NULL;
    int status = ERROR_MEMORY;
    json_decref(json);
    const int length = text != NULL ? asprintf(&line, "# %s\n", text) : -1;
    if (length >= 0) {
        status = text_file_add(sink->file, line, (size_t)length);
        free(line);
    }
    free(text);
    return status;
}

static int begin(struct event_sink *sink, const struct event_sink_options *options)
{
    size_t length;
    int status = add_comment(sink, text_sink_facts(options));
    if (status != 0)
        return status;
    const char *columns = event_text_columns(sink->text, &length);
    return text_file_add(sink->file, columns, length);
}

static int csv_open(const struct event_sink_options *options,
                    const struct io_environment *environment, struct event_sink **out,
                    struct problem *problem)
{
    (void)environment;
    const struct text_sink_options *own = options->own;
    struct event_sink *sink = calloc(1, sizeof *sink);
    int status = sink != NULL ? 0 : ERROR_MEMORY;
    if (status == 0)
        status = event_text_open(options->analysis, options->analysis_options, &sink->text);
    if (status != 0) {
        free(sink);
        return problem_set(problem, status, "sink %s: out of memory", options->name);
    }
    status = text_file_open(options, &sink->file, problem);
    if (status == 0 && begin(sink, options) != 0)
        status = problem_set(problem, ERROR_SYSTEM, "sink %s: %s cannot be written", options->name,
                             own->path);
    if (status != 0)
        csv_close(sink);
    else
        *out = sink;
    return status;
}

static int csv_put(struct event_sink *sink, const struct analysis_event *event)
{
    size_t length;
    const char *line = event_text_line(sink->text, event, &length);
    return text_file_add(sink->file, line, length);
}

static int csv_mark(struct event_sink *sink, const struct sink_mark *mark)
{
    return add_comment(sink, text_sink_mark(mark));
}

static void csv_ledger(const struct event_sink *sink, struct event_sink_ledger *ledger)
{
    text_file_ledger(sink->file, ledger);
}

static const struct option_row rows[] = {
    SINK_ROW_PATH(struct text_sink_options, path),
    EVENT_SINK_ROW_QUEUE,
};

const struct event_sink_ops event_sink_csv = {
    .name = "csv",
    .sentence = "a file of comma-separated values",
    .options = rows,
    .option_count = sizeof rows / sizeof rows[0],
    .options_bytes = sizeof(struct text_sink_options),
    .report = text_sink_report,
    .open = csv_open,
    .put = csv_put,
    .mark = csv_mark,
    .close = csv_close,
    .ledger = csv_ledger,
};
