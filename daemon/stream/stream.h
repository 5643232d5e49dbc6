/*
 * A stream: puts the packets of one source into its input ring, decides which blocks are complete,
 * keeps epochs, gaps, invalid ranges, times and ledgers, fills batches when the scheduler asks, and
 * hands results to its ports in frame order.
 *
 * One input ring serves all epochs, one after the other (state.h shows how). A plan may decimate:
 * of D frames it computes one, and results are numbered by those kept. All bookkeeping here
 * (blocks, epochs, ranges, ledgers) counts frames at the input's rate; only what a result says
 * (frame numbers, rate, delay, ranges) counts frames at the output's.
 *
 * A worker thread opens it (WORKER), then the loop thread owns it (LOOP): nothing there allocates,
 * locks or logs per packet or block. Knows nothing of OpenCL or of protocols.
 */
#ifndef CONVOLVD_STREAM_STREAM_H
#define CONVOLVD_STREAM_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "convolve/engine.h"
#include "core/histogram.h"
#include "stream/overload.h"
#include "stream/packet.h"
#include "stream/result.h"
#include "stream/recent.h"

struct stream;

struct stream_options {
    const char *name; /* copied, up to 63 bytes */
    double rate_hz;
    uint32_t channels; /* of the input */
    struct sample_format format;
    uint32_t frame_bytes;
    bool live;        /* the source does not wait: the stream sheds blocks under overload */
    uint8_t priority; /* PRIORITY_LEAST … PRIORITY_MOST: a higher one is shed later */
    bool records;     /* record mode: results carry record numbers */
    bool tail;        /* the S-1 tail frames follow an epoch's end */
    bool converter;   /* the input comes from one: samples at its full scale are overloads */
    bool full_scale;  /* results say what rests on inputs near full scale … */
    const struct channel_scale *scales; /* … of these channels; NULL: as packets say */
    bool align;                         /* apply the delay to frame numbers and times */
    double delay_frames; /* of this stream's filters, in frames at the input's rate, as the next */
    double upstream_delay_frames; /* of the chain before it */
    int64_t reorder_ns;           /* how long the stream awaits a missing frame */
    int64_t max_gap_ns;           /* the ring is made to hold a gap of this length, within reason */
    int64_t idle_flush_ns;        /* silence after which a partial block is processed; 0: never */
    int64_t
        deadline_ns; /* last frame received → handed over; 0: one block period (at least 1 ms) */
    uint64_t ring_frames_min;  /* 0: by rule (history, reorder window, batches in flight, 0.5 s or 8
                                  blocks; less where the input memory has no room) */
    uint32_t blocks_in_flight; /* for the rule */
    const char *filters; /* digest of all that the plan computes, for resume.h; copied; NULL: "" */
};

/* Where results go; every function is called on the loop. */
struct result_port {
    void *context;
    void (*put)(void *context,
                const struct result *result); /* the result is valid until it returns */
    void (*flush)(void *context);             /* after all results of one wake-up; may be NULL */
    uint64_t (*room)(void *context);          /* frames it can take now; NULL: any number */
    bool raw;                                 /* wants RESULT_RAW input instead of results */
};

/* WORKER. The plan stays the caller's; it must outlive the stream's last batch. 0, ERROR_MEMORY, or
 * ERROR_LIMIT when the input memory has no room for the ring. */
int stream_open(struct engine *engine, const struct stream_options *options, struct plan *plan,
                struct stream **out, struct problem *problem);
/* WORKER or LOOP; nothing may be in flight. NULL is fine. */
void stream_close(struct stream *stream);

/* ---- LOOP -------------------------------------------------------------------------------- */

/* Raw ports before the first packet. 0, or ERROR_FULL beyond 16 ports. */
int stream_add_port(struct stream *stream, const struct result_port *port);
/* Whether a port of results has this context. */
bool stream_has_port(const struct stream *stream, const void *context);
/* The port of results with this context gets nothing more. Raw ports stay. */
void stream_remove_port(struct stream *stream, const void *context);

/* `inspect` sees each completed item of one plan whose results are good, before they go to the
 * ports: its ring still holds what the item has read. NULL: nobody. */
void stream_inspect(struct stream *stream,
                    void (*inspect)(void *context, const struct batch_item *item), void *context);

/* Puts a packet of at least one frame into the ring, and says what became of it. */
enum verdict stream_put(struct stream *stream, const struct packet *packet);
/* Frames that a source that waits may put now. */
uint64_t stream_room(const struct stream *stream);
/*
 * The ring slots of the frames from number `first_frame` on, for a source that receives into the
 * ring directly; NULL unless they are empty and free. *frames: in, how many the source wants; out,
 * how many of them lie there without a break. What the source writes there has no effect until it
 * passes this address to stream_put as the payload of a packet with that first_frame, which then
 * copies nothing. Valid until the next call for this stream.
 */
