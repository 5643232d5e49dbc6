/*
 * libconvolv: talk to convolvd from C.
 *
 *   sender    sends sample blocks as a rig does: RTP (RFC 3550), headerless UDP, or UDP with a
 *             64-bit sequence number (GNU Radio's blocks)
 *   receiver  reads a result stream: samples by frame number, invalid frames, capture time and
 *             the latency of each stage, from RTP header extensions (RFC 8285)
 *
 * An object belongs to one thread at a time; different objects share nothing. No call prints, exits
 * or installs signal handlers. The receiver trusts nothing that arrives from the network: it checks
 * every length before it reads, and counts what it rejects by name.
 *
 * A function that can fail returns 0 or a negative enum convolv_error. Where it takes a struct
 * convolv_problem (which may be NULL) it fills in a sentence that says what to do.
 *
 * Build with `pkg-config --cflags --libs --static convolv`; it needs nettle.
 */
#ifndef CONVOLV_H
#define CONVOLV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors ------------------------------------------------------------------------------ */

/*  name, value, sentence */
#define CONVOLV_ERROR_TABLE(X)                                                                     \
    X(ARGUMENT, -1, "an argument is outside its range")                                            \
    X(MEMORY, -2, "out of memory")                                                                 \
    X(SYSTEM, -3, "a system call failed")                                                          \
    X(ADDRESS, -4, "an address could not be used")                                                 \
    X(FILE, -5, "a file could not be read")                                                        \
    X(FORMAT, -6, "data is not in the expected format")

enum convolv_error {
    CONVOLV_OK = 0,
#define X(name, value, sentence) CONVOLV_ERROR_##name = value,
    CONVOLV_ERROR_TABLE(X)
#undef X
};

struct convolv_problem {
    int error;      /* enum convolv_error */
    char text[256]; /* one sentence, no newline */
};

/* The general sentence of the table; "no error" for 0. */
const char *convolv_error_sentence(int error);

/* "0.1.0" */
const char *convolv_version(void);

/* ---- framing ----------------------------------------------------------------------------- */

enum convolv_framing {
    CONVOLV_FRAMING_RTP,          /* RFC 3550; loss, order and restarts are visible */
    CONVOLV_FRAMING_UDP,          /* samples and nothing else: loss cannot be seen */
    CONVOLV_FRAMING_UDP_SEQUENCE, /* 64-bit sequence number, then samples */
};

/* "rtp", "udp", "udp-seq". Returns 0 or CONVOLV_ERROR_ARGUMENT. */
int convolv_framing_parse(const char *name, enum convolv_framing *framing);

/* ---- authentication ---------------------------------------------------------------------- */

/* A secret that sender and receiver share: packets then carry a tag (wire/auth.h, docs/security.md)
 * that proves who sent them, unchanged and for the first time. */
enum { CONVOLV_KEY_BYTES = 32 };

/* Reads a key file: 64 hexadecimal digits, neither readable nor writable by others. */
int convolv_key_read(const char *path, uint8_t key[CONVOLV_KEY_BYTES],
                     struct convolv_problem *problem);

/* ---- sender ------------------------------------------------------------------------------ */

struct convolv_sender;

/* Start from convolv_sender_defaults and set what differs. convolv_sender_open copies the strings.
 */
struct convolv_sender_options {
    const char *address;   /* "host:port", "[v6]:port", a multicast group and port */
    const char *interface; /* for multicast, by name; NULL: the kernel's choice */
    enum convolv_framing framing;
    const char *format;       /* "L16", "L24", "s32be", "f32be", "u8", "s16le", … */
    uint32_t bits;            /* significant bits of the word; 0: all of them */
    bool justify_left;        /* whether fewer bits than the word has are its top ones */
    uint32_t channels;        /* 1…1024 */
    uint32_t packet_frames;   /* frames of a datagram; 0: as many as `mtu` allows */
    uint32_t mtu;             /* bytes of the IP packet, 68…65535 */
    uint32_t payload_type;    /* RTP, 0…127 */
    uint32_t ssrc;            /* RTP */
    uint64_t first_sequence;  /* RTP: low 16 bits */
    uint32_t first_timestamp; /* RTP: time stamp of the first frame */
    bool sequence_big_endian; /* UDP_SEQUENCE; GNU Radio sends the order of its machine, little on
                                 PCs */
    uint32_t ttl;             /* hops of multicast datagrams */
    uint32_t batch;           /* datagrams handed to the kernel at once, 1…1024 */
    bool segment; /* UDP_SEGMENT: let the kernel cut equal datagrams; turned off where unknown */
    uint64_t send_buffer_bytes; /* 0: the system's */
    const uint8_t *key; /* [CONVOLV_KEY_BYTES]: tags every packet of RTP or UDP_SEQUENCE, which
                           takes 24 bytes of it; NULL: no tags */
};

