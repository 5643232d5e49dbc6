/*
 * Hashes of a configuration: of all its settings, which names it in sidecars, and of what each
 * stream is made of, which tells a reload whether the stream has changed.
 *
 * A stream's hash covers its own section, those of its filters and sinks, the contents of the
 * filters' files, and the hash of the stream it reads. Comments, order and places do not count.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/digest.h"
#include "config/internal.h"

/* With `running` also what may change while the section runs. */
static void hash_settings(struct sha256_ctx *sha, const struct raw_section *section, bool running)
{
    digest_text(sha, schema_sections[section->kind].word);
    digest_text(sha, section->name);
    for (unsigned i = 0; i < schema_count(section->kind); i++) {
        const struct option_row *row = &schema_at(section->kind, i)->row;
        for (unsigned k = 0; k < section->settings[i].count && (running || !row->running); k++) {
            digest_text(sha, row->key);
            digest_text(sha, section->settings[i].items[k].text);
        }
    }
}

/* What makes a section another one for a reload. */
static void hash_section(struct sha256_ctx *sha, const struct raw_section *section)
{
    hash_settings(sha, section, false);
}

static void hash_optional(struct sha256_ctx *sha, const char *text)
{
    digest_text(sha, text != NULL ? text : "");
}

/* What the file holds now; one that cannot be read hashes as nothing. */
static void hash_file(struct sha256_ctx *sha, const char *path)
{
    uint8_t buffer[65536];
    FILE *file = fopen(path, "rbe");
    size_t got;
    while (file != NULL && (got = fread(buffer, 1, sizeof buffer, file)) > 0)
        sha256_update(sha, got, buffer);
    if (file != NULL)
        fclose(file);
    digest_text(sha, "");
}

static int compare_sections(const void *a, const void *b)
{
    const struct raw_section *const *x = a, *const *y = b;
    return (*x)->kind != (*y)->kind ? (int)(*x)->kind - (int)(*y)->kind
                                    : strcmp((*x)->name, (*y)->name);
}

static void hash_filter(struct sha256_ctx *sha, const struct build *build, uint32_t filter)
{
    const struct raw_section *section = build->filter_sections[filter];
    hash_section(sha, section);
    const struct option_value *path = value_of(section, KEY_FILTER_PATH);
    if (path != NULL && value_given(section, KEY_FILTER_PATH)) {
        struct build *memory = (struct build *)build; /* build_path only allocates */
        const char *full = build_path(memory, path->text, place_of(section, KEY_FILTER_PATH));
        if (full != NULL) {
            digest_text(sha, full);
            hash_file(sha, full);
        }
    }
}

/* A driver's paths are as they were resolved: they may come from [daemon] or the environment. */
static void hash_paths(struct sha256_ctx *sha, const struct option_row *rows, unsigned count,
                       const void *own)
{
    for (unsigned i = 0; i < count; i++)
        if (rows[i].type == OPTION_PATH)
            hash_optional(sha,
                          *(const char *const *)(const void *)((const char *)own + rows[i].offset));
}

static void hash_source(struct sha256_ctx *sha, const struct build *build, uint32_t index)
{
    const struct config_stream *stream = &build->streams[index];
    hash_section(sha, raw_find(build->raw, SECTION_STREAM, stream->name));
    if (stream->driver != NULL)
        hash_paths(sha, stream->driver->options, stream->driver->option_count, stream->source.own);
}

/* Whether two ends share one device, as the directions of a duplex card: a change of one concerns
 * the other. */
static bool shares(const struct config_stream *stream, const struct config_sink *sink)
{
    return sink->options.own != NULL && sink->options.own == stream->source.own;
}

static void hash_sinks(struct sha256_ctx *sha, const struct build *build, uint32_t stream)
{
    for (uint32_t i = 0; i < build->config->sink_count; i++) {
        const struct config_sink *sink = &build->sinks[i];
        if (sink->stream != stream && !shares(&build->streams[stream], sink))
            continue;
        hash_section(sha, raw_find(build->raw, SECTION_SINK, sink->name));
        if (sink->options.own != NULL)
            hash_paths(sha, sink->driver->options, sink->driver->option_count, sink->options.own);
    }
}

