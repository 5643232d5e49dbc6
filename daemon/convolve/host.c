/*
 * The host convolver: what host.h promises, built from host_lanes.h.
 *
 * Outputs are cut into components (a complex output has two), components into groups of one
 * vector's lanes. A group's result is a sum of layers: the k-th layer holds the k-th edge of each
 * lane, a vector of inputs (a feed) times a vector of filters. Feeds are shared by all layers that
 * hear the same inputs in the same lanes; in the common case, an edge a channel, feed, layer and
 * group are one, and its window goes there and back in a single walk.
 *
 *     feed:  frames before │ frames now ──► z ──forward──► line (slots)      one a block of B
 *     group: Σ layers (line × spectra) ──back──► z ──► out
 *
 * Memory is made in create and only read or overwritten after that.
 */
#include "convolve/host.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include "convolve/host_lanes.h"
#include "convolve/tree.h"
#include "core/clock.h"

enum { INPUTS_MAX = 1024, OUTPUTS_MAX = 1024 };

/* Inputs side by side in a vector. */
struct feed {
    uint16_t inputs[HOST_LANES_MAX];
    uint32_t count;              /* lanes in use */
    bool neighbours;             /* their channels follow each other */
    bool owned;                  /* one group's own: transformed with it */
    bool counts[HOST_LANES_MAX]; /* the lane that counts its input's values that are not finite */
    uint32_t bad[HOST_LANES_MAX];
    float *before, *now; /* [B][W], they change places */
    float *line;         /* [Q / 8][slots][8][2][W] */
};

/* What becomes of a lane. */
enum lane_kind {
    LANE_VALUE,     /* a float of the output frame */
    LANE_MAGNITUDE, /* alone: its absolute value */
    LANE_ENVELOPE,  /* with the lane after it: their magnitude */
    LANE_IMAGINARY, /* of the envelope in the lane before */
    LANE_UNUSED,
};

/* Components side by side in a vector. */
struct group {
    uint32_t count;
    uint32_t places[HOST_LANES_MAX]; /* floats of the output frame */
    enum lane_kind kinds[HOST_LANES_MAX];
    bool neighbours;  /* values only, and their floats follow each other */
    struct feed *own; /* its only layer's feed, which nobody else hears; NULL: not so */
    struct host_layer *layers;
    struct feed **feeds; /* [layer_count]: of each layer */
    uint32_t layer_count;
};

struct host_convolver {
    /* immutable */
    struct host_convolver_info info;
    const struct host_lanes *lanes;
    struct host_tree tree;
    float *factors;
    uint32_t slots;
    struct feed *feeds;
    struct group *groups;
    uint32_t feed_count, group_count;
    /* the thread that executes */
    float *z;
    uint32_t slot;   /* of the block that is being filled */
    uint32_t filled; /* frames of it */
    uint64_t nonfinite;
};

/* ---- the processor's state ---------------------------------------------------------------------
 */

/* Denormal numbers take a hundred times as long; far below the error bound, they are zero here. */
#ifdef __x86_64__
enum { FLUSH_DENORMALS = 0x8040 }; /* flush to zero, denormals are zero */

static unsigned arithmetic_begin(void)
{
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | FLUSH_DENORMALS);
    return before;
}

static void arithmetic_end(unsigned before)
{
    _mm_setcsr(before);
}
#else
static unsigned arithmetic_begin(void)
{
    return 0; /* such processors do not slow down */
}

static void arithmetic_end(unsigned before)
{
    (void)before;
}
#endif

/* ---- from edges to lanes -----------------------------------------------------------------------
 */

/* One component of one output while the convolver is made. */
struct component {
    uint32_t output;
    bool imaginary;
    enum lane_kind kind;
    uint32_t place;
};

struct build {
    const struct host_convolver_spec *spec;
    struct host_convolver *convolver;
    struct component *components; /* lanes of all groups, one after the other */
    uint32_t count;
    bool counted[INPUTS_MAX]; /* the input has a lane that counts for it */
    double *work;             /* [N] */
    float *spectrum;          /* [N] of one partition */
    uint64_t bytes;
};

static bool output_takes_imaginary(const struct host_convolver_spec *spec, uint32_t output)
{
    if (spec->outputs[output] == OUTPUT_COMPLEX)
        return true;
    for (uint32_t e = 0; e < spec->edge_count; e++)
        if (spec->edges[e].output == output && spec->outputs[output] == OUTPUT_ENVELOPE &&
            spec->taps[spec->edges[e].taps]->im != NULL)
            return true;
    return false;
}

