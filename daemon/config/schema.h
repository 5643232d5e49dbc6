/*
 * The schema of the configuration: one table row for every key: section, type, unit, range,
 * default, where it applies, and the sentence that says what it means. The parser, `--check`,
 * `--help-config`, both manual pages and the tests all read this table; nothing else knows a
 * key's range or default.
 *
 * Immutable tables and pure functions; any thread.
 */
#ifndef CONVOLVD_CONFIG_SCHEMA_H
#define CONVOLVD_CONFIG_SCHEMA_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/error.h"
#include "core/quantity.h"
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

/* The kinds of source and sink, in the order of the bits of schema_key.applies; filters use enum
 * filter_type. */
enum source_kind {
    SOURCE_RTP,
    SOURCE_UDP,
    SOURCE_UDP_SEQ,
    SOURCE_FILE,
    SOURCE_GENERATOR,
    SOURCE_OSC,
    SOURCE_PORTAUDIO,
    SOURCE_STREAM,
    SOURCE_KINDS,
};

enum sink_kind { SINK_RTP, SINK_RECORDING, SINK_OSC, SINK_PORTAUDIO, SINK_KINDS };

const char *source_kind_name(int kind); /* NULL past the end */
const char *sink_kind_name(int kind);

/* Name of type `index` of a section (source, filter type, sink type); NULL past the end. */
const char *schema_type_name(enum section_kind section, int index);

/*  name, dimension, what a user calls it */
#define VALUE_TYPE_TABLE(X)                                                                        \
    X(TEXT, NUMBER, "text")                                                                        \
    X(PATH, NUMBER, "path")                                                                        \
    X(NAME, NUMBER, "name")                                                                        \
    X(ADDRESS, NUMBER, "host:port")                                                                \
    X(CHOICE, NUMBER, "choice")                                                                    \
    X(BOOLEAN, NUMBER, "yes or no")                                                                \
    X(FORMAT, NUMBER, "sample format")                                                             \
    X(SSRC, NUMBER, "32-bit number")                                                               \
    X(SOURCE, NUMBER, "source")                                                                    \
    X(ROUTE, NUMBER, "IN -> FILTER [GAIN] -> OUT")                                                 \
    X(COUNT, NUMBER, "number")                                                                     \
    X(NUMBER, NUMBER, "number")                                                                    \
    X(FREQUENCY, FREQUENCY, "frequency")                                                           \
    X(TIME, TIME, "time")                                                                          \
    X(MEMORY, MEMORY, "size")                                                                      \
    X(DECIBEL, DECIBEL, "dB")                                                                      \
    X(RATIO, RATIO, "percentage")                                                                  \
    X(ANGLE, ANGLE, "angle")                                                                       \
    X(LENGTH, LENGTH, "length")                                                                    \
    X(VELOCITY, VELOCITY, "velocity")                                                              \
    X(AMPLITUDE, AMPLITUDE, "amplitude")                                                           \
    X(SPAN, FRAMES, "frames or time")  /* whole frames; or a time, in integer ns */                \
    X(DELAY, FRAMES, "frames or time") /* frames may have a fraction */                            \
    X(ROTATION, TIME, "time or size")

enum value_type {
#define X(name, dimension, words) VALUE_##name,
    VALUE_TYPE_TABLE(X)
#undef X
        VALUE_TYPES,
};

const char *value_type_words(enum value_type type);

enum list_kind {
    LIST_NONE,    /* one value */
    LIST_CHANNEL, /* comma list: one for all channels, or one per channel */
    LIST_COMMA,   /* comma list of any length */
    LIST_LINES,   /* the key is repeated, one value a line */
};

struct schema_key {
    const char *key;
    enum section_kind section;
    enum value_type type;
    enum list_kind list;
    uint32_t applies;           /* bits of the section's types; 0: all */
    uint32_t required;          /* bits of the types that need it */
    double minimum, maximum;    /* in the base unit, inclusive */
    bool above_minimum;         /* the minimum itself is not allowed */
    const char *fallback;       /* the default, as one would write it; NULL: none */
    const char *fallback_words; /* said where `fallback` is NULL and the default follows a rule */
    const char *choices;        /* "a|b|c" */
    const char *sentence;
};

