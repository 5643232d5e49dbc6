/*
 * Shapes that move whole memory sectors, see wide.h. They were chosen by measurement on an H100:
 * few passes, as many registers as the points of an item need, and enough channels in a group that
 * what it reads of a frame is 32 bytes or more, where local memory holds them.
 */
#include "convolve/variants/wide.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "convolve/plan/spec.h"
#include "kernels/row.h"

enum {
    SUM_BYTES = 12,   /* an item leaves for each of its transforms, kernels/wide.clh */
    EVENT_BYTES = 24, /* of a transform */
    ANY = CHANNELS_MAX,
};

/* Points, points of an item, radices, width, blocks, pieces, pair, run, tables; limit of registers,
 * prefetch, lines, split, most channels by rule, packs late. */
static const struct wide float_one[] = {
    {{64, 16, {4, 16, 1, 1}, 1, 32, 1, 1, 4, false}, 64, PREFETCH_NONE, true, 1, ANY, false},
    {{128, 16, {8, 16, 1, 1}, 1, 16, 1, 1, 2, false}, 64, PREFETCH_NONE, false, 1, ANY, false},
    {{256, 16, {16, 16, 1, 1}, 1, 8, 1, 1, 1, false}, 64, PREFETCH_NONE, false, 1, ANY, false},
    {{512, 16, {8, 8, 8, 1}, 1, 4, 1, 1, 2, false}, 64, PREFETCH_NONE, false, 1, ANY, false},
    {{1024, 16, {8, 8, 16, 1}, 1, 2, 1, 1, 2, false}, 72, PREFETCH_NONE, false, 1, ANY, false},
    {{2048, 16, {8, 16, 16, 1}, 1, 1, 1, 1, 2, false}, 80, PREFETCH_NONE, false, 1, ANY, false},
    {{4096, 32, {16, 16, 16, 1}, 1, 1, 1, 1, 2, false}, 128, PREFETCH_NONE, false, 1, ANY, false},
    {{8192, 32, {32, 16, 16, 1}, 1, 1, 2, 1, 1, false}, 124, PREFETCH_LATER, false, 1, ANY, false},
    {{16384, 32, {16, 32, 32, 1}, 1, 1, 4, 1, 2, false}, 128, PREFETCH_LATER, false, 1, ANY, false},
    {{16384, 32, {16, 32, 32, 1}, 1, 1, 4, 1, 2, false}, 128, PREFETCH_NONE, false, 2, 1, false},
    {{0}, 0, PREFETCH_NONE, false, 1, 0, false},
};

static const struct wide float_many[] = {
    {{64, 8, {8, 8, 1, 1}, 4, 2, 1, 2, 1, false}, 80, PREFETCH_NONE, false, 1, ANY, false},
    {{128, 16, {16, 8, 1, 1}, 4, 1, 2, 2, 1, false}, 128, PREFETCH_NONE, false, 1, ANY, false},
    {{256, 16, {16, 16, 1, 1}, 4, 1, 2, 2, 1, false}, 128, PREFETCH_NONE, false, 1, ANY, false},
    {{512, 16, {16, 8, 4, 1}, 4, 1, 2, 2, 1, false}, 128, PREFETCH_FIRST, false, 1, ANY, false},
    {{1024, 16, {16, 8, 8, 1}, 4, 1, 2, 2, 1, false}, 128, PREFETCH_NONE, false, 1, ANY, false},
    {{2048, 16, {16, 16, 8, 1}, 4, 1, 4, 2, 1, false}, 128, PREFETCH_NONE, false, 1, ANY, false},
    {{4096, 16, {16, 16, 16, 1}, 2, 1, 4, 2, 1, false}, 128, PREFETCH_FIRST, false, 1, ANY, false},
    {{8192, 32, {32, 16, 16, 1}, 1, 1, 2, 1, 1, false}, 124, PREFETCH_FIRST, false, 1, ANY, false},
    {{16384, 32, {16, 32, 32, 1}, 1, 1, 4, 1, 1, false}, 128, PREFETCH_NONE, false, 1, ANY, false},
    {{16384, 32, {16, 32, 32, 1}, 1, 1, 4, 1, 1, false}, 128, PREFETCH_NONE, false, 2, 4, false},
    {{0}, 0, PREFETCH_NONE, false, 1, 0, false},
};