/* A lane a component; an envelope's two stand in one vector, whatever its width. */
static void list_components(struct build *build)
{
    const struct host_convolver_spec *spec = build->spec;
    uint32_t place = 0;
    for (uint32_t o = 0; o < spec->outputs_count; o++) {
        struct component *next = &build->components[build->count];
        const bool envelope = spec->outputs[o] == OUTPUT_ENVELOPE;
        const bool both = output_takes_imaginary(spec, o);
        if (envelope && both && build->count % 2 != 0) {
            *next++ = (struct component){.output = o, .kind = LANE_UNUSED};
            build->count++;
        }
        next[0] = (struct component){o, false,
                                     !envelope ? LANE_VALUE
                                     : both    ? LANE_ENVELOPE
                                               : LANE_MAGNITUDE,
                                     place++};
        build->count++;
        if (!both)
            continue;
        next[1] = (struct component){o, true, envelope ? LANE_IMAGINARY : LANE_VALUE,
                                     envelope ? place : place++};
        build->count++;
    }
    build->convolver->info.output_floats = place;
}

/* The k-th edge that this component hears; NULL: it has fewer. */
static const struct edge *component_edge(const struct host_convolver_spec *spec,
                                         const struct component *component, uint32_t k)
{
    if (component->kind == LANE_UNUSED)
        return NULL;
    for (uint32_t e = 0; e < spec->edge_count; e++) {
        const struct edge *edge = &spec->edges[e];
        if (edge->output != component->output ||
            (component->imaginary && spec->taps[edge->taps]->im == NULL))
            continue;
        if (k-- == 0)
            return edge;
    }
    return NULL;
}

/* ---- memory ------------------------------------------------------------------------------------
 */

static float *take_floats(struct build *build, uint64_t floats)
{
    const uint64_t bytes =
        (floats * sizeof(float) + HOST_ALIGNMENT - 1) / HOST_ALIGNMENT * HOST_ALIGNMENT;
    float *memory = aligned_alloc(HOST_ALIGNMENT, bytes);
    if (memory != NULL)
        memset(memory, 0, bytes);
    build->bytes += bytes;
    return memory;
}

/* ---- feeds -------------------------------------------------------------------------------------
 */

/* The feed with these inputs, made when there is none; NULL: out of memory. */
static struct feed *find_feed(struct build *build, const uint16_t *inputs, uint32_t count)
{
    struct host_convolver *convolver = build->convolver;
    for (uint32_t f = 0; f < convolver->feed_count; f++)
        if (convolver->feeds[f].count == count &&
            memcmp(convolver->feeds[f].inputs, inputs, count * sizeof *inputs) == 0)
            return &convolver->feeds[f];
    const uint32_t width = convolver->lanes->width;
    const uint64_t block_floats = (uint64_t)convolver->info.block_frames * width;
    struct feed *feed = &convolver->feeds[convolver->feed_count++];
    feed->count = count;
    feed->neighbours = true;
    for (uint32_t l = 0; l < count; l++) {
        feed->inputs[l] = inputs[l];
        feed->neighbours = feed->neighbours && inputs[l] == inputs[0] + l;
        feed->counts[l] = !build->counted[inputs[l]];
        build->counted[inputs[l]] = true;
    }
    feed->before = take_floats(build, block_floats);
    feed->now = take_floats(build, block_floats);
    feed->line = take_floats(build, (uint64_t)convolver->slots * convolver->tree.q * 2 * width);
    return feed->before != NULL && feed->now != NULL && feed->line != NULL ? feed : NULL;
}

/* ---- spectra -----------------------------------------------------------------------------------
 */

/* Taps of one component of one edge. */
static const double *component_taps(const struct host_convolver_spec *spec,
                                    const struct component *component, const struct edge *edge)
{
    const struct taps *taps = spec->taps[edge->taps];
    return component->imaginary ? taps->im : taps->re;
}

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

/* Partition p of a filter into lane `lane` of `width`, leaf by leaf. */
static void fill_spectrum(const struct build *build, const struct tree *tree, const double *h,
                          uint32_t count, float gain, uint32_t p, const struct host_layer *layer,
                          float *spectra, uint32_t lane, uint32_t width)
{
    const uint32_t span = partition_taps(build->convolver), from = p * span;
    const uint32_t left = count - from;
    tree_spectrum(tree, h + from, left < span ? left : span, build->work, build->spectrum);
    for (uint32_t v = 0; v < tree->q; v++) {
        const uint64_t point =
            ((uint64_t)(v / HOST_LEAF) * layer->partitions + p) * HOST_LEAF + v % HOST_LEAF;
        spectra[2 * point * width + lane] = build->spectrum[2 * v] * gain;
        spectra[(2 * point + 1) * width + lane] = build->spectrum[2 * v + 1] * gain;
    }
}