/* One of events stands behind the one it takes them of, so that one's hash is there. */
static void hash_analysis(const struct build *build, uint32_t index)
{
    struct config_analysis *analysis = &build->analyses[index];
    struct sha256_ctx sha;
    sha256_init(&sha);
    hash_section(&sha, raw_find(build->raw, SECTION_ANALYSIS, analysis->name));
    hash_paths(&sha, analysis->type->options, analysis->type->option_count, analysis->options.own);
    if (analysis->upstream >= 0)
        digest_text(&sha, build->analyses[analysis->upstream].hash);
    digest_finish(&sha, analysis->hash);
}

/* Analyses of the stream and where their events go: a change of them makes the stream anew, whose
 * epoch goes on all the same where it can (pipeline/succession.h). */
static void hash_analyses(struct sha256_ctx *sha, const struct build *build, uint32_t stream)
{
    for (uint32_t i = 0; i < build->config->analysis_count; i++) {
        const struct config_analysis *analysis = &build->analyses[i];
        if (analysis->stream == stream)
            digest_text(sha, analysis->hash);
    }
    for (uint32_t i = 0; i < build->config->event_sink_count; i++) {
        const struct config_event_sink *sink = &build->event_sinks[i];
        if (build->analyses[sink->analysis].stream != stream)
            continue;
        hash_section(sha, raw_find(build->raw, SECTION_SINK, sink->name));
        hash_paths(sha, sink->driver->options, sink->driver->option_count, sink->options.own);
    }
}

/* The streams that capture from the cards which this stream's sinks play on. */
static void hash_captures(struct sha256_ctx *sha, const struct build *build, uint32_t stream)
{
    for (uint32_t i = 0; i < build->config->sink_count; i++) {
        const struct config_sink *sink = &build->sinks[i];
        for (uint32_t s = 0; sink->stream == stream && s < build->config->stream_count; s++)
            if (shares(&build->streams[s], sink))
                hash_section(sha, raw_find(build->raw, SECTION_STREAM, build->streams[s].name));
    }
}

/* A stream that comes to be read by another, which takes floats, is not the same any more. */
static void hash_results(struct sha256_ctx *sha, const struct result_format *results)
{
    char name[24] = "", text[64];
    if (!result_format_native(results))
        sample_format_name(&results->format, name);
    snprintf(text, sizeof text, "%s %a", name, results->factor);
    digest_text(sha, text);
}

/* A chain's stream stands after the one it reads, so that one's hash is there. */
static void hash_stream(const struct build *build, uint32_t index)
{
    struct config_stream *stream = &build->streams[index];
    struct sha256_ctx sha;
    sha256_init(&sha);
    hash_source(&sha, build, index);
    if (stream->upstream >= 0)
        digest_text(&sha, build->streams[stream->upstream].hash);
    for (uint32_t f = 0; f < build->config->filter_count; f++) {
        bool used = false;
        for (uint32_t e = 0; e < stream->edge_count && !used; e++)
            used = stream->edges[e].filter == f;
        if (used)
            hash_filter(&sha, build, f);
    }
    hash_sinks(&sha, build, index);
    hash_captures(&sha, build, index);
    hash_analyses(&sha, build, index);
    hash_results(&sha, &stream->results);
    hash_optional(&sha, stream->full_scale ? "full scale" : NULL);
    digest_finish(&sha, stream->hash);
}

static bool is_shared(const struct build *build, uint32_t stream)
{
    return build->streams[stream].driver != NULL && build->streams[stream].driver->shared;
}

static bool is_shared_stream(const struct build *build, const struct raw_section *section)
{
    for (uint32_t i = 0; i < build->config->stream_count; i++)
        if (is_shared(build, i) && strcmp(build->streams[i].name, section->name) == 0)
            return true;
    return false;
}

