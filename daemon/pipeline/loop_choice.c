/* Which streams need the main loop: see loop_choice.h. */
#include "pipeline/loop_choice.h"

#include <stddef.h>

static uint32_t root_of(const struct config *config, uint32_t stream)
{
    while (config->streams[stream].upstream >= 0)
        stream = (uint32_t)config->streams[stream].upstream;
    return stream;
}

const char *stream_needs_main_loop(const struct config *config, const struct config_stream *stream)
{
    const uint32_t root = root_of(config, (uint32_t)(stream - config->streams));
    const char *needs = config->streams[root].driver->main_loop;
    for (uint32_t i = 0; i < config->sink_count && needs == NULL; i++)
        if (root_of(config, config->sinks[i].stream) == root)
            needs = config->sinks[i].driver->main_loop;
    for (uint32_t i = 0; i < config->analysis_count && needs == NULL; i++)
        if (root_of(config, config->analyses[i].stream) == root)
            needs = "an analysis";
    for (uint32_t i = 0; i < config->analysis_count && needs == NULL; i++)
        for (uint32_t s = 0; s < config->stream_count && needs == NULL; s++)
            if (root_of(config, s) == root && config_gives_parameters(&config->analyses[i], s))
                needs = "parameters of an analysis";
    return needs;
}
