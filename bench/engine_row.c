/* One row of bench_engine: see engine_row.h. */
#include "bench/engine_row.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "bench/diagonal.h"
#include "core/clock.h"
#include "signal/reference.h"

enum { CHECKED_FRAMES = 48 };

/* ---- runs -------------------------------------------------------------------------------- */

static void submit(struct row *row, struct contestant *ours, uint32_t blocks)
{
    const uint32_t hop = row->shape.hop;
    struct batch *batch = engine_batch_take(row->stand->engine);
    assert(batch != NULL);
    const struct batch_item item = {
        .plan = ours->plan,
        .ring = row->ring,
        .position = ours->position,
        .epoch_block = ours->position / hop,
        .blocks = blocks,
        .write_until = blocks * hop,
        .fresh_from = ours->uploaded ? ours->position : 0,
        .fresh_until = ours->position + (uint64_t)blocks * hop,
    };
    const int error = engine_batch_add(row->stand->engine, batch, &item);
    assert(error == 0);
    (void)error;
    ours->uploaded = true;
    ours->position += (uint64_t)blocks * hop;
    engine_submit(row->stand->engine, batch);
}

/* `batches` batches, the next submitted before the last is complete; the last one is left in
 * row->output when asked for. False when the device failed. */
static bool run_ours(struct row *row, struct contestant *ours, uint32_t batches, uint32_t blocks,
                     bool keep)
{
    struct stand *stand = row->stand;
    uint32_t submitted = 0, completed = 0;
    bool good = true;
    while (completed < batches) {
        while (submitted < batches && submitted - completed < ROW_IN_FLIGHT) {
            submit(row, ours, blocks);
            submitted++;
        }
        struct batch *batch = wait_for_batch(stand->doorbell, stand->engine);
        if (batch == NULL)
            return false;
        good &= batch->status == BATCH_OK;
        measure_use(batch->items[0].samples);
        if (keep && good)
            memcpy(row->output, batch->items[0].samples,
                   (size_t)blocks * (row->shape.hop / stand->decimate) * row->shape.channels *
                       sizeof(float));
        engine_batch_release(stand->engine, batch);
        completed++;
    }
    return good;
}

static bool run_peer(struct row *row, struct contestant *theirs, uint32_t batches, uint32_t blocks)
{
    for (uint32_t i = 0; i < batches; i++) {
        peer_run(theirs->peer, theirs->method, theirs->position, blocks, row->output);
        theirs->position += (uint64_t)blocks * row->shape.hop;
    }
    measure_use(row->output);
    return true;
}

static bool run(struct row *row, struct contestant *contestant, uint32_t batches, uint32_t blocks)
{
    return contestant->plan != NULL ? run_ours(row, contestant, batches, blocks, false)
                                    : run_peer(row, contestant, batches, blocks);
}

/* ---- correctness ------------------------------------------------------------------------- */

static double input_at(const struct row *row, uint64_t position, uint32_t channel)
{
    const struct ring *ring = row->ring;
    const uint8_t *frame = ring->bytes + (position & (ring->frames - 1)) * ring->frame_bytes;
    return sample_decode(&row->shape.format, frame + channel * row->shape.format.bytes);
}

/* One more run, compared with the definition at random frames of random channels. */
static bool check(struct row *row, struct contestant *contestant)
{
    const struct shape *shape = &row->shape;
    const uint64_t position = contestant->position;
    const uint32_t decimate = contestant->plan != NULL ? row->stand->decimate : 1;
    if (contestant->plan != NULL) {
        if (!run_ours(row, contestant, 1, shape->blocks, true))
            return false;
    } else {
        run_peer(row, contestant, 1, shape->blocks);
    }
    float got[CHECKED_FRAMES];
    double want[CHECKED_FRAMES];
    for (uint32_t i = 0; i < CHECKED_FRAMES; i++) {
        const uint32_t channel = random_below(&row->stand->random, shape->channels);
        const uint32_t place =
            random_below(&row->stand->random, shape->blocks * shape->hop / decimate);
        const uint32_t frame = place * decimate;
        const struct taps *taps = row->taps[channel];
        want[i] = 0;
        for (uint32_t s = 0; s < taps->count; s++)
            want[i] += taps->re[s] * input_at(row, position + frame - s, channel);
        got[i] = row->output[(size_t)place * shape->channels + channel];
    }
    /* White noise is the pass band: the bound relative to the output alone applies. */
    struct error_bound bound;
    contestant->within = error_bound_check(got, 1, want, CHECKED_FRAMES, 0, 0, 0, &bound);
    contestant->error = bound.e2 / bound.want2;
    return true;
}

/* ---- one row ----------------------------------------------------------------------------- */

bool row_measure(struct row *row)
{
    const struct effort *effort = &row->stand->effort;
    const double samples = (double)row->shape.blocks * row->shape.hop * row->shape.channels;
    uint32_t batches[CONTESTANTS_MAX] = {0};
    for (uint32_t i = 0; i < row->count; i++) {
        struct contestant *contestant = &row->contestants[i];
        if (!check(row, contestant)) /* warms caches up too */
            return false;
        const int64_t from_ns = clock_monotonic_ns();
        if (!run(row, contestant, ROW_IN_FLIGHT, row->shape.blocks))
            return false;
        const int64_t took_ns = (clock_monotonic_ns() - from_ns) / ROW_IN_FLIGHT + 1;
        const int64_t wanted = effort->repetition_ns / took_ns;
        batches[i] = wanted < ROW_IN_FLIGHT + 1 ? ROW_IN_FLIGHT + 1 : (uint32_t)wanted;
    }
    for (uint32_t repetition = 0; repetition < effort->repetitions; repetition++)
        for (uint32_t i = 0; i < row->count; i++) {
            struct contestant *contestant = &row->contestants[i];
            const int64_t from_ns = clock_monotonic_ns();
            if (!run(row, contestant, batches[i], row->shape.blocks))
                return false;
            const double took_us = (double)(clock_monotonic_ns() - from_ns) / 1e3;
            series_add(&contestant->rate, samples * batches[i] / took_us);
        }
    const int64_t until_ns = clock_monotonic_ns() + effort->latency_ns;
    for (uint32_t repetition = 0; repetition < effort->latency_runs; repetition++) {
        if (repetition >= LATENCY_RUNS_MIN && clock_monotonic_ns() > until_ns)
            break;
        for (uint32_t i = 0; i < row->count; i++) {
            struct contestant *contestant = &row->contestants[i];
            const int64_t from_ns = clock_monotonic_ns();
            if (!run(row, contestant, 1, 1))
                return false;
            series_add(&contestant->latency, (double)(clock_monotonic_ns() - from_ns) / 1e3);
        }
    }
    return true;
}

