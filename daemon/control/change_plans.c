/* The plans of a change request: see change_plans.h. */
#include "control/change_plans.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Plans and a ring that are out of use, on their way to be closed. */
struct retirement {
    uv_work_t work;
    struct plan *plans[3];
    struct stream_ring *ring;
};

/* ---- settings ---------------------------------------------------------------------------- */

int change_setting_open(struct change_setting *setting, uint32_t outputs)
{
    *setting = (struct change_setting){-1, calloc(outputs, sizeof *setting->gain),
                                       calloc(outputs, sizeof *setting->muted)};
    if (setting->gain == NULL || setting->muted == NULL)
        return ERROR_MEMORY;
    for (uint32_t o = 0; o < outputs; o++)
        setting->gain[o] = 1;
    return 0;
}

void change_setting_copy(struct change_setting *to, const struct change_setting *from,
                         uint32_t outputs)
{
    to->filter = from->filter;
    memcpy(to->gain, from->gain, outputs * sizeof *to->gain);
    memcpy(to->muted, from->muted, outputs * sizeof *to->muted);
}

void change_setting_close(struct change_setting *setting)
{
    free(setting->gain);
    free(setting->muted);
}

/* ---- describe: loop ---------------------------------------------------------------------- */

/* The old and the new stream with outputs that a cross-fade can mix: complex numbers in place of
 * envelopes, which are then taken after the mix, and floats in place of integers. Does nothing when
 * the outputs can be mixed as they are. */
static int describe_mixed(struct change_plans *plans, const struct config_edge *edges_in_use)
{
    const struct config_stream *stream = &plans->stream;
    uint32_t envelopes = 0;
    for (uint32_t o = 0; o < stream->output_count; o++)
        envelopes += stream->outputs[o] == OUTPUT_ENVELOPE;
    if (!plans->fade || (envelopes == 0 && result_format_native(&stream->results)))
        return 0;
    plans->mixed_forms = calloc(stream->output_count, sizeof *plans->mixed_forms);
    if (plans->mixed_forms == NULL)
        return ERROR_MEMORY;
    for (uint32_t o = 0; o < stream->output_count; o++)
        plans->mixed_forms[o] =
            stream->outputs[o] == OUTPUT_ENVELOPE ? OUTPUT_COMPLEX : stream->outputs[o];
    plans->mixed_old = *stream;
    plans->mixed_old.edges = edges_in_use;
    plans->mixed_old.outputs = plans->mixed_forms;
    plans->mixed_old.results = (struct result_format){0};
    plans->mixed_old.output_floats += envelopes;
    plans->mixed_new = plans->mixed_old;
    plans->mixed_new.edges = plans->edges;
    return 0;
}

int change_plans_describe(struct change_plans *plans, const struct pipeline *pipeline,
                          const struct config_edge *edges, const struct change_setting *setting,
                          bool fade)
{
    const struct config_stream *stream = pipeline->stream_config;
    *plans = (struct change_plans){.pipeline = pipeline, .fade = fade, .direct_filters = -1};
    plans->edges = calloc(stream->edge_count, sizeof *plans->edges);
    if (plans->edges == NULL)
        return ERROR_MEMORY;
    for (uint32_t e = 0; e < stream->edge_count; e++) {
        struct config_edge *edge = &plans->edges[e];
        *edge = stream->edges[e];
        edge->gain *= setting->muted[edge->output] ? 0 : setting->gain[edge->output];
        if (setting->filter >= 0)
            edge->filter = (uint16_t)setting->filter;
    }
    plans->stream = *stream;
    plans->stream.edges = plans->edges;
    plans->stream.hop_frames = plan_info(pipeline->plan)->hop;
    return describe_mixed(plans, edges != NULL ? edges : stream->edges);
}

/* ---- prepare: worker --------------------------------------------------------------------- */

static int make_mixed_plan(const struct pipeline *pipeline, const struct config_stream *stream,
                           struct plan **plan, struct problem *problem)
{
    double delay_frames;
    char *hash = NULL;
    int error = pipeline_make_plan(pipeline, stream, plan, &delay_frames, &hash, NULL, problem);
    free(hash);
    return error;
}

static int prepare_fade(struct change_plans *plans, struct problem *problem)
{
    const struct pipeline *pipeline = plans->pipeline;
    int error = 0;
    if (plans->mixed_forms != NULL) {
        error = make_mixed_plan(pipeline, &plans->mixed_old, &plans->mixed_old_plan, problem);
        if (error == 0)
            error = make_mixed_plan(pipeline, &plans->mixed_new, &plans->mixed_new_plan, problem);
    }
    const struct plan *old = plans->mixed_old_plan, *new = plans->mixed_new_plan;
    if (error == 0 && !engine_batch_holds(pipeline->engine, old != NULL ? old : pipeline->plan,
                                          new != NULL ? new : plans->plan))
        error = problem_set(
            problem, ERROR_LIMIT,
            "the blocks of stream %s are too large to compute two at once for a cross-fade; "
            "write s hard, or set a shorter `block`",
            pipeline->stream_config->name);
    return error;
}

int change_plans_prepare(struct change_plans *plans, struct problem *problem)
{
    const struct pipeline *pipeline = plans->pipeline;
    int error =
        pipeline_make_direct_filters(pipeline, &plans->stream, &plans->direct_filters, problem);
    if (error != 0 || pipeline_direct_only(pipeline))
        return error;
    error = pipeline_make_plan(pipeline, &plans->stream, &plans->plan, &plans->delay_frames,
                               &plans->taps_hash, &plans->recipe, problem);
    if (error == 0 && plans->fade)
        error = prepare_fade(plans, problem);
    if (error != 0)
        return error;
    error = stream_ring_prepare(pipeline->stream, plans->plan, &plans->ring, problem);
    if (error != 0)
        problem_prefix(
            problem, error,
            "this filter needs %u frames of history and a larger ring, for which there is no "
            "memory (`input memory` in [device])",
            plan_info(plans->plan)->history_frames);
    return error;
}

/* ---- close: loop ------------------------------------------------------------------------- */

static void close_retired(uv_work_t *work)
{
    struct retirement *retirement = work->data;
    for (int i = 0; i < 3; i++)
        plan_close(retirement->plans[i]);
    stream_ring_free(retirement->ring);
}

static void after_close(uv_work_t *work, int status)
{
    (void)status; /* nobody cancels it */
    free(work->data);
}

bool change_plans_retire(uv_loop_t *loop, struct plan *const plans[3], struct stream_ring *ring)
{
    struct retirement *retirement = calloc(1, sizeof *retirement);
    if (retirement == NULL)
        return false;
    *retirement = (struct retirement){
        .work.data = retirement, .plans = {plans[0], plans[1], plans[2]}, .ring = ring};
    uv_queue_work(loop, &retirement->work, close_retired, after_close);
    return true;
}

void change_plans_drop(struct change_plans *plans, uv_loop_t *loop)
{
    struct plan *const left[] = {plans->plan, plans->mixed_old_plan, plans->mixed_new_plan};
    if (plans->plan != NULL || plans->ring != NULL)
        change_plans_retire(loop, left, plans->ring);
    if (plans->direct_filters >= 0)
        close(plans->direct_filters);
    free(plans->edges);
    free(plans->mixed_forms);
    free(plans->taps_hash);
    recipe_drop(plans->recipe);
    *plans = (struct change_plans){.direct_filters = -1};
}
