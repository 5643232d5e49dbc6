/*
 * Events as text: one object of JSON for the control socket, the live page and JSON lines, one line
 * of a table for CSV. Both say the same of an event, from the table of fields of its analysis: what
 * all events have first, then the values of its kind.
 *
 * Numbers read back as the same double; a value that is not defined is null, or nothing in a table.
 * Channels count from 1, as everywhere outside.
 *
 * An event_text holds what is the same for every event of an analysis and room for one line; it
 * allocates in `open` alone. One owner.
 */
#ifndef CONVOLVD_IO_EVENT_TEXT_H
#define CONVOLVD_IO_EVENT_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "analysis/analysis.h"

/* Length of the longest number as text, with its zero. */
enum { EVENT_NUMBER_BYTES = 32 };

struct event_text;

/* `ops` and `options` outlive it. 0 or ERROR_MEMORY. */
int event_text_open(const struct analysis_ops *ops, const struct analysis_options *options,
                    struct event_text **out);
void event_text_close(struct event_text *text); /* NULL is fine */

/* The event as one object of JSON, without a newline, for which there is room in place of the zero.
 * With `samples` the last member is their list. The text is the event_text's until the next call.
 * *length: of the text; may be NULL. NULL: no memory for samples. */
char *event_text_json(struct event_text *text, const struct analysis_event *event, bool samples,
                      size_t *length);
/* The names of a table's columns, and an event's line below them, each with its newline. */
const char *event_text_columns(struct event_text *text, size_t *length);
const char *event_text_line(struct event_text *text, const struct analysis_event *event,
                            size_t *length);

#endif
