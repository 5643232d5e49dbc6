/* Between a sink that keeps what changes of its stream and whoever changes it: see io/keeper.h. */
#include "io/keeper.h"

#include "pipeline/pipeline.h"

static void resume(void *context, const struct setting_change *change, bool past)
{
    struct pipeline *pipeline = context;
    const struct pipeline_changer *changer = pipeline->changer;
    const struct pipeline_sink *sink = pipeline_keeper(pipeline);
    if (changer != NULL && changer->resume != NULL)
        changer->resume(changer->context, pipeline, change, past);
    else if (sink != NULL)
        sink->ops->keeper->resumed(sink->sink, false);
}

static void place(void *context, uint64_t start, uint64_t frame, uint64_t since)
{
    const struct pipeline *pipeline = context;
    if (frame == UINT64_MAX) {
        stream_change_place(pipeline->stream, UINT64_MAX, 0, 0);
        return;
    }
    const uint64_t at = pipeline_input_frame(pipeline, frame);
    stream_change_place(pipeline->stream, at > start ? at - start : 0, at < start ? start - at : 0,
                        since > start ? since - start : 0);
}

static void told(void *context, enum keeper_news news)
{
    struct pipeline *pipeline = context;
    const struct pipeline_changer *changer = pipeline->changer;
    if (changer != NULL && changer->told != NULL)
        changer->told(changer->context, pipeline, news);
}

void pipeline_sink_hosts(struct pipeline *pipeline, struct sink_options *options)
{
    options->keeper = (struct keeper_host){pipeline, resume, place, told};
    options->events = pipeline_event_log_host(pipeline);
}

struct pipeline_sink *pipeline_keeper(const struct pipeline *pipeline)
{
    if (pipeline->upstream != NULL || !pipeline->source_ops->exact)
        return NULL;
    for (uint32_t i = 0; i < pipeline->sink_count; i++)
        if (pipeline->sinks[i].sink != NULL && pipeline->sinks[i].ops->keeper != NULL)
            return &pipeline->sinks[i];
    return NULL;
}
