/*
 * The engine's outside: opening and closing, rings, and the batches that LOOP fills. What
 * LOOP calls here touches only its own fields, two SPSC rings and an eventfd.
 */
#include "convolve/internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "convolve/hooks.h"
#include "core/clock.h"
#include "core/doorbell.h"
#include "core/log.h"
#include "core/power.h"
#include "device/pocl_cache.h"

int device_list(struct device_info *infos, int capacity, int cpu_threads, struct problem *problem)
{
    struct device_found found[DEVICES_MAX];
    int count = devices_find(found, DEVICES_MAX, cpu_threads, problem);
    for (int i = 0; i < count && i < capacity && i < DEVICES_MAX; i++)
        infos[i] = found[i].info;
    return count;
}

int device_index(const char *name, int cpu_threads, struct problem *problem)
{
    return device_select_index(name, cpu_threads, problem);
}

/* ---- opening ----------------------------------------------------------------------------------
 */

static uint64_t or_default(uint64_t value, uint64_t standard)
{
    return value != 0 ? value : standard;
}

/* How the kernels are built for this device. */
static void choose_shape(struct engine *engine)
{
    const bool gpu = engine->found.info.gpu || engine_hooks.gpu_shape;
    engine->lanes = gpu ? 1 : 16;
    const uint32_t floats = engine->found.info.vector_floats;
    engine->vector = floats >= 16 ? 16 : floats >= 8 ? 8 : 4;
    engine->items = !gpu ? 1 : engine_hooks.items != 0 ? engine_hooks.items : 128;
    /* Reports are added up in local memory too. */
    const uint64_t reserved = engine->items * sizeof(struct report_row) + 1024;
    uint64_t local =
        engine_hooks.local_bytes != 0 ? engine_hooks.local_bytes : engine->found.info.local_bytes;
    engine->local_budget_bytes = local > reserved ? local - reserved : 0;
}

static int open_arenas(struct engine *engine, const struct engine_options *options,
                       struct problem *problem)
{
    const struct device_info *info = &engine->found.info;
    engine->slot_samples = or_default(options->batch_output_floats, UINT64_C(4) << 20);
    engine->slot_reports = engine->slot_samples / 16 + 4096;
    const uint64_t slot_floats = engine->slot_samples + engine->slot_reports * REPORT_FLOATS + 16;
    const uint64_t slots = engine->slot_count + 1;
    int error = arena_open(&engine->input, "input memory",
                           or_default(options->input_bytes, UINT64_C(512) << 20), info,
                           options->guards, problem);
    if (error == 0)
        error = arena_open(&engine->spectrum, "spectrum memory",
                           or_default(options->spectrum_bytes, UINT64_C(512) << 20), info,
                           options->guards, problem);
    if (error == 0)
        error = arena_open(&engine->state, "state memory",
                           or_default(options->state_bytes, UINT64_C(512) << 20), info,
                           options->guards, problem);
    const uint64_t guard_room = 4 * ARENA_ALIGN_BYTES;
    if (error == 0)
        error = arena_open(&engine->output, "batch memory",
                           slots * (slot_floats * sizeof(float) + guard_room), info,
                           options->guards, problem);
    if (error == 0)
        error = arena_open(&engine->table, "batch table",
                           slots * (ROWS_PER_BATCH * sizeof(struct row) + guard_room), info,
                           options->guards, problem);
    engine->input.copied = engine->output.copied = engine->table.copied = info->gpu;
    return error;
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
        uint64_t samples = 0, reports = 0, rows = 0;
        int error = arena_take(&engine->output, engine->upload,
                               engine->slot_samples * sizeof(float), &samples, problem);
        if (error == 0)
            error =
                arena_take(&engine->output, engine->upload,
                           engine->slot_reports * sizeof(struct block_report), &reports, problem);
        if (error == 0)
            error = arena_take(&engine->table, engine->upload,
                               (ROWS_PER_BATCH + 1) * sizeof(struct row), &rows, problem);
        if (error < 0)
            return problem_prefix(problem, error, "lower `batch memory` or `batches`");
        slot->samples_offset = samples / sizeof(float);
        slot->reports_offset = reports / sizeof(float);
        slot->rows_offset = (rows + sizeof(struct row) - 1) / sizeof(struct row);
        if (!slot->worker)
            engine->free_slots[engine->free_count++] = slot;
    }
    return 0;
}

