/*
 * Analyses of the configuration, and the sinks that take their events: [analysis NAME] sections and
 * those [sink NAME] sections that name one, with the options of their types.
 */
#include "config/internal.h"

#include <string.h>

/* ---- the stream, as analyses see it -------------------------------------------------------- */

uint32_t config_first_input(const struct config_stream *stream, uint32_t output)
{
    for (uint32_t e = 0; e < stream->edge_count; e++)
        if (stream->edges[e].output == output)
            return stream->edges[e].input;
    return 0;
}

/* Whether its epochs are records: those of the source at the head of its chain. */
static bool in_records(const struct build *build, const struct config_stream *stream)
{
    while (stream->upstream >= 0)
        stream = &build->streams[stream->upstream];
    return stream->source.mode == MODE_RECORD;
}

static bool is_envelope(const struct config_stream *stream)
{
    bool envelope = stream->output_count > 0;
    for (uint32_t output = 0; output < stream->output_count; output++)
        envelope = envelope && stream->outputs[output] == OUTPUT_ENVELOPE;
    return envelope;
}

/* The pass-band of the narrowest filter that leads to a result; 0: none is designed. */
static double bandwidth_of(const struct build *build, const struct config_stream *stream)
{
    double narrowest = 0;
    for (uint32_t e = 0; e < stream->edge_count; e++) {
        const struct filter_spec *spec = &build->filters[stream->edges[e].filter].spec;
        const struct design_spec *design = &spec->design;
        const double width = spec->type == FILTER_LOWPASS    ? design->cutoff_hz
                             : spec->type == FILTER_BANDPASS ? design->high_hz - design->low_hz
                             : spec->type == FILTER_HIGHPASS
                                 ? stream->source.rate_hz / 2 - design->cutoff_hz
                                 : 0;
        if (width > 0 && (narrowest == 0 || width < narrowest))
            narrowest = width;
    }
    return narrowest;
}

/* What the configuration knows of it. The scale of a chain's input is that of no converter. */
static int stream_of(struct build *build, const struct config_stream *stream,
                     struct analysis_stream *out)
{
    double *preamp_db = config_alloc(build->memory, stream->output_floats, sizeof *preamp_db);
    double *full_scale = config_alloc(build->memory, stream->output_floats, sizeof *full_scale);
    double *step = config_alloc(build->memory, stream->output_floats, sizeof *step);
    if (preamp_db == NULL || full_scale == NULL || step == NULL)
        return ERROR_MEMORY;
    for (uint32_t output = 0, at = 0; output < stream->output_count; output++) {
        const uint32_t input = config_first_input(stream, output);
        const struct level_scale scale = config_level_scale(stream, input);
        const int floats = stream->outputs[output] == OUTPUT_COMPLEX ? 2 : 1;
        for (int i = 0; i < floats; i++, at++) {
            preamp_db[at] = stream->scales[input].gain_db;
            full_scale[at] = scale.full_scale;
            step[at] = scale.step;
        }
    }
    const struct excitation excitation =
        excitation_decimated(stream->source.excitation, stream->decimate);
    *out = (struct analysis_stream){
        .name = stream->name,
        .rate_hz = stream->output_rate_hz,
        .channels = stream->output_floats,
        .units = stream->units,
        .bandwidth_hz = bandwidth_of(build, stream),
        .aligned = stream->align,
        .records = in_records(build, stream),
        .envelope = is_envelope(stream),
        .excited = excitation.known,
        .excitation_frame = excitation.start_frame,
        .excitation_period_frames = excitation.period_frames,
        .preamp_db = preamp_db,
        .full_scale = full_scale,
        .step = step,
    };
    return 0;
}

/* ---- order --------------------------------------------------------------------------------- */

/* Whether the section takes the events of another analysis. */
static bool is_of_events(const struct raw_section *section)
{
    const struct analysis_ops *type = analysis_at(section->type);
    return type != NULL && type->of_events;
}

/* The section of the analysis whose events it takes; NULL: there is none. */
static struct raw_section *upstream_of(const struct build *build, const struct raw_section *section)
{
    return is_of_events(section) && value_given(section, KEY_ANALYSIS_ANALYSIS)
               ? raw_find(build->raw, SECTION_ANALYSIS,
                          value_of(section, KEY_ANALYSIS_ANALYSIS)->text)
               : NULL;
}

static bool is_among(struct raw_section *const *sections, uint32_t count,
                     const struct raw_section *section)
{
    for (uint32_t i = 0; i < count; i++)
        if (sections[i] == section)
            return true;
    return false;
}

