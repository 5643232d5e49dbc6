/* The plans of a change request: see change_plans.h. */
#include "control/change_plans.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/closing.h"
#include "pipeline/direct.h"

/* Plans and a ring that are out of use, on their way to be closed. */
struct retirement {
    struct closing closing;
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
static int describe_mixed(struct change_plans *plans)
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
    plans->mixed_old.edges = plans->edges_in_use;
    plans->mixed_old.outputs = plans->mixed_forms;
    plans->mixed_old.results = (struct result_format){0};
    plans->mixed_old.output_floats += envelopes;
    plans->mixed_new = plans->mixed_old;
    plans->mixed_new.edges = plans->edges;
    return 0;
}

static int describe(struct change_plans *plans, const struct pipeline *pipeline,
                    const struct config_edge *edges, const struct change_setting *setting)
{
    const struct config_stream *stream = pipeline->stream_config;
    const size_t edges_bytes = stream->edge_count * sizeof *plans->edges;
    plans->edges = malloc(edges_bytes);
    plans->edges_in_use = malloc(edges_bytes);
    if (plans->edges == NULL || plans->edges_in_use == NULL)
        return ERROR_MEMORY;
    memcpy(plans->edges_in_use, edges != NULL ? edges : stream->edges, edges_bytes);
    plans->terms.known = plans->edges_in_use;
    for (uint32_t e = 0; e < stream->edge_count; e++) {
        struct config_edge *edge = &plans->edges[e];
        *edge = stream->edges[e];
        edge->gain *= setting->muted[edge->output] ? 0 : setting->gain[edge->output];
        if (setting->filter >= 0)
            edge->filter = (uint16_t)setting->filter;
    }
    plans->stream = *stream;
    plans->stream.edges = plans->edges;
    plans->stream.hop_frames = plans->terms.hop;
    return describe_mixed(plans);
}

static void prepare(struct job *job);
static void discard(struct job *job);

struct change_plans *change_plans_describe(const struct pipeline *pipeline,
                                           const struct config_edge *edges,
                                           const struct change_setting *setting, bool fade)
{
    struct change_plans *plans = calloc(1, sizeof *plans);
    if (plans == NULL)
        return NULL;
    job_open(&plans->job, JOB_OF_CHANGE, prepare, discard);
    plans->config = config_hold(pipeline->config);
    plans->terms = pipeline_plan_terms(pipeline, &plans->job);
    plans->ring_now = stream_ring_now(pipeline->stream);
    plans->ring_now.options.name = pipeline->stream_config->name;
    plans->fade = fade;
    plans->direct = pipeline->direct != NULL;
    plans->direct_only = pipeline_direct_only(pipeline);
    plans->direct_filters = -1;
    if (describe(plans, pipeline, edges, setting) == 0)
        return plans;
    discard(&plans->job);
    return NULL;
}

/* ---- prepare: the job's thread ----------------------------------------------------------- */

static int make_mixed_plan(const struct plan_terms *terms, const struct config_stream *stream,
                           struct plan **plan, struct problem *problem)
{
    double delay_frames;
    char *hash = NULL;
    struct plan_terms made_before = *terms;
    made_before.known = stream->edges;
    int error = pipeline_make_plan(&made_before, stream, plan, &delay_frames, &hash, NULL, problem);
    free(hash);
    return error;
}

static int prepare_mixed(struct change_plans *plans, struct problem *problem)
{
    int error = make_mixed_plan(&plans->terms, &plans->mixed_old, &plans->mixed_old_plan, problem);
    return error < 0
               ? error
               : make_mixed_plan(&plans->terms, &plans->mixed_new, &plans->mixed_new_plan, problem);
}

static int prepare_all(struct change_plans *plans, struct problem *problem)
{
    int error = 0;
    job_step(&plans->job, plans->stream.name, "its filters are read or designed", NULL);
    if (plans->direct)
        error = direct_filters(plans->config, &plans->stream, plans->terms.known,
                               &plans->direct_filters, problem);
    if (error != 0 || plans->direct_only)
        return error;
    if (plans->direct)
        plans->terms.known = plans->edges;
    error = pipeline_make_plan(&plans->terms, &plans->stream, &plans->plan, &plans->delay_frames,
                               &plans->taps_hash, &plans->recipe, problem);
    if (error == 0 && plans->mixed_forms != NULL)
        error = prepare_mixed(plans, problem);
    if (error != 0)
        return error;
    error = stream_ring_prepare(plans->terms.engine, &plans->ring_now, plans->plan, &plans->ring,
                                problem);
    if (error != 0)
        problem_prefix(
            problem, error,
            "this filter needs %u frames of history and a larger ring, for which there is no "
            "memory (`input memory` in [device])",
            plan_info(plans->plan)->history_frames);
    return error;
}

static void prepare(struct job *job)
{
    struct change_plans *plans = (struct change_plans *)job;
    plans->error = prepare_all(plans, &plans->problem);
}

/* What is no plan and no ring. */
static void free_rest(struct change_plans *plans)
{
    if (plans->direct_filters >= 0)
        close(plans->direct_filters);
    free(plans->edges);
    free(plans->edges_in_use);
    free(plans->mixed_forms);
    free(plans->taps_hash);
    recipe_drop(plans->recipe);
    config_free(plans->config);
    job_close(&plans->job);
    free(plans);
}

static void discard(struct job *job)
{
    struct change_plans *plans = (struct change_plans *)job;
    plan_close(plans->plan);
    plan_close(plans->mixed_old_plan);
    plan_close(plans->mixed_new_plan);
    stream_ring_free(plans->ring);
    free_rest(plans);
}

/* ---- take: loop -------------------------------------------------------------------------- */

int change_plans_check_fade(const struct change_plans *plans, const struct pipeline *pipeline,
                            struct problem *problem)
{
    const struct plan *old = plans->mixed_old_plan, *new = plans->mixed_new_plan;
    if (!plans->fade || engine_batch_holds(pipeline->engine, old != NULL ? old : pipeline->plan,
                                           new != NULL ? new : plans->plan))
        return 0;
    return problem_set(
        problem, ERROR_LIMIT,
        "the blocks of stream %s are too large to compute two at once for a cross-fade; "
        "write s hard, or set a shorter `block`",
        pipeline->stream_config->name);
}

/* ---- close: loop ------------------------------------------------------------------------- */

static void close_retired(struct closing *closing)
{
    struct retirement *retirement = (struct retirement *)closing;
    for (int i = 0; i < 3; i++)
        plan_close(retirement->plans[i]);
    stream_ring_free(retirement->ring);
    free(retirement);
}

bool change_plans_retire(const struct engine *engine, struct plan *const plans[3],
                         struct stream_ring *ring)
{
    struct retirement *retirement = calloc(1, sizeof *retirement);
    if (retirement == NULL)
        return false;
    *retirement = (struct retirement){
        .closing.close = close_retired, .plans = {plans[0], plans[1], plans[2]}, .ring = ring};
    closing_begin(engine, &retirement->closing);
    return true;
}

void change_plans_drop(struct change_plans *plans)
{
    if (plans == NULL)
        return;
    struct plan *const left[] = {plans->plan, plans->mixed_old_plan, plans->mixed_new_plan};
    if (plans->plan != NULL || plans->ring != NULL)
        change_plans_retire(plans->terms.engine, left, plans->ring);
    free_rest(plans);
}
