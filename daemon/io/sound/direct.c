/* Direct mode of a sound card: see direct.h. */
#include "io/sound/direct.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "convolve/host/host.h"
#include "core/clock.h"

enum { MEASUREMENTS = 6, SIDE_IN = 0, SIDE_OUT, SOUND_SIDES };

/* ---- packing ----------------------------------------------------------------------------------
 * A sequence of doubles in this order:
 *
 *     inputs  outputs  edges  sets  full_scale
 *     inputs × { factor, offset }   outputs × form   edges × { input, output, set, gain }
 *     sets × { count, complex, count × re, [count × im] } */

struct packer {
    double *at; /* NULL: only count the numbers */
    size_t count;
};

static void put(struct packer *packer, double value)
{
    if (packer->at != NULL)
        packer->at[packer->count] = value;
    packer->count++;
}

static void put_all(struct packer *packer, const struct plan_spec *plan, double full_scale)
{
    put(packer, plan->inputs);
    put(packer, plan->outputs_count);
    put(packer, plan->edge_count);
    put(packer, plan->taps_count);
    put(packer, full_scale);
    for (uint32_t i = 0; i < plan->inputs; i++) {
        put(packer, channel_scale_factor(&plan->scales[i]));
        put(packer, plan->scales[i].offset);
    }
    for (uint32_t i = 0; i < plan->outputs_count; i++)
        put(packer, plan->outputs[i]);
    for (uint32_t i = 0; i < plan->edge_count; i++) {
        put(packer, plan->edges[i].input);
        put(packer, plan->edges[i].output);
        put(packer, plan->edges[i].taps);
        put(packer, (double)plan->edges[i].gain);
    }
    for (uint32_t i = 0; i < plan->taps_count; i++) {
        const struct taps *taps = plan->taps[i];
        put(packer, taps->count);
        put(packer, taps->im != NULL);
        for (uint32_t k = 0; k < taps->count; k++)
            put(packer, taps->re[k]);
        for (uint32_t k = 0; taps->im != NULL && k < taps->count; k++)
            put(packer, taps->im[k]);
    }
}

