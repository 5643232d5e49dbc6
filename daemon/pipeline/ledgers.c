/* What the source and the sinks of a pipeline have counted, also after they are closed: see
 * pipeline.h. */
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
    const struct sink_ledger *before = &sink->before;
    ledger->frames += before->frames;
    ledger->delivered += before->delivered;
    for (int drop = 0; drop < DROPS; drop++)
        ledger->dropped[drop] += before->dropped[drop];
    ledger->packets += before->packets;
    ledger->bytes += before->bytes;
    ledger->saturated += before->saturated;
}

const struct driver_status *pipeline_source_status(const struct pipeline *pipeline,
                                                   const void **status)
{
    *status = pipeline->source_status;
    if (pipeline->source_status == NULL)
        return NULL;
    if (pipeline->source != NULL)
        pipeline->source_ops->read_status(pipeline->source, pipeline->source_status);
    return pipeline->source_ops->status;
}

const struct driver_status *pipeline_sink_status(const struct pipeline_sink *sink,
                                                 const void **status)
{
    *status = sink->status;
    if (sink->status == NULL)
        return NULL;
    if (sink->sink != NULL)
        sink->ops->read_status(sink->sink, sink->status);
    return sink->ops->status;
}