uint8_t *stream_vacant(struct stream *stream, uint64_t first_frame, uint64_t *frames);
/* The source ended: ends the epoch; its tail follows. */
void stream_end(struct stream *stream);
/* The same, where the source has lost its last frames: it ends before packet->first_frame, and
 * packet->invalid tells what of it is lost. The packet holds no frames; its flags may begin the
 * epoch that it ends. */
void stream_end_at(struct stream *stream, const struct packet *packet);
/* The socket dropped `datagrams` before the next packet. */
void stream_socket_drops(struct stream *stream, uint64_t datagrams);
/* `frames` are missing before the next packet, and the source knows why: INVALID_OVERLOAD or
 * INVALID_CAPTURE. */
void stream_lost(struct stream *stream, uint64_t frames, enum invalid_cause cause);
/* The sender never sent frames [from, until), numbered as packets are: missing ones among them are
 * the sender's. Before or after the packets on both sides; not before an epoch begins with one. */
void stream_unsent(struct stream *stream, uint64_t from, uint64_t until);
/* Everything received has been processed, tail included, and handed to the ports. */
bool stream_drained(const struct stream *stream);

/* How the new plan takes over at frame x of the current epoch; see change.h. */
enum change_how {
    CHANGE_HARD,  /* frame x is the new plan's, computed from its true history */
    CHANGE_FADE,  /* frames x … x + F - 1 mix both: (1 - w) old + w new, w a raised cosine */
    CHANGE_CLEAR, /* the new plan reads frames before x as zeros, as at an epoch's start */
};

struct stream_change {
    struct plan
        *plan; /* same inputs, hop, output floats and kept frames; results as before, or floats */
    uint64_t frame; /* x, at the input's rate */
    double delay_frames;
    const char *taps_hash; /* results carry it, see result.h; may be NULL */
    const char *taps_who;  /* likewise; valid until the change after this one has retired */
    const char *filters;   /* as stream_options.filters; valid until the change is through */
    const struct result_gains *gains; /* results carry them from frame x on; NULL: those in force.
                                       * Valid until the change after this one has retired */
    enum change_how how;
    uint32_t fade_frames; /* F, FADE: at least 1 */
    uint64_t since; /* the new plan reads frames of the epoch before this one as zeros; CLEAR: x at
                       least */
    uint32_t faded; /* FADE: so much of F lies before the epoch's frame 0, and x is 0 */
    bool later;     /* x is not known yet: stream_change_place tells it */
    /* FADE where an output is an envelope or results are no floats: the plan in use and the new one
     * with floats, and complex outputs in place of envelopes, which are taken after the mix; else
     * NULL. `forms` are the outputs', and outlive the change. */
    struct plan *raw_old, *raw_new;
    const enum output_form *forms;
    uint32_t forms_count;
    struct stream_ring
        *ring; /* of stream_ring_prepare; NULL: the history fits. Taken over when accepted */
    /* No batch uses the old plans any more. */
    void (*retired)(void *context, struct plan *old);
    void *context;
};

/* Requests the change. 0, or ERROR_ARGUMENT when the frame was submitted already, another change is
 * pending, or the plan differs in more than its filters. */
int stream_change(struct stream *stream, const struct stream_change *exchange);

/* Forgets the pending change whose frame, or the block that it lies in, has not been reached: none
 * of its plans was used, and `retired` is not called for it. A larger ring stays in use.
 * ERROR_ARGUMENT: there is none. */
int stream_change_cancel(struct stream *stream);
/* Of a change that is to come later, before the first packet of an epoch: its frame x there, what
 * of F lies before, and `since`; UINT64_MAX: it begins with a later epoch. Does nothing where there
 * is none. */
void stream_change_place(struct stream *stream, uint64_t frame, uint64_t faded, uint64_t since);
/* What the stream computes now is nobody's: the pending change is through with the next frame to
 * submit, wherever its own lies. */
void stream_change_hurry(struct stream *stream);
/* First frame of the current epoch that a larger ring, once taken, has held. */
uint64_t stream_held_since(const struct stream *stream);

/* What the ring in use is like: all that making another one needs to know of the stream. */
struct ring_like {
    struct stream_options options; /* without a name */
    uint32_t frames, history;
};

/* LOOP. */
struct ring_like stream_ring_now(const struct stream *stream);
/* The larger ring that `plan` needs for its history; *out NULL: the one in use holds it. 0,
 * ERROR_MEMORY or ERROR_LIMIT. WORKER. */
struct stream_ring;
int stream_ring_prepare(struct engine *engine, const struct ring_like *now, const struct plan *plan,
                        struct stream_ring **out, struct problem *problem);
/* The ring that a change replaced, now the caller's; NULL: none. LOOP, after the change retired. */
struct stream_ring *stream_ring_replaced(struct stream *stream);
/* LOOP. Copies about the next `bytes` of what a prepared ring needs of the one in use, so that the
 * change itself has little left to copy. True: all of it is copied, as of now. */
