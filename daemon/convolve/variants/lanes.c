/*
 * The variant "lanes": overlap-save on a CPU in one launch (kernels/lanes.cl). A vector of W lanes
 * holds channels first, then consecutive points, then neighbouring blocks. W is 16, 8 or 4: the
 * width of the device's own vectors, or what the specification says.
 *
 * A row computes a group of up to W neighbouring channels, or W / 2 with two components each. The
 * channels that fill no group have a stage of their own, whose groups use their lanes for points.
 * Every size and the sample format are constants of the program. In SPECTRUM, for each stage:
 *
 *     twiddles of the passes, those of the leaves
 *     group: scale[W] offset_hi[W] offset_lo[W] near_full_scale[W] limit[W] · [Q / RUN][re: W][im:
 * W]
 *
 * Worker threads, one at a time.
 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convolve/plan/assemble.h"
#include "convolve/plan/fft_plan.h"
#include "convolve/plan/results.h"
#include "convolve/plan/rows.h"
#include "convolve/plan/variant.h"

enum {
    LEAF = 8,
    LOG_LEAF = 3,
    LEVELS_MAX = 5, /* above the leaf */
    RUN_MAX = 8,    /* the most points of a channel that a vector holds */
    LONE_WIDTH = 8, /* the widest vector for one channel: measured faster than 16 lanes,
                       which hold two or four blocks side by side */
};

/* ---- geometry ---------------------------------------------------------------------------- */

/* What the lanes of one stage hold. */
struct lanes_shape {
    uint32_t width; /* of a vector: 16, 8 or 4 */
    uint32_t fft, q;
    uint32_t channels, components; /* of a group */
    uint32_t span, run, blocks;    /* width = blocks · run · span */
    uint32_t first, groups;        /* channel of the first group */
    uint32_t rows;                 /* groups of channels that one work-item computes */
};

/* Lanes per channel and point: complex outputs and envelopes take two, the real and the imaginary
 * part. */
static uint32_t components(const struct plan_spec *spec)
{
    return spec->outputs[0] == OUTPUT_REAL ? 1 : 2;
}

static uint32_t log2_of(uint32_t power)
{
    return (uint32_t)__builtin_ctz(power);
}

/* How many rows one work-item computes: one unless asked for. Only whole sets of rows, whose
 * vectors hold one point. */
static uint32_t rows_together(const struct plan_spec *spec, const struct lanes_shape *shape)
{
    const bool set = spec->rows != 0 && shape->run == 1 && shape->groups % spec->rows == 0;
    return set ? spec->rows : 1;
}

/* Shapes the stages of a plan: one of full groups, one of the channels that fill none. Returns how
 * many stages there are. */
static uint32_t shapes_of(const struct plan_spec *spec, const struct layout *layout,
                          struct lanes_shape shapes[2])
{
    const uint32_t fft = layout->fft, each = components(spec), most = layout->vector / each;
    const uint32_t counts[2] = {spec->inputs / most, spec->inputs % most != 0};
    const uint32_t channels[2] = {most, spec->inputs % most};
    uint32_t stages = 0;
    for (uint32_t i = 0; i < 2; i++) {
        if (counts[i] == 0)
            continue;
        struct lanes_shape *shape = &shapes[stages++];
        *shape = (struct lanes_shape){
            .width = layout->vector,
            .fft = fft,
            .q = fft / 2,
            .channels = channels[i],
            .components = each,
            .span = 1,
            .first = i == 0 ? 0 : counts[0] * most,
            .groups = counts[i],
        };
        while (shape->span < shape->channels * each)
            shape->span *= 2;
        /* The level above the leaf needs at least `run` leaves; halve RUN_MAX where it would
         * leave too few of them or force a level of radix 2. */
        shape->run = shape->width / shape->span;
        if (shape->run > RUN_MAX)
            shape->run = RUN_MAX;
        const uint32_t above = log2_of(shape->q) - LOG_LEAF;
        if (shape->run == RUN_MAX && above != 3 && above < 5)
            shape->run = RUN_MAX / 2;
        shape->blocks = shape->width / shape->span / shape->run;
        shape->rows = rows_together(spec, shape);
    }
    return stages;
}

