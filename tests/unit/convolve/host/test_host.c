/*
 * The host convolver against the definition in double: every instruction set of this CPU, widths,
 * blocks that are powers of two and not, filters shorter and longer than a block, sums computed
 * ahead and not, calls of any length, banks, matrices, complex filters and envelopes; what is not
 * finite, what is denormal, and that one channel never touches another.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include <cmocka.h>

#include "convolve/host/host.h"
#include "convolve/host/object.h"
#include "convolve/plan/input_limit.h"
#include "core/random.h"
#include "signal/reference.h"

enum { CHANNELS = 40, EDGES = 64 };

/* A specification with the memory it points to, and a signal. */
struct world {
    struct host_convolver_spec spec;
    struct taps *taps[EDGES];
    struct edge edges[EDGES];
    enum output_form outputs[CHANNELS];
    uint32_t frames;
    float *in;  /* [frames][inputs] */
    float *out; /* [frames][output_floats] */
    uint32_t output_floats;
    struct random_state random;
};

static struct taps *noise_taps(struct random_state *random, uint32_t count, bool complex_taps)
{
    struct taps *taps = NULL;
    struct problem problem;
    assert_int_equal(taps_create(count, complex_taps, &taps, &problem), 0);
    for (uint32_t k = 0; k < count; k++) {
        taps->re[k] = random_normal(random) / sqrt(count);
        if (complex_taps)
            taps->im[k] = random_normal(random) / sqrt(count);
    }
    return taps;
}

static void world_open(struct world *world, uint32_t inputs, uint32_t outputs, uint32_t block,
                       uint32_t frames, uint64_t seed)
{
    memset(world, 0, sizeof *world);
    world->random.state = seed;
    world->spec = (struct host_convolver_spec){
        .inputs = inputs,
        .taps = (const struct taps *const *)world->taps,
        .edges = world->edges,
        .outputs = world->outputs,
        .outputs_count = outputs,
        .block_frames = block,
    };
    world->frames = frames;
    world->in = malloc((size_t)frames * inputs * sizeof *world->in);
    world->out = malloc(2 * (size_t)frames * outputs * sizeof *world->out);
    assert_true(world->in != NULL && world->out != NULL);
    for (size_t i = 0; i < (size_t)frames * inputs; i++)
        world->in[i] = (float)(2 * random_unit(&world->random) - 1);
}

static void world_close(struct world *world)
{
    for (uint32_t t = 0; t < world->spec.taps_count; t++)
        taps_free(world->taps[t]);
    free(world->in);
    free(world->out);
}

static void add_edge(struct world *world, uint32_t input, uint32_t output, uint32_t taps,
                     bool complex_taps, float gain)
{
    world->taps[world->spec.taps_count] = noise_taps(&world->random, taps, complex_taps);
    world->edges[world->spec.edge_count++] =
        (struct edge){(uint16_t)input, (uint16_t)output, (uint16_t)world->spec.taps_count++, gain};
}

/* An edge a channel, each with a filter of its own. */
static void diagonal(struct world *world, uint32_t channels, uint32_t taps)
{
    for (uint32_t c = 0; c < channels; c++)
        add_edge(world, c, c, taps, false, 1.0f - 0.01f * (float)c);
}

static struct host_convolver *create(const struct world *world)
{
    struct host_convolver *convolver = NULL;
    struct problem problem = {0};
    if (host_convolver_create(&world->spec, &convolver, &problem) != 0)
        fail_msg("%s", problem.text);
    return convolver;
}

/* The whole signal; calls of `call` frames, 0: of lengths drawn from the seed. */
static void execute(struct world *world, struct host_convolver *convolver, uint32_t call)
{
    const struct host_convolver_info *info = host_convolver_info(convolver);
    world->output_floats = info->output_floats;
    for (uint32_t t = 0; t < world->frames;) {
        uint32_t frames =
            call != 0 ? call : 1 + random_below(&world->random, 2 * info->block_frames + 1);
        if (frames > world->frames - t)
            frames = world->frames - t;
        host_convolver_execute(convolver, world->in + (size_t)t * world->spec.inputs,
                               world->out + (size_t)t * info->output_floats, frames);
        t += frames;
    }
}