/* Puts each section behind the one whose events it takes, as they are written otherwise. What is
 * left in the end takes events of itself. */
static int order(struct build *build)
{
    const uint32_t count = build->config->analysis_count;
    struct raw_section **ordered = config_alloc(build->memory, count, sizeof *ordered);
    uint32_t placed = 0;
    if (ordered == NULL)
        return ERROR_MEMORY;
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = 0; i < count; i++) {
            struct raw_section *section = build->analysis_sections[i];
            const struct raw_section *upstream = upstream_of(build, section);
            if (is_among(ordered, placed, section) ||
                (upstream != NULL && !is_among(ordered, placed, upstream)))
                continue;
            ordered[placed++] = section;
            more = true;
        }
    }
    for (uint32_t i = 0; placed < count && i < count; i++) {
        struct raw_section *section = build->analysis_sections[i];
        if (is_among(ordered, placed, section))
            continue;
        config_error(build->errors, place_of(section, KEY_ANALYSIS_ANALYSIS),
                     "analysis %s takes, by way of `analysis = %s`, its own events; name one that "
                     "does not depend on it",
                     section->name, value_of(section, KEY_ANALYSIS_ANALYSIS)->text);
        section->broken = true;
        ordered[placed++] = section;
    }
    build->analysis_sections = ordered;
    return 0;
}

/* ---- analyses ------------------------------------------------------------------------------ */

static bool find_stream(struct build *build, const struct raw_section *section,
                        struct config_analysis *analysis)
{
    if (!value_given(section, KEY_ANALYSIS_STREAM))
        return false;
    const char *name = value_of(section, KEY_ANALYSIS_STREAM)->text;
    const int index = config_find_stream(build->config, name);
    if (index < 0) {
        report_unknown(build, place_of(section, KEY_ANALYSIS_STREAM), section, SECTION_STREAM,
                       name);
        return false;
    }
    analysis->stream = (uint32_t)index;
    return !build->stream_sections[index]->broken;
}

static bool find_upstream(struct build *build, const struct raw_section *section,
                          struct config_analysis *analysis)
{
    if (!value_given(section, KEY_ANALYSIS_ANALYSIS))
        return false;
    const char *name = value_of(section, KEY_ANALYSIS_ANALYSIS)->text;
    const struct config_place place = place_of(section, KEY_ANALYSIS_ANALYSIS);
    const int index = config_find_analysis(build->config, name);
    if (index < 0) {
        report_unknown(build, place, section, SECTION_ANALYSIS, name);
        return false;
    }
    const struct config_analysis *upstream = &build->analyses[index];
    if (build->analysis_sections[index]->broken)
        return false;
    if (upstream->type->emits != analysis->type->takes) {
        config_error(build->errors, place,
                     "`type = %s` takes events of the kind %s, and analysis %s gives those of the "
                     "kind %s; name another one",
                     analysis->type->name, analysis_event_word(analysis->type->takes), name,
                     analysis_event_word(upstream->type->emits));
        return false;
    }
    analysis->upstream = index;
    analysis->stream = upstream->stream;
    analysis->options.upstream = &upstream->options;
    analysis->options.parameters = upstream->options.parameters;
    analysis->options.parameter_count = upstream->options.parameter_count;
    analysis->options.parameter_values = upstream->options.parameter_values;
    return true;
}

/* `keep`, once the type's options are proven: they decide which fields there are. */
static int build_limits(struct build *build, const struct raw_section *section,
                        struct config_analysis *analysis)
{
    const struct raw_setting *setting = raw_setting_of(section, KEY_ANALYSIS_KEEP);
    const unsigned count = setting->given == GIVEN_SET ? setting->value_count : 0;
    struct analysis_limit *limits = config_alloc(build->memory, count, sizeof *limits);
    uint32_t field_count;
    if (limits == NULL)
        return ERROR_MEMORY;
    const struct analysis_field *fields = analysis->type->fields(&analysis->options, &field_count);
    for (unsigned i = 0; i < count; i++) {
        struct problem problem;
        if (limit_find(setting->values[i].text, fields, field_count, &analysis->options.stream,
                       &limits[i], &problem) != 0)
            config_error(build->errors, setting->place, "%s", problem.text);
    }
    analysis->limits = limits;
    analysis->limit_count = count;
    return 0;
}

