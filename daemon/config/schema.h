/*
 * The schema of the configuration: one row for every key of every section: type, range, default,
 * the types of section it applies to, and the sentence that says what it means. The parser,
 * `--check`, `--help-config`, both manual pages and the tests all read it; nothing else knows a
 * key's range or default.
 *
 * The rows are the configuration's own (schema_rows.c) and those of the drivers in io's two tables.
 * A key that several drivers have appears once, with the drivers it applies to. The schema is made
 * at the first call and immutable from then on; pure functions, any thread.
 */
#ifndef CONVOLVD_CONFIG_SCHEMA_H
#define CONVOLVD_CONFIG_SCHEMA_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/option.h"
#include "wire/format.h"

enum section_kind {
    SECTION_DAEMON,
    SECTION_DEVICE,
    SECTION_STREAM,
    SECTION_FILTER,
    SECTION_SINK,
    SECTION_OSC,
    SECTIONS,
};

/* `word` begins the heading; named sections are written [word NAME]. */
struct schema_section {
    const char *word;
    bool named;
    const char *type_key; /* the key that decides which others apply; NULL: none */
    const char *sentence;
};

extern const struct schema_section schema_sections[SECTIONS];

/* Name of type `index` of a section (source, filter type, sink type); NULL past the end. */
const char *schema_type_name(enum section_kind section, int index);

/* The types of a section are the drivers of a stream or sink in the order of io's tables, and the
 * filter types; the last type of a stream is the chain, which is no driver. */
struct schema_key {
    struct option_row row;
    enum section_kind section;
    unsigned slot;     /* its number within the section */
    uint32_t applies;  /* bits of the section's types; 0: all */
    uint32_t required; /* bits of the types that need it */
};

/* The rows of the configuration itself; those of a section stand together. */
enum schema_id {
    /* [daemon] */
    KEY_LOG_LEVEL,
    KEY_RUNTIME_DIRECTORY,
    KEY_STATE_DIRECTORY,
    KEY_STATUS_ON_EXIT,
    KEY_STATUS_FILE,
    KEY_DRAIN_TIMEOUT,
    /* [device] */
    KEY_DEVICE,
    KEY_THREADS,
    KEY_KERNELS,
    KEY_CACHE,
    KEY_BATCHES,
    KEY_DEPTH,
    KEY_INPUT_MEMORY,
    KEY_SPECTRUM_MEMORY,
    KEY_STATE_MEMORY,
    KEY_BATCH_MEMORY,
    /* [stream] */
    KEY_SOURCE,
    KEY_RATE,
    KEY_CHANNELS,
    KEY_FORMAT,
    KEY_BITS,
    KEY_JUSTIFY,
    KEY_FULL_SCALE,
    KEY_OFFSET,
    KEY_PREAMP,
    KEY_UNIT,
    KEY_BLOCK,
    KEY_BATCH_BLOCKS,
    KEY_IDLE_FLUSH,
    KEY_LATENCY,
    KEY_DEADLINE,
    KEY_BUFFER,
    KEY_FILTER,
    KEY_BANK,
    KEY_ROUTE,
    KEY_OUTPUT,
    KEY_TAIL,
    KEY_ALIGN,
    KEY_DECIMATE,
    KEY_STREAM_DEVICE,
    KEY_VARIANT,
    KEY_FFT,
    /* [filter] */
    KEY_TYPE,
    KEY_METHOD,
    KEY_LOW,
    KEY_HIGH,
    KEY_CUTOFF,
    KEY_TRANSITION,
    KEY_ATTENUATION,
    KEY_RIPPLE,
    KEY_TAPS,
    KEY_ANALYTIC,
    KEY_FILTER_PATH,
    KEY_DELAY,
    KEY_NORMALISE,
    KEY_WINDOW,
    KEY_TAPER,
    KEY_START,
    KEY_STOP,
    KEY_FILTER_LENGTH,
    KEY_CODE,
    KEY_ORDER,
    KEY_PAIR,
    KEY_CARRIER,
    KEY_CHIP_RATE,
    KEY_CYCLES,
    KEY_GAIN,
    KEY_INVERT,
    KEY_SPACING,
    KEY_VELOCITY_LOW,
    KEY_VELOCITY_HIGH,
    KEY_FAN,
    KEY_PADDING,
    /* [sink] */
    KEY_SINK_TYPE,
    KEY_SINK_STREAM,
    KEY_SINK_FORMAT,
    KEY_SINK_FULL_SCALE,
    /* [osc] */
    KEY_OSC_ADDRESS,
    KEY_OSC_TCP_ADDRESS,
    KEY_OSC_ALLOW,
    KEY_OSC_TRUST,
    KEY_OSC_LEASE,
    KEY_OSC_TCP_TIMEOUT,
    KEY_OSC_RECEIVE_BUFFER,
    KEYS,
};

/* A row of the configuration itself. */
const struct schema_key *schema_key(enum schema_id id);

/* All rows of a section in the order of the manual; NULL past the end. */
const struct schema_key *schema_at(enum section_kind section, unsigned slot);
unsigned schema_count(enum section_kind section);

/* The sample format of a proven value of `format`; *order_written: the byte order was named. */
struct sample_format schema_format(const struct option_value *value, bool *order_written);

/* The stream of a proven `source = stream NAME`, NULL for a driver. */
const char *schema_upstream(const struct option_value *value);

/* The parts of a proven `route = IN -> FILTER [GAIN] -> OUT`. */
struct schema_route {
    char filter[OPTION_NAME_BYTES];
    uint32_t input, output; /* channels counted from 1 */
    double gain;            /* factor */
};
void schema_route(const struct option_value *value, struct schema_route *route);

/* NULL when the section has no such key. */
const struct schema_key *schema_find(enum section_kind section, const char *key);

/* The key of the section that is spelled most like `key`; NULL when none comes near. */
const struct schema_key *schema_nearest(enum section_kind section, const char *key);

/* ---- the manual -------------------------------------------------------------------------- */

/* What `--help-config` prints. */
void schema_print_help(FILE *out);

/* Roff of `page`: "convolvd.conf" (from the table) or "convolvd" (from the options given).
 * ERROR_ARGUMENT for another page. */
struct manual_option {
    const char *option; /* "-c, --config FILE" */
    const char *sentence;
};
int schema_print_man(FILE *out, const char *page, const struct manual_option *options,
                     unsigned count);

#endif
