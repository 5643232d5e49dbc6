/* The memory of a configuration: see memory.h. */
#include "report/memory.h"

#include <math.h>

#include "convolve/engine.h"
#include "core/power.h"
#include "core/quantity.h"
#include "pipeline/analysis_stage.h"
#include "stream/ring_size.h"

/* Sizes that their owners keep to themselves. */
enum {
    BLOCK_TIMES_BYTES = 24, /* struct block_times: of a block in the ring */
    SPECTRUM_BYTES = 4,     /* of a real transform, for each of its N points */
    BATCH_PARTS = 3,        /* samples, reports, rows: each begins a page */
    HUGE_PAGE_BYTES = 2 << 20,
};

static uint32_t batches_of(const struct config *config)
{
    const uint32_t batches = config->device.batches;
    return batches != 0 ? batches : ENGINE_BATCHES;
}

/* What a ring of so many frames takes of the input memory: two pieces, which begin at pages. */
static uint64_t input_bytes(uint64_t frames, uint32_t frame_bytes)
{
    enum { PAGE = 4096 };
    return (frames * frame_bytes + PAGE - 1) / PAGE * PAGE + (frames / 8 + PAGE - 1) / PAGE * PAGE;
}

static struct ring_need need_of(const struct config *config, const struct config_stream *stream,
                                const struct memory_plan *plan)
{
    const struct plan_info info = {
        .hop = stream->hop_frames,
        .taps_longest = plan->taps_longest,
        .history_frames = plan->partitions > 1 ? plan->partitions * stream->hop_frames : 0,
    };
    const struct stream_options options = {
        .rate_hz = stream->source.rate_hz,
        .frame_bytes = stream->source.frame_bytes,
        .reorder_ns = stream->upstream >= 0 ? 0 : stream->source.reorder_ns,
        .max_gap_ns = stream->source.max_gap_ns,
        .blocks_in_flight = batches_of(config) + stream->blocks_max,
    };
    return ring_need_of(&options, &info);
}

/* Frames of the ring; 0: there is no room. */
static uint64_t ring_frames(const struct memory_figure *figure, const struct config *config,
                            const struct config_stream *stream, const struct ring_need *need,
                            uint64_t *wanted)
{
    const uint64_t least = ring_size_least(need), given = stream->ring_frames;
    const uint64_t all =
        config->device.input_bytes != 0 ? config->device.input_bytes : ENGINE_INPUT_BYTES;
    const uint64_t room = all - figure->input;
    *wanted = power_of_two_from(64, given == 0      ? ring_size_default(need)
                                    : given > least ? given
                                                    : least);
    uint64_t frames = *wanted;
    while (frames > 0 && input_bytes(frames, stream->source.frame_bytes) > room)
        frames = given == 0 ? ring_size_smaller(need, frames) : 0;
    return frames;
}

struct memory_ring memory_ring(const struct memory_figure *figure, const struct config *config,
                               uint32_t index, const struct memory_plan *plan)
{
    const struct config_stream *stream = &config->streams[index];
    const struct ring_need need = need_of(config, stream, plan);
    uint64_t wanted;
    const uint64_t frames = ring_frames(figure, config, stream, &need, &wanted);
    const uint32_t frame_bytes = stream->source.frame_bytes;
    const double gap_s = 1e-9 * (double)need.max_gap_ns;
    const uint64_t gap = (uint64_t)ceil(gap_s * need.rate_hz);
    return (struct memory_ring){.bytes = frames * frame_bytes,
                                .wanted_bytes = wanted * frame_bytes,
                                .ms = 1e3 * (double)frames / need.rate_hz,
                                .fits = frames > 0,
                                .gap_s = (double)ring_size_gap_max(&need, frames) / need.rate_hz,
                                .wanted_gap_s = gap_s,
                                .gap_buffer_s =
                                    (double)ring_size_of_gap(&need, gap) / need.rate_hz};
}

