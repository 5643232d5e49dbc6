/* Clock follow: see clock_follow.h. */
#include "io/sound/clock_follow.h"

#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/median.h"

enum { PAIR_MIN = 4, PAIR_MAX = 12, SLOTS_MIN = 6 };

static const double settling_hz = 0.1, settled_hz = 0.02;
static const double settling_s = 8.0;
static const double smoothing_s = 0.4;  /* of v: short against the loop's time constant */
static const double speed_limit = 2e-3; /* no working sound card's clock is further off */

/* ---- a clock ----------------------------------------------------------------------------------
 */

static void close_slot(struct follow_clock *clock)
{
    clock->slot_at_s[clock->next] = clock->open_at_s;
    clock->slot_late_s[clock->next] = clock->open_late_s;
    clock->next = (clock->next + 1) % FOLLOW_SLOTS;
    if (clock->count < FOLLOW_SLOTS)
        clock->count++;
}

static void observe(struct follow_clock *clock, uint64_t frame, int64_t now_ns)
{
    if (!clock->started) {
        clock->started = true;
        clock->frame0 = frame;
        clock->time0_ns = now_ns;
        clock->slot_ends_ns = now_ns + NS_PER_SECOND;
        clock->open_at_s = clock->open_late_s = 0;
        return;
    }
    double at_s = (double)(int64_t)(frame - clock->frame0) / clock->rate_hz;
    double late_s = (double)(now_ns - clock->time0_ns) * 1e-9 - at_s;
    bool closes = now_ns >= clock->slot_ends_ns;
    if (closes) {
        close_slot(clock);
        clock->slot_ends_ns = now_ns + NS_PER_SECOND;
    }
    if (closes || late_s < clock->open_late_s) {
        clock->open_at_s = at_s;
        clock->open_late_s = late_s;
    }
}

/* Seconds that the clock loses in each second of its own time; false while there are too few pairs
 * of slots. */
static bool slope(const struct follow_clock *clock, double *lost)
{
    double slopes[FOLLOW_SLOTS * (PAIR_MAX - PAIR_MIN + 1)];
    int pairs = 0;
    uint32_t first = clock->count < FOLLOW_SLOTS ? 0 : clock->next;
    for (uint32_t i = 0; i < clock->count; i++) {
        for (uint32_t j = i + PAIR_MIN; j <= i + PAIR_MAX && j < clock->count; j++) {
            uint32_t a = (first + i) % FOLLOW_SLOTS, b = (first + j) % FOLLOW_SLOTS;
            double span_s = clock->slot_at_s[b] - clock->slot_at_s[a];
            if (span_s > 0)
                slopes[pairs++] = (clock->slot_late_s[b] - clock->slot_late_s[a]) / span_s;
        }
    }
    if (clock->count < SLOTS_MIN || pairs == 0)
        return false;
    *lost = median(slopes, (size_t)pairs);
    return true;
}

/* ---- the loop ---------------------------------------------------------------------------------
 */

void clock_follow_reset(struct clock_follow *follow, double source_hz, double card_hz,
                        double set_point_s)
{
    memset(follow, 0, sizeof *follow);
    follow->steers = true;
    follow->set_point_s = set_point_s;
    follow->source.rate_hz = source_hz;
    follow->card.rate_hz = card_hz;
    follow->speed = 1;
}

void clock_follow_put(struct clock_follow *follow, uint64_t frame, int64_t now_ns)
{
    observe(&follow->source, frame, now_ns);
}

void clock_follow_played(struct clock_follow *follow, uint64_t frame, int64_t callback_ns)
{
    observe(&follow->card, frame, callback_ns);
}

void clock_follow_restart(struct clock_follow *follow)
{
    follow->started = false;
    follow->speed = follow->steers ? 1 + follow->integral : 1;
}

static double limited(double value, double limit)
{
    return fmin(fmax(value, -limit), limit);
}

double clock_follow_steer(struct clock_follow *follow, double latency_s, int64_t now_ns)
{
    double v_s = latency_s - follow->set_point_s;
    if (!follow->steers)
        return 1;
    if (!follow->started) {
        follow->started = true;
        follow->start_ns = follow->last_ns = now_ns;
        follow->smooth_s = v_s;
        follow->scatter_s = 1e-3;
        return follow->speed;
    }
    double step_s = (double)(now_ns - follow->last_ns) * 1e-9;
    follow->last_ns = now_ns;
    if (step_s <= 0)
        return follow->speed;
    /* A single late wake-up says nothing of the clock: limit outliers to four times the scatter. */
    double off_s = v_s - follow->smooth_s;
    double share = fmin(step_s / smoothing_s, 1.0);
    double counted_s = limited(off_s, 4 * follow->scatter_s + 20e-6);
    follow->scatter_s +=
        (fmin(fabs(off_s), 8 * follow->scatter_s + 20e-6) - follow->scatter_s) * fmin(share, 0.25);
    follow->smooth_s += counted_s * share;
    double since_s = (double)(now_ns - follow->start_ns) * 1e-9;
    double omega = 2 * M_PI * (since_s < settling_s ? settling_hz : settled_hz);
    follow->integral = limited(
        follow->integral + omega * omega * follow->smooth_s * fmin(step_s, 0.1), speed_limit);
    follow->speed = 1 + limited(follow->integral + 2 * omega * follow->smooth_s, speed_limit);
    return follow->speed;
}

bool clock_follow_ppm(const struct clock_follow *follow, double *ppm)
{
    double source_lost, card_lost;
    if (!slope(&follow->source, &source_lost) || !slope(&follow->card, &card_lost))
        return false;
    *ppm = ((1 + card_lost) / (1 + source_lost) - 1) * 1e6;
    return true;
}
