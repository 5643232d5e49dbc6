/* A filter for every channel: see diagonal.h. */
#include "bench/diagonal.h"
#include "convolve/check/prepare.h"
#include "convolve/check/tune.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"

#define SILENCE_NS (120 * NS_PER_SECOND)

enum { CHECKED_FRAMES = 64 };

void ring_bell(void *bell)
{
    doorbell_ring(*(const int *)bell);
}

struct batch *wait_for_batch(int bell, struct engine *engine)
{
    struct batch *batch;
    while ((batch = engine_completed(engine)) == NULL) {
        if (!doorbell_rung_within(bell, SILENCE_NS))
            return NULL;
        doorbell_wait(bell);
    }
    return batch;
}

/* Measures ways to compute the plan with the variant "lanes" at the shortest N, unless this engine
 * knows the best of them already. */
static int tune(struct engine *engine, const struct plan_spec *spec, struct problem *problem)
{
    if (plan_wisdom(engine, spec) != NULL)
        return 0;
    const struct wisdom_entry *entry;
    struct plan_spec own = *spec;
    own.variant = "lanes";
    own.fft = 2 * spec->hop;
    return plan_tune(engine, &own, NULL, NULL, &entry, problem);
}

/* `tuned`: as `convolvd --tune` chooses. */
static int plan_channels(struct engine *engine, const struct plan_spec *spec,
                         struct taps *const *taps, uint32_t channels, bool tuned,
                         struct plan **plan, struct problem *problem)
{
    struct channel_scale *scales = calloc(channels, sizeof *scales);
    struct edge *edges = calloc(channels, sizeof *edges);
    enum output_form *forms = calloc(channels, sizeof *forms);
    int error = ERROR_MEMORY;
    if (scales == NULL || edges == NULL || forms == NULL) {
        problem_set(problem, error, "out of memory for %u channels", channels);
        goto done;
    }
    for (uint32_t c = 0; c < channels; c++) {
        scales[c].full_scale = 1;
        edges[c] = (struct edge){(uint16_t)c, (uint16_t)c, (uint16_t)c, 1};
        forms[c] = OUTPUT_REAL;
    }
    struct plan_spec whole = *spec;
    whole.inputs = whole.taps_count = whole.edge_count = whole.outputs_count = channels;
    whole.scales = scales;
    whole.taps = (const struct taps *const *)taps;
    whole.edges = edges;
    whole.outputs = forms;
    error = tuned ? tune(engine, &whole, problem) : 0;
    if (error == 0)
        error = plan_prepare(engine, &whole, plan, problem);
done:
    free(scales);
    free(edges);
    free(forms);
    return error;
}

int diagonal_plan(struct engine *engine, const struct plan_spec *spec, struct taps *const *taps,
                  uint32_t channels, struct plan **plan, struct problem *problem)
{
    return plan_channels(engine, spec, taps, channels, false, plan, problem);
}

int diagonal_open(struct engine *engine, struct diagonal *diagonal, struct random_state *noise,
                  struct problem *problem)
{
    assert(diagonal->channels > 0 && diagonal->channels <= DIAGONAL_CHANNELS_MOST);
    int error = 0;
    for (uint32_t c = 0; c < diagonal->channels && error == 0; c++) {
        error = taps_create(diagonal->taps_count, false, &diagonal->taps[c], problem);
        for (uint32_t k = 0; k < diagonal->taps_count && error == 0; k++)
            diagonal->taps[c]->re[k] =
                (double)(float)((2 * random_unit(noise) - 1) / sqrt(diagonal->taps_count));
    }
    struct plan_spec spec = {
        .hop = diagonal->hop, .blocks_max = diagonal->blocks, .variant = diagonal->variant};
    sample_format_parse("f32le", &spec.format);
    if (error == 0)
        error = plan_channels(engine, &spec, diagonal->taps, diagonal->channels, diagonal->tuned,
                              &diagonal->plan, problem);
    if (error < 0)
        return error;
    const uint64_t frames =
        plan_info(diagonal->plan)->history_frames + (uint64_t)diagonal->ring_blocks * diagonal->hop;
    error = engine_ring_open(engine, frames, diagonal->channels * (uint32_t)sizeof(float),
                             &diagonal->ring, problem);
    if (error < 0)
        return error;
    float *x = (float *)(void *)diagonal->ring->bytes;
    for (uint64_t i = 0; i < (uint64_t)diagonal->ring->frames * diagonal->channels; i++)
        x[i] = (float)(2 * random_unit(noise) - 1);
    memset(diagonal->ring->present, 0xff, diagonal->ring->frames / 8);
    return 0;
}

double diagonal_error(const struct diagonal *diagonal, const struct batch_item *item,
                      struct random_state *noise)
{
    const float *x = (const float *)(const void *)diagonal->ring->bytes;
    const uint64_t mask = diagonal->ring->frames - 1;
    double error = 0, size = 0;
    for (uint32_t i = 0; i < CHECKED_FRAMES; i++) {
        const uint64_t n = random_below(noise, item->blocks * diagonal->hop);
        const uint32_t c = random_below(noise, diagonal->channels);
        double want = 0;
        for (uint32_t k = 0; k < diagonal->taps_count; k++)
            want += diagonal->taps[c]->re[k] *
                    (double)x[((item->position + n - k) & mask) * diagonal->channels + c];
        const double got = (double)item->samples[n * diagonal->channels + c];
        error += (got - want) * (got - want);
        size += want * want;
    }
    return sqrt(error / size);
}

void diagonal_close(struct engine *engine, struct diagonal *diagonal)
{
    engine_ring_close(engine, diagonal->ring);
    plan_close(diagonal->plan);
    for (uint32_t c = 0; c < diagonal->channels; c++)
        taps_free(diagonal->taps[c]);
}