void convolv_sender_defaults(struct convolv_sender_options *options);

/* Datagrams built or emitted = queued + taken by the kernel + failed, at every instant. */
struct convolv_sender_ledger {
    uint64_t built, frames_built; /* convolv_sender_build, convolv_sender_write */
    uint64_t queued;              /* at this instant, not handed over */
    uint64_t datagrams, bytes;    /* taken by the kernel (bytes: UDP payload) */
    uint64_t failed;              /* the kernel would not take them */
    uint64_t refused;             /* times the other side said that nobody listens (ICMP) */
    uint64_t saturated;           /* samples clipped by an integer format */
};

int convolv_sender_open(const struct convolv_sender_options *options, struct convolv_sender **out,
                        struct convolv_problem *problem);

/* Flushes and closes. NULL is fine. */
void convolv_sender_close(struct convolv_sender *sender);

/* Frames of a full datagram, and bytes of a frame on the wire. */
uint32_t convolv_sender_packet_frames(const struct convolv_sender *sender);
uint32_t convolv_sender_frame_bytes(const struct convolv_sender *sender);

/* Sends `frames` frames of normalised samples (-1 … 1; float formats: any value), interleaved
 * [frames][channels], in full datagrams and a shorter last one. `marker` sets the RTP marker bit
 * of the first: a new record. Blocks while the kernel's buffer is full. */
int convolv_sender_write(struct convolv_sender *sender, const double *values, uint64_t frames,
                         bool marker);

/* The same with samples already in the wire's format (see convolv_sender_encode). */
int convolv_sender_write_encoded(struct convolv_sender *sender, const uint8_t *wire,
                                 uint64_t frames, bool marker);

/* Normalised samples to the wire's format: frames · frame_bytes bytes. */
void convolv_sender_encode(struct convolv_sender *sender, const double *values, uint64_t frames,
                           uint8_t *wire);

/* Skips frames that were not acquired: advances the time stamp (RTP). */
void convolv_sender_skip(struct convolv_sender *sender, uint32_t frames);

/* Acts as a restarted rig: new SSRC, sequence number and time stamp from the next datagram on. */
void convolv_sender_restart(struct convolv_sender *sender, uint32_t ssrc, uint64_t sequence,
                            uint32_t timestamp);

/* Passes what is queued to the kernel. convolv_sender_write does so for each full batch. */
int convolv_sender_flush(struct convolv_sender *sender);

void convolv_sender_ledger(const struct convolv_sender *sender,
                           struct convolv_sender_ledger *ledger);

/* For tools that drop, double or delay datagrams on purpose: build makes the next one (at most
 * packet_frames) and counts it as built, and returns its bytes or CONVOLV_ERROR_ARGUMENT when
 * `capacity` is too small; emit queues any bytes as a datagram. */
int convolv_sender_build(struct convolv_sender *sender, const uint8_t *wire, uint32_t frames,
                         bool marker, uint8_t *out, size_t capacity);
int convolv_sender_emit(struct convolv_sender *sender, const uint8_t *datagram, size_t bytes);

/* ---- receiver ---------------------------------------------------------------------------- */

struct convolv_receiver;

enum { CONVOLV_CHANNELS_MAX = 1024, CONVOLV_DATAGRAM_MAX = 65535 };

/* Start from convolv_receiver_defaults, or fill from the daemon's SDP file (convolv_sdp_read). */
struct convolv_receiver_options {
    char address[128];  /* "host:port", "*:port", group:port; "": no socket, convolv_receiver_feed
                           only */
    char interface[32]; /* for multicast, by name; "": the kernel's choice */
    char format[16];    /* "L16", "L24", "s32be", "f32be" */
    uint32_t channels;  /* 1…1024 */
    double rate_hz;
    double full_scale; /* value of the integer code 2^(bits-1); float formats: not used */
    int payload_type;  /* 0…127; -1: the first that arrives */
    uint64_t receive_buffer_bytes; /* asked of the kernel */
    const uint8_t *key; /* [CONVOLV_KEY_BYTES]: rejects packets without the daemon's tag, `key` of
                           its sink; NULL: takes all */
};

void convolv_receiver_defaults(struct convolv_receiver_options *options);

