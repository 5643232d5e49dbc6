/* The commands that start and stop recordings: see commands.h. */
#include <string.h>

#include "control/commands_internal.h"

/* Whether the request means this sink. */
static bool is_meant(const struct pipeline_sink *sink, const char *name)
{
    return sink->sink != NULL && sink->ops->record != NULL &&
           (name == NULL || strcmp(name, sink->config->name) == 0);
}

static json_t *answer_no_sink(const struct pipeline *pipeline, const char *name)
{
    struct problem problem;
    problem_set(&problem, ERROR_ARGUMENT, "stream %s has no recording%s%s",
                pipeline->stream_config->name, name != NULL ? " " : "", name != NULL ? name : "");
    return commands_failure("sink", problem.text);
}

/* Raw input has frames of its own: an event names those of the output. */
static void tell(const struct call *call, const struct pipeline_sink *sink, bool on,
                 const struct sink_record_at *at)
{
    event_raise(&(struct event_subject){.kind = EVENT_RECORD,
                                        .severity = LOG_LEVEL_NOTICE,
                                        .stream = sink->pipeline->stream_config->name,
                                        .who = call->caller.name,
                                        .framed = at->known && !sink->options.raw,
                                        .epoch = at->epoch,
                                        .frame = at->frame},
                "sink %s %s", sink->config->name, on ? "starts to record" : "stops recording");
}

static json_t *record_json(const struct pipeline_sink *sink, const struct sink_record_at *at)
{
    json_t *object =
        json_pack("{s:s, s:b}", "name", sink->config->name, "changed", (int)at->changed);
    if (at->known) {
        json_object_set_new(object, "epoch", json_integer((json_int_t)at->epoch));
        json_object_set_new(object, "frame", json_integer((json_int_t)at->frame));
    }
    return object;
}

static json_t *record(struct call *call, const json_t *request, bool on)
{
    const char *name = json_string_value(json_object_get(request, "sink"));
    json_t *failure;
    const struct pipeline *pipeline = stream_of(call, request, &failure);
    if (pipeline == NULL)
        return failure;
    json_t *recordings = json_array();
    for (uint32_t i = 0; i < pipeline->sink_count; i++) {
        const struct pipeline_sink *sink = &pipeline->sinks[i];
        struct sink_record_at at;
        if (!is_meant(sink, name))
            continue;
        if (sink->ops->record(sink->sink, on, call->caller.name, &at) != 0) {
            struct problem problem; /* asking again is safe: those before stay as they are */
            problem_set(&problem, ERROR_FULL, "sink %s: its queue is full; try again",
                        sink->config->name);
            json_decref(recordings);
            return answer_error(&problem);
        }
        if (at.changed)
            tell(call, sink, on, &at);
        json_array_append_new(recordings, record_json(sink, &at));
    }
    if (json_array_size(recordings) > 0)
        return json_pack("{s:b, s:o}", "ok", 1, "recordings", recordings);
    json_decref(recordings);
    return answer_no_sink(pipeline, name);
}

json_t *handle_record_start(struct call *call, const json_t *request)
{
    return record(call, request, true);
}

json_t *handle_record_stop(struct call *call, const json_t *request)
{
    return record(call, request, false);
}
