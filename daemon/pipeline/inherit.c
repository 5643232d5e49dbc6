/* What a pipeline leaves and inherits: see pipeline.h and heritage.h. */
#include <stdio.h>

#include "pipeline/heritage.h"
#include "pipeline/losses.h"
#include "pipeline/pipeline.h"

void pipeline_leave(const struct pipeline *pipeline, struct heritage *heritage)
{
    *heritage = (struct heritage){0};
    snprintf(heritage->stream, sizeof heritage->stream, "%s", pipeline->stream_config->name);
    stream_numbers(pipeline->stream, &heritage->numbers);
    for (uint32_t i = 0; i < pipeline->sink_count && heritage->sink_count < HERITAGE_SINKS; i++) {
        const struct pipeline_sink *sink = &pipeline->sinks[i];
        if (sink->ops->identity == NULL || (sink->sink == NULL && !sink->closing))
            continue;
        struct heritage_sink *to = &heritage->sinks[heritage->sink_count++];
        snprintf(to->name, sizeof to->name, "%s", sink->config->name);
        if (sink->sink != NULL)
            sink->ops->identity(sink->sink, &to->identity);
        else
            to->identity = sink->identity;
    }
}

void pipeline_inherit_numbers(struct pipeline *pipeline, const struct heritage *heritage)
{
    stream_continue(pipeline->stream, &heritage->numbers);
    losses_go_on(pipeline);
}

void pipeline_inherit_sinks(struct pipeline *pipeline, const struct heritage *heritage)
{
    for (uint32_t i = 0; i < pipeline->sink_count; i++) {
        struct pipeline_sink *sink = &pipeline->sinks[i];
        const struct sink_identity *identity = heritage_sink(heritage, sink->config->name);
        if (identity != NULL && sink->sink != NULL && sink->ops->assume != NULL)
            sink->ops->assume(sink->sink, identity);
    }
}

void pipeline_inherit(struct pipeline *pipeline, const struct heritage *heritage)
{
    pipeline_inherit_numbers(pipeline, heritage);
    pipeline_inherit_sinks(pipeline, heritage);
}
