/*
 * Sink `jsonl`: JSON lines (jsonlines.org), UTF-8. The first line says what was measured with what
 * (text_sink_facts); then comes one line for each event (event_text.h), in order of frame and
 * channel, and one for each mark. {"lost": …} names events that a full disk did not take.
 */
#include "io/event_sinks.h"
#include "io/events/text_sink.h"
#include "io/rows.h"

static int begin(struct event_sink *sink, const struct event_sink_options *options)
{
    return text_sink_add_json(sink, "", text_sink_facts(options));
}

static int jsonl_open(const struct event_sink_options *options,
                      const struct io_environment *environment, struct event_sink **out,
                      struct problem *problem)
{
    (void)environment;
    return text_sink_open(options, "", begin, out, problem);
}

static int jsonl_put(struct event_sink *sink, const struct analysis_event *event)
{
    size_t length;
    char *line = event_text_json(sink->text, event, sink->samples, &length);
    if (line == NULL)
        return ERROR_MEMORY;
    line[length] = '\n'; /* in place of its zero */
    return text_sink_event(sink, event, line, length + 1);
}

static int jsonl_mark(struct event_sink *sink, const struct sink_mark *mark)
{
    return text_sink_add_json(sink, "", text_sink_mark(mark));
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
    .close = text_sink_close,
    .ledger = text_sink_ledger,
};
