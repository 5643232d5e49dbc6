/*
 * Shapes of the transforms in registers, see registers.h. They were chosen by measurement on an
 * H100: few passes where a work-item has enough registers, work-groups of at least 128 items, and
 * exchanges of whole points wherever they fit 48 KiB.
 */
#include "convolve/variants/registers.h"

#include <assert.h>
#include <stdio.h>

#include "convolve/plan/fft_plan.h"
#include "kernels/row.h"

enum { GROUP_ITEMS = 128, SEEN_BYTES = 24 };

static const struct registers shapes[] = {
    {32, 8, {8, 4, 1, 1}, 1, 1, 1, 1, 1, false},
    {64, 8, {8, 8, 1, 1}, 1, 1, 1, 1, 1, false},
    {128, 16, {16, 8, 1, 1}, 1, 1, 1, 1, 1, false},
    {256, 16, {16, 16, 1, 1}, 1, 1, 1, 1, 1, false},
    {512, 16, {16, 8, 4, 1}, 1, 1, 1, 1, 1, false},
    {1024, 16, {16, 8, 8, 1}, 1, 1, 1, 1, 1, false},
    {2048, 16, {16, 16, 8, 1}, 1, 1, 1, 1, 1, false},
    {4096, 16, {16, 16, 16, 1}, 1, 1, 1, 1, 1, false},
    {8192, 32, {32, 16, 16, 1}, 1, 1, 2, 1, 1, false},
};

const struct registers *registers_find(uint32_t points)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (shapes[i].points == points)
            return &shapes[i];
    return NULL;
}

static uint32_t threads(const struct registers *shape)
{
    return shape->points / shape->each;
}

uint32_t registers_items(const struct registers *shape)
{
    return threads(shape) * shape->width * shape->blocks;
}

uint64_t registers_local_bytes(const struct registers *shape)
{
    return (uint64_t)(shape->points + threads(shape)) * shape->width * shape->blocks *
           sizeof(float) * 2 * shape->pair / shape->pieces;
}

uint64_t registers_report_bytes(const struct registers *shape)
{
    return (uint64_t)registers_items(shape) * SEEN_BYTES;
}

uint32_t registers_kept(const struct registers *shape, uint32_t decimate)
{
    assert(decimate > 0);
    const uint32_t power = decimate & -decimate; /* the largest power of two that divides it */
    return power < threads(shape) ? power : threads(shape);
}

static bool fits(const struct registers *shape, uint64_t local_bytes, uint32_t items_most)
{
    return registers_items(shape) <= items_most &&
           registers_local_bytes(shape) + registers_report_bytes(shape) <= local_bytes;
}

void registers_fit(struct registers *shape, uint32_t width, uint64_t local_bytes,
                   uint32_t items_most)
{
    assert(width > 0 && (width & (width - 1)) == 0);
    shape->blocks = 1;
    for (shape->width = width; shape->width > 1; shape->width /= 2) {
        if (fits(shape, local_bytes, items_most))
            break;
        /* Try the exchange that needs half the memory before halving the width. */
        struct registers half = *shape;
        half.pieces = 2;
        if (fits(&half, local_bytes, items_most)) {
            *shape = half;
            break;
        }
    }
    while (registers_items(shape) < GROUP_ITEMS) {
        struct registers more = *shape;
        more.blocks *= 2;
        if (!fits(&more, local_bytes, items_most))
            break;
        *shape = more;
    }
}

int registers_options(const struct registers *shape, char *options, size_t bytes)
{
    return snprintf(options, bytes,
                    "-D POINTS=%uu -D EACH=%uu -D RADIX_0=%u -D RADIX_1=%u -D RADIX_2=%u "
                    "-D RADIX_3=%u -D WIDTH=%uu -D BLOCKS=%uu -D PIECES=%u -D PAIR=%u -D RUN=%u "
                    "-D TABLES=%d",
                    shape->points, shape->each, shape->radices[0], shape->radices[1],
                    shape->radices[2], shape->radices[3], shape->width, shape->blocks,
                    shape->pieces, shape->pair, shape->run, shape->tables);
}

int window_options(const struct sample_format *format, const struct row *row, bool offset,
                   char *options, size_t bytes)
{
    static const int kinds[] = {[SAMPLE_SIGNED] = 0, [SAMPLE_UNSIGNED] = 1, [SAMPLE_FLOAT] = 2};
    return snprintf(options, bytes,
                    " -D WORD=%u -D SWAP=%d -D KIND=%d -D SHIFT_LEFT=%u -D SHIFT_RIGHT=%u "
                    "-D OFFSET=%d",
                    row->word, (row->flags & ROW_SWAP) != 0, kinds[format->kind], row->shift_left,
                    row->shift_right, offset);
}

uint32_t registers_bin(const struct registers *shape, uint32_t place)
{
    const uint32_t t = place % threads(shape), j = place / threads(shape);
    uint32_t passes = REGISTER_PASSES_MAX;
    while (shape->radices[passes - 1] == 1)
        passes--;
    /* As place_item and place_point of the kernel do for the last pass, whose nodes have become
     * single points. */
    const uint32_t size = shape->radices[passes - 1], each = shape->each;
    uint32_t position = size >= each ? t / (size / each) * size + t % (size / each) : t * each;
    const uint32_t g = j / size, k = j % size;
    position += size >= each ? size / each * g + k : g * size + k;
    /* Reverse the digits: the first radix is the slowest digit of the position. */
    uint32_t bin = 0, weight = 1, span = shape->points;
    for (uint32_t pass = 0; pass < passes; pass++) {
        span /= shape->radices[pass];
        bin += position / span * weight;
        position %= span;
        weight *= shape->radices[pass];
    }
    return bin;
}

void natural_spectrum(const struct fft_plan *fft_plan, const double *h, uint32_t count,
                      double *work, float *unordered, float *bins)
{
    assert(fft_plan->lanes == 1);
    fft_plan_spectrum(fft_plan, h, count, work, unordered);
    for (uint32_t v = 0; v < fft_plan->q; v++) {
        uint32_t bin = 0, weight = 1, span = fft_plan->q, position = v;
        for (uint64_t radices = fft_plan->radices; radices != 0; radices >>= 2) {
            const uint32_t log = radices & 3;
            span >>= log;
            bin += position / span * weight;
            position %= span;
            weight <<= log;
        }
        bins[2 * bin] = unordered[2 * v];
        bins[2 * bin + 1] = unordered[2 * v + 1];
    }
}