/* Index of every row of schema_keys; the rows of a section stand together. */
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
    KEY_ADDRESS,
    KEY_INTERFACE,
    KEY_ALLOW,
    KEY_PAYLOAD_TYPE,
    KEY_SSRC,
    KEY_MODE,
    KEY_SEQUENCE_ORDER,
    KEY_PATH,
    KEY_PACE,
    KEY_LOOP,
    KEY_CARD,
    KEY_HOST_API,
    KEY_CHANNEL_MAP,
    KEY_DEVICE_PERIOD,
    KEY_DUPLEX,
    KEY_ROUND_TRIP,
    KEY_ALLOW_CONVERSION,
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
    KEY_REORDER,
    KEY_MAX_GAP,
    KEY_MAX_DROPOUT,
    KEY_MAX_MISORDER,
    KEY_IDLE_FLUSH,
    KEY_LATENCY,
    KEY_DEADLINE,
    KEY_BUFFER,
    KEY_RECEIVE_BUFFER,
    KEY_RECEIVE,
    KEY_WORK,
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
    KEY_WAVEFORM,
    KEY_AMPLITUDE,
    KEY_FREQUENCY,
    KEY_FREQUENCY_END,
    KEY_LENGTH,
    KEY_PERIOD,
    KEY_PHASE,
    KEY_CHANNEL_PHASE,
    KEY_CHANNEL_DELAY,
    KEY_DC,
    KEY_NOISE,
    KEY_SEED,
    KEY_ARRIVALS,
    KEY_RISE,
    KEY_DECAY,
    KEY_DURATION,
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
    KEY_SINK_ADDRESS,
    KEY_SINK_INTERFACE,
    KEY_SINK_PAYLOAD_TYPE,
    KEY_SINK_SSRC,
    KEY_TTL,
    KEY_MTU,
    KEY_SDP,
    KEY_SEND_BUFFER,
    KEY_SINK_PATH,
    KEY_CONTAINER,
    KEY_RECORD,
    KEY_ROTATE,
    KEY_KEEP,
    KEY_MIN_FREE,
    KEY_FLUSH,
    KEY_QUEUE,
    KEY_SINK_CARD,
    KEY_SINK_HOST_API,
    KEY_SINK_CHANNEL_MAP,
    KEY_SINK_DEVICE_PERIOD,
    KEY_SINK_LATENCY,
    KEY_SINK_DUPLEX,
    KEY_SINK_RESAMPLE,
    KEY_SINK_ALLOW_CONVERSION,
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

extern const struct schema_key schema_keys[KEYS];

/* One value of a key, typed. Which fields count depends on the type. */
struct value {
    double
        number; /* base unit: Hz, s, bytes, dB, 1, degrees, m, m/s, frames; amplitudes: in `unit` */
    int64_t integer; /* COUNT; TIME in ns; MEMORY in bytes; frames; CHOICE: index; BOOLEAN; SSRC */
    enum dimension dimension; /* SPAN, DELAY, ROTATION: which of the two was written */
    char unit[QUANTITY_UNIT_BYTES];
    const char *text; /* as written, trimmed; borrowed from the caller's text */
    struct sample_format format;
    bool order_written; /* FORMAT: the byte order was named */
    /* ADDRESS */
    const char *host; /* without brackets, host_length bytes of `text` */
    unsigned host_length;
    uint16_t port;
    /* SOURCE, ROUTE: the name within */
    char name[64];
    uint32_t input, output; /* ROUTE: channels counted from 1 */
    double gain;            /* ROUTE: factor */
};

enum { NAME_BYTES = 64 };

/* Letters, digits, '_', '-' and '.', at most NAME_BYTES - 1, not beginning with '.' or '-'. */
bool schema_name_valid(const char *name);

/* One value, range checked. The message names the key and says what to write instead. */
int schema_value_parse(const struct schema_key *key, const char *text, struct value *value,
                       struct problem *problem);

/* NULL when the section has no such key. */
const struct schema_key *schema_find(enum section_kind section, const char *key);

/* The key of the section that is spelled most like `key`; NULL when none comes near. */
const struct schema_key *schema_nearest(enum section_kind section, const char *key);

/* "1 Hz … 10 GHz", "" when the type has no range. */
const char *schema_range_text(const struct schema_key *key, char *text, size_t bytes);

/* Small distance for suggestions: edits, letters' case and '_' '-' ' ' counting as equal. */
unsigned schema_distance(const char *a, const char *b);

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
