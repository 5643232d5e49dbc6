/* The rows that schema.c makes the schema of, beside those of the drivers. Nobody else's. */
#ifndef CONVOLVD_CONFIG_SCHEMA_ROWS_H
#define CONVOLVD_CONFIG_SCHEMA_ROWS_H

#include "config/keys.h"
#include "core/option.h"

/* Which drivers a row applies to. */
enum schema_scope {
    SCOPE_ALL,
    SCOPE_OWN,    /* sources: all but a chain */
    SCOPE_TYPED,  /* drivers that take a sample format */
    SCOPE_PADDED, /* sources that take `bits` and `justify` */
    SCOPE_FRAMES, /* sinks and analyses that take the results of a stream */
    SCOPE_EVENTS, /* those that take the events of an analysis */
};

struct schema_row {
    enum section_kind section;
    enum schema_scope scope;
    enum schema_scope needed; /* … it is required by; SCOPE_ALL: as row.required says */
    uint32_t applies;         /* filters: bits of enum filter_type; 0: all */
    uint32_t required;        /* filters: bits of the types that need it */
    struct option_row row;
};

extern const struct schema_row schema_rows[KEYS];

/* Texts and choices that schema.c makes of io's tables. */
extern struct option_choice sink_types[], analysis_types[];
extern char source_formats[], sink_formats[], alarm_sentence[], analysis_sentence[];

#endif
