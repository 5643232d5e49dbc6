/* The self-test, see selftest.h. */
#include "convolve/check/selftest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "convolve/lost.h"
#include "convolve/object.h"
#include "convolve/plan/input_limit.h"
#include "convolve/plan/plan.h"
#include "convolve/plan/results.h"
#include "convolve/rings.h"
#include "convolve/worker.h"
#include "core/random.h"
#include "signal/reference.h"
#include "device/compiler.h"

/* The test reads at most this much ring; longer filters are tested on their first partitions. */
static const uint64_t ring_bytes_max = UINT64_C(32) << 20;
/* The comparison does at most so many double multiplications: less than a tenth of a second. */
static const uint64_t products_max = UINT64_C(1) << 26;

struct trial {
    struct engine *engine;
    struct plan *plan;
    const struct plan_spec *spec;
    struct ring *ring;
    uint64_t frames;        /* of noise */
    uint64_t silent_frames; /* of ring before the noise, from position 0 on, which windows read */
    uint64_t epoch_block;   /* the block at which the item begins */
    uint32_t blocks;
    uint64_t fresh_from; /* the device holds the ring before it already */
    bool absent;         /* as if frames might be absent: the stages' `rare` compute all */
    double *values;      /* [frames][inputs], physical */
    float *got;
    double *want;
};

/* Some stage leaves windows with absent frames to a second program. Zero bytes are silence in the
 * formats of such plans, so that the silent frames can count as present, and the first runs. */
static bool trial_has_rare(const struct trial *trial)
{
    for (uint32_t i = 0; i < trial->plan->stage_count; i++)
        if (trial->plan->stages[i].rare != NULL)
            return true;
    return false;
}

/* Random codes are white noise; floats are drawn from (-1, 1). */
static void fill_noise(const struct trial *trial)
{
    const struct sample_format *format = &trial->spec->format;
    struct random_state random = {UINT64_C(0xC0117013D)};
    const uint64_t samples = trial->frames * trial->spec->inputs;
    uint8_t *noise = trial->ring->bytes + trial->silent_frames * trial->ring->frame_bytes;
    memset(trial->ring->bytes, 0, trial->silent_frames * trial->ring->frame_bytes);
    for (uint64_t i = 0; i < samples; i++) {
        uint8_t *wire = noise + i * format->bytes;
        if (format->kind == SAMPLE_FLOAT) {
            sample_encode(format, 2 * random_unit(&random) - 1, wire);
        } else {
            const uint64_t bits = random_u64(&random);
            memcpy(wire, &bits, format->bytes);
        }
    }
    const uint64_t first = trial_has_rare(trial) ? 0 : trial->silent_frames;
    for (uint64_t n = first; n < trial->silent_frames + trial->frames; n++)
        trial->ring->present[n / 32] |= 1u << (n % 32);
}

/* The noise as physical values. */
static void read_noise(const struct trial *trial)
{
    const uint8_t *noise = trial->ring->bytes + trial->silent_frames * trial->ring->frame_bytes;
    sample_decode_block(&trial->spec->format, noise, trial->frames, trial->spec->inputs,
                        trial->values);
    for (uint32_t c = 0; c < trial->spec->inputs; c++) {
        const double factor = channel_scale_factor(&trial->spec->scales[c]);
        const struct input_scale limits =
            input_scale_of(&trial->spec->format, &trial->spec->scales[c], trial->plan->input_limit);
        for (uint64_t n = 0; n < trial->frames; n++) {
            double *value = &trial->values[n * trial->spec->inputs + c];
            const uint8_t *at = noise + (n * trial->spec->inputs + c) * trial->spec->format.bytes;
            *value = input_sample_fits(&limits, &trial->spec->format, at)
                         ? *value * factor - trial->spec->scales[c].offset
                         : 0;
        }
    }
}

/* The device thread computes `blocks` blocks into the worker's slot; *ns is the duration. */
static int run(const struct trial *trial, uint32_t blocks, int64_t *ns, struct problem *problem)
{
    struct plan *plan = trial->plan;
    struct engine *engine = trial->engine;
    struct batch *batch = &engine->slots[engine->slot_count].batch;
    const struct batch_item item = {
        .plan = plan,
        .ring = trial->ring,
        .position = trial->silent_frames + trial->epoch_block * plan->hop,
        .epoch_block = trial->epoch_block,
        .blocks = blocks,
        .write_until = blocks * plan->hop,
        .fresh_from = trial->fresh_from,
        .fresh_until = trial->silent_frames + trial->frames,
        .absent = trial->absent || (trial->silent_frames > 0 && !trial_has_rare(trial)),
    };
    slot_empty((struct slot *)batch);
    batch->cost_ns = 0;
    int error = engine_batch_add(engine, batch, &item);
    if (error < 0)
        return problem_set(problem, ERROR_LIMIT, "the self-test does not fit a batch");
    error = engine_request(engine, REQUEST_RUN, problem);
    *ns = batch->completed_ns - batch->started_ns;
    return error;
}

