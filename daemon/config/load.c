/*
 * Configuration: files in, struct config or messages out; see config.h. This file owns the
 * order of the steps.
 */
#include "config/config.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/internal.h"

/* ---- the world --------------------------------------------------------------------------- */

static bool real_readable(const char *path)
{
    return access(path, R_OK) == 0;
}

static const char *real_environment(const char *name)
{
    return getenv(name);
}

static int real_probe(const struct source_ops *driver, const struct source_options *options,
                      struct source_facts *facts, struct problem *problem)
{
    return driver->probe(options, facts, problem);
}

static int real_makeable(const struct filter_spec *spec, double rate_hz, struct problem *problem)
{
    struct taps **sets = NULL;
    uint32_t count = 0;
    int status = filter_make(spec, rate_hz, &sets, &count, NULL, problem);
    if (status == 0)
        taps_sets_free(sets, count);
    return status;
}

static bool real_nodes(struct number_set *nodes)
{
    return memory_nodes_present("", nodes);
}

static const struct config_world real_world = {
    .probe = real_probe,
    .readable = real_readable,
    .makeable = real_makeable,
    .environment = real_environment,
    .variant = engine_variant_name,
    .nodes = real_nodes,
};

const char *build_path(struct build *build, const char *path, struct config_place place)
{
    const char *slash = place.file != NULL ? strrchr(place.file, '/') : NULL;
    if (path[0] == '/' || slash == NULL)
        return path;
    size_t directory = (size_t)(slash - place.file) + 1, length = strlen(path);
    char *joined = config_alloc(build->memory, directory + length + 1, 1);
    if (joined != NULL) {
        memcpy(joined, place.file, directory);
        memcpy(joined + directory, path, length + 1);
    }
    return joined;
}

/* ---- [daemon] and [device] --------------------------------------------------------------- */

/* A path as written, else the environment's (the first of systemd's colon list), else NULL. */
static int path_or_environment(struct build *build, const struct raw_section *section,
                               enum schema_id id, const char *variable, const char **out)
{
    const struct option_value *value = value_of(section, id);
    const char *set = variable != NULL ? build->world->environment(variable) : NULL;
    *out = NULL;
    if (value != NULL)
        *out = build_path(build, value->text, place_of(section, id));
    else if (set != NULL && set[0] != '\0')
        *out = config_copy(build->memory, set, strcspn(set, ":"));
    else
        return 0;
    return *out != NULL ? 0 : ERROR_MEMORY;
}

/* A directory that must be there. */
static void check_directory(struct build *build, const struct raw_section *section,
                            enum schema_id id, const char *path)
{
    if (value_given(section, id) && !build->world->readable(path))
        config_error(build->errors, place_of(section, id),
                     "the directory `%s` cannot be read; write another, or create it: mkdir -p %s",
                     path, path);
}

void check_devices(struct build *build, struct config_place place, const char *list)
{
    enum { MOST = 4 }; /* CHOICES_MAX of pipeline/devices.h */
    uint32_t count = 0;
    bool alone = false;
    for (const char *word = list; *word != '\0'; count++) {
        word += strspn(word, " ");
        size_t length = strcspn(word, ","), end = length;
        while (end > 0 && word[end - 1] == ' ')
            end--;
        if (end == 0)
            config_error(build->errors, place, "`device = %s` names no device between its commas",
                         list);
        alone = alone || (end == 3 && strncmp(word, DEVICE_ALL, end) == 0) ||
                (end == 4 && strncmp(word, DEVICE_AUTO, end) == 0);
        word += length;
        word += *word == ',';
    }
    if (count > 1 && alone)
        config_error(build->errors, place,
                     "`device = %s`: auto and all stand alone; list devices, such as gpu, cpu",
                     list);
    if (count > MOST)
        config_error(build->errors, place, "`device = %s` lists %u devices; write at most %d", list,
                     count, MOST);
}

/* A node that this machine does not have. */
static void check_node(struct build *build, struct config_place place, struct node_setting setting)
{
    struct number_set nodes;
    char text[80];
    if (setting.kind != NODE_NUMBER || !build->world->nodes(&nodes) ||
        number_set_has(&nodes, setting.number))
        return;
    const bool one = number_set_count(&nodes) == 1;
    config_error(build->errors, place,
                 "`node = %u`: this machine has memory node%s %s; write %s, auto or none",
                 setting.number, one ? "" : "s", number_set_text(&nodes, text, sizeof text),
                 one ? "it" : "one of them");
}

