/* Analyses in the report of `--check`: see analyses.h. */
#include "report/analyses.h"

#include "core/quantity.h"
#include "pipeline/analysis_stage.h"
#include "signal/decimation.h"

static void print_sinks(const struct config *config, uint32_t analysis, FILE *out)
{
    for (uint32_t i = 0; i < config->event_sink_count; i++) {
        const struct config_event_sink *sink = &config->event_sinks[i];
        if (sink->analysis != analysis)
            continue;
        fprintf(out, "  sink %-11s ", sink->name);
        sink->driver->report(&sink->options, out);
    }
}

/* How many sinks and analyses take its events. */
static uint32_t takers(const struct config *config, uint32_t analysis)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < config->event_sink_count; i++)
        count += config->event_sinks[i].analysis == analysis;
    for (uint32_t i = 0; i < config->analysis_count; i++)
        count += config->analyses[i].upstream == (int)analysis;
    return count;
}

/* What comes from other streams. */
static void print_parameters(const struct analysis_options *options, FILE *out)
{
    char age[48];
    for (uint32_t i = 0; options->parameter_streams != NULL && i < options->parameter_values; i++)
        if (options->parameter_streams[i] != NULL)
            fprintf(out, "%19s%s: channel %u of stream %s, at most %s old\n", "",
                    options->parameters[i], options->parameter_channels[i] + 1,
                    options->parameter_streams[i],
                    quantity_print(DIMENSION_TIME, (double)options->parameter_age_ns / 1e9, age,
                                   sizeof age));
}

/* The recording that the stream replays is shorter than one result. */
static void print_shortage(const struct config_stream *stream,
                           const struct config_analysis *analysis,
                           const struct analysis_options *options, FILE *out)
{
    const uint64_t needed =
        analysis->type->result_frames != NULL ? analysis->type->result_frames(options) : 0;
    const uint64_t there = stream->source.frames / (stream->decimate > 1 ? stream->decimate : 1);
    struct quantity_pair times;
    if (there == 0 || needed <= there)
        return;
    quantity_print_pair(DIMENSION_TIME, (double)needed / options->stream.rate_hz,
                        (double)there / options->stream.rate_hz, &times);
    fprintf(out,
            "%19swarning: one result takes %s, and the recording has %s: its result is of a part\n",
            "", times.first, times.second);
}

void analyses_report(const struct config *config, uint32_t index, uint32_t taps_longest,
                     double delay_frames, FILE *out)
{
    const struct config_stream *stream = &config->streams[index];
    for (uint32_t i = 0; i < config->analysis_count; i++) {
        const struct config_analysis *analysis = &config->analyses[i];
        struct analysis_options options = analysis->options;
        char bytes[48];
        if (analysis->stream != index)
            continue;
        options.stream.taps_longest = (taps_longest + stream->decimate - 1) / stream->decimate;
        options.stream.delay_frames = decimation_delay_frames(stream->decimate, delay_frames);
        fprintf(out, "  analysis %-7s ", analysis->name);
        analysis->type->report(&options, out);
        print_shortage(stream, analysis, &options, out);
        print_parameters(&options, out);
        const bool logged = config_logs_events(stream);
        if (logged)
            fprintf(out, "%19sthe log has its events, each once, before anybody else\n", "");
        fprintf(out, "%19smemory up to %s\n", "",
                quantity_print(DIMENSION_MEMORY,
                               (double)analysis_stage_memory(analysis->type, &options,
                                                             analysis->queue_bytes, logged),
                               bytes, sizeof bytes));
        if (takers(config, i) == 0 && !logged)
            fprintf(out,
                    "%19sno sink takes its events: alarms, OSC, convolvctl and the live page "
                    "may\n",
                    "");
        print_sinks(config, i, out);
    }
}
