/*
 * The detector of hits on one channel: a state machine over columns of up to 64 frames, by the
 * rules of docs/analysis.md. It knows nothing of other channels, of queues or of time stamps beyond
 * the run in which a hit began; hits.c calls it and brings what it finds into order.
 *
 *     edge ──► idle ──► open ──► (post) ──► complete ──► idle
 *               first frame    the hit has     taken by
 *               above          ended; its      the caller
 *                              record goes on
 *
 * A column is looked at through masks of 64 bits, one a frame, so that the work of a frame below
 * the threshold is a part of a few vector operations. `scan` returns at each completion, at its
 * exact frame, and goes on from there when it is called again: so the caller can bring completions
 * of all channels into order. Results depend on the samples alone, not on how they are cut into
 * columns.
 *
 * Never allocates. One thread at a time.
 */
#ifndef CONVOLVD_ANALYSIS_DETECTOR_H
#define CONVOLVD_ANALYSIS_DETECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/column.h"
#include "analysis/run.h"
#include "core/codec.h"

enum { DETECTOR_FRAMES = COLUMN_FRAMES };

/* The counting arms: set by a sample below (above) 0, spent by a count at one above (below) the
 * threshold. */
enum detector_arms { DETECTOR_ARMED_POSITIVE = 1, DETECTOR_ARMED_NEGATIVE = 2 };

/* The same for all channels. Times in frames. */
struct detector_rules {
    uint64_t hdt, hlt, pdt; /* pdt 0: the peak is the hit's maximum */
    uint64_t max_duration;  /* ≥ 1 */
    uint64_t post_duration; /* of the record, behind the hit's last frame */
    uint32_t pre_trigger;   /* of the record */
    uint32_t record_frames; /* capacity of a record, pre-trigger included; 0: none is kept */
    bool energy_to_end; /* the window of energy and strength: first … end, else first … last */
};

/* Sums over the frames of a hit, in double, in the order of frames. */
struct detector_sums {
    double square, magnitude, root; /* of x^2, |x|, sqrt(|x|) */
    double power[4];                /* of (x - origin)^k, k = 1 … 4 */
};

/* What is known of a hit. Frames are numbered in the epoch. */
struct detector_hit {
    uint64_t first, last; /* above the threshold: a, b */
    uint64_t end; /* once it has ended: b + HDT, the last of max duration, or before a cut */
    uint64_t peak_frame;
    uint64_t positive, negative; /* counts of the two arms: N+, N- */
    uint64_t crossings;          /* upward, without arms */
    uint64_t positive_to_peak;
    float peak;                             /* |x| */
    float origin;                           /* x of the first frame */
    float before;                           /* x of the frame before it; 0: not known */
    struct detector_sums sums;              /* first … last */
    double window_square, window_magnitude; /* over the window of energy */
    double threshold, noise_rms;            /* when it began; noise NAN: not known */
    uint32_t flags, causes;                 /* enum analysis_flags; 1 << enum invalid_cause */
    uint32_t lead;                          /* frames of its record before `first` */
    uint32_t record_frames;                 /* in all; set once complete */
    /* Of the run in which it began. */
    uint64_t run_frame;
    int64_t run_capture_ns, clock_error_ns;
    enum clock_source clock;
    double delay_frames;
};

/* The frames that a column is taken of. */
struct detector_input {
    const struct analysis_run *run;
    const float *samples; /* of frame 0 of the column, channel 0 */
    uint64_t first_frame;
    uint32_t frames;      /* 1 … DETECTOR_FRAMES */
    uint64_t lead;        /* valid frames that lie before `samples` */
    uint32_t lead_causes; /* why there are no more of them; 0: the epoch begins there */
};

struct detector_channel {
    uint32_t channel; /* immutable */
    float *record;    /* [rules.record_frames], the caller's; NULL: none */
    int32_t *arms; /* enum detector_arms, the caller's, who sets them while the channel is idle */

    enum detector_state {
        DETECTOR_IDLE,
        DETECTOR_OPEN,
        DETECTOR_POST,     /* the hit has ended, its record goes on */
        DETECTOR_COMPLETE, /* waits to be taken */
        DETECTOR_STATES,
    } state;
    uint64_t open_from;  /* no hit begins before this frame */
    uint64_t edge_frame; /* first valid one; UINT64_MAX: there is none yet */
    uint32_t edge_causes;
    uint64_t after_timeout;  /* a hit that begins at this frame follows a timeout; UINT64_MAX */
    uint64_t above_positive; /* the latest frame with x > threshold; UINT64_MAX: none */
    double threshold;        /* in force */
    float limit;             /* the largest float ≤ threshold: x > limit says x > threshold */
    double noise_rms;
    struct detector_hit hit;
    struct detector_sums running; /* of all frames since hit.first */
    uint32_t recorded;            /* frames in `record`, while the hit is open or in post */
    uint64_t saturated_first;     /* frame from hit.first on; UINT64_MAX: none */

    /* The column under work; nothing of it outlives the caller's `put`. */
    uint64_t first_frame, completed; /* `completed`: the frame at which the hit became complete */
    uint32_t frames, at;             /* `at`: next frame to look at for begins and ends */
    uint32_t arms_at, sums_at, record_at;
    uint64_t above, below_zero, above_zero, saturated; /* masks */
    float column[DETECTOR_FRAMES];
};

/* Takes `threshold` into force, at a border between columns. */
void detector_set_threshold(struct detector_channel *channel, double threshold);

/* The first frame of an epoch, or the first behind invalid ones, before its column is loaded. */
void detector_edge(struct detector_channel *channel, float x, uint64_t frame, uint32_t causes);

/* Takes a column. `saturated`: one bit for each frame that rests on a saturated input. */
void detector_load(struct detector_channel *channel, const struct detector_input *input,
                   uint64_t saturated);

/* Works on the column until a hit is complete (true) or the column is at its end (false). */
bool detector_scan(struct detector_channel *channel, const struct detector_rules *rules,
                   const struct detector_input *input);

/* Behind a column: `frame` is invalid, for `causes`, or the epoch has ended before it (0). True:
 * the open hit is complete. */
bool detector_cut(struct detector_channel *channel, const struct detector_rules *rules,
                  uint64_t frame, uint32_t causes);

/* The caller has read the complete hit and its record. */
void detector_take(struct detector_channel *channel);

/* The state between columns, without `channel`, `record` and what the record holds. `next_frame`:
 * of the column that follows. False: what was read breaks a rule that this module relies on. */
bool detector_walk(struct detector_channel *channel, const struct detector_rules *rules,
                   uint64_t next_frame, struct codec *codec);

#endif
