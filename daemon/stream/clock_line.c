/* Clock line: see clock_line.h. */
#include "stream/clock_line.h"

#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/median.h"

/* So many packets, or batches of packets, must come before the least delayed one tells much about
 * the least delay. */
enum { EARLY_PACKETS = 64 };
enum { FIRST_SLOT_MS = 50, LAST_SLOT_MS = 4000 };

void clock_line_reset(struct clock_line *line, double rate_hz)
{
    memset(line, 0, sizeof *line);
    line->rate_hz = rate_hz;
    line->slot_ns = FIRST_SLOT_MS * NS_PER_MS;
}

/* Frames since the origin as nominal time; exact enough in double for centuries of frames. */
static double nominal_ns(const struct clock_line *line, double frame)
{
    return (frame - (double)line->frame0) * 1e9 / line->rate_hz;
}

/* Distance of a packet above the line. */
static double above_ns(const struct clock_line *line, const struct clock_slot *packet)
{
    return packet->residual_ns - line->intercept_ns -
           line->slope * nominal_ns(line, (double)packet->frame);
}

static void fit(struct clock_line *line)
{
    double slopes[CLOCK_LINE_SLOTS * (CLOCK_LINE_SLOTS - 1) / 2];
    double values[CLOCK_LINE_SLOTS] = {0};
    int pairs = 0;
    for (int i = 0; i < line->count; i++) {
        for (int j = i + 1; j < line->count; j++) {
            double span_ns = nominal_ns(line, (double)line->slots[j].frame) -
                             nominal_ns(line, (double)line->slots[i].frame);
            if (span_ns > 0)
                slopes[pairs++] =
                    (line->slots[j].residual_ns - line->slots[i].residual_ns) / span_ns;
        }
    }
    line->slope = line->count >= 3 && pairs > 0 ? median(slopes, (size_t)pairs) : 0.0;
    for (int i = 0; i < line->count; i++)
        values[i] = line->slots[i].residual_ns -
                    line->slope * nominal_ns(line, (double)line->slots[i].frame);
    line->intercept_ns = median(values, (size_t)line->count);
    line->bound_ns = 0;
    for (int i = 0; i < line->count; i++) {
        /* The frame of a step between two slots is not known. */
        const int last = i + 1 < line->count ? i + 1 : i;
        for (int j = i > 0 ? i - 1 : i; j <= last; j++) {
            const struct clock_slot moved = {line->slots[j].frame, line->slots[i].residual_ns, 0};
            line->bound_ns = fmax(line->bound_ns, fabs(above_ns(line, &moved)));
        }
    }
    for (int i = 0; i < line->count; i++)
        values[i] = line->slots[i].spread_ns;
    line->jitter_ns = median(values, (size_t)line->count);
}

static void close_slot(struct clock_line *line)
{
    if (line->count == CLOCK_LINE_SLOTS) {
        if (line->slot_ns < LAST_SLOT_MS * NS_PER_MS) {
            for (int i = 0; i < CLOCK_LINE_SLOTS / 2; i++) {
                const struct clock_slot *a = &line->slots[2 * i];
                const struct clock_slot *b = &line->slots[2 * i + 1];
                const double largest_ns =
                    fmax(a->residual_ns + a->spread_ns, b->residual_ns + b->spread_ns);
                struct clock_slot merged = a->residual_ns <= b->residual_ns ? *a : *b;
                merged.spread_ns = largest_ns - merged.residual_ns;
                line->slots[i] = merged;
            }
            line->count = CLOCK_LINE_SLOTS / 2;
            line->slot_ns *= 2;
        } else {
            memmove(line->slots, line->slots + 1, (CLOCK_LINE_SLOTS - 1) * sizeof line->slots[0]);
            line->count--;
        }
    }
    line->slots[line->count++] = line->open;
    fit(line);
}

