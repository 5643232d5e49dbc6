/*
 * Creates a host convolver (host/object.h): arranges edges in groups, layers and feeds, computes
 * the filters' spectra lane by lane, and allocates all memory. Worker threads.
 */
#include "convolve/host/object.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "convolve/plan/fft_plan.h"
#include "convolve/plan/input_limit.h"

enum { INPUTS_MAX = 1024, OUTPUTS_MAX = 1024 };

struct build {
    const struct host_convolver_spec *spec;
    struct host_edges edges;
    struct host_convolver *convolver;
    struct host_component *components; /* lanes of all groups, one after the other */
    uint32_t count;
    bool counted[INPUTS_MAX]; /* some lane counts this input's values that are not finite */
    double *work;             /* [N] */
    float *spectrum;          /* [N] of one partition */
    uint64_t bytes;
};

/* ---- memory ------------------------------------------------------------------------------ */

static float *allocate_floats(struct build *build, uint64_t floats)
{
    const uint64_t bytes =
        (floats * sizeof(float) + HOST_ALIGNMENT - 1) / HOST_ALIGNMENT * HOST_ALIGNMENT;
    float *memory = aligned_alloc(HOST_ALIGNMENT, bytes);
    if (memory != NULL)
        memset(memory, 0, bytes);
    build->bytes += bytes;
    return memory;
}

/* ---- feeds ------------------------------------------------------------------------------- */

/* The feed with these inputs, created when there is none; NULL: out of memory. */
static struct feed *find_feed(struct build *build, const uint16_t *inputs, uint32_t count)
{
    struct host_convolver *convolver = build->convolver;
    for (uint32_t f = 0; f < convolver->feed_count; f++)
        if (convolver->feeds[f].count == count &&
            memcmp(convolver->feeds[f].inputs, inputs, count * sizeof *inputs) == 0)
            return &convolver->feeds[f];
    const uint32_t width = convolver->functions->width;
    const uint64_t block_floats = (uint64_t)convolver->info.block_frames * width;
    struct feed *feed = &convolver->feeds[convolver->feed_count++];
    feed->count = count;
    feed->contiguous = true;
    for (uint32_t l = 0; l < count; l++) {
        feed->inputs[l] = inputs[l];
        feed->contiguous = feed->contiguous && inputs[l] == inputs[0] + l;
        feed->counts[l] = !build->counted[inputs[l]];
        build->counted[inputs[l]] = true;
    }
    feed->previous = allocate_floats(build, block_floats);
    feed->current = allocate_floats(build, block_floats);
    feed->line =
        allocate_floats(build, host_leaf_at(convolver->fft_plan.q / HOST_LEAF, convolver->span,
                                            convolver->slots, 2 * HOST_LEAF * (size_t)width));
    return feed->previous != NULL && feed->current != NULL && feed->line != NULL ? feed : NULL;
}

/* ---- spectra ----------------------------------------------------------------------------- */

/* Taps of one partition: B of them, B + 1 when there is only one. */
static uint32_t partition_taps(const struct host_convolver *convolver)
{
    return convolver->info.block_frames + (convolver->slots == 1 ? 1 : 0);
}

static uint32_t partition_count(const struct host_convolver *convolver, uint32_t taps)
{
    const uint32_t span = partition_taps(convolver);
    return (taps + span - 1) / span;
}

/* Stores the spectrum of partition p in lane `lane` of `width`, in the order of the leaves. */
static void fill_spectrum(const struct build *build, const struct fft_plan *fft_plan,
                          const double *h, uint32_t count, float gain, uint32_t p,
                          const struct host_layer *layer, float *spectra, uint32_t lane,
                          uint32_t width)
{
    const uint32_t span = partition_taps(build->convolver), from = p * span;
    const uint32_t left = count - from, leaves = build->convolver->span;
    const size_t leaf_floats = 2 * HOST_LEAF * (size_t)width;
    fft_plan_spectrum(fft_plan, h + from, left < span ? left : span, build->work, build->spectrum);
    for (uint32_t v = 0; v < fft_plan->q; v++) {
        float *point =
            spectra + host_leaf_at(v / HOST_LEAF, leaves, layer->partitions, leaf_floats) +
            p * host_chunk(leaves, leaf_floats) + 2 * (size_t)(v % HOST_LEAF) * width + lane;
        point[0] = build->spectrum[2 * v] * gain;
        point[width] = build->spectrum[2 * v + 1] * gain;
    }
}

