/* Checks of change requests: see change_checks.h. */
#include "control/change_checks.h"

#include "pipeline/pipelines.h"

static const double load_max = 0.9;

static double load_of(const struct pipeline *pipeline, const struct plan *plan)
{
    uint32_t blocks = pipeline->stream_config->blocks_max;
    return (double)plan_cost_ns(plan, blocks) / (blocks * stream_block_period_ns(pipeline->stream));
}

int change_check_load(const struct process *process, const struct pipeline *changed,
                      const struct plan *plan, struct problem *problem)
{
    const struct pipeline *pipeline;
    double before = 0, after = 0;
    for (uint32_t at = 0;
         (pipeline = pipelines_next(process->pipelines, PIPELINES_RUNNING, &at)) != NULL;) {
        if (!stream_is_live(pipeline->stream) || pipeline->placement != changed->placement)
            continue;
        double now = load_of(pipeline, pipeline->plan);
        before += now;
        after += pipeline == changed ? load_of(pipeline, plan) : now;
    }
    if (after <= load_max || after <= before)
        return 0;
    return problem_set(
        problem, ERROR_LIMIT,
        "the load would be %.0f %%, more than %.0f %%; shorten the filter, or use longer "
        "blocks",
        100 * after, 100 * load_max);
}

/* With `align` frame numbers include the delay, so another delay would number some frames twice. */
int change_check_delay(const struct pipeline *pipeline, double delay_frames,
                       struct problem *problem)
{
    if (!pipeline->stream_config->align || delay_frames == pipeline->delay_frames)
        return 0;
    return problem_set(
        problem, ERROR_UNSUPPORTED,
        "stream %s is aligned, and this filter delays by %g frames where the one in use delays by "
        "%g; give both one delay, or set `align = no`",
        pipeline->stream_config->name, delay_frames, pipeline->delay_frames);
}