static int build_process(struct build *build)
{
    const struct raw_section *section = raw_find(build->raw, SECTION_DAEMON, "");
    struct config_daemon *daemon = &build->config->daemon;
    daemon->log_level = (enum log_level)value_of(section, KEY_LOG_LEVEL)->integer;
    daemon->status_on_exit = value_of(section, KEY_STATUS_ON_EXIT)->integer != 0;
    daemon->drain_ns = value_of(section, KEY_DRAIN_TIMEOUT)->integer;
    daemon->prepare_ns = value_of(section, KEY_PREPARE_TIMEOUT)->integer;
    if (path_or_environment(build, section, KEY_RUNTIME_DIRECTORY, "RUNTIME_DIRECTORY",
                            &daemon->runtime_directory) != 0 ||
        path_or_environment(build, section, KEY_STATE_DIRECTORY, "STATE_DIRECTORY",
                            &daemon->state_directory) != 0 ||
        path_or_environment(build, section, KEY_STATUS_FILE, NULL, &daemon->status_json) != 0)
        return ERROR_MEMORY;
    if (daemon->runtime_directory == NULL) {
        if (path_or_environment(build, section, KEY_RUNTIME_DIRECTORY, "XDG_RUNTIME_DIR",
                                &daemon->runtime_directory) != 0)
            return ERROR_MEMORY;
        daemon->runtime_of_user = daemon->runtime_directory != NULL;
    }
    check_directory(build, section, KEY_RUNTIME_DIRECTORY, daemon->runtime_directory);
    check_directory(build, section, KEY_STATE_DIRECTORY, daemon->state_directory);

    section = raw_find(build->raw, SECTION_DEVICE, "");
    struct config_device *device = &build->config->device;
    device->device = value_of(section, KEY_DEVICE)->text;
    check_devices(build, place_of(section, KEY_DEVICE), device->device);
    device->threads = (int)value_of(section, KEY_THREADS)->integer;
    device->node = schema_node(value_of(section, KEY_NODE));
    check_node(build, place_of(section, KEY_NODE), device->node);
    const uint32_t loops = (uint32_t)value_of(section, KEY_LOOPS)->integer;
    device->loops = loops > 1 ? loops : 0;
    device->batches = (uint32_t)value_of(section, KEY_BATCHES)->integer;
    const struct option_value *depth = value_of(section, KEY_DEPTH);
    device->depth = depth != NULL ? (uint32_t)depth->integer : 0;
    const struct option_value *deadline = value_of(section, KEY_BATCH_DEADLINE);
    device->deadline_ns = deadline != NULL ? deadline->integer : 0;
    device->self_check_ns = value_of(section, KEY_SELF_CHECK)->integer;
    device->input_bytes = (uint64_t)value_of(section, KEY_INPUT_MEMORY)->integer;
    device->spectrum_bytes = (uint64_t)value_of(section, KEY_SPECTRUM_MEMORY)->integer;
    device->state_bytes = (uint64_t)value_of(section, KEY_STATE_MEMORY)->integer;
    device->batch_output_floats = (uint64_t)value_of(section, KEY_BATCH_MEMORY)->integer / 4;
    if (depth != NULL && device->depth > device->batches)
        config_error(build->errors, place_of(section, KEY_DEPTH),
                     "`depth = %u` is more than the %u `batches` there are; write at most %u",
                     device->depth, device->batches, device->batches);
    if (path_or_environment(build, section, KEY_KERNELS, NULL, &device->kernels_dir) != 0 ||
        path_or_environment(build, section, KEY_CACHE, "CACHE_DIRECTORY", &device->cache_dir) != 0)
        return ERROR_MEMORY;
    check_directory(build, section, KEY_KERNELS, device->kernels_dir);
    if (device->cache_dir == NULL)
        device->cache_dir = daemon->state_directory;
    return 0;
}

/* ---- from raw sections to the value ------------------------------------------------------ */

