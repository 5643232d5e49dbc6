/*
 * The watch ring: how the daemon shows what it sees to a viewer of the same machine, in shared
 * memory that one side writes and the other one reads. The writer never waits and never reads the
 * memory: it overwrites what was not read in time. The reader trusts nothing in it.
 *
 *     | header, 4 KiB | slot 0 | slot 1 | … | slot N-1 |       N a power of two, slots of 4 KiB
 *
 * The n-th record (n = 0, 1, …) lies in slot n mod N. A slot's sequence is 2n + 1 while record n is
 * written and 2n + 2 once it is whole; a reader copies it and then looks whether the sequence is
 * still the same (a seqlock).
 *
 * A record says of a run of points of one side of one stream: levels (one point: sums and peaks of
 * many frames), minimum and maximum of some frames a point, or the frames themselves. What needs
 * more than a slot goes into several records.
 *
 * Native byte order; WATCH_RING_VERSION changes with every change of the layout. Pure functions;
 * one thread each side.
 */
#ifndef CONVOLVD_WIRE_WATCH_RING_H
#define CONVOLVD_WIRE_WATCH_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WATCH_RING_VERSION = 1,
    WATCH_SLOT_BYTES = 4096,
    WATCH_NAME_BYTES = 64,
    WATCH_RANGES_MAX = 8,
    WATCH_HEAD_BYTES = 288,
    WATCH_FLOATS_MAX = (WATCH_SLOT_BYTES - 8 - WATCH_HEAD_BYTES) / 4,
    WATCH_SLOTS_LEAST = 16,
    WATCH_SLOTS_MOST = 1 << 16,
    WATCH_CHANNELS_MAX = 2048,
};

enum watch_kind {
    WATCH_LEVELS, /* of a channel: frames, sum, sum of squares, peak, overloads; one point */
    WATCH_MINMAX, /* [points][channels][2]: minimum, maximum */
    WATCH_FRAMES, /* [points][channels] */
    WATCH_KINDS,
};

enum watch_flags {
    WATCH_INPUT = 1,   /* else the output */
    WATCH_BEGINS = 2,  /* the first frame of an epoch (a record, in record mode) */
    WATCH_ENDS = 4,    /* the last one */
    WATCH_SKIPPED = 8, /* frames before these were not looked at: the time for it was used up */
};

enum { WATCH_LEVEL_FLOATS = 5 };

/* Points [from, from + points) are invalid, for the causes of the mask (bit n: cause n). */
struct watch_range {
    uint32_t from, points, causes, zero;
};

struct watch_head {
    char stream[WATCH_NAME_BYTES]; /* terminated */
    uint64_t epoch, record;
    uint64_t first_frame; /* of the side's numbering, first point */
    int64_t capture_ns;   /* realtime, of first_frame; 0: unknown */
    int64_t latency_ns;   /* last frame received → handed over */
    double rate_hz;       /* of the side */
    uint32_t kind, flags; /* enum watch_kind, watch_flags */
    uint32_t points, frames_per_point;
    /* The channels in this record, one after the other; with FRAMES, of the list in the request. */
    uint32_t first_channel, channels;
    uint32_t range_count;
    uint32_t request; /* number of the viewer's request that this belongs to */
};

/* ---- writer ------------------------------------------------------------------------------ */

struct watch_writer {
    uint8_t *memory;
    uint32_t slots;
    uint64_t next; /* number of the next record; never read from the memory */
};

size_t watch_ring_bytes(uint32_t slots);
/* `memory` is zeroed, and aligned as a page. */
void watch_writer_open(struct watch_writer *writer, void *memory, uint32_t slots);

/* Begins the next record: returns where its floats go, at most WATCH_FLOATS_MAX. */
float *watch_writer_begin(struct watch_writer *writer);
/* Ends it: from here on it can be read. ranges[head->range_count]. */
void watch_writer_end(struct watch_writer *writer, const struct watch_head *head,
                      const struct watch_range *ranges);

/* ---- reader ------------------------------------------------------------------------------ */

struct watch_reader {
    const uint8_t *memory;
    uint32_t slots;
    uint64_t next; /* number of the next record */
    uint64_t lost; /* overwritten before they were read */
    uint64_t bad;  /* whose contents made no sense */
};

struct watch_record {
    struct watch_head head;
    struct watch_range ranges[WATCH_RANGES_MAX];
    float values[WATCH_FLOATS_MAX]; /* as many as watch_record_floats tells */
};

/* Takes the geometry from the header; reads on from the newest record. False: no ring of this
 * version, or its geometry does not fit `bytes`. */
bool watch_reader_open(struct watch_reader *reader, const void *memory, size_t bytes);

/* Copies the next record out of the ring and proves it: kind, counts, ranges and name are within
 * their bounds. False: there is none yet. Numbers in `values` may be anything, NaN included. */
bool watch_reader_next(struct watch_reader *reader, struct watch_record *record);

/* Floats of a record with this head; 0: it holds more than a slot does. */
size_t watch_record_floats(const struct watch_head *head);

#endif
