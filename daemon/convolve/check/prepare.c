/* Preparing plans, see prepare.h. */
#include "convolve/check/prepare.h"

#include <math.h>
#include <string.h>

#include "convolve/check/selftest.h"
#include "convolve/lost.h"
#include "convolve/object.h"
#include "convolve/plan/assemble.h"
#include "convolve/plan/plan.h"
#include "convolve/plan/reference.h"
#include "convolve/plan/shape.h"
#include "convolve/plan/variant.h"
#include "convolve/plan/wisdom.h"
#include "core/log.h"

static int spec_check(const struct engine *engine, const struct plan_spec *spec,
                      struct problem *problem)
{
    const bool good =
        spec->inputs >= 1 && spec->inputs <= CHANNELS_MAX && spec->outputs_count >= 1 &&
        spec->outputs_count <= CHANNELS_MAX && spec->taps_count >= 1 && spec->edge_count >= 1 &&
        spec->hop >= 1 && spec->hop <= HOP_MAX && spec->blocks_max >= 1 &&
        spec->blocks_max <= BLOCKS_MAX && sample_format_valid(&spec->format) &&
        (result_format_native(&spec->results) || sample_format_valid(&spec->results.format)) &&
        isfinite(spec->results.factor) && spec->decimate <= DECIMATE_MAX &&
        (spec->vector == 0 || spec->vector == 4 || spec->vector == 8 || spec->vector == 16) &&
        spec->rows <= ROWS_MOST &&
        spec->decimate_phase < (spec->decimate > 1 ? spec->decimate : 1) &&
        (spec->fft == 0 ||
         (spec->fft >= FFT_MIN && spec->fft <= FFT_MAX && (spec->fft & (spec->fft - 1)) == 0));
    if (!good)
        return problem_set(
            problem, ERROR_ARGUMENT,
            "a plan takes 1 to %d channels, blocks of 1 to %d frames, 1 to %d blocks at once, "
            "valid sample formats, an fft that is a power of two from %d to %d, a decimation of "
            "1 to %d with a phase below it, vectors of 16, 8 or 4 lanes, and 1 to %d rows a group",
            CHANNELS_MAX, HOP_MAX, BLOCKS_MAX, FFT_MIN, FFT_MAX, DECIMATE_MAX, ROWS_MOST);
    for (uint32_t e = 0; e < spec->edge_count; e++)
        if (spec->edges[e].input >= spec->inputs || spec->edges[e].output >= spec->outputs_count ||
            spec->edges[e].taps >= spec->taps_count)
            return problem_set(problem, ERROR_ARGUMENT,
                               "edge %u names a channel or filter that is not there", e);
    uint64_t floats = 0;
    for (uint32_t o = 0; o < spec->outputs_count; o++)
        floats += spec->outputs[o] == OUTPUT_COMPLEX ? 2 : 1;
    floats *= decimation_kept_most(spec->decimate > 1 ? spec->decimate : 1, spec->hop);
    if (floats > engine->planner.batch_samples ||
        spec->inputs + plan_small_rows(spec->outputs_count, spec->inputs) >
            engine->planner.batch_reports)
        return problem_set(
            problem, ERROR_LIMIT,
            "a block of %u frames gives %llu values, more than the %llu a batch can hold: use "
            "shorter blocks or raise `batch memory`",
            spec->hop, (unsigned long long)floats,
            (unsigned long long)engine->planner.batch_samples);
    return 0;
}

/* One variant, whole: 0, ERROR_UNSUPPORTED or ERROR_ACCURACY when another may do, or a real error.
 */
static int prepare_variant(struct engine *engine, const struct plan_spec *spec,
                           const struct variant *variant, struct plan **out,
                           struct problem *problem)
{
    struct layout layout;
    struct plan *plan = NULL;
    int error =
        layout_make(&engine->device, spec, variant, spec->variant != NULL, &layout, problem);
    if (error == ERROR_UNSUPPORTED || error == ERROR_LIMIT)
        return ERROR_UNSUPPORTED;
    if (error == 0)
        error = plan_build(&engine->planner, spec, &layout, &plan, problem);
    if (error != 0)
        return error;
    error = plan_self_test(engine, plan, spec, problem);
    if (error < 0) {
        if (engine_lost(engine) == ENGINE_WORKS)
            plan_discard(plan);
        else
            plan_leave(plan); /* the device may still use it */
        return error;
    }
    *out = plan;
    return 0;
}

