/* Devices in use and the choice among them: see devices.h. */
#include "pipeline/devices.h"

#include <stdlib.h>
#include <string.h>

#include "convolve/check/prepare.h"
#include "core/log.h"
#include "pipeline/device_options.h"
#include "pipeline/stream_filters.h"

struct devices {
    uv_loop_t *loop;
    void (*progress)(void *context);
    void *context;
    const char *kernels_dir;
    struct placement placements[DEVICES_USED_MAX];
    uint32_t count;     /* WORKER: with an engine */
    uint64_t unusable;  /* WORKER: bit i: device i did not open, "auto" passes it over */
    uint32_t connected; /* LOOP: with a scheduler */
};

int devices_open(uv_loop_t *loop, void (*progress)(void *context), void *context,
                 const char *kernels_dir, struct devices **out, struct problem *problem)
{
    struct devices *devices = calloc(1, sizeof *devices);
    if (devices == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    *devices = (struct devices){
        .loop = loop, .progress = progress, .context = context, .kernels_dir = kernels_dir};
    *out = devices;
    return 0;
}

/* DEVICE thread. Only batches ring, and only schedulers submit them: the doorbell exists by then.
 */
static void wake(void *context)
{
    scheduler_bell_ring(((struct placement *)context)->doorbell);
}

/* ---- placing: worker --------------------------------------------------------------------- */

/* The placement on device `index` of the list; opens the engine of a device not yet in use. */
static int placement_at(struct devices *devices, const struct config *config, int index,
                        struct placement **out, struct problem *problem)
{
    for (uint32_t i = 0; i < devices->count; i++)
        if (devices->placements[i].index == index) {
            *out = &devices->placements[i];
            return 0;
        }
    if (devices->count == DEVICES_USED_MAX)
        return problem_set(problem, ERROR_LIMIT, "more than %d devices; name fewer of them",
                           DEVICES_USED_MAX);
    struct placement *placement = &devices->placements[devices->count];
    char number[16];
    snprintf(number, sizeof number, "%d", index);
    struct engine_options options = device_options(config, devices->kernels_dir);
    options.device = number;
    options.wake = wake;
    options.wake_context = placement;
    int error = engine_open(&options, &placement->engine, problem);
    if (error < 0)
        return error;
    placement->index = index;
    devices->count++;
    *out = placement;
    return 0;
}

/* With "auto" the engine decides: the best device on which it opens. */
static int place_by_name(struct devices *devices, const struct config *config, const char *name,
                         struct placement **out, struct problem *problem)
{
    const struct engine_options options = device_options(config, devices->kernels_dir);
    int candidates[DEVICES_USED_MAX];
    int count = device_candidates(name, options.cpu_threads, candidates, DEVICES_USED_MAX, problem);
    if (count < 0)
        return count;
    if (strcmp(name, DEVICE_AUTO) != 0)
        count = 1;
    int error = ERROR_NO_DEVICE;
    for (int i = 0; i < count && i < DEVICES_USED_MAX; i++) {
        const uint64_t bit = UINT64_C(1) << candidates[i];
        if (i + 1 < count && (devices->unusable & bit) != 0)
            continue;
        error = placement_at(devices, config, candidates[i], out, problem);
        if (error == 0)
            return 0;
        if (i + 1 < count)
            log_warning("device %d cannot be used, the next one is tried: %s", candidates[i],
                        problem->text);
        devices->unusable |= bit;
    }
    return error;
}

/* *load: the share of the device's time that the stream would need there, measured with *plan. */
static int measure_load(struct placement *placement, const struct config_stream *stream,
                        const struct plan_spec *spec, struct plan **plan, double *load,
                        struct problem *problem)
{
    int error = plan_prepare(placement->engine, spec, plan, problem);
    if (error < 0)
        return error;
    const double frames = (double)stream->blocks_max * plan_info(*plan)->hop;
    *load =
        (double)plan_cost_ns(*plan, stream->blocks_max) * 1e-9 * stream->source.rate_hz / frames;
    return 0;
}

/* Skips a device that cannot compute the stream, such as one whose memory is full. */
static int place_by_load(struct devices *devices, const struct config *config,
                         const struct config_stream *stream, const char *variant,
                         struct placement **out, double *load, struct plan **plan,
                         struct problem *problem)
{
    struct stream_filters filters;
    int error = stream_filters_make(config, stream, &filters, problem);
    if (error < 0)
        return error;
    const struct plan_spec spec = stream_plan_spec(stream, &filters, variant);
    error = ERROR_NO_DEVICE;
    *out = NULL;
    for (uint32_t i = 0; i < devices->count; i++) {
        struct placement *placement = &devices->placements[i];
        struct plan *candidate = NULL;
        double added = 0;
        const int result = measure_load(placement, stream, &spec, &candidate, &added, problem);
        if (result < 0) {
            error = *out == NULL ? result : error;
            continue;
        }
        if (*out == NULL || placement->load + added < (*out)->load + *load) {
            struct plan *beaten = *plan;
            *out = placement;
            *load = added;
            *plan = candidate;
            candidate = beaten;
        }
        plan_close(candidate);
    }
    stream_filters_free(&filters);
    return *out != NULL ? 0 : error;
}

int devices_prepare(struct devices *devices, const struct config *config, struct problem *problem)
{
    struct placement *placement;
    if (strcmp(config->device.device, DEVICE_ALL) != 0)
        return place_by_name(devices, config, config->device.device, &placement, problem);
    const struct engine_options options = device_options(config, devices->kernels_dir);
    const int present = device_list(NULL, 0, options.cpu_threads, problem);
    int opened = 0, error = present < 0 ? present : ERROR_NO_DEVICE;
    for (int i = 0; i < present && i < DEVICES_USED_MAX; i++) {
        const int result = placement_at(devices, config, i, &placement, problem);
        if (result == 0)
            opened++;
        else
            log_warning("device %d is left out: %s", i, problem->text);
        error = result < 0 ? result : error;
    }
    return opened > 0 ? 0 : error;
}

int devices_place(struct devices *devices, const struct config *config,
                  const struct config_stream *stream, const char *variant,
                  struct placement *upstream, struct placement **out, double *load,
                  struct plan **plan, struct problem *problem)
{
    const char *name = stream->device != NULL ? stream->device : config->device.device;
    int error = 0;
    *load = 0;
    *plan = NULL;
    if (stream->device == NULL && upstream != NULL)
        *out = upstream;
    else if (strcmp(name, DEVICE_ALL) != 0)
        error = place_by_name(devices, config, name, out, problem);
    else if (devices->count > 1)
        error = place_by_load(devices, config, stream, variant, out, load, plan, problem);
    else
        *out = &devices->placements[0];
    if (error < 0)
        return problem_prefix(problem, error, "%s:%u: stream %s", stream->place.file,
                              stream->place.line, stream->name);
    if (devices->count > 1)
        log_info("stream %s: on device %d (%s)", stream->name, (*out)->index,
                 engine_device((*out)->engine)->name);
    (*out)->load += *load;
    return 0;
}

void devices_displace(struct placement *placement, double load)
{
    placement->load -= load;
}

/* ---- loop -------------------------------------------------------------------------------- */

int devices_connect(struct devices *devices, struct problem *problem)
{
    int error = 0;
    for (; devices->connected < devices->count && error == 0; devices->connected++) {
        struct placement *placement = &devices->placements[devices->connected];
        if (placement->doorbell == NULL &&
            scheduler_bell_open(devices->loop, &placement->doorbell) < 0)
            return problem_set(problem, ERROR_SYSTEM,
                               "no wake-up handle; raise the limit of open files (ulimit -n)");
        error = scheduler_open(devices->loop, placement->engine, placement->doorbell,
                               &placement->scheduler, problem);
        if (error < 0)
            break;
        scheduler_on_progress(placement->scheduler, devices->progress, devices->context);
    }
    return error;
}

void devices_kick(struct devices *devices)
{
    for (uint32_t i = 0; i < devices->connected; i++)
        scheduler_kick(devices->placements[i].scheduler);
}

const struct placement *devices_at(const struct devices *devices, uint32_t i)
{
    return i < devices->connected ? &devices->placements[i] : NULL;
}

void devices_close(struct devices *devices)
{
    if (devices == NULL)
        return;
    for (uint32_t i = 0; i < DEVICES_USED_MAX; i++) {
        scheduler_close(devices->placements[i].scheduler);
        scheduler_bell_close(devices->placements[i].doorbell);
    }
}

void devices_free(struct devices *devices)
{
    if (devices == NULL)
        return;
    for (uint32_t i = 0; i < devices->count; i++)
        engine_close(devices->placements[i].engine);
    free(devices);
}
