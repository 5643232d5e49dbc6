/*
 * The state of one stream, shared by the modules of this folder; nobody outside includes it.
 *
 * All epochs of a stream share its input ring. A position is a 64-bit number on one endless line:
 * position p lies in ring slot p mod R. Frame n of an epoch lies at position base + n. Before an
 * epoch's base lie enough absent frames for the tail of the epoch before it and for its own history
 * of zeros:
 *
 *   positions  ──►  … │ epoch e │ absent: tail of e, history of e + 1 │ epoch e + 1 │ …
 *                     base       base + head                           base'
 *
 * stream_open fills everything on a worker thread; from then on only the loop thread touches it.
 */
#ifndef CONVOLVD_STREAM_STATE_H
#define CONVOLVD_STREAM_STATE_H

#include "core/digest.h"
#include "signal/decimation.h"
#include "stream/ranges.h"
#include "stream/recent.h"
#include "stream/sheds.h"
#include "stream/source_clock.h"
#include "stream/stream.h"

struct stream_watch;

/* Position of the first epoch: no history that a plan may read reaches below 0. */
static const uint64_t FIRST_POSITION = UINT64_C(1) << 24;

enum {
    PORTS_MAX = 16,
    EPOCHS_MAX = 64,        /* begun and not yet fully delivered; a power of two */
    HOLES_MAX = 1024,       /* a power of two */
    FLIGHTS_MAX = 256,      /* items submitted and not completed; a power of two */
    RESULT_RANGES_MAX = 32, /* invalid ranges of one result */
    EGRESS_MAX = 1024,      /* blocks delivered between two flushes that are timed */
    UNSENT_MAX = 1024,      /* runs that the sender never sent; a power of two */
    GAPS_MAX = 128,         /* newest network gaps, kept because their frames may still come late */
    RAW_EPOCHS_MAX = 8,     /* whose raw input is not handed on whole; a power of two */
};

/* Numbers of lost frames; which frames these are is not known. */
struct gap_debts {
    uint64_t overload; /* refused for lack of room */
    uint64_t socket;   /* the socket dropped them */
    uint64_t capture;  /* the converter lost them */
};

/* A run of missing frames below the newest one: frames [from, until) of the newest epoch. */
struct hole {
    uint64_t from, until;
    int64_t seen_ns;        /* monotonic: when a frame beyond it was received */
    struct gap_debts debts; /* reported between the packets on both sides of the hole */
};

/* Frames [from, until) of the newest epoch, which the sender never sent. */
struct unsent {
    uint64_t from, until;
};

/* Frames [from, until) of an epoch, given up as lost on the network. */
struct gap {
    uint64_t epoch, from, until;
};

/* When the frames of a block were received; monotonic. */
struct block_times {
    int64_t first_ns, last_ns; /* its first and its last frame */
    int64_t ready_ns;          /* the block was complete in the ring */
};

struct epoch {
    /* where it lies */
    uint64_t number, record;
    uint64_t base;          /* ring position of frame 0 */
    uint64_t source_origin; /* the source's number of frame 0 */
    bool sender_known;      /* … which is the sender's own */
    uint32_t sender;
    uint64_t timeline_base; /* timeline number of frame 0, a multiple of D */

    /* input */
    uint64_t head;    /* first frame after the newest received */
    uint64_t settled; /* frames below are present or given up */
    uint64_t
        absent_until; /* ring position: absent frames lie only below (holes, history of zeros) */
    bool ended;
    uint64_t flush_until;   /* idle flush: output is due up to here even inside a block */
    uint64_t cleared_frame; /* a clear change made the frames before it, within their block, silent
                               after that block's report was taken; 0: none */

    /* output, counted at the input's rate */
    uint64_t output_end;    /* ended: frames of output, tail included */
    uint64_t submitted;     /* first frame not yet in a batch or shed */
    uint64_t delivered;     /* first frame not yet handed to the ports */
    uint64_t raw_delivered; /* first frame of input not yet handed to the raw ports */
    bool announced;         /* a result with RESULT_EPOCH_START went out */
    bool end_told;          /* one with RESULT_EPOCH_END did, or there was nothing to tell */
    uint64_t taps_from;     /* first frame of the filters in use */
    uint64_t gains_from;    /* first frame of the gains in force */
    struct ranges invalid;  /* in output frames at the input's rate */