/* Address, format, channels, rate and payload type from an SDP file (RFC 8866) as the daemon writes
 * it. */
int convolv_sdp_read(const char *path, struct convolv_receiver_options *options,
                     struct convolv_problem *problem);
int convolv_sdp_parse(const char *text, size_t bytes, struct convolv_receiver_options *options,
                      struct convolv_problem *problem);

/* Stages of a block's latency, in order of time. */
#define CONVOLV_STAGE_TABLE(X)                                                                     \
    X(ACCUMULATE, "accumulate") /* first to last frame of the block received */                    \
    X(INGEST, "ingest")         /* to the input ring, reorder wait included */                     \
    X(WAIT, "wait")             /* to submission */                                                \
    X(DEVICE, "device")         /* to completion */                                                \
    X(EGRESS, "egress")         /* to the packet being built */

enum convolv_stage {
#define X(name, text) CONVOLV_STAGE_##name,
    CONVOLV_STAGE_TABLE(X)
#undef X
        CONVOLV_STAGES,
};

const char *convolv_stage_name(enum convolv_stage stage);

/* Why frames are invalid: bit 1 << cause of struct convolv_block.causes. */
#define CONVOLV_CAUSE_TABLE(X)                                                                     \
    X(SETTLING, "settling")    /* the filter reaches back before the epoch's first frame */        \
    X(TAIL, "tail")            /* after the epoch's last frame */                                  \
    X(NETWORK, "network")      /* a gap: lost on the way to the daemon */                          \
    X(SOCKET, "socket")        /* a gap: lost in the daemon's receive buffer */                    \
    X(LATE, "late")            /* a gap: came after the reorder window */                          \
    X(OVERLOAD, "overload")    /* a gap or shed blocks: not processed in time */                   \
    X(NONFINITE, "non-finite") /* NaN or infinity in the input */                                  \
    X(FILTER_CHANGE, "filter change")                                                              \
    X(DEVICE, "device")               /* the OpenCL device failed */                               \
    X(UPSTREAM, "upstream")           /* more ranges than an upstream stream could list */         \
    X(CAPTURE, "capture")             /* a gap: lost by the sound card, or while it was away */    \
    X(SENDER, "sender")               /* the sender's frames are not those of the configuration */ \
    X(UNCERTAIN, "device, uncertain") /* results before this block that may be wrong */

enum convolv_cause {
#define X(name, text) CONVOLV_CAUSE_##name,
    CONVOLV_CAUSE_TABLE(X)
#undef X
        CONVOLV_CAUSES,
};

const char *convolv_cause_name(enum convolv_cause cause);

/* One result packet. Pointers are valid until the next call on the receiver. */
struct convolv_block {
    uint64_t first_frame; /* frame number within the epoch */
    uint32_t epoch;       /* runs of frames with one numbering: 0, 1, … */
    uint32_t record;      /* record number (record mode), else 0 */
    uint32_t frames, channels;
    const double *samples; /* [frames][channels], physical values */
    bool described; /* the daemon's header extensions were there; else first_frame counts time
                       stamps from the first packet on and the fields from here to stage_ns are 0 */
    bool epoch_start, epoch_end, aligned;
    bool partial; /* some frames were computed before their whole block had come (`idle flush`):
                     within the error bound, but not bit for bit those of a run without it */
    uint32_t invalid_from,
        invalid_until;  /* frames of this block that enclose the invalid ones; equal: none */
    uint16_t causes;    /* 1 << enum convolv_cause */
    int64_t capture_ns; /* when first_frame was at the converter, ns since the Unix epoch */
    uint8_t clock; /* what that rests on: 0 receive times, 1 the source, 2 declared, 3 converter, 4
                      receive times of GRO batches */
    uint32_t clock_error_ns; /* its bound; UINT32_MAX: not known, or 4.29 s and more */
    double delay_frames;     /* the filter's delay, in frames of this stream; applied to first_frame
                                only when `aligned` */
    uint32_t decimate; /* D: frame m here is the source's frame m·D of the epoch; 1: none was left
                          out, 0: not described */
    int64_t stage_ns[CONVOLV_STAGES];
    int64_t receive_ns; /* when the packet reached this machine's kernel, ns since the Unix epoch */
    uint64_t sequence;  /* extended RTP sequence number */
    uint64_t timestamp; /* extended RTP time stamp */
    bool marker;
    /* Frames [hole_from, hole_until) of this epoch are missing before this block, because the
     * daemon could not compute them, for these causes (1 << enum convolv_cause); equal: none. Where
     * several runs are missing, a block without frames for each one comes before. */
    /* Where CONVOLV_CAUSE_UNCERTAIN is among its causes, those of them that came may be wrong: the
     * daemon has found that their device computed wrong results. */
    uint64_t hole_from, hole_until;
    uint16_t hole_causes;
    bool gain_differs;     /* gains or mutes differ from those of the daemon's configuration */
    uint32_t gain_changes; /* how often they were changed since the stream began */
    uint64_t gain_from; /* those in force apply from this frame of the epoch on; 0 changes: unset */
    uint64_t lost_before; /* packets missing between the previous newest one and this one */
    bool late;            /* older than the newest: fills an earlier gap */
};

