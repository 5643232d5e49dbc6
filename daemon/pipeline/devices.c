/* Devices in use and the choice among them: see devices.h. */
#include "pipeline/devices.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "convolve/check/prepare.h"
#include "core/log.h"
#include "core/loop_bell.h"
#include "pipeline/device_options.h"
#include "pipeline/nodes.h"
#include "pipeline/stream_filters.h"

struct devices {
    struct loops *loops;
    void (*progress)(void *context, uint32_t loop);
    void *context;
    const char *kernels_dir;
    struct placement placements[PLACEMENTS_MAX];
    uint32_t count;     /* WORKER: with an engine */
    uint64_t unusable;  /* WORKER: bit i: device i did not open, "auto" passes it over */
    uint32_t connected; /* LOOP: with a scheduler */
    struct nodes nodes;
    struct loop_bell losses; /* LOOP: a loop beside the main one has found a device lost; not
                                open until devices_connect */
    void (*lost)(void *context, struct placement *placement);
    void *lost_context;
};

/* A stream is placed while one that a reload has replaced is freed. */
static pthread_mutex_t load_mutex = PTHREAD_MUTEX_INITIALIZER;

static double change_load(struct placement *placement, double by)
{
    pthread_mutex_lock(&load_mutex);
    const double load = placement->load += by;
    pthread_mutex_unlock(&load_mutex);
    return load;
}

int devices_open(const struct devices_options *options, struct devices **out,
                 struct problem *problem)
{
    struct devices *devices = calloc(1, sizeof *devices);
    if (devices == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    *devices = (struct devices){.loops = options->loops,
                                .progress = options->progress,
                                .context = options->context,
                                .kernels_dir = options->kernels_dir};
    nodes_open(&devices->nodes);
    *out = devices;
    return 0;
}

/* DEVICE thread. Only batches ring, and only schedulers submit them: the doorbell exists by then.
 */
static void wake(void *context)
{
    const struct placement *placement = context;
    if (placement->doorbell != NULL) /* lost before it was connected: devices_connect sees it */
        scheduler_bell_ring(placement->doorbell);
}

/* ---- placing: worker --------------------------------------------------------------------- */

int devices_reopen(struct placement *placement, const struct config *config, struct engine **out,
                   struct problem *problem)
{
    char number[16];
    snprintf(number, sizeof number, "%d", placement->index);
    struct engine_options options = device_options(config, placement->devices->kernels_dir);
    options.device = number;
    options.allowed = &placement->devices->nodes.allowed;
    options.wake = wake;
    options.wake_context = placement;
    return engine_open(&options, out, problem);
}

/* The copy-th engine on device `index` of the list for this loop, also one that is lost; NULL: not
 * in use. */
static struct placement *placement_find(struct devices *devices, uint32_t loop, int index, int copy)
{
    for (uint32_t i = 0; i < devices->count; i++) {
        struct placement *placement = &devices->placements[i];
        if (placement->loop == loop && placement->index == index && placement->copy == copy)
            return placement;
    }
    return NULL;
}

/* Of the list, but not in use before devices->count counts it. */
static struct placement *placement_new(struct devices *devices, uint32_t loop, int index, int copy)
{
    struct placement *placement = &devices->placements[devices->count];
    placement->devices = devices;
    placement->loop = loop;
    placement->index = index;
    placement->copy = copy;
    placement->number = devices->count;
    return placement;
}

/* The same, opened if it is not yet in use; one that is lost is an error. */
static int placement_at(struct devices *devices, const struct config *config, uint32_t loop,
                        int index, int copy, struct placement **out, struct problem *problem)
{
    struct placement *placement = placement_find(devices, loop, index, copy);
    if (placement != NULL && engine_lost(placement->engine) != ENGINE_WORKS)
        return problem_set(problem, ERROR_DEVICE, "device %d is lost (%s)", index,
                           engine_loss_name(engine_lost(placement->engine)));
    if (placement != NULL) {
        *out = placement;
        return 0;
    }
    if (devices->count == PLACEMENTS_MAX)
        return problem_set(problem, ERROR_LIMIT, "more than %d devices; name fewer of them",
                           PLACEMENTS_MAX);
    placement = placement_new(devices, loop, index, copy);
    struct engine *engine;
    int error = devices_reopen(placement, config, &engine, problem);
    if (error < 0)
        return error;
    placement->engine = engine;
    devices->count++;
    nodes_tell(index, engine_device(engine)->name, engine_place(engine));
    *out = placement;
    return 0;
}

/* The words of a `device` list, each with how many equal ones stand before it. */
struct device_word {
    char name[128];
    int copy;
};

static uint32_t split_list(const char *list, struct device_word words[CHOICES_MAX])
{
    uint32_t count = 0;
    while (*list != '\0' && count < CHOICES_MAX) {
        const size_t length = strcspn(list, ",");
        struct device_word *word = &words[count];
        snprintf(word->name, sizeof word->name, "%.*s", (int)length, list);
        for (size_t end = strlen(word->name); end > 0 && word->name[end - 1] == ' ';)
            word->name[--end] = '\0';
        word->copy = 0;
        for (uint32_t i = 0; i < count; i++)
            word->copy += strcmp(words[i].name, word->name) == 0;
        count += word->name[0] != '\0';
        list += length;
        list += strspn(list, ", ");
    }
    return count;
}

uint32_t devices_listed(const char *list, int cpu_threads, struct problem *problem)
{
    struct device_word words[CHOICES_MAX] = {0};
    const uint32_t count = split_list(list, words);
    uint32_t bits = 0;
    for (uint32_t i = 0; i < count; i++) {
        int first = 0;
        if (device_candidates(words[i].name, cpu_threads, &first, 1, problem) > 0)
            bits |= 1u << (first < DEVICES_USED_MAX ? first : 0);
    }
    return bits;
}

/* With "auto" the engine decides: the best device on which it opens. */
static int place_by_word(struct devices *devices, const struct config *config, uint32_t loop,
                         const char *name, int copy, struct placement **out,
                         struct problem *problem)
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
        error = placement_at(devices, config, loop, candidates[i], copy, out, problem);
        if (error == 0)
            return 0;
        if (i + 1 < count)
            log_warning("device %d cannot be used, the next one is tried: %s", candidates[i],
                        problem->text);
        devices->unusable |= bit;
    }
    return error;
}

