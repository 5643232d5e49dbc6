/* The command about partitions of a cluster: see commands.h. */
#include <inttypes.h>

#include "control/commands_internal.h"

/* A sink that appends the results of the partition, and owns its log if any of them does; NULL: no
 * sink of this daemon appends to it. *term: the one that ends; 0: none, as *problem says. */
static const struct pipeline_sink *give_up(const struct commands *commands, const char *partition,
                                           const char *worker, uint64_t *term,
                                           struct problem *problem)
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
                sink->ops->hand_over(sink->sink, partition, worker, term, problem))
                found = sink;
        }
    return found;
}

json_t *handle_hand_over(struct call *call, const json_t *request)
{
    const char *partition = json_string_value(json_object_get(request, "partition"));
    const char *worker = json_string_value(json_object_get(request, "worker"));
    uint64_t term;
    struct problem problem = {0};
    const struct pipeline_sink *sink = give_up(call->commands, partition, worker, &term, &problem);
    if (sink == NULL)
        return commands_failure("partition", "this daemon computes no partition of that name");
    if (term == 0)
        return commands_failure("partition", problem.text);
    event_raise(&(struct event_subject){.kind = EVENT_HAND_OVER,
                                        .severity = LOG_LEVEL_NOTICE,
                                        .stream = sink->pipeline->stream_config->name,
                                        .who = call->caller.name},
                "partition %s is handed over%s%s: term %" PRIu64 " ends", partition,
                worker != NULL ? " to " : "", worker != NULL ? worker : "", term);
    return json_pack("{s:b, s:s, s:I}", "ok", 1, "partition", partition, "term", (json_int_t)term);
}
