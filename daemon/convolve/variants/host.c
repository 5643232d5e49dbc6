/*
 * The variant "host": overlap-save by native vectors on the device thread itself, for batches so
 * small that a launch would take longer than their work. A GPU's batches of such plans touch
 * neither the device nor the bus (launch.h). A row is a group of components, one a lane
 * (host/lanes.h); inputs without an edge have groups for their reports.
 *
 * Where filters are so short that their products take less time than the transforms, a row is one
 * output, computed in the time domain (host/direct.h) with a frame in each lane.
 *
 *     plan's piece of SPECTRUM:  spectra of group 0, 1, … [Q/8][8][2][W] · z [Q][2][W] · tables
 *       in the time domain:      taps of row 0, 1, … [N]                 · z           · tables
 *     row.own.host: where the spectra or taps, the table and z of the row lie
 *
 * Worker threads, one at a time; host_run on the device thread.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "convolve/host/lanes.h"
#include "convolve/plan/assemble.h"
#include "convolve/plan/fft_cache.h"
#include "convolve/plan/fft_plan.h"
#include "convolve/plan/results.h"
#include "convolve/plan/rows.h"
#include "convolve/plan/variant.h"
#include "convolve/variants/host_write.h"

enum {
    LAUNCH_NS = 40000, /* what a launch of PoCL's costs, with waking its threads */
    /* Beside a GPU: what a block's share of a launch of many streams costs the device thread, and
     * little more than half of what a launch between two copies takes (see suits_beside_gpu). */
    GPU_SHARE_NS = 4000,
    GPU_LAUNCH_NS = 25000,
};

/* In the time domain, on one thread of an EPYC with AVX2: a block, a frame to read, count and write
 * (where frames hold other channels, too, each channel goes through all of their memory), and a
 * vector of products. */
static const double direct_block_ns = 60, direct_frame_ns = 1.2, direct_strided_ns = 4,
                    direct_product_ns = 0.25;

enum { TABLE_FLOATS = sizeof(struct host_table) / sizeof(float) };

static struct host_edges edges_of(const struct plan_spec *spec)
{
    return (struct host_edges){.taps = spec->taps,
                               .edges = spec->edges,
                               .edge_count = spec->edge_count,
                               .outputs = spec->outputs,
                               .outputs_count = spec->outputs_count};
}

/* Lists the inputs without an edge. */
static uint32_t list_unheard(const struct plan_spec *spec, uint32_t unheard[CHANNELS_MAX])
{
    bool heard[CHANNELS_MAX] = {false};
    uint32_t count = 0;
    for (uint32_t e = 0; e < spec->edge_count; e++)
        heard[spec->edges[e].input] = true;
    for (uint32_t i = 0; i < spec->inputs; i++)
        if (!heard[i])
            unheard[count++] = i;
    return count;
}

/* ---- what it can do ---------------------------------------------------------------------- */

/* An upper bound of the lanes of a block: its components, and the inputs read for reports only. */
static uint32_t lanes_bound(const struct plan_spec *spec)
{
    uint32_t count = spec->inputs;
    for (uint32_t o = 0; o < spec->outputs_count; o++)
        count += spec->outputs[o] == OUTPUT_REAL ? 1 : 2;
    return count - (spec->inputs < spec->outputs_count ? spec->inputs : spec->outputs_count);
}

/* The widest vectors of this CPU. */
static const struct host_functions *widest(void)
{
    const struct host_isa *isa = host_isa_find(NULL);
    int last = 0;
    while (last + 1 < HOST_WIDTHS && isa->functions[last + 1] != NULL)
        last++;
    return isa->functions[last];
}

static double transform_ns(const struct plan_spec *spec, const struct layout *layout)
{
    const struct host_functions *functions =
        host_isa_functions(host_isa_find(NULL), lanes_bound(spec));
    const uint32_t groups = (lanes_bound(spec) + functions->width - 1) / functions->width;
    return (double)groups * layout->fft * host_frame_ns(functions->width);
}

