/*
 * Outputs of a stream: its `filter`, `bank` or `route` lines become edges (input channel →
 * filter → gain → output), and every output gets its form and its unit. A filter of an array (fk)
 * has an edge from every channel to every channel.
 */
#include "config/internal.h"

#include <string.h>

/* Index of a filter by name; -1: reported. */
static int resolve_filter(struct build *build, const struct raw_section *section, const char *name,
                          struct config_place place)
{
    int index = config_find_filter(build->config, name);
    if (index >= 0) {
        build->filters[index].used = true;
        return index;
    }
    report_unknown(build, place, section, SECTION_FILTER, name);
    return -1;
}

void resolve_filters(struct build *build, const struct raw_section *section)
{
    static const enum schema_id ways[] = {KEY_FILTER, KEY_BANK, KEY_ROUTE};
    char name[OPTION_NAME_BYTES];
    for (int way = 0; way < 3; way++) {
        const struct raw_setting *setting = raw_setting_of(section, ways[way]);
        for (unsigned i = 0; setting->given == GIVEN_SET && i < setting->value_count; i++)
            resolve_filter(build, section, filter_named(ways[way], &setting->values[i], name),
                           ways[way] == KEY_ROUTE ? setting->items[i].place : setting->place);
    }
}

static bool is_array(const struct build *build, int filter)
{
    return filter >= 0 && build->filters[filter].spec.type == FILTER_FK;
}

/* Edges that one name in `filter` or `bank` stands for. */
static uint64_t edges_of_name(const struct build *build, const struct config_stream *stream,
                              const char *name)
{
    uint64_t channels = stream->source.channels;
    return is_array(build, config_find_filter(build->config, name)) ? channels * channels
                                                                    : channels;
}

/* The edges by which a filter makes `output` of `channel`; returns how many. */
static uint32_t add_edges(const struct build *build, const struct config_stream *stream, int filter,
                          uint32_t channel, uint32_t output, struct config_edge *edges)
{
    bool array = is_array(build, filter);
    uint32_t count = 0;
    for (uint32_t i = array ? 0 : channel; i < (array ? stream->source.channels : channel + 1); i++)
        edges[count++] = (struct config_edge){.input = (uint16_t)i,
                                              .output = (uint16_t)output,
                                              .filter = (uint16_t)filter,
                                              .gain = 1};
    return count;
}

/* An array's filter mixes all channels, so it cannot stand where one channel is meant. */
static int refuse_array(struct build *build, int filter, const char *key, struct config_place place)
{
    if (!is_array(build, filter))
        return 0;
    config_error(
        build->errors, place,
        "filter %s (type = fk) combines all channels, `%s` names it for one of them; write "
        "`filter = %s`, or name it in `bank`",
        build->filters[filter].name, key, build->filters[filter].name);
    return ERROR_CONFIG;
}

/* Edges of `filter = …`: one for all channels, or one each. */
static int edges_of_filter(struct build *build, struct config_stream *stream,
                           struct raw_section *section, struct config_edge *edges)
{
    const struct raw_setting *setting = raw_setting_of(section, KEY_FILTER);
    uint32_t channels = stream->source.channels;
    if (setting->value_count != 1 && setting->value_count != channels) {
        config_error(
            build->errors, setting->place,
            "`filter` lists %u filters for %u channels; write one for all or one for each, or "
            "use `bank` for several filters a channel",
            setting->value_count, channels);
        return ERROR_CONFIG;
    }
    bool one = setting->value_count == 1;
    uint32_t used = 0;
    int status = 0;
    for (unsigned i = 0; i < setting->value_count; i++) {
        int filter = resolve_filter(build, section, setting->values[i].text, setting->place);
        if (filter < 0 || (!one && refuse_array(build, filter, "filter", setting->place) != 0))
            status = ERROR_CONFIG;
        for (uint32_t c = 0; status == 0 && c < channels; c++)
            if (one || c == i)
                used += add_edges(build, stream, filter, c, c, edges + used);
    }
    return status;
}

/* Edges of `bank = …`: channel-major. */
static int edges_of_bank(struct build *build, struct config_stream *stream,
                         struct raw_section *section, struct config_edge *edges)
{
    const struct raw_setting *setting = raw_setting_of(section, KEY_BANK);
    uint32_t width = setting->value_count, used = 0;
    int filters[CONFIG_CHANNELS_MAX], status = 0;
    for (uint32_t i = 0; i < width; i++) {
        filters[i] = resolve_filter(build, section, setting->values[i].text, setting->place);
        if (filters[i] < 0)
            status = ERROR_CONFIG;
    }
    for (uint32_t c = 0; status == 0 && c < stream->source.channels; c++)
        for (uint32_t i = 0; i < width; i++)
            used += add_edges(build, stream, filters[i], c, c * width + i, edges + used);
    return status;
}

