/* How results reach a sink: as the stream numbers them, or as the sink among them says whose
 * readers know the stream's frames by other numbers (sink_ops.number). */
#include "io/keeper.h"

#include "pipeline/pipeline.h"

void pipeline_sink_put(void *context, const struct result *result)
{
    struct pipeline_sink *sink = context;
    const struct pipeline_sink *numbers = pipeline_keeper(sink->pipeline);
    if (sink->sink == NULL || sink->closing) {
        sink->unwanted += result->frames;
        return;
    }
    if (numbers != NULL && numbers != sink && numbers->ops->number != NULL)
        result = numbers->ops->number(numbers->sink, result);
    if (result != NULL)
        sink->ops->put(sink->sink, result);
}

bool pipeline_number_mark(const struct pipeline *pipeline, struct sink_mark *mark)
{
    const struct pipeline_sink *numbers = pipeline_keeper(pipeline);
    struct keeper_frames frames;
    struct problem ignored;
    if (numbers == NULL)
        return true;
    if (!numbers->ops->keeper->owns(numbers->sink, mark->epoch, &frames, &ignored))
        return false;
    mark->epoch = frames.epoch;
    mark->frame += frames.shift;
    return true;
}
