/*
 * Internals of a stream, shared by stream.c (life and figures), ingest.c (packets → ring),
 * blocks.c (ring → batches) and deliver.c (batches → ports). Nobody else includes this.
 *
 * Everything here is touched by the loop thread only, but for what stream_open fills in before.
 *
 * exchange.c changes plan and ring while the stream runs.
 *
 *   positions ──►   ... absent │ epoch e, frames 0…head │ absent: tail of e, history of e+1 │ epoch
 * e+1 ... base                     base + head                          base'
 */
#ifndef CONVOLVD_STREAM_INTERNAL_H
#define CONVOLVD_STREAM_INTERNAL_H

#include "signal/decimation.h"
#include "stream/clock_line.h"
#include "stream/ranges.h"
#include "stream/stream.h"

/* Where the first epoch lies: whatever history a later plan asks for, no position is negative. */
static const uint64_t FIRST_POSITION = UINT64_C(1) << 24;

enum {
    PORTS_MAX = 16,
    EPOCHS_MAX = 64,   /* begun and not yet fully delivered; a power of two */
    HOLES_MAX = 1024,  /* a power of two */
    FLIGHTS_MAX = 256, /* items submitted and not completed; a power of two */
    RESULT_RANGES_MAX = 32,
    RESULT_FRAMES_MIN = 256, /* smaller blocks are handed on together */
    EGRESS_MAX = 1024,
    GAPS_MAX = 128, /* newest network gaps, in case their frames come late */
};

/* A run of missing frames below the newest one; [from, until) in frames of its epoch. */
struct hole {
    uint64_t from, until;
    int64_t seen_ns; /* when a frame beyond it was received */
};

/* Frames given up as lost on the network. */
struct gap {
    uint64_t epoch, from, until;
};

/* When the frames of a block were received. */
struct block_times {
    int64_t first_ns, last_ns; /* receive times, monotonic */
    int64_t ready_ns;          /* complete in the ring */
};

struct epoch {
    uint64_t number, record;
    uint64_t base;          /* ring position of frame 0 */
    uint64_t source_origin; /* the source's number of frame 0 */
    uint64_t timeline_base; /* timeline number of frame 0, a multiple of `decimate` */
    uint64_t head;          /* first frame after the newest received */
    uint64_t settled;       /* frames below are present or given up */
    uint64_t absent_until; /* ring position: absent frames lie only below (holes, silence before) */
    bool ended;
    uint64_t output_end;  /* ended: frames of output, tail included */
    uint64_t flush_until; /* idle flush: output is due up to here even inside a block */
    uint64_t submitted;   /* first output frame not yet in a batch (or shed) */
    uint64_t delivered;   /* first output frame not yet handed to the ports */
    uint64_t raw_delivered;
    bool announced;    /* RESULT_EPOCH_START has been said */
    bool shed_pending; /* frames [shed_from, shed_until) were shed, not yet told downstream */
    uint64_t shed_from, shed_until;
    enum invalid_cause shed_cause;
    int64_t ended_ns;
    bool capture_known;     /* the source gave a capture time, or the line it came from is gone */
    uint64_t capture_frame; /* the frame captured at capture_ns; others by capture_rate_hz */
    double capture_rate_hz;
    int64_t capture_ns, capture_error_ns;
    enum clock_source clock;
    uint64_t taps_from;     /* first frame of the filters in use */
    uint64_t cleared_frame; /* frames before it were made silence within their block, after its
                               report; 0: none */
    struct ranges invalid;  /* in output frames */
};

/* One submitted run of blocks. */
struct flight {
    struct epoch *epoch;
    uint64_t from, until; /* output frames */
    uint64_t first_block;
    uint32_t blocks;
    double delay_frames;
    uint64_t low;          /* lowest ring position the item reads */
    struct plan *retiring; /* the plan this item was the last to use */
    const char *taps_hash; /* of the plan of its last frame … */
    uint32_t taps_longest; /* … NULL and 0 before any exchange … */
    uint64_t taps_from;    /* … and its first frame */
    bool mixed;            /* a cross-fade: the item before holds the old plan's samples */
    uint64_t fade_frame;   /* its first frame … */
    uint32_t fade_frames; /* … and length; forms: NULL, or samples are complex where the output is
                             an envelope */
    const enum output_form *forms;
    uint32_t forms_count;
    bool reported; /* an earlier item reported the whole of the first block */
};