/* sum over taps of h[k]·x[n - k] for one input. */
static double dot(const struct trial *trial, const double *h, uint32_t taps, uint32_t input,
                  uint64_t n)
{
    const uint32_t inputs = trial->spec->inputs;
    const double *x = trial->values + n * inputs + input;
    const uint64_t count = n + 1 < taps ? n + 1 : taps;
    /* Four independent sums: a single one would wait for each addition's latency. */
    double sums[4] = {0};
    uint64_t k = 0;
    for (; k + 4 <= count; k += 4) {
        sums[0] += h[k] * x[-(int64_t)(k * inputs)];
        sums[1] += h[k + 1] * x[-(int64_t)((k + 1) * inputs)];
        sums[2] += h[k + 2] * x[-(int64_t)((k + 2) * inputs)];
        sums[3] += h[k + 3] * x[-(int64_t)((k + 3) * inputs)];
    }
    for (; k < count; k++)
        sums[0] += h[k] * x[-(int64_t)(k * inputs)];
    return sums[0] + sums[1] + (sums[2] + sums[3]);
}

/* What bounds the error of one output: the sum over its edges of gain · max|H| · the input's size.
 */
static void output_bound(const struct trial *trial, const double *peaks, uint32_t output,
                         double *x2, double *x_max)
{
    const struct plan_spec *spec = trial->spec;
    *x2 = *x_max = 0;
    for (uint32_t e = 0; e < spec->edge_count; e++) {
        if (spec->edges[e].output != output)
            continue;
        double squares = 0, most = 0;
        for (uint64_t n = 0; n < trial->frames; n++) {
            const double value = trial->values[n * spec->inputs + spec->edges[e].input];
            squares += value * value;
            most = fmax(most, fabs(value));
        }
        const double gain = fabs((double)spec->edges[e].gain) * peaks[spec->edges[e].taps];
        *x2 += gain * sqrt(squares / (double)trial->frames);
        *x_max += gain * most;
    }
}

static void output_value(const struct trial *trial, uint32_t output, uint64_t n, double value[2])
{
    const struct plan_spec *spec = trial->spec;
    value[0] = value[1] = 0;
    for (uint32_t e = 0; e < spec->edge_count; e++) {
        const struct edge *edge = &spec->edges[e];
        if (edge->output != output)
            continue;
        const struct taps *taps = spec->taps[edge->taps];
        value[0] += (double)edge->gain * dot(trial, taps->re, taps->count, edge->input, n);
        if (taps->im != NULL && spec->outputs[output] != OUTPUT_REAL)
            value[1] += (double)edge->gain * dot(trial, taps->im, taps->count, edge->input, n);
    }
}

/* Compares frames spread evenly over the item, as many as products_max allows. */
static int compare(struct trial *trial, const double *peaks, const float *samples,
                   struct problem *problem)
{
    struct plan *plan = trial->plan;
    const struct plan_spec *spec = trial->spec;
    const uint64_t frames = plan_kept(plan, trial->epoch_block, trial->blocks);
    const uint64_t first =
        trial->epoch_block * plan->hop + plan_kept_first(plan, trial->epoch_block);
    uint64_t products = 1;
    for (uint32_t e = 0; e < spec->edge_count; e++)
        products += spec->taps[spec->edges[e].taps]->count *
                    (spec->taps[spec->edges[e].taps]->im ? 2u : 1u);
    uint64_t checked = products_max / products;
    checked = checked < 16 ? 16 : checked;
    checked = checked > frames ? frames : checked;