/* [daemon], [device], [osc] and [cluster] need not be written. */
static int add_missing(struct raw *raw, const char *name)
{
    static const enum section_kind kinds[SECTIONS_ADDED] = {SECTION_DAEMON, SECTION_DEVICE,
                                                            SECTION_OSC, SECTION_CLUSTER};
    for (int i = 0; i < SECTIONS_ADDED; i++) {
        if (raw_find(raw, kinds[i], "") != NULL)
            continue;
        struct raw_section *section = config_alloc(raw->memory, 1, sizeof *section);
        struct raw_setting *settings =
            config_alloc(raw->memory, schema_count(kinds[i]), sizeof *settings);
        if (section == NULL || settings == NULL)
            return ERROR_MEMORY;
        *section = (struct raw_section){
            .kind = kinds[i], .name = "", .place = {name, 0}, .settings = settings, .type = -1};
        raw_add(raw, section);
    }
    return 0;
}

/* The sections of one kind, in the order written. */
static struct raw_section **sections_of(struct build *build, enum section_kind kind,
                                        uint32_t *count)
{
    struct raw_section **out = config_alloc(build->memory, build->raw->count, sizeof *out);
    *count = 0;
    for (unsigned i = 0; out != NULL && i < build->raw->count; i++)
        if (build->raw->sections[i]->kind == kind)
            out[(*count)++] = build->raw->sections[i];
    return out;
}

/* Sinks of events have tables of their own. */
static int split_sinks(struct build *build)
{
    struct config *config = build->config;
    uint32_t all, results = 0;
    struct raw_section **sections = sections_of(build, SECTION_SINK, &all);
    build->sink_sections = sections;
    build->event_sink_sections = config_alloc(build->memory, all, sizeof *sections);
    if (sections == NULL || build->event_sink_sections == NULL)
        return ERROR_MEMORY;
    for (uint32_t i = 0; i < all; i++) {
        if (schema_event_sink(sections[i]->type) != NULL)
            build->event_sink_sections[config->event_sink_count++] = sections[i];
        else
            sections[results++] = sections[i];
    }
    config->sink_count = results;
    return 0;
}

/* All sections that are written, and room for what they become. */
static int gather(struct build *build)
{
    struct config *config = build->config;
    build->filter_sections = sections_of(build, SECTION_FILTER, &config->filter_count);
    build->analysis_sections = sections_of(build, SECTION_ANALYSIS, &config->analysis_count);
    build->alarm_sections = sections_of(build, SECTION_ALARM, &config->alarm_count);
    if (build->filter_sections == NULL || build->analysis_sections == NULL ||
        build->alarm_sections == NULL || split_sinks(build) != 0)
        return ERROR_MEMORY;
    build->streams = config_alloc(build->memory, config->stream_count, sizeof *build->streams);
    build->filters = config_alloc(build->memory, config->filter_count, sizeof *build->filters);
    build->sinks = config_alloc(build->memory, config->sink_count, sizeof *build->sinks);
    build->analyses = config_alloc(build->memory, config->analysis_count, sizeof *build->analyses);
    build->event_sinks =
        config_alloc(build->memory, config->event_sink_count, sizeof *build->event_sinks);
    if (build->streams == NULL || build->filters == NULL || build->sinks == NULL ||
        build->analyses == NULL || build->event_sinks == NULL)
        return ERROR_MEMORY;
    config->streams = build->streams;
    config->filters = build->filters;
    config->sinks = build->sinks;
    config->analyses = build->analyses;
    config->event_sinks = build->event_sinks;
    return 0;
}

static int build_config(struct build *build)
{
    struct config *config = build->config;
    build->stream_sections = sections_of(build, SECTION_STREAM, &config->stream_count);
    if (build->stream_sections == NULL)
        return ERROR_MEMORY;
    if (config->stream_count > STREAMS_MAX) {
        config_error(build->errors, build->stream_sections[STREAMS_MAX]->place,
                     "%u streams are too many for one daemon, the most is %d; split the work over "
                     "several daemons",
                     config->stream_count, STREAMS_MAX);
        return 0;
    }
    if (gather(build) != 0)
        return ERROR_MEMORY;
    int status = build_process(build);
    if (status == 0)
        status = build_filters(build);
    if (status == 0)
        status = build_streams(build);
    if (status == 0)
        status = build_analyses(build);
    if (status == 0)
        status = build_sinks(build);
    if (status == 0)
        status = build_event_sinks(build);
    if (status == 0)
        status = build_osc(build);
    if (status == 0)
        status = build_cluster(build);
    if (status == 0)
        status = build_alarms(build);
    if (status == 0 && config->stream_count == 0 && !build->raw->undecoded)
        config_error(build->errors, (struct config_place){config->path, 0},
                     "there is no [stream NAME] section, so there is nothing to do; add one");
    return status;
}

