/*
 * Shared by the files that make a configuration (config*.c) and by nobody else.
 *
 *     config/read.c    text → raw sections (tokens, headings, repeated keys)
 *     config/values.c  raw settings → typed values, each against its schema row
 *     config/stream.c, config/filter.c, config/sink.c, config/alarm.c, config/alarm_analysis.c,
 *     config/analysis.c
 *                      values → struct config
 *     config/drivers.c what io's drivers say of their options, into struct config and messages
 *     config/hash.c    what names it, and what tells a reload which streams have changed
 *     config/fragments.c  which fragments belong to a file
 *     config/load.c    files, and the order of it all
 *
 * One thread; everything lives in the config's memory and dies with it.
 */
#ifndef CONVOLVD_CONFIG_INTERNAL_H
#define CONVOLVD_CONFIG_INTERNAL_H

#include "config/config.h"
#include "config/memory.h"
#include "config/own_values.h"
#include "config/schema.h"
#include "core/limits.h"

enum {
    CONFIG_TEXT_MAX = 16 << 20,            /* bytes of one file: 4 KiB a stream */
    CONFIG_LINE_MAX = 4000,                /* bytes of one line, continuation lines joined */
    SECTIONS_ADDED = 4,                    /* those that need not be written */
    CONFIG_SECTIONS_MAX = 4 * STREAMS_MAX, /* a stream with a filter and two sinks of its own */
    CONFIG_ITEMS_MAX = 16384,              /* values of one key */
    CONFIG_EDGES_MAX = 1 << 18,            /* over all streams */
};

/* ---- what was read ----------------------------------------------------------------------- */

struct raw_item {
    const char *text;
    struct config_place place;
};

enum given {
    GIVEN_NOT,
    GIVEN_SET,
    GIVEN_BAD, /* written, but not usable: reported already */
};

/* One key of one section. */
struct raw_setting {
    struct raw_item *items;
    unsigned count, capacity;
    struct config_place place; /* of the first item */
    unsigned file;             /* which file set it last */
    /* config_values: */
    enum given given;
    struct option_value *values; /* [value_count]; lists are split */
    unsigned value_count;
    struct option_value fallback; /* of the schema, when it has one */
    bool has_fallback;
};

struct raw_section {
    enum section_kind kind;
    const char *name; /* "" for unnamed ones */
    struct config_place place;
    unsigned file;
    struct raw_setting *settings; /* [schema rows of the section], see raw_setting_of */
    int type;                     /* index of its type, as schema_type_name; -1: unknown */
    bool broken;                  /* something needed is missing or bad: reported already */
};

struct raw {
    struct config_memory *memory;
    struct config_errors *errors;
    struct raw_section **sections; /* [CONFIG_SECTIONS_MAX + SECTIONS_ADDED] */
    uint32_t *keys; /* of kind and name of each, so that a search reads memory in a row */
    unsigned count;
    bool full;      /* said so already */
    bool undecoded; /* a file is in another encoding, which is reported */
    struct config_fragments fragments;
};

/* The fragments of a file, in the order in which they are read; a folder that cannot be read, and
 * fragments that could belong to another file, become messages. 0 or ERROR_MEMORY. */
int fragments_find(struct raw *raw, const char *path, struct config_fragments *out);

/* Adds the settings of one file; `file` counts them from 0. 0 or ERROR_MEMORY. */
int raw_read(struct raw *raw, const char *name, unsigned file, const char *text, size_t bytes);

/* Appends a section with its kind and name. */
void raw_add(struct raw *raw, struct raw_section *section);

/* The section, NULL when it was not written. */
struct raw_section *raw_find(const struct raw *raw, enum section_kind kind, const char *name);

/* `id` must belong to the section's kind. */
struct raw_setting *raw_setting_of(const struct raw_section *section, enum schema_id id);

/* The same for any row of the section's kind. */
struct raw_setting *raw_setting_at(const struct raw_section *section, const struct schema_key *key);

/* ---- values ------------------------------------------------------------------------------ */

/* Parses every setting of every section, decides the sections' types, reports what is bad, missing
 * or does not apply. 0 or ERROR_MEMORY. */
int values_parse(struct raw *raw);

/* The (first) value of a setting: as written, else the schema's default, else NULL. */
const struct option_value *setting_value(const struct raw_setting *setting);
/* The same by key. The (first) value: as written, else the schema's default, else NULL. */
const struct option_value *value_of(const struct raw_section *section, enum schema_id id);
bool value_given(const struct raw_section *section, enum schema_id id);
/* Where the key stands, else the section's heading. */
struct config_place place_of(const struct raw_section *section, enum schema_id id);