void clock_line_add(struct clock_line *line, uint64_t frame_end, uint64_t frames,
                    int64_t receive_ns)
{
    line->packet_ns = fmax(line->packet_ns, (double)frames * 1e9 / line->rate_hz);
    line->receipts += line->receipts == 0 || receive_ns != line->last_ns;
    line->last_ns = receive_ns;
    if (!line->started) {
        line->started = true;
        line->frame0 = frame_end;
        line->time0_ns = receive_ns;
        line->open_until_ns = receive_ns + line->slot_ns;
        line->open = line->newest = (struct clock_slot){.frame = frame_end};
        return;
    }
    double residual_ns =
        (double)(receive_ns - line->time0_ns) - nominal_ns(line, (double)frame_end);
    line->newest = (struct clock_slot){.frame = frame_end, .residual_ns = residual_ns};
    if (receive_ns >= line->open_until_ns) {
        close_slot(line);
        line->open = (struct clock_slot){.frame = frame_end, .residual_ns = residual_ns};
        line->open_until_ns = receive_ns + line->slot_ns;
        return;
    }
    double largest_ns = fmax(line->open.residual_ns + line->open.spread_ns, residual_ns);
    if (residual_ns < line->open.residual_ns) {
        line->open.residual_ns = residual_ns;
        line->open.frame = frame_end;
    }
    line->open.spread_ns = largest_ns - line->open.residual_ns;
}

int64_t clock_line_time_ns(const struct clock_line *line, double frame)
{
    double at_ns = nominal_ns(line, frame);
    double residual_ns =
        line->count > 0 ? line->intercept_ns + line->slope * at_ns : line->open.residual_ns;
    return line->time0_ns + clock_round_ns(at_ns + residual_ns);
}

int64_t clock_line_base_error_ns(const struct clock_line *line)
{
    const double seen_ns =
        line->count > 0 ? line->bound_ns + line->jitter_ns : line->open.spread_ns;
    const double early = (double)EARLY_PACKETS / (double)(line->receipts + 1);
    const double unseen_ns = line->packet_ns * fmin(early, 1);
    return clock_round_ns(seen_ns + unseen_ns) + NS_PER_US;
}

int64_t clock_line_error_ns(const struct clock_line *line)
{
    const int64_t base_ns = clock_line_base_error_ns(line);
    if (line->count == 0) /* the line is the open slot */
        return base_ns;
    const double early_ns = fmax(-above_ns(line, &line->open), 0);
    const int64_t late_ns = clock_round_ns(above_ns(line, &line->newest)) + NS_PER_US;
    const int64_t low_ns = clock_round_ns((double)base_ns + early_ns);
    return late_ns > low_ns ? late_ns : low_ns;
}

/* ---- from bytes ---------------------------------------------------------------------------- */

static bool is_time(int64_t ns)
{
    return ns >= -CLOCK_FAR_NS && ns <= CLOCK_FAR_NS;
}

static bool is_difference(double ns)
{
    return fabs(ns) <= (double)CLOCK_FAR_NS; /* false for a NaN */
}

static bool is_width(double ns)
{
    return ns >= 0 && is_difference(ns);
}

bool clock_line_holds(const struct clock_line *line)
{
    const bool times = is_time(line->time0_ns) && is_time(line->open_until_ns) &&
                       is_time(line->last_ns) && line->slot_ns >= FIRST_SLOT_MS * NS_PER_MS &&
                       line->slot_ns < 2 * LAST_SLOT_MS * NS_PER_MS;
    /* Time between packets, in which frames pass, is not negative: no slope is below −1. */
    const bool fitted = line->slope >= -1 && is_difference(line->slope) &&
                        is_difference(line->intercept_ns) && is_width(line->bound_ns) &&
                        is_width(line->jitter_ns) && is_width(line->packet_ns);
    if (!times || !fitted || line->count < 0 || line->count > CLOCK_LINE_SLOTS ||
        !(line->rate_hz > 0) || !isfinite(line->rate_hz) || line->receipts > INT64_MAX)
        return false;
    for (int i = 0; i < line->count; i++)
        if (!is_difference(line->slots[i].residual_ns) || !is_width(line->slots[i].spread_ns))
            return false;
    return is_difference(line->open.residual_ns) && is_width(line->open.spread_ns) &&
           is_difference(line->newest.residual_ns) && line->newest.spread_ns == 0;
}

bool clock_line_rate(const struct clock_line *line, double *rate_hz, double *ppm)
{
    if (line->count < 3)
        return false;
    *rate_hz = line->rate_hz / (1.0 + line->slope);
    *ppm = (*rate_hz / line->rate_hz - 1.0) * 1e6;
    return true;
}
