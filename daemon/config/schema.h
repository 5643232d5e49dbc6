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

#include "config/keys.h"
#include "core/option.h"

struct event_sink_ops;

/* Name of type `index` of a section (source, filter type, sink type); NULL past the end. */
const char *schema_type_name(enum section_kind section, int index);

/* The types of a section are the drivers of a stream or sink in the order of io's tables (sinks of
 * results, then those of events), the analyses, and the filter types; the last type of a stream is
 * the chain, which is no driver. */
struct schema_key {
    struct option_row row;
    enum section_kind section;
    unsigned slot;                  /* its number within the section */
    uint32_t applies;               /* bits of the section's types; 0: all */
    uint32_t required;              /* bits of the types that need it */
    const struct schema_key *other; /* the same key as other types mean it, of the same slot; NULL:
                                       there is none. Analyses alone have such */
};

/* The key as this type means it; where none of them applies, `key`. */
const struct schema_key *schema_for(const struct schema_key *key, int type);
/* Bits of all types that it applies to, in whatever meaning; 0: all. */
uint32_t schema_applies(const struct schema_key *key);

/* A row of the configuration itself. */
const struct schema_key *schema_key(enum schema_id id);

/* The driver of a type of [sink]: of one that takes events; NULL: it takes results, or is unknown.
 */
const struct event_sink_ops *schema_event_sink(int type);

/* All rows of a section in the order of the manual; NULL past the end. */
const struct schema_key *schema_at(enum section_kind section, unsigned slot);
unsigned schema_count(enum section_kind section);

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