/* ---- building ---------------------------------------------------------------------------- */

struct build {
    struct config_memory *memory;
    struct config_errors *errors;
    const struct config_world *world;
    struct raw *raw;
    struct config *config;
    struct raw_section **stream_sections; /* beside config->streams, same order */
    struct raw_section **filter_sections;
    struct raw_section **sink_sections; /* of results */
    struct raw_section **event_sink_sections;
    struct raw_section **analysis_sections;
    struct raw_section **alarm_sections;
    struct config_stream *streams; /* the same memory as config->streams, writable */
    struct config_filter *filters;
    struct config_sink *sinks;
    struct config_analysis *analyses;
    struct config_event_sink *event_sinks;
    uint64_t edges; /* made so far */
};

/* Each: 0 or ERROR_MEMORY; what is wrong goes to build->errors. */
/* Reports a list of devices that cannot be one. */
void check_devices(struct build *build, struct config_place place,
                   const char *list); /* [daemon], [device] */
int build_osc(struct build *build);   /* after streams and sinks */
int build_cluster(struct build *build);
/* Whether there is an OSC server: [osc] is written, or a driver needs it. */
bool concerns_osc(const struct build *build);
int build_filters(struct build *build);
int build_streams(struct build *build);
/* What the codes of each channel mean. */
int build_scales(struct build *build, struct config_stream *stream,
                 const struct option_check *check, const struct raw_section *section);
int build_outputs(struct build *build, struct config_stream *stream, struct raw_section *section);
int build_sinks(struct build *build);
int build_alarms(struct build *build); /* after analyses */
/* What an alarm watches of an analysis: figure, channels and unit. *known false: there is none, or
 * not of this name, reported. */
int build_alarm_figure(struct build *build, const struct raw_section *section,
                       struct config_alarm *alarm, bool *known);
/* The first input channel that a float of an output frame is made of. */
uint32_t config_first_input(const struct config_stream *stream, uint32_t output);
/* After streams; event sinks after analyses. */
int build_analyses(struct build *build);
/* `parameters` of one, once the type's options are proven. Events of another analysis carry its
 * ones. 0 or ERROR_MEMORY. */
int build_analysis_parameters(struct build *build, const struct raw_section *section,
                              struct config_analysis *analysis);
int build_event_sinks(struct build *build);
/* What a stream says of its channels for alarms. */
int build_watched(struct build *build, struct config_stream *stream,
                  const struct option_check *check, const struct raw_section *section);
/* The options of a section's driver (drivers.c): */
/* Fills the driver's own structure, also of a section with errors: bad values stay zero. Rows that
 * all drivers have go to `common`. 0 or ERROR_MEMORY. */
int driver_fill(struct build *build, const struct raw_section *section,
                const struct option_row *rows, unsigned count, size_t own_bytes, void *common,
                void **own);
/* What a driver's checks report through; stays until the configuration is built. False: no memory.
 */
bool driver_check(struct build *build, struct raw_section *section, struct option_check *check);
struct daemon_facts driver_facts(const struct build *build);
struct stream_facts driver_stream_facts(const struct build *build,
                                        const struct config_stream *stream);
/* After all sections are built: each driver's checks against the others. */
int driver_check_all(struct build *build);

/* Last, when nothing was wrong. Puts raw->sections in order. */
int config_hashes(struct build *build); /* 0 or ERROR_MEMORY */

/* config/results.c: sets each stream's `results`. */
void config_results(struct build *build);

/* The stream that a chain's section reads; NULL: it is no chain. */
const char *upstream_name(const struct raw_section *section);

/* Reports the filters that nobody defined, for a stream that is broken otherwise. */
void resolve_filters(struct build *build, const struct raw_section *section);

/* The filter that one value of `filter`, `bank` or `route` names; `name` is room for it. */
const char *filter_named(enum schema_id way, const struct option_value *value,
                         char name[OPTION_NAME_BYTES]);

/* Filters against the rates of the streams that use them. */
void check_filters(struct build *build);

/* A path as written in `place`: relative ones start at that file's directory. NULL: no memory. */
const char *build_path(struct build *build, const char *path, struct config_place place);

/* "stream a names a filter x that nobody defined; write …" for a filter or stream that `user`
 * names. */
void report_unknown(struct build *build, struct config_place place, const struct raw_section *user,
                    enum section_kind kind, const char *name);

#endif
