/*
 * What a source hands to a stream: a run of frames, the number of the first one, and when it was
 * received; and what the stream says became of it. Sources validate the fields (a payload holds
 * exactly `frames` frames); the stream trusts them.
 *
 * Also the causes of invalid frames and the clocks of capture times, which results share.
 */
#ifndef CONVOLVD_STREAM_PACKET_H
#define CONVOLVD_STREAM_PACKET_H

#include <stdbool.h>
#include <stdint.h>

/* Why frames of a result are invalid. Packet headers, sidecars and status name them so. */
#define INVALID_TABLE(X)                                                                           \
    X(SETTLING, "settling")    /* S-1 frames at the start of an epoch */                           \
    X(TAIL, "tail")            /* S-1 frames after its end */                                      \
    X(NETWORK, "network")      /* a gap: lost on the way */                                        \
    X(SOCKET, "socket")        /* a gap: lost in the receive buffer */                             \
    X(LATE, "late")            /* a gap: received after the reorder window */                      \
    X(OVERLOAD, "overload")    /* a gap or shed blocks: not processed in time */                   \
    X(NONFINITE, "non-finite") /* NaN or infinity in the input */                                  \
    X(FILTER_CHANGE, "filter change")                                                              \
    X(DEVICE, "device")               /* the device failed */                                      \
    X(UPSTREAM, "upstream")           /* more ranges than a list could hold */                     \
    X(CAPTURE, "capture")             /* a gap: lost by the sound card, or while it was away */    \
    X(SENDER, "sender")               /* the sender's frames are not those of the configuration */ \
    X(UNCERTAIN, "device, uncertain") /* delivered before the device was found to compute wrong */

enum invalid_cause {
#define X(name, text) INVALID_##name,
    INVALID_TABLE(X)
#undef X
        INVALID_CAUSES,
};

const char *invalid_cause_name(enum invalid_cause cause);

/* Frames [from, until) of a numbering, with their cause. Ranges of different causes may overlap. */
struct invalid_range {
    uint64_t from, until;
    enum invalid_cause cause;
};

/* Frames [from, until) that rest on a sample of this input channel with a code at 95 % of full
 * scale or more. */
struct input_saturation {
    uint64_t from, until;
    uint32_t channel;
};

/* Which clock a capture time comes from. */
#define CLOCK_TABLE(X)                                                                             \
    X(RECEIVE, "receive")     /* receive times smoothed by a robust line */                        \
    X(SOURCE, "source")       /* given by the rig or the file */                                   \
    X(DECLARED, "declared")   /* a recording without times: start of replay + n / rate */          \
    X(CONVERTER, "converter") /* time stamps of the converter (ADC) */                             \
    X(GRO, "receive batch")   /* receive times, one for a whole GRO batch of datagrams */

enum clock_source {
#define X(name, text) CLOCK_SOURCE_##name,
    CLOCK_TABLE(X)
#undef X
        CLOCK_SOURCES,
};

const char *clock_source_name(enum clock_source source);

enum packet_flags {
    PACKET_DISCONTINUITY = 1, /* begins a new epoch at this packet */
    PACKET_RECORD = 2,        /* begins a new record (a new epoch with a record number) */
    PACKET_LAST = 4,          /* ends the epoch: the tail follows */
    PACKET_CAPTURE = 8,       /* capture_ns is known by the source */
    PACKET_TIMED =
        32, /* frame numbers advance by elapsed time, also over jumps: the timeline follows them */
    PACKET_RESULT = 64,  /* the payload lies in a batch of an engine: another stream's results */
    PACKET_SENDER = 128, /* first_frame is the sender's own number, continued beyond 32 bits */
};

struct packet {
    uint64_t first_frame; /* number of the first frame, as the source counts in 64 bits */
    uint32_t frames;
    uint32_t flags;         /* enum packet_flags */
    uint32_t sender;        /* PACKET_SENDER: whose (RTP: its SSRC) */
    const uint8_t *payload; /* frames · frame_bytes bytes, the wire's format */
    int64_t receive_ns;     /* monotonic: when it reached the kernel (or was produced) */
    uint32_t
        frames_behind; /* that reached it with this one, behind it: one stamp covers a GRO batch */
    int64_t receive_realtime_ns;
    int64_t capture_ns;                  /* realtime of the first frame when PACKET_CAPTURE */
    enum clock_source clock;             /* GRO: receive_ns covers several datagrams */
    int64_t clock_error_ns;              /* bound, when PACKET_CAPTURE */
    const struct invalid_range *invalid; /* in the same numbering; chains */
    uint32_t invalid_count;
    uint64_t partial_from, partial_until;     /* likewise, see result.h */
    const struct input_saturation *saturated; /* likewise, of this packet's channels; chains */
    uint32_t saturated_count;
};

/* What became of a packet; the source counts it under the same name. */
enum verdict {
    VERDICT_ACCEPTED,      /* at least one frame was new */
    VERDICT_DUPLICATE,     /* every frame was there already */
    VERDICT_LATE,          /* every frame had been given up */
    VERDICT_OUT_OF_WINDOW, /* beyond what the ring can hold */
    VERDICT_REFUSED,       /* the stream is stopping */
    VERDICTS,
};

#endif