/* Whether lanes of one layer, edges[lane] (NULL: none), have one filter and one gain. */
static bool layer_is_shared(const struct host_convolver_spec *spec,
                            const struct component *components, const struct edge *const *edges,
                            uint32_t count)
{
    for (uint32_t l = 0; l < count; l++)
        if (edges[l] == NULL || edges[0] == NULL || edges[l]->gain != edges[0]->gain ||
            component_taps(spec, &components[l], edges[l]) !=
                component_taps(spec, &components[0], edges[0]))
            return false;
    return true;
}

static int fill_layer(struct build *build, const struct tree *tree,
                      const struct component *components, const struct edge *const *edges,
                      uint32_t count, struct host_layer *layer)
{
    const struct host_convolver_spec *spec = build->spec;
    layer->shared = layer_is_shared(spec, components, edges, count);
    for (uint32_t l = 0; l < count; l++) {
        const uint32_t partitions =
            edges[l] == NULL ? 0
                             : partition_count(build->convolver, spec->taps[edges[l]->taps]->count);
        if (partitions > layer->partitions)
            layer->partitions = partitions;
    }
    const uint32_t width = layer->shared ? 1 : build->convolver->lanes->width;
    float *spectra = take_floats(build, (uint64_t)layer->partitions * tree->q * 2 * width);
    if (spectra == NULL)
        return ERROR_MEMORY;
    layer->spectra = spectra;
    for (uint32_t l = 0; l < (layer->shared ? 1 : count); l++) {
        if (edges[l] == NULL)
            continue;
        const uint32_t taps = spec->taps[edges[l]->taps]->count;
        for (uint32_t p = 0; p < partition_count(build->convolver, taps); p++)
            fill_spectrum(build, tree, component_taps(spec, &components[l], edges[l]), taps,
                          edges[l]->gain, p, layer, spectra, l, width);
    }
    return 0;
}

/* ---- groups ------------------------------------------------------------------------------------
 */

static int build_group(struct build *build, const struct tree *tree,
                       const struct component *components, uint32_t count, struct group *group)
{
    const struct host_convolver_spec *spec = build->spec;
    group->count = count;
    group->neighbours = true;
    for (uint32_t l = 0; l < count; l++) {
        group->places[l] = components[l].place;
        group->kinds[l] = components[l].kind;
        group->neighbours = group->neighbours && components[l].kind == LANE_VALUE;
        uint32_t edges = 0;
        while (component_edge(spec, &components[l], edges) != NULL)
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
        uint16_t inputs[HOST_LANES_MAX] = {0}; /* a lane without an edge: any, times 0 */
        for (uint32_t l = 0; l < count; l++) {
            edges[l] = component_edge(spec, &components[l], k);
            inputs[l] = edges[l] != NULL ? edges[l]->input : 0;
        }
        group->feeds[k] = find_feed(build, inputs, count);
        if (group->feeds[k] == NULL ||
            fill_layer(build, tree, components, edges, count, &group->layers[k]) < 0)
            return ERROR_MEMORY;
        group->layers[k].line = group->feeds[k]->line;
    }
    return 0;
}

/* Groups of one layer whose feed no other group hears. */
static void find_owners(struct host_convolver *convolver)
{
    for (uint32_t g = 0; g < convolver->group_count; g++) {
        struct group *group = &convolver->groups[g];
        uint32_t listeners = 0;
        for (uint32_t o = 0; group->layer_count == 1 && o < convolver->group_count; o++)
            for (uint32_t k = 0; k < convolver->groups[o].layer_count; k++)
                listeners += convolver->groups[o].feeds[k] == group->feeds[0];
        group->own = listeners == 1 ? group->feeds[0] : NULL;
        if (group->own != NULL)
            group->own->owned = true;
    }
}

