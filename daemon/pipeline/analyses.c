/*
 * The analyses of a pipeline: for each [analysis] that rests on the stream's results a stage
 * (analysis_stage.h) with its sinks, ports on the stream for those that take frames, and the links
 * between those that take each other's events. See pipeline.h.
 */
#include "pipeline/pipeline.h"

#include <stdlib.h>

#include "pipeline/saturation_map.h"
#include "signal/decimation.h"

/* ---- prepare: worker --------------------------------------------------------------------- */

/* Frames of the longest result: a block, or several short ones together. */
static uint64_t block_frames(const struct pipeline *pipeline)
{
    enum { SHORT_BLOCKS = 4096 }; /* RESULT_FRAMES_MIN of stream/state.h, and more */
    const uint64_t frames = plan_info(pipeline->plan)->hop + SHORT_BLOCKS,
                   logged = EVENT_LOG_RUN_BYTES /
                            (plan_info(pipeline->plan)->output_floats * sizeof(float));
    return pipeline_logs_events(pipeline) && logged > frames ? logged : frames;
}

/* The stream as the configuration describes it, and what its plan adds. */
static void complete_stream(const struct pipeline *pipeline, struct analysis_stream *stream)
{
    const struct config_stream *config = pipeline->stream_config;
    stream->delay_frames = decimation_delay_frames(
        config->decimate, pipeline->delay_frames + pipeline->upstream_delay_frames);
    stream->taps_longest =
        (plan_info(pipeline->plan)->taps_longest + config->decimate - 1) / config->decimate;
    stream->taps_hash = pipeline->taps_hash;
    stream->config_hash = pipeline->config->hash;
}

static struct pipeline_analysis *find(const struct pipeline *pipeline,
                                      const struct config_analysis *config)
{
    for (uint32_t i = 0; i < pipeline->analysis_count; i++)
        if (pipeline->analyses[i].config == config)
            return &pipeline->analyses[i];
    return NULL;
}

static void room_again(void *context)
{
    const struct pipeline_analysis *analysis = context;
    struct pipeline *pipeline = analysis->pipeline;
    if (pipeline_logs_events(pipeline))
        pipeline_analysed(pipeline);
    if (pipeline->scheduled)
        scheduler_kick(pipeline->scheduler);
    pipeline->changed(pipeline->context); /* it may be idle now, which a stop waits for */
}

static int prepare_sinks(struct pipeline_analysis *analysis, struct problem *problem)
{
    const struct pipeline *pipeline = analysis->pipeline;
    const struct config *config = pipeline->config;
    for (uint32_t i = 0; i < config->event_sink_count; i++) {
        const struct config_event_sink *sink = &config->event_sinks[i];
        if (&config->analyses[sink->analysis] != analysis->config)
            continue;
        const uint32_t at = analysis_stage_sinks(analysis->stage);
        struct event_sink_options *options =
            &analysis->sinks[at < ANALYSIS_SINKS_MAX ? at : ANALYSIS_SINKS_MAX - 1];
        if (at < ANALYSIS_SINKS_MAX) {
            *options = sink->options;
            options->analysis_options = &analysis->options;
        }
        int error = analysis_stage_add_sink(analysis->stage, sink->driver, options,
                                            &pipeline->environment, problem);
        if (error < 0)
            return problem_prefix(problem, error, "%s:%u", sink->place.file, sink->place.line);
    }
    return 0;
}

static int prepare_analysis(struct pipeline_analysis *analysis, struct problem *problem)
{
    struct pipeline *pipeline = analysis->pipeline;
    const struct config_analysis *config = analysis->config;
    struct pipeline_analysis *upstream =
        config->upstream >= 0 ? find(pipeline, &pipeline->config->analyses[config->upstream])
                              : NULL;
    analysis->options = config->options;
    analysis->options.upstream = upstream != NULL ? &upstream->options : NULL;
    complete_stream(pipeline, &analysis->options.stream);
    const struct analysis_stage_options options = {
        .loop = pipeline->environment.loop,
        .ops = config->type,
        .options = &analysis->options,
        .queue_bytes = config->queue_bytes,
        .marks_most = pipeline_marks_most(pipeline),
        .limits = config->limits,
        .limit_count = config->limit_count,
        .waits = !pipeline->stream_config->live || pipeline_logs_events(pipeline),
        .logged = pipeline_logs_events(pipeline),
        .room_again = room_again,
        .context = analysis,
    };
    int error = analysis_stage_open(&options, block_frames(pipeline), &analysis->stage, problem);
    if (error == 0 && upstream != NULL)
        error = analysis_stage_add_reader(upstream->stage, analysis->stage, problem);
    if (error < 0)
        return problem_prefix(problem, error, "%s:%u", config->place.file, config->place.line);
    return prepare_sinks(analysis, problem);
}

