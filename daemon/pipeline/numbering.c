/* How results reach a sink: as the stream numbers them, or as the sink among them says whose
 * readers know the stream's frames by other numbers (sink_ops.number). */
#include "io/keeper.h"

#include <stdio.h>
#include <string.h>

#include "core/event.h"
#include "core/log.h"
#include "pipeline/pipeline.h"
#include "stream/stream.h"

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

/* As the sinks number the mark's frame. False: they get no frames now. */
static bool number_mark(const struct pipeline *pipeline, struct sink_mark *mark)
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

void pipeline_mark(const struct pipeline *pipeline, struct sink_mark *mark, uint64_t frame)
{
    for (uint32_t i = 0; i < pipeline->sink_count; i++) {
        const struct pipeline_sink *sink = &pipeline->sinks[i];
        if (sink->sink == NULL || sink->ops->mark == NULL || sink->ended)
            continue;
        struct sink_mark there = *mark;
        there.frame = sink->options.raw ? pipeline_input_frame(pipeline, frame) : frame;
        if (number_mark(pipeline, &there) && !sink->ops->mark(sink->sink, &there))
            log_warning("sink %s: its queue is full: a mark is missing in it", sink->config->name);
    }
    for (uint32_t i = 0; i < pipeline->analysis_count; i++) {
        const struct pipeline_analysis *analysis = &pipeline->analyses[i];
        mark->frame = frame;
        if (!analysis->config->type->of_events && !pipeline->sinks_closing &&
            !analysis_stage_mark(analysis->stage, mark))
            log_warning("analysis %s: its buffer is full: a mark is missing in its sinks",
                        analysis->config->name);
    }
}

void pipeline_replay_mark(void *context, const struct source_mark *mark)
{
    const struct pipeline *pipeline = context;
    const uint64_t epoch = stream_next_epoch(pipeline->stream);
    const uint64_t frame = pipeline_output_frame(pipeline, mark->frame);
    struct sink_mark there = {.epoch = epoch, .realtime_ns = mark->realtime_ns};
    snprintf(there.text, sizeof there.text, "%s", mark->text);
    snprintf(there.who, sizeof there.who, "%s", mark->who);
    pipeline_mark(pipeline, &there, frame);
    event_raise(&(struct event_subject){.kind = EVENT_MARK,
                                        .severity = LOG_LEVEL_NOTICE,
                                        .stream = pipeline->stream_config->name,
                                        .who = mark->who[0] != '\0' ? mark->who : NULL,
                                        .framed = true,
                                        .epoch = epoch,
                                        .frame = frame},
                "mark: %s", mark->text);
}