static int build_groups(struct build *build, const struct tree *tree)
{
    struct host_convolver *convolver = build->convolver;
    const uint32_t width = convolver->lanes->width;
    convolver->group_count = (build->count + width - 1) / width;
    convolver->groups = calloc(convolver->group_count, sizeof *convolver->groups);
    /* At most one feed a layer: a layer has an edge or more. */
    convolver->feeds = calloc(2 * (size_t)build->spec->edge_count + 1, sizeof *convolver->feeds);
    if (convolver->groups == NULL || convolver->feeds == NULL)
        return ERROR_MEMORY;
    int error = 0;
    for (uint32_t g = 0; error == 0 && g < convolver->group_count; g++) {
        const uint32_t from = g * width, left = build->count - from;
        error = build_group(build, tree, build->components + from, left < width ? left : width,
                            &convolver->groups[g]);
    }
    if (error == 0)
        find_owners(convolver);
    return error;
}

/* ---- creating ----------------------------------------------------------------------------------
 */

static int check_spec(const struct host_convolver_spec *spec, struct problem *problem)
{
    const bool good = spec->inputs >= 1 && spec->inputs <= INPUTS_MAX && spec->outputs_count >= 1 &&
                      spec->outputs_count <= OUTPUTS_MAX && spec->edge_count >= 1 &&
                      spec->taps_count >= 1 && spec->block_frames >= 1 &&
                      spec->block_frames <= HOST_BLOCK_MAX;
    if (!good)
        return problem_set(problem, ERROR_ARGUMENT,
                           "convolution without a launch takes 1 to %d channels in and out and "
                           "periods of 1 to %d frames",
                           INPUTS_MAX, HOST_BLOCK_MAX);
    for (uint32_t e = 0; e < spec->edge_count; e++)
        if (spec->edges[e].input >= spec->inputs || spec->edges[e].output >= spec->outputs_count ||
            spec->edges[e].taps >= spec->taps_count)
            return problem_set(problem, ERROR_ARGUMENT,
                               "edge %u names a channel or filter that is not there", e);
    return 0;
}

static void read_tree(const struct tree *tree, struct host_tree *out)
{
    out->q = tree->q;
    out->levels = tree->levels;
    for (uint32_t level = 0; level < tree->levels; level++)
        out->log_radices[level] = (uint8_t)(tree->radices >> (2 * level) & 3);
    assert(1 << out->log_radices[tree->levels - 1] == HOST_LEAF);
}

static int build_all(struct build *build, struct tree *tree)
{
    struct host_convolver *convolver = build->convolver;
    read_tree(tree, &convolver->tree);
    convolver->factors = take_floats(build, tree_factor_floats(tree));
    convolver->z = take_floats(build, (uint64_t)tree->fft * convolver->lanes->width);
    build->work = malloc((size_t)tree->fft * sizeof *build->work);
    build->spectrum = malloc((size_t)tree->fft * sizeof *build->spectrum);
    if (convolver->factors == NULL || convolver->z == NULL || build->work == NULL ||
        build->spectrum == NULL)
        return ERROR_MEMORY;
    tree_factors(tree, convolver->factors);
    convolver->tree.factors = convolver->factors;
    return build_groups(build, tree);
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
    struct tree *tree = NULL;
    struct build build = {
        .spec = spec,
        .convolver = calloc(1, sizeof *build.convolver),
        .components = calloc(3 * (size_t)spec->outputs_count, sizeof *build.components),
    };
    struct host_convolver *convolver = build.convolver;
    error = ERROR_MEMORY;
    if (convolver == NULL || build.components == NULL)
        goto done;
    list_components(&build);
    convolver->lanes = host_isa_lanes(isa, build.count);

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
    error = tree_create(fft, 1, HOST_LEAF, &tree, NULL);
    if (error == 0)
        error = build_all(&build, tree);
    convolver->info = (struct host_convolver_info){
        .isa = isa->name,
        .lanes = convolver->lanes->width,
        .block_frames = spec->block_frames,
        .fft = fft,
        .partitions = convolver->slots,
        .inputs = spec->inputs,
        .output_floats = convolver->info.output_floats,
        .memory_bytes = build.bytes,
    };
done:
    tree_free(tree);
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
        free(convolver->feeds[f].before);
        free(convolver->feeds[f].now);
        free(convolver->feeds[f].line);
    }
    for (uint32_t g = 0; convolver->groups != NULL && g < convolver->group_count; g++) {
        struct group *group = &convolver->groups[g];
        for (uint32_t k = 0; group->layers != NULL && k < group->layer_count; k++)
            free((void *)(uintptr_t)group->layers[k].spectra);
        free(group->layers);
        free(group->feeds);
    }
    free(convolver->feeds);
    free(convolver->groups);
    free(convolver->factors);
    free(convolver->z);
    free(convolver);
}