bool stream_ring_copy(struct stream *stream, struct stream_ring *ring, uint64_t bytes);
/* WORKER. NULL is fine. */
void stream_ring_free(struct stream_ring *ring);
/* First frame (at the input's rate) of the current epoch not yet submitted: the earliest frame of a
 * change. */
uint64_t stream_next_frame(const struct stream *stream);
/* The epoch that this frame belongs to. */
uint64_t stream_next_epoch(const struct stream *stream);

/* ---- numbers that outlive a stream ------------------------------------------------------- */

/* What a stream has used of the numbers that its receivers know it by. */
struct stream_numbers {
    uint64_t epochs, records;   /* the numbers of the next ones */
    uint64_t timeline;          /* first timeline frame, at the input's rate, that none has */
    uint64_t anchor;            /* the timeline frame … */
    int64_t anchor_realtime_ns; /* … that was received at this time */
};

/* Those used up to now, the tail of the current epoch included. */
void stream_numbers(const struct stream *stream, struct stream_numbers *numbers);
/* Before the first packet; WORKER too. Epochs and records are numbered from there on, and the
 * timeline goes on by the time that has passed. */
void stream_continue(struct stream *stream, const struct stream_numbers *numbers);

/* ---- for the scheduler ------------------------------------------------------------------- */

/* Gives up on missing frames and flushes idle partial blocks whose time has come. */
void stream_tick(struct stream *stream, int64_t now_ns);
/* When stream_tick has to run next (monotonic), INT64_MAX: not needed. */
int64_t stream_next_tick_ns(const struct stream *stream);
/* Deadline of the oldest work ready to be submitted; INT64_MAX: none ready. */
int64_t stream_ready_deadline_ns(const struct stream *stream);
/* Adds ready work to the batch, at most `budget_ns` of expected device time but at least one block
 * when `first`. What its plan has to have seen of blocks before them (engine_missing) counts, and
 * goes ahead in several batches where it does not fit. Returns the expected device time added (0:
 * nothing added). */
int64_t stream_fill(struct stream *stream, struct batch *batch, int64_t budget_ns, bool first);
/* What stream_fill would take, but for its owner; false: nothing is ready. */
bool stream_work(const struct stream *stream, int64_t now_ns, struct overload_work *work);
/* After batches were submitted: gives up overdue blocks of a live stream that has been behind for
 * too long (overload.h). */
void stream_keep_up(struct stream *stream, int64_t now_ns);
/* The device or this thread stood still: what waits meanwhile is no overload. */
void stream_excuse(struct stream *stream, int64_t now_ns);
/* Takes effect with the next batch. */
void stream_set_priority(struct stream *stream, uint8_t priority);
/* A completed batch's item of this stream: hands the results to the ports. */
void stream_complete(struct stream *stream, const struct batch *batch,
                     const struct batch_item *item);
/* After the ports of all streams were flushed: closes the egress stage of what was completed. */
void stream_flushed(struct stream *stream, int64_t now_ns);
void stream_flush_ports(struct stream *stream);
uint8_t stream_priority(const struct stream *stream);
/* Whether it has been sent more than its declared rate gives, by more than a burst. */
bool stream_is_ahead(const struct stream *stream, int64_t now_ns);
double stream_block_period_ns(const struct stream *stream);
/* Share of its device's time that the stream has had lately, over some 0.4 s. */
double stream_load(const struct stream *stream, int64_t now_ns);
bool stream_is_live(const struct stream *stream);
const char *stream_name(const struct stream *stream);

/* ---- figures ----------------------------------------------------------------------------- */

#define SHED_TABLE(X)                                                                              \
    X(OVERLOAD, "overload")   /* ring full, or behind for too long: oldest blocks given up */      \
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
    /* ledger 4: frames in accepted packets = received + those there already (packets overlap) +
     * those given up before */
    uint64_t carried, overlap, late_parts;
    uint32_t packet_frames; /* of the newest packet; 0: none has come */

    struct result_clock_step
        clock_step;               /* the newest of the source's times; its frame is one of input
                                   */
    uint64_t gap[INVALID_CAUSES]; /* NETWORK, SOCKET, LATE, OVERLOAD, CAPTURE, SENDER used */
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
    uint8_t priority;
    double load, load_worst;
    double fill; /* of the ring, 0…1 */
    uint64_t blocks, deadline_misses;
    uint64_t batches, batches_failed; /* computed; failed by the device, or lost with it */
    double delay_frames;              /* with upstream, in frames at the output's rate */
    uint32_t channels;
    const struct channel_levels *levels; /* [channels] */
    const struct recent *recent;         /* of the channels: recent_read */
    const struct histogram *stages;      /* [STAGES] */
    const struct histogram *total;       /* last frame received → handed over */
};

void stream_stats(const struct stream *stream, struct stream_stats *stats);

/* Held peaks, the worst load and the histograms of latency begin anew; ledgers and levels since the
 * start go on. */
void stream_reset_held(struct stream *stream);

#endif
