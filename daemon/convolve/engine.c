/*
 * The engine's outside, see engine.h: opening and closing, rings, and the batches that LOOP fills.
 * What LOOP calls here touches only its own fields, two SPSC rings and an eventfd.
 */
#include "convolve/engine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "convolve/item.h"
#include "convolve/lost.h"
#include "convolve/object.h"
#include "convolve/plan/assemble.h"
#include "convolve/plan/plan.h"
#include "convolve/plan/variant.h"
#include "convolve/plan/wisdom.h"
#include "convolve/reports.h"
#include "convolve/worker.h"
#include "core/clock.h"
#include "core/doorbell.h"
#include "device/pocl_cache.h"

_Static_assert(sizeof(struct report_row) == sizeof(struct block_report),
               "kernels write what LOOP reads");

/* ---- devices ----------------------------------------------------------------------------- */

void device_cache(const char *cache_dir)
{
    pocl_cache_set(cache_dir);
}

int device_list(struct device_info *infos, int capacity, int cpu_threads, struct problem *problem)
{
    struct device_found found[DEVICES_MAX];
    int count = devices_find(found, DEVICES_MAX, cpu_threads, problem);
    for (int i = 0; i < count && i < capacity && i < DEVICES_MAX; i++)
        infos[i] = found[i].info;
    return count;
}

int device_candidates(const char *name, int cpu_threads, int *candidates, int capacity,
                      struct problem *problem)
{
    int choices[DEVICES_MAX];
    const int count = device_choices(name, cpu_threads, choices, problem);
    for (int i = 0; i < count && i < capacity; i++)
        candidates[i] = choices[i];
    return count;
}

const char *engine_variant_name(int index)
{
    const struct variant *variant = variant_at(index);
    return variant != NULL ? variant->name : NULL;
}

/* ---- opening and closing ----------------------------------------------------------------- */

/* A GPU computes nothing else. On a CPU the batch's threads take turns with other processes, and a
 * machine under load keeps them waiting for far longer than 50 ms. */
static const int64_t patience_gpu_ns = 50 * NS_PER_MS, patience_cpu_ns = 2 * NS_PER_SECOND;

static uint64_t or_default(uint64_t value, uint64_t standard)
{
    return value != 0 ? value : standard;
}

/* Rows of a slot's table: its own, one of zeros, and what is lost where the first is aligned. */
enum { SLOT_ROWS = ROWS_PER_BATCH + 2 };

/* The device with memory for `slot_count` batches and the worker's. */
static int open_device(struct engine *engine, const struct engine_options *options,
                       struct problem *problem)
{
    struct planner *planner = &engine->planner;
    planner->device = &engine->device;
    planner->batch_samples = or_default(options->batch_output_floats, ENGINE_BATCH_FLOATS);
    planner->batch_reports = (planner->batch_samples / 16 + 4096) / 2 * 2; /* whole cache lines */
    const uint64_t slot_floats =
        planner->batch_samples + (planner->batch_reports + BATCH_ITEMS_MAX) * REPORT_FLOATS + 16;
    const uint64_t slots = engine->slot_count + 1, guard_room = 4 * ARENA_ALIGN_BYTES;
    const struct device_options wanted = {
        .name = options->device,
        .cpu_threads = options->cpu_threads,
        .kernels_dir = options->kernels_dir,
        .cache_dir = options->cache_dir,
        .input_bytes = or_default(options->input_bytes, ENGINE_INPUT_BYTES),
        .spectrum_bytes = or_default(options->spectrum_bytes, UINT64_C(512) << 20),
        .state_bytes = or_default(options->state_bytes, UINT64_C(512) << 20),
        .output_bytes = slots * (slot_floats * sizeof(float) + guard_room),
        .table_bytes =
            slots * (SLOT_ROWS * (sizeof(struct row) + sizeof(struct row_group)) + 2 * guard_room),
        .guards = options->guards,
        .node = options->node,
        .allowed = options->allowed,
    };
    int error = device_open(&engine->device, &wanted, problem);
    if (error < 0)
        return error;
    engine->patience_ns = options->deadline_ns != 0       ? options->deadline_ns
                          : engine->device.found.info.gpu ? patience_gpu_ns
                                                          : patience_cpu_ns;
    const struct device_traits *traits = &engine->device.traits;
    const uint32_t depth = options->depth != 0 ? options->depth : traits->depth;
    const uint32_t depth_short = options->depth != 0 ? options->depth : traits->depth_short;
    engine->depth = depth < engine->slot_count ? depth : engine->slot_count;
    engine->depth_short = depth_short < engine->slot_count ? depth_short : engine->slot_count;
    engine->rings.device = engine->feeds.device = &engine->device;
    engine->feeds.traffic = &engine->traffic;
    return 0;
}