/* log2 of the radices above the leaf, by log2 of their product, chosen by measurement. Where a
 * vector holds RUN_MAX leaves at a time, the level next to the leaves has that radix. */
static const uint8_t levels_wide[][LEVELS_MAX] = {
    [2] = {2},
    [3] = {3},
    [4] = {2, 2},
    [5] = {2, 3},
    [6] = {3, 3},
    [7] = {2, 2, 3},
    [8] = {2, 3, 3},
    [9] = {3, 3, 3},
    [10] = {2, 2, 3, 3},
    [11] = {2, 3, 3, 3},
    [12] = {3, 3, 3, 3},
    [13] = {2, 2, 3, 3, 3},
    [14] = {2, 3, 3, 3, 3},
    [15] = {3, 3, 3, 3, 3},
};

enum { ABOVE_MAX = sizeof levels_wide / sizeof levels_wide[0] - 1 };

/* For vectors of one point, where sub-transforms of 128 points fit the first-level cache and ones
 * of 512 do not. */
static const uint8_t levels_one_point_10[LEVELS_MAX] = {3, 3, 2, 2};

static const uint8_t *levels_of(const struct lanes_shape *shape)
{
    const uint32_t above = log2_of(shape->q) - LOG_LEAF;
    assert(above >= 2 && above <= ABOVE_MAX);
    return above == 10 && shape->run == 1 ? levels_one_point_10 : levels_wide[above];
}

/* The radices of these levels and of the leaf, as struct fft_plan holds them. */
static uint64_t radices_of(const struct lanes_shape *shape)
{
    const uint8_t *levels = levels_of(shape);
    uint64_t radices = 0;
    uint32_t level = 0;
    for (; level < LEVELS_MAX && levels[level] != 0; level++)
        radices |= (uint64_t)levels[level] << (2 * level);
    return radices | (uint64_t)LOG_LEAF << (2 * level);
}

/* Floats of the leaves' twiddles, lane by lane; none when a vector holds one point, because the
 * kernel then reads the twiddles of the plan. */
static uint64_t leaf_floats(const struct lanes_shape *shape)
{
    return shape->run == 1 ? 0
                           : (uint64_t)shape->q / LEAF / shape->run * (LEAF - 1) * 2 * shape->width;
}

static uint64_t twiddle_floats(const struct lanes_shape *shape)
{
    return 2 * (uint64_t)shape->q + leaf_floats(shape);
}

static uint64_t constants_floats(const struct lanes_shape *shape)
{
    return 5 * (uint64_t)shape->width;
}

static uint64_t group_floats(const struct lanes_shape *shape)
{
    return constants_floats(shape) + (uint64_t)shape->q / shape->run * 2 * shape->width;
}

static uint64_t local_bytes(const struct lanes_shape *shape)
{
    return (uint64_t)shape->rows * shape->q / shape->run * 2 * shape->width * sizeof(float);
}

/* A slot for every thread, so that none waits for another. */
static bool slots_suit(const struct device *device, const struct layout *layout)
{
    const uint64_t slot_bytes = (uint64_t)layout->planes * layout->fft * sizeof(float);
    const uint32_t slots = device->traits.threads;
    return slots > 0 && slots <= SLOTS_MAX && slots * slot_bytes <= device->state.bytes / 4;
}

static const char *lanes_objection(const struct device *device, const struct plan_spec *spec,
                                   bool by_name)
{
    (void)by_name;
    if (device->traits.lanes == 1)
        return "it is made for CPUs";
    if (layout_single_edges(spec) != NULL)
        return layout_single_edges(spec);
    if (spec->edge_count != spec->inputs || spec->outputs_count != spec->inputs)
        return "an input has no edge";
    for (uint32_t e = 0; e < spec->edge_count; e++)
        if (spec->edges[e].input != spec->edges[e].output)
            return "channels change places";
    for (uint32_t o = 0; o < spec->outputs_count; o++)
        if (spec->outputs[o] != spec->outputs[0])
            return "outputs have several forms";
    return NULL;
}