/* Edges of `route` lines; *outputs becomes the highest output named. */
static int edges_of_routes(struct build *build, struct config_stream *stream,
                           struct raw_section *section, struct config_edge *edges,
                           uint32_t *outputs)
{
    const struct raw_setting *setting = raw_setting_of(section, KEY_ROUTE);
    bool fed[CONFIG_CHANNELS_MAX + 1] = {false};
    int status = 0;
    *outputs = 0;
    for (unsigned i = 0; i < setting->value_count; i++) {
        struct schema_route route;
        schema_route(&setting->values[i], &route);
        struct config_place place = setting->items[i].place;
        int filter = resolve_filter(build, section, route.filter, place);
        if (route.input > stream->source.channels) {
            config_error(build->errors, place,
                         "`route = %s` reads channel %u, but stream %s has %u; write 1 … %u",
                         setting->values[i].text, route.input, stream->name,
                         stream->source.channels, stream->source.channels);
            status = ERROR_CONFIG;
        }
        if (filter < 0 || refuse_array(build, filter, "route", place) != 0)
            status = ERROR_CONFIG;
        else
            edges[i] = (struct config_edge){.input = (uint16_t)(route.input - 1),
                                            .output = (uint16_t)(route.output - 1),
                                            .filter = (uint16_t)filter,
                                            .gain = (float)route.gain};
        fed[route.output] = true;
        *outputs = route.output > *outputs ? route.output : *outputs;
    }
    for (uint32_t o = 1; o <= *outputs; o++)
        if (!fed[o]) {
            config_error(
                build->errors, setting->place,
                "no route leads to output %u of stream %s, but one leads to output %u; number "
                "the outputs from 1 without a hole",
                o, stream->name, *outputs);
            return ERROR_CONFIG;
        }
    return status;
}

/* 0, ERROR_CONFIG (reported) or ERROR_MEMORY. */
static int build_edges(struct build *build, struct config_stream *stream,
                       struct raw_section *section)
{
    static const enum schema_id ways[] = {KEY_FILTER, KEY_BANK, KEY_ROUTE};
    int way = -1;
    bool bad = false;
    for (int i = 0; i < 3; i++) {
        const struct raw_setting *setting = raw_setting_of(section, ways[i]);
        bad = bad || setting->given == GIVEN_BAD;
        if (setting->given != GIVEN_SET)
            continue;
        if (way >= 0) {
            config_error(build->errors, setting->place,
                         "stream %s has both `%s` (line %u) and `%s`; write one of them",
                         stream->name, schema_key(ways[way])->row.key,
                         place_of(section, ways[way]).line, schema_key(ways[i])->row.key);
            return ERROR_CONFIG;
        }
        way = i;
    }
    if (way < 0) {
        if (!bad)
            config_error(
                build->errors, stream->place,
                "stream %s has no filter; write filter = NAME, or a bank, or route lines (a filter "
                "of type = identity changes nothing)",
                stream->name);
        return ERROR_CONFIG;
    }
    uint32_t channels = stream->source.channels;
    uint64_t listed = raw_setting_of(section, ways[way])->value_count;
    uint64_t outputs = way == 0 ? channels : way == 1 ? channels * listed : listed;
    uint64_t count = outputs;
    if (way == 1 || (way == 0 && listed == 1)) {
        count = 0;
        for (uint64_t i = 0; i < listed; i++)
            count +=
                edges_of_name(build, stream, raw_setting_of(section, ways[way])->values[i].text);
    }
    build->edges += count;
    if (build->edges > CONFIG_EDGES_MAX || (way != 2 && outputs > UINT16_MAX)) {
        config_error(
            build->errors, place_of(section, ways[way]),
            "stream %s brings the number of edges (channel → filter → output) to %llu, more "
            "than %d; write fewer",
            stream->name, (unsigned long long)build->edges, CONFIG_EDGES_MAX);
        return ERROR_CONFIG;
    }
    struct config_edge *edges = config_alloc(build->memory, count, sizeof *edges);
    if (edges == NULL)
        return ERROR_MEMORY;
    uint32_t routed = 0;
    int status = way == 0   ? edges_of_filter(build, stream, section, edges)
                 : way == 1 ? edges_of_bank(build, stream, section, edges)
                            : edges_of_routes(build, stream, section, edges, &routed);
    if (status != 0)
        return status;
    stream->edges = edges;
    stream->edge_count = (uint32_t)count;
    stream->output_count = way == 2 ? routed : (uint32_t)outputs;
    return 0;
}