/* The input ring, its presence bits and the times of its blocks. */
static uint64_t ring_bytes(struct memory_figure *figure, const struct config *config,
                           const struct config_stream *stream, const struct memory_plan *plan)
{
    const struct ring_need need = need_of(config, stream, plan);
    uint64_t wanted;
    const uint64_t frames = ring_frames(figure, config, stream, &need, &wanted);
    if (frames == 0)
        return 0;
    figure->input += input_bytes(frames, stream->source.frame_bytes);
    return frames * stream->source.frame_bytes + frames / 8 +
           power_of_two_from(4, frames / stream->hop_frames + 4) * BLOCK_TIMES_BYTES;
}

/* The taps of the filters, one spectrum for each (two of a complex one), and for long filters those
 * of earlier blocks. */
static uint64_t spectra_bytes(const struct config *config, const struct config_stream *stream,
                              const struct memory_plan *plan)
{
    uint64_t filters = 0;
    for (uint32_t f = 0; f < config->filter_count; f++) {
        bool used = false, complex = false;
        for (uint32_t e = 0; e < stream->edge_count; e++) {
            const struct config_edge *edge = &stream->edges[e];
            used |= edge->filter == f;
            complex |= edge->filter == f && stream->outputs[edge->output] != OUTPUT_REAL;
        }
        filters += used ? complex ? 2 : 1 : 0;
    }
    const uint64_t delay_lines = plan->partitions > 1 ? stream->source.channels : 0;
    return plan->taps_bytes +
           (filters + delay_lines) * plan->partitions * plan->fft * SPECTRUM_BYTES;
}

/* Samples of one stream in every batch, and in the one that tests plans. */
static uint64_t batch_bytes(const struct config *config, const struct config_stream *stream)
{
    const uint64_t capacity = config->device.batch_output_floats != 0
                                  ? config->device.batch_output_floats
                                  : ENGINE_BATCH_FLOATS;
    const uint64_t floats =
        (uint64_t)stream->blocks_max * stream->hop_frames * stream->output_floats;
    return (batches_of(config) + 1) * sizeof(float) * (floats < capacity ? floats : capacity);
}

/* Queues, and what the analyses themselves hold. */
static void add_analyses(struct memory_figure *figure, const struct config *config, uint32_t index)
{
    for (uint32_t i = 0; i < config->analysis_count; i++) {
        const struct config_analysis *analysis = &config->analyses[i];
        if (analysis->stream == index)
            figure->queues +=
                analysis_stage_memory(analysis->type, &analysis->options, analysis->queue_bytes,
                                      config_logs_events(&config->streams[index]));
    }
    for (uint32_t i = 0; i < config->event_sink_count; i++)
        if (config->analyses[config->event_sinks[i].analysis].stream == index)
            figure->queues += config->event_sinks[i].options.queue_bytes;
}

void memory_add_stream(struct memory_figure *figure, const struct config *config, uint32_t index,
                       const struct memory_plan *plan)
{
    const struct config_stream *stream = &config->streams[index];
    figure->rings += ring_bytes(figure, config, stream, plan);
    figure->spectra += spectra_bytes(config, stream, plan);
    figure->batches += batch_bytes(config, stream);
    if (stream->driver != NULL && stream->driver->memory != NULL)
        figure->queues += stream->driver->memory(&stream->source);
    for (uint32_t i = 0; i < config->sink_count; i++) {
        const struct config_sink *sink = &config->sinks[i];
        if (sink->stream == index && sink->driver->memory != NULL)
            figure->queues += sink->driver->memory(&sink->options);
    }
    add_analyses(figure, config, index);
}

void memory_add_shared(struct memory_figure *figure, const struct config *config)
{
    figure->batches += (batches_of(config) + 1) * (uint64_t)BATCH_PARTS * HUGE_PAGE_BYTES;
}

uint64_t memory_total(const struct memory_figure *figure)
{
    return figure->rings + figure->spectra + figure->batches + figure->queues;
}

void memory_print(const struct memory_figure *figure, FILE *out)
{
    const struct {
        const char *name;
        uint64_t bytes;
    } parts[] = {{"", memory_total(figure)},
                 {": rings ", figure->rings},
                 {", spectra ", figure->spectra},
                 {", batches ", figure->batches},
                 {", queues ", figure->queues}};
    for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char text[48];
        fprintf(out, "%s%s", parts[i].name,
                quantity_print(DIMENSION_MEMORY, (double)parts[i].bytes, text, sizeof text));
    }
}