static const struct wide int16_one[] = {
    {{64, 16, {4, 16, 1, 1}, 1, 32, 1, 1, 4, false}, 0, PREFETCH_NONE, false, 1, ANY, true},
    {{128, 16, {8, 16, 1, 1}, 1, 16, 1, 1, 2, false}, 64, PREFETCH_NONE, false, 1, ANY, false},
    {{256, 16, {16, 16, 1, 1}, 1, 8, 1, 1, 1, true}, 64, PREFETCH_NONE, false, 1, ANY, false},
    {{512, 32, {16, 32, 1, 1}, 1, 8, 1, 1, 2, true}, 128, PREFETCH_NONE, false, 1, ANY, false},
    {{1024, 32, {32, 32, 1, 1}, 1, 4, 1, 1, 1, true}, 128, PREFETCH_NONE, false, 1, ANY, false},
    {{2048, 16, {8, 16, 16, 1}, 1, 1, 1, 1, 2, false}, 64, PREFETCH_NONE, false, 1, ANY, false},
    {{4096, 32, {16, 8, 32, 1}, 1, 1, 1, 1, 2, false}, 0, PREFETCH_LATER, false, 1, ANY, false},
    {{8192, 32, {32, 16, 16, 1}, 1, 1, 2, 1, 1, false}, 112, PREFETCH_NONE, false, 1, ANY, false},
    {{16384, 32, {16, 32, 32, 1}, 1, 1, 4, 1, 2, false}, 128, PREFETCH_NONE, false, 1, ANY, false},
    {{16384, 32, {16, 32, 32, 1}, 1, 1, 4, 1, 2, false}, 128, PREFETCH_NONE, false, 2, 1, false},
    {{0}, 0, PREFETCH_NONE, false, 1, 0, false},
};

static const struct wide int16_many[] = {
    {{64, 8, {8, 8, 1, 1}, 4, 2, 1, 2, 1, false}, 0, PREFETCH_NONE, false, 1, ANY, false},
    {{128, 16, {16, 8, 1, 1}, 4, 1, 1, 2, 1, false}, 128, PREFETCH_NONE, false, 1, ANY, true},
    {{256, 16, {16, 16, 1, 1}, 4, 1, 1, 2, 1, false}, 128, PREFETCH_NONE, false, 1, ANY, false},
    {{512, 16, {16, 8, 4, 1}, 4, 1, 2, 2, 1, false}, 112, PREFETCH_NONE, false, 1, ANY, false},
    {{1024, 16, {16, 8, 8, 1}, 4, 1, 2, 2, 1, false}, 112, PREFETCH_NONE, false, 1, ANY, false},
    {{2048, 16, {16, 16, 8, 1}, 4, 1, 4, 2, 1, false}, 112, PREFETCH_NONE, false, 1, ANY, false},
    {{4096, 16, {16, 16, 16, 1}, 2, 1, 4, 2, 1, false}, 112, PREFETCH_NONE, false, 1, ANY, false},
    {{8192, 32, {32, 16, 16, 1}, 1, 1, 2, 1, 1, false}, 112, PREFETCH_NONE, false, 1, ANY, false},
    {{16384, 32, {16, 32, 32, 1}, 1, 1, 4, 1, 1, false}, 128, PREFETCH_NONE, false, 1, ANY, false},
    {{16384, 32, {16, 32, 32, 1}, 1, 1, 4, 1, 1, false}, 128, PREFETCH_NONE, false, 2, 4, false},
    {{0}, 0, PREFETCH_NONE, false, 1, 0, false},
};

/* Every output is the real result of the input of its own number, and no sample has an offset. */
static bool is_plain(const struct plan_spec *spec)
{
    if (spec->outputs_count != spec->inputs || spec->edge_count != spec->inputs)
        return false;
    for (uint32_t e = 0; e < spec->edge_count; e++)
        if (spec->edges[e].input != spec->edges[e].output)
            return false;
    for (uint32_t i = 0; i < spec->inputs; i++)
        if (spec->outputs[i] != OUTPUT_REAL || spec->scales[i].offset != 0)
            return false;
    return true;
}

const struct wide *wide_find(const struct plan_spec *spec, uint32_t points)
{
    const struct sample_format *format = &spec->format;
    const bool integers = format->kind == SAMPLE_SIGNED && format->bytes == 2 && format->bits == 16;
    if (!is_plain(spec) || (format->kind != SAMPLE_FLOAT && !integers) ||
        (spec->inputs > 1 && spec->inputs % 2 != 0))
        return NULL;
    const struct wide *wide = spec->inputs == 1 ? (integers ? int16_one : float_one)
                                                : (integers ? int16_many : float_many);
    while (wide->shape.points != 0 && wide->shape.points * wide->split != points)
        wide++;
    const bool scratch_suffices = wide->split == 1 || spec->inputs <= SPLIT_WINDOWS;
    return wide->shape.points != 0 && scratch_suffices ? wide : NULL;
}

