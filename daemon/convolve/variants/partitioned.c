/*
 * The variant "partitioned": long filters with short blocks (kernels/partitioned.cl), in partitions
 * of two sizes after Gardner 1995 and Garcia 2002. The head, taps [0, 2·R·L), has partitions for
 * blocks of L frames. The tail, all further taps, has partitions of R·L taps for R blocks at a
 * time; the kernels compute it one long block ahead, a few rows a block. A short filter has no tail
 * and uniform partitions.
 *
 *     SPECTRUM   each filter's component: head [partitions][N], tail [partitions][N of the tail]
 *     STATE      each channel: head line [head slots][N], tail line [tail slots][N of the tail],
 *                partial sums [long blocks of an item][components][chunks][N of the tail], tail
 *                planes [planes][components][R·L]
 *
 * The numbers of slots and planes are powers of two, so that the low bits of a block's number give
 * its slot.
 *
 * Worker threads, one at a time.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "convolve/plan/assemble.h"
#include "convolve/plan/fft_cache.h"
#include "convolve/plan/rows.h"
#include "convolve/plan/spectra.h"
#include "convolve/plan/variant.h"
#include "core/power.h"

/* A tail costs two more launches, so it has to bring the operations below this share of those of a
 * uniform layout. */
static const double tail_pays = 0.8;
/* Operations a second on one row's tail, while a block waits for them: an estimate for a slow core
 * or one work-group of a GPU. Groups that share a tail do a hundred times as many. */
static const double tail_flops_per_s = 4e9;

static const char *partitioned_objection(const struct device *device, const struct plan_spec *spec,
                                         bool by_name)
{
    (void)device;
    (void)by_name;
    return layout_single_edges(spec);
}

/* ---- geometry ----------------------------------------------------------------------------------
 */

/* Taps of the head when a long block is R = `span` blocks. */
static uint64_t head_taps(const struct plan_spec *spec, uint32_t span)
{
    return 2 * (uint64_t)span * spec->hop;
}

/* Floats of a channel's partial sums, for as many long blocks as one item computes or one jump
 * makes it compute again. */
static uint64_t sums_floats(const struct plan_spec *spec, const struct tail_layout *tail)
{
    const uint32_t due = (spec->blocks_max + tail->span - 1) / tail->span;
    const uint32_t chunks = (tail->partitions + TAIL_CHUNK - 1) / TAIL_CHUNK;
    const uint32_t components = layout_any_complex(spec) ? 2 : 1;
    return (uint64_t)(due > 2 ? due : 2) * components * chunks * tail->fft;
}

/* Groups share a row's tail on devices that have many of them, unless the partial sums would take
 * more memory than the delay line. */
static bool tail_shared(const struct device *device, const struct plan_spec *spec,
                        const struct tail_layout *tail)
{
    return device->traits.items > 1 &&
           sums_floats(spec, tail) <= (uint64_t)tail->partitions * tail->fft;
}

/* The share of one row that a single group computes must take at most half a block's time, or no
 * more operations than each block would do without a tail. */
static bool slice_fits(const struct plan_spec *spec, double flops, double uniform)
{
    return spec->rate_hz <= 0 || flops / tail_flops_per_s <= spec->hop / spec->rate_hz / 2 ||
           flops <= uniform * spec->inputs;
}

/* Chooses the length of the long block that needs the fewest operations per block, and leaves the
 * layout uniform when none pays. */
