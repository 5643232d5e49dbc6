/*
 * A stream: places the packets of one source in its input ring, decides which blocks are
 * complete, keeps epochs, gaps, invalid ranges, times and ledgers, fills batches when the
 * scheduler asks, and hands results to its ports in frame order.
 *
 * One line of ring positions carries all epochs: an epoch's frame n lies at position
 * base + n, and between two epochs lie enough absent frames for the tail of the one and the
 * zero history of the other. Nothing is allocated, locked or logged per block.
 *
 * A plan may decimate: of D frames it computes one, and results are numbered by those kept. All
 * bookkeeping here (blocks, epochs, ranges, ledgers) goes on in frames at the input's rate; only
 * what a result says (frame numbers, rate, delay, ranges) is in frames at the output's.
 *
 * Made on a worker thread (stream_open), then owned by the loop thread. Knows nothing of
 * OpenCL or of protocols.
 */
#ifndef CONVOLVD_STREAM_STREAM_H
#define CONVOLVD_STREAM_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "convolve/engine.h"
#include "core/histogram.h"
#include "stream/packet.h"
#include "stream/result.h"

struct stream;

struct stream_options {
    const char *name; /* outlives the stream */
    double rate_hz;
    uint32_t channels; /* of the input */
    struct sample_format format;
    uint32_t frame_bytes;
    bool live;           /* the source does not wait: overload sheds blocks */
    bool records;        /* record mode: results carry record numbers */
    bool tail;           /* the S-1 tail frames follow an epoch's end */
    bool converter;      /* the input comes from one: samples at its full scale are overloads */
    bool align;          /* apply the delay to frame numbers and times */
    double delay_frames; /* of this stream's filters, in frames at the input's rate, as the next */
    double upstream_delay_frames; /* of the chain before it */
    int64_t reorder_ns;           /* how long a missing frame is awaited */
    int64_t max_gap_ns;           /* the ring is made to hold a gap of this length, within reason */
    int64_t idle_flush_ns;        /* silence after which a partial block is processed; 0: never */
    int64_t
        deadline_ns; /* last frame received → handed over; 0: one block period (at least 1 ms) */
    uint64_t ring_frames_min;  /* 0: by rule (history, reorder window, batches in flight, 0.5 s or 8
                                  blocks) */
    uint32_t blocks_in_flight; /* for the rule */
};

/* Where results go; loop thread. */
struct result_port {
    void *context;
    void (*put)(void *context, const struct result *result);
    void (*flush)(void *context);    /* after all results of one wake-up; may be NULL */
    uint64_t (*room)(void *context); /* frames it can take now; NULL: any number */
    bool raw;                        /* wants RESULT_RAW input instead of results */
};

/* WORKER. The plan stays the caller's; it must outlive the stream's last batch. */
int stream_open(struct engine *engine, const struct stream_options *options, struct plan *plan,
                struct stream **out, struct problem *problem);
/* WORKER or LOOP; nothing may be in flight. NULL is fine. */
void stream_close(struct stream *stream);

/* ---- LOOP -------------------------------------------------------------------------------- */

/* At most 16 ports; raw ones before the first packet. */
int stream_add_port(struct stream *stream, const struct result_port *port);
/* The port with this context gets nothing more; ports of results only (not raw). */
void stream_remove_port(struct stream *stream, const void *context);

enum verdict stream_put(struct stream *stream, const struct packet *packet);
uint64_t stream_room(const struct stream *stream);
/*
 * Where the frames from `place` on would lie: slots of the ring that are empty and free, for a
 * source that may receive into them. *frames: wanted, becomes how many of them lie there in one
 * piece. NULL: none. What is written there counts for nothing until stream_put is given this
 * address as the payload of a packet of that place (it is then not copied). Valid until the next
 * call for this stream.
 */
uint8_t *stream_vacant(const struct stream *stream, uint64_t place, uint64_t *frames);
/* The source ended: close the epoch, its tail follows. */
void stream_end(struct stream *stream);
/* `datagrams` were dropped by the socket before the next packet. */
void stream_socket_drops(struct stream *stream, uint64_t datagrams);
/* `frames` are missing before the next packet, and the source knows why: INVALID_OVERLOAD or
 * INVALID_CAPTURE. */
void stream_lost(struct stream *stream, uint64_t frames, enum invalid_cause cause);
/* Everything received has been processed, tail included, and handed to the ports. */
bool stream_drained(const struct stream *stream);

/* From frame x of the current epoch on another plan is used. What lies between: */
enum change_how {
    CHANGE_HARD,  /* nothing: frame x comes from the new plan and its true history */
    CHANGE_FADE,  /* frames x … x + F - 1 mix both: (1 - w) old + w new, w a raised cosine */
    CHANGE_CLEAR, /* the new plan sees silence before frame x, as at an epoch's start */
};

