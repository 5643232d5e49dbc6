/*
 * Records of a cluster's logs: one message of a log is one record. RAW holds input as a gateway has
 * received it, LOG the results of a partition and what a successor needs to go on; both have the
 * same form (docs/cluster.md gives it byte by byte):
 *
 *     | header 200 | ranges 24 each | plan | filters | config | worker | state | samples |
 *
 * With events of analyses (version 2) the header has 16 bytes more, and marks stand behind the
 * ranges, `analysis` (wire/logged.h) behind the state.
 *
 * Integers are little-endian; samples have the order of their format. A record says which frames it
 * accounts for, [from, next), and carries the samples of [first, next): what lies between `from`
 * and `first` was given up, for the causes that its ranges name. `from` is the `next` of the record
 * before it, so a log is a chain without a hole.
 *
 * Two sums protect it. `checksum` is over the whole record and detects damage. `chain` is the
 * CRC-32C of all samples of the log up to `next`, and does not depend on how they are cut into
 * records, nor on who appended them: two logs with the same samples have the same chain.
 *
 * Pure functions, any thread. Reading trusts no byte (fuzzed). libconvolv links this module too.
 */
#ifndef CONVOLVD_WIRE_RECORD_H
#define CONVOLVD_WIRE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/format.h"

enum {
    RECORD_VERSION = 1,        /* of a log without analyses … */
    RECORD_VERSION_EVENTS = 2, /* … and with them */
    RECORD_HEADER_BYTES = 200,
    RECORD_EVENTS_HEADER_BYTES = 216,
    RECORD_RANGE_BYTES = 24,
    RECORD_MARK_BYTES = 24,
    RECORD_RANGES_MAX = 4096,
    RECORD_MARKS_MAX = 65536,
    RECORD_CAUSES = 32, /* causes are 0 … 31 */
    RECORD_CHANNELS_MAX = 1024,
    RECORD_BYTES_MAX = 64 << 20, /* no NATS server takes a longer message */
    RECORD_STAGES = 5,
};

/*  name, number, word, what it says */
#define RECORD_KIND_TABLE(X)                                                                       \
    X(TAKE, 1, "take", "its owner has taken the log over, and begins a term")                      \
    X(DATA, 2, "data", "samples")                                                                  \
    X(CHANGE, 3, "change", "other filters, gains or mutes from a frame on, at or behind `next`")   \
    X(BEAT, 4, "beat", "its owner is alive and has nothing else to append")                        \
    X(END, 5, "end", "the epoch has ended before frame `next`")                                    \
    X(RELEASE, 6, "release", "its owner gives the log up")                                         \
    X(ANALYSIS, 7, "analysis", "events of analyses, or what they hold; version 2")

enum record_kind {
#define X(name, number, word, sentence) RECORD_##name = number,
    RECORD_KIND_TABLE(X)
#undef X
};

/* "take"; "?" for a number that is none. */
const char *record_kind_word(unsigned kind);

enum record_flags {
    RECORD_RAW = 1,         /* input, as a gateway received it; else results */
    RECORD_EPOCH_START = 2, /* frame `from` is the first of its epoch */
    RECORD_EPOCH_END = 4,   /* DATA: the last samples of their epoch */
    RECORD_ALIGNED = 8,     /* the delay has been applied to frame numbers and times */
    RECORD_PARTIAL = 16,    /* some frames were computed before their whole block had come */
    RECORD_SENDER = 32,     /* ssrc and timestamp are given */
    RECORD_FLAGS = 63,
};

/* Frames [from, until) of the epoch with a cause (the numbers of stream/packet.h's INVALID_TABLE).
 * Ranges may overlap. */
struct record_range {
    uint64_t from, until;
    uint8_t cause; /* 0 … RECORD_CAUSES - 1 */
    bool absent;   /* the frames never came: their samples are the code of zero */
};

/* Frames [from, until) of a channel of the samples rest on input near full scale. */
struct record_mark {
    uint64_t from, until;
    uint32_t channel;
};

/* Text or bytes inside a record; not terminated. */
struct record_span {
    const uint8_t *bytes;
    uint32_t count;
};

struct record {
    uint8_t kind;   /* enum record_kind */
    uint32_t flags; /* enum record_flags */

    uint64_t term;  /* 1, 2, …: each take begins one */
    uint64_t owner; /* identity of the run that appended it; never 0 */

    /* Frames, numbered within the epoch: from <= first, first + frames == next. */
    uint64_t epoch, record; /* record: of record mode, else 0 */
    uint64_t from, first, next;
    uint32_t frames;     /* of samples; 0 unless DATA */
    uint64_t timeline;   /* of frame `first` */
    uint64_t input_next; /* LOG: as `next`, in frames of the input; RAW: next */
    uint64_t
        raw_sequence; /* LOG: the record of RAW that reading begins with to go on; 0: unknown */

