/*
 * Sink `jsonl`: JSON lines (jsonlines.org), UTF-8. The first line says what was measured with what
 * (text_sink_facts); then comes one line for each event (event_text.h), in order of frame and
 * channel, and one for each mark.
 */
#include <stdlib.h>
#include <string.h>

#include "io/event_sinks.h"
#include "io/events/text_sink.h"
#include "io/rows.h"

struct event_sink {
    struct text_file *file;
    struct event_text *text;
    bool samples;
};

static void jsonl_close(struct event_sink *sink)
{
    text_file_close(sink->file);
    event_text_close(sink->text);
    free(sink);
}

/* A line of JSON, which is freed. */
static int add_json(struct event_sink *sink, json_t *json)
{
    char *line = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
    int status = ERROR_MEMORY;
    json_decref(json);
    if (line != NULL) {
        const size_t length = strlen(line);
        line[length] = '\n'; /* in place of its zero */
        status = text_file_add(sink->file, line, length + 1);
        free(line);
    }
    return status;
}

static int jsonl_open(const struct event_sink_options *options,
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
    sink->samples = own->samples;
    status = text_file_open(options, &sink->file, problem);
    if (status == 0 && add_json(sink, text_sink_facts(options)) != 0)
        status = problem_set(problem, ERROR_SYSTEM, "sink %s: %s cannot be written", options->name,
                             own->path);
    if (status != 0)
        jsonl_close(sink);
    else
        *out = sink;
    return status;
}

static int jsonl_put(struct event_sink *sink, const struct analysis_event *event)
{
    size_t length;
    char *line = event_text_json(sink->text, event, sink->samples, &length);
    if (line == NULL)
        return ERROR_MEMORY;
    line[length] = '\n'; /* in place of its zero */
    return text_file_add(sink->file, line, length + 1);
}

static int jsonl_mark(struct event_sink *sink, const struct sink_mark *mark)
{
    return add_json(sink, text_sink_mark(mark));
}

static void jsonl_ledger(const struct event_sink *sink, struct event_sink_ledger *ledger)
{
    text_file_ledger(sink->file, ledger);
}

static const struct option_row rows[] = {
    SINK_ROW_PATH(struct text_sink_options, path),
    {.key = "samples",
     .type = OPTION_BOOLEAN,
     .fallback = "no",
     OPTION_FIELD(struct text_sink_options, samples),
     .sentence = "Whether each line has the samples of its event as well: a hit's transient, an "
                 "A-scan, a spectrum."},
    EVENT_SINK_ROW_QUEUE,
};

const struct event_sink_ops event_sink_jsonl = {
    .name = "jsonl",
    .sentence = "a file of JSON lines",
    .samples = true,
    .options = rows,
    .option_count = sizeof rows / sizeof rows[0],
    .options_bytes = sizeof(struct text_sink_options),
    .report = text_sink_report,
    .open = jsonl_open,
    .put = jsonl_put,
    .mark = jsonl_mark,
    .close = jsonl_close,
    .ledger = jsonl_ledger,
};