/* y[frames] of one component of one output. */
static void define(const struct world *world, uint32_t output, bool imaginary, double *y,
                   double *reach)
{
    memset(y, 0, world->frames * sizeof *y);
    double *x = malloc(world->frames * sizeof *x);
    for (uint32_t e = 0; e < world->spec.edge_count; e++) {
        const struct edge *edge = &world->edges[e];
        const struct taps *taps = world->taps[edge->taps];
        const double *h = imaginary ? taps->im : taps->re;
        if (edge->output != output || h == NULL)
            continue;
        for (uint32_t n = 0; n < world->frames; n++) {
            const float value = world->in[(size_t)n * world->spec.inputs + edge->input];
            x[n] = isfinite(value) ? (double)value : 0;
        }
        double *full = malloc((world->frames + taps->count) * sizeof *full);
        assert_int_equal(reference_convolve(x, world->frames, h, taps->count, full), 0);
        for (uint32_t n = 0; n < world->frames; n++)
            y[n] += edge->gain * full[n];
        *reach += fabs((double)edge->gain) * taps_peak_response(taps->re, taps->im, taps->count);
        free(full);
    }
    free(x);
}

/* Every output float of every frame within the design's bound. */
static void expect_convolution(const struct world *world, const char *label)
{
    double *re = malloc(world->frames * sizeof *re), *im = malloc(world->frames * sizeof *im);
    double x2 = 0, x_max = 0;
    for (size_t i = 0; i < (size_t)world->frames * world->spec.inputs; i++)
        if (isfinite(world->in[i])) {
            x2 += (double)world->in[i] * world->in[i];
            x_max = fmax(x_max, fabs((double)world->in[i]));
        }
    x2 = sqrt(x2 / world->spec.inputs);
    uint32_t place = 0;
    for (uint32_t o = 0; o < world->spec.outputs_count; o++) {
        const enum output_form form = world->outputs[o];
        double reach = 0, unused = 0;
        define(world, o, false, re, &reach);
        if (form != OUTPUT_REAL)
            define(world, o, true, im, &unused);
        if (form == OUTPUT_ENVELOPE)
            for (uint32_t n = 0; n < world->frames; n++)
                re[n] = hypot(re[n], im[n]);
        struct error_bound bound;
        bool good = error_bound_check(world->out + place, world->output_floats, re, world->frames,
                                      x2, x_max, reach, &bound);
        place++;
        if (good && form == OUTPUT_COMPLEX)
            good = error_bound_check(world->out + place++, world->output_floats, im, world->frames,
                                     x2, x_max, reach, &bound);
        if (!good)
            fail_msg("%s: output %u: error %.3g of %.3g allowed", label, o, bound.e2, bound.limit2);
    }
    assert_int_equal(place, world->output_floats);
    free(re);
    free(im);
}

/* ---- shapes ------------------------------------------------------------------------------ */

static void every_shape_convolves(void **state)
{
    (void)state;
    static const struct {
        uint32_t channels, block, taps;
    } given[] = {
        {1, 1, 9},      {4, 2, 3},       {3, 7, 30},     {16, 16, 17},  {8, 32, 33},
        {5, 33, 33},    {17, 64, 1},     {2, 64, 4096},  {16, 64, 640}, {33, 100, 250},
        {16, 128, 129}, {4, 128, 130},   {16, 256, 600}, {7, 480, 481}, {1, 512, 1500},
        {12, 1024, 9},  {2, 4096, 5000},
    };
    for (int i = 0; host_isa_name(i) != NULL; i++)
        for (size_t g = 0; g < sizeof given / sizeof given[0]; g++) {
            struct world world;
            world_open(&world, given[g].channels, given[g].channels, given[g].block,
                       given[g].taps + 3 * given[g].block + 5, g + 1);
            diagonal(&world, given[g].channels, given[g].taps);
            world.spec.isa = host_isa_name(i);
            char label[120];
            snprintf(label, sizeof label, "%s, %u channels, block %u, %u taps", world.spec.isa,
                     given[g].channels, given[g].block, given[g].taps);
            struct host_convolver *convolver = create(&world);
            assert_string_equal(host_convolver_info(convolver)->isa, world.spec.isa);
            execute(&world, convolver, given[g].block);
            expect_convolution(&world, label);
            host_convolver_reset(convolver);
            execute(&world, convolver, 0);
            expect_convolution(&world, "calls of any length");
            host_convolver_destroy(convolver);
            world_close(&world);
        }
}