static void free_engine(struct engine *engine)
{
    if (engine->context != NULL)
        device_destroy(engine);
    device_kernels_forget(engine);
    wisdom_close(engine->wisdom);
    arena_close(&engine->input);
    arena_close(&engine->spectrum);
    arena_close(&engine->state);
    arena_close(&engine->output);
    arena_close(&engine->table);
    spsc_close(&engine->submitted);
    spsc_close(&engine->completed);
    spsc_close(&engine->waiting);
    spsc_close(&engine->fed);
    if (engine->doorbell >= 0)
        close(engine->doorbell);
    if (engine->waiter_bell >= 0)
        close(engine->waiter_bell);
    pthread_mutex_destroy(&engine->workers);
    pthread_mutex_destroy(&engine->request_mutex);
    pthread_cond_destroy(&engine->request_done);
    free(engine->slots);
    free(engine->kernels_dir);
    free(engine->cache_dir);
    free(engine);
}

static void stop_threads(struct engine *engine)
{
    atomic_store_explicit(&engine->stopping, true, memory_order_release);
    doorbell_ring(engine->doorbell);
    pthread_join(engine->thread, NULL);
    if (engine->waits) {
        doorbell_ring(engine->waiter_bell);
        pthread_join(engine->waiter, NULL);
    }
}

static int start_threads(struct engine *engine, struct problem *problem)
{
    static const char none[] = "cannot start a thread: raise the limit of threads (ulimit -u)";
    if (spsc_open(&engine->submitted, BATCHES_MAX) < 0 ||
        spsc_open(&engine->completed, BATCHES_MAX) < 0 ||
        spsc_open(&engine->waiting, BATCHES_MAX + 1) < 0 || spsc_open(&engine->fed, FEEDS_MAX) < 0)
        return problem_set(problem, ERROR_MEMORY, "out of memory for batches");
    if (pthread_create(&engine->thread, NULL, engine_thread, engine) != 0)
        return problem_set(problem, ERROR_SYSTEM, "%s", none);
    if (!engine->found.info.gpu && !engine_hooks.gpu_shape)
        return 0;
    /* The device thread reads `waits` at its first batch, which nobody has submitted yet. */
    if (pthread_create(&engine->waiter, NULL, engine_waiter, engine) != 0) {
        stop_threads(engine);
        return problem_set(problem, ERROR_SYSTEM, "%s", none);
    }
    engine->waits = true;
    return 0;
}

int engine_open(const struct engine_options *options, struct engine **out, struct problem *problem)
{
    struct engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for the engine");
    pthread_mutex_init(&engine->workers, NULL);
    pthread_mutex_init(&engine->request_mutex, NULL);
    pthread_cond_init(&engine->request_done, NULL);
    engine->wake = options->wake;
    engine->wake_context = options->wake_context;
    engine->guards = options->guards;
    engine->slot_count = options->batches == 0 ? 6 : options->batches;
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
    struct stat folder;
    if (options->kernels_dir != NULL &&
        (stat(options->kernels_dir, &folder) != 0 || !S_ISDIR(folder.st_mode)))
        error = problem_set(problem, ERROR_NO_FILE,
                            "%s is not a directory of kernels; write one that exists, or leave out "
                            "--kernels",
                            options->kernels_dir);
    if (options->kernels_dir != NULL)
        engine->kernels_dir = strdup(options->kernels_dir);
    if (options->cache_dir != NULL)
        engine->cache_dir = strdup(options->cache_dir);
    pocl_cache_direct(options->cache_dir, POCL_CACHE_NEEDS_BYTES);
    if (error == 0)
        error = device_select(options->device, options->cpu_threads, &engine->found, problem);
    if (error == 0) {
        engine->depth = options->depth != 0 ? options->depth : engine->found.info.gpu ? 4 : 2;
        if (engine->depth > engine->slot_count)
            engine->depth = engine->slot_count;
        choose_shape(engine);
        error = open_arenas(engine, options, problem);
    }
    if (error == 0)
        error = device_create(engine, problem);
    if (error == 0)
        error = open_slots(engine, problem);
    if (error == 0)
        error = wisdom_open(engine->cache_dir, engine->kernels_dir, &engine->found.info,
                            &engine->wisdom, problem);
    if (error == 0)
        error = start_threads(engine, problem);
    if (error < 0) {
        free_engine(engine);
        return error;
    }
    *out = engine;
    return 0;
}