bool wide_fit(const struct wide *wide, const struct plan_spec *spec, uint64_t local_bytes,
              uint32_t items_most, struct registers *shape)
{
    *shape = wide->shape;
    if (spec->hop % shape->run != 0)
        shape->run = 1;
    while (shape->width > 1 && shape->width / 2 * shape->pair >= spec->inputs)
        shape->width /= 2;
    for (;;) {
        const bool fits = registers_items(shape) <= items_most &&
                          registers_local_bytes(shape) + wide_report_bytes(shape) <= local_bytes;
        if (fits && registers_items(shape) >= registers_items(&wide->shape))
            return true;
        struct registers next = *shape;
        if (fits) {
            next.blocks *= 2;
            if (registers_items(&next) > items_most ||
                registers_local_bytes(&next) + wide_report_bytes(&next) > local_bytes)
                return true;
        } else if (shape->pieces < 2 * shape->pair) {
            next.pieces *= 2;
        } else if (shape->blocks > 1) {
            next.blocks /= 2;
        } else if (shape->width > 1) {
            next.width /= 2;
        } else {
            return false;
        }
        *shape = next;
    }
}

uint32_t wide_bin(const struct registers *shape, uint32_t split, uint32_t place)
{
    const uint32_t threads = shape->points / shape->each, part = place / shape->points;
    const uint32_t within = place % shape->points, pair = within / 2;
    return part + split * registers_bin(shape, (pair / threads * 2 + within % 2) * threads +
                                                   pair % threads);
}

uint64_t wide_report_bytes(const struct registers *shape)
{
    const uint64_t transforms = (uint64_t)shape->pair * shape->width * shape->blocks;
    return SUM_BYTES * (uint64_t)shape->pair * registers_items(shape) + EVENT_BYTES * transforms;
}

/* ---- tables of twiddles ------------------------------------------------------------------ */

/* A pass as its table sees it. */
struct pass {
    uint32_t size, radix, nodes;
    uint32_t parts, items; /* of its table: sub-transforms of an item, and items or nodes of each */
};

static struct pass pass_of(const struct registers *shape, uint32_t number)
{
    uint32_t size = shape->points;
    for (uint32_t pass = 0; pass < number; pass++) {
        assert(shape->radices[pass] > 0);
        size /= shape->radices[pass];
    }
    struct pass pass = {
        .size = size, .radix = shape->radices[number], .nodes = shape->points / size, .parts = 1};
    pass.items = pass.nodes;
    if (size < shape->each) {
        pass.parts = shape->each / size;
        pass.items = shape->points / shape->each;
    }
    return pass;
}

/* The number of a sub-transform with its digits reversed, the first pass's the lowest. */
static uint32_t digits_reversed(const struct registers *shape, uint32_t number, uint32_t node)
{
    uint32_t reversed = 0, weight = 1, span = pass_of(shape, number).nodes;
    for (uint32_t pass = 0; pass < number; pass++) {
        span /= shape->radices[pass];
        reversed += node / span * weight;
        node %= span;
        weight *= shape->radices[pass];
    }
    return reversed;
}

uint64_t wide_table_floats(const struct registers *shape)
{
    uint64_t floats = 0;
    for (uint32_t number = 1; shape->tables && number < REGISTER_PASSES_MAX; number++) {
        const struct pass pass = pass_of(shape, number);
        if (pass.radix > 1)
            floats += 2 * (uint64_t)pass.parts * pass.radix * pass.items;
    }
    return floats;
}

void wide_table(const struct registers *shape, float *table)
{
    for (uint32_t number = 1; number < REGISTER_PASSES_MAX; number++) {
        const struct pass pass = pass_of(shape, number);
        if (pass.radix == 1)
            break;
        for (uint32_t g = 0; g < pass.parts; g++)
            for (uint32_t k = 0; k < pass.radix; k += 2)
                for (uint32_t i = 0; i < pass.items; i++)
                    for (uint32_t power = k; power < k + 2; power++) {
                        const double angle =
                            (digits_reversed(shape, number, i * pass.parts + g) + 0.25) /
                            pass.nodes / pass.radix;
                        *table++ = (float)cos(2 * M_PI * power * angle);
                        *table++ = (float)sin(2 * M_PI * power * angle);
                    }
    }
}

/* ---- options ----------------------------------------------------------------------------- */

int wide_options(const struct wide *wide, const struct registers *shape, uint32_t channels,
                 bool nvidia, char *options, size_t bytes)
{
    const uint32_t group = shape->width * shape->pair;
    int length = snprintf(options, bytes, " -D SIDES=%uu -D NVIDIA=%d -D PREFETCH=%d -D LINES=%d",
                          (channels + group - 1) / group, nvidia, wide->prefetch,
                          wide->lines && shape->run == wide->shape.run);
    if (nvidia && wide->limit != 0)
        length += snprintf(options + length, bytes - (size_t)length,
                           " -D UNSIZED -cl-nv-maxrregcount=%u", wide->limit);
    return length;
}
