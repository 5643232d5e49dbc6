/* Devices: see devices.h. */
#include "pipeline/devices.h"

#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "pipeline/device_options.h"
#include "pipeline/stream_filters.h"

struct devices {
    uv_loop_t *loop;
    void (*progress)(void *context);
    void *context;
    const char *kernels_dir;
    struct seat seats[DEVICES_SEATED_MAX];
    uint32_t count;     /* WORKER: with an engine */
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

/* DEVICE thread: only batches ring, and they come from a scheduler, which comes after the doorbell.
 */
static void wake(void *context)
{
    doorbell_ring(((struct seat *)context)->doorbell);
}

/* ---- seats: worker ----------------------------------------------------------------------- */

/* The seat on device `index` of the list, opened when it is new. */
static int seat_at(struct devices *devices, const struct config *config, int index,
                   struct seat **out, struct problem *problem)
{
    for (uint32_t i = 0; i < devices->count; i++)
        if (devices->seats[i].index == index) {
            *out = &devices->seats[i];
            return 0;
        }
    if (devices->count == DEVICES_SEATED_MAX)
        return problem_set(problem, ERROR_LIMIT, "more than %d devices; name fewer of them",
                           DEVICES_SEATED_MAX);
    struct seat *seat = &devices->seats[devices->count];
    char number[16];
    snprintf(number, sizeof number, "%d", index);
    struct engine_options options = device_options(config, devices->kernels_dir);
    options.device = number;
    options.wake = wake;
    options.wake_context = seat;
    int error = engine_open(&options, &seat->engine, problem);
    if (error < 0)
        return error;
    seat->index = index;
    devices->count++;
    *out = seat;
    return 0;
}

static int seat_named(struct devices *devices, const struct config *config, const char *name,
                      struct seat **out, struct problem *problem)
{
    const struct engine_options options = device_options(config, devices->kernels_dir);
    int index = device_index(name, options.cpu_threads, problem);
    return index < 0 ? index : seat_at(devices, config, index, out, problem);
}

/* The share of the device's time that the stream would need there, by a plan made for it. */
static int measure_load(struct seat *seat, const struct config_stream *stream,
                        const struct plan_spec *spec, struct plan **plan, double *load,
                        struct problem *problem)
{
    int error = plan_prepare(seat->engine, spec, plan, problem);
    if (error < 0)
        return error;
    const double frames = (double)stream->blocks_max * plan_info(*plan)->hop;
    *load =
        (double)plan_cost_ns(*plan, stream->blocks_max) * 1e-9 * stream->source.rate_hz / frames;
    return 0;
}

/* A device that cannot compute it (its memory is full) is passed over. */
static int seat_least_loaded(struct devices *devices, const struct config *config,
                             const struct config_stream *stream, const char *variant,
                             struct seat **out, double *load, struct plan **plan,
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
        struct seat *seat = &devices->seats[i];
        struct plan *its = NULL;
        double own = 0;
        const int result = measure_load(seat, stream, &spec, &its, &own, problem);
        if (result < 0) {
            error = *out == NULL ? result : error;
            continue;
        }
        if (*out == NULL || seat->load + own < (*out)->load + *load) {
            struct plan *other = *plan;
            *out = seat;
            *load = own;
            *plan = its;
            its = other;
        }
        plan_close(its);
    }
    stream_filters_free(&filters);
    return *out != NULL ? 0 : error;
}

int devices_prepare(struct devices *devices, const struct config *config, struct problem *problem)
{
    struct seat *seat;
    if (strcmp(config->device.device, DEVICE_ALL) != 0)
        return seat_named(devices, config, config->device.device, &seat, problem);
    const struct engine_options options = device_options(config, devices->kernels_dir);
    const int present = device_list(NULL, 0, options.cpu_threads, problem);
    int opened = 0, error = present < 0 ? present : ERROR_NO_DEVICE;
    for (int i = 0; i < present && i < DEVICES_SEATED_MAX; i++) {
        const int result = seat_at(devices, config, i, &seat, problem);
        if (result == 0)
            opened++;
        else
            log_warning("device %d is left out: %s", i, problem->text);
        error = result < 0 ? result : error;
    }
    return opened > 0 ? 0 : error;
}

int devices_seat(struct devices *devices, const struct config *config,
                 const struct config_stream *stream, const char *variant, struct seat *upstream,
                 struct seat **out, double *load, struct plan **plan, struct problem *problem)
{
    const char *name = stream->device != NULL ? stream->device : config->device.device;
    int error = 0;
    *load = 0;
    *plan = NULL;
    if (stream->device == NULL && upstream != NULL)
        *out = upstream;
    else if (strcmp(name, DEVICE_ALL) != 0)
        error = seat_named(devices, config, name, out, problem);
    else if (devices->count > 1)
        error = seat_least_loaded(devices, config, stream, variant, out, load, plan, problem);
    else
        *out = &devices->seats[0];
    if (error < 0)
        return problem_prefix(problem, error, "%s:%u: stream %s", stream->place.file,
                              stream->place.line, stream->name);
    if (devices->count > 1)
        log_info("stream %s: on device %d (%s)", stream->name, (*out)->index,
                 engine_device((*out)->engine)->name);
    (*out)->load += *load;
    return 0;
}

void devices_leave(struct seat *seat, double load)
{
    seat->load -= load;
}

/* ---- loop -------------------------------------------------------------------------------- */

int devices_connect(struct devices *devices, struct problem *problem)
{
    int error = 0;
    for (; devices->connected < devices->count && error == 0; devices->connected++) {
        struct seat *seat = &devices->seats[devices->connected];
        if (seat->doorbell == NULL && doorbell_open(devices->loop, &seat->doorbell) < 0)
            return problem_set(problem, ERROR_SYSTEM,
                               "no wake-up handle; raise the limit of open files (ulimit -n)");
        error =
            scheduler_open(devices->loop, seat->engine, seat->doorbell, &seat->scheduler, problem);
        if (error < 0)
            break;
        scheduler_on_progress(seat->scheduler, devices->progress, devices->context);
    }
    return error;
}

void devices_kick(struct devices *devices)
{
    for (uint32_t i = 0; i < devices->connected; i++)
        scheduler_kick(devices->seats[i].scheduler);
}

const struct seat *devices_at(const struct devices *devices, uint32_t i)
{
    return i < devices->connected ? &devices->seats[i] : NULL;
}

void devices_close(struct devices *devices)
{
    if (devices == NULL)
        return;
    for (uint32_t i = 0; i < DEVICES_SEATED_MAX; i++) {
        scheduler_close(devices->seats[i].scheduler);
        doorbell_close(devices->seats[i].doorbell);
    }
}

void devices_free(struct devices *devices)
{
    if (devices == NULL)
        return;
    for (uint32_t i = 0; i < devices->count; i++)
        engine_close(devices->seats[i].engine);
    free(devices);
}
