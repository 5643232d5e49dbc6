/*
 * The table of sinks, and the words of their ledger. A new protocol adds its row here.
 * Constant data, any thread.
 */
#include "io/sinks.h"

#include <stddef.h>
#include <string.h>

#include "core/quantity.h"
#include "io/rows.h"

#define SECONDS_A_DAY 86400.0

const struct option_choice sink_contents[] = {{"output", false}, {"input", true}, {NULL, 0}};

static const struct sink_ops *const sinks[] = {&sink_rtp,       &sink_recording, &sink_osc,
                                               &sink_portaudio, &sink_stdout,    &sink_nats};

enum { SINKS = sizeof sinks / sizeof sinks[0] };

const struct sink_ops *sink_at(int index)
{
    return index >= 0 && index < SINKS ? sinks[index] : NULL;
}

void sink_report_bytes(double bytes_per_second, const char *with, FILE *out)
{
    const double bytes_per_day = bytes_per_second * SECONDS_A_DAY;
    char size[48];
    fprintf(out, "%19s%.0f bytes/s%s, %.0f bytes/day (%s)\n", "", bytes_per_second, with,
            bytes_per_day, quantity_print(DIMENSION_MEMORY, bytes_per_day, size, sizeof size));
}

void sink_report_full_scale(const struct sink_options *options, FILE *out)
{
    if (options->format.kind != SAMPLE_FLOAT && !options->raw)
        fprintf(out, "%19sfull scale is %.6g %s; larger values saturate and are counted\n", "",
                options->full_scale, options->stream.units[0]);
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