static void choose_tail(const struct device *device, const struct plan_spec *spec,
                        struct layout *layout)
{
    const double uniform = layout_block_cost(layout->fft, layout->partitions);
    double best = tail_pays * uniform;
    for (uint32_t span = 2; head_taps(spec, span) < layout->taps_longest; span *= 2) {
        const uint64_t long_frames = (uint64_t)span * spec->hop;
        const uint32_t head = (uint32_t)head_taps(spec, span);
        struct tail_layout tail = {
            .span = span,
            .fft = (uint32_t)power_of_two_from(1, 2 * long_frames),
            .partitions = (uint32_t)((layout->taps_longest - head + long_frames - 1) / long_frames),
        };
        if (tail.fft > FFT_MAX || tail.fft * sizeof(float) > device->traits.local_budget_bytes)
            break;
        const uint32_t head_fft =
            spec->fft != 0 ? spec->fft : layout_partitioned_fft(device, spec, head);
        const uint32_t head_partitions =
            head_fft != 0 ? layout_partition_count(head_fft, spec->hop, head) : 0;
        if (head_partitions == 0 || head_fft * sizeof(float) > device->traits.local_budget_bytes)
            continue;
        const double flops = layout_block_cost(tail.fft, tail.partitions);
        const double cost = layout_block_cost(head_fft, head_partitions) + flops / span;
        tail.shared = tail_shared(device, spec, &tail);
        if (cost >= best || !(tail.shared || slice_fits(spec, flops, uniform)))
            continue;
        best = cost;
        layout->fft = head_fft;
        layout->partitions = head_partitions;
        layout->tail = tail;
    }
}

static int partitioned_layout(const struct device *device, const struct plan_spec *spec,
                              const struct variant *variant, bool by_name, struct layout *layout,
                              struct problem *problem)
{
    int error = layout_standard(device, spec, variant, by_name, layout, problem);
    if (error < 0)
        return error;
    if (layout->scratch == SCRATCH_LOCAL && layout->partitions > 1)
        choose_tail(device, spec, layout);
    if (layout->tail.span == 0)
        return 0;
    const uint32_t span = layout->tail.span;
    layout->partition_blocks = (layout->fft - spec->hop + 1) / spec->hop;
    layout->partition_taps = layout->partition_blocks * spec->hop;
    /* A block reads the planes of its own long block while the kernels compute those of the next,
     * and history_blocks is what these planes are computed from. */
    layout->tail_blocks = 2 * span;
    layout->history_blocks = (layout->tail.partitions + 2) * span;
    return 0;
}

/* ---- memory ------------------------------------------------------------------------------------
 */

/* Windows of the tail that come before an item: those that its planes and the plane before them
 * are computed from. */
static uint32_t windows_before(const struct layout *layout)
{
    return layout->tail.partitions + 1;
}

/* Sizes of the parts of STATE. */
struct places {
    uint32_t head_blocks; /* blocks before a block that its head reads */
    uint32_t head_slots, tail_slots, planes;
    uint64_t head_floats, tail_floats, plane_floats; /* of one channel; the sums are the tail's */
    uint32_t tail_groups; /* groups that share the sums of a row's long block; 0: there are none */
};

static struct places places_of(const struct build *build)
{
    const struct plan *plan = build->plan;
    const struct layout *layout = &plan->layout;
    struct places places = {.head_blocks = (layout->partitions - 1) * layout->partition_blocks,
                            .tail_slots = 1,
                            .planes = 1};
    places.head_slots =
        (uint32_t)power_of_two_from(1, (uint64_t)places.head_blocks + plan->blocks_max);
    places.head_floats = (uint64_t)places.head_slots * layout->fft;
    if (layout->tail.span > 0) {
        const uint32_t span = layout->tail.span, long_blocks = plan->blocks_max / span + 3;
        /* One launch transforms those before an item; the next one those of the item, which begins
         * within a long block, while the first sums of the item still read the others. */
        const uint32_t own = (plan->blocks_max - 1 + span - 1) / span;
        places.tail_slots = (uint32_t)power_of_two_from(1, (uint64_t)windows_before(layout) + own);
        places.planes = (uint32_t)power_of_two_from(1, long_blocks);
        places.tail_floats = (uint64_t)places.tail_slots * layout->tail.fft;
        if (layout->tail.shared) {
            const uint32_t chunks = (layout->tail.partitions + TAIL_CHUNK - 1) / TAIL_CHUNK;
            /* an item of a group takes two bins, of N / 2 */
            const uint32_t strips = (layout->tail.fft / 4 + layout->items - 1) / layout->items;
            places.tail_groups = strips * chunks;
            places.tail_floats += sums_floats(build->spec, &layout->tail);
        }
        places.plane_floats = 2 * (uint64_t)places.planes * layout->tail.span * plan->hop;
    }
    return places;
}

/* How many of a filter's `count` taps belong to the head. */
static uint32_t head_count(const struct plan *plan, uint32_t count)
{
    const uint64_t head = 2 * (uint64_t)plan->layout.tail.span * plan->hop;
    return head == 0 || count < head ? count : (uint32_t)head;
}