/* The first of the list that opens and is not lost. */
static int place_by_name(struct devices *devices, const struct config *config, uint32_t loop,
                         const char *list, struct placement **out, struct problem *problem)
{
    struct device_word words[CHOICES_MAX] = {0};
    const uint32_t count = split_list(list, words);
    int error = problem_set(problem, ERROR_NO_DEVICE, "`device` names no device");
    for (uint32_t i = 0; i < count; i++) {
        error = place_by_word(devices, config, loop, words[i].name, words[i].copy, out, problem);
        if (error == 0)
            return 0;
        if (i + 1 < count)
            log_warning("device %s cannot be used, the next of the list is tried: %s",
                        words[i].name, problem->text);
    }
    return error;
}

/* A device that did not open: in use from now on as one that is lost. NULL: it cannot be. */
static struct placement *placement_lost(struct devices *devices, const struct config *config,
                                        uint32_t loop, int index, int copy, const char *why)
{
    struct placement *placement = placement_find(devices, loop, index, copy);
    if (placement != NULL || devices->count == PLACEMENTS_MAX)
        return placement;
    const struct engine_options options = device_options(config, devices->kernels_dir);
    struct engine *engine;
    if (engine_open_lost(index, options.cpu_threads, why, &engine) < 0)
        return NULL;
    placement = placement_new(devices, loop, index, copy);
    placement->engine = engine;
    devices->count++;
    return placement;
}

/* The device that the word means and that did not open, for the reason `why`; NULL: there is none.
 */
static struct placement *lost_by_word(struct devices *devices, const struct config *config,
                                      uint32_t loop, const struct device_word *word,
                                      const char *why)
{
    const struct engine_options options = device_options(config, devices->kernels_dir);
    struct problem problem;
    int index = 0;
    if (device_candidates(word->name, options.cpu_threads, &index, 1, &problem) <= 0)
        return NULL;
    return placement_lost(devices, config, loop, index, word->copy, why);
}

/* GPUs that "auto" has passed over, since they did not open. */
static void keep_passed_over(struct devices *devices, const struct config *config, uint32_t loop)
{
    const struct engine_options options = device_options(config, devices->kernels_dir);
    struct device_info infos[DEVICES_USED_MAX];
    struct problem problem;
    const int count = device_list(infos, DEVICES_USED_MAX, options.cpu_threads, &problem);
    for (int i = 0; i < count && i < DEVICES_USED_MAX; i++)
        if (infos[i].gpu && (devices->unusable & UINT64_C(1) << i) != 0)
            placement_lost(devices, config, loop, i, 0, "it did not open at the start");
}

static void add_choice(struct placement *choices[CHOICES_MAX], uint32_t *count,
                       struct placement *placement)
{
    for (uint32_t i = 0; i < *count; i++)
        if (choices[i] == placement)
            return;
    if (*count < CHOICES_MAX)
        choices[(*count)++] = placement;
}