struct stream_change {
    struct plan
        *plan; /* same inputs, hop, output floats and kept frames; results as before, or floats */
    uint64_t frame; /* x, at the input's rate */
    double delay_frames;
    const char *taps_hash; /* handed on with results, see there; may be NULL */
    enum change_how how;
    uint32_t fade_frames; /* F, FADE: at least 1 */
    /* FADE where an output is an envelope or results are no floats: the plan in use and the new one
     * with floats, and complex outputs in place of envelopes, which are taken after the mix; else
     * NULL. `forms` are the outputs', and outlive the exchange. */
    struct plan *raw_old, *raw_new;
    const enum output_form *forms;
    uint32_t forms_count;
    struct stream_ring
        *ring; /* of stream_ring_prepare; NULL: the history fits. Taken over when accepted */
    /* No batch uses the old plans any more. */
    void (*retired)(void *context, struct plan *old);
    void *context;
};

/* ERROR_ARGUMENT when the frame has already been submitted, an exchange is pending, or the plan is
 * not alike. */
int stream_change(struct stream *stream, const struct stream_change *exchange);

/* The larger ring that `plan` needs for its history; *out NULL: the one in use holds it. WORKER. */
struct stream_ring;
int stream_ring_prepare(const struct stream *stream, const struct plan *plan,
                        struct stream_ring **out, struct problem *problem);
/* The ring that an exchange has replaced, once it is retired; NULL: none. LOOP. */
struct stream_ring *stream_ring_replaced(struct stream *stream);
/* WORKER. NULL is fine. */
void stream_ring_free(struct stream_ring *ring);
/* First frame (at the input's rate) of the current epoch not yet submitted: the earliest a change
 * can take. */
uint64_t stream_next_frame(const struct stream *stream);

/* ---- for the scheduler ------------------------------------------------------------------- */

/* Gives up on missing frames and flushes idle partial blocks whose time has come. */
void stream_tick(struct stream *stream, int64_t now_ns);
/* When stream_tick has to run next (monotonic), INT64_MAX: not needed. */
int64_t stream_next_tick_ns(const struct stream *stream);
/* Deadline of the oldest work ready to be submitted; INT64_MAX: none ready. */
int64_t stream_ready_deadline_ns(const struct stream *stream);
/* Adds ready work to the batch, at most `budget_ns` of expected device time but at least one block
 * when `first`. Returns the expected device time added (0: nothing added). */
int64_t stream_fill(struct stream *stream, struct batch *batch, int64_t budget_ns, bool first);
/* A completed batch's item of this stream: hands the results to the ports. */
void stream_complete(struct stream *stream, const struct batch *batch,
                     const struct batch_item *item);
/* After the ports of all streams were flushed: closes the egress stage of what was completed. */
void stream_flushed(struct stream *stream, int64_t now_ns);
void stream_flush_ports(struct stream *stream);
double stream_block_period_ns(const struct stream *stream);
bool stream_is_live(const struct stream *stream);
const char *stream_name(const struct stream *stream);

/* ---- what is known ----------------------------------------------------------------------- */

#define SHED_TABLE(X)                                                                              \
    X(OVERLOAD, "overload")   /* ring full: oldest blocks given up */                              \
    X(DEVICE, "device")       /* the device failed the batch */                                    \
    X(ALIGNED, "aligned")     /* before the first aligned frame */                                 \
    X(DECIMATED, "decimated") /* between the frames that `decimate` keeps: by design */            \
    X(STOPPED, "stopped")     /* the second SIGTERM */

enum shed {
#define X(name, text) SHED_##name,
    SHED_TABLE(X)
#undef X
        SHEDS,
};

const char *shed_name(enum shed shed);

struct channel_levels {
    uint64_t frames; /* present frames seen */
    double sum, sum_squares, peak;
    uint64_t overload, nonfinite;
};

struct stream_stats {
    /* ledger 2: timeline_in = received + awaited + gap[…] */
    uint64_t timeline_in, received, awaited;
    uint64_t gap[INVALID_CAUSES]; /* NETWORK, SOCKET, LATE, OVERLOAD, CAPTURE used */
    /* ledger 3: timeline_out = out + waiting + submitted + shed[…], all in frames at the input's
     * rate */
    uint64_t timeline_out, waiting, submitted, out;
    uint64_t shed[SHEDS];
    uint64_t epochs, records;
    uint64_t invalid[INVALID_CAUSES]; /* output frames flagged, by cause (those kept, where there is
                                         decimation) */
    uint64_t invalid_frames;          /* output frames flagged at all */
    int64_t last_gap_realtime_ns;     /* 0: none */
    uint64_t last_frame;              /* newest frame received, in its epoch */
    int64_t last_frame_ns;            /* monotonic */
    double rate_hz, rate_ppm, jitter_ns; /* measured */
    bool rate_known;
    double load, load_worst;
    double fill; /* of the ring, 0…1 */
    uint64_t blocks, batches, deadline_misses;
    double delay_frames; /* with upstream, in frames at the output's rate */
    uint32_t channels;
    const struct channel_levels *levels; /* [channels] */
    const struct histogram *stages;      /* [STAGES] */
    const struct histogram *total;       /* last frame received → handed over */
};

void stream_stats(const struct stream *stream, struct stream_stats *stats);

#endif
