/* What the variant "host" leaves of a block: see host_write.h. */
#include "convolve/variants/host_write.h"

#include <string.h>

#include "convolve/plan/results.h"

void host_write_reports(const struct host_table *table, const struct host_statistics *stats,
                        const struct row *row, uint32_t k, float *output)
{
    for (uint32_t l = 0; l < table->count; l++) {
        if (table->reports[l] == NO_REPORT)
            continue;
        struct report_row *report =
            (struct report_row *)(void *)(output + row->report + (uint64_t)k * row->report_stride +
                                          (uint64_t)table->reports[l] * REPORT_FLOATS);
        *report = (struct report_row){
            .sum = stats->sum[l],
            .sum_squares = stats->sum_squares[l],
            .peak = stats->peak[l],
            .overload = stats->overload[l],
            .nonfinite = stats->nonfinite[l],
            .nonfinite_first = stats->first[l],
            .nonfinite_last = stats->last[l],
            .present = stats->present[l],
        };
    }
}

/* The frames of block k that the item needs: first, first + D, …, below `until`. D is the
 * decimation, and the frames lie on the grid kept, kept + D, … The host writes them one after the
 * other, from the item's output frame `to` on. */
struct wanted {
    uint32_t first, until;
    uint64_t to;
};

static struct wanted wanted_frames(const struct row *row, uint32_t k)
{
    const struct decimation kept = {row->decimate, row->kept};
    const uint32_t before = k * row->hop;
    const uint64_t to =
        decimation_output(&kept, row->write_from > before ? row->write_from : before);
    return (struct wanted){
        .first = (uint32_t)decimation_input(&kept, to),
        .until = row->write_until < before + row->hop ? row->write_until : before + row->hop,
        .to = to,
    };
}

/* The lanes of a frame of block k; in the time domain its one sample. */
static const float *lanes_of(const struct host_table *table, const struct row *row, uint32_t k,
                             const float *z, uint32_t q, uint32_t frame)
{
    if (table->direct)
        return z + host_direct_samples(table, q) + (frame - k * row->hop);
    const uint32_t n = row->new_from + (frame - k * row->hop);
    return z + (size_t)(n < q ? 2 * n : 2 * (n - q) + 1) * table->functions->width;
}

static void write_floats(const struct host_table *table, const struct row *row, uint32_t k,
                         const float *z, uint32_t q, float *output)
{
    struct wanted wanted = wanted_frames(row, k);
    float *to = output + row->output_byte / sizeof *to + wanted.to * row->stride;
    if (table->direct && row->decimate == 1 && table->target.kinds[0] == LANE_VALUE &&
        wanted.first < wanted.until) { /* one sample after the other, without a call for each */
        const float *from = lanes_of(table, row, k, z, q, wanted.first);
        const uint32_t offset = table->target.offsets[0], stride = row->stride;
        for (uint32_t i = 0; i < wanted.until - wanted.first; i++)
            to[(size_t)i * stride + offset] = from[i];
        return;
    }
    for (uint32_t frame = wanted.first; frame < wanted.until; frame += row->decimate) {
        host_target_write(&table->target, lanes_of(table, row, k, z, q, frame), to);
        to += row->stride;
    }
}

/* Encodes `count` samples and counts the clipped ones for their outputs. */
static void write_codes(const struct host_table *table, const struct result_format *results,
                        const float *values, uint32_t count, uint8_t *wire, uint32_t *clips)
{
    const double factor = results->factor != 0 ? results->factor : 1;
    if (sample_encode_block(&results->format, values, count, factor, wire) == 0)
        return;
    uint8_t again[4];
    for (uint32_t i = 0; i < count; i++)
        clips[table->outputs[i % table->samples]] +=
            sample_encode(&results->format, (double)values[i] * factor, again);
}

enum { CODED_FRAMES = 32 }; /* of one call of write_codes */

/* Copies `count` runs of `bytes`, which lie `stride` apart at the destination. */
static void copy_runs(uint8_t *to, size_t stride, const uint8_t *from, size_t bytes, uint32_t count)
{
    if (bytes == 16) /* eight lanes of 16 bits: constant sizes compile to moves */
        for (uint32_t i = 0; i < count; i++)
            memcpy(to + i * stride, from + i * (size_t)16, 16);
    else
        for (uint32_t i = 0; i < count; i++)
            memcpy(to + i * stride, from + i * bytes, bytes);
}

/* As write_floats, for results in another format than native f32. */
static void write_coded(const struct host_table *table, const struct row *row, uint32_t k,
                        const float *z, uint32_t q, const struct result_format *results,
                        float *output)
{
    const uint32_t word = results->format.bytes, samples = table->samples;
    const bool all = samples == row->stride; /* the group fills its frames */
    struct wanted wanted = wanted_frames(row, k);
    uint8_t *to = (uint8_t *)output + row->output_byte +
                  (wanted.to * row->stride + table->sample_first) * word;
    uint32_t *clips = (uint32_t *)(void *)(output + row->clips) + (size_t)k * row->clips_stride;
    float values[CODED_FRAMES * HOST_LANES_MAX];
    uint8_t codes[sizeof values];
    uint32_t held = 0;
    for (uint32_t frame = wanted.first; frame < wanted.until; frame += row->decimate) {
        host_target_write(&table->target, lanes_of(table, row, k, z, q, frame),
                          values + held * samples);
        if (++held < CODED_FRAMES && wanted.until - frame > row->decimate)
            continue;
        write_codes(table, results, values, held * samples, all ? to : codes, clips);
        if (!all)
            copy_runs(to, (size_t)row->stride * word, codes, (size_t)samples * word, held);
        to += (size_t)held * row->stride * word;
        held = 0;
    }
}

void host_write_block(const struct host_table *table, const struct row *row, uint32_t k,
                      const float *z, uint32_t q, const struct result_format *results,
                      float *output)
{
    if (result_format_native(results))
        write_floats(table, row, k, z, q, output);
    else
        write_coded(table, row, k, z, q, results, output);
}