    /* capture time; while unknown the stream's source clock gives it */
    bool capture_known;     /* the source gave it, or the line it came from was reset */
    uint64_t capture_frame; /* captured at capture_ns; other frames follow by capture_rate_hz */
    double capture_rate_hz;
    int64_t capture_ns, capture_error_ns;
    enum clock_source clock;
    struct capture_before before; /* earlier frames, where times that the source gives step */
};

/* One submitted run of blocks of one epoch. */
struct flight {
    struct epoch *epoch;
    uint64_t from, until; /* output frames at the input's rate */
    uint64_t first_block;
    uint32_t blocks; /* 0: none, only what its plan has to have seen of blocks before them */
    double delay_frames;
    uint64_t low;          /* lowest ring position the item reads */
    struct plan *retiring; /* the plan that this item is the last to use; NULL: none */
    const char *taps_hash; /* of the plan of its last frame; NULL: no change so far */
    const char *taps_who;  /* likewise */
    uint32_t taps_longest;
    uint64_t taps_from;               /* the first frame of that plan */
    const struct result_gains *gains; /* likewise; NULL: as configured */
    uint64_t gains_from;
    bool mixed;          /* a cross-fade: the item before this one holds the old plan's samples */
    uint64_t fade_frame; /* first frame of the cross-fade */
    uint32_t fade_frames;
    const enum output_form *forms; /* of the outputs, where the mix takes envelopes; else NULL */
    uint32_t forms_count;
    bool reported; /* an earlier item reported the whole of the first block */
    bool repeated; /* move.c: its device is lost, and another one computes it */
};

/* A delivered block whose egress stage the next flush ends. */
struct egress_mark {
    int64_t completed_ns, last_receive_ns;
};

struct stream {
    /* immutable after stream_open */
    struct stream_options options;
    char name[64];
    struct engine *engine;
    uint32_t hop;
    uint32_t output_channels; /* floats of an output frame */
    struct decimation kept;   /* which frames of an epoch the plan computes */
    double period_ns;         /* of a block */
    int64_t deadline_ns;
    int64_t patience_ns; /* how far it may fall behind before blocks are given up */

    /* blocks.c, room.c; the priority is in the options */
    struct overload_share share;

    /* ports.c */
    struct result_port ports[PORTS_MAX];
    int port_count;
    void (*inspect)(void *context, const struct batch_item *item); /* NULL: nobody */
    void *inspect_context;
    const struct stream_watch *watch; /* NULL: nobody */
    bool shows;                       /* it has noted something that it has not looked at */
    const struct batch *completing;   /* whose results are handed on; NULL: none */
    bool has_raw, has_room; /* some port takes raw input; some port limits what it takes */

    /* input_ring.c; change.c replaces them while the stream runs */
    struct ring *ring;
    uint32_t history;             /* frames before a block that any plan of this stream may read */
    uint64_t jump_max;            /* frames a gap may span before it becomes a discontinuity */
    struct block_times *times;    /* [times_mask + 1], see block_times_of */
    uint64_t times_mask;          /* a power of two less 1 */
    bool halted, paused;          /* move.c: nothing is submitted */
    bool held;                    /* resume.c: likewise */
    struct stream_ring *old_ring; /* replaced; kept until the change is through */

    /* change.c: the plan in use and the change to the next one */
    struct plan *plan;
    uint32_t taps_longest;
    double delay_frames;
    const char *taps_hash, *taps_who; /* of `plan`; NULL before the first change */
    const struct result_gains *gains; /* of `plan`; NULL: as configured */
    char filters[DIGEST_TEXT];        /* of `plan` */
    struct stream_change next;        /* its plan NULL: no change pending */
    uint64_t change_epoch;            /* UINT64_MAX: not known yet */
    uint64_t held_from;       /* position: a larger ring that was taken holds nothing below */
    bool change_begun;        /* its frame was reached; what it makes invalid is flagged */
    bool change_prepared;     /* blocks of its plan are or were in flight */
    bool change_forgets;      /* presence bits before its frame must be cleared first */
    uint64_t nonfinite_until; /* ring position after the last sample that was not finite */
    double peak_most;         /* the largest finite sample so far, in any channel */

    struct stream_numbers before; /* of the stream that this one continues; epochs 0: none */

    /* epochs.c: begun and not yet fully delivered, [epoch_first, epoch_next) mod EPOCHS_MAX */
    struct epoch epochs[EPOCHS_MAX];
    uint64_t epoch_first, epoch_next;

