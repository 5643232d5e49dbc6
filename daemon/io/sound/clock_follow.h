/*
 * Clock follow: a control loop that plays a stream with one clock on a card with another. It
 * computes the speed at which playback takes frames, so that the latency between put and play stays
 * at its set point.
 *
 *     source ──► put (its clock) ──► [queue: the latency] ──► played (the card's clock)
 *                                          ▲
 *                    speed = 1 + Kp·v + ∫ Ki·v dt,   v = latency − set point
 *
 * The caller derives the latency from frame counts and times on both sides, not from the fill of
 * the queue, so the sizes of blocks and periods do not disturb it. The loop limits outliers of v
 * and smooths it (compare Adriaensen, "Controlling adaptive resampling", LAC 2012). The loop is of
 * second order and critically damped; its bandwidth is 0.1 Hz while it settles, then 0.02 Hz.
 *
 * A separate estimate reports the difference of the two clocks; a pause of one of them does not
 * bias it. It keeps the least delayed observation of each side in each second and takes the median
 * slope over pairs of seconds that lie 4 to 12 apart (after Theil 1950, Sen 1968).
 *
 * Arithmetic on the times it is given [ns, monotonic]; allocates nothing. One thread.
 */
#ifndef CONVOLVD_IO_SOUND_CLOCK_FOLLOW_H
#define CONVOLVD_IO_SOUND_CLOCK_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

enum { FOLLOW_SLOTS = 64 };

/* One clock: the least delayed observation of each second (a slot). */
struct follow_clock {
    double rate_hz; /* nominal */
    bool started;
    uint64_t frame0;
    int64_t time0_ns, slot_ends_ns;
    /* of each closed slot: nominal time since frame0, and how much later it was observed */
    double slot_at_s[FOLLOW_SLOTS], slot_late_s[FOLLOW_SLOTS];
    double open_at_s, open_late_s; /* the same of the slot still open */
    uint32_t count, next;          /* closed slots; index of the next one */
};

struct clock_follow {
    bool steers; /* false: speed stays 1, the clocks are measured all the same */
    double set_point_s;
    struct follow_clock source, card;
    /* loop */
    bool started; /* start_ns, last_ns and smooth_s are valid */
    int64_t start_ns, last_ns;
    double smooth_s, scatter_s; /* of v */
    double integral;
    double speed;
};

/* source_hz, card_hz: nominal rates. set_point_s: the time from a frame's put to its play. */
void clock_follow_reset(struct clock_follow *follow, double source_hz, double card_hz,
                        double set_point_s);

/* Observes the source: its frames below `frame` have been put, the last of them at now_ns. */
void clock_follow_put(struct clock_follow *follow, uint64_t frame, int64_t now_ns);

/* Observes the card: a callback ran at callback_ns and began with card frame `frame`. */
void clock_follow_played(struct clock_follow *follow, uint64_t frame, int64_t callback_ns);

/* Restarts the loop after an underrun or overrun, when the caller has put the latency back to its
 * set point. The integral and the measured clocks stay. */
void clock_follow_restart(struct clock_follow *follow);

/*
 * One step of the loop, after a put; latency_s: the latency at now_ns. Returns the speed: source
 * frames to take per card frame, over their nominal ratio; 1.00015 for a source that is 150 ppm
 * fast.
 */
double clock_follow_steer(struct clock_follow *follow, double latency_s, int64_t now_ns);

/* How much faster the source's clock is than the card's [ppm]. Returns false while that is not yet
 * known (about the first 8 s). */
bool clock_follow_ppm(const struct clock_follow *follow, double *ppm);

#endif