void engine_close(struct engine *engine)
{
    if (engine == NULL)
        return;
    assert(engine->free_count == engine->slot_count && engine->in_flight == 0);
    for (int i = 0; i < PLANS_MAX; i++)
        assert(engine->plans[i] == NULL);
    assert(engine->rings_open == 0);
    stop_threads(engine);
    free_engine(engine);
}

const struct device_info *engine_device(const struct engine *engine)
{
    return &engine->found.info;
}

void engine_make_resident(struct engine *engine, const struct plan *plan)
{
    uint64_t samples = plan->info.output_floats * (uint64_t)plan->hop * plan->blocks_max;
    uint64_t reports = plan->info.inputs * (uint64_t)plan->blocks_max;
    samples = samples < engine->slot_samples ? samples : engine->slot_samples;
    reports = reports < engine->slot_reports ? reports : engine->slot_reports;
    for (uint32_t i = 0; i < engine->slot_count; i++) {
        const struct slot *slot = &engine->slots[i];
        arena_populate(&engine->output, slot->samples_offset * sizeof(float),
                       samples * sizeof(float));
        arena_populate(&engine->output, slot->reports_offset * sizeof(float),
                       reports * sizeof(struct block_report));
        arena_populate(&engine->table, slot->rows_offset * sizeof(struct row),
                       plan->rows_most * sizeof(struct row));
    }
}

/* ---- rings ------------------------------------------------------------------------------------
 */

