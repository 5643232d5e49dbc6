/* What a reload changes of a pipeline that runs on: see pipeline.h. Loop thread. */
#include <string.h>

#include "pipeline/pipeline.h"

static void change_sink(struct pipeline_sink *sink, const struct config *config)
{
    if (sink->sink == NULL || sink->ops->change == NULL)
        return;
    for (uint32_t i = 0; i < config->sink_count; i++)
        if (strcmp(config->sinks[i].name, sink->config->name) == 0)
            sink->ops->change(sink->sink, &config->sinks[i].options);
}

void pipeline_change(struct pipeline *pipeline, const struct config *config,
                     const struct config_stream *stream)
{
    if (pipeline->stream != NULL)
        stream_set_priority(pipeline->stream, stream->priority);
    if (pipeline->source != NULL && pipeline->source_ops->change != NULL)
        pipeline->source_ops->change(pipeline->source, &stream->source);
    for (uint32_t i = 0; i < pipeline->sink_count; i++)
        change_sink(&pipeline->sinks[i], config);
}
