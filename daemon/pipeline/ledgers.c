/* What a pipeline's source and sinks have counted, also after they are closed: see pipeline.h. Loop
 * thread. */
#include "pipeline/pipeline.h"

bool pipeline_source_ledger(const struct pipeline *pipeline, struct source_ledger *ledger)
{
    if (pipeline->source != NULL)
        pipeline->source_ops->ledger(pipeline->source, ledger);
    else
        *ledger = pipeline->source_ledger;
    return pipeline->upstream == NULL;
}

void pipeline_sink_ledger(const struct pipeline_sink *sink, struct sink_ledger *ledger)
{
    if (sink->sink != NULL)
        sink->ops->ledger(sink->sink, ledger);
    else
        *ledger = sink->ledger;
}

bool pipeline_source_sound(const struct pipeline *pipeline, struct sound_report *report)
{
    if (pipeline->source_ops == NULL || pipeline->source_ops->sound == NULL)
        return false;
    if (pipeline->source != NULL)
        pipeline->source_ops->sound(pipeline->source, report);
    else
        *report = pipeline->sound;
    return true;
}

bool pipeline_sink_sound(const struct pipeline_sink *sink, struct sound_report *report)
{
    if (sink->ops->sound == NULL)
        return false;
    if (sink->sink != NULL)
        sink->ops->sound(sink->sink, report);
    else
        *report = sink->sound;
    return true;
}