/* True when every filter leading to the output is known to be real. */
static bool output_is_real(const struct build *build, const struct config_stream *stream,
                           uint32_t output)
{
    for (uint32_t e = 0; e < stream->edge_count; e++) {
        const struct filter_spec *spec = &build->filters[stream->edges[e].filter].spec;
        if (stream->edges[e].output == output &&
            (spec->type == FILTER_FILE || filter_is_complex(spec)))
            return false;
    }
    return true;
}

static int build_forms(struct build *build, struct config_stream *stream,
                       struct raw_section *section)
{
    const struct raw_setting *setting = raw_setting_of(section, KEY_OUTPUT);
    bool given = setting->given == GIVEN_SET;
    if (given && setting->value_count != 1 && setting->value_count != stream->output_count) {
        config_error(build->errors, setting->place,
                     "`output` lists %u values for %u outputs; write one for all or one for each",
                     setting->value_count, stream->output_count);
        return ERROR_CONFIG;
    }
    enum output_form *outputs = config_alloc(build->memory, stream->output_count, sizeof *outputs);
    if (outputs == NULL)
        return ERROR_MEMORY;
    bool warned = false;
    for (uint32_t o = 0; o < stream->output_count; o++) {
        const struct option_value *value = !given                      ? &setting->fallback
                                           : setting->value_count == 1 ? &setting->values[0]
                                                                       : &setting->values[o];
        outputs[o] = (enum output_form)value->integer;
        stream->output_floats += outputs[o] == OUTPUT_COMPLEX ? 2 : 1;
        if (outputs[o] != OUTPUT_REAL && !warned && output_is_real(build, stream, o)) {
            config_warning(
                build->errors, setting->place,
                "`output = %s` of a real filter is %s; write `analytic = yes` in the filter "
                "for an envelope",
                value->text,
                outputs[o] == OUTPUT_ENVELOPE ? "its rectified signal" : "its signal beside zeros");
            warned = true;
        }
    }
    stream->outputs = outputs;
    return 0;
}

/* Each float of an output frame has the unit of the channels it is made of. */
static int build_units(struct build *build, struct config_stream *stream)
{
    const char **units = config_alloc(build->memory, stream->output_floats, sizeof *units);
    const char **of_output = config_alloc(build->memory, stream->output_count, sizeof *of_output);
    if (units == NULL || of_output == NULL)
        return ERROR_MEMORY;
    bool warned = false;
    for (uint32_t e = 0; e < stream->edge_count; e++) {
        const struct config_edge *edge = &stream->edges[e];
        const char *unit = stream->scales[edge->input].unit;
        if (of_output[edge->output] == NULL)
            of_output[edge->output] = unit;
        else if (strcmp(of_output[edge->output], unit) != 0 && !warned) {
            config_warning(
                build->errors, stream->place,
                "output %u of stream %s adds channels in %s and in %s; write the same `unit` "
                "for both",
                edge->output + 1u, stream->name, of_output[edge->output], unit);
            warned = true;
        }
    }
    for (uint32_t o = 0, at = 0; o < stream->output_count; o++) {
        units[at++] = of_output[o];
        if (stream->outputs[o] == OUTPUT_COMPLEX)
            units[at++] = of_output[o];
    }
    stream->units = units;
    return 0;
}

int build_outputs(struct build *build, struct config_stream *stream, struct raw_section *section)
{
    int status = build_edges(build, stream, section);
    if (status == 0)
        status = build_forms(build, stream, section);
    if (status == 0)
        status = build_units(build, stream);
    if (status == 0 && stream->output_floats > CONFIG_CHANNELS_MAX) {
        config_error(
            build->errors, stream->place,
            "stream %s has %u output channels, more than %d; write a smaller bank or split it",
            stream->name, stream->output_floats, CONFIG_CHANNELS_MAX);
        status = ERROR_CONFIG;
    }
    if (status == ERROR_CONFIG)
        section->broken = true;
    return status == ERROR_MEMORY ? ERROR_MEMORY : 0;
}