static int build_analysis(struct build *build, uint32_t index)
{
    struct raw_section *section = build->analysis_sections[index];
    struct config_analysis *analysis = &build->analyses[index];
    struct analysis_options *options = &analysis->options;
    const struct analysis_ops *type = analysis_at(section->type);
    struct option_check check;
    analysis->name = options->name = section->name;
    analysis->place = section->place;
    analysis->type = type;
    analysis->upstream = -1;
    analysis->stream = UINT32_MAX;
    section->broken = section->broken || type == NULL;
    if (section->broken)
        return 0;
    if (!driver_check(build, section, &check) ||
        driver_fill(build, section, type->options, type->option_count, type->options_bytes, options,
                    &options->own) != 0)
        return ERROR_MEMORY;
    const struct option_value *queue = value_of(section, KEY_ANALYSIS_BUFFER);
    analysis->queue_bytes = queue != NULL ? (uint64_t)queue->integer : 0;
    section->broken = type->of_events ? !find_upstream(build, section, analysis)
                                      : !find_stream(build, section, analysis);
    if (section->broken)
        return 0;
    const unsigned errors = build->errors->errors;
    if (stream_of(build, &build->streams[analysis->stream], &options->stream) != 0)
        return ERROR_MEMORY;
    if (type->check != NULL)
        type->check(&check, options);
    if (build->errors->errors == errors &&
        (build_limits(build, section, analysis) != 0 ||
         build_analysis_parameters(build, section, analysis) != 0))
        return ERROR_MEMORY;
    section->broken = build->errors->errors > errors;
    return 0;
}

int build_analyses(struct build *build)
{
    int status = order(build);
    for (uint32_t i = 0; status == 0 && i < build->config->analysis_count; i++)
        status = build_analysis(build, i);
    return status;
}

/* ---- sinks of events ----------------------------------------------------------------------- */

/* The file that a sink writes, of the option `path`; NULL: it has none. */
static const char *path_of(const struct config_event_sink *sink)
{
    const struct option_row *row =
        option_find(sink->driver->options, sink->driver->option_count, "path");
    if (row == NULL || sink->options.own == NULL)
        return NULL;
    return *(const char *const *)(const void *)((const char *)sink->options.own + row->offset);
}

/* Two sinks must not write one file. */
static void check_paths(struct build *build, uint32_t index)
{
    const char *path = path_of(&build->event_sinks[index]);
    for (uint32_t i = 0; path != NULL && i < index; i++) {
        const char *other = path_of(&build->event_sinks[i]);
        if (build->event_sink_sections[i]->broken || other == NULL || strcmp(path, other) != 0)
            continue;
        config_error(build->errors, build->event_sinks[index].place,
                     "sinks %s and %s write one file, %s; write another `path` for one of them",
                     build->event_sinks[i].name, build->event_sinks[index].name, path);
        build->event_sink_sections[index]->broken = true;
        return;
    }
}

static int build_event_sink(struct build *build, uint32_t index)
{
    struct raw_section *section = build->event_sink_sections[index];
    struct config_event_sink *sink = &build->event_sinks[index];
    struct event_sink_options *options = &sink->options;
    const struct event_sink_ops *driver = schema_event_sink(section->type);
    struct option_check check;
    sink->name = options->name = section->name;
    sink->place = section->place;
    sink->driver = driver;
    if (!driver_check(build, section, &check) ||
        driver_fill(build, section, driver->options, driver->option_count, driver->options_bytes,
                    options, &options->own) != 0)
        return ERROR_MEMORY;
    if (!value_given(section, KEY_SINK_ANALYSIS)) {
        section->broken = true;
        return 0;
    }
    const char *name = value_of(section, KEY_SINK_ANALYSIS)->text;
    const int analysis = config_find_analysis(build->config, name);
    if (analysis < 0)
        report_unknown(build, place_of(section, KEY_SINK_ANALYSIS), section, SECTION_ANALYSIS,
                       name);
    section->broken = section->broken || analysis < 0 || build->analysis_sections[analysis]->broken;
    if (section->broken)
        return 0;
    const unsigned errors = build->errors->errors;
    const struct daemon_facts daemon = driver_facts(build);
    sink->analysis = (uint32_t)analysis;
    options->analysis = build->analyses[analysis].type;
    options->analysis_options = &build->analyses[analysis].options;
    if (driver->check != NULL)
        driver->check(&check, &daemon, options);
    section->broken = build->errors->errors > errors;
    if (!section->broken)
        check_paths(build, index);
    return 0;
}

int build_event_sinks(struct build *build)
{
    int status = 0;
    for (uint32_t i = 0; status == 0 && i < build->config->event_sink_count; i++)
        status = build_event_sink(build, i);
    return status;
}