static int lanes_layout(const struct device *device, const struct plan_spec *spec,
                        const struct variant *variant, bool by_name, struct layout *layout,
                        struct problem *problem)
{
    int error = layout_standard(device, spec, variant, by_name, layout, problem);
    if (error < 0)
        return error;
    struct lanes_shape shapes[2];
    layout->vector = spec->vector != 0 ? spec->vector : device->traits.vector;
    if (spec->vector == 0 && spec->inputs * components(spec) == 1 && layout->vector > LONE_WIDTH)
        layout->vector = LONE_WIDTH;
    const uint32_t stages = shapes_of(spec, layout, shapes);
    layout->fft_lanes = 0;
    layout->planes = layout->rows = 1;
    layout->scratch = SCRATCH_LOCAL;
    for (uint32_t s = 0; s < stages; s++) {
        const uint32_t planes = shapes[s].rows * shapes[s].width / shapes[s].run;
        if (planes > layout->planes)
            layout->planes = planes;
        if (shapes[s].rows > layout->rows)
            layout->rows = shapes[s].rows;
        if (local_bytes(&shapes[s]) > device->traits.local_budget_bytes)
            layout->scratch = SCRATCH_GLOBAL;
    }
    if (layout->scratch == SCRATCH_GLOBAL && slots_suit(device, layout))
        layout->scratch = SCRATCH_SLOTS;
    if (log2_of(layout->fft / 2) - LOG_LEAF > ABOVE_MAX)
        return problem_set(problem, ERROR_UNSUPPORTED, "%s: N = %u is too long for its levels",
                           variant->name, layout->fft);
    return 0;
}

static void lanes_measure(struct build *build)
{
    struct lanes_shape shapes[2];
    const uint32_t stages = shapes_of(build->spec, &build->plan->layout, shapes);
    for (uint32_t s = 0; s < stages; s++)
        build->spectra_floats +=
            twiddle_floats(&shapes[s]) + shapes[s].groups * group_floats(&shapes[s]);
}

/* ---- tables ------------------------------------------------------------------------------ */

static void fill_twiddles(const struct lanes_shape *shape, const struct fft_plan *fft_plan,
                          float *memory)
{
    fft_plan_twiddles(fft_plan, memory);
    if (shape->run == 1)
        return;
    const uint32_t leaves = shape->q / LEAF;
    const float *scalars = memory + 2 * (uint64_t)(leaves - 1); /* [leaf][7][re, im] */
    float *lanes = memory + 2 * (uint64_t)shape->q;
    for (uint32_t leaf = 0; leaf < leaves; leaf += shape->run)
        for (uint32_t i = 0; i < (LEAF - 1) * 2; i++)
            for (uint32_t lane = 0; lane < shape->width; lane++) {
                const uint32_t point = lane / shape->span % shape->run;
                *lanes++ = scalars[(uint64_t)(leaf + point) * (LEAF - 1) * 2 + i];
            }
}

/* Fills the constants and the spectrum of one component of one channel into all its lanes, of which
 * `lane` is the first. */
