/*
 * Clock follow: how fast playback on one clock has to take what comes on another, so that what
 * waits between them stays what it was set to.
 *
 *     source ──► put (its clock) ──► [waits: the latency] ──► played (the card's clock)
 *                                          ▲
 *                    speed = 1 + Kp·v + ∫ Ki·v dt,   v = latency − set point
 *
 * The latency is found from frame counts and times on both sides, not from the fill, so that
 * blocks and periods of any size do not enter it; v is smoothed and outliers are cut before it
 * steers (compare Adriaensen, "Controlling adaptive resampling", LAC 2012). The loop is of second
 * order and critically damped: 0.1 Hz wide while it settles, then 0.02 Hz.
 *
 * The difference of the two clocks is reported by another way, which a pause of one of them does
 * not bend: each second keeps the least delayed observation of each side, and the slope is the
 * median over pairs of seconds that lie 4 to 12 apart (after Theil 1950, Sen 1968).
 *
 * Pure arithmetic on given times, one owner, nothing allocates. Times are monotonic.
 */
#ifndef CONVOLVD_IO_SOUND_CLOCK_FOLLOW_H
#define CONVOLVD_IO_SOUND_CLOCK_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

enum { FOLLOW_SLOTS = 64 };

/* One clock: the least delayed observation of each second. */
struct follow_clock {
    double rate_hz; /* nominal */
    bool started;
    uint64_t frame0;
    int64_t time0_ns, slot_ends_ns;
    double slot_at_s[FOLLOW_SLOTS], slot_late_s[FOLLOW_SLOTS]; /* nominal time; behind it */
    double open_at_s, open_late_s;
    uint32_t count, next; /* closed slots; where the next one goes */
};

struct clock_follow {
    bool steers; /* false: speed stays 1 (what was measured is reported all the same) */
    double set_point_s;
    struct follow_clock source, card;
    /* loop */
    bool settled_start; /* last_ns and smooth_s are valid */
    int64_t start_ns, last_ns;
    double smooth_s, scatter_s; /* of v */
    double integral;
    double speed;
};

/* source_hz and card_hz: nominal. set_point_s: from put to played, of one and the same frame. */
void clock_follow_reset(struct clock_follow *follow, double source_hz, double card_hz,
                        double set_point_s);

/* All of the source's frames below `frame` have been put, the last of them now. */
void clock_follow_put(struct clock_follow *follow, uint64_t frame, int64_t now_ns);

/* The card's callback ran at callback_ns and began with card frame `frame`. */
void clock_follow_played(struct clock_follow *follow, uint64_t frame, int64_t callback_ns);

/* A new beginning after an under- or overrun: latency is at its set point by construction. What was
 * learnt of the clocks stays. */
void clock_follow_restart(struct clock_follow *follow);

/*
 * One step, after a put: the latency just now is latency_s. Returns the source frames to take for
 * each frame of the card, over their nominal ratio: 1.00015 for a source that is 150 ppm fast.
 */
double clock_follow_steer(struct clock_follow *follow, double latency_s, int64_t now_ns);

/* How much faster the source's clock is than the card's. False while not known (the first 8 s). */
bool clock_follow_ppm(const struct clock_follow *follow, double *ppm);

#endif