/* The first variant of the table that can, or the one that is named. */
static int prepare_by_table(struct engine *engine, const struct plan_spec *spec, struct plan **out,
                            struct problem *problem)
{
    const struct variant *variant;
    int error = problem_set(problem, ERROR_UNSUPPORTED,
                            "no variant is named \"%s\"; convolvd --list-variants prints the names",
                            spec->variant != NULL ? spec->variant : "");
    for (int i = 0; (variant = variant_at(i)) != NULL; i++) {
        if (spec->variant != NULL && strcmp(spec->variant, variant->name) != 0)
            continue;
        error = prepare_variant(engine, spec, variant, out, problem);
        if (error != ERROR_UNSUPPORTED && error != ERROR_ACCURACY)
            break;
        if (error == ERROR_ACCURACY)
            log_warning("%s", problem != NULL ? problem->text : error_sentence(error));
    }
    return error;
}

/* What was measured for this shape. ERROR_UNSUPPORTED: nothing was, or it cannot be had any more.
 */
static int prepare_by_wisdom(struct engine *engine, const struct plan_spec *spec, struct plan **out)
{
    if (spec->variant != NULL || spec->fft != 0)
        return ERROR_UNSUPPORTED;
    char shape[WISDOM_SHAPE];
    plan_shape(spec, shape);
    const struct wisdom_entry *entry = wisdom_find(engine->planner.wisdom, shape);
    if (entry == NULL)
        return ERROR_UNSUPPORTED;
    const struct candidate *chosen = &entry->candidates[entry->chosen];
    struct plan_spec wise = *spec;
    wise.variant = chosen->variant;
    wise.fft = chosen->fft;
    wise.items = chosen->items;
    wise.vector = chosen->vector;
    wise.rows = chosen->rows;
    if (spec->hop_free)
        wise.hop = chosen->hop;
    struct problem problem;
    int error = spec_check(engine, &wise, &problem);
    if (error == 0)
        error = prepare_by_table(engine, &wise, out, &problem);
    if (error < 0)
        log_warning("the plan that was measured best on %s cannot be used (%s): it is chosen by "
                    "rule; convolvd --tune measures again",
                    entry->date, problem.text);
    return error == 0 ? 0 : ERROR_UNSUPPORTED;
}

int plan_prepare(struct engine *engine, const struct plan_spec *spec, struct plan **out,
                 struct problem *problem)
{
    *out = NULL;
    int error = spec_check(engine, spec, problem);
    if (error < 0)
        return error;
    if ((error = engine_check_works(engine, problem)) < 0)
        return error; /* a worker that hangs in the driver may hold the mutex */
    atomic_fetch_add(&engine->planner.preparing, 1);
    pthread_mutex_lock(&engine->planner.workers);
    enum plan_choice choice = PLAN_BY_WISDOM;
    if ((error = engine_check_works(engine, problem)) < 0) {
        /* lost while this worker waited for another one, and closed since, perhaps */
    } else if (plans_full(&engine->planner)) {
        error = problem_set(problem, ERROR_LIMIT, "more than %d plans on one device", PLANS_MAX);
    } else if (prepare_by_wisdom(engine, spec, out) < 0) {
        choice = spec->variant != NULL || spec->fft != 0 ? PLAN_BY_NAME : PLAN_BY_RULE;
        error = prepare_by_table(engine, spec, out, problem);
    }
    if (error == 0)
        error = plan_reference_make(spec, &(*out)->info, &(*out)->reference, problem);
    if (error < 0 && *out != NULL) {
        plan_discard(*out);
        *out = NULL;
    }
    if (error == 0) {
        (*out)->info.choice = choice;
        engine_make_resident(engine, *out);
    }
    pthread_mutex_unlock(&engine->planner.workers);
    atomic_fetch_sub(&engine->planner.preparing, 1);
    return error;
}