static bool is_named(const struct raw_section *section, const struct option_row *row)
{
    const bool received = section->kind == SECTION_STREAM && row->type == OPTION_ADDRESS;
    return row->type == OPTION_PATH || received;
}

/* The paths and addresses as they are written. 0 or ERROR_MEMORY. */
static int collect_paths(struct build *build)
{
    const struct raw *raw = build->raw;
    size_t most = 0;
    for (unsigned s = 0; s < raw->count; s++)
        for (unsigned i = 0; i < schema_count(raw->sections[s]->kind); i++)
            most += raw->sections[s]->settings[i].value_count;
    struct config_path *paths = config_alloc(build->memory, most + 1, sizeof *paths);
    if (paths == NULL)
        return ERROR_MEMORY;
    build->config->paths = paths;
    for (unsigned s = 0; s < raw->count; s++) {
        const struct raw_section *section = raw->sections[s];
        const enum section_kind kind = section->kind;
        for (unsigned i = 0; i < schema_count(kind); i++) {
            const struct raw_setting *setting = &section->settings[i];
            const struct schema_key *key = schema_for(schema_at(kind, i), section->type);
            for (unsigned k = 0; is_named(section, &key->row) && k < setting->count &&
                                 k < setting->value_count && setting->given == GIVEN_SET;
                 k++) {
                const char *text = setting->values[k].text;
                const bool address = key->row.type == OPTION_ADDRESS;
                const bool folder = key == schema_key(KEY_RUNTIME_DIRECTORY) ||
                                    key == schema_key(KEY_STATE_DIRECTORY) ||
                                    key == schema_key(KEY_CACHE);
                const bool file = key == schema_key(KEY_STATUS_FILE) ||
                                  (kind == SECTION_SINK && strcmp(key->row.key, "key") != 0);
                const char *path = address ? text : build_path(build, text, setting->place);
                if (path == NULL)
                    return ERROR_MEMORY;
                paths[build->config->path_count++] = (struct config_path){.path = path,
                                                                          .key = key->row.key,
                                                                          .place = setting->place,
                                                                          .written = folder || file,
                                                                          .folder = folder,
                                                                          .received = address};
            }
        }
    }
    return 0;
}

/* Takes over `raw` and its memory. */
static int finish(struct raw *raw, const char *name, const struct config_world *world, int status,
                  struct config **out)
{
    struct config *config = config_alloc(raw->memory, 1, sizeof *config);
    const char *path = config_copy(raw->memory, name, strlen(name));
    if (config == NULL || path == NULL)
        status = ERROR_MEMORY;
    if (status == 0) {
        config->path = path;
        config->memory = raw->memory;
        config->fragments = raw->fragments;
        status = add_missing(raw, path);
    }
    if (status == 0)
        status = values_parse(raw);
    if (status == 0) {
        struct build build = {.memory = raw->memory,
                              .errors = raw->errors,
                              .raw = raw,
                              .world = world != NULL ? world : &real_world,
                              .config = config};
        status = build_config(&build);
        if (status == 0 && raw->errors->errors == 0) {
            config_results(&build);
            status = config_hashes(&build);
            if (status == 0)
                status = collect_paths(&build);
        }
    }
    config_errors_sort(raw->errors, name);
    if (status == 0 && raw->errors->errors > 0)
        status = ERROR_CONFIG;
    if (status == 0)
        *out = config;
    else
        config_memory_close(raw->memory);
    return status;
}

static int raw_open(struct raw *raw, struct config_errors *errors)
{
    *raw = (struct raw){.memory = config_memory_open(), .errors = errors};
    if (raw->memory == NULL)
        return ERROR_MEMORY;
    /* Three more than may be written: add_missing. */
    raw->sections =
        config_alloc(raw->memory, CONFIG_SECTIONS_MAX + SECTIONS_ADDED, sizeof *raw->sections);
    raw->keys = config_alloc(raw->memory, CONFIG_SECTIONS_MAX + SECTIONS_ADDED, sizeof *raw->keys);
    if (raw->sections != NULL && raw->keys != NULL)
        return 0;
    config_memory_close(raw->memory);
    return ERROR_MEMORY;
}

