/*
 * OSC on the wire (Open Sound Control 1.0): checks and reads packets from the network, and builds
 * messages. No other code reads OSC bytes before they passed osc_walk, which proves that every byte
 * it reads lies inside the packet; liblo's own parser does not.
 *
 *     packet ─► osc_walk ─► messages proven whole: address, types, every argument
 *                   └─────► a named fault: the whole packet is refused
 *
 * Deviations that leave no doubt about a message are tolerated, and each is counted by name:
 * padding that is not zero or is missing at the end, bytes behind the last argument, and a message
 * without type tags where its address has one signature (OSC 1.0 asks receivers to take those).
 *
 * osc_walk unpacks bundles to a depth of OSC_DEPTH_MAX. It reports a time tag and never queues: a
 * bundle dated 2036 is delivered at once like any other. Its cost is linear in the packet's bytes.
 *
 * Pure functions on the caller's memory, any thread; nothing allocates.
 */
#ifndef CONVOLVD_WIRE_OSC_H
#define CONVOLVD_WIRE_OSC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    OSC_DEPTH_MAX = 4,
    OSC_ADDRESS_MAX = 255, /* bytes, without its end */
    OSC_WILDCARDS_MAX = 2,
    OSC_PACKET_MAX = 65536, /* bytes, over TCP too */
};

/* Why a packet was refused. */
#define OSC_FAULT_TABLE(X)                                                                         \
    X(SIZE, "size")             /* empty, or longer than OSC_PACKET_MAX */                         \
    X(ADDRESS, "address")       /* no '/', no end, too long, bytes that are no address */          \
    X(PATTERN, "pattern")       /* more wildcards than OSC_WILDCARDS_MAX, or brackets left open */ \
    X(TYPES, "types")           /* type tags without an end, or one that is not known here */      \
    X(ARGUMENTS, "arguments")   /* they end after the message */                                   \
    X(BUNDLE, "bundle")         /* an element's size does not fit its bundle */                    \
    X(DEPTH, "depth")           /* bundles within bundles beyond OSC_DEPTH_MAX */                  \
    X(UNTAGGED, "no type tags") /* and the address has several signatures, or others */

enum osc_fault {
    OSC_OK,
#define X(name, text) OSC_FAULT_##name,
    OSC_FAULT_TABLE(X)
#undef X
        OSC_FAULTS,
};

const char *osc_fault_name(enum osc_fault fault);

/* Deviations that are tolerated, in messages. */
#define OSC_TOLERATED_TABLE(X)                                                                     \
    X(PADDING, "padding")       /* of a string or blob: not 0, or missing at the end */            \
    X(SURPLUS, "surplus bytes") /* behind the last argument, or behind the samples of a blob */    \
    X(UNTAGGED, "no type tags") /* but no argument, or one signature */

enum osc_tolerated {
#define X(name, text) OSC_TOLERATED_##name,
    OSC_TOLERATED_TABLE(X)
#undef X
        OSC_TOLERATED,
};

const char *osc_tolerated_name(enum osc_tolerated tolerated);

/* A message that passed the checks. Points into the packet. */
struct osc_message {
    const char *address; /* terminated; may be a pattern */
    const char *types;   /* terminated, without the comma */
    uint32_t count;      /* of types */
    const uint8_t *arguments;
    const uint8_t *data; /* all of it, from the address */
    size_t bytes;
    uint64_t time_tag;  /* of the innermost bundle; 1 (immediately) outside of any */
    uint32_t tolerated; /* 1 << enum osc_tolerated */
};

struct osc_counts {
    uint64_t packets, messages, bundles;
    uint64_t dated; /* bundles with a time tag other than "immediately" */
    uint64_t depth; /* of the deepest bundle taken; 0: none was */
    uint64_t faults[OSC_FAULTS];
    uint64_t tolerated[OSC_TOLERATED]; /* messages; one may have several */
};

/* Checks the whole packet, then visits its messages in order. `counts` may be NULL. Returns the
 * first fault; then no message is visited. */
enum osc_fault osc_walk(const uint8_t *data, size_t bytes, struct osc_counts *counts,
                        void (*visit)(void *context, const struct osc_message *message),
                        void *context);

/* The same. `signature`: the types of the arguments of an address, where it has one signature, else
 * NULL; asked for messages without type tags. */
enum osc_fault osc_walk_untagged(const uint8_t *data, size_t bytes, struct osc_counts *counts,
                                 const char *(*signature)(const char *address),
                                 void (*visit)(void *context, const struct osc_message *message),
                                 void *context);

/* ---- arguments --------------------------------------------------------------------------- */

/* Goes through the arguments of a message. Start: {.message = m, .at = m->arguments}. */
struct osc_reader {
    const struct osc_message *message;
    uint32_t index;
    const uint8_t *at;
};

/* The type of the next argument, 0 at the end. */
char osc_peek(const struct osc_reader *reader);

/* Each reads the next argument when its type fits, else leaves it and returns false. */
bool osc_read_string(struct osc_reader *reader, const char **text);
bool osc_read_blob(struct osc_reader *reader, const uint8_t **data, size_t *bytes);
/* i, f, h or d, for patches send whichever they have. */
bool osc_read_number(struct osc_reader *reader, double *value);
/* h; two i (high, low); or a whole f or d of at most 2^53. */
bool osc_read_wide(struct osc_reader *reader, uint64_t *value);
void osc_skip(struct osc_reader *reader);

/* ---- addresses --------------------------------------------------------------------------- */

/* Matches one part of an address with one part of a checked pattern (neither holds a '/'). */
bool osc_part_matches(const char *pattern, size_t pattern_length, const char *name,
                      size_t name_length);

/* "/convolvd/STREAM/WORD": the parts after /convolvd, at most `capacity`. Returns how many there
 * are, -1 when the address begins otherwise. */
struct osc_part {
    const char *text;
    size_t length;
};
int osc_address_parts(const char *address, struct osc_part *parts, int capacity);

/* ---- building ---------------------------------------------------------------------------- */

/* Builds a message in the caller's memory, without allocation (unlike liblo), as the loop needs per
 * block. `full` is set when it did not fit: then nothing may be sent. */
struct osc_writer {
    uint8_t *data;
    size_t bytes, capacity;
    bool full;
};

/* Starts a message: its address, and its types with their comma. */
void osc_begin(struct osc_writer *writer, const char *address, const char *types);
void osc_put_int(struct osc_writer *writer, int32_t value);
void osc_put_float(struct osc_writer *writer, float value);
void osc_put_string(struct osc_writer *writer, const char *text);
/* As h, or as two i. */
void osc_put_wide(struct osc_writer *writer, uint64_t value);
/* Reserves a blob of `bytes`, which the caller fills; NULL when full. */
uint8_t *osc_put_blob(struct osc_writer *writer, size_t bytes);

#endif