/* What has been handed to the ports since the last stream_flushed. */
struct egress_mark {
    int64_t completed_ns, last_receive_ns;
};

struct stream {
    /* immutable after stream_open */
    struct stream_options options;
    char name[64];
    struct engine *engine;
    struct ring *ring;
    uint32_t hop;
    uint32_t history; /* frames before a block that any plan of this stream may read */
    uint32_t output_channels;
    struct decimation kept; /* of the plan: which frames of an epoch are computed */
    uint64_t jump_max;      /* frames a gap may span before it becomes a discontinuity */
    double period_ns;       /* of a block */
    int64_t deadline_ns;
    struct result_port ports[PORTS_MAX];
    int port_count;
    bool has_raw, has_room;

    /* plan and its exchange */
    struct plan *plan;
    uint32_t taps_longest;
    double delay_frames;
    const char *taps_hash;     /* of `plan`, once exchanged */
    struct stream_change next; /* its plan NULL: no exchange pending */
    uint64_t exchange_epoch;
    bool exchange_begun;          /* its frame has been reached, what it makes invalid is flagged */
    bool exchange_forgets;        /* presence bits before its frame are to be cleared first */
    uint64_t nonfinite_until;     /* ring position after the last sample that was not finite */
    struct stream_ring *old_ring; /* replaced; kept until the exchange is through */

    /* epochs begun and not yet fully delivered: [epoch_first, epoch_next) mod EPOCHS_MAX */
    struct epoch epochs[EPOCHS_MAX];
    uint64_t epoch_first, epoch_next;
    uint32_t begin_flags;   /* flags of a refused packet that the next one must carry out */
    uint64_t cleared_until; /* ring positions below have valid presence bits */
    uint64_t fresh_until;   /* ring positions below have been told to the engine */
    bool stopping;

    /* holes of the newest epoch, oldest first */
    struct hole holes[HOLES_MAX];
    uint32_t hole_first, hole_next;
    struct gap gaps[GAPS_MAX];
    uint32_t gap_next;
    uint64_t socket_debt;   /* frames the socket dropped that no gap has been blamed for yet */
    uint64_t overload_debt; /* frames refused for lack of room, likewise */
    uint64_t capture_debt;  /* frames that the converter lost, likewise */
    uint32_t packet_frames; /* of the newest packet */

    struct block_times
        *times; /* [times_mask + 1], block number + epoch offset, see block_times_of */
    uint64_t times_mask;

    struct flight flights[FLIGHTS_MAX];
    uint32_t flight_first, flight_next;
    struct block_report
        *partial; /* [channels]: reports of a block submitted in part, to be taken off again */
    bool partial_valid;
    uint64_t partial_block;

    struct egress_mark egress[EGRESS_MAX];
    uint32_t egress_count;

    struct clock_line line;
    int64_t last_receive_ns;
    int64_t offset_ns; /* realtime − monotonic at the newest packet */

    /* figures */
    struct stream_stats stats;
    struct channel_levels *levels;
    struct histogram stages[STAGES];
    struct histogram total;
    double load;
};

static inline struct epoch *epoch_at(struct stream *s, uint64_t index)
{
    return &s->epochs[index % EPOCHS_MAX];
}

/* The epoch packets go to, NULL when none is open. */
static inline struct epoch *epoch_open(struct stream *s)
{
    if (s->epoch_first == s->epoch_next)
        return NULL;
    struct epoch *e = epoch_at(s, s->epoch_next - 1);
    return e->ended ? NULL : e;
}