/* Whether all lanes of a layer, edges[lane] (NULL: none), use the same filter and gain. */
static bool layer_is_shared(const struct host_edges *all, const struct host_component *components,
                            const struct edge *const *edges, uint32_t count)
{
    for (uint32_t l = 0; l < count; l++)
        if (edges[l] == NULL || edges[0] == NULL || edges[l]->gain != edges[0]->gain ||
            host_component_taps(all, &components[l], edges[l]) !=
                host_component_taps(all, &components[0], edges[0]))
            return false;
    return true;
}

static int fill_layer(struct build *build, const struct fft_plan *fft_plan,
                      const struct host_component *components, const struct edge *const *edges,
                      uint32_t count, struct host_layer *layer)
{
    const struct host_convolver_spec *spec = build->spec;
    layer->shared = layer_is_shared(&build->edges, components, edges, count);
    for (uint32_t l = 0; l < count; l++) {
        const uint32_t partitions =
            edges[l] == NULL ? 0
                             : partition_count(build->convolver, spec->taps[edges[l]->taps]->count);
        if (partitions > layer->partitions)
            layer->partitions = partitions;
    }
    const uint32_t width = layer->shared ? 1 : build->convolver->functions->width;
    float *spectra =
        allocate_floats(build, host_leaf_at(fft_plan->q / HOST_LEAF, build->convolver->span,
                                            layer->partitions, 2 * HOST_LEAF * (size_t)width));
    if (spectra == NULL)
        return ERROR_MEMORY;
    layer->spectra = spectra;
    for (uint32_t l = 0; l < (layer->shared ? 1 : count); l++) {
        if (edges[l] == NULL)
            continue;
        const uint32_t taps = spec->taps[edges[l]->taps]->count;
        for (uint32_t p = 0; p < partition_count(build->convolver, taps); p++)
            fill_spectrum(build, fft_plan,
                          host_component_taps(&build->edges, &components[l], edges[l]), taps,
                          edges[l]->gain, p, layer, spectra, l, width);
    }
    return 0;
}

/* ---- sums ahead -------------------------------------------------------------------------- */

/* R for the whole convolver; 1: none. */
static int choose_ahead(const struct build *build, uint32_t leaves, uint32_t *blocks)
{
    const struct host_convolver_spec *spec = build->spec;
    *blocks = spec->ahead_blocks < leaves ? spec->ahead_blocks : leaves;
    if (build->convolver->slots == 1)
        *blocks = 1;
    if (*blocks != 0)
        return 0;
    uint32_t *partitions = malloc((spec->edge_count + 1) * sizeof *partitions);
    if (partitions == NULL)
        return ERROR_MEMORY;
    for (uint32_t e = 0; e < spec->edge_count; e++)
        partitions[e] = partition_count(build->convolver, spec->taps[spec->edges[e].taps]->count);
    *blocks = host_ahead_blocks(partitions, spec->edge_count, spec->outputs_count, leaves);
    free(partitions);
    return 0;
}

/* A group's sums ahead, unless all its filters fit one partition. */
static int build_ahead(struct build *build, struct group *group)
{
    const struct host_convolver *convolver = build->convolver;
    bool needed = false;
    for (uint32_t k = 0; k < group->layer_count; k++)
        needed = needed || group->layers[k].partitions > 1;
    if (convolver->info.ahead_blocks == 1 || !needed)
        return 0;
    group->ahead =
        allocate_floats(build, (uint64_t)convolver->info.ahead_blocks * convolver->fft_plan.q * 2 *
                                   convolver->functions->width);
    return group->ahead != NULL ? 0 : ERROR_MEMORY;
}

/* ---- groups ------------------------------------------------------------------------------ */

static int build_group(struct build *build, const struct fft_plan *fft_plan,
                       const struct host_component *components, uint32_t count, struct group *group)
{
    host_target_open(&group->target, components, count);
    for (uint32_t l = 0; l < count; l++) {
        uint32_t edges = 0;
        while (host_component_edge(&build->edges, &components[l], edges) != NULL)
            edges++;
        if (edges > group->layer_count)
            group->layer_count = edges;
    }
    group->layers = calloc(group->layer_count + 1, sizeof *group->layers);
    group->feeds = calloc(group->layer_count + 1, sizeof(struct feed *));
    if (group->layers == NULL || group->feeds == NULL)
        return ERROR_MEMORY;
    for (uint32_t k = 0; k < group->layer_count; k++) {
        const struct edge *edges[HOST_LANES_MAX] = {NULL};
        uint16_t inputs[HOST_LANES_MAX] = {0}; /* a lane without an edge reads input 0, times 0 */
        for (uint32_t l = 0; l < count; l++) {
            edges[l] = host_component_edge(&build->edges, &components[l], k);
            inputs[l] = edges[l] != NULL ? edges[l]->input : 0;
        }
        group->feeds[k] = find_feed(build, inputs, count);
        if (group->feeds[k] == NULL ||
            fill_layer(build, fft_plan, components, edges, count, &group->layers[k]) < 0)
            return ERROR_MEMORY;
        group->layers[k].line = group->feeds[k]->line;
    }
    return build_ahead(build, group);
}