void row_close(struct row *row)
{
    for (uint32_t i = 0; i < row->count; i++) {
        plan_close(row->contestants[i].plan);
        if (i + 1 == row->count) /* the methods share one peer */
            peer_close(row->contestants[i].peer);
    }
    engine_ring_close(row->stand->engine, row->ring);
    for (uint32_t c = 0; c < row->shape.channels; c++) {
        if (row->taps != NULL)
            taps_free(row->taps[c]);
        if (row->taps_f32 != NULL)
            free(row->taps_f32[c]);
    }
    free(row->taps);
    free(row->taps_f32);
    free(row->output);
}

static int fill_ring(struct row *row, struct problem *problem)
{
    const struct shape *shape = &row->shape;
    const uint32_t frame_bytes = shape->format.bytes * shape->channels;
    const uint64_t reach = 2ull * shape->fft + (ROW_IN_FLIGHT + 1ull) * shape->blocks * shape->hop;
    int error = engine_ring_open(row->stand->engine, reach, frame_bytes, &row->ring, problem);
    if (error != 0)
        return error;
    const uint64_t samples = (uint64_t)row->ring->frames * shape->channels;
    for (uint64_t i = 0; i < samples; i++)
        sample_encode(&shape->format, 2 * random_unit(&row->stand->random) - 1,
                      row->ring->bytes + i * shape->format.bytes);
    memset(row->ring->present, 0xff, row->ring->frames / 8);
    return 0;
}

static int make_taps(struct row *row, struct problem *problem)
{
    const uint32_t channels = row->shape.channels, count = row->shape.hop + 1;
    row->taps = calloc(channels, sizeof(*row->taps));
    row->taps_f32 = calloc(channels, sizeof *row->taps_f32);
    if (row->taps == NULL || row->taps_f32 == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory for %u filters", channels);
    for (uint32_t c = 0; c < channels; c++) {
        const int error = taps_create(count, false, &row->taps[c], problem);
        row->taps_f32[c] = malloc(count * sizeof(float));
        if (error != 0 || row->taps_f32[c] == NULL)
            return error != 0 ? error
                              : problem_set(problem, ERROR_MEMORY, "out of memory for a filter");
        for (uint32_t s = 0; s < count; s++) {
            row->taps_f32[c][s] = (float)(2 * random_unit(&row->stand->random) - 1);
            row->taps[c]->re[s] = (double)row->taps_f32[c][s];
        }
    }
    return 0;
}

/* Channel c through filter c to output c. */
int row_add_ours(struct row *row, const char *variant, struct problem *problem)
{
    const struct shape *shape = &row->shape;
    const struct plan_spec spec = {
        .format = shape->format,
        .hop = shape->hop,
        .blocks_max = shape->blocks,
        .fft = shape->fft,
        .decimate = row->stand->decimate,
        .vector = row->stand->vector,
        .variant = variant,
    };
    struct contestant *ours = &row->contestants[row->count];
    const int error =
        diagonal_plan(row->stand->engine, &spec, row->taps, shape->channels, &ours->plan, problem);
    if (error == 0) {
        const struct plan_info *info = plan_info(ours->plan);
        plan_way(ours->name, info->variant, 0, info->vector, info->rows);
        ours->position = 2ull * shape->fft;
        row->count = ++row->ours;
    }
    return error;
}

int row_add_peers(struct row *row, struct problem *problem)
{
    const struct peer_shape shape = {
        .ring = row->ring,
        .sample = row->shape.sample,
        .scale = 1,
        .channels = row->shape.channels,
        .fft = row->shape.fft,
        .hop = row->shape.hop,
        .threads = row->stand->threads,
        .blocks_max = row->shape.blocks,
        .taps = (const float *const *)row->taps_f32,
        .taps_count = row->shape.hop + 1,
    };
    struct peer *peer;
    const int error = peer_open(&shape, &peer, problem);
    if (error != 0)
        return error == ERROR_UNSUPPORTED ? 0 : error;
    for (int method = 0; method < PEER_METHODS; method++) {
        struct contestant *theirs = &row->contestants[row->count++];
        snprintf(theirs->name, sizeof theirs->name, "%s", peer_name((enum peer_method)method));
        theirs->peer = peer;
        theirs->method = (enum peer_method)method;
        theirs->position = 2ull * row->shape.fft;
    }
    return 0;
}

int row_open(struct row *row, struct stand *stand, const struct shape *shape,
             struct problem *problem)
{
    row->stand = stand;
    row->shape = *shape;
    row->output = malloc((size_t)shape->blocks * shape->hop * shape->channels * sizeof(float));
    if (row->output == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    const int error = make_taps(row, problem);
    return error != 0 ? error : fill_ring(row, problem);
}
