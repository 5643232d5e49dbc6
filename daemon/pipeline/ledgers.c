/* What the source and the sinks of a pipeline have counted, also after they are closed: see
 * pipeline.h. */
#include <string.h>

#include "pipeline/pipeline.h"

bool pipeline_source_ledger(const struct pipeline *pipeline, struct source_ledger *ledger)
{
    if (pipeline->source != NULL)
        pipeline->source_ops->ledger(pipeline->source, ledger);
    else
        *ledger = pipeline->source_ledger;
    return pipeline->upstream == NULL;
}

bool pipeline_sinks_idle(const struct pipeline *pipeline)
{
    for (uint32_t i = 0; i < pipeline->sink_count; i++) {
        const struct pipeline_sink *sink = &pipeline->sinks[i];
        struct sink_ledger ledger = {0};
        if (sink->sink == NULL)
            continue;
        sink->ops->ledger(sink->sink, &ledger);
        if (ledger.pending > 0)
            return false;
    }
    return true;
}

struct pipeline_sink *pipeline_same_sink(const struct pipeline *other,
                                         const struct pipeline_sink *sink)
{
    for (uint32_t i = 0; i < other->sink_count; i++)
        if (other->sinks[i].ops == sink->ops &&
            strcmp(other->sinks[i].config->name, sink->config->name) == 0)
            return &other->sinks[i];
    return NULL;
}

void pipeline_end_elder(struct pipeline_sink *sink)
{
    struct pipeline_sink *heir = sink->heir;
    if (heir == NULL)
        return;
    struct sink_ledger *before = &heir->before;
    pipeline_sink_ledger(sink, before);
    before->dropped[DROP_STOPPED] += before->pending;
    before->pending = 0;
    heir->elder = sink->heir = NULL;
    /* The log has those that were dropped as the elder was closed. */
    heir->told.dropped[DROP_STOPPED] = before->dropped[DROP_STOPPED];
}

void pipeline_sink_ledger(const struct pipeline_sink *sink, struct sink_ledger *ledger)
{
    if (sink->sink != NULL)
        sink->ops->ledger(sink->sink, ledger);
    else
        *ledger = sink->ledger;
    ledger->frames += sink->unwanted;
    ledger->dropped[DROP_STOPPED] += sink->unwanted;
    struct sink_ledger elder;
    if (sink->elder != NULL)
        pipeline_sink_ledger(sink->elder, &elder);
    const struct sink_ledger *before = sink->elder != NULL ? &elder : &sink->before;
    ledger->frames += before->frames;
    ledger->delivered += before->delivered;
    ledger->pending += before->pending;
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
