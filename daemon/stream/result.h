/*
 * What a stream hands to its ports: consecutive output frames with their numbers, times, invalid
 * ranges and latencies. Valid only during the call; a sink that needs the samples later copies
 * them.
 *
 * Where the stream decimates by D, an output frame m is the input frame m·D of its epoch (with
 * `align`: it answers that one), and first_frame, timeline_frame, delay_frames, rate_hz and the
 * invalid ranges all count output frames. Raw input is never decimated.
 */
#ifndef CONVOLVD_STREAM_RESULT_H
#define CONVOLVD_STREAM_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/format.h"
#include "stream/packet.h"

#define STAGE_TABLE(X)                                                                             \
    X(ACCUMULATE, "accumulate") /* first → last frame of the block received */                   \
    X(INGEST, "ingest")         /* → in the ring, reorder wait included */                       \
    X(WAIT, "wait")             /* → submission */                                               \
    X(DEVICE, "device")         /* → completion */                                               \
    X(EGRESS, "egress")         /* → handed to the kernel */

enum stage {
#define X(name, text) STAGE_##name,
    STAGE_TABLE(X)
#undef X
        STAGES,
};

const char *stage_name(enum stage stage);

enum result_flags {
    RESULT_EPOCH_START = 1, /* first frames of an epoch: RTP marker, recordings note it */
    RESULT_EPOCH_END = 2,   /* last frames of an epoch, tail included; without frames (samples NULL)
                             * when the stream had handed on all of them before the epoch ended */
    RESULT_RAW = 4,         /* raw input, wire format, for `record = input` sinks */
    RESULT_MIXED = 8, /* a cross-fade: the samples are the host's, the device holds its two parts */
};

/* Gains and mutes that control has set, beside those of the configuration. */
struct result_gains {
    uint32_t changes;     /* since the stream began: 1, 2, … */
    bool configured;      /* all are as configured again */
    uint32_t outputs;     /* as OSC counts them: a complex output is one */
    const float *factors; /* [outputs], beside the configured gain: 1 leaves it */
    const bool *muted;    /* [outputs] */
    const char *who;      /* who asked for them, as events name him; NULL: nobody */
};

/* How the sender of the input numbers a frame (RTP: its SSRC and time stamp). */
struct result_sender {
    bool known;
    uint32_t id, frame;
};

/* Frames [from, until). */
struct frame_run {
    uint64_t from, until;
};

/* The newest step of a source's times, recognised so far. */
struct result_clock_step {
    uint64_t count;        /* of the stream; 0: there was none, and the rest is not set */
    uint64_t epoch, frame; /* the first frame behind it, numbered like first_frame */
    int64_t step_ns;       /* how much later the times from there on are */
};

struct result {
    uint64_t epoch;          /* 0, 1, … in this run */
    uint64_t record;         /* record number in record mode, else 0 */
    uint64_t first_frame;    /* frame number within the epoch */
    uint64_t timeline_frame; /* the same instant on the stream's one timeline: never repeats,
                                advances by elapsed time across epochs */
    uint32_t frames;
    uint32_t channels; /* floats of a frame */
    uint32_t flags;    /* enum result_flags */
    const float
        *samples; /* [frames][channels], physical units; NULL with RESULT_RAW and with `wire` */
    const uint8_t *raw;  /* RESULT_RAW: [frames] frames of wire bytes; absent frames as zero code */
    const uint8_t *wire; /* [frames][channels] as all sinks of the stream want them (result_wire);
                            NULL: samples */
    struct result_format wire_format;
    uint64_t saturated; /* of wire's samples: clipped by the format */
    double rate_hz;     /* of the output */
    int64_t capture_ns; /* realtime of first_frame */
    enum clock_source clock;
    int64_t clock_error_ns; /* of all frames, counted from capture_ns at rate_hz; CLOCK_FAR_NS and
                               more: not known */
    struct result_clock_step clock_step;
    double delay_frames;   /* filter delay of all stages of the chain so far, in frames at rate_hz;
                              never applied unless `align` */
    bool aligned;          /* the delay has been applied to frame numbers and times */
    const char *taps_hash; /* of the filters, after a change to others than the stream
                            * began with; lives as long as the sinks */
    uint32_t taps_longest; /* likewise */
    const char *taps_who;  /* who asked for that change, as events name him; NULL: nobody. Valid
                              until put returns */
    uint64_t taps_from; /* first frame computed with them (alone, or in a cross-fade); numbered like
                           first_frame */
    const char *device, *driver; /* what computed it, by name, and its driver's version; NULL: raw
                                    input. They live as long as the sinks */
    const struct result_gains *gains; /* NULL: as configured since the stream began; valid until put
                                         returns */
    uint64_t gains_from; /* first frame computed with them; numbered like first_frame */
    const struct invalid_range *invalid; /* numbered like first_frame, clipped to it */
    uint32_t invalid_count;
    /* RESULT_RAW: frames that never came, of which `raw` holds the code of zero; ascending. Those
     * that came and are invalid for another reason are not among them. */
    const struct frame_run *absent;
    uint32_t absent_count;
    struct result_sender sender; /* RESULT_RAW: of first_frame */
    /* Numbered like first_frame, clipped to it; by channel of the input, then by `from`. None where
     * nobody wants them (stream_options.full_scale). */
    const struct input_saturation *saturated_inputs;
    uint32_t saturated_input_count;
    /* Frames of this result that were computed before their whole block had come (idle flush), or
     * depend on such frames upstream: within the error bound, but they may differ in their last
     * bits from those of a run without the flush. Numbered like first_frame; equal: none. Where
     * there are several such runs, this encloses them. */
    uint64_t partial_from, partial_until;
    int64_t stage_ns[STAGES]; /* EGRESS: up to this call */
    int64_t first_receive_ns; /* monotonic: first frame of the block received */
    int64_t last_receive_ns;  /* monotonic: last frame of the block received */
    int64_t delivered_ns;     /* monotonic: this call */
};

#endif