static int open_slots(struct engine *engine, struct problem *problem)
{
    engine->slots = calloc(engine->slot_count + 1, sizeof *engine->slots);
    if (engine->slots == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for batches");
    for (uint32_t i = 0; i <= engine->slot_count; i++) {
        struct slot *slot = &engine->slots[i];
        slot->engine = engine;
        slot->worker = i == engine->slot_count;
        uint64_t results = 0, rows = 0, groups = 0;
        const uint64_t reports_bytes = (engine->planner.batch_reports + BATCH_ITEMS_MAX) *
                                       sizeof(struct block_report),
                       samples_bytes = engine->planner.batch_samples * sizeof(float);
        int error = arena_take(&engine->device.output, engine->device.upload,
                               reports_bytes + samples_bytes, &results, problem);
        if (error == 0)
            error = arena_take(&engine->device.table, engine->device.upload,
                               SLOT_ROWS * sizeof(struct row), &rows, problem);
        if (error == 0)
            error = arena_take(&engine->device.table, engine->device.upload,
                               (ROWS_PER_BATCH + 1) * sizeof(struct row_group), &groups, problem);
        if (error < 0)
            return error == ERROR_DEVICE
                       ? error
                       : problem_prefix(problem, error, "lower `batch memory` or `batches`");
        slot->samples_offset = (results + reports_bytes) / sizeof(float);
        slot->full_offset = results / sizeof(float);
        slot->groups_offset = (groups + sizeof(struct row_group) - 1) / sizeof(struct row_group);
        slot->rows_offset = (rows + sizeof(struct row) - 1) / sizeof(struct row);
        memset(engine->device.table.host +
                   (slot->rows_offset + ROWS_PER_BATCH) * sizeof(struct row),
               0, sizeof(struct row));
        if (!slot->worker)
            engine->free_slots[engine->free_count++] = slot;
    }
    return 0;
}

/* All but the object and its mutexes. */
static void close_parts(struct engine *engine)
{
    device_close(&engine->device);
    wisdom_close(engine->planner.wisdom);
    engine->planner.wisdom = NULL;
    free(engine->planner.plans);
    engine->planner.plans = NULL;
    spsc_close(&engine->submitted);
    spsc_close(&engine->completed);
    spsc_close(&engine->waiting);
    spsc_close(&engine->feeds.waiting);
    if (engine->doorbell >= 0)
        close(engine->doorbell);
    if (engine->waiter_bell >= 0)
        close(engine->waiter_bell);
    free(engine->slots);
    engine->slots = NULL;
}

void engine_free(struct engine *engine)
{
    pthread_mutex_destroy(&engine->planner.workers);
    pthread_mutex_destroy(&engine->request_mutex);
    pthread_mutex_destroy(&engine->wake_mutex);
    pthread_mutex_destroy(&engine->loss_mutex);
    pthread_cond_destroy(&engine->request_done);
    free(engine);
}

/* `stopping` is set, and nothing waits for an event any more. */
static void stop_waiter(struct engine *engine)
{
    if (!engine->waits)
        return;
    doorbell_ring(engine->waiter_bell);
    pthread_join(engine->waiter, NULL);
}

static void stop_threads(struct engine *engine)
{
    atomic_store_explicit(&engine->stopping, true, memory_order_release);
    doorbell_ring(engine->doorbell);
    pthread_join(engine->thread, NULL);
    stop_waiter(engine);
}

static int start_threads(struct engine *engine, struct problem *problem)
{
    static const char none[] = "cannot start a thread: raise the limit of threads (ulimit -u)";
    if (spsc_open(&engine->submitted, BATCHES_MAX) < 0 ||
        spsc_open(&engine->completed, BATCHES_MAX) < 0 ||
        spsc_open(&engine->waiting, BATCHES_MAX + 1) < 0 ||
        spsc_open(&engine->feeds.waiting, FEEDS_MAX) < 0)
        return problem_set(problem, ERROR_MEMORY, "out of memory for batches");
    /* The waiter first: the device thread reads `waits` as soon as it runs. */
    if (engine->device.traits.polled) {
        if (pthread_create(&engine->waiter, NULL, engine_waiter, engine) != 0)
            return problem_set(problem, ERROR_SYSTEM, "%s", none);
        engine->waits = true;
    }
    if (pthread_create(&engine->thread, NULL, engine_thread, engine) != 0) {
        atomic_store_explicit(&engine->stopping, true, memory_order_release);
        stop_waiter(engine);
        return problem_set(problem, ERROR_SYSTEM, "%s", none);
    }
    return 0;
}

struct engine *engine_new(void)
{
    struct engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL)
        return NULL;
    engine->doorbell = engine->waiter_bell = -1;
    pthread_mutex_init(&engine->planner.workers, NULL);
    pthread_mutex_init(&engine->request_mutex, NULL);
    pthread_mutex_init(&engine->wake_mutex, NULL);
    pthread_mutex_init(&engine->loss_mutex, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&engine->request_done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return engine;
}

int engine_open(const struct engine_options *options, struct engine **out, struct problem *problem)
{
    struct engine *engine = engine_new();
    if (engine == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for the engine");
    engine->wake = options->wake;
    engine->wake_context = options->wake_context;
    engine->slot_count = options->batches == 0 ? ENGINE_BATCHES : options->batches;
    if (engine->slot_count < 2)
        engine->slot_count = 2;
    if (engine->slot_count > BATCHES_MAX)
        engine->slot_count = BATCHES_MAX;
    engine->doorbell = doorbell_open();
    engine->waiter_bell = doorbell_open();
    int error = 0;
    if (engine->doorbell < 0 || engine->waiter_bell < 0)
        error = problem_set(problem, ERROR_SYSTEM,
                            "no eventfd: raise the limit of open files (ulimit -n)");
    engine->planner.plans = calloc(PLANS_MAX, sizeof *engine->planner.plans);
    if (error == 0 && engine->planner.plans == NULL)
        error = problem_set(problem, ERROR_MEMORY, "out of memory for the engine");
    if (error == 0)
        error = open_device(engine, options, problem);
    if (error == 0)
        error = open_slots(engine, problem);
    if (error == 0)
        error = wisdom_open(engine->device.cache_dir, engine->device.kernels_dir,
                            &engine->device.found.info, &engine->planner.wisdom, problem);
    if (error == 0)
        error = start_threads(engine, problem);
    if (error < 0) {
        close_parts(engine);
        engine_free(engine);
        return error;
    }
    *out = engine;
    return 0;
}

void engine_close(struct engine *engine)
{
    if (engine == NULL)
        return;
    if (engine_lost(engine) != ENGINE_WORKS) {
        engine_abandon(engine);
        return;
    }
    assert(engine->free_count == engine->slot_count && engine->in_flight == 0);
    for (int i = 0; i < PLANS_MAX; i++)
        assert(engine->planner.plans[i] == NULL);
    assert(engine->rings.open == 0 && atomic_load(&engine->planner.held) == 0);
    stop_threads(engine);
    close_parts(engine);
    engine_free(engine);
}

void engine_close_left(struct engine *engine)
{
    stop_threads(engine);
    feeds_drop(&engine->feeds);
    plans_free_left(&engine->planner);
    while (engine->rings_left != NULL) {
        struct ring_memory *memory = engine->rings_left;
        engine->rings_left = memory->next_left;
        rings_give(&engine->rings, &memory->ring);
    }
    close_parts(engine);
}

const struct device_info *engine_device(const struct engine *engine)
{
    return &engine->device.found.info;
}

const struct node_place *engine_place(const struct engine *engine)
{
    return &engine->device.place;
}

/* LOOP polls for a batch that should take at most so long, and so long after its predicted end. */
static const int64_t poll_most_ns = 120 * NS_PER_US, poll_late_ns = 40 * NS_PER_US;

int64_t engine_poll_until_ns(const struct engine *engine)
{
    if (!engine->waits || engine->in_flight != 1 || engine->busy_ns > poll_most_ns)
        return 0;
    const struct batch *batch = engine->flights[engine->flight_first % BATCHES_MAX];
    return batch->submitted_ns + engine->busy_ns + poll_late_ns;
}

uint32_t engine_batches(const struct engine *engine)
{
    return engine->slot_count;
}

uint32_t engine_depth(const struct engine *engine)
{
    return engine->depth;
}

/* From the completion of a batch until the next one's kernels are in the queue: three wakes of
 * threads and two dozen calls of the driver, 140 to 280 us on a host with an H100. */
static const int64_t turnaround_ns = 400 * NS_PER_US;

bool engine_takes_batch(const struct engine *engine)
{
    return engine->in_flight < engine->depth ||
           (engine->in_flight < engine->depth_short && engine->busy_ns < turnaround_ns);
}

void engine_make_resident(struct engine *engine, const struct plan *plan)
{
    uint64_t samples = plan->info.output_floats * (uint64_t)plan->hop * plan->blocks_max;
    const struct reports_room room = reports_room(plan, plan_blocks_fit(plan));
    samples = samples < engine->planner.batch_samples ? samples : engine->planner.batch_samples;
    for (uint32_t i = 0; i < engine->slot_count; i++) {
        const struct slot *slot = &engine->slots[i];
        const uint64_t reports_bytes = room.copied * sizeof(struct block_report);
        arena_populate(&engine->device.output, slot->samples_offset * sizeof(float) - reports_bytes,
                       reports_bytes + samples * sizeof(float));
        arena_populate(&engine->device.output, slot->full_offset * sizeof(float),
                       room.full * sizeof(struct block_report));
        arena_populate(&engine->device.table, slot->rows_offset * sizeof(struct row),
                       plan->rows_most * sizeof(struct row));
    }
}

/* ---- rings -------------------------------------------------------------------------------- */

int engine_ring_open(struct engine *engine, uint64_t frames_min, uint32_t frame_bytes,
                     struct ring **out, struct problem *problem)
{
    int error = engine_check_works(engine, problem);
    if (error < 0)
        return error; /* a worker that hangs in the driver may hold the mutex */
    pthread_mutex_lock(&engine->planner.workers);
    error = engine_check_works(engine, problem);
    if (error == 0)
        error = rings_take(&engine->rings, frames_min, frame_bytes, out, problem);
    if (error == 0)
        atomic_fetch_add(&engine->planner.held, 1);
    pthread_mutex_unlock(&engine->planner.workers);
    return error;
}

void engine_ring_close(struct engine *engine, struct ring *ring)
{
    if (ring == NULL)
        return;
    if (atomic_load(&engine->planner.abandoned)) {
        engine_leave_ring(engine, ring);
        return;
    }
    pthread_mutex_lock(&engine->planner.workers);
    struct ring_memory *memory = (struct ring_memory *)ring;
    if (atomic_load(&memory->feeds_waiting) > 0)
        engine_request(engine, REQUEST_FEEDS, NULL);
    rings_give(&engine->rings, ring);
    atomic_fetch_sub(&engine->planner.held, 1);
    pthread_mutex_unlock(&engine->planner.workers);
}

/* The samples are results of a batch that the host has computed: the device has none of them. */
static bool is_on_host(const struct engine *engine, const void *samples)
{
    const float *at = samples, *output = (const float *)(const void *)engine->device.output.host;
    for (uint32_t i = 0; i < engine->slot_count; i++) {
        const struct slot *slot = &engine->slots[i];
        const float *first = output + slot->samples_offset;
        if (at >= first && at < first + engine->planner.batch_samples)
            return slot->on_host;
    }
    return false;
}

bool engine_ring_feed(struct engine *engine, struct ring *ring, uint64_t changed_from,
                      uint64_t position, const void *samples, uint32_t frames)
{
    return engine_lost(engine) == ENGINE_WORKS && !is_on_host(engine, samples) &&
           feeds_add(&engine->feeds, ring, changed_from, position, samples, frames);
}

/* ---- batches ------------------------------------------------------------------------------ */

struct batch *engine_batch_take(struct engine *engine)
{
    if (engine->free_count == 0)
        return NULL;
    struct slot *slot = engine->free_slots[--engine->free_count];
    slot_empty(slot);
    slot->batch.status = BATCH_OK;
    slot->batch.cost_ns = slot->batch.part_ns = slot->batch.overtaken_ns = 0;
    slot->batch.submitted_ns = slot->batch.started_ns = slot->batch.completed_ns = 0;
    return &slot->batch;
}

bool engine_owns(const struct engine *engine, const struct plan *plan)
{
    return plan->planner == &engine->planner;
}

bool engine_batch_holds(const struct engine *engine, const struct plan *a, const struct plan *b)
{
    const uint64_t floats = plan_floats(a, a->hop) + plan_floats(b, b->hop) + 32;
    return floats <= engine->planner.batch_samples &&
           (uint64_t)a->report_rows + b->report_rows <= engine->planner.batch_reports &&
           a->rows_most + b->rows_most <= ROWS_PER_BATCH;
}

uint32_t engine_batch_room(const struct engine *engine, const struct batch *batch,
                           const struct plan *plan)
{
    const struct slot *slot = (const struct slot *)batch;
    if (batch->count == BATCH_ITEMS_MAX || slot->rows_reserved + plan->rows_most > ROWS_PER_BATCH)
        return 0;
    const uint64_t kept = (engine->planner.batch_samples - slot->samples_used) * sizeof(float) /
                          (plan->info.output_floats * plan->info.sample_bytes);
    const uint64_t samples = decimation_span(plan->info.decimate, kept) / plan->hop;
    const uint64_t reports =
        (engine->planner.batch_reports - slot->reports_reserved) / plan->report_rows;
    uint64_t blocks = samples < reports ? samples : reports;
    return (uint32_t)(blocks < plan->blocks_max ? blocks : plan->blocks_max);
}

uint32_t engine_missing(const struct batch_item *item)
{
    return item_missing(item, &item->plan->submitted);
}

int64_t engine_item_cost_ns(const struct batch_item *item)
{
    const struct plan_rebuild rebuild = item_rebuild(item, &item->plan->submitted);
    return item_cost_ns(item, &rebuild);
}

int engine_batch_add(struct engine *engine, struct batch *batch, const struct batch_item *item)
{
    struct slot *slot = (struct slot *)batch;
    struct plan *plan = item->plan;
    assert(item->blocks <= plan->blocks_max && (item->blocks == 0) == (item->rebuild > 0));
    assert(item->ring->frame_bytes == plan->stages[0].rows[0].frame_bytes);
    const uint64_t floats = plan_floats(plan, plan_kept(plan, item->epoch_block, item->blocks));
    const uint64_t reports = (uint64_t)item->blocks * plan->report_rows;
    const bool shared = item->share_previous && batch->count > 0;
    /* Every item's samples begin at a whole cache line. */
    const uint64_t floats_taken = shared ? 0 : (floats + 15) / 16 * 16;
    if (batch->count == BATCH_ITEMS_MAX ||
        slot->samples_used + floats > engine->planner.batch_samples ||
        slot->reports_reserved + reports > engine->planner.batch_reports ||
        slot->rows_reserved + plan->rows_most > ROWS_PER_BATCH)
        return ERROR_FULL;
    struct batch_item *added = &batch->items[batch->count];
    *added = *item;
    float *output = (float *)(void *)engine->device.output.host;
    added->samples = shared ? batch->items[batch->count - 1].samples
                            : output + slot->samples_offset + slot->samples_used;
    reports_place(engine, slot, added);
    batch->count++;
    slot->samples_used += floats_taken;
    if (slot->samples_used > engine->planner.batch_samples)
        slot->samples_used = engine->planner.batch_samples;
    slot->reports_reserved += reports;
    slot->rows_reserved += plan->rows_most;
    const struct plan_rebuild rebuild = item_rebuild(item, &plan->submitted);
    batch->cost_ns += item_cost_ns(item, &rebuild);
    item_follow(item, &rebuild, &plan->submitted);
    return 0;
}

void engine_submit(struct engine *engine, struct batch *batch)
{
    struct slot *slot = (struct slot *)batch;
    assert(batch->part_ns == 0 || engine->in_flight == 0);
    slot->number = ++engine->submissions;
    slot->expected_ns = 0;
    for (uint32_t i = 0; i < batch->count; i++)
        slot->expected_ns += plan_cost_ns(batch->items[i].plan, batch->items[i].blocks);
    engine->busy_ns += slot->expected_ns;
    batch->submitted_ns = clock_monotonic_ns();
    engine->flights[(engine->flight_first + engine->in_flight) % BATCHES_MAX] = batch;
    engine->in_flight++;
    bool pushed = spsc_push(&engine->submitted, batch);
    assert(pushed);
    (void)pushed;
    doorbell_ring(engine->doorbell);
}

/* Mostly the oldest one; the batch in parts may stay behind. */
static void take_from_flights(struct engine *engine, const struct batch *batch)
{
    const struct batch **flights = engine->flights;
    uint32_t at = engine->flight_first;
    while (flights[at % BATCHES_MAX] != batch)
        at++;
    for (; at != engine->flight_first; at--)
        flights[at % BATCHES_MAX] = flights[(at - 1) % BATCHES_MAX];
    engine->flight_first++;
    engine->in_flight--;
}

struct batch *engine_completed(struct engine *engine)
{
    struct batch *batch = engine->abandoned ? NULL : spsc_pop(&engine->completed);
    if (batch != NULL) {
        take_from_flights(engine, batch);
        engine->busy_ns -= ((const struct slot *)batch)->expected_ns;
    }
    return batch;
}

void engine_batch_release(struct engine *engine, struct batch *batch)
{
    assert(engine->free_count < engine->slot_count);
    engine->free_slots[engine->free_count++] = (struct slot *)batch;
}

uint32_t engine_in_flight(const struct engine *engine)
{
    return engine->in_flight;
}

/* ---- faults and figures ------------------------------------------------------------------ */

int engine_check_guards(struct engine *engine, struct problem *problem)
{
    struct arena *arenas[DEVICE_ARENAS];
    device_arenas(&engine->device, arenas);
    int error = 0;
    pthread_mutex_lock(&engine->planner.workers);
    for (int i = 0; error == 0 && i < DEVICE_ARENAS; i++)
        error = arena_check(arenas[i], engine->device.upload, problem);
    pthread_mutex_unlock(&engine->planner.workers);
    return error;
}

void engine_traffic(const struct engine *engine, struct engine_traffic *traffic)
{
    *traffic = (struct engine_traffic){
        .ring_bytes = atomic_load_explicit(&engine->traffic.ring, memory_order_relaxed),
        .presence_bytes = atomic_load_explicit(&engine->traffic.presence, memory_order_relaxed),
        .table_bytes = atomic_load_explicit(&engine->traffic.table, memory_order_relaxed),
        .result_bytes = atomic_load_explicit(&engine->traffic.result, memory_order_relaxed),
        .fed_bytes = atomic_load_explicit(&engine->traffic.fed, memory_order_relaxed),
    };
}