/* In the time domain; INFINITY: it computes real parts only. */
static double direct_ns(const struct plan_spec *spec, const struct layout *layout)
{
    for (uint32_t o = 0; o < spec->outputs_count; o++)
        if (spec->outputs[o] == OUTPUT_COMPLEX)
            return INFINITY;
    if (layout->taps_longest > HOST_DIRECT_TAPS || layout_any_complex(spec))
        return INFINITY;
    const uint32_t taps = layout->taps_longest;
    const bool alone = spec->inputs == 1 && spec->outputs_count == 1;
    return lanes_bound(spec) *
           (direct_block_ns +
            (double)(spec->hop + taps) * (alone ? direct_frame_ns : direct_strided_ns) +
            (double)spec->hop * taps * direct_product_ns / widest()->width);
}

static bool is_direct(const struct plan_spec *spec, const struct layout *layout)
{
    return direct_ns(spec, layout) < transform_ns(spec, layout);
}

static const char *host_objection(const struct device *device, const struct plan_spec *spec,
                                  bool by_name)
{
    (void)device;
    (void)by_name;
    return layout_output_edges(spec);
}

/* Whether a launch, with its share of the work for each thread, takes longer than one thread does.
 */
static bool suits(const struct device *device, double item_ns)
{
    const uint32_t threads = device->found.info.compute_units;
    return item_ns <= LAUNCH_NS + item_ns / (threads > 2 ? threads : 2);
}

/*
 * A launch between two copies takes 45 us and more on a GPU, however little it computes (measured
 * on an H200), so that a stream by itself is better off without one. But one launch computes the
 * blocks of up to 64 streams, which the device thread computes one after the other, and meanwhile
 * the batches of other streams wait. So no block may cost that thread more than the driver's calls
 * for the copy of one stream's frames do, and even the largest item has to be complete long before
 * a launch were. Then no number of streams takes longer than with launches while each has one block
 * in a batch.
 */
static bool suits_beside_gpu(double item_ns, uint32_t blocks)
{
    return item_ns <= GPU_LAUNCH_NS && item_ns <= (double)GPU_SHARE_NS * blocks;
}

/* The device thread alone does what a launch spreads over all threads of a CPU. So, unless the user
 * asks for the variant by name, its largest item has to take less time than the launch. */
static int host_layout(const struct device *device, const struct plan_spec *spec,
                       const struct variant *variant, bool by_name, struct layout *layout,
                       struct problem *problem)
{
    const bool alone = by_name || device_is_host(&device->found.info); /* no other can */
    int error = layout_standard(device, spec, variant, alone, layout, problem);
    if (error < 0)
        return error;
    const double item_ns =
        spec->blocks_max * fmin(transform_ns(spec, layout), direct_ns(spec, layout));
    const bool suitable =
        device->mirrored ? suits_beside_gpu(item_ns, spec->blocks_max) : suits(device, item_ns);
    if (!alone && !suitable)
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "%s: %u blocks of %u channels take longer than a launch", variant->name,
                           spec->blocks_max, spec->inputs);
    layout->fft_lanes = 1;
    layout->scratch = SCRATCH_LOCAL; /* needs no scratch in device memory */
    return 0;
}

/* ---- memory ------------------------------------------------------------------------------ */

struct shape {
    const struct host_functions *functions;
    struct host_component *components; /* [count] */
    uint32_t count;
    uint32_t groups, unheard_groups;
    uint32_t together; /* lanes of a group: W, or 1 in the time domain */
};

