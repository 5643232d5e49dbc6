/*
 * Sink `csv`: a table of events, comma-separated, UTF-8, one line an event in order of frame and
 * channel. Before it stands one line that begins with # and holds what was measured with what
 * (text_sink_facts) as JSON: pandas.read_csv(path, comment="#") reads the rest. Marks stand between
 * the lines, behind # as well.
 */
#include "io/event_sinks.h"
#include "io/events/text_sink.h"
#include "io/rows.h"

static const char comment[] = "# ";

static int begin(struct event_sink *sink, const struct event_sink_options *options)
{
    size_t length;
    int status = text_sink_add_json(sink, comment, text_sink_facts(options));
    if (status != 0)
        return status;
    const char *columns = event_text_columns(sink->text, &length);
    return text_sink_add(sink, columns, length);
}

static int csv_open(const struct event_sink_options *options,
                    const struct io_environment *environment, struct event_sink **out,
                    struct problem *problem)
{
    (void)environment;
    return text_sink_open(options, comment, begin, out, problem);
}

static int csv_put(struct event_sink *sink, const struct analysis_event *event)
{
    size_t length;
    const char *line = event_text_line(sink->text, event, &length);
    return text_sink_event(sink, event, line, length);
}

static int csv_mark(struct event_sink *sink, const struct sink_mark *mark)
{
    return text_sink_add_json(sink, comment, text_sink_mark(mark));
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
    .close = text_sink_close,
    .ledger = text_sink_ledger,
};
