/*
 * Drivers of the configuration: fills the options of a source's or sink's driver from its rows, and
 * calls the driver's checks. This is all that the configuration knows of protocols.
 */
#include "config/internal.h"

#include <string.h>

/* ---- options ----------------------------------------------------------------------------- */

/* A path as the driver wants it: below the directory of the file that it is written in. */
static int resolve(struct build *build, const struct option_row *row, struct config_place place,
                   const struct option_value **value)
{
    if (row->type != OPTION_PATH ||
        (row->keyword != NULL && strcmp((*value)->text, row->keyword) == 0))
        return 0;
    struct option_value *resolved = config_alloc(build->memory, 1, sizeof *resolved);
    if (resolved == NULL)
        return ERROR_MEMORY;
    *resolved = **value;
    resolved->text = build_path(build, (*value)->text, place);
    *value = resolved;
    return resolved->text != NULL ? 0 : ERROR_MEMORY;
}

int driver_fill(struct build *build, const struct raw_section *section,
                const struct option_row *rows, unsigned count, size_t own_bytes, void *common,
                void **own)
{
    *own = own_bytes > 0 ? config_alloc(build->memory, 1, own_bytes) : NULL;
    if (own_bytes > 0 && *own == NULL)
        return ERROR_MEMORY;
    for (unsigned i = 0; i < count; i++) {
        const struct option_row *row = &rows[i];
        const struct raw_setting *setting =
            raw_setting_at(section, schema_find(section->kind, row->key));
        const struct option_value *value = setting_value(setting);
        unsigned values = setting->given == GIVEN_SET ? setting->value_count : 1;
        if (value == NULL || setting->given == GIVEN_BAD)
            continue;
        if (resolve(build, row, setting->place, &value) != 0)
            return ERROR_MEMORY;
        option_store(row, value, values, row->common ? common : *own);
    }
    return 0;
}

/* ---- what checks report through ---------------------------------------------------------- */

struct section_check {
    struct build *build;
    const struct raw_section *section;
};

static const struct raw_setting *setting_named(const struct section_check *check, const char *name)
{
    const struct schema_key *key = name != NULL ? schema_find(check->section->kind, name) : NULL;
    return key != NULL ? raw_setting_at(check->section, key) : NULL;
}

static void report(void *context, const char *key, bool warning, const char *text)
{
    const struct section_check *check = context;
    const struct raw_setting *setting = setting_named(check, key);
    bool written = setting != NULL && setting->given != GIVEN_NOT;
    struct config_place place = written ? setting->place : check->section->place;
    (warning ? config_warning : config_error)(check->build->errors, place, "%s", text);
}

static const struct option_value *written(void *context, const char *key)
{
    const struct raw_setting *setting = setting_named(context, key);
    return setting != NULL && setting->given == GIVEN_SET ? &setting->values[0] : NULL;
}

bool driver_check(struct build *build, struct raw_section *section, struct option_check *check)
{
    struct section_check *context = config_alloc(build->memory, 1, sizeof *context);
    if (context == NULL)
        return false;
    *context = (struct section_check){build, section};
    *check = (struct option_check){
        .context = context, .section = section->name, .report = report, .written = written};
    return true;
}

/* ---- facts ------------------------------------------------------------------------------- */

struct daemon_facts driver_facts(const struct build *build)
{
    return (struct daemon_facts){
        .runtime_directory = build->config->daemon.runtime_directory,
        .osc_address = value_of(raw_find(build->raw, SECTION_OSC, ""), KEY_OSC_ADDRESS)->text,
        .lease_ns = value_of(raw_find(build->raw, SECTION_CLUSTER, ""), KEY_CLUSTER_LEASE)->integer,
        .debug = build->config->daemon.log_level == LOG_LEVEL_DEBUG,
    };
}

struct stream_facts driver_stream_facts(const struct build *build,
                                        const struct config_stream *stream)
{
    return (struct stream_facts){
        .name = stream->name,
        .upstream = stream->upstream >= 0 ? build->streams[stream->upstream].name : NULL,
        .live = stream->live,
        .paced = stream->source.paced,
        .aligned = stream->align,
        .hop_frames = stream->hop_frames,
        .decimate = stream->decimate,
        .output_rate_hz = stream->output_rate_hz,
        .output_floats = stream->output_floats,
    };
}

/* ---- across sections --------------------------------------------------------------------- */

int driver_check_all(struct build *build)
{
    const uint32_t sources = build->config->stream_count, sinks = build->config->sink_count;
    struct driver_sections all = {
        .sources = config_alloc(build->memory, sources, sizeof *all.sources),
        .sinks = config_alloc(build->memory, sinks, sizeof *all.sinks),
        .source_count = sources,
        .sink_count = sinks,
    };
    if (all.sources == NULL || all.sinks == NULL)
        return ERROR_MEMORY;
    for (uint32_t i = 0; i < sources; i++) {
        struct config_stream *stream = &build->streams[i];
        all.sources[i] = (struct source_section){
            .driver = stream->driver,
            .options = &stream->source,
            .facts = driver_stream_facts(build, stream),
            .broken = build->stream_sections[i]->broken,
        };
        if (!driver_check(build, build->stream_sections[i], &all.sources[i].check))
            return ERROR_MEMORY;
    }
    for (uint32_t i = 0; i < sinks; i++) {
        struct config_sink *sink = &build->sinks[i];
        const bool known = sink->stream < sources;
        all.sinks[i] = (struct sink_section){
            .driver = sink->driver,
            .options = &sink->options,
            .stream = known ? &all.sources[sink->stream] : NULL,
            .broken = build->sink_sections[i]->broken || !known ||
                      build->stream_sections[sink->stream]->broken,
        };
        if (!driver_check(build, build->sink_sections[i], &all.sinks[i].check))
            return ERROR_MEMORY;
    }
    for (uint32_t i = 0; i < sinks; i++)
        if (all.sinks[i].driver != NULL && all.sinks[i].driver->check_all != NULL)
            all.sinks[i].driver->check_all(&all, i);
    for (uint32_t i = 0; i < sources; i++)
        if (all.sources[i].driver != NULL && all.sources[i].driver->check_all != NULL)
            all.sources[i].driver->check_all(&all, i);
    return 0;
}