static int shape_open(const struct plan_spec *spec, const struct layout *layout,
                      struct shape *shape)
{
    const bool direct = is_direct(spec, layout);
    const struct host_edges edges = edges_of(spec);
    uint32_t floats, unheard[CHANNELS_MAX];
    shape->components =
        malloc((size_t)HOST_COMPONENTS * spec->outputs_count * sizeof *shape->components);
    if (shape->components == NULL)
        return ERROR_MEMORY;
    shape->count = host_components_list(&edges, shape->components, &floats);
    shape->functions = direct ? widest() : host_isa_functions(host_isa_find(NULL), shape->count);
    shape->together = direct ? 1 : shape->functions->width;
    shape->groups = (shape->count + shape->together - 1) / shape->together;
    shape->unheard_groups = (list_unheard(spec, unheard) + shape->together - 1) / shape->together;
    return 0;
}

/* Reserves the most that host_fill may need: an envelope may leave a lane unused. */
static void host_measure(struct build *build)
{
    const uint64_t fft = build->plan->layout.fft;
    uint64_t lanes = HOST_LANES_MAX;
    for (uint32_t o = 0; o < build->spec->outputs_count; o++)
        lanes += build->spec->outputs[o] == OUTPUT_REAL ? 1 : HOST_COMPONENTS;
    const uint64_t narrowest = is_direct(build->spec, &build->plan->layout) ? 1 : 4;
    const uint64_t groups = (lanes + build->spec->inputs) / narrowest + 2;
    build->spectra_floats = (lanes + HOST_LANES_MAX) * fft + groups * TABLE_FLOATS;
}

/* ---- filling ----------------------------------------------------------------------------- */

static void table_lane(struct host_table *table, uint32_t lane, const struct plan *plan,
                       const struct plan_spec *spec, uint32_t input, bool reported[CHANNELS_MAX])
{
    const struct row like = row_of_input(plan, spec, input);
    table->channel_bytes[lane] = like.channel_byte;
    table->contiguous =
        table->contiguous && like.channel_byte == table->channel_bytes[0] + lane * like.word;
    table->scale[lane] = like.scale;
    table->offset_hi[lane] = like.offset_hi;
    table->offset_lo[lane] = like.offset_lo;
    table->limit[lane] = like.limit;
    table->reports[lane] = reported[input] ? NO_REPORT : input;
    reported[input] = true;
}

/* The first lane's channel becomes that of all lanes, each a frame farther than the one before. */
static void table_frames(struct host_table *table, const struct plan *plan,
                         const struct plan_spec *spec)
{
    const struct row like = row_of_input(plan, spec, 0);
    table->contiguous = like.frame_bytes == like.word;
    for (uint32_t l = 1; l < table->functions->width; l++) {
        table->channel_bytes[l] = table->channel_bytes[0] + l * like.frame_bytes;
        table->scale[l] = table->scale[0];
        table->offset_hi[l] = table->offset_hi[0];
        table->offset_lo[l] = table->offset_lo[0];
        table->limit[l] = table->limit[0];
    }
}

/* A group's samples are contiguous in the frame: makes the target's offsets count from the first of
 * them. */
static void list_samples(struct host_table *table, const struct host_component *components)
{
    struct host_target *target = &table->target;
    table->sample_first = 0;
    for (uint32_t l = 0; l < target->count; l++)
        if (target->kinds[l] != LANE_IMAGINARY && target->kinds[l] != LANE_UNUSED) {
            if (table->samples == 0)
                table->sample_first = components[l].offset;
            assert(components[l].offset == table->sample_first + table->samples);
            table->outputs[table->samples] = components[l].output;
            target->offsets[l] = table->samples++;
        }
}

