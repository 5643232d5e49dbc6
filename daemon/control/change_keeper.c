/* Changes of a stream that another daemon may go on with: see change_keeper.h. */
#include "control/change_keeper.h"

#include <stdio.h>
#include <string.h>

int change_keeper_frames(const struct pipeline *pipeline, struct keeper_frames *frames,
                         struct problem *problem)
{
    const struct pipeline_sink *sink = pipeline_keeper(pipeline);
    *frames = (struct keeper_frames){0};
    if (pipeline->upstream != NULL || !pipeline->source_ops->exact)
        return 0;
    if (sink == NULL || pipeline->stream_config->output_count > SETTING_OUTPUTS_MAX)
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "stream %s: nothing keeps its changes for the daemon that goes on",
                           pipeline->stream_config->name);
    if (sink->ops->keeper->owns(sink->sink, stream_next_epoch(pipeline->stream), frames, problem))
        return 0;
    return problem_prefix(problem, ERROR_UNSUPPORTED, "stream %s", pipeline->stream_config->name);
}

uint64_t change_keeper_next(const struct pipeline *pipeline, const struct keeper_frames *frames)
{
    const uint64_t next = pipeline_next_output(pipeline) + frames->shift;
    return next > frames->least ? next : frames->least;
}

bool change_keeper_settled(const struct pipeline *pipeline)
{
    const struct pipeline_sink *sink = pipeline_keeper(pipeline);
    return sink == NULL || sink->ops->keeper->settled(sink->sink);
}

void change_keeper_write(const struct pipeline *pipeline, const struct change_setting *setting,
                         struct setting *out)
{
    const uint32_t outputs = pipeline->stream_config->output_count;
    out->outputs = outputs;
    memcpy(out->gain, setting->gain, outputs * sizeof *out->gain);
    memcpy(out->muted, setting->muted, outputs * sizeof *out->muted);
    snprintf(out->filter, sizeof out->filter, "%s",
             setting->filter >= 0 ? pipeline->config->filters[setting->filter].name : "");
}

bool change_keeper_knows(const struct pipeline *pipeline, const struct setting *setting)
{
    return (setting->outputs == 0 || setting->outputs == pipeline->stream_config->output_count) &&
           (setting->filter[0] == '\0' ||
            config_find_filter(pipeline->config, setting->filter) >= 0);
}

void change_keeper_read(const struct pipeline *pipeline, const struct setting *setting,
                        struct change_setting *out)
{
    const uint32_t outputs = pipeline->stream_config->output_count;
    for (uint32_t o = 0; o < outputs; o++) {
        out->gain[o] = setting->outputs != 0 ? setting->gain[o] : 1;
        out->muted[o] = setting->outputs != 0 && setting->muted[o];
    }
    out->filter =
        setting->filter[0] != '\0' ? config_find_filter(pipeline->config, setting->filter) : -1;
}

void change_keeper_reach(const struct pipeline *pipeline, const struct keeper_frames *frames,
                         const struct stream_change *change, uint64_t frame,
                         struct setting_change *out)
{
    const struct plan_info *info = plan_info(pipeline->plan);
    const uint32_t decimate = info->decimate > 0 ? info->decimate : 1;
    const uint64_t at = frames->start + change->frame;
    uint64_t until = at + (change->how == CHANGE_FADE ? change->fade_frames : 0);
    out->epoch = frames->epoch;
    out->frame = frame;
    out->since =
        frames->start +
        (change->how == CHANGE_CLEAR ? change->frame : stream_held_since(pipeline->stream));
    /* A block whose history reaches before `since` depends on it. */
    const uint64_t reach =
        out->since + stream_ring_now(pipeline->stream).history + (uint64_t)info->hop;
    if (out->since > 0 && reach > until)
        until = reach;
    out->until = until == at ? frame : until / decimate + 2;
}
