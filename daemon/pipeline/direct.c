/* Direct mode: see direct.h. */
#include "pipeline/direct.h"

#include <assert.h>
#include <stddef.h>

#include "pipeline/stream_filters.h"

/* The sink that shares its options with the stream's source: the other end of the device. NULL: the
 * stream is not in direct mode. */
static const struct config_sink *other_end(const struct config *config,
                                           const struct config_stream *stream)
{
    if (stream->driver == NULL || stream->driver->direct == NULL ||
        stream->source.mode != MODE_DIRECT)
        return NULL;
    for (uint32_t i = 0; i < config->sink_count; i++)
        if (config->sinks[i].options.own == stream->source.own)
            return &config->sinks[i];
    return NULL;
}

bool direct_only(const struct config *config, const struct config_stream *stream)
{
    uint32_t sinks = 0;
    for (uint32_t i = 0; i < config->sink_count; i++)
        sinks += &config->streams[config->sinks[i].stream] == stream;
    for (uint32_t s = 0; s < config->stream_count; s++)
        if (config->streams[s].upstream >= 0 &&
            &config->streams[config->streams[s].upstream] == stream)
            return false;
    for (uint32_t i = 0; i < config->analysis_count; i++)
        if (&config->streams[config->analyses[i].stream] == stream ||
            config_gives_parameters(&config->analyses[i], (uint32_t)(stream - config->streams)))
            return false;
    return sinks <= 1;
}

int direct_prepare(const struct config *config, const struct config_stream *stream,
                   const struct config_edge *known, void **out, struct problem *problem)
{
    const struct config_sink *sink = other_end(config, stream);
    struct stream_filters filters = {0};
    *out = NULL;
    if (sink == NULL)
        return 0;
    int error = stream_filters_make(config, stream, known, &filters, problem);
    if (error == 0) {
        const struct plan_spec spec = stream_plan_spec(stream, &filters, NULL);
        error = stream->driver->direct->make(stream->source.own, &spec, sink->options.full_scale,
                                             direct_only(config, stream), out, problem);
    }
    stream_filters_free(&filters);
    return error < 0 ? problem_prefix(problem, error, "stream %s", stream->name) : 0;
}

int direct_filters(const struct config *config, const struct config_stream *stream,
                   const struct config_edge *known, int *filters, struct problem *problem)
{
    void *made = NULL;
    int error = direct_prepare(config, stream, known, &made, problem);
    if (error < 0)
        return error;
    assert(made != NULL);
    *filters = stream->driver->direct->filters(made, problem);
    stream->driver->direct->free(made);
    return *filters < 0 ? *filters : 0;
}