static uint32_t parts(uint32_t taps, uint64_t each)
{
    return (uint32_t)((taps + each - 1) / each);
}

static uint64_t tail_taps(const struct plan *plan)
{
    return (uint64_t)plan->layout.tail.span * plan->hop;
}

/* Floats of one component of a filter: head, then tail. */
static uint64_t component_floats(const struct plan *plan, const struct taps *taps)
{
    const struct layout *layout = &plan->layout;
    const uint32_t head = head_count(plan, taps->count);
    uint64_t floats = (uint64_t)parts(head, layout->partition_taps) * layout->fft;
    if (taps->count > head)
        floats += (uint64_t)parts(taps->count - head, tail_taps(plan)) * layout->tail.fft;
    return floats;
}

static void partitioned_measure(struct build *build)
{
    const struct places places = places_of(build);
    build->spectra_floats = spectra_place_components(build, component_floats);
    build->state_floats =
        build->spec->edge_count * (places.head_floats + places.tail_floats + places.plane_floats);
}

/* ---- tables ------------------------------------------------------------------------------------
 */

/* Fills the head and then the tail, in the sizes that component_floats counts. */
static void component_fill(const struct plan *plan, const double *h, uint32_t count, double *work,
                           float *spectra)
{
    const struct layout *layout = &plan->layout;
    const uint32_t head = head_count(plan, count);
    spectra_write(plan->fft_plan->plan, h, head, layout->partition_taps, layout->fft, work,
                  spectra);
    if (count > head)
        spectra_write(plan->tail_fft_plan->plan, h + head, count - head, tail_taps(plan),
                      layout->tail.fft, work,
                      spectra + (uint64_t)parts(head, layout->partition_taps) * layout->fft);
}

static int add_stage(struct build *build, const char *function, const struct places *places,
                     struct stage **out, struct problem *problem)
{
    const struct layout *layout = &build->plan->layout;
    int error = plan_stage(build, "partitioned.cl", function,
                           places->tail_groups > 0 ? "-D TAIL_SUMS" : NULL, build->spec->inputs,
                           out, problem);
    if (error < 0)
        return error;
    struct stage *stage = *out;
    const uint64_t numbers[] = {layout->tail.span, places->head_slots, places->tail_slots,
                                places->planes, places->tail_groups};
    memcpy(stage->numbers, numbers, sizeof numbers);
    stage->number_count = sizeof numbers / sizeof numbers[0];
    stage->keeps = KEEPS_SPECTRA;
    return 0;
}

/* Adds a stage that works on long blocks. */
static int add_tail_stage(struct build *build, const char *function, const struct places *places,
                          struct stage **out, struct problem *problem)
{
    int error = add_stage(build, function, places, out, problem);
    if (error < 0)
        return error;
    (*out)->fft_plan = build->plan->tail_fft_plan;
    (*out)->local_bytes = build->plan->layout.tail.fft * sizeof(float);
    (*out)->span_blocks = build->plan->layout.tail.span;
    (*out)->group_blocks = build->plan->layout.tail.span; /* a row is due in one of them */
    return 0;
}

/* Makes a row of the tail from the head's: all stages of the tail work on long blocks and read the
 * window before the running one. */
static struct row tail_row(const struct plan *plan, const struct row *head, uint64_t line)
{
    const struct layout *layout = &plan->layout;
    struct row row = *head;
    row.hop = (uint32_t)tail_taps(plan);
    row.start = 0u - layout->tail.fft; /* modulo 2^32, like ring positions */
    row.new_from = layout->tail.fft - row.hop;
    row.load_from = row.new_from - (row.hop - 1);
    row.load_until = layout->tail.fft;
    row.report = ROW_NONE;
    row.own.partitioned.line = line;
    return row;
}

enum { TAIL_FORWARD, TAIL_SUMS, TAIL_PRODUCT, TAIL_STAGES };