/* Marks the feeds that only one group reads, if the group has no other layer. */
static void mark_owned_feeds(struct host_convolver *convolver)
{
    for (uint32_t g = 0; g < convolver->group_count; g++) {
        struct group *group = &convolver->groups[g];
        uint32_t readers = 0;
        for (uint32_t o = 0; group->layer_count == 1 && o < convolver->group_count; o++)
            for (uint32_t k = 0; k < convolver->groups[o].layer_count; k++)
                readers += convolver->groups[o].feeds[k] == group->feeds[0];
        group->own = readers == 1 ? group->feeds[0] : NULL;
        if (group->own != NULL)
            group->own->owned = true;
    }
}

static int build_groups(struct build *build, const struct fft_plan *fft_plan)
{
    struct host_convolver *convolver = build->convolver;
    const uint32_t width = convolver->functions->width;
    convolver->group_count = (build->count + width - 1) / width;
    convolver->groups = calloc(convolver->group_count, sizeof *convolver->groups);
    /* A layer has at least one edge and at most one feed. */
    convolver->feeds = calloc(2 * (size_t)build->spec->edge_count + 1, sizeof *convolver->feeds);
    if (convolver->groups == NULL || convolver->feeds == NULL)
        return ERROR_MEMORY;
    int error = 0;
    for (uint32_t g = 0; error == 0 && g < convolver->group_count; g++) {
        const uint32_t from = g * width, left = build->count - from;
        error = build_group(build, fft_plan, build->components + from, left < width ? left : width,
                            &convolver->groups[g]);
    }
    if (error == 0)
        mark_owned_feeds(convolver);
    return error;
}

/* ---- creating ---------------------------------------------------------------------------- */

static int check_spec(const struct host_convolver_spec *spec, struct problem *problem)
{
    const bool good = spec->inputs >= 1 && spec->inputs <= INPUTS_MAX && spec->outputs_count >= 1 &&
                      spec->outputs_count <= OUTPUTS_MAX && spec->edge_count >= 1 &&
                      spec->taps_count >= 1 && spec->block_frames >= 1 &&
                      spec->block_frames <= HOST_BLOCK_MAX;
    if (!good)
        return problem_set(problem, ERROR_ARGUMENT,
                           "the host convolver takes 1 to %d channels in and out and "
                           "periods of 1 to %d frames",
                           INPUTS_MAX, HOST_BLOCK_MAX);
    if (spec->ahead_blocks > HOST_AHEAD_MAX || (spec->ahead_blocks & (spec->ahead_blocks - 1)) != 0)
        return problem_set(problem, ERROR_ARGUMENT,
                           "the host convolver sums a power of two of blocks at once, up to %d",
                           HOST_AHEAD_MAX);
    for (uint32_t e = 0; e < spec->edge_count; e++)
        if (spec->edges[e].input >= spec->inputs || spec->edges[e].output >= spec->outputs_count ||
            spec->edges[e].taps >= spec->taps_count)
            return problem_set(problem, ERROR_ARGUMENT,
                               "edge %u names a channel or filter that does not exist", e);
    return 0;
}

static void read_fft_plan(const struct fft_plan *fft_plan, struct host_fft_plan *out)
{
    out->q = fft_plan->q;
    out->passes = fft_plan->passes;
    for (uint32_t level = 0; level < fft_plan->passes; level++)
        out->log_radices[level] = (uint8_t)(fft_plan->radices >> (2 * level) & 3);
    assert(1 << out->log_radices[fft_plan->passes - 1] == HOST_LEAF);
}

