/*
 * Options: how a `key = value` of the configuration becomes a typed field of a structure. A row
 * describes one key: its type, range, default, the sentence that explains it, and the field that
 * takes its value. Each module that has options exports a table of rows; the configuration, the
 * manual and the tests read the tables and need no code of their own for a new key.
 *
 *     text ── option_parse ──► struct option_value ── option_store ──► field of the options struct
 *
 * option_parse proves the value: what it returns is of the row's type and within its range. What
 * depends on other keys, the owner of the options checks (struct option_check).
 *
 * Immutable tables and pure functions; any thread.
 */
#ifndef CONVOLVD_CORE_OPTION_H
#define CONVOLVD_CORE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/quantity.h"

/*  name, dimension, what a user calls it; the types from COUNT on have a range */
#define OPTION_TYPE_TABLE(X)                                                                       \
    X(TEXT, NUMBER, "text")                                                                        \
    X(PATH, NUMBER, "path")                                                                        \
    X(NAME, NUMBER, "name")                                                                        \
    X(ADDRESS, NUMBER, "host:port")                                                                \
    X(CHOICE, NUMBER, "choice")                                                                    \
    X(BOOLEAN, NUMBER, "yes or no")                                                                \
    X(UINT32, NUMBER, "32-bit number")                                                             \
    X(OWN, NUMBER, "value") /* the row parses it itself */                                         \
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

enum option_type {
#define X(name, dimension, words) OPTION_##name,
    OPTION_TYPE_TABLE(X)
#undef X
        OPTION_TYPES,
};

enum option_list {
    LIST_NONE,    /* one value */
    LIST_CHANNEL, /* comma list: one for all channels, or one per channel */
    LIST_COMMA,   /* comma list of any length */
    LIST_LINES,   /* the key is repeated, one value a line */
};

/* One word of a choice and the enum value it stands for. Tables end with a NULL word. */
struct option_choice {
    const char *word;
    int value;
};

/* One value, typed. Which fields count depends on the type. */
struct option_value {
    double number;   /* base unit: Hz, s, bytes, dB, 1, degrees, m, m/s, frames; amplitudes: in
                        `unit` */
    int64_t integer; /* COUNT; TIME in ns; MEMORY in bytes; frames; CHOICE: its value; BOOLEAN;
                        UINT32; OWN: as the row's parser says */
    enum dimension dimension; /* SPAN, DELAY, ROTATION: which of the two was written */
    char unit[QUANTITY_UNIT_BYTES];
    const char *text; /* as written, trimmed; borrowed from the caller's text */
};

/* The values of a list. */
struct option_values {
    const struct option_value *values;
    unsigned count;
};

/* The type of the field that takes a value, see OPTION_FIELD. */
enum option_field {
    FIELD_NONE, /* the value stays with the configuration */
    FIELD_TEXT, /* const char *: TEXT, PATH (absolute or below the file's directory), ADDRESS … */
    FIELD_BOOLEAN, /* bool */
    FIELD_UINT32,  /* uint32_t or an enum: COUNT, CHOICE, UINT32 */
    FIELD_UINT64,  /* uint64_t: COUNT, MEMORY */
    FIELD_INT64,   /* int64_t: TIME in ns */
    FIELD_NUMBER,  /* double: in the base unit */
    FIELD_VALUE,   /* const struct option_value *: where the owner needs unit or dimension */
    FIELD_LIST,    /* struct option_values */
};

/* Initialises a row's `offset` and `field` for a member of the structure that it fills. */
#define OPTION_FIELD(type, member)                                                                 \
    .offset = offsetof(type, member), .field = _Generic(&((type *)0)->member,                      \
                                               const char **: FIELD_TEXT,                          \
                                               bool *: FIELD_BOOLEAN,                              \
                                               uint32_t *: FIELD_UINT32,                           \
                                               uint64_t *: FIELD_UINT64,                           \
                                               int64_t *: FIELD_INT64,                             \
                                               double *: FIELD_NUMBER,                             \
                                               const struct option_value **: FIELD_VALUE,          \
                                               struct option_values *: FIELD_LIST)

struct option_row {
    const char *key;
    enum option_type type;
    enum option_list list;
    double minimum, maximum;    /* in the base unit, inclusive; equal: no range */
    bool above_minimum;         /* the minimum itself is not allowed */
    const char *fallback;       /* the default, as one would write it; NULL: none */
    const char *fallback_words; /* said where `fallback` is NULL and the default follows a rule */
    bool required;
    const struct option_choice *choices; /* CHOICE */
    const char *sentence;
    const char *words; /* what a user calls the value; NULL: as the type says */
    /* OWN: checks the text and sets what it needs of the value. */
    int (*parse)(const struct option_row *row, const char *text, struct option_value *value,
                 struct problem *problem);
    const char *keyword; /* PATH: a word that is no path, such as none; NULL: there is none */
    enum option_field field;
    size_t offset;
    bool running; /* may change while the section runs: its owner's `change` takes it. A number */
    bool common;  /* the field is one that all owners have (source_options), not the owner's own */
};

enum {
    OPTION_NAME_BYTES = 64,
    OPTION_QUOTE = 60 /* bytes of a user's text that a message repeats */
};

/* What a user calls the value of a row: "frequency". */
const char *option_words(const struct option_row *row);

/* "1 Hz … 10 GHz", "" when the row has no range. Returns `text`. */
const char *option_range_text(const struct option_row *row, char *text, size_t bytes);

/* "real, complex, envelope" with `separator` ", ". Returns `text`. */
const char *option_choices_text(const struct option_row *row, const char *separator, char *text,
                                size_t bytes);

/* One value, range checked. The message names the key and says what to write instead. */
int option_parse(const struct option_row *row, const char *text, struct option_value *value,
                 struct problem *problem);

/* Writes the values of a row into its field of `options`; count 1 unless the row is a list. */
void option_store(const struct option_row *row, const struct option_value *values, unsigned count,
                  void *options);

/* The row with this key, NULL when there is none. */
const struct option_row *option_find(const struct option_row *rows, unsigned count,
                                     const char *key);

/* Letters, digits, '_', '-' and '.', fewer than OPTION_NAME_BYTES, not beginning with '.' or '-'.
 */
bool option_name_valid(const char *name);

/* The host (without brackets, host_bytes of `text`) and the port of a proven ADDRESS. */
struct option_address {
    const char *host;
    unsigned host_bytes;
    uint16_t port;
};
struct option_address option_address(const char *text);

/* Small distance for suggestions: edits, letters' case and '_' '-' ' ' counting as equal. */
unsigned option_distance(const char *a, const char *b);

/* ---- what the owner of options checks ---------------------------------------------------- */

/* The section whose options are checked. A message with a key stands at the line of that key, or
 * at the section's heading when the key is not written or NULL. One thread. */
struct option_check {
    void *context;
    const char *section; /* its name, for messages */
    void (*report)(void *context, const char *key, bool warning, const char *text);
    /* The (first) value as written, NULL: not written or not usable. */
    const struct option_value *(*written)(void *context, const char *key);
};

void option_error(const struct option_check *check, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void option_warning(const struct option_check *check, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool option_given(const struct option_check *check, const char *key);

/* A SPAN in frames: as written, or its time at the rate. NULL value: 0. False when reported. */
bool option_frames(const struct option_check *check, const struct option_row *row,
                   const struct option_value *value, double rate_hz, uint64_t *frames);

/* An AMPLITUDE in `unit`; false when reported, because its unit does not fit. */
bool option_amplitude(const struct option_check *check, const char *key,
                      const struct option_value *value, const char *unit, double *out);

#endif
