/*
 * The table of event sinks. A new format adds its row here.
 * Constant data, any thread.
 */
#include "io/event_sinks.h"

#include <stddef.h>
#include <string.h>

/* Ends with NULL. */
static const struct event_sink_ops *const event_sinks[] = {&event_sink_csv, &event_sink_jsonl,
                                                           &event_sink_vallen, NULL};

const struct event_sink_ops *event_sink_at(int index)
{
    return index >= 0 && index < (int)(sizeof event_sinks / sizeof event_sinks[0])
               ? event_sinks[index]
               : NULL;
}