/* ---- executing ---------------------------------------------------------------------------------
 */

void host_convolver_reset(struct host_convolver *convolver)
{
    const uint64_t width = convolver->lanes->width;
    const uint64_t block_bytes = convolver->info.block_frames * width * sizeof(float);
    for (uint32_t f = 0; f < convolver->feed_count; f++) {
        struct feed *feed = &convolver->feeds[f];
        memset(feed->before, 0, block_bytes);
        memset(feed->line, 0, convolver->slots * convolver->tree.q * 2 * width * sizeof(float));
    }
    convolver->slot = convolver->filled = 0;
    convolver->nonfinite = 0;
}

/* The window of N frames that ends with the block: N - 2B zeros, the block before, this one as far
 * as it has come, zeros. */
static void fill_window(const struct host_convolver *convolver, const struct feed *feed)
{
    const uint32_t block = convolver->info.block_frames, q = convolver->tree.q;
    const uint32_t before = 2 * q - 2 * block, now = before + block;
    float *z = convolver->z;
    convolver->lanes->window(z, q, 0, before, NULL);
    convolver->lanes->window(z, q, before, now, feed->before);
    convolver->lanes->window(z, q, now, now + convolver->filled, feed->now);
    convolver->lanes->window(z, q, now + convolver->filled, 2 * q, NULL);
}

static void walk(const struct host_convolver *convolver, struct feed *feed,
                 const struct group *group)
{
    const struct host_walk walk = {
        .tree = &convolver->tree,
        .z = convolver->z,
        .line = feed != NULL ? feed->line : NULL,
        .slot = convolver->slot,
        .slots = convolver->slots,
        .layers = group != NULL ? group->layers : NULL,
        .layer_count = group != NULL ? group->layer_count : 0,
    };
    convolver->lanes->walk(&walk);
}

static void write_lanes(const struct group *group, const float *lanes, float *frame)
{
    for (uint32_t l = 0; l < group->count; l++)
        switch (group->kinds[l]) {
        case LANE_VALUE:
            frame[group->places[l]] = lanes[l];
            break;
        case LANE_MAGNITUDE:
            frame[group->places[l]] = fabsf(lanes[l]);
            break;
        case LANE_ENVELOPE:
            frame[group->places[l]] = sqrtf(lanes[l] * lanes[l] + lanes[l + 1] * lanes[l + 1]);
            break;
        case LANE_IMAGINARY:
        case LANE_UNUSED:
            break;
        }
}

/* Frames [from, filled) of the block; they lie in the imaginary parts. */
static void write_frames(const struct host_convolver *convolver, const struct group *group,
                         uint32_t from, float *out)
{
    const size_t width = convolver->lanes->width, stride = convolver->info.output_floats;
    const uint32_t q = convolver->tree.q;
    const float *lanes =
        convolver->z + (2 * (size_t)(q - convolver->info.block_frames + from) + 1) * width;
    for (uint32_t t = from; t < convolver->filled; t++, lanes += 2 * width, out += stride) {
        if (!group->neighbours)
            write_lanes(group, lanes, out);
        else if (group->count == 16) /* a size the compiler knows: no call */
            memcpy(out + group->places[0], lanes, 16 * sizeof *lanes);
        else if (group->count == 8)
            memcpy(out + group->places[0], lanes, 8 * sizeof *lanes);
        else
            memcpy(out + group->places[0], lanes, group->count * sizeof *lanes);
    }
}

static void take_frames(struct host_convolver *convolver, const float *in, uint32_t frames)
{
    const size_t width = convolver->lanes->width;
    for (uint32_t f = 0; f < convolver->feed_count; f++) {
        struct feed *feed = &convolver->feeds[f];
        memset(feed->bad, 0, sizeof feed->bad);
        convolver->lanes->load(&(struct host_feed_load){
            .in = in,
            .frames = frames,
            .stride = convolver->info.inputs,
            .inputs = feed->inputs,
            .count = feed->count,
            .neighbours = feed->neighbours,
            .lanes = feed->now + convolver->filled * width,
            .bad = feed->bad,
        });
        for (uint32_t l = 0; l < feed->count; l++)
            convolver->nonfinite += feed->counts[l] ? feed->bad[l] : 0;
    }
    convolver->filled += frames;
}