int ring_take(struct engine *engine, uint64_t frames_min, uint32_t frame_bytes, struct ring **out,
              struct problem *problem)
{
    const uint64_t frames = power_of_two_from(64, frames_min);
    if (frames > UINT64_C(1) << 31 || frame_bytes == 0)
        return problem_set(
            problem, ERROR_LIMIT,
            "a ring of %llu frames of %u bytes cannot be made: use shorter filters or blocks",
            (unsigned long long)frames_min, frame_bytes);
    struct ring_memory *ring = calloc(1, sizeof *ring);
    if (ring == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for a ring");
    int error = arena_take(&engine->input, engine->upload, frames * frame_bytes,
                           &ring->bytes_offset, problem);
    if (error == 0) {
        error =
            arena_take(&engine->input, engine->upload, frames / 8, &ring->present_offset, problem);
        if (error < 0)
            arena_give(&engine->input, ring->bytes_offset);
    }
    if (error < 0) {
        free(ring);
        return error;
    }
    arena_populate(&engine->input, ring->bytes_offset, frames * frame_bytes);
    arena_populate(&engine->input, ring->present_offset, frames / 8);
    ring->ring.bytes = engine->input.host + ring->bytes_offset;
    ring->ring.present = (uint32_t *)(void *)(engine->input.host + ring->present_offset);
    ring->ring.frames = (uint32_t)frames;
    ring->ring.frame_bytes = frame_bytes;
    ring->serial = ++engine->ring_serial;
    engine->rings_open++;
    *out = &ring->ring;
    return 0;
}

void ring_give(struct engine *engine, struct ring *ring)
{
    if (ring == NULL)
        return;
    struct ring_memory *memory = (struct ring_memory *)ring;
    arena_give(&engine->input, memory->bytes_offset);
    arena_give(&engine->input, memory->present_offset);
    engine->rings_open--;
    free(memory);
}

int engine_ring_open(struct engine *engine, uint64_t frames_min, uint32_t frame_bytes,
                     struct ring **out, struct problem *problem)
{
    pthread_mutex_lock(&engine->workers);
    int error = ring_take(engine, frames_min, frame_bytes, out, problem);
    pthread_mutex_unlock(&engine->workers);
    return error;
}

void engine_ring_close(struct engine *engine, struct ring *ring)
{
    pthread_mutex_lock(&engine->workers);
    struct ring_memory *memory = (struct ring_memory *)ring;
    if (memory != NULL && atomic_load(&memory->feeds_waiting) > 0)
        engine_request(engine, REQUEST_FEEDS, NULL);
    ring_give(engine, ring);
    pthread_mutex_unlock(&engine->workers);
}

/* ---- batches ----------------------------------------------------------------------------------
 */

struct batch *engine_batch_take(struct engine *engine)
{
    if (engine->free_count == 0)
        return NULL;
    struct slot *slot = engine->free_slots[--engine->free_count];
    slot->batch.count = 0;
    slot->batch.status = BATCH_OK;
    slot->batch.submitted_ns = slot->batch.started_ns = slot->batch.completed_ns = 0;
    slot->samples_used = slot->reports_used = 0;
    slot->rows_reserved = 0;
    return &slot->batch;
}

bool engine_batch_holds(const struct engine *engine, const struct plan *a, const struct plan *b)
{
    const uint64_t floats = plan_floats(a, a->hop) + plan_floats(b, b->hop) + 32;
    return floats <= engine->slot_samples &&
           (uint64_t)a->report_rows + b->report_rows <= engine->slot_reports &&
           a->rows_most + b->rows_most <= ROWS_PER_BATCH;
}

uint32_t engine_batch_room(const struct engine *engine, const struct batch *batch,
                           const struct plan *plan)
{
    const struct slot *slot = (const struct slot *)batch;
    if (batch->count == BATCH_ITEMS_MAX || slot->rows_reserved + plan->rows_most > ROWS_PER_BATCH)
        return 0;
    const uint64_t kept = (engine->slot_samples - slot->samples_used) * sizeof(float) /
                          (plan->info.output_floats * plan->info.sample_bytes);
    const uint64_t samples = decimation_span(plan->info.decimate, kept) / plan->hop;
    const uint64_t reports = (engine->slot_reports - slot->reports_used) / plan->report_rows;
    uint64_t blocks = samples < reports ? samples : reports;
    return (uint32_t)(blocks < plan->blocks_max ? blocks : plan->blocks_max);
}

int engine_batch_add(struct engine *engine, struct batch *batch, const struct batch_item *item)
{
    struct slot *slot = (struct slot *)batch;
    const struct plan *plan = item->plan;
    assert(item->blocks >= 1 && item->blocks <= plan->blocks_max);
    assert(item->ring->frame_bytes == plan->stages[0].rows[0].frame_bytes);
    const uint64_t floats = plan_floats(plan, plan_kept(plan, item->epoch_block, item->blocks));
    const uint64_t reports = (uint64_t)item->blocks * plan->report_rows;
    const bool shared = item->share_previous && batch->count > 0;
    /* Every item's samples begin at a whole cache line. */
    const uint64_t floats_taken = shared ? 0 : (floats + 15) / 16 * 16;
    if (batch->count == BATCH_ITEMS_MAX || slot->samples_used + floats > engine->slot_samples ||
        slot->reports_used + reports > engine->slot_reports ||
        slot->rows_reserved + plan->rows_most > ROWS_PER_BATCH)
        return ERROR_FULL;
    struct batch_item *added = &batch->items[batch->count];
    *added = *item;
    float *output = (float *)(void *)engine->output.host;
    added->samples = shared ? batch->items[batch->count - 1].samples
                            : output + slot->samples_offset + slot->samples_used;
    added->reports = (struct block_report *)(void *)(output + slot->reports_offset +
                                                     slot->reports_used * REPORT_FLOATS);
    added->saturated =
        result_format_native(&plan->info.results)
            ? NULL
            : (const uint32_t *)(const void *)(added->reports +
                                               (uint64_t)item->blocks * plan->info.inputs);
    batch->count++;
    slot->samples_used += floats_taken;
    if (slot->samples_used > engine->slot_samples)
        slot->samples_used = engine->slot_samples;
    slot->reports_used += reports;
    slot->rows_reserved += plan->rows_most;
    return 0;
}

void engine_submit(struct engine *engine, struct batch *batch)
{
    batch->submitted_ns = clock_monotonic_ns();
    engine->in_flight++;
    bool pushed = spsc_push(&engine->submitted, batch);
    assert(pushed);
    (void)pushed;
    doorbell_ring(engine->doorbell);
}

struct batch *engine_completed(struct engine *engine)
{
    struct batch *batch = spsc_pop(&engine->completed);
    if (batch != NULL)
        engine->in_flight--;
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

/* ---- faults and tests -------------------------------------------------------------------------
 */

int engine_reset(struct engine *engine, struct problem *problem)
{
    pthread_mutex_lock(&engine->workers);
    int error = engine_request(engine, REQUEST_RESET, problem);
    pthread_mutex_unlock(&engine->workers);
    return error;
}

int engine_check_guards(struct engine *engine, struct problem *problem)
{
    struct arena *arenas[] = {&engine->input, &engine->spectrum, &engine->state, &engine->output,
                              &engine->table};
    int error = 0;
    pthread_mutex_lock(&engine->workers);
    for (size_t i = 0; error == 0 && i < sizeof arenas / sizeof arenas[0]; i++)
        error = arena_check(arenas[i], engine->upload, problem);
    pthread_mutex_unlock(&engine->workers);
    return error;
}
