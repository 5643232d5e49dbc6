/* Direct mode: see direct.h. */
#include "pipeline/direct.h"

#include <assert.h>
#include <stdlib.h>

#include "io/sound/direct.h"
#include "io/sound/link.h"
#include "io/sound/options.h"
#include "pipeline/stream_filters.h"

/* The one sink that plays what the card captures: the configuration has proven that it is there. */
static const struct config_sink *card_sink(const struct config *config,
                                           const struct config_stream *stream)
{
    for (uint32_t i = 0; i < config->sink_count; i++)
        if (config->sinks[i].options.own == stream->source.own)
            return &config->sinks[i];
    return NULL;
}

/* Whether anybody but the card wants the stream's results. */
static bool wanted(const struct config *config, const struct config_stream *stream)
{
    uint32_t sinks = 0;
    for (uint32_t i = 0; i < config->sink_count; i++)
        sinks += &config->streams[config->sinks[i].stream] == stream;
    for (uint32_t s = 0; s < config->stream_count; s++)
        if (config->streams[s].upstream >= 0 &&
            &config->streams[config->streams[s].upstream] == stream)
            return true;
    return sinks > 1;
}

int direct_prepare(const struct config *config, const struct config_stream *stream,
                   struct sound_options **out, struct problem *problem)
{
    struct stream_filters filters = {0};
    const struct config_sink *sink = NULL;
    *out = NULL;
    const struct sound_options *sound = sound_options_of(stream->driver, &stream->source);
    if (sound != NULL && sound->direct_mode)
        sink = card_sink(config, stream);
    if (sink == NULL)
        return 0;
    struct sound_options *options = malloc(sizeof *options);
    if (options == NULL)
        return problem_set(problem, ERROR_MEMORY, "stream %s: out of memory", stream->name);
    *options = *sound;
    options->direct_alone = !wanted(config, stream);
    int error = stream_filters_make(config, stream, &filters, problem);
    if (error == 0) {
        void *packed = NULL;
        const struct plan_spec spec = stream_plan_spec(stream, &filters, NULL);
        error = sound_direct_pack(&spec, sink->options.full_scale, &packed, &options->direct_bytes,
                                  problem);
        options->direct = packed;
    }
    stream_filters_free(&filters);
    if (error < 0) {
        free(options);
        return problem_prefix(problem, error, "stream %s", stream->name);
    }
    *out = options;
    return 0;
}

int direct_filters(const struct config *config, const struct config_stream *stream, int *filters,
                   struct problem *problem)
{
    struct sound_options *options = NULL;
    int error = direct_prepare(config, stream, &options, problem);
    if (error < 0)
        return error;
    assert(options != NULL);
    *filters = sound_link_filters(options->direct, options->direct_bytes, problem);
    direct_free(options);
    return *filters < 0 ? *filters : 0;
}

void direct_free(struct sound_options *options)
{
    if (options != NULL)
        free((void *)options->direct);
    free(options);
}
