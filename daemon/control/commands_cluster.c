/* The command about partitions of a cluster: see commands.h. */
#include <inttypes.h>

#include "control/commands_internal.h"

/* A sink that appends the results of the partition, and owns its log if any of them does; NULL: no
 * sink of this daemon appends to it. *term: the one that ends; 0: it owns nothing. */
static const struct pipeline_sink *give_up(const struct commands *commands, const char *partition,
                                           uint64_t *term)
{
    const struct pipeline_sink *found = NULL;
    struct pipeline *pipeline;
    *term = 0;
    for (uint32_t at = 0;
         *term == 0 &&
         (pipeline = pipelines_next(commands->process->pipelines, PIPELINES_RUNNING, &at)) != NULL;)
        for (uint32_t i = 0; *term == 0 && i < pipeline->sink_count; i++) {
            const struct pipeline_sink *sink = &pipeline->sinks[i];
            if (sink->sink != NULL && sink->ops->hand_over != NULL &&
                sink->ops->hand_over(sink->sink, partition, term))
                found = sink;
        }
    return found;
}

json_t *handle_hand_over(struct call *call, const json_t *request)
{
    const char *partition = json_string_value(json_object_get(request, "partition"));
    uint64_t term;
    const struct pipeline_sink *sink = give_up(call->commands, partition, &term);
    if (sink == NULL)
        return commands_failure("partition", "this daemon computes no partition of that name");
    if (term == 0)
        return commands_failure("partition", "this daemon does not own the partition now; the "
                                             "status says who does: ask that one");
    event_raise(&(struct event_subject){.kind = EVENT_HAND_OVER,
                                        .severity = LOG_LEVEL_NOTICE,
                                        .stream = sink->pipeline->stream_config->name,
                                        .who = call->caller.name},
                "partition %s is handed over: term %" PRIu64 " ends", partition, term);
    return json_pack("{s:b, s:s, s:I}", "ok", 1, "partition", partition, "term", (json_int_t)term);
}
