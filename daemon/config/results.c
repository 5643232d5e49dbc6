/*
 * Which format a stream's results are wanted in: that of its sinks, when all that take them agree
 * and nothing needs floats. The device then encodes (plan_spec.results), and sinks copy bytes.
 *
 * Also which streams say what of their results rests on inputs near full scale.
 *
 * Floats are needed by streams that read this one, by analyses, by OSC and by sound cards.
 *
 * Worker or main thread, while a configuration is built.
 */
#include <string.h>

#include "io/sink.h"
#include "config/internal.h"

static bool is_read(const struct build *build, uint32_t stream)
{
    for (uint32_t i = 0; i < build->config->stream_count; i++)
        if (build->streams[i].upstream == (int)stream)
            return true;
    return false;
}

static bool is_analysed(const struct build *build, uint32_t stream)
{
    for (uint32_t i = 0; i < build->config->analysis_count; i++)
        if (build->analyses[i].stream == stream ||
            config_gives_parameters(&build->analyses[i], stream))
            return true;
    return false;
}

static struct result_format results_of(const struct build *build, uint32_t stream)
{
    static const struct result_format floats;
    struct result_format wanted = floats;
    bool any = false;
    if (is_read(build, stream) || is_analysed(build, stream))
        return floats;
    for (uint32_t i = 0; i < build->config->sink_count; i++) {
        const struct config_sink *sink = &build->sinks[i];
        if (sink->stream != stream || sink->options.raw)
            continue;
        if (sink->driver->wire == NULL)
            return floats;
        const struct result_format wire = sink->driver->wire(&sink->options);
        if (any && !result_format_equal(&wire, &wanted))
            return floats;
        wanted = wire;
        any = true;
    }
    return result_format_native(&wanted) ? floats : wanted;
}

static bool has_converter(const struct build *build, const struct config_stream *stream)
{
    while (stream->upstream >= 0)
        stream = &build->streams[stream->upstream];
    return stream->converter;
}

/* Streams whose results are analysed, and those that they read. Without a converter nothing
 * saturates. */
static void want_full_scale(struct build *build)
{
    for (uint32_t i = 0; i < build->config->analysis_count; i++)
        if (has_converter(build, &build->streams[build->analyses[i].stream]))
            for (int stream = (int)build->analyses[i].stream; stream >= 0;
                 stream = build->streams[stream].upstream)
                build->streams[stream].full_scale = true;
}

void config_results(struct build *build)
{
    want_full_scale(build);
    for (uint32_t i = 0; i < build->config->stream_count; i++)
        build->streams[i].results = results_of(build, i);
}