static void fill_lanes(const struct lanes_shape *shape, float *group, uint32_t lane,
                       const struct row *like, const float *spectrum, float gain)
{
    const bool floats = (like->flags & ROW_FLOAT) != 0;
    const double greatest = floats ? 1 : (double)(0x7fffffffu >> like->shift_right);
    const double offset = fabs((double)like->offset_hi + (double)like->offset_lo);
    const double near_full_scale = (greatest - offset) * fabs((double)like->scale) * (1 - 1e-6);
    for (; lane < shape->width; lane += shape->span) {
        const uint32_t point = lane / shape->span % shape->run;
        group[lane] = like->scale;
        group[shape->width + lane] = like->offset_hi;
        group[2 * shape->width + lane] = like->offset_lo;
        group[3 * shape->width + lane] = (float)fmax(near_full_scale, 0);
        group[4 * shape->width + lane] = like->limit;
        float *place = group + constants_floats(shape) + lane;
        for (uint32_t node = point; node < shape->q / LEAF; node += shape->run)
            for (uint32_t i = 0; i < 2 * LEAF; i++, place += shape->width) /* re and im in turn */
                *place = spectrum[(uint64_t)node * 2 * LEAF + i] * gain;
    }
}

/* Computes the spectra of a channel's components, [components][N]. Taps without an imaginary part
 * have zeros there. */
static void make_spectra(const struct lanes_shape *shape, const struct fft_plan *fft_plan,
                         const struct taps *taps, double *work, float *spectra)
{
    fft_plan_spectrum(fft_plan, taps->re, taps->count, work, spectra);
    if (shape->components == 2 && taps->im != NULL)
        fft_plan_spectrum(fft_plan, taps->im, taps->count, work, spectra + shape->fft);
    else if (shape->components == 2)
        memset(spectra + shape->fft, 0, shape->fft * sizeof *spectra);
}

/* Finds the edge of each input. */
static void find_edges(const struct plan_spec *spec, const struct edge *edges[CHANNELS_MAX])
{
    for (uint32_t e = 0; e < spec->edge_count; e++)
        edges[spec->edges[e].input] = &spec->edges[e];
}

/* Defines everything of a stage that does not change from batch to batch as a constant of its
 * program. */
static void program_options(const struct build *build, const struct lanes_shape *shape,
                            char *options, size_t capacity)
{
    const struct plan *plan = build->plan;
    const struct plan_spec *spec = build->spec;
    const uint8_t *levels = levels_of(shape);
    bool scaled = false, offsets = false;
    struct row like = {0};
    for (uint32_t c = spec->inputs; c-- > 0;) {
        like = row_of_input(plan, spec, c);
        scaled |= like.scale != 1;
        offsets |= like.offset_hi != 0 || like.offset_lo != 0;
    }
    int length =
        snprintf(options, capacity, "-D LANES=%u -D LOG_Q=%u", shape->width, log2_of(shape->q));
    for (uint32_t i = 0; i < LEVELS_MAX; i++)
        length +=
            snprintf(options + length, capacity - (size_t)length, " -D LOG_%u=%u", i, levels[i]);
    length += snprintf(
        options + length, capacity - (size_t)length,
        " -D CHANNELS=%u -D COMPONENTS=%u -D SPAN=%u -D RUN=%u -D BLOCKS=%u -D ROWS=%u -D FORM=%u"
        " -D STRIDE=%u -D FRAME_BYTES=%u -D WORD=%u -D SWAP=%d -D FLOATS=%d -D UNSIGNED=%d"
        " -D SHIFT_LEFT=%u -D SHIFT_RIGHT=%u -D SCALED=%d -D OFFSETS=%d -D LATE=%d"
        " -D DECIMATED=%d",
        shape->channels, shape->components, shape->span, shape->run, shape->blocks, shape->rows,
        row_form(spec->outputs[0]), plan->info.output_floats, like.frame_bytes, like.word,
        (like.flags & ROW_SWAP) != 0, (like.flags & ROW_FLOAT) != 0,
        (like.flags & ROW_UNSIGNED) != 0, like.shift_left, like.shift_right, scaled, offsets,
        like.new_from >= shape->q, plan->info.decimate > 1);
    if (plan->layout.scratch == SCRATCH_SLOTS)
        length +=
            snprintf(options + length, capacity - (size_t)length, " -D SLOTS=%u -D SLOT_WORDS=%u",
                     build->device->traits.threads, SLOT_WORDS_BYTES / (uint32_t)sizeof(float));
    assert((size_t)length < capacity);
    (void)length;
}