    uint32_t place = 0;
    for (uint32_t o = 0; o < spec->outputs_count; o++) {
        size_t count = 0;
        for (uint64_t i = 0; i < checked; i++) {
            const uint64_t t = checked == 1 ? 0 : i * (frames - 1) / (checked - 1);
            const uint32_t bytes = plan->info.sample_bytes;
            const uint8_t *frame =
                (const uint8_t *)samples + (t * plan->info.output_floats + place) * bytes;
            double value[2];
            output_value(trial, o, first + t * plan->info.decimate, value);
            if (spec->outputs[o] == OUTPUT_ENVELOPE)
                value[0] = hypot(value[0], value[1]);
            for (uint32_t v = 0; v < (spec->outputs[o] == OUTPUT_COMPLEX ? 2 : 1); v++) {
                trial->got[count] =
                    (float)results_value(&plan->info.results, frame + v * bytes, value[v]);
                trial->want[count++] = value[v];
            }
        }
        double x2, x_max;
        output_bound(trial, peaks, o, &x2, &x_max);
        struct error_bound bound;
        const bool good = error_bound_check(trial->got, 1, trial->want, count,
                                            x2 * sqrt((double)checked), x_max, 1, &bound);
        const double relative = bound.limit2 > 0 ? bound.e2 / bound.limit2 * 1e-6 : 0;
        if (!(relative <= plan->info.self_test_error))
            plan->info.self_test_error = relative;
        if (!good)
            return problem_set(
                problem, ERROR_ACCURACY,
                "variant %s (N = %u, %u partitions) on %s misses the error bound on output %u: "
                "%.2g of 1e-06 (largest error %.2g of %.2g); it is not used",
                plan->info.variant, plan->info.fft, plan->info.partitions,
                engine_device(trial->engine)->name, o, relative, bound.e_max, bound.limit_max);
        place += spec->outputs[o] == OUTPUT_COMPLEX ? 2 : 1;
    }
    return 0;
}

/* Whether the kernel has run at this local size; from now on it has. */
static bool has_run(struct kernel *kernel, uint32_t items)
{
    for (int i = 0; i < KERNEL_SIZES; i++) {
        if (kernel->ran[i] == items)
            return true;
        if (kernel->ran[i] == 0) {
            kernel->ran[i] = items;
            return false;
        }
    }
    return false;
}

/* A CPU's driver compiles a kernel when it first runs, and no block of any stream is computed
 * meanwhile. While streams run another process does that. */
static void compile_apart(const struct trial *trial)
{
    struct engine *engine = trial->engine;
    const struct plan *plan = trial->plan;
    if (engine->device.mirrored)
        return;
    const bool live = atomic_load_explicit(&engine->live, memory_order_relaxed);
    for (uint32_t i = 0; i < 2 * plan->stage_count; i++) {
        const struct stage *stage = &plan->stages[i / 2];
        struct kernel *kernel = i % 2 == 0 ? stage->kernel : stage->rare;
        if (kernel == NULL || has_run(kernel, stage->items) || !live)
            continue;
        struct program_request request = engine->device.kernels.target;
        request.file = kernel->file;
        request.options = kernel->options;
        const struct compiler_launch launch = {
            .function = kernel->function,
            .items = stage->items,
            .local_bytes = stage->local_bytes,
            .shared_bytes = stage->shared_bytes != 0 ? stage->shared_bytes
                                                     : stage->items * sizeof(struct report_row),
            .numbers = stage->number_count,
        };
        compiler_run(&request, &launch);
    }
}