uint32_t devices_choices(struct devices *devices, const struct config *config,
                         const struct config_stream *stream, struct placement *chosen,
                         struct placement *choices[CHOICES_MAX])
{
    const char *list = stream->device != NULL ? stream->device : config->device.device;
    const bool automatic = strcmp(list, DEVICE_AUTO) == 0;
    const uint32_t loop = chosen->loop;
    uint32_t count = 0;
    /* A GPU that is lost just now: the stream goes there once it is back. */
    const bool without = automatic && !engine_device(chosen->engine)->gpu;
    if (without && devices->unusable != 0)
        keep_passed_over(devices, config, loop);
    for (uint32_t i = 0; without && i < devices->count; i++)
        if (devices->placements[i].loop == loop &&
            engine_device(devices->placements[i].engine)->gpu &&
            engine_lost(devices->placements[i].engine) != ENGINE_WORKS)
            add_choice(choices, &count, &devices->placements[i]);
    if (automatic || strcmp(list, DEVICE_ALL) == 0)
        add_choice(choices, &count, chosen);
    if (strcmp(list, DEVICE_ALL) == 0) {
        for (uint32_t i = 0; i < devices->count; i++)
            if (devices->placements[i].loop == loop)
                add_choice(choices, &count, &devices->placements[i]);
        return count;
    }
    if (automatic)
        list = engine_device(chosen->engine)->gpu ? "cpu" : "";
    struct device_word words[CHOICES_MAX] = {0};
    const uint32_t named = split_list(list, words);
    for (uint32_t i = 0; i < named; i++) {
        struct placement *placement;
        struct problem problem;
        if (place_by_word(devices, config, loop, words[i].name, words[i].copy, &placement,
                          &problem) == 0 ||
            (placement = lost_by_word(devices, config, loop, &words[i], problem.text)) != NULL)
            add_choice(choices, &count, placement);
        else
            log_notice("stream %s: device %s cannot stand by: %s", stream->name, words[i].name,
                       problem.text);
    }
    add_choice(choices, &count, chosen);
    return count;
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
static int place_by_load(struct devices *devices, const struct config *config, uint32_t loop,
                         const struct config_stream *stream, const char *variant,
                         struct placement **out, double *load, struct plan **plan,
                         struct problem *problem)
{
    struct stream_filters filters;
    int error = stream_filters_make(config, stream, NULL, &filters, problem);
    if (error < 0)
        return error;
    const struct plan_spec spec = stream_plan_spec(stream, &filters, variant);
    error = ERROR_NO_DEVICE;
    *out = NULL;
    for (uint32_t i = 0; i < devices->count; i++) {
        struct placement *placement = &devices->placements[i];
        struct plan *candidate = NULL;
        if (placement->loop != loop || engine_lost(placement->engine) != ENGINE_WORKS)
            continue;
        double added = 0;
        const int result = measure_load(placement, stream, &spec, &candidate, &added, problem);
        if (result < 0) {
            error = *out == NULL ? result : error;
            continue;
        }
        if (*out == NULL || change_load(placement, 0) + added < change_load(*out, 0) + *load) {
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

/* Every device, on this loop: 0 when one of them opens. */
static int place_everywhere(struct devices *devices, const struct config *config, uint32_t loop,
                            struct problem *problem)
{
    struct placement *placement;
    const struct engine_options options = device_options(config, devices->kernels_dir);
    const int present = device_list(NULL, 0, options.cpu_threads, problem);
    int opened = 0, error = present < 0 ? present : ERROR_NO_DEVICE;
    struct device_info infos[DEVICES_USED_MAX];
    device_list(infos, DEVICES_USED_MAX, options.cpu_threads, problem);
    for (int i = 0; i < present && i < DEVICES_USED_MAX; i++) {
        if (device_is_host(&infos[i]))
            continue; /* it stands by, and computes where it is named */
        const int result = placement_at(devices, config, loop, i, 0, &placement, problem);
        if (result == 0)
            opened++;
        else
            log_warning("device %d is left out: %s", i, problem->text);
        error = result < 0 ? result : error;
    }
    return opened > 0 ? 0 : error;
}

/* How many devices this loop uses, and the first of them. */
static uint32_t used_by(struct devices *devices, uint32_t loop, struct placement **first)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < devices->count; i++)
        if (devices->placements[i].loop == loop && used++ == 0)
            *first = &devices->placements[i];
    return used;
}

/* With "all": where the load is least, if there is a choice. */
static int place_anywhere(struct devices *devices, const struct config *config, uint32_t loop,
                          const struct config_stream *stream, const char *variant,
                          struct placement **out, double *load, struct plan **plan,
                          struct problem *problem)
{
    if (used_by(devices, loop, out) == 0) {
        const int error = place_everywhere(devices, config, loop, problem);
        if (error < 0)
            return error;
    }
    if (used_by(devices, loop, out) == 1)
        return 0;
    return place_by_load(devices, config, loop, stream, variant, out, load, plan, problem);
}

int devices_prepare(struct devices *devices, const struct config *config, struct problem *problem)
{
    struct placement *placement;
    if (loops_more(devices->loops) > 0)
        return 0; /* streams open what their loops need */
    if (strcmp(config->device.device, DEVICE_ALL) == 0)
        return place_everywhere(devices, config, 0, problem);
    return place_by_name(devices, config, 0, config->device.device, &placement, problem);
}

int devices_place(struct devices *devices, const struct config *config,
                  const struct config_stream *stream, const char *variant, uint32_t loop,
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
        error = place_by_name(devices, config, loop, name, out, problem);
    else
        error = place_anywhere(devices, config, loop, stream, variant, out, load, plan, problem);
    if (error == 0 && engine_lost((*out)->engine) != ENGINE_WORKS)
        error = problem_set(problem, ERROR_DEVICE, "device %d is lost; try again once it is back",
                            (*out)->index);
    if (error < 0)
        return problem_prefix(problem, error, "%s:%u: stream %s", stream->place.file,
                              stream->place.line, stream->name);
    if (devices->count > 1)
        log_info("stream %s: on device %d (%s)", stream->name, (*out)->index,
                 engine_device((*out)->engine)->name);
    change_load(*out, *load);
    return 0;
}

void devices_displace(struct placement *placement, double load)
{
    change_load(placement, -load);
}

/* ---- loop -------------------------------------------------------------------------------- */

static void on_losses(void *context)
{
    struct devices *devices = context;
    for (uint32_t i = 0; i < devices->connected; i++) {
        struct placement *placement = &devices->placements[i];
        if (atomic_exchange(&placement->loss_untold, false))
            devices->lost(devices->lost_context, placement);
    }
}

static void on_lost(void *context)
{
    struct placement *placement = context;
    struct devices *devices = placement->devices;
    if (placement->loop == 0) {
        devices->lost(devices->lost_context, placement);
        return;
    }
    atomic_store(&placement->loss_untold, true);
    loop_bell_ring(&devices->losses);
}

static void on_progress(void *context)
{
    const struct placement *placement = context;
    placement->devices->progress(placement->devices->context, placement->loop);
}

void devices_on_lost(struct devices *devices,
                     void (*lost)(void *context, struct placement *placement), void *context)
{
    devices->lost = lost;
    devices->lost_context = context;
}

/* Loops go where their devices are. */
static void settle_nodes(struct devices *devices)
{
    _Static_assert((int)PLACEMENTS_MAX <= (int)NODE_DEVICES_MAX, "one for each placement");
    struct node_device serving[PLACEMENTS_MAX];
    for (uint32_t i = 0; i < devices->connected; i++)
        serving[i] = (struct node_device){devices->placements[i].loop,
                                          engine_place(devices->placements[i].engine)};
    nodes_settle(&devices->nodes, devices->loops, serving, devices->connected);
}

void devices_replace(struct placement *placement, struct engine *engine)
{
    placement->engine = engine;
    scheduler_take_engine(placement->scheduler, engine);
    settle_nodes(placement->devices);
}

int devices_connect(struct devices *devices, struct problem *problem)
{
    int error = 0;
    if (devices->losses.rung == NULL)
        loop_bell_open(&devices->losses, loops_at(devices->loops, 0), on_losses, devices);
    for (; devices->connected < devices->count && error == 0; devices->connected++) {
        struct placement *placement = &devices->placements[devices->connected];
        uv_loop_t *loop = loops_at(devices->loops, placement->loop);
        if (placement->doorbell == NULL && scheduler_bell_open(loop, &placement->doorbell) < 0)
            return problem_set(problem, ERROR_MEMORY, "out of memory for a device's bell");
        error = scheduler_open(loop, placement->engine, placement->doorbell, &placement->scheduler,
                               problem);
        if (error < 0)
            break;
        if (devices->lost != NULL)
            scheduler_on_lost(placement->scheduler, on_lost, placement);
        if (engine_lost(placement->engine) != ENGINE_WORKS)
            scheduler_kick(placement->scheduler);
        scheduler_on_progress(placement->scheduler, on_progress, placement);
    }
    settle_nodes(devices);
    return error;
}

void devices_kick(struct devices *devices)
{
    for (uint32_t i = 0; i < devices->connected; i++)
        scheduler_kick(devices->placements[i].scheduler);
}

struct placement *devices_at(const struct devices *devices, uint32_t i)
{
    return i < devices->connected ? (struct placement *)&devices->placements[i] : NULL;
}

const char *placement_state(const struct placement *placement)
{
    return placement->given_up ? "given up" : placement->down ? "lost" : "works";
}

void devices_close(struct devices *devices)
{
    if (devices == NULL)
        return;
    if (devices->losses.rung != NULL)
        loop_bell_close(&devices->losses, NULL);
    for (uint32_t i = 0; i < PLACEMENTS_MAX; i++) {
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
    engines_forget();
    free(devices);
}