    uint16_t channels; /* 1 … RECORD_CHANNELS_MAX; 0: no samples yet */
    struct sample_format format;
    double rate_hz;      /* of the samples; > 0 where there are channels */
    double delay_frames; /* of the filters, at rate_hz */

    int64_t capture_ns; /* realtime of frame `first` */
    int64_t clock_error_ns;
    uint8_t clock;                       /* the numbers of stream/packet.h's CLOCK_TABLE */
    int64_t appended_ns;                 /* realtime: when its owner built it */
    uint32_t stage_100ns[RECORD_STAGES]; /* result.h's STAGE_TABLE */

    /* The sender's own numbering at frame `next`, with RECORD_SENDER; sequence: 0 where it is not
     * known. */
    uint32_t ssrc, timestamp;
    uint16_t sequence;

    uint32_t chain_before, chain; /* CRC-32C of all samples of the log before `first`; to `next` */

    bool events; /* version 2; else the next four are 0 */
    /* The record with which the newest state of the analyses begins; 0: there is none. */
    uint64_t checkpoint;
    struct record_span analysis;     /* of ANALYSIS alone: wire/logged.h */
    uint32_t mark_count;             /* of DATA alone */
    const struct record_mark *marks; /* writing; reading: NULL, see record_mark_at */
    const uint8_t *mark_bytes;       /* reading */

    /* What follows the header. */
    struct record_span plan;    /* pinned, as text; empty: as before */
    struct record_span filters; /* digest of those in force; empty: as before */
    struct record_span config;  /* digest of the owner's configuration */
    struct record_span worker;  /* the owner's name */
    struct record_span state;   /* the newest change of filters, gains or mutes, for a successor */
    uint32_t range_count;
    const struct record_range *ranges; /* writing; reading: NULL, see record_range_at */
    const uint8_t *range_bytes;        /* reading */
    const uint8_t *samples;            /* [frames][channels] */
};

/* Bytes of one frame's samples. */
static inline uint32_t record_frame_bytes(const struct record *record)
{
    return (uint32_t)record->channels * record->format.bytes;
}

/* Bytes of the record; 0: more than RECORD_BYTES_MAX, or a text longer than 65535 bytes. */
size_t record_bytes(const struct record *record);

/* Writes exactly record_bytes bytes. `chain` is written as it is: see record_chain. */
void record_write(const struct record *record, uint8_t *out);

/*  name, what is wrong with the bytes */
#define RECORD_FAULT_TABLE(X)                                                                      \
    X(NONE, "nothing")                                                                             \
    X(SHORT, "it is shorter than its header says")                                                 \
    X(MAGIC, "it is no record of convolvd")                                                        \
    X(VERSION, "its version is not known here")                                                    \
    X(DAMAGED, "its checksum is wrong")                                                            \
    X(MALFORMED, "its fields contradict each other")

enum record_fault {
#define X(name, sentence) RECORD_FAULT_##name,
    RECORD_FAULT_TABLE(X)
#undef X
        RECORD_FAULTS,
};

const char *record_fault_sentence(enum record_fault fault);

/* Reads a record; what it points to lies in `bytes`. `record` is complete only with
 * RECORD_FAULT_NONE. */
enum record_fault record_read(const uint8_t *bytes, size_t count, struct record *record);

/* Range i of a record that was read, i < range_count. */
struct record_range record_range_at(const struct record *record, uint32_t i);

/* Mark i, likewise. */
struct record_mark record_mark_at(const struct record *record, uint32_t i);

/* The chain behind the record's first `frames` samples. */
uint32_t record_chain(const struct record *record, uint32_t frames);

/* ---- following a log --------------------------------------------------------------------- */

/* Where a reader of one log stands: by frames, never by sequence numbers, which begin anew where a
 * log went back. All zero at the start. */
struct record_position {
    bool started;
    bool ended; /* the epoch has come to its end */
    uint64_t epoch, next;
    uint32_t chain;
};

enum record_step {
    RECORD_NEW,  /* it continues the position: take its samples from *skip on */
    RECORD_SEEN, /* the reader has all of it */
    RECORD_LOST, /* as RECORD_NEW, but frames before it are missing that the log had once: those
                    from the position to `from`, or of epochs between */
    RECORD_FORK, /* it contradicts what was read before: other samples under the same numbers */
};

/*
 * What a record is to a reader at this position, and moves the position behind it unless it is
 * RECORD_SEEN or RECORD_FORK. *skip: how many frames of its samples the reader has already.
 * Checks the chain wherever the record touches the position.
 */
enum record_step record_follow(struct record_position *position, const struct record *record,
                               uint32_t *skip);

#endif
