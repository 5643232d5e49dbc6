/*
 * Source clock: turns the frame numbers of one source into capture times, with an error bound that
 * holds across pauses. It is a clock line (clock_line.h), and begins the line again where the
 * source's count of frames no longer measures the time that passes:
 *
 *   receive     ┊                    ╱ a sender that paused without counting the pause: a step
 *   time        ┊               ╱   ╱
 *               ┊              ╱  ┊
 *               ┊         ╱───┘   ┊  suspected: the old line, its bound as wide as the step
 *               ┊    ╱            ┊
 *               └────────────────────── frame number
 *
 * - A packet that comes late by more than the line's bound, after a silence of about that length,
 * may have been held up, or its sender may have paused. From there on a second line runs along. The
 * times are those of the first line and the bound reaches from one line to the other.
 * - When a packet comes back to the first line, it was a delay: the second line is forgotten. When
 * the second line has run for a second at the rate of the first, it was a pause: a step. (A queue
 * that is worked off comes nearer all the time.) Times begin again with the second line.
 * - A packet that comes early by more than the bound proves a step at once: no network makes
 * packets early.
 * - Frames before a step keep the times of their line. The packet at the step may hold frames of
 * both sides, so its bound covers both lines. The last SOURCE_CLOCK_PAST steps are remembered; for
 * frames before them the bound says SOURCE_CLOCK_UNKNOWN_NS.
 *
 * Assumes that no network holds a stream up for a second at a steady delay, and that what the
 * network does and what the sender does are seconds apart. Times are monotonic. One owner; never
 * allocates.
 */
#ifndef CONVOLVD_STREAM_SOURCE_CLOCK_H
#define CONVOLVD_STREAM_SOURCE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "stream/clock_line.h"

/* A bound that says nothing. */
#define SOURCE_CLOCK_UNKNOWN_NS CLOCK_FAR_NS

enum { SOURCE_CLOCK_PAST = 8 };

struct clock_step {
    uint64_t frame;   /* the first one behind it */
    int64_t step_ns;  /* how much later the times of frames behind it are */
    uint64_t until;   /* frames [frame, until) may be of either side, or between both … */
    int64_t width_ns; /* … so far apart; at least |step_ns| */
};

/* A line that a step has ended, for frames before it. Its step is 0 where a pause and time stamps
 * that ran ahead made up for each other. */
struct past_line {
    struct clock_step step;
    double rate_hz;
    int64_t time_ns, error_ns; /* of the step's frame on that line */
};

struct source_clock {
    struct clock_line line;
    bool suspects;
    bool left_out;               /* suspects: packets since have left frames out */
    struct clock_line next;      /* suspects: runs through the newest packets */
    struct clock_step suspected; /* its width: the latest that a packet since has come */
    struct clock_step newest;    /* recognised last */
    struct past_line past[SOURCE_CLOCK_PAST];
    uint64_t pasts; /* number n at n mod SOURCE_CLOCK_PAST */
};

/* Capture times of an epoch's frames before `until`, where the source gives times and they stepped;
 * 0: they did not. For frames before `from` they are not known: there was another step. */
struct capture_before {
    uint64_t from, until;
    uint64_t frame; /* captured at capture_ns; other frames follow by rate_hz */
    double rate_hz;
    int64_t capture_ns, error_ns;
    int64_t step_ns; /* how much later the times from `until` on are */
};

void source_clock_reset(struct source_clock *clock, double rate_hz);

/* Frames [first, until) came with receive time receive_ns: those of a packet, and of packets that
 * share the receive time. True: a step is recognised, see source_clock_step. */
bool source_clock_add(struct source_clock *clock, uint64_t first, uint64_t until,
                      int64_t receive_ns);
/* The newest step; there has been one. */
const struct clock_step *source_clock_step(const struct source_clock *clock);

/* The monotonic clock says shift_ns more than where these times come from. */
void source_clock_shift(struct source_clock *clock, int64_t shift_ns);
/* Checks a clock that was read from bytes: true where source_clock_add may have left it so, see
 * clock_line_holds. */
bool source_clock_holds(const struct source_clock *clock);

/* Monotonic time of a frame, see clock_line_time_ns. */
int64_t source_clock_time_ns(const struct source_clock *clock, double frame);
/* Half-width [ns] within which the times of frames [first, until) are trusted when they are counted
 * from that of `first` at the nominal rate. */
int64_t source_clock_error_ns(const struct source_clock *clock, double first, double until);

#endif