/* Adds the stages of the tail; that of the sums is NULL unless groups share them. */
static int tail_stages(struct build *build, const struct places *places,
                       struct stage *stages[TAIL_STAGES], struct problem *problem)
{
    static const char *const functions[TAIL_STAGES] = {
        "partitioned_tail_forward", "partitioned_tail_sums", "partitioned_tail_product"};
    int error = 0;
    for (int i = 0; i < TAIL_STAGES && error == 0; i++) {
        if (i == TAIL_SUMS && places->tail_groups == 0)
            continue;
        error = add_tail_stage(build, functions[i], places, &stages[i], problem);
        if (error == 0 && i != TAIL_FORWARD)
            stages[i]->keeps = KEEPS_PLANES;
    }
    if (error == 0)
        stages[TAIL_FORWARD]->keeps_blocks =
            windows_before(&build->plan->layout) * build->plan->layout.tail.span;
    if (error == 0 && stages[TAIL_SUMS] != NULL)
        stages[TAIL_SUMS]->block_groups = places->tail_groups;
    return error;
}

static int partitioned_fill(struct build *build, struct problem *problem)
{
    struct plan *plan = build->plan;
    const struct plan_spec *spec = build->spec;
    const struct layout *layout = &plan->layout;
    const struct places places = places_of(build);
    const uint32_t longest = layout->tail.fft > layout->fft ? layout->tail.fft : layout->fft;
    double *work = malloc(longest * sizeof *work);
    bool *heard = calloc(spec->inputs, sizeof *heard);
    struct stage *tails[TAIL_STAGES] = {NULL}, *head = NULL;
    int error = 0;
    if (work == NULL || heard == NULL)
        error = problem_set(problem, ERROR_MEMORY, "out of memory for a plan");
    if (error == 0 && layout->tail.span > 0)
        error = tail_stages(build, &places, tails, problem);
    if (error == 0)
        error = add_stage(build, "partitioned_head", &places, &head, problem);
    if (error < 0)
        goto done;
    assert(head != NULL);
    spectra_fill_components(build, component_fill, work);
    head->group_blocks = BLOCKS_MAX * BLOCKS_MAX; /* a group walks all blocks of its row */
    head->keeps_blocks = places.head_blocks > 0 ? places.head_blocks : 1;
    uint64_t state = plan->state_offset / sizeof(float);
    for (uint32_t e = 0; e < spec->edge_count; e++) {
        const struct edge *edge = &spec->edges[e];
        const struct taps *taps = spec->taps[edge->taps];
        const struct filter_spectra *filter = &build->filters[edge->taps];
        const uint32_t count = head_count(plan, taps->count);
        struct row *row = &head->rows[head->count++];
        *row = row_of_input(plan, spec, edge->input);
        row_to_output(build, edge->output, row);
        row->gain = edge->gain;
        row->own.partitioned = (struct row_partitioned){
            .re = filter->re,
            .im = filter->im,
            .line = state,
            .tail = state + places.head_floats + places.tail_floats,
            .partitions = parts(count, layout->partition_taps),
            .partition_blocks = layout->partition_blocks,
            .number = e,
        };
        heard[edge->input] = true;
        if (layout->tail.span > 0) {
            const uint64_t skip = (uint64_t)row->own.partitioned.partitions * layout->fft;
            struct row tail = tail_row(plan, row, state + places.head_floats);
            tail.own.partitioned.partitions = parts(taps->count - count, tail_taps(plan));
            tail.own.partitioned.re = filter->re + skip;
            if (filter->im != ROW_NONE)
                tail.own.partitioned.im = filter->im + skip;
            for (int i = 0; i < TAIL_STAGES; i++)
                if (tails[i] != NULL)
                    tails[i]->rows[tails[i]->count++] = tail;
        }
        state += places.head_floats + places.tail_floats + places.plane_floats;
    }
    for (uint32_t i = 0; i < spec->inputs; i++)
        if (!heard[i])
            head->rows[head->count++] = row_of_input(plan, spec, i);
done:
    free(work);
    free(heard);
    return error;
}

const struct variant variant_partitioned = {
    .name = "partitioned",
    .pace = 1.0,
    .partitions = true,
    .formats = true,
    .components_apart = true,
    .decimates = true,
    .any_scale = true,
    .objection = partitioned_objection,
    .layout = partitioned_layout,
    .measure = partitioned_measure,
    .fill = partitioned_fill,
};
