/*
 * Resuming: the state of a stream as plain data and as bytes, and another stream that goes on from
 * it in the middle of the epoch. What the second one hands out is to the last bit what the first
 * one would have handed out: frame numbers, samples, invalid ranges, timeline, ledgers.
 *
 *     stream_state_take ─► stream_state_write ─► bytes ─► stream_state_read ─► stream_resume
 *        (LOOP, idle)           (pure)                        (pure)           (LOOP, a new stream)
 *
 * The state is the epoch's numbers, the filters and the plan in force, the counters, what is known
 * of gaps and capture times, and the input frames that results to come still read: `history_frames`
 * of the plan before the block of the next output frame, and everything received since. What a
 * device keeps (tails, a delay line) is rebuilt from those. Latency histograms begin anew.
 *
 * A plan is bit-identical only to itself, so the state pins it: plan_pin names what another process
 * prepares it from. A stream whose plan or device differs resumes too, within the error bound, and
 * flags its first frame `device`.
 *
 * The bytes have a version and a checksum (CRC-32C), which detects damage and no forgery. Reading
 * accepts any bytes: it refuses, with the reason, what no stream could have written.
 */
#ifndef CONVOLVD_STREAM_RESUME_H
#define CONVOLVD_STREAM_RESUME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/digest.h"
#include "stream/ranges.h"
#include "stream/sheds.h"
#include "stream/source_clock.h"
#include "stream/stream.h"

enum {
    STREAM_STATE_VERSION = 3,
    STREAM_STATE_BYTES_MAX = 256 << 20, /* a longer history is not worth carrying */
    STATE_HOLES_MAX = 1024,
    STATE_GAPS_MAX = 128,
    STATE_UNSENT_MAX = 1024,
    PIN_VARIANT = 32,
    PIN_DEVICE = 192,
};

/* What a plan's results depend on to the last bit, beside its filters. */
struct plan_pin {
    char variant[PIN_VARIANT], device[PIN_DEVICE]; /* device: name and driver */
    uint32_t hop, fft, partitions, vector, items;
    uint32_t decimate, decimate_phase;
    uint32_t taps_longest, history; /* frames */
    uint32_t outputs, output_floats;
};

/* Frames [from, until) are missing and still awaited; seen_ns: monotonic. So many of them are known
 * to be lost. */
struct state_hole {
    uint64_t from, until;
    int64_t seen_ns;
    uint64_t overload_debt, socket_debt, capture_debt;
};

/* Frames [from, until) were given up as lost on the network, or were never sent. */
struct state_gap {
    uint64_t from, until;
};

struct state_epoch {
    uint64_t number, record;
    uint64_t source_origin, timeline_base; /* of frame 0 */
    uint64_t head, settled, next;          /* next: first output frame not yet handed out */
    uint64_t output_end;                   /* ended: frames of output, all handed out */
    uint64_t raw_next, flush_until, cleared_frame, taps_from;
    uint64_t absent_until, nonfinite_until; /* frames; 0: none in this epoch */
    bool ended, announced, end_told;
    bool capture_known;
    uint64_t capture_frame;
    double capture_rate_hz;
    int64_t capture_ns, capture_error_ns;
    struct capture_before before;
    uint32_t clock;
};

/* A change of filters that was requested and is not through. */
struct state_change {
    bool pending, begun, forgets;
    uint32_t how; /* enum change_how */
    uint32_t fade_frames;
    uint64_t epoch, frame;
};

struct stream_state {
    /* what it is the state of */
    double rate_hz;
    uint32_t channels, frame_bytes;
    struct sample_format format;
    bool records, align, tail;
    struct plan_pin plan;
    char filters[DIGEST_TEXT]; /* in force: stream_options.filters, or the last change's */

    /* numbers and counters */
    uint64_t epochs, record_count;
    struct stream_stats stats; /* counters only; the measured figures and pointers are unset */
    struct channel_levels levels[CHANNELS_MAX];

    /* the newest epoch */
    bool begun; /* false: no epoch has begun, and nothing below is set */
    struct state_epoch epoch;
    struct ranges invalid, raw_invalid; /* of results; of raw input not yet handed on */
    struct ranges lost;                 /* input that may be missing, with its causes */
    struct ranges partial_output;       /* results not handed out that will be partial */
    uint32_t shed_count;
    struct invalid_range sheds[SHEDS_MAX]; /* not yet reported */
    struct state_change change;
    uint32_t hole_count, gap_count, unsent_count;
    struct state_hole holes[STATE_HOLES_MAX];
    struct state_gap gaps[STATE_GAPS_MAX], unsent[STATE_UNSENT_MAX];
    uint64_t socket_debt, overload_debt, capture_debt;
    bool partial_valid; /* a block was handed out in part */
    uint64_t partial_block;
    struct block_report partial[CHANNELS_MAX];

    /* time: monotonic, of the process that took the state */
    uint32_t begin_flags, packet_frames;
    int64_t last_receive_ns, offset_ns; /* offset: realtime − monotonic */
    struct source_clock clock;
    struct result_clock_step clock_step; /* the newest, for results */

    /* frames [from, until) of the epoch */
    uint64_t from, until;
    const uint8_t *bytes;    /* read: [until - from][frame_bytes] */
    const uint8_t *present;  /* read: bit i % 8 of byte i / 8 */
    const struct ring *ring; /* taken: they lie there, frame `from` at `position` */
    uint64_t position;
};

/* What of a plan on this device a state pins. ANY. */
void plan_pin_of(const struct plan_info *info, const struct device_info *device,
                 struct plan_pin *pin);
/* Makes the specification ask for exactly that plan. ANY. */
void plan_pin_apply(const struct plan_pin *pin, struct plan_spec *spec);

/* LOOP. Holds the stream, or releases it: a held stream takes input and submits nothing. Two
 * streams need it: one whose state is to be taken although input still waits, and its successor, as
 * long as results of the first one are on their way. */
void stream_hold(struct stream *stream, bool held);

/* LOOP. True when a state can be taken: nothing is in flight, and every epoch but an open one has
 * been handed out, tail included. */
bool stream_quiet(const struct stream *stream);
/* LOOP, quiet. The state as of now, valid until the stream is called again. */
void stream_state_take(const struct stream *stream, struct stream_state *state);

/* LOOP, quiet. Another stream goes on from the state just taken: this one hands out nothing more,
 * and is drained. */
void stream_leave(struct stream *stream);

/* Pure, any thread. How many bytes it has; 0: more than STREAM_STATE_BYTES_MAX. */
size_t stream_state_bytes(const struct stream_state *state);
/* Writes exactly stream_state_bytes bytes. */
void stream_state_write(const struct stream_state *state, uint8_t *bytes);
/* Reads what stream_state_write has written; `state` points into `bytes`. 0, or ERROR_FORMAT or
 * ERROR_UNSUPPORTED (another version) with the reason; never trusts a byte. */
int stream_state_read(const uint8_t *bytes, size_t count, struct stream_state *state,
                      struct problem *problem);

/*
 * LOOP. A stream just opened, into which nothing was put, goes on from the state; copies what it
 * keeps. `change`: the change that was pending, with its plans again; NULL: none was. 0, or
 * ERROR_UNSUPPORTED with the reason when the state is not one of this stream: other rate, channels,
 * format, filters, blocks or decimation, or a ring too small. The stream is as before then.
 */
int stream_resume(struct stream *stream, const struct stream_state *state,
                  const struct stream_change *change, struct problem *problem);

#endif
