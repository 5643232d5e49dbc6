/*
 * Text files of events: what the sinks `csv` and `jsonl` share. Each line is written at once, whole
 * or not at all: after a failed write the file is cut back to its last whole line, and the next
 * line is tried again. So others can read along, and what is cut off at any moment stays readable.
 * Where `path` is a named pipe the lines go into it; while nobody reads it, the writer's thread
 * waits.
 *
 * The writer's thread (event_writer.h), except where WORKER is named.
 */
#ifndef CONVOLVD_IO_EVENTS_TEXT_SINK_H
#define CONVOLVD_IO_EVENTS_TEXT_SINK_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "io/event_sink.h"
#include "io/event_text.h"

struct text_sink_options {
    const char *path;
    bool samples; /* jsonl: with the samples of events */
};

struct text_file;

/* Both sinks. */
struct event_sink {
    struct text_file *file;
    struct event_text *text;
    bool samples;
    const char *comment; /* prefix of a line that is no event; may be empty */
};

/* WORKER. Creates the file, and has `begin` write what stands before the events; the options
 * outlive the sink. */
int text_sink_open(const struct event_sink_options *options, const char *comment,
                   int (*begin)(struct event_sink *sink, const struct event_sink_options *options),
                   struct event_sink **out, struct problem *problem);
/* Adds the text of an event. 0 or an error: none of it is in the file, and the next text that is
 * follows a line that says which events the file lacks, and why. */
int text_sink_event(struct event_sink *sink, const struct analysis_event *event, const char *text,
                    size_t bytes);
/* Adds one line or several, with their newlines. 0 or ERROR_SYSTEM: none of it is in the file. */
int text_sink_add(struct event_sink *sink, const char *text, size_t bytes);
/* Adds a line of JSON, which is freed, behind `prefix`. 0, ERROR_SYSTEM or ERROR_MEMORY. */
int text_sink_add_json(struct event_sink *sink, const char *prefix, json_t *json);
void text_sink_close(struct event_sink *sink);
void text_sink_ledger(const struct event_sink *sink, struct event_sink_ledger *ledger);

/* What was measured with what, as the members of a JSON object, the caller's: version, analysis,
 * stream, rate, units, scales, filters, configuration, fields. NULL: no memory. */
json_t *text_sink_facts(const struct event_sink_options *options);

/* A mark as an object of JSON, likewise. */
json_t *text_sink_mark(const struct sink_mark *mark);

void text_sink_report(const struct event_sink_options *options, FILE *out);

#endif
