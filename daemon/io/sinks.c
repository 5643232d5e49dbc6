/*
 * The table of sinks, and the words of their ledger. A new protocol adds its row here.
 * Constant data, any thread.
 */
#include "io/sinks.h"

#include <stddef.h>
#include <string.h>

static const struct sink_ops *const sinks[] = {&sink_rtp, &sink_recording, &sink_osc,
                                               &sink_portaudio};

enum { SINKS = sizeof sinks / sizeof sinks[0] };

const struct sink_ops *sink_at(int index)
{
    return index >= 0 && index < SINKS ? sinks[index] : NULL;
}

const struct sink_ops *sink_find(const char *name)
{
    for (int i = 0; i < SINKS; i++) {
        if (strcmp(sinks[i]->name, name) == 0)
            return sinks[i];
    }
    return NULL;
}

const char *drop_name(enum drop drop)
{
    static const char *const names[] = {
#define X(name, text) [DROP_##name] = text,
        DROP_TABLE(X)
#undef X
    };
    return (unsigned)drop < DROPS ? names[(unsigned)drop] : "?";
}