/* ---- sums ahead -------------------------------------------------------------------------- */

/* With each number of blocks summed at once, in whole blocks and in calls that end inside them;
 * after a reset the same to the bit. Filters end in the first partitions and in later ones. */
static void sums_ahead_convolve(void **state)
{
    (void)state;
    static const struct {
        uint32_t channels, block, taps, ahead, expect;
    } given[] = {
        {1, 32, 33, 4, 1},      {1, 32, 34, 4, 4},      {3, 32, 60, 2, 2},   {8, 32, 64, 4, 4},
        {9, 32, 97, 2, 2},      {2, 64, 300, 4, 4},     {17, 64, 512, 8, 8}, {4, 50, 1000, 4, 4},
        {1, 100, 2500, 16, 16}, {1, 512, 9000, 32, 32}, {5, 16, 700, 32, 4}, {1, 16, 4000, 2, 2},
        {3, 128, 1280, 8, 8},   {2, 128, 1281, 8, 8},   {1, 1, 40, 4, 4},    {1, 64, 4200, 4, 4},
    };
    for (int i = 0; host_isa_name(i) != NULL; i++)
        for (size_t g = 0; g < sizeof given / sizeof given[0]; g++) {
            struct world world;
            world_open(&world, given[g].channels, given[g].channels, given[g].block,
                       2 * given[g].taps + 3 * given[g].block + 5, g + 1);
            diagonal(&world, given[g].channels, given[g].taps);
            world.spec.isa = host_isa_name(i);
            world.spec.ahead_blocks = given[g].ahead;
            char label[120];
            snprintf(label, sizeof label, "%s, block %u, %u taps, %u ahead", world.spec.isa,
                     given[g].block, given[g].taps, given[g].ahead);
            struct host_convolver *convolver = create(&world);
            assert_int_equal(host_convolver_info(convolver)->ahead_blocks, given[g].expect);
            execute(&world, convolver, given[g].block);
            expect_convolution(&world, label);
            const size_t bytes = (size_t)world.frames * world.output_floats * sizeof(float);
            float *first = malloc(bytes);
            memcpy(first, world.out, bytes);
            host_convolver_reset(convolver);
            execute(&world, convolver, given[g].block);
            assert_memory_equal(world.out, first, bytes);
            host_convolver_reset(convolver);
            execute(&world, convolver, 0);
            expect_convolution(&world, label);
            free(first);
            host_convolver_destroy(convolver);
            world_close(&world);
        }
}

static void blocks_ahead_are_those_with_fewest_bytes(void **state)
{
    (void)state;
    static const struct {
        uint32_t partitions, edges, sums, leaves, expect;
    } given[] = {
        {1, 1, 1, 32, 1},  {4, 1, 1, 32, 1},    {8, 1, 1, 32, 4},     {16, 1, 1, 32, 4},
        {16, 9, 9, 2, 2},  {256, 4, 4, 32, 16}, {1024, 1, 1, 64, 32}, {1 << 20, 1, 1, 64, 32},
        {4, 64, 1, 32, 2}, /* a matrix: 64 terms share one sum */
    };
    for (size_t g = 0; g < sizeof given / sizeof given[0]; g++) {
        uint32_t partitions[64];
        for (uint32_t e = 0; e < given[g].edges; e++)
            partitions[e] = given[g].partitions;
        assert_int_equal(
            host_ahead_blocks(partitions, given[g].edges, given[g].sums, given[g].leaves),
            given[g].expect);
    }
}

/* Leaves of all groups whose sums ahead differ from `before`, which becomes what they are now. */
static uint32_t changed_leaves(const struct host_convolver *convolver, float *before)
{
    const size_t floats =
        (size_t)convolver->info.ahead_blocks * 2 * HOST_LEAF * convolver->functions->width;
    uint32_t changed = 0;
    for (uint32_t g = 0; g < convolver->group_count; g++)
        for (uint32_t l = 0; l < convolver->fft_plan.q / HOST_LEAF; l++, before += floats) {
            const float *now = convolver->groups[g].ahead + l * floats;
            changed += memcmp(before, now, floats * sizeof *now) != 0;
            memcpy(before, now, floats * sizeof *now);
        }
    return changed;
}