/* `base` counts floats of SPECTRUM, `memory` is its place on the host. */
static int fill_stage(struct build *build, const struct lanes_shape *shape, uint64_t base,
                      float *memory, struct problem *problem)
{
    struct plan *plan = build->plan;
    const struct plan_spec *spec = build->spec;
    const struct edge *edges[CHANNELS_MAX] = {NULL};
    char options[KERNEL_OPTIONS];
    program_options(build, shape, options, sizeof options);
    struct stage *stage;
    int error = plan_stage(build, "lanes.cl", "lanes", options, shape->groups, &stage, problem);
    if (error < 0)
        return error;
    stage->group_blocks = shape->blocks;
    stage->group_rows = shape->rows;
    stage->count = shape->groups;
    if (plan->layout.scratch == SCRATCH_LOCAL)
        stage->local_bytes = local_bytes(shape);

    float *spectra = calloc((size_t)shape->components * shape->fft, sizeof *spectra);
    struct fft_plan *fft_plan = NULL;
    error = spectra == NULL
                ? problem_set(problem, ERROR_MEMORY, "out of memory for a plan")
                : fft_plan_create_radices(shape->fft, radices_of(shape), &fft_plan, problem);
    if (error < 0)
        goto done;
    fill_twiddles(shape, fft_plan, memory);
    find_edges(spec, edges);
    const struct taps *last = NULL;
    for (uint32_t g = 0; g < shape->groups; g++) {
        const uint64_t place = twiddle_floats(shape) + g * group_floats(shape);
        const uint32_t first = shape->first + g * shape->channels;
        memset(memory + place, 0, group_floats(shape) * sizeof *memory);
        for (uint32_t c = 0; c < shape->channels; c++) {
            const struct edge *edge = edges[first + c];
            assert(edge != NULL); /* plans without one were refused */
            const struct row like = row_of_input(plan, spec, first + c);
            const struct taps *taps = spec->taps[edge->taps];
            if (taps != last) /* channels often share a filter */
                make_spectra(shape, fft_plan, taps, build->work, spectra);
            last = taps;
            for (uint32_t i = 0; i < shape->components; i++)
                fill_lanes(shape, memory + place, c * shape->components + i, &like,
                           spectra + (size_t)i * shape->fft, edge->gain);
        }
        struct row *row = &stage->rows[g];
        *row = row_of_input(plan, spec, first);
        row->components = shape->components;
        row->form = row_form(spec->outputs[0]);
        row->output_byte =
            (spec->outputs[0] == OUTPUT_COMPLEX ? 2 * first : first) * plan->info.sample_bytes;
        row->stride = plan->info.output_floats;
        results_of_row(build, first, row);
        row->own.lanes = (struct row_lanes){.spectra = base + place + constants_floats(shape),
                                            .constants = base + place,
                                            .twiddles = base};
    }
done:
    fft_plan_free(fft_plan);
    free(spectra);
    return error;
}

static int lanes_fill(struct build *build, struct problem *problem)
{
    struct plan *plan = build->plan;
    struct lanes_shape shapes[2];
    const uint32_t stages = shapes_of(build->spec, &plan->layout, shapes);
    uint64_t base = plan->spectra_offset / sizeof(float);
    float *memory = (float *)(void *)(build->device->spectrum.host + plan->spectra_offset);
    int error = 0;
    for (uint32_t s = 0; error == 0 && s < stages; s++) {
        error = fill_stage(build, &shapes[s], base, memory, problem);
        const uint64_t floats =
            twiddle_floats(&shapes[s]) + shapes[s].groups * group_floats(&shapes[s]);
        base += floats;
        memory += floats;
    }
    return error;
}

const struct variant variant_lanes = {
    .name = "lanes",
    .pace = 3.3,
    .formats = true,
    .vectors = true,
    .decimates = true,
    .objection = lanes_objection,
    .layout = lanes_layout,
    .measure = lanes_measure,
    .fill = lanes_fill,
};
