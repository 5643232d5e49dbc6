/* The plan of a pipeline: how it is made, which frames it keeps, and the filters of a driver that
 * filters by itself. See pipeline.h. */
#include "pipeline/pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convolve/check/prepare.h"
#include "convolve/check/tune.h"
#include "core/clock.h"
#include "core/log.h"
#include "pipeline/job.h"
#include "pipeline/stream_filters.h"
#include "signal/decimation.h"
#include "stream/resume.h"

/* ---- making: worker thread --------------------------------------------------------------- */

/* There is a plan to be prepared again, for filters of the same length, and the specification does
 * not ask for another one. */
static bool leaves_open(const struct plan_spec *spec, const struct plan_pin *pin)
{
    uint32_t longest = 0;
    for (uint32_t e = 0; e < spec->edge_count; e++) {
        const uint32_t count = spec->taps[spec->edges[e].taps]->count;
        longest = count > longest ? count : longest;
    }
    return pin != NULL && pin->taps_longest == longest &&
           (spec->variant == NULL || strcmp(spec->variant, pin->variant) == 0) &&
           (spec->fft == 0 || spec->fft == pin->fft) && (spec->hop_free || spec->hop == pin->hop);
}

static int prepare_pinned(const struct plan_terms *terms, const struct plan_spec *spec,
                          struct plan **plan, struct problem *problem)
{
    struct plan_spec pinned = *spec;
    struct problem why;
    plan_pin_apply(terms->pin, &pinned);
    if (plan_prepare(terms->engine, &pinned, plan, &why) == 0)
        return 0;
    log_info("the plan that the daemon before used cannot be prepared: %s", why.text);
    return plan_prepare(terms->engine, spec, plan, problem);
}

struct plan_terms pipeline_plan_terms(const struct pipeline *pipeline, struct job *job)
{
    const bool runs = pipeline->plan != NULL;
    return (struct plan_terms){.config = pipeline->config,
                               .engine = pipeline->engine,
                               .variant = pipeline->variant,
                               .upstream_delay_frames = pipeline->upstream_delay_frames,
                               .hop = runs ? plan_info(pipeline->plan)->hop : 0,
                               .pin = runs ? NULL : pipeline->pin,
                               .job = job};
}

int pipeline_make_plan(const struct plan_terms *terms, const struct config_stream *config,
                       struct plan **plan, double *delay_frames, char **hash,
                       struct recipe **recipe, struct problem *problem)
{
    struct stream_filters filters;
    job_step(terms->job, config->name, "its filters are read or designed", NULL);
    int error = stream_filters_make(terms->config, config, terms->known, &filters, problem);
    if (error < 0)
        return error;
    /* The frame numbers of the results decide which frames decimation keeps. */
    const struct decimation kept = decimation_aligned(
        config->decimate, config->align ? filters.delay_frames + terms->upstream_delay_frames : 0);
    struct plan_spec spec = stream_plan_spec(config, &filters, terms->variant);
    spec.decimate_phase = kept.phase;
    if (terms->hop > 0) {
        spec.hop = terms->hop;
        spec.hop_free = false;
    }
    const bool pinned = leaves_open(&spec, terms->pin);
    if (*plan == NULL || pinned || spec.decimate_phase != plan_info(*plan)->decimate_phase) {
        plan_close(*plan);
        *plan = NULL;
        job_step(terms->job, NULL, "its plan is built and tested on the device", terms->engine);
        error = pinned ? prepare_pinned(terms, &spec, plan, problem)
                       : plan_prepare(terms->engine, &spec, plan, problem);
    }
    if (error < 0) {
        problem_prefix(problem, error, "%s:%u: stream %s", config->place.file, config->place.line,
                       config->name);
    } else {
        static const char *const choices[] = {[PLAN_BY_RULE] = "by rule",
                                              [PLAN_BY_NAME] = "as asked for",
                                              [PLAN_BY_WISDOM] = "by measurement"};
        const struct plan_info *info = plan_info(*plan);
        char format[24], way[PLAN_WAY];
        const bool native = result_format_native(&info->results);
        /* A change request prepares a plan too, and faders send many. */
        log_line(terms->hop == 0 ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG,
                 "stream %s: variant %s, blocks of %u frames, N = %u, %u partition%s, results in "
                 "%s, chosen %s",
                 config->name, plan_way(way, info->variant, 0, info->vector, info->rows), info->hop,
                 info->fft, info->partitions, info->partitions == 1 ? "" : "s",
                 native ? "floats" : sample_format_name(&info->results.format, format),
                 choices[info->choice]);
        *delay_frames = filters.delay_frames;
        *hash = filters.hash;
        filters.hash = NULL;
        if (recipe != NULL && (*recipe = recipe_make(&filters, &spec, *plan)) == NULL)
            log_warning("stream %s: no memory to make its plan again on another device",
                        config->name);
    }
    stream_filters_free(&filters);
    return error;
}