/* Every complete block computes as many sums ahead, also for one channel; other calls none. */
static void the_work_ahead_is_spread_evenly(void **state)
{
    (void)state;
    static const uint32_t channels[] = {1, 40};
    for (size_t c = 0; c < sizeof channels / sizeof channels[0]; c++) {
        struct world world;
        world_open(&world, channels[c], channels[c], 256, 256, 3);
        diagonal(&world, channels[c], 4096);
        struct host_convolver *convolver = create(&world);
        assert_int_equal(host_convolver_info(convolver)->ahead_blocks, 4);
        const uint32_t leaves = 256 / HOST_LEAF * convolver->group_count;
        float *before = calloc((size_t)leaves * 4 * 2 * HOST_LEAF * HOST_LANES_MAX, sizeof *before);
        assert_non_null(before);
        for (int block = 0; block < 12; block++) {
            host_convolver_execute(convolver, world.in, world.out, 100);
            assert_int_equal(changed_leaves(convolver, before), 0);
            host_convolver_execute(convolver, world.in, world.out, 156);
            assert_int_equal(changed_leaves(convolver, before), leaves / 4);
        }
        free(before);
        host_convolver_destroy(convolver);
        world_close(&world);
    }
}

/* 256 partitions of white noise: the error stays that of a few. */
static void many_partitions_sum_in_two_levels(void **state)
{
    (void)state;
    struct world world;
    world_open(&world, 1, 1, 16, 20000, 11);
    add_edge(&world, 0, 0, 16384, false, 1);
    struct host_convolver *convolver = create(&world);
    assert_int_equal(host_convolver_info(convolver)->partitions, 1024);
    execute(&world, convolver, 16);
    double *y = malloc(world.frames * sizeof *y), reach = 0, error = 0, power = 0;
    define(&world, 0, false, y, &reach);
    for (uint32_t n = 0; n < world.frames; n++) {
        error += (world.out[n] - y[n]) * (world.out[n] - y[n]);
        power += y[n] * y[n];
    }
    if (sqrt(error / power) > 4e-7)
        fail_msg("error %.3g of the output", sqrt(error / power));
    free(y);
    host_convolver_destroy(convolver);
    world_close(&world);
}

/* ---- edges ------------------------------------------------------------------------------- */

/* A bank of 3 inputs on 10 outputs, some of two inputs, one silent, of all forms. */
static void open_edges(struct world *world, uint32_t block)
{
    world_open(world, 3, 12, block, 700, 77);
    for (uint32_t o = 0; o < 12; o++) {
        world->outputs[o] = (enum output_form)(o % 3);
        if (o == 5)
            continue;
        add_edge(world, o % 2, o, 40 + 31 * o, o % 4 != 0, 0.5f);
        if (o % 4 == 1)
            add_edge(world, 2, o, 200, o % 3 != 0, -2);
        if (o == 7)
            add_edge(world, 1, o, 3, false, 1);
    }
}

static void banks_matrices_and_forms(void **state)
{
    (void)state;
    static const uint32_t ahead[] = {0, 1, 2, 4};
    for (int i = 0; host_isa_name(i) != NULL; i++)
        for (size_t a = 0; a < sizeof ahead / sizeof ahead[0]; a++) {
            struct world world;
            open_edges(&world, 32);
            world.spec.isa = host_isa_name(i);
            world.spec.ahead_blocks = ahead[a];
            struct host_convolver *convolver = create(&world);
            execute(&world, convolver, 32);
            expect_convolution(&world, "edges");
            host_convolver_reset(convolver);
            execute(&world, convolver, 0);
            expect_convolution(&world, "edges, calls of any length");
            host_convolver_destroy(convolver);
            world_close(&world);
        }
}

/* Lanes with one filter and one gain read its spectrum once; the result is the same to the bit as
 * with a copy a channel. */