/* Why a datagram was rejected: datagrams = accepted + heartbeats + each of these, at every instant.
 */
#define CONVOLV_REJECT_TABLE(X)                                                                    \
    X(MALFORMED, "malformed") /* not RTP, or shorter than it says */                               \
    X(PAYLOAD_TYPE, "payload type")                                                                \
    X(SSRC, "ssrc")           /* another sender; two in order make it the new one */               \
    X(SIZE, "size")           /* not a whole number of frames */                                   \
    X(TRUNCATED, "truncated") /* longer than a datagram can be */                                  \
    X(DUPLICATE, "duplicate")                                                                      \
    X(OLD, "old")       /* too far behind the newest packet to recognise a duplicate */            \
    X(AUTH, "auth")     /* with a key: no tag, or one of another key or packet */                  \
    X(REPLAY, "replay") /* with a key: an authentic packet that was taken before */

enum convolv_reject {
#define X(name, text) CONVOLV_REJECT_##name,
    CONVOLV_REJECT_TABLE(X)
#undef X
        CONVOLV_REJECTS,
};

const char *convolv_reject_name(enum convolv_reject reject);

struct convolv_receiver_ledger {
    uint64_t datagrams; /* read */
    uint64_t accepted;
    uint64_t heartbeats; /* of an idle sender, which next and feed do not return */
    uint64_t rejected[CONVOLV_REJECTS];
    uint64_t kernel_drops;   /* the socket's buffer was full (SO_RXQ_OVFL) */
    uint64_t lost;           /* packets missing by sequence number; a late one reduces it */
    uint64_t reordered;      /* accepted though older than the newest */
    uint64_t senders;        /* SSRCs followed: 1 after the first packet */
    uint64_t frames;         /* received */
    uint64_t frames_lost;    /* missing by frame number inside epochs; a late one reduces it */
    uint64_t frames_invalid; /* within a block's invalid range */
    uint64_t frames_shed;    /* within a hole that a block reported; most are among frames_lost */
    uint64_t epochs;         /* seen */
    uint64_t undescribed;    /* packets without the daemon's header extensions */
    uint64_t receive_buffer_bytes; /* granted */
};

int convolv_receiver_open(const struct convolv_receiver_options *options,
                          struct convolv_receiver **out, struct convolv_problem *problem);
void convolv_receiver_close(struct convolv_receiver *receiver); /* NULL is fine */

/* The socket, for an event loop of your own (readable: call next with timeout_ms 0 until it returns
 * 0); -1: none. */
int convolv_receiver_descriptor(const struct convolv_receiver *receiver);

/* The bound port, for an address with port 0. */
uint16_t convolv_receiver_port(const struct convolv_receiver *receiver);

/* Returns 1 and the next block in order of arrival, 0 when none arrived within timeout_ms (-1:
 * waits without end), or an error. */
int convolv_receiver_next(struct convolv_receiver *receiver, int timeout_ms,
                          struct convolv_block *block);

/*
 * How long nothing has come from the sender that is followed, heartbeats included [ns]; INT64_MAX:
 * nothing has come yet. The daemon sends something at least every second, also while it has no
 * results: when next returns 0 and this is below CONVOLV_DEAD_NS, the source is silent; above, the
 * daemon or the way to it is dead.
 */
int64_t convolv_receiver_quiet_ns(const struct convolv_receiver *receiver);

#define CONVOLV_DEAD_NS INT64_C(3000000000)

/* Feeds one datagram that did not come through the receiver's socket. Returns 1 and a block, or 0
 * when it was a heartbeat or rejected (see the ledger). */
int convolv_receiver_feed(struct convolv_receiver *receiver, const uint8_t *datagram, size_t bytes,
                          int64_t receive_ns, struct convolv_block *block);

void convolv_receiver_ledger(const struct convolv_receiver *receiver,
                             struct convolv_receiver_ledger *ledger);

#ifdef __cplusplus
}
#endif

#endif