/* Fills the table and the spectra of one group of components. */
static void fill_group(const struct build *build, const struct shape *shape, uint32_t group,
                       struct host_table *table, float *spectra, float *spectrum,
                       bool reported[CHANNELS_MAX])
{
    const struct plan_spec *spec = build->spec;
    const struct host_edges edges = edges_of(spec);
    const uint32_t width = shape->functions->width, together = shape->together;
    const uint32_t from = group * together;
    const uint32_t count = shape->count - from < together ? shape->count - from : together;
    const struct host_component *components = shape->components + from;
    *table = (struct host_table){.functions = shape->functions, .count = count, .contiguous = true};
    host_target_open(&table->target, components, count);
    if (!result_format_native(&build->plan->info.results))
        list_samples(table, components);
    for (uint32_t l = 0; l < count; l++) {
        /* A component without taps of its own reads its output's input and multiplies it by zero.
         */
        const struct host_component real = {.output = components[l].output, .kind = LANE_VALUE};
        const struct edge *edge = host_component_edge(&edges, &real, 0);
        assert(edge != NULL); /* plans without one were refused */
        table_lane(table, l, build->plan, spec, edge->input, reported);
        const double *taps = host_component_taps(&edges, &components[l], edge);
        if (taps == NULL || components[l].kind == LANE_UNUSED)
            continue;
        if (together == 1) {
            table->taps = spec->taps[edge->taps]->count;
            for (uint32_t s = 0; s < table->taps; s++)
                spectra[s] = (float)(taps[s] * (double)edge->gain);
            continue;
        }
        fft_plan_spectrum(build->plan->fft_plan->plan, taps, spec->taps[edge->taps]->count,
                          build->work, spectrum);
        for (uint32_t v = 0; v < build->plan->layout.fft; v++) /* re and im in turn */
            spectra[(uint64_t)v * width + l] = spectrum[v] * edge->gain;
    }
    if (together == 1)
        table_frames(table, build->plan, spec);
}

static stage_function host_run;

static int host_fill(struct build *build, struct problem *problem)
{
    struct plan *plan = build->plan;
    const struct plan_spec *spec = build->spec;
    const uint64_t fft = plan->layout.fft;
    float *memory = (float *)(void *)(build->device->spectrum.host + plan->spectra_offset);
    bool reported[CHANNELS_MAX] = {false};
    uint32_t unheard[CHANNELS_MAX] = {0};
    const uint32_t unheard_count = list_unheard(spec, unheard);
    struct shape shape;
    struct stage *stage = NULL;
    float *spectrum = malloc(fft * sizeof *spectrum);
    int error = shape_open(spec, &plan->layout, &shape);
    if (error == 0 && spectrum == NULL)
        error = ERROR_MEMORY;
    if (error < 0) {
        problem_set(problem, ERROR_MEMORY, "out of memory for a plan");
        goto done;
    }
    const uint32_t width = shape.functions->width, groups = shape.groups + shape.unheard_groups;
    error = plan_stage(build, NULL, NULL, NULL, groups, &stage, problem);
    if (error < 0)
        goto done;
    stage->run = host_run;
    plan->info.on_host = true;
    stage->count = groups;

    const uint64_t group_floats = fft * shape.together;
    const uint64_t z = shape.groups * group_floats, tables = z + fft * width;
    assert(tables + (uint64_t)groups * TABLE_FLOATS <= build->spectra_floats);
    memset(memory, 0, build->spectra_floats * sizeof *memory);
    for (uint32_t g = 0; g < groups; g++) {
        struct host_table *table =
            (struct host_table *)(void *)(memory + tables + (uint64_t)g * TABLE_FLOATS);
        float *spectra = memory + g * group_floats;
        if (g < shape.groups) {
            fill_group(build, &shape, g, table, spectra, spectrum, reported);
        } else {
            const uint32_t from = (g - shape.groups) * shape.together;
            const uint32_t left = unheard_count - from;
            *table = (struct host_table){.functions = shape.functions,
                                         .count = left < shape.together ? left : shape.together,
                                         .contiguous = true,
                                         .silent = true};
            for (uint32_t l = 0; l < table->count; l++)
                table_lane(table, l, plan, spec, unheard[from + l], reported);
            if (shape.together == 1)
                table_frames(table, plan, spec);
        }
        table->direct = shape.together == 1;
        struct row *row = &stage->rows[g];
        *row = row_of_input(plan, spec, 0);
        row->report = 0;
        row->stride = plan->info.output_floats;
        results_of_row(build, 0, row);
        const uint64_t base = plan->spectra_offset / sizeof(float);
        row->own.host = (struct row_host){.spectra = base + g * group_floats,
                                          .table = base + tables + (uint64_t)g * TABLE_FLOATS,
                                          .points = base + z};
    }
done:
    free(shape.components);
    free(spectrum);
    return error;
}