static void finish_block(struct host_convolver *convolver)
{
    for (uint32_t f = 0; f < convolver->feed_count; f++) {
        struct feed *feed = &convolver->feeds[f];
        float *before = feed->before;
        feed->before = feed->now;
        feed->now = before;
    }
    convolver->filled = 0;
    convolver->slot = convolver->slot + 1 < convolver->slots ? convolver->slot + 1 : 0;
}

/* Frames within one block. */
static void execute(struct host_convolver *convolver, const float *in, float *out, uint32_t frames)
{
    const uint32_t from = convolver->filled;
    take_frames(convolver, in, frames);
    /* Feeds with several listeners first; a group's own goes there and back with it. */
    for (uint32_t f = 0; f < convolver->feed_count; f++) {
        struct feed *feed = &convolver->feeds[f];
        if (feed->owned)
            continue;
        fill_window(convolver, feed);
        walk(convolver, feed, NULL);
    }
    for (uint32_t g = 0; g < convolver->group_count; g++) {
        const struct group *group = &convolver->groups[g];
        if (group->own != NULL)
            fill_window(convolver, group->own);
        if (group->layer_count > 0)
            walk(convolver, group->own, group);
        else
            memset(convolver->z, 0,
                   2 * (size_t)convolver->tree.q * convolver->lanes->width * sizeof(float));
        write_frames(convolver, group, from, out);
    }
    if (convolver->filled == convolver->info.block_frames)
        finish_block(convolver);
}

void host_convolver_execute(struct host_convolver *convolver, const float *in, float *out,
                            uint32_t frames)
{
    const unsigned before = arithmetic_begin();
    while (frames > 0) {
        const uint32_t left = convolver->info.block_frames - convolver->filled;
        const uint32_t now = frames < left ? frames : left;
        execute(convolver, in, out, now);
        in += (size_t)now * convolver->info.inputs;
        out += (size_t)now * convolver->info.output_floats;
        frames -= now;
    }
    arithmetic_end(before);
}

uint64_t host_convolver_nonfinite(const struct host_convolver *convolver)
{
    return convolver->nonfinite;
}

const struct host_convolver_info *host_convolver_info(const struct host_convolver *convolver)
{
    return &convolver->info;
}

/* ---- measuring ---------------------------------------------------------------------------------
 */

enum {
    MEASURE_CALLS_MIN = 64,
    MEASURE_CALLS_MAX = 4096,
    MEASURE_NS = 500 * 1000 * 1000,
    OTHER_WORK_BYTES = 16 << 20, /* more than a core's own caches hold */
    LINE_BYTES = 64,
};

static int compare_times(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void host_convolver_measure(struct host_convolver *convolver, struct host_convolver_times *times)
{
    *times = (struct host_convolver_times){0};
    const struct host_convolver_info *info = &convolver->info;
    const size_t in_floats = (size_t)info->block_frames * info->inputs;
    float *in = malloc(in_floats * sizeof *in);
    float *out = malloc((size_t)info->block_frames * info->output_floats * sizeof *out);
    uint8_t *other = calloc(1, OTHER_WORK_BYTES);
    int64_t *each_ns = malloc(MEASURE_CALLS_MAX * sizeof *each_ns);
    if (in != NULL && out != NULL && other != NULL && each_ns != NULL) {
        uint32_t noise = 1;
        for (size_t i = 0; i < in_floats; i++) {
            noise = noise * 1664525u + 1013904223u;
            in[i] = (float)(noise >> 8) / (float)(1 << 23) - 1;
        }
        const int64_t until_ns = clock_monotonic_ns() + MEASURE_NS;
        while (times->calls < MEASURE_CALLS_MIN ||
               (times->calls < MEASURE_CALLS_MAX && clock_monotonic_ns() < until_ns)) {
            if (times->calls % 3 == 2)
                for (size_t i = 0; i < OTHER_WORK_BYTES; i += LINE_BYTES)
                    ((volatile uint8_t *)other)[i]++;
            const int64_t from_ns = clock_monotonic_ns();
            host_convolver_execute(convolver, in, out, info->block_frames);
            each_ns[times->calls++] = clock_monotonic_ns() - from_ns;
        }
        qsort(each_ns, times->calls, sizeof *each_ns, compare_times);
        times->median_ns = each_ns[times->calls / 2];
        times->worst_ns = each_ns[times->calls - 1];
    } else {
        times->median_ns = times->worst_ns = INT64_MAX; /* without memory nothing is fast enough */
    }
    free(in);
    free(out);
    free(other);
    free(each_ns);
    host_convolver_reset(convolver);
}
