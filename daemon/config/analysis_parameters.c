/*
 * `parameters` of an [analysis NAME]: channels of the stream that is analysed, or of another one,
 * whose values its events carry.
 *
 * Worker or main thread, while a configuration is built.
 */
#include "config/internal.h"

#include <stdio.h>
#include <string.h>

#include "analysis/parameters.h"

/* What is being built. */
struct parameters {
    struct build *build;
    const struct raw_setting *setting;
    struct config_analysis *analysis;
    const char **names; /* [ANALYSIS_PARAMETERS_MAX] */
    uint32_t *channels; /* [values] */
    const char **streams;
    uint32_t *indices; /* [values] of the streams that they come from */
    uint32_t values, count;
};

static bool is_field(const struct config_analysis *analysis, const char *name)
{
    uint32_t count;
    const struct analysis_field *fields = analysis->type->fields(&analysis->options, &count);
    for (uint32_t f = 0; f < count; f++)
        if (strcmp(fields[f].name, name) == 0)
            return true;
    return false;
}

static bool is_taken(const struct parameters *p, const char *name)
{
    for (uint32_t i = 0; i < p->count; i++)
        if (strcmp(p->names[i], name) == 0)
            return true;
    return is_field(p->analysis, name);
}

static int add_name(struct parameters *p, const char *text, const char *base, const char *suffix)
{
    enum { NAME_BYTES = PARAMETER_NAME + 16 };
    char *name = config_alloc(p->build->memory, NAME_BYTES, 1);
    if (name == NULL)
        return ERROR_MEMORY;
    snprintf(name, NAME_BYTES, "%s%s", base, suffix);
    if (is_taken(p, name))
        config_error(p->build->errors, p->setting->place,
                     "`parameters = %s`: the events have %s already; write another name", text,
                     name);
    p->names[p->count++] = name;
    return 0;
}

/* The stream that a parameter comes from, which has the channel; NULL: it cannot come from there,
 * as the errors say. */
static const struct config_stream *find_stream(struct parameters *p, const char *text,
                                               const struct parameter *parameter)
{
    struct build *build = p->build;
    const struct config_stream *own = &build->streams[p->analysis->stream], *stream = own;
    if (parameter->stream[0] != '\0') {
        const int index = config_find_stream(build->config, parameter->stream);
        if (index < 0) {
            config_error(build->errors, p->setting->place,
                         "`parameters = %s`: there is no [stream %s]; write one", text,
                         parameter->stream);
            return NULL;
        }
        if (build->stream_sections[index]->broken)
            return NULL;
        stream = &build->streams[index];
    }
    if (parameter->channel >= stream->output_floats)
        config_error(build->errors, p->setting->place,
                     "`parameters = %s`: stream %s has %u channel%s; write one of them", text,
                     stream->name, stream->output_floats, stream->output_floats == 1 ? "" : "s");
    if (stream != own && config_logs_events(own))
        config_error(build->errors, p->setting->place,
                     "`parameters = %s`: whoever goes on with stream %s cannot know what stream %s "
                     "gave before; take a channel of stream %s",
                     text, own->name, stream->name, own->name);
    if (stream->live != own->live)
        config_error(build->errors, p->setting->place,
                     "`parameters = %s`: stream %s is %s and stream %s is %s, so their times have "
                     "nothing in common; take both live or both from recordings",
                     text, own->name, own->live ? "live" : "replayed", stream->name,
                     stream->live ? "live" : "replayed");
    return stream;
}

/* A block that lasts longer than a value may be old leaves events without one. */
static void check_age(struct parameters *p, const char *text, const struct config_stream *stream)
{
    const double block_s = (double)stream->hop_frames / stream->source.rate_hz,
                 age_s = (double)p->analysis->options.parameter_age_ns / 1e9;
    if (stream->live && block_s > age_s)
        config_warning(
            p->build->errors, p->setting->place,
            "`parameters = %s`: a block of stream %s lasts %.3g s and `parameter age` is "
            "%.3g s, so most events will lack the value; write a smaller `block` or a "
            "longer `parameter age`",
            text, stream->name, block_s, age_s);
}

static int add_value(struct parameters *p, const char *text)
{
    struct parameter parameter;
    if (!parameter_parse(text, &parameter))
        return 0; /* told when it was read */
    const struct config_stream *stream = find_stream(p, text, &parameter);
    if (stream == NULL)
        return 0;
    const uint32_t at = p->values++, index = (uint32_t)(stream - p->build->streams);
    p->channels[at] = parameter.channel;
    p->indices[at] = index;
    p->streams[at] = index != p->analysis->stream ? stream->name : NULL;
    if (p->streams[at] != NULL)
        check_age(p, text, stream);
    return add_name(p, text, parameter.name, "");
}

/* Behind all values, so that those keep their places. */
static int add_ages(struct parameters *p)
{
    int status = 0;
    for (uint32_t i = 0; status == 0 && i < p->values; i++) {
        if (p->streams[i] == NULL)
            continue;
        status = add_name(p, p->names[i], p->names[i], "_age_us");
        if (status == 0)
            status = add_name(p, p->names[i], p->names[i], "_error_us");
    }
    return status;
}

int build_analysis_parameters(struct build *build, const struct raw_section *section,
                              struct config_analysis *analysis)
{
    const struct raw_setting *setting = raw_setting_of(section, KEY_ANALYSIS_PARAMETERS);
    const unsigned count = setting->given == GIVEN_SET ? setting->value_count : 0;
    struct analysis_options *options = &analysis->options;
    if (count == 0)
        return 0;
    if (count > ANALYSIS_PARAMETERS_WRITTEN) {
        config_error(build->errors, setting->place, "`parameters` has %u items; write at most %d",
                     count, ANALYSIS_PARAMETERS_WRITTEN);
        return 0;
    }
    options->parameter_age_ns = value_of(section, KEY_ANALYSIS_PARAMETER_AGE)->integer;
    struct parameters p = {
        .build = build,
        .setting = setting,
        .analysis = analysis,
        .names = config_alloc(build->memory, ANALYSIS_PARAMETERS_MAX, sizeof(char *)),
        .channels = config_alloc(build->memory, count, sizeof(uint32_t)),
        .streams = config_alloc(build->memory, count, sizeof(char *)),
        .indices = config_alloc(build->memory, count, sizeof(uint32_t)),
    };
    if (p.names == NULL || p.channels == NULL || p.streams == NULL || p.indices == NULL)
        return ERROR_MEMORY;
    int status = 0;
    for (unsigned i = 0; status == 0 && i < count; i++)
        status = add_value(&p, setting->values[i].text);
    if (status == 0)
        status = add_ages(&p);
    options->parameters = p.names;
    options->parameter_count = p.count;
    options->parameter_values = p.values;
    options->parameter_channels = p.channels;
    options->parameter_streams = p.streams;
    analysis->parameter_streams = p.indices;
    return status;
}