int config_load_text(const char *name, const char *text, size_t bytes,
                     const struct config_world *world, struct config **out,
                     struct config_errors *errors)
{
    *out = NULL;
    struct raw raw;
    if (raw_open(&raw, errors) != 0)
        return ERROR_MEMORY;
    return finish(&raw, name, world, raw_read(&raw, name, 0, text, bytes), out);
}

/* ---- files ------------------------------------------------------------------------------- */

/* The whole of a regular file, at most one byte more than allowed; NULL: errno says why. */
static char *read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return NULL;
    struct stat status;
    char *text = NULL;
    if (fstat(fileno(file), &status) == 0 && S_ISDIR(status.st_mode))
        errno = EISDIR;
    else
        text = malloc(CONFIG_TEXT_MAX + 1);
    if (text != NULL) {
        *bytes = fread(text, 1, CONFIG_TEXT_MAX + 1, file);
        if (ferror(file)) {
            free(text);
            text = NULL;
        }
    }
    int reason = errno;
    fclose(file);
    errno = reason;
    return text;
}

static int read_one(struct raw *raw, const char *path, unsigned index)
{
    size_t bytes;
    char *text = read_file(path, &bytes);
    if (text == NULL) {
        char *copy = config_copy(raw->memory, path, strlen(path));
        config_error(raw->errors, (struct config_place){copy, 0},
                     "the file cannot be read (%s); check its name and permissions",
                     strerror(errno));
        return ERROR_NO_FILE;
    }
    int status = raw_read(raw, path, index, text, bytes);
    free(text);
    return status;
}

int config_load_with(const char *path, const char *name, const char *text, size_t bytes,
                     struct config **out, struct config_errors *errors)
{
    *out = NULL;
    struct raw raw;
    if (raw_open(&raw, errors) != 0)
        return ERROR_MEMORY;
    struct config_fragments fragments = {0};
    int status = read_one(&raw, path, 0);
    if (status == 0)
        status = fragments_find(&raw, path, &fragments);
    /* One that cannot be read is reported, the others are read all the same. */
    for (unsigned i = 0; status == 0 && i < fragments.count; i++)
        if (read_one(&raw, fragments.paths[i], i + 1) == ERROR_MEMORY)
            status = ERROR_MEMORY;
    if (status == 0 && text != NULL)
        status = raw_read(&raw, name, UINT_MAX, text, bytes);
    raw.fragments = fragments;
    return finish(&raw, path, NULL, status, out);
}

struct config *config_hold(const struct config *config)
{
    config_memory_hold(config->memory);
    return (struct config *)config;
}

int config_load(const char *path, struct config **out, struct config_errors *errors)
{
    return config_load_with(path, NULL, NULL, 0, out, errors);
}

void config_free(struct config *config)
{
    if (config != NULL)
        config_memory_close(config->memory); /* the value lies in it too */
}

int config_find_stream(const struct config *config, const char *name)
{
    for (uint32_t i = 0; i < config->stream_count; i++)
        if (config->streams[i].name != NULL && strcmp(config->streams[i].name, name) == 0)
            return (int)i;
    return -1;
}

bool config_logs_events(const struct config_stream *stream)
{
    return stream->upstream < 0 && stream->driver != NULL && stream->driver->exact;
}

bool config_gives_parameters(const struct config_analysis *analysis, uint32_t stream)
{
    for (uint32_t i = 0;
         analysis->parameter_streams != NULL && i < analysis->options.parameter_values; i++)
        if (analysis->parameter_streams[i] == stream)
            return true;
    return false;
}

int config_find_analysis(const struct config *config, const char *name)
{
    for (uint32_t i = 0; i < config->analysis_count; i++)
        if (config->analyses[i].name != NULL && strcmp(config->analyses[i].name, name) == 0)
            return (int)i;
    return -1;
}

int config_find_filter(const struct config *config, const char *name)
{
    for (uint32_t i = 0; i < config->filter_count; i++)
        if (strcmp(config->filters[i].name, name) == 0)
            return (int)i;
    return -1;
}