static int build_all(struct build *build, struct fft_plan *fft_plan)
{
    struct host_convolver *convolver = build->convolver;
    read_fft_plan(fft_plan, &convolver->fft_plan);
    convolver->twiddles = allocate_floats(build, fft_plan_twiddle_floats(fft_plan));
    convolver->z = allocate_floats(build, (uint64_t)fft_plan->fft * convolver->functions->width);
    build->work = malloc((size_t)fft_plan->fft * sizeof *build->work);
    build->spectrum = malloc((size_t)fft_plan->fft * sizeof *build->spectrum);
    if (convolver->twiddles == NULL || convolver->z == NULL || build->work == NULL ||
        build->spectrum == NULL)
        return ERROR_MEMORY;
    fft_plan_twiddles(fft_plan, convolver->twiddles);
    convolver->fft_plan.twiddles = convolver->twiddles;
    return build_groups(build, fft_plan);
}

int host_convolver_create(const struct host_convolver_spec *spec, struct host_convolver **out,
                          struct problem *problem)
{
    *out = NULL;
    int error = check_spec(spec, problem);
    if (error < 0)
        return error;
    const struct host_isa *isa = host_isa_find(spec->isa);
    if (isa == NULL)
        return problem_set(problem, ERROR_UNSUPPORTED, "this CPU does not have %s", spec->isa);
    struct fft_plan *fft_plan = NULL;
    struct build build = {
        .spec = spec,
        .edges = {.taps = spec->taps,
                  .edges = spec->edges,
                  .edge_count = spec->edge_count,
                  .outputs = spec->outputs,
                  .outputs_count = spec->outputs_count},
        .convolver = calloc(1, sizeof *build.convolver),
        .components =
            calloc(HOST_COMPONENTS * (size_t)spec->outputs_count, sizeof *build.components),
    };
    struct host_convolver *convolver = build.convolver;
    error = ERROR_MEMORY;
    if (convolver == NULL || build.components == NULL)
        goto done;
    build.count =
        host_components_list(&build.edges, build.components, &convolver->info.output_floats);
    convolver->functions = host_isa_functions(isa, build.count);
    convolver->limit =
        (float)input_limit(spec->edges, spec->edge_count, spec->taps, spec->taps_count);

    uint32_t longest = 1, fft = HOST_FFT_MIN;
    for (uint32_t e = 0; e < spec->edge_count; e++)
        if (spec->taps[spec->edges[e].taps]->count > longest)
            longest = spec->taps[spec->edges[e].taps]->count;
    while (fft < 2 * spec->block_frames)
        fft *= 2;
    convolver->info.block_frames = spec->block_frames;
    convolver->slots = longest <= spec->block_frames + 1
                           ? 1
                           : (longest + spec->block_frames - 1) / spec->block_frames;
    const uint32_t leaves = fft / 2 / HOST_LEAF;
    error = choose_ahead(&build, leaves, &convolver->info.ahead_blocks);
    if (error < 0)
        goto done;
    convolver->span = convolver->info.ahead_blocks > 1 ? leaves / convolver->info.ahead_blocks : 1;
    error = fft_plan_create(fft, 1, HOST_LEAF, &fft_plan, NULL);
    if (error == 0)
        error = build_all(&build, fft_plan);
    convolver->info = (struct host_convolver_info){
        .isa = isa->name,
        .lanes = convolver->functions->width,
        .block_frames = spec->block_frames,
        .fft = fft,
        .partitions = convolver->slots,
        .ahead_blocks = convolver->info.ahead_blocks,
        .inputs = spec->inputs,
        .output_floats = convolver->info.output_floats,
        .memory_bytes = build.bytes,
    };
done:
    fft_plan_free(fft_plan);
    free(build.components);
    free(build.work);
    free(build.spectrum);
    if (error < 0) {
        host_convolver_destroy(convolver);
        return problem_set(problem, ERROR_MEMORY, "out of memory for the spectra of %u channels",
                           spec->outputs_count);
    }
    *out = convolver;
    return 0;
}

void host_convolver_destroy(struct host_convolver *convolver)
{
    if (convolver == NULL)
        return;
    for (uint32_t f = 0; f < convolver->feed_count; f++) {
        free(convolver->feeds[f].previous);
        free(convolver->feeds[f].current);
        free(convolver->feeds[f].line);
    }
    for (uint32_t g = 0; convolver->groups != NULL && g < convolver->group_count; g++) {
        struct group *group = &convolver->groups[g];
        for (uint32_t k = 0; group->layers != NULL && k < group->layer_count; k++)
            free((void *)(uintptr_t)group->layers[k].spectra);
        free(group->layers);
        free(group->ahead);
        free(group->feeds);
    }
    free(convolver->feeds);
    free(convolver->groups);
    free(convolver->twiddles);
    free(convolver->z);
    free(convolver);
}