/* ---- running ----------------------------------------------------------------------------- */

static void run_row(struct device *device, const struct plan *plan, const struct row *row)
{
    float *spectrum = (float *)(void *)device->spectrum.host;
    float *output = (float *)(void *)device->output.host;
    const struct fft_plan *fft_plan = plan->fft_plan->plan;
    const struct host_table *table =
        (const struct host_table *)(const void *)(spectrum + row->own.host.table);
    struct host_fft_plan walked = {
        .q = fft_plan->q,
        .passes = fft_plan->passes,
        .twiddles = spectrum + plan->fft_plan->offset / sizeof(float),
    };
    for (uint32_t level = 0; level < fft_plan->passes; level++)
        walked.log_radices[level] = (uint8_t)(fft_plan->radices >> (2 * level) & 3);
    struct host_statistics stats;
    struct host_block_read read = {
        .ring = device->input.host + row->ring,
        .present = (row->flags & ROW_ABSENT) != 0
                       ? (const uint32_t *)(const void *)(device->input.host + row->present)
                       : NULL,
        .mask = row->mask,
        .frame_bytes = row->frame_bytes,
        .word = row->word,
        .shift_left = row->shift_left,
        .shift_right = row->shift_right,
        .swap = (row->flags & ROW_SWAP) != 0,
        .floats = (row->flags & ROW_FLOAT) != 0,
        .invert = (row->flags & ROW_UNSIGNED) != 0,
        .channel_bytes = table->channel_bytes,
        .count = table->direct ? table->functions->width : table->count,
        .contiguous = table->contiguous,
        .scale = table->scale,
        .offset_hi = table->offset_hi,
        .offset_lo = table->offset_lo,
        .limit = table->limit,
        .q = fft_plan->q,
        .load_from = table->silent ? row->new_from : row->load_from,
        .load_until = row->load_until,
        .new_from = row->new_from,
        .z = spectrum + row->own.host.points,
        .stats = &stats,
    };
    const struct host_walk walk = {
        .fft_plan = &walked,
        .z = spectrum + row->own.host.points,
        .spectra = spectrum + row->own.host.spectra,
    };
    const struct host_direct direct = {
        .read = &read,
        .taps = spectrum + row->own.host.spectra,
        .count = table->taps,
        .frames = row->hop,
        .x = spectrum + row->own.host.points + HOST_DIRECT_TAPS,
        .y = spectrum + row->own.host.points + host_direct_samples(table, fft_plan->q),
    };
    for (uint32_t k = 0; k < row->blocks; k++) {
        read.start = row->start + k * row->hop;
        if (table->direct)
            table->functions->direct(&direct);
        else
            table->functions->read(&read);
        host_write_reports(table, &stats, row, k, output);
        if (table->silent)
            continue;
        if (!table->direct)
            table->functions->walk(&walk);
        host_write_block(table, row, k, walk.z, fft_plan->q, &plan->info.results, output);
    }
}

static int host_run(struct device *device, const struct plan *plan, const struct row *rows,
                    uint32_t count)
{
    for (uint32_t r = 0; r < count; r++)
        run_row(device, plan, &rows[r]);
    return 0;
}

const struct variant variant_host = {
    .name = "host",
    .pace = 3.3,
    .formats = true,
    .decimates = true,
    .any_scale = true,
    .on_host = true,
    .objection = host_objection,
    .layout = host_layout,
    .measure = host_measure,
    .fill = host_fill,
};