    /* presence.c and blocks.c */
    uint64_t cleared_until; /* ring positions below have valid presence bits */
    uint64_t vacant_until;  /* no source was given a place at or behind this position to write to */
    uint64_t fresh_until;   /* ring positions below were in a batch's fresh frames: the device has
                               them */

    /* gaps.c and ingest.c add: what of an epoch's input is invalid and not yet handed to the raw
     * ports; frames of input, not spread by the taps. See raw_invalid_of */
    struct ranges raw_invalid[RAW_EPOCHS_MAX];

    /* gaps.c: holes of the newest epoch, oldest first, and what is known of frames that are not yet
     * part of a hole or a gap */
    struct hole holes[HOLES_MAX];
    uint32_t hole_first, hole_next;
    struct gap gaps[GAPS_MAX];
    uint32_t gap_next;
    struct ranges lost_upstream; /* newest epoch: reported by upstream results, each with its cause,
                                    and refused for lack of space */
    struct unsent unsent[UNSENT_MAX];
    uint32_t unsent_first, unsent_next;
    struct gap_debts debts; /* reported since the newest packet that made the epoch longer */

    /* ingest.c */
    uint32_t begin_flags;   /* flags of a refused packet, which the next one must carry out */
    uint32_t packet_frames; /* of the newest packet */
    struct source_clock clock;
    struct result_clock_step clock_step; /* the newest; its frame is one of input */
    int64_t last_receive_ns;
    int64_t offset_ns; /* realtime − monotonic at the newest packet */

    /* blocks.c and deliver.c: submitted items, oldest first */
    struct flight flights[FLIGHTS_MAX];
    uint32_t flight_first, flight_next;

    /* room.c and deliver.c add, ports.c takes: shed and not reported yet, at the input's rate */
    struct sheds sheds;

    /* blocks.c and ingest.c add: output that is partial (result.h) and not delivered yet, as ring
     * positions; the cause means nothing */
    struct ranges partial_output;

    struct full_scale *full_scale; /* NULL: nobody wants it */

    /* deliver.c */
    struct block_report *partial; /* [channels]: reports of a block submitted in part, subtracted
                                     when the whole block is reported */
    bool partial_valid;
    uint64_t partial_block;
    struct egress_mark egress[EGRESS_MAX];
    uint32_t egress_count;

    /* figures */
    struct stream_stats stats;
    struct channel_levels *levels; /* [channels] */
    struct recent *recent;
    struct histogram stages[STAGES];
    struct histogram total;
    double load;
};

static inline struct epoch *epoch_at(struct stream *s, uint64_t index)
{
    return &s->epochs[index % EPOCHS_MAX];
}

/* The newest epoch; NULL before the first. */
static inline struct epoch *epoch_newest(struct stream *s)
{
    return s->epoch_first == s->epoch_next ? NULL : epoch_at(s, s->epoch_next - 1);
}

/* The epoch that packets belong to; NULL when none is open. */
static inline struct epoch *epoch_open(struct stream *s)
{
    struct epoch *e = epoch_newest(s);
    return e == NULL || e->ended ? NULL : e;
}

/* Of the newest epoch, or of one whose raw input is not handed on whole. */
static inline struct ranges *raw_invalid_of(struct stream *s, const struct epoch *e)
{
    return &s->raw_invalid[e->number % RAW_EPOCHS_MAX];
}

static inline struct block_times *block_times_of(struct stream *s, const struct epoch *e,
                                                 uint64_t block)
{
    /* Bases of epochs lie at least a block apart, so no two live blocks share an entry. */
    return &s->times[(e->base / s->hop + block) & s->times_mask];
}

/* First frame of the block that `frame` lies in. */
static inline uint64_t block_start(const struct stream *s, uint64_t frame)
{
    return frame / s->hop * s->hop;
}

/* The delay of results whose filters delay by `delay_frames`, in frames at the output's rate. */
static inline double output_delay_frames(const struct stream *s, double delay_frames)
{
    return decimation_delay_frames(s->kept.factor, delay_frames + s->options.upstream_delay_frames);
}

/* The timeline number of an epoch's output frame. */
static inline uint64_t output_timeline(const struct stream *s, const struct epoch *e,
                                       uint64_t output)
{
    return e->timeline_base / s->kept.factor + output;
}

#endif
