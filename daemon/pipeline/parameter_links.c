/* Parameter links: see parameter_links.h. */
#include "pipeline/parameter_links.h"

#include "core/log.h"
#include "pipeline/parameter_inlet.h"

static void connect_link(struct pipeline *other, const struct pipeline *pipeline,
                         struct parameter_link *link)
{
    const struct result_port port = {.context = link,
                                     .put = parameter_link_put,
                                     .room = link->inlet->waits ? parameter_link_room : NULL};
    if (link->refused || stream_has_port(other->stream, link))
        return;
    link->refused = stream_add_port(other->stream, &port) != 0;
    if (link->refused)
        log_error("stream %s has too many readers, so events of stream %s lack its parameters; "
                  "give it at most 16",
                  link->stream, pipeline->stream_config->name);
}

static void update(const struct pipelines *pipelines, const struct pipeline *pipeline,
                   const struct pipeline_analysis *analysis, struct parameter_link *link)
{
    struct pipeline *other = pipelines_find(pipelines, link->stream);
    const bool finished =
        pipeline->ended && stream_drained(pipeline->stream) && analysis_stage_idle(analysis->stage);
    atomic_store(&link->unbounded, finished || pipeline->retired);
    if (other != NULL && other->scheduled && !pipeline->retired)
        connect_link(other, pipeline, link);
    atomic_store(&link->over, other == NULL || (other->ended && stream_drained(other->stream)));
    if (link->inlet->waits && other != NULL && other->scheduled)
        scheduler_kick(other->scheduler);
}

void parameter_links_update(struct pipelines *pipelines)
{
    const struct pipeline *pipeline;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_ALL, &at)) != NULL;)
        for (uint32_t i = 0; pipeline->scheduled && i < pipeline->analysis_count; i++) {
            const struct pipeline_analysis *analysis = &pipeline->analyses[i];
            struct parameter_inlet *inlet = analysis_stage_parameters(analysis->stage);
            for (uint32_t k = 0; inlet != NULL && k < inlet->count; k++)
                update(pipelines, pipeline, analysis, &inlet->links[k]);
        }
}

/* Of one analysis, on every stream that may have its ports. */
static void remove_ports(struct pipelines *pipelines, struct pipeline *const *leaving,
                         uint32_t count, const struct parameter_inlet *inlet)
{
    for (uint32_t k = 0; k < inlet->count; k++) {
        const struct pipeline *other;
        for (uint32_t at = 0; (other = pipelines_next(pipelines, PIPELINES_ALL, &at)) != NULL;)
            if (other->stream != NULL)
                stream_remove_port(other->stream, &inlet->links[k]);
        for (uint32_t i = 0; i < count; i++)
            if (leaving[i]->stream != NULL)
                stream_remove_port(leaving[i]->stream, &inlet->links[k]);
    }
}

void parameter_links_remove(struct pipelines *pipelines, struct pipeline *const *leaving,
                            uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t a = 0; a < leaving[i]->analysis_count; a++) {
            const struct analysis_stage *stage = leaving[i]->analyses[a].stage;
            if (stage != NULL && analysis_stage_parameters(stage) != NULL)
                remove_ports(pipelines, leaving, count, analysis_stage_parameters(stage));
        }
}