static bool is_shared_sink(const struct build *build, const struct raw_section *section)
{
    for (uint32_t i = 0; i < build->config->sink_count; i++)
        if (is_shared(build, build->sinks[i].stream) &&
            strcmp(build->sinks[i].name, section->name) == 0)
            return true;
    return false;
}

static bool is_shared_analysis(const struct build *build, const struct raw_section *section)
{
    for (uint32_t i = 0; i < build->config->analysis_count; i++)
        if (is_shared(build, build->analyses[i].stream) &&
            strcmp(build->analyses[i].name, section->name) == 0)
            return true;
    return false;
}

static bool has_shared_edge(const struct build *build, uint32_t filter)
{
    for (uint32_t i = 0; i < build->config->stream_count; i++)
        for (uint32_t e = 0; is_shared(build, i) && e < build->streams[i].edge_count; e++)
            if (build->streams[i].edges[e].filter == filter)
                return true;
    return false;
}

/* Of streams that several daemons may compute: their sections, filters with the contents of their
 * files, analyses and sinks of results, in the words of the file. The sections are sorted, so that
 * the order in the file does not count. */
static void hash_shared(const struct build *build)
{
    struct config *config = build->config;
    const struct raw *raw = build->raw;
    struct sha256_ctx sha;
    char lease[32];
    bool any = false;
    sha256_init(&sha);
    for (uint32_t i = 0; i < config->stream_count; i++)
        any = any || is_shared(build, i);
    for (unsigned s = 0; any && s < raw->count; s++) {
        const struct raw_section *section = raw->sections[s];
        if ((section->kind == SECTION_STREAM && is_shared_stream(build, section)) ||
            (section->kind == SECTION_ANALYSIS && is_shared_analysis(build, section)) ||
            (section->kind == SECTION_SINK && is_shared_sink(build, section)))
            hash_settings(&sha, section, true);
        for (uint32_t f = 0; section->kind == SECTION_FILTER && f < config->filter_count; f++)
            if (build->filter_sections[f] == section && has_shared_edge(build, f))
                hash_filter(&sha, build, f);
    }
    snprintf(lease, sizeof lease, "%lld", (long long)config->cluster.lease_ns);
    digest_text(&sha, lease);
    digest_finish(&sha, config->shared_hash);
}

static void add_fixed(struct config *config, struct config_fixed *list, const char *section,
                      const char *key, struct sha256_ctx *sha)
{
    struct config_fixed *fixed = &list[config->fixed_count++];
    fixed->section = section;
    fixed->key = key;
    digest_finish(sha, fixed->hash);
}

static void add_fixed_text(struct config *config, struct config_fixed *list, const char *section,
                           const char *key, const char *text)
{
    struct sha256_ctx sha;
    if (text == NULL)
        return;
    sha256_init(&sha);
    digest_text(&sha, text);
    add_fixed(config, list, section, key, &sha);
}

/* The settings of a section that were made. */
static void add_fixed_section(const struct build *build, struct config_fixed *list,
                              enum section_kind kind)
{
    const struct raw_section *section = raw_find(build->raw, kind, "");
    for (unsigned i = 0; i < schema_count(kind); i++) {
        const struct option_row *row = &schema_at(kind, i)->row;
        const struct raw_setting *setting = &section->settings[i];
        struct sha256_ctx sha;
        const bool resolved = kind == SECTION_DEVICE && row->type == OPTION_PATH; /* see below */
        if (setting->count == 0 || row->running || resolved)
            continue;
        sha256_init(&sha);
        for (unsigned k = 0; k < setting->count; k++)
            digest_text(&sha, setting->items[k].text);
        add_fixed(build->config, list, schema_sections[kind].word, row->key, &sha);
    }
}