int sound_direct_pack(const struct plan_spec *plan, double full_scale, void **out, size_t *bytes,
                      struct problem *problem)
{
    struct packer packer = {0};
    put_all(&packer, plan, full_scale);
    *bytes = packer.count * sizeof(double);
    packer = (struct packer){.at = malloc(*bytes)};
    if (packer.at == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for the filters of a sound card");
    put_all(&packer, plan, full_scale);
    *out = packer.at;
    return 0;
}

/* ---- unpacking --------------------------------------------------------------------------------
 */

struct unpacked {
    uint32_t inputs, outputs_count, edge_count, sets;
    double full_scale;
    enum output_form *outputs;
    struct edge *edges;
    struct taps *taps;           /* [sets]; re and im lie in the packed memory */
    const struct taps **filters; /* [sets] */
};

/* Takes `count` numbers; NULL when fewer are left, then and from then on. The helper checks every
 * count although its own daemon packed them. */
static const double *take(const double **at, const double *end, size_t count)
{
    const double *values = *at;
    if (values == NULL || (size_t)(end - values) < count) {
        *at = NULL;
        return NULL;
    }
    *at += count;
    return values;
}

static void free_unpacked(struct unpacked *unpacked)
{
    free(unpacked->outputs);
    free(unpacked->edges);
    free(unpacked->taps);
    free(unpacked->filters);
}

static int unpack(const void *packed, size_t bytes, double **scales, struct unpacked *u)
{
    const double *at = packed, *end = at + bytes / sizeof *at, *values = take(&at, end, 5);
    *u = (struct unpacked){0};
    *scales = NULL;
    if (values == NULL)
        return ERROR_FORMAT;
    u->inputs = (uint32_t)values[0];
    u->outputs_count = (uint32_t)values[1];
    u->edge_count = (uint32_t)values[2];
    u->sets = (uint32_t)values[3];
    u->full_scale = values[4];
    u->outputs = calloc(u->outputs_count + 1u, sizeof *u->outputs);
    u->edges = calloc(u->edge_count + 1u, sizeof *u->edges);
    u->taps = calloc(u->sets + 1u, sizeof *u->taps);
    u->filters = calloc(u->sets + 1u, sizeof *u->filters);
    *scales = calloc(2 * (size_t)u->inputs + 1, sizeof **scales);
    if (!u->outputs || !u->edges || !u->taps || !u->filters || !*scales)
        return ERROR_MEMORY;
    if ((values = take(&at, end, 2 * (size_t)u->inputs)) != NULL)
        memcpy(*scales, values, 2 * (size_t)u->inputs * sizeof *values);
    values = take(&at, end, u->outputs_count);
    for (uint32_t i = 0; values != NULL && i < u->outputs_count; i++)
        u->outputs[i] = (enum output_form)values[i];
    values = take(&at, end, 4 * (size_t)u->edge_count);
    for (uint32_t i = 0; values != NULL && i < u->edge_count; i++, values += 4)
        u->edges[i] = (struct edge){(uint16_t)values[0], (uint16_t)values[1], (uint16_t)values[2],
                                    (float)values[3]};
    for (uint32_t i = 0; i < u->sets; i++) {
        if ((values = take(&at, end, 2)) == NULL)
            return ERROR_FORMAT;
        struct taps *taps = &u->taps[i];
        taps->count = (uint32_t)values[0];
        taps->re = (double *)take(&at, end, taps->count);
        taps->im = values[1] != 0 ? (double *)take(&at, end, taps->count) : NULL;
        u->filters[i] = taps;
    }
    return at != NULL ? 0 : ERROR_FORMAT;
}

/* ---- the callback -----------------------------------------------------------------------------
 */

struct direct {
    struct host_convolver *convolver;
    const struct sound_side *capture, *playback;
    double *scales;          /* [inputs]{factor, offset} */
    double factor;           /* of what is played */
    uint32_t block;          /* frames of `in`, `out` and `faded` */
    uint32_t history_frames; /* taps of the longest filter: input before the output is settled */
    float *in, *out;         /* [block][channels] */
    float *faded; /* [block][output channels]: this convolver's output while it is incoming */
    bool unconverted[SOUND_SIDES]; /* the device's samples are the convolver's, bit for bit */
};

/*
 * The convolvers of the callback. The helper's main thread offers another one; the callback feeds
 * it input until its history is full, cross-fades to it within one period, and retires the old one,
 * which the main thread frees.
 */
struct changer {
    struct direct *current;         /* callback */
    struct direct *incoming;        /* callback; NULL: no change in progress */
    uint32_t unsettled_frames;      /* callback: input that `incoming` still lacks */
    struct direct *_Atomic offered; /* main → callback; NULL again after the cross-fade */
    struct direct *_Atomic retired; /* callback → main */
};

static void read_input(const struct direct *direct, const uint8_t *input, uint32_t frames)
{
    const struct sound_side *side = direct->capture;
    const size_t sample_bytes = side->format.bytes,
                 frame_bytes = side->device_channels * sample_bytes;
    const bool is_float = side->format.kind == SAMPLE_FLOAT;
    float *to = direct->in;
    for (uint32_t i = 0; i < frames; i++, input += frame_bytes) {
        for (uint32_t c = 0; c < side->channels; c++) {
            const uint8_t *wire = input + side->map[c] * sample_bytes;
            float value = 0;
            if (is_float)
                memcpy(&value, wire, sizeof value);
            double sample = is_float ? (double)value : sample_decode(&side->format, wire);
            *to++ = (float)(sample * direct->scales[2 * c] - direct->scales[2 * c + 1]);
        }
    }
}

static void write_output(const struct direct *direct, uint8_t *output, uint32_t frames)
{
    const struct sound_side *side = direct->playback;
    const size_t sample_bytes = side->format.bytes,
                 frame_bytes = side->device_channels * sample_bytes;
    const float *from = direct->out;
    if (side->channels < side->device_channels)
        memset(output, side->format.kind == SAMPLE_UNSIGNED ? 0x80 : 0, frames * frame_bytes);
    for (uint32_t i = 0; i < frames; i++, output += frame_bytes)
        for (uint32_t c = 0; c < side->channels; c++)
            sample_encode(&side->format, (double)*from++ * direct->factor,
                          output + side->map[c] * sample_bytes);
}

/* Runs the incoming convolver on a part of a period; cross-fades to it once it is settled. */
static void run_incoming(struct changer *changer, const float *in, float *out, uint32_t frames)
{
    struct direct *old = changer->current, *next = changer->incoming;
    const uint32_t floats = next->playback->channels;
    host_convolver_execute(next->convolver, in, next->faded, frames);
    if (changer->unsettled_frames > 0) {
        changer->unsettled_frames -=
            frames < changer->unsettled_frames ? frames : changer->unsettled_frames;
        return;
    }
    for (uint32_t i = 0; i < frames; i++) {
        const float share = (float)(i + 1) / (float)frames;
        for (uint32_t c = 0; c < floats; c++, out++)
            *out = *out * (1 - share) + next->faded[i * floats + c] * share;
    }
    changer->current = next;
    changer->incoming = NULL;
    atomic_store_explicit(&changer->offered, NULL, memory_order_relaxed);
    atomic_store_explicit(&changer->retired, old, memory_order_release);
}

static void process(void *context, const void *input, void *output, uint32_t frames)
{
    struct changer *changer = context;
    const uint8_t *from = input;
    uint8_t *to = output;
    if (changer->incoming == NULL) {
        changer->incoming = atomic_load_explicit(&changer->offered, memory_order_acquire);
        changer->unsettled_frames =
            changer->incoming != NULL ? changer->incoming->history_frames : 0;
    }
    while (frames > 0) {
        const struct direct *direct = changer->current;
        uint32_t part = frames < direct->block ? frames : direct->block;
        const float *in = direct->in;
        float *out = direct->out;
        if (from == NULL) /* PortAudio had no input */
            memset(direct->in, 0, (size_t)part * direct->capture->channels * sizeof(float));
        else if (direct->unconverted[SIDE_IN])
            in = (const float *)(const void *)from;
        else
            read_input(direct, from, part);
        if (direct->unconverted[SIDE_OUT])
            out = (float *)(void *)to;
        host_convolver_execute(direct->convolver, in, out, part);
        if (changer->incoming != NULL)
            run_incoming(changer, in, out, part);
        if (!direct->unconverted[SIDE_OUT])
            write_output(direct, to, part);
        from = from != NULL ? from + (size_t)part * direct->capture->device_channels *
                                         direct->capture->format.bytes
                            : NULL;
        to += (size_t)part * direct->playback->device_channels * direct->playback->format.bytes;
        frames -= part;
    }
}

static bool needs_no_conversion(const struct sound_side *side)
{
    bool same = side->format.kind == SAMPLE_FLOAT && side->channels == side->device_channels;
    for (uint32_t c = 0; same && c < side->channels; c++)
        same = side->map[c] == c;
    return same;
}

static void find_unconverted(struct direct *direct)
{
    direct->unconverted[SIDE_IN] = needs_no_conversion(direct->capture);
    for (uint32_t c = 0; c < direct->capture->channels; c++)
        direct->unconverted[SIDE_IN] &=
            direct->scales[2 * c] == 1 && direct->scales[2 * c + 1] == 0;
    direct->unconverted[SIDE_OUT] = needs_no_conversion(direct->playback) && direct->factor == 1;
}

/* ---- making -----------------------------------------------------------------------------------
 */

static void free_direct(struct direct *direct)
{
    if (direct == NULL)
        return;
    host_convolver_destroy(direct->convolver);
    free(direct->scales);
    free(direct->in);
    free(direct->out);
    free(direct->faded);
    free(direct);
}

/* Keeps the fastest of several measurements, because other work on the machine only adds time. */
static int measure(struct direct *direct, uint32_t taps, const struct sound_request *request,
                   struct sound_direct_times *times, struct problem *problem)
{
    *times = (struct sound_direct_times){
        .worst_ns = INT64_MAX,
        .period_ns = (int64_t)(1e9 * direct->block / request->rate_hz),
    };
    for (int i = 0; i < MEASUREMENTS && times->worst_ns >= times->period_ns / 2; i++) {
        struct host_convolver_times took;
        host_convolver_measure(direct->convolver, &took);
        if (took.worst_ns < times->worst_ns) {
            times->worst_ns = took.worst_ns;
            times->median_ns = took.median_ns;
        }
    }
    if (times->worst_ns < times->period_ns / 2)
        return 0;
    return problem_set(
        problem, ERROR_UNSUPPORTED,
        "mode = direct would be too slow here: %u channels with %u taps take %.0f us a "
        "period, at worst %.0f us, more than half of the %.0f us that %u frames last; write "
        "mode = continuous, or take fewer channels, shorter filters or a longer period",
        request->capture.channels, taps, 1e-3 * (double)times->median_ns,
        1e-3 * (double)times->worst_ns, 1e-3 * (double)times->period_ns, direct->block);
}

int sound_direct_make(const void *packed, size_t bytes, const struct sound_request *request,
                      uint32_t period_frames, struct sound_direct *out,
                      struct sound_direct_times *times, struct problem *problem)
{
    struct unpacked unpacked;
    struct direct *direct = calloc(1, sizeof *direct);
    struct changer *changer = calloc(1, sizeof *changer);
    if (direct == NULL || changer == NULL) {
        free(direct);
        free(changer);
        return problem_set(problem, ERROR_MEMORY, "no memory for direct mode");
    }
    uint32_t longest = 0;
    int error = unpack(packed, bytes, &direct->scales, &unpacked);
    if (error < 0)
        problem_set(problem, (enum error)error, "the filters of direct mode: %s",
                    error_sentence(error));
    for (uint32_t i = 0; error == 0 && i < unpacked.sets; i++)
        longest = unpacked.taps[i].count > longest ? unpacked.taps[i].count : longest;
    const struct host_convolver_spec spec = {
        .inputs = unpacked.inputs,
        .taps = unpacked.filters,
        .taps_count = unpacked.sets,
        .edges = unpacked.edges,
        .edge_count = unpacked.edge_count,
        .outputs = unpacked.outputs,
        .outputs_count = unpacked.outputs_count,
        .block_frames = period_frames,
    };
    if (error == 0)
        error = host_convolver_create(&spec, &direct->convolver, problem);
    free_unpacked(&unpacked);
    if (error == 0) {
        const struct host_convolver_info *info = host_convolver_info(direct->convolver);
        assert(info->inputs == request->capture.channels);
        assert(info->output_floats == request->playback.channels);
        direct->capture = &request->capture;
        direct->playback = &request->playback;
        direct->factor = 1 / unpacked.full_scale;
        direct->block = period_frames;
        find_unconverted(direct);
        direct->in = calloc((size_t)period_frames * info->inputs, sizeof(float));
        direct->out = calloc((size_t)period_frames * info->output_floats, sizeof(float));
        direct->faded = calloc((size_t)period_frames * info->output_floats, sizeof(float));
        direct->history_frames = longest;
        if (direct->in == NULL || direct->out == NULL || direct->faded == NULL)
            error = problem_set(problem, ERROR_MEMORY, "no memory for direct mode");
    }
    if (error == 0)
        error = measure(direct, longest, request, times, problem);
    if (error < 0) {
        free_direct(direct);
        free(changer);
        return error;
    }
    changer->current = direct;
    *out = (struct sound_direct){.process = process, .context = changer};
    return 0;
}

bool sound_direct_settled(struct sound_direct *direct)
{
    struct changer *changer = direct->context;
    free_direct(atomic_exchange_explicit(&changer->retired, NULL, memory_order_acquire));
    return atomic_load_explicit(&changer->offered, memory_order_relaxed) == NULL;
}

void sound_direct_offer(struct sound_direct *direct, struct sound_direct *next)
{
    struct changer *changer = direct->context, *offer = next->context;
    bool settled = sound_direct_settled(direct);
    assert(settled);
    (void)settled;
    atomic_store_explicit(&changer->offered, offer->current, memory_order_release);
    free(offer);
    *next = (struct sound_direct){0};
}

void sound_direct_free(struct sound_direct *direct)
{
    struct changer *changer = direct->context;
    if (changer != NULL) {
        free_direct(changer->current);
        free_direct(atomic_load(&changer->offered));
        free_direct(atomic_load(&changer->retired));
        free(changer);
    }
    *direct = (struct sound_direct){0};
}