void pipeline_take_recipe(struct pipeline *pipeline, struct recipe *recipe)
{
    recipe_drop(pipeline->recipe);
    pipeline->recipe = recipe;
    pipeline->standby.changed_ns = clock_monotonic_ns();
}

/* ---- direct mode ------------------------------------------------------------------------- */

void pipeline_set_direct_filters(struct pipeline *pipeline, int filters)
{
    pipeline->stream_config->driver->direct->set(&pipeline->environment, pipeline->direct, filters);
}

bool pipeline_direct_only(const struct pipeline *pipeline)
{
    return pipeline->direct_only;
}

/* ---- frame numbers ----------------------------------------------------------------------- */

static struct decimation kept_frames(const struct pipeline *pipeline)
{
    const struct plan_info *info = plan_info(pipeline->plan);
    return (struct decimation){info->decimate, info->decimate_phase};
}

/* Output frames that alignment leaves out at an epoch's start. */
static uint64_t output_shift(const struct pipeline *pipeline)
{
    const struct config_stream *config = pipeline->stream_config;
    double delay_frames = pipeline->delay_frames + pipeline->upstream_delay_frames;
    return config->align ? decimation_shift(config->decimate, delay_frames) : 0;
}

uint64_t pipeline_next_output(const struct pipeline *pipeline)
{
    const struct decimation kept = kept_frames(pipeline);
    uint64_t next = decimation_output(&kept, stream_next_frame(pipeline->stream));
    uint64_t shift = output_shift(pipeline);
    return next > shift ? next - shift : 0;
}

uint64_t pipeline_output_frame(const struct pipeline *pipeline, uint64_t input)
{
    const struct decimation kept = kept_frames(pipeline);
    const uint64_t frame = decimation_output(&kept, input), shift = output_shift(pipeline);
    return frame > shift ? frame - shift : 0;
}

uint64_t pipeline_input_frame(const struct pipeline *pipeline, uint64_t output)
{
    const struct decimation kept = kept_frames(pipeline);
    return decimation_input(&kept, output + output_shift(pipeline));
}

/* ---- what a source asks ------------------------------------------------------------------ */

uint64_t pipeline_epoch(void *context)
{
    const struct pipeline *pipeline = context;
    struct stream_numbers numbers;
    stream_numbers(pipeline->stream, &numbers);
    return numbers.epochs - 1;
}

void pipeline_source_plan(void *context, struct source_plan *plan)
{
    const struct pipeline *pipeline = context;
    const struct plan_info *info = plan_info(pipeline->plan);
    struct plan_pin pin;
    plan_pin_of(info, engine_device(pipeline->engine), &pin);
    plan->shape = (struct term_plan){
        .history = stream_ring_now(pipeline->stream).history, /* of any plan that it may get */
        .hop = pin.hop,
        .decimate = pin.decimate > 0 ? pin.decimate : 1};
    snprintf(plan->pinned, sizeof plan->pinned,
             "variant=%s hop=%u fft=%u partitions=%u vector=%u items=%u decimate=%u+%u history=%u "
             "device=%s",
             pin.variant, pin.hop, pin.fft, pin.partitions, pin.vector, pin.items, pin.decimate,
             pin.decimate_phase, pin.history, pin.device);
    snprintf(plan->filters, sizeof plan->filters, "%s",
             pipeline->recipe != NULL ? recipe_digest(pipeline->recipe) : "");
}