static void a_shared_filter_is_stored_once(void **state)
{
    (void)state;
    struct world shared, copies;
    world_open(&shared, 16, 16, 64, 900, 5);
    world_open(&copies, 16, 16, 64, 900, 5);
    add_edge(&shared, 0, 0, 500, false, 0.75f);
    for (uint32_t c = 1; c < 16; c++)
        shared.edges[shared.spec.edge_count++] = (struct edge){(uint16_t)c, (uint16_t)c, 0, 0.75f};
    for (uint32_t c = 0; c < 16; c++) {
        add_edge(&copies, c, c, 500, false, 0.75f);
        memcpy(copies.taps[c]->re, shared.taps[0]->re, 500 * sizeof(double));
    }
    struct host_convolver *a = create(&shared), *b = create(&copies);
    assert_true(host_convolver_info(a)->memory_bytes < host_convolver_info(b)->memory_bytes);
    execute(&shared, a, 64);
    execute(&copies, b, 64);
    expect_convolution(&shared, "one filter for all");
    assert_memory_equal(shared.out, copies.out, 900 * 16 * sizeof(float));
    host_convolver_destroy(a);
    host_convolver_destroy(b);
    /* One filter with a gain a channel is as many filters. */
    for (uint32_t c = 0; c < 16; c++)
        shared.edges[c].gain = 0.125f * (float)c - 1;
    a = create(&shared);
    execute(&shared, a, 64);
    expect_convolution(&shared, "one filter, a gain a channel");
    host_convolver_destroy(a);
    world_close(&shared);
    world_close(&copies);
}

/* ---- values ------------------------------------------------------------------------------ */

static void a_channel_never_touches_another(void **state)
{
    (void)state;
    struct world world, loud;
    world_open(&world, 6, 6, 32, 500, 3);
    world_open(&loud, 6, 6, 32, 500, 3);
    diagonal(&world, 6, 100);
    diagonal(&loud, 6, 100);
    for (uint32_t n = 0; n < 500; n++)
        loud.in[6 * n + 2] *= 1e30f;
    struct host_convolver *a = create(&world), *b = create(&loud);
    execute(&world, a, 32);
    execute(&loud, b, 32);
    for (uint32_t n = 0; n < 500; n++)
        for (uint32_t c = 0; c < 6; c++)
            if (c != 2)
                assert_memory_equal(&world.out[6 * n + c], &loud.out[6 * n + c], sizeof(float));
    host_convolver_destroy(a);
    host_convolver_destroy(b);
    world_close(&world);
    world_close(&loud);
}

static void what_is_not_finite_counts_as_zero(void **state)
{
    (void)state;
    struct world world;
    open_edges(&world, 48);
    world.in[3 * 10] = NAN;
    world.in[3 * 11 + 1] = INFINITY;
    world.in[3 * 11 + 2] = -INFINITY;
    world.in[3 * 699 + 1] = -NAN;
    struct host_convolver *convolver = create(&world);
    execute(&world, convolver, 48);
    expect_convolution(&world, "values that are not finite");
    assert_int_equal(host_convolver_nonfinite(convolver), 4);
    host_convolver_reset(convolver);
    assert_int_equal(host_convolver_nonfinite(convolver), 0);
    host_convolver_destroy(convolver);
    world_close(&world);
}

static void what_is_beyond_the_limit_counts_as_zero(void **state)
{
    (void)state;
    struct world world;
    open_edges(&world, 48);
    const float limit = (float)input_limit(world.edges, world.spec.edge_count, world.spec.taps,
                                           world.spec.taps_count);
    const float over = nextafterf(limit, INFINITY);
    world.in[3 * 10] = 9.96921e36f;
    world.in[3 * 11 + 1] = -over;
    world.in[3 * 11 + 2] = over;
    world.in[3 * 699 + 1] = -1e20f;
    struct host_convolver *convolver = create(&world);
    execute(&world, convolver, 48);
    world.in[3 * 10] = world.in[3 * 11 + 1] = world.in[3 * 11 + 2] = world.in[3 * 699 + 1] = 0;
    expect_convolution(&world, "values beyond the limit");
    assert_int_equal(host_convolver_nonfinite(convolver), 4);
    world.in[3 * 10] = limit;
    execute(&world, convolver, 48);
    assert_int_equal(host_convolver_nonfinite(convolver), 4);
    host_convolver_destroy(convolver);
    world_close(&world);
}

/* Denormal numbers cost no time because they are zero; the caller's arithmetic is left as it was.
 */
static void denormals_are_zero(void **state)
{
    (void)state;
#ifdef __x86_64__
    struct world world;
    world_open(&world, 4, 4, 32, 320, 9);
    diagonal(&world, 4, 80);
    for (size_t i = 0; i < 4 * 320; i++)
        world.in[i] *= 1e-39f;
    struct host_convolver *convolver = create(&world);
    const unsigned usual = 0x1f80; /* nothing flushed, nothing trapped */
    _mm_setcsr(usual);
    execute(&world, convolver, 32);
    assert_int_equal(_mm_getcsr() & ~0x3fu, usual); /* all but what happened */
    for (size_t i = 0; i < 4 * 320; i++)
        assert_true(world.out[i] == 0);
    host_convolver_destroy(convolver);
    world_close(&world);
#else
    skip();
#endif
}