/* 0 or ERROR_MEMORY. */
static int hash_fixed(const struct build *build)
{
    struct config *config = build->config;
    const enum section_kind kinds[] = {SECTION_DEVICE, SECTION_OSC, SECTION_CLUSTER};
    size_t most = 4;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        most += schema_count(kinds[i]);
    struct config_fixed *list = config_alloc(build->memory, most, sizeof *list);
    if (list == NULL)
        return ERROR_MEMORY;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        add_fixed_section(build, list, kinds[i]);
    add_fixed_text(config, list, schema_sections[SECTION_OSC].word, "",
                   config->osc.used ? "used" : NULL);
    /* Directories as they were resolved: they may come from the environment. */
    add_fixed_text(config, list, "device", schema_key(KEY_KERNELS)->row.key,
                   config->device.kernels_dir);
    add_fixed_text(config, list, "device", schema_key(KEY_CACHE)->row.key,
                   config->device.cache_dir);
    add_fixed_text(config, list, "daemon", schema_key(KEY_STATE_DIRECTORY)->row.key,
                   config->daemon.state_directory);
    config->fixed = list;
    struct sha256_ctx sha;
    sha256_init(&sha);
    for (unsigned i = 0; i < config->fixed_count; i++) {
        digest_text(&sha, list[i].section);
        digest_text(&sha, list[i].key);
        digest_text(&sha, list[i].hash);
    }
    digest_finish(&sha, config->fixed_hash);
    return 0;
}

static bool is_fixed(const struct config *config, const struct config_fixed *fixed)
{
    for (unsigned i = 0; i < config->fixed_count; i++)
        if (strcmp(config->fixed[i].section, fixed->section) == 0 &&
            strcmp(config->fixed[i].key, fixed->key) == 0)
            return strcmp(config->fixed[i].hash, fixed->hash) == 0;
    return false;
}

static bool has_fixed(const struct config *config, const struct config_fixed *fixed)
{
    for (unsigned i = 0; i < config->fixed_count; i++)
        if (strcmp(config->fixed[i].section, fixed->section) == 0 &&
            strcmp(config->fixed[i].key, fixed->key) == 0)
            return true;
    return false;
}

struct changed_keys {
    char *text;
    size_t bytes, used;
    unsigned count;
};

static void name_key(struct changed_keys *keys, const struct config_fixed *fixed)
{
    const char *comma = keys->count++ > 0 ? ", " : "";
    const bool whole = fixed->key[0] == '\0';
    const size_t room = keys->bytes - keys->used;
    const int length =
        whole ? snprintf(keys->text + keys->used, room, "%s[%s]", comma, fixed->section)
              : snprintf(keys->text + keys->used, room, "%s`%s` in [%s]", comma, fixed->key,
                         fixed->section);
    keys->used += (size_t)length < room ? (size_t)length : room - 1;
}

void config_fixed_changes(const struct config *before, const struct config *after, char *text,
                          size_t bytes)
{
    struct changed_keys keys = {.text = text, .bytes = bytes};
    text[0] = '\0';
    for (unsigned i = 0; i < after->fixed_count; i++)
        if (!is_fixed(before, &after->fixed[i]))
            name_key(&keys, &after->fixed[i]);
    for (unsigned i = 0; i < before->fixed_count; i++)
        if (!has_fixed(after, &before->fixed[i]))
            name_key(&keys, &before->fixed[i]);
    snprintf(text + keys.used, bytes - keys.used, keys.count == 1 ? " has" : " have");
}

int config_hashes(struct build *build)
{
    struct raw *raw = build->raw;
    struct sha256_ctx sha;
    for (uint32_t i = 0; i < build->config->analysis_count; i++)
        hash_analysis(build, i);
    for (uint32_t i = 0; i < build->config->stream_count; i++)
        hash_stream(build, i);
    if (hash_fixed(build) != 0)
        return ERROR_MEMORY;
    sha256_init(&sha);
    qsort(raw->sections, raw->count, sizeof *raw->sections, compare_sections);
    hash_shared(build);
    for (unsigned s = 0; s < raw->count; s++)
        hash_settings(&sha, raw->sections[s], true);
    digest_finish(&sha, build->config->hash);
    return 0;
}
