/*
 * Sinks of the configuration: where results go, in which format, and whether that place can
 * hold them.
 */
#include "config/internal.h"

#include <math.h>
#include <string.h>

enum { PORTS_MAX = 16 /* stream_add_port */ };

/* The sink's sample format: the driver's byte order unless written. */
static bool build_format(const struct option_check *check, const struct raw_section *section,
                         const struct sink_ops *driver, struct sample_format *format)
{
    sample_format_parse(driver->format, format);
    if (!value_given(section, KEY_SINK_FORMAT))
        return true;
    const bool big_endian = format->big_endian;
    const struct option_value *value = value_of(section, KEY_SINK_FORMAT);
    bool order_written;
    *format = schema_format(value, &order_written);
    if (!order_written)
        format->big_endian = big_endian;
    if (format->kind == SAMPLE_UNSIGNED || format->bytes == 1) {
        option_error(check, "format",
                     "`format = %s` cannot carry results; write s16, s24, s32 or f32", value->text);
        return false;
    }
    if (driver->order != NULL && format->big_endian != big_endian) {
        char name[24];
        format->big_endian = big_endian;
        option_error(check, "format", "%s; write %s", driver->order,
                     sample_format_name(format, name));
        return false;
    }
    return true;
}

/* The value of a full-scale code, in the unit of the stream's first output. */
static bool build_full_scale(struct build *build, const struct option_check *check,
                             const struct raw_section *section, const struct config_stream *stream,
                             struct sink_options *options)
{
    const struct option_value *value = value_of(section, KEY_SINK_FULL_SCALE);
    if (value != NULL)
        return option_amplitude(check, "full scale", value, stream->units[0], &options->full_scale);
    options->full_scale = 1;
    if (options->format.kind == SAMPLE_FLOAT)
        return true;
    /* The largest of the first stream of the chain: filters have gain 1 in their band. */
    while (stream->upstream >= 0)
        stream = &build->streams[stream->upstream];
    double largest = 0;
    for (uint32_t c = 0; c < stream->source.channels; c++)
        largest = fmax(largest, channel_scale_factor(&stream->scales[c]));
    options->full_scale = largest;
    return true;
}

/* What a driver's checks ask of the stream; the running stream fills in the rest. */
static struct sink_stream stream_of(const struct config_stream *stream)
{
    return (struct sink_stream){
        .name = stream->name,
        .rate_hz = stream->output_rate_hz,
        .decimate = stream->decimate_total,
        .channels = stream->output_floats,
        .units = stream->units,
        .input_format = stream->source.format,
        .input_channels = stream->source.channels,
        .input_rate_hz = stream->source.rate_hz,
        .input_max_gap_ns = stream->source.max_gap_ns,
        .input_scales = stream->scales,
    };
}

/* The index of the stream that a section names; -1: none, reported. */
static int find_stream(struct build *build, const struct raw_section *section)
{
    if (!value_given(section, KEY_SINK_STREAM))
        return -1;
    const char *name = value_of(section, KEY_SINK_STREAM)->text;
    int index = config_find_stream(build->config, name);
    if (index < 0)
        report_unknown(build, place_of(section, KEY_SINK_STREAM), section, SECTION_STREAM, name);
    return index;
}

static int build_sink(struct build *build, uint32_t index)
{
    struct raw_section *section = build->sink_sections[index];
    struct config_sink *sink = &build->sinks[index];
    struct sink_options *options = &sink->options;
    const struct sink_ops *driver = section->type >= 0 ? sink_at(section->type) : NULL;
    struct option_check check;
    sink->name = options->name = section->name;
    sink->place = section->place;
    sink->driver = driver;
    if (!driver_check(build, section, &check))
        return ERROR_MEMORY;
    if (driver != NULL && driver_fill(build, section, driver->options, driver->option_count,
                                      driver->options_bytes, options, &options->own) != 0)
        return ERROR_MEMORY;
    const int stream_index = find_stream(build, section);
    sink->stream = (uint32_t)stream_index;
    section->broken = section->broken || driver == NULL || stream_index < 0;
    if (section->broken || build->stream_sections[stream_index]->broken)
        return 0;
    const struct config_stream *stream = &build->streams[stream_index];
    const unsigned errors = build->errors->errors;
    options->stream = stream_of(stream);
    if (driver->format == NULL || (build_format(&check, section, driver, &options->format) &&
                                   build_full_scale(build, &check, section, stream, options))) {
        const struct daemon_facts daemon = driver_facts(build);
        const struct stream_facts facts = driver_stream_facts(build, stream);
        if (driver->check != NULL)
            driver->check(&check, &daemon, &facts, options);
    }
    section->broken = build->errors->errors > errors;
    return 0;
}

/* How many analyses that read results name the stream. */
static unsigned analyses_of(const struct build *build, const char *name)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < build->config->analysis_count; i++) {
        const struct raw_section *section = build->analysis_sections[i];
        count += value_given(section, KEY_ANALYSIS_STREAM) &&
                 strcmp(value_of(section, KEY_ANALYSIS_STREAM)->text, name) == 0;
        const int stream = config_find_stream(build->config, name);
        count += stream >= 0 && build->analyses[i].stream != (uint32_t)stream &&
                 config_gives_parameters(&build->analyses[i], (uint32_t)stream);
    }
    return count;
}

/* How many sinks, chains and analyses read each stream: at least one, at most PORTS_MAX. */
static void check_readers(struct build *build)
{
    for (uint32_t s = 0; s < build->config->stream_count; s++) {
        const char *name = build->streams[s].name;
        unsigned readers = analyses_of(build, name);
        for (uint32_t i = 0; i < build->config->sink_count; i++)
            readers += value_given(build->sink_sections[i], KEY_SINK_STREAM) &&
                       strcmp(value_of(build->sink_sections[i], KEY_SINK_STREAM)->text, name) == 0;
        for (uint32_t k = 0; k < build->config->stream_count; k++)
            readers += upstream_name(build->stream_sections[k]) != NULL &&
                       strcmp(upstream_name(build->stream_sections[k]), name) == 0;
        if (readers > PORTS_MAX)
            config_error(build->errors, build->streams[s].place,
                         "%u sinks, chains and analyses read stream %s, at most %d can; send one "
                         "multicast group to "
                         "several receivers, or chain through a stream with an identity filter",
                         readers, name, PORTS_MAX);
        if (readers == 0)
            config_warning(build->errors, build->streams[s].place,
                           "nothing receives the results of stream %s; add a [sink NAME] or an "
                           "[analysis NAME] with stream = %s",
                           name, name);
    }
}

int build_sinks(struct build *build)
{
    for (uint32_t i = 0; i < build->config->sink_count; i++) {
        int status = build_sink(build, i);
        if (status != 0)
            return status;
    }
    check_readers(build);
    return driver_check_all(build);
}