/* The first block as the stages' `rare` compute it: it must be the same to the bit. */
static int run_rare(struct trial *trial, struct problem *problem)
{
    const struct plan *plan = trial->plan;
    const struct batch *batch = &trial->engine->slots[trial->engine->slot_count].batch;
    const uint64_t bytes = plan_floats(plan, plan_kept(plan, trial->epoch_block, 1)) * 4;
    if (!trial_has_rare(trial))
        return 0;
    uint8_t *whole = malloc(bytes);
    if (whole == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for a self-test");
    memcpy(whole, batch->items[0].samples, bytes);
    int64_t ns;
    trial->absent = true;
    int error = run(trial, 1, &ns, problem);
    trial->absent = false;
    if (error == 0 && memcmp(whole, batch->items[0].samples, bytes) != 0)
        error = problem_set(problem, ERROR_ACCURACY,
                            "variant %s (N = %u) on %s: its two programs differ; it is not used",
                            plan->info.variant, plan->info.fft, engine_device(trial->engine)->name);
    free(whole);
    return error;
}

static int measure(struct trial *trial, struct problem *problem)
{
    struct plan *plan = trial->plan;
    int64_t ns, one_ns = INT64_MAX, all_ns = INT64_MAX;
    /* The first run of a kernel compiles it, or loads what was compiled; the later ones are timed.
     */
    compile_apart(trial);
    int error = run(trial, 1, &ns, problem);
    if (error == 0)
        error = run_rare(trial, problem);
    for (int i = 0; error == 0 && i < 2; i++) {
        error = run(trial, 1, &ns, problem);
        one_ns = ns < one_ns ? ns : one_ns;
    }
    for (int i = 0; error == 0 && i < 2; i++) {
        error = run(trial, trial->blocks, &ns, problem);
        all_ns = ns < all_ns ? ns : all_ns;
    }
    if (error < 0)
        return error;
    int64_t block_ps = 0;
    if (trial->blocks > 1 && all_ns > one_ns)
        block_ps = (all_ns - one_ns) * 1000 / (trial->blocks - 1);
    const int64_t base_ns = one_ns - block_ps / 1000;
    atomic_store(&plan->cost_block_ps, block_ps > 1000 ? block_ps : 1000);
    atomic_store(&plan->cost_base_ns, base_ns > 1000 ? base_ns : 1000);
    atomic_store(&plan->cost_spectra_ps, atomic_load(&plan->cost_block_ps)); /* at most */
    return 0;
}

static void choose_blocks(struct trial *trial, uint32_t blocks)
{
    const struct plan *plan = trial->plan;
    const struct layout *layout = &plan->layout;
    const uint64_t hop = plan->hop, frame_bytes = trial->spec->inputs * trial->spec->format.bytes;
    trial->blocks = blocks < plan_blocks_fit(plan) ? blocks : plan_blocks_fit(plan);
    uint64_t before = layout->history_blocks + layout->tail_blocks;
    /* From here on blocks have all their input, and windows do not wrap in the ring. */
    const uint64_t reach = trial_has_rare(trial) ? layout->fft - hop : layout->taps_longest - 1;
    const uint64_t settled = (reach + hop - 1) / hop;
    before = before > settled ? before : settled;
    uint64_t most = ring_bytes_max / (hop * frame_bytes);
    if (before + trial->blocks > most) {
        /* Windows read frames before the epoch. The ring keeps room for them, with no frame marked
         * present there. */
        const uint64_t window = layout->tail.fft > layout->fft ? layout->tail.fft : layout->fft;
        const uint64_t room = (window + hop - 1) / hop;
        most = most > room ? most - room : 0;
        before = most > trial->blocks ? most - trial->blocks : 0;
        trial->silent_frames = room * hop;
    }
    /* With decimation the item may keep no frame: begin a block later until it keeps one. */
    while (plan_kept(plan, before, trial->blocks) == 0)
        before++;
    trial->epoch_block = before;
    trial->frames = (before + trial->blocks) * hop;
}

int plan_self_test(struct engine *engine, struct plan *plan, const struct plan_spec *spec,
                   struct problem *problem)
{
    struct trial trial = {.engine = engine, .plan = plan, .spec = spec};
    choose_blocks(&trial, 4);
    double *peaks = calloc(spec->taps_count, sizeof *peaks);
    const uint64_t checked_max = 2 * (uint64_t)trial.blocks * plan->hop;
    trial.values = malloc(trial.frames * spec->inputs * sizeof *trial.values);
    trial.got = malloc(checked_max * sizeof *trial.got);
    trial.want = malloc(checked_max * sizeof *trial.want);
    int error = 0;
    if (peaks == NULL || trial.values == NULL || trial.got == NULL || trial.want == NULL)
        error = problem_set(problem, ERROR_MEMORY, "out of memory for a self-test");
    if (error == 0)
        error = rings_take(&engine->rings, trial.frames + trial.silent_frames,
                           spec->inputs * spec->format.bytes, &trial.ring, problem);
    if (error == 0) {
        for (uint32_t t = 0; t < spec->taps_count; t++)
            peaks[t] =
                taps_peak_response(spec->taps[t]->re, spec->taps[t]->im, spec->taps[t]->count);
        fill_noise(&trial);
        read_noise(&trial);
        plan->info.self_test_error = 0;
        error = measure(&trial, problem);
        if (error == 0)
            error = compare(&trial, peaks, engine->slots[engine->slot_count].batch.items[0].samples,
                            problem);
    }
    rings_give(&engine->rings, trial.ring);
    free(peaks);
    free(trial.values);
    free(trial.got);
    free(trial.want);
    return error;
}

int plan_time(struct engine *engine, struct plan *plan, const struct plan_spec *spec,
              uint32_t blocks, uint32_t runs, int64_t *ns, struct problem *problem)
{
    struct trial trial = {.engine = engine, .plan = plan, .spec = spec};
    atomic_fetch_add(&engine->planner.preparing, 1);
    pthread_mutex_lock(&engine->planner.workers);
    choose_blocks(&trial, blocks);
    int error = engine_check_works(engine, problem);
    if (error == 0)
        error = rings_take(&engine->rings, trial.frames + trial.silent_frames,
                           spec->inputs * spec->format.bytes, &trial.ring, problem);
    if (error == 0) {
        fill_noise(&trial);
        /* This run compiles, rebuilds the delay lines and copies the whole ring. */
        error = run(&trial, trial.blocks, &ns[0], problem);
        trial.fresh_from = trial.silent_frames + trial.epoch_block * plan->hop;
    }
    for (uint32_t i = 0; i < runs && error == 0; i++)
        error = run(&trial, trial.blocks, &ns[i], problem);
    rings_give(&engine->rings, trial.ring);
    pthread_mutex_unlock(&engine->planner.workers);
    atomic_fetch_sub(&engine->planner.preparing, 1);
    return error;
}