static inline struct block_times *block_times_of(struct stream *s, const struct epoch *e,
                                                 uint64_t block)
{
    /* Bases of epochs lie at least a block apart, so no two live blocks share an entry. */
    return &s->times[(e->base / s->hop + block) & s->times_mask];
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

/* Lowest ring position that submitted or waiting work may still read. */
uint64_t stream_low(const struct stream *s);

/* First position in [from, until) whose presence bit equals `present`; `until` when there is none.
 * ingest.c */
uint64_t stream_find(const struct stream *s, uint64_t from, uint64_t until, bool present);
/* Sets or clears the bits of [from, until), at most one lap. ingest.c */
void stream_mark(struct stream *s, uint64_t from, uint64_t until, bool present);

/* ---- exchange.c -------------------------------------------------------------------------- */

/* A ring and what depends on its size. */
struct stream_ring {
    struct engine *engine;
    struct ring *ring;
    struct block_times *times;
    uint64_t times_mask;
    uint64_t jump_max;
    uint32_t history;
};

/* What a plan may read before a block. */
uint32_t stream_history_of(const struct plan_info *info);
int stream_ring_make(struct engine *engine, const struct stream_options *options,
                     const struct plan_info *info, uint64_t frames_min, struct stream_ring *out,
                     struct problem *problem);

/* Where epoch e, submitted up to e->submitted, stands in the pending exchange. */
enum change_phase {
    CHANGE_NONE,    /* the plan in use goes on, up to *until */
    CHANGE_INSIDE,  /* the same, but the block that *until lies in is for both plans */
    CHANGE_MIXING,  /* both plans compute, up to *until */
    CHANGE_WAITING, /* nothing may be submitted before what is in flight has come back */
};

/* Takes the new plan into use when its frame has come. */
enum change_phase exchange_follow(struct stream *s, struct epoch *e, uint64_t *until);
/* The frame of the exchange lies inside the item just submitted: flags it, and the new plan goes
 * on. */
void exchange_inside(struct stream *s, struct epoch *e);
/* Both plans of a cross-fade, `old` first. */
void exchange_fade_plans(const struct stream *s, struct plan **old, struct plan **new);
/* Mixes frames [from, until) of the flight into the item's samples; afterwards they are as any. */
void exchange_mix(const struct stream *s, const struct flight *flight, const float *old,
                  float *samples);

/* Positions below `until` get valid presence bits: absent, until a packet says otherwise. ingest.c
 */
void stream_clear_until(struct stream *s, uint64_t until);

/* Gives up what the newest epoch misses below `frame`, before the ring forgets that it is missing.
 * ingest.c */
void stream_give_up_until(struct stream *s, struct epoch *e, uint64_t frame);

/* Sheds whole unsubmitted blocks, oldest first, until positions below `until` fit into the ring;
 * false when they cannot be made to fit. blocks.c */
bool stream_make_room(struct stream *s, uint64_t until);

/* Counts output frames [from, until) of an epoch as shed. blocks.c */
void stream_shed(struct stream *s, struct epoch *e, uint64_t from, uint64_t until, enum shed why,
                 enum invalid_cause cause);

/* Closes the newest epoch; its tail becomes due. ingest.c */
void stream_end_epoch(struct stream *s, struct epoch *e, int64_t now_ns);

/* Hands raw input [e->raw_delivered, until) to the raw ports. deliver.c */
void stream_deliver_raw(struct stream *s, struct epoch *e, uint64_t until);

/* Tells the ports that the epoch has ended, when every frame of it was handed on before that was
 * known: a result without frames. deliver.c */
void stream_deliver_end(struct stream *s, const struct epoch *e);

/* Realtime of a frame of an epoch, with clock and error bound. deliver.c */
int64_t stream_capture_ns(const struct stream *s, const struct epoch *e, double frame,
                          enum clock_source *clock, int64_t *error_ns);

/* Forgets epochs that are fully delivered, but for the open one. deliver.c */
void stream_retire_epochs(struct stream *s);

#endif