int pipeline_prepare_analyses(struct pipeline *pipeline, struct problem *problem)
{
    const struct config *config = pipeline->config;
    pipeline->analyses =
        calloc(config->analysis_count > 0 ? config->analysis_count : 1, sizeof *pipeline->analyses);
    if (pipeline->analyses == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for the analyses");
    int error = 0;
    if (pipeline->stream_config->full_scale &&
        saturation_map_open(pipeline->stream_config, &pipeline->saturation) != 0)
        return problem_set(problem, ERROR_MEMORY, "no memory for the analyses");
    for (uint32_t i = 0; error == 0 && i < config->analysis_count; i++) {
        if (&config->streams[config->analyses[i].stream] != pipeline->stream_config)
            continue;
        struct pipeline_analysis *analysis = &pipeline->analyses[pipeline->analysis_count++];
        analysis->config = &config->analyses[i];
        analysis->pipeline = pipeline;
        error = prepare_analysis(analysis, problem);
    }
    for (uint32_t i = 0; error == 0 && i < pipeline->analysis_count; i++)
        error = analysis_stage_begin(pipeline->analyses[i].stage, problem);
    if (error == 0 && pipeline_open_event_log(pipeline) != 0)
        error = problem_set(problem, ERROR_MEMORY, "no memory for the analyses");
    return error;
}

/* ---- run: loop --------------------------------------------------------------------------- */

uint32_t pipeline_saturated(struct pipeline *pipeline, const struct result *result,
                            const struct input_saturation **marks)
{
    *marks = NULL;
    return pipeline->saturation != NULL ? saturation_map_apply(pipeline->saturation, result, marks)
                                        : 0;
}

static void put(void *context, const struct result *result)
{
    const struct pipeline_analysis *analysis = context;
    if (analysis->pipeline->sinks_closing)
        return;
    struct result mapped = *result;
    mapped.saturated_input_count =
        pipeline_saturated(analysis->pipeline, result, &mapped.saturated_inputs);
    analysis_stage_put(analysis->stage, &mapped);
}

static uint64_t room(void *context)
{
    const struct pipeline_analysis *analysis = context;
    return analysis_stage_room(analysis->stage);
}

int pipeline_connect_analyses(struct pipeline *pipeline, struct problem *problem)
{
    const struct config_stream *config = pipeline->stream_config;
    for (uint32_t i = 0; i < pipeline->analysis_count; i++) {
        struct pipeline_analysis *analysis = &pipeline->analyses[i];
        const struct result_port port = {
            .context = analysis, .put = put, .room = config->live ? NULL : room};
        if (analysis->config->type->of_events || pipeline_logs_events(pipeline))
            continue;
        if (stream_add_port(pipeline->stream, &port) != 0)
            return problem_set(
                problem, ERROR_LIMIT,
                "%s:%u: stream %s has too many sinks, analyses and streams that read it; give it "
                "at most 16",
                config->place.file, config->place.line, config->name);
    }
    return 0;
}

static void closed(void *context)
{
    struct pipeline *pipeline = context;
    pipeline->closing--;
    pipeline->changed(pipeline->context);
}

/* Those that take events close with the one that they take them of. */
void pipeline_close_analyses(struct pipeline *pipeline, int64_t deadline_ns)
{
    for (uint32_t i = 0; i < pipeline->analysis_count; i++) {
        const struct pipeline_analysis *analysis = &pipeline->analyses[i];
        if (analysis->stage == NULL || analysis->options.upstream != NULL)
            continue;
        pipeline->closing++;
        analysis_stage_close(analysis->stage, deadline_ns, closed, pipeline);
    }
}

bool pipeline_analyses_idle(const struct pipeline *pipeline)
{
    for (uint32_t i = 0; i < pipeline->analysis_count; i++)
        if (!analysis_stage_idle(pipeline->analyses[i].stage))
            return false;
    return true;
}

void pipeline_free_analyses(struct pipeline *pipeline)
{
    pipeline_close_event_log(pipeline);
    for (uint32_t i = 0; i < pipeline->analysis_count; i++)
        analysis_stage_free(pipeline->analyses[i].stage);
    free(pipeline->analyses);
    saturation_map_close(pipeline->saturation);
}