/* ---- the object -------------------------------------------------------------------------- */

/* After a reset, and after measuring, it gives to the bit what a new one gives. */
static void reset_and_measuring_leave_nothing(void **state)
{
    (void)state;
    struct world world;
    open_edges(&world, 64);
    struct host_convolver *convolver = create(&world);
    execute(&world, convolver, 50);
    const size_t bytes = (size_t)world.frames * world.output_floats * sizeof(float);
    float *first = malloc(bytes);
    memcpy(first, world.out, bytes);
    host_convolver_reset(convolver);
    execute(&world, convolver, 50);
    assert_memory_equal(first, world.out, bytes);
    struct host_convolver_times times;
    host_convolver_measure(convolver, &times);
    assert_true(times.calls >= 64);
    assert_true(times.median_ns > 0 && times.worst_ns >= times.median_ns);
    assert_true(times.longest_ns > 0);
    execute(&world, convolver, 50);
    assert_memory_equal(first, world.out, bytes);
    free(first);
    host_convolver_destroy(convolver);
    world_close(&world);
}

static void wrong_specifications_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t inputs, outputs, block;
        uint16_t edge_input;
        const char *isa;
        uint32_t ahead;
        int expect;
    } given[] = {
        {2, 2, 64, 1, NULL, 0, 0},
        {2, 2, 64, 1, NULL, 32, 0},
        {2, 2, 64, 1, NULL, 3, ERROR_ARGUMENT},
        {2, 2, 64, 1, NULL, 64, ERROR_ARGUMENT},
        {0, 2, 64, 0, NULL, 0, ERROR_ARGUMENT},
        {1025, 2, 64, 0, NULL, 0, ERROR_ARGUMENT},
        {2, 2, 0, 0, NULL, 0, ERROR_ARGUMENT},
        {2, 2, HOST_BLOCK_MAX + 1, 0, NULL, 0, ERROR_ARGUMENT},
        {2, 2, 64, 2, NULL, 0, ERROR_ARGUMENT},
        {2, 2, 64, 1, "abacus", 0, ERROR_UNSUPPORTED},
    };
    for (size_t g = 0; g < sizeof given / sizeof given[0]; g++) {
        struct world world;
        world_open(&world, 2, 2, 64, 10, 1);
        diagonal(&world, 2, 10);
        world.edges[0].input = given[g].edge_input;
        world.spec.inputs = given[g].inputs;
        world.spec.outputs_count = given[g].outputs;
        world.spec.block_frames = given[g].block;
        world.spec.isa = given[g].isa;
        world.spec.ahead_blocks = given[g].ahead;
        struct host_convolver *convolver = NULL;
        struct problem problem = {0};
        assert_int_equal(host_convolver_create(&world.spec, &convolver, &problem), given[g].expect);
        assert_true((convolver != NULL) == (given[g].expect == 0));
        assert_true(given[g].expect == 0 || problem.text[0] != '\0');
        host_convolver_destroy(convolver);
        world_close(&world);
    }
    host_convolver_destroy(NULL);
    assert_non_null(host_isa_name(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_convolves),
        cmocka_unit_test(sums_ahead_convolve),
        cmocka_unit_test(blocks_ahead_are_those_with_fewest_bytes),
        cmocka_unit_test(the_work_ahead_is_spread_evenly),
        cmocka_unit_test(many_partitions_sum_in_two_levels),
        cmocka_unit_test(banks_matrices_and_forms),
        cmocka_unit_test(a_shared_filter_is_stored_once),
        cmocka_unit_test(a_channel_never_touches_another),
        cmocka_unit_test(what_is_not_finite_counts_as_zero),
        cmocka_unit_test(what_is_beyond_the_limit_counts_as_zero),
        cmocka_unit_test(denormals_are_zero),
        cmocka_unit_test(reset_and_measuring_leave_nothing),
        cmocka_unit_test(wrong_specifications_are_refused),
    };
    return cmocka_run_group_tests_name("host", tests, NULL, NULL);
}
