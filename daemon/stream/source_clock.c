/* Source clock: see source_clock.h. */
#include "stream/source_clock.h"

#include <math.h>
#include <string.h>

#include "core/clock.h"

/* A step is larger than this, and than STEP_BOUNDS bounds of the line. */
static const int64_t step_min_ns = 5 * NS_PER_MS;
enum { STEP_BOUNDS = 2 };
/* A second line proves a step when it has run for so long, over so many receive times, and at the
 * rate of the first one, give or take. */
static const int64_t steady_ns = NS_PER_SECOND;
static const double steady_slope = 0.005;
enum { STEADY_RECEIPTS = 8 };

void source_clock_reset(struct source_clock *c, double rate_hz)
{
    memset(c, 0, sizeof *c);
    clock_line_reset(&c->line, rate_hz);
}

/* ---- steps ------------------------------------------------------------------------------- */

static int64_t threshold_ns(const struct clock_line *line)
{
    return STEP_BOUNDS * clock_line_base_error_ns(line) + step_min_ns;
}

/* How much later than on the line the packet came. */
static int64_t late_ns(const struct clock_line *line, uint64_t until, int64_t receive_ns)
{
    return receive_ns - clock_line_time_ns(line, (double)until);
}

/* Late after a silence of about that length. */
static bool may_be_a_pause(const struct clock_line *line, int64_t off_ns, int64_t receive_ns)
{
    return off_ns > threshold_ns(line) && receive_ns - line->last_ns >= off_ns / 2;
}

static double rate_of(const struct clock_line *line)
{
    double rate_hz, ppm;
    return clock_line_rate(line, &rate_hz, &ppm) ? rate_hz : line->rate_hz;
}

/* Frames before `suspected` keep the times of the line. */
static void keep_line(struct source_clock *c)
{
    c->past[c->pasts++ % SOURCE_CLOCK_PAST] = (struct past_line){
        .step = c->suspected,
        .rate_hz = rate_of(&c->line),
        .time_ns = clock_line_time_ns(&c->line, (double)c->suspected.frame),
        .error_ns = clock_line_error_ns(&c->line),
    };
    c->suspects = false;
}

/* Times begin again with the second line. */
static void step(struct source_clock *c, int64_t step_ns)
{
    c->suspected.step_ns = step_ns;
    keep_line(c);
    c->newest = c->suspected;
    c->line = c->next;
}

/* The second line begins with this packet. */
static void begin_next(struct source_clock *c, uint64_t first, uint64_t until, int64_t receive_ns)
{
    const double rate_hz = c->line.rate_hz;
    clock_line_reset(&c->next, rate_hz);
    clock_line_add(&c->next, until, until - first, receive_ns);
    c->suspected.until = until;
}

static void suspect(struct source_clock *c, uint64_t first, uint64_t until, int64_t receive_ns,
                    int64_t off_ns)
{
    c->suspects = true;
    c->left_out = false;
    c->suspected = (struct clock_step){.frame = first, .width_ns = off_ns > 0 ? off_ns : 0};
    begin_next(c, first, until, receive_ns);
}

/* This packet comes early by -off_ns. */
static bool step_back(struct source_clock *c, uint64_t first, uint64_t until, int64_t receive_ns,
                      int64_t off_ns)
{
    if (!c->suspects)
        suspect(c, first, until, receive_ns, 0);
    else
        begin_next(c, first, until, receive_ns);
    c->suspected.width_ns -= off_ns;
    step(c, off_ns);
    return true;
}

/* The line holds on. */
static void it_was_held_up(struct source_clock *c, uint64_t first, uint64_t until,
                           int64_t receive_ns)
{
    c->suspected.until = until;
    if (c->left_out) /* frames between may be of a pause that those made up for */
        keep_line(c);
    c->suspects = false;
    clock_line_add(&c->line, until, until - first, receive_ns);
}

static bool is_steady(const struct source_clock *c)
{
    double rate_hz, ppm;
    return c->next.last_ns - c->next.time0_ns >= steady_ns && c->next.receipts >= STEADY_RECEIPTS &&
           clock_line_rate(&c->next, &rate_hz, &ppm) &&
           fabs(c->next.slope - c->line.slope) <= steady_slope;
}

/* A packet while a step is suspected. */
static bool add_suspecting(struct source_clock *c, uint64_t first, uint64_t until,
                           int64_t receive_ns)
{
    const int64_t off_ns = late_ns(&c->line, until, receive_ns);
    const int64_t next_off_ns = late_ns(&c->next, until, receive_ns);
    if (first < c->suspected.frame) /* reordered */
        return false;
    c->left_out = c->left_out || first > c->next.newest.frame;
    if (off_ns < -threshold_ns(&c->line))
        return step_back(c, first, until, receive_ns, off_ns);
    if (off_ns > c->suspected.width_ns)
        c->suspected.width_ns = off_ns;
    if (off_ns <= threshold_ns(&c->line)) {
        it_was_held_up(c, first, until, receive_ns);
        return false;
    }
    if (next_off_ns < -step_min_ns || may_be_a_pause(&c->next, next_off_ns, receive_ns)) {
        begin_next(c, first, until, receive_ns);
        return false;
    }
    clock_line_add(&c->next, until, until - first, receive_ns);
    if (!is_steady(c))
        return false;
    step(c,
         clock_line_time_ns(&c->next, (double)until) - clock_line_time_ns(&c->line, (double)until));
    return true;
}

bool source_clock_add(struct source_clock *c, uint64_t first, uint64_t until, int64_t receive_ns)
{
    if (c->suspects)
        return add_suspecting(c, first, until, receive_ns);
    if (c->line.started) {
        const int64_t off_ns = late_ns(&c->line, until, receive_ns);
        if (off_ns < -threshold_ns(&c->line))
            return step_back(c, first, until, receive_ns, off_ns);
        if (may_be_a_pause(&c->line, off_ns, receive_ns)) {
            suspect(c, first, until, receive_ns, off_ns);
            return false;
        }
    }
    clock_line_add(&c->line, until, until - first, receive_ns);
    return false;
}

const struct clock_step *source_clock_step(const struct source_clock *c)
{
    return &c->newest;
}

static uint64_t oldest_past(const struct source_clock *c)
{
    return c->pasts > SOURCE_CLOCK_PAST ? c->pasts - SOURCE_CLOCK_PAST : 0;
}

/* ---- handing over ------------------------------------------------------------------------ */

static void shift_line(struct clock_line *line, int64_t shift_ns)
{
    line->time0_ns += shift_ns;
    line->open_until_ns += shift_ns;
    line->last_ns += shift_ns;
}

void source_clock_shift(struct source_clock *c, int64_t shift_ns)
{
    shift_line(&c->line, shift_ns);
    shift_line(&c->next, shift_ns);
    for (int i = 0; i < SOURCE_CLOCK_PAST; i++)
        c->past[i].time_ns += shift_ns;
}

static bool step_holds(const struct clock_step *step)
{
    return step->step_ns >= -CLOCK_FAR_NS && step->step_ns <= CLOCK_FAR_NS && step->width_ns >= 0 &&
           step->width_ns <= CLOCK_FAR_NS && step->until >= step->frame;
}

bool source_clock_holds(const struct source_clock *c)
{
    if (!clock_line_holds(&c->line) || !step_holds(&c->newest) || !step_holds(&c->suspected) ||
        c->pasts > INT64_MAX)
        return false;
    if (c->suspects && (!clock_line_holds(&c->next) || c->next.rate_hz != c->line.rate_hz))
        return false;
    for (uint64_t i = oldest_past(c); i < c->pasts; i++) {
        const struct past_line *past = &c->past[i % SOURCE_CLOCK_PAST];
        if (!step_holds(&past->step) || past->time_ns < -CLOCK_FAR_NS ||
            past->time_ns > CLOCK_FAR_NS || past->error_ns < 0 || past->error_ns > CLOCK_FAR_NS ||
            !(past->rate_hz > 0) || past->rate_hz > 1e15)
            return false;
    }
    return true;
}

/* ---- times ------------------------------------------------------------------------------- */

/* Number of the past line that holds the frame's time; `pasts`: the current line holds it. */
static uint64_t past_of(const struct source_clock *c, double frame)
{
    uint64_t at = oldest_past(c);
    while (at < c->pasts && frame >= (double)c->past[at % SOURCE_CLOCK_PAST].step.frame)
        at++;
    return at;
}

int64_t source_clock_time_ns(const struct source_clock *c, double frame)
{
    const uint64_t at = past_of(c, frame);
    if (at == c->pasts)
        return clock_line_time_ns(&c->line, frame);
    const struct past_line *past = &c->past[at % SOURCE_CLOCK_PAST];
    return past->time_ns + clock_round_ns((frame - (double)past->step.frame) * 1e9 / past->rate_hz);
}

int64_t source_clock_error_ns(const struct source_clock *c, double first, double until)
{
    const uint64_t oldest = oldest_past(c), at = past_of(c, first);
    if (at == oldest && oldest > 0)
        return SOURCE_CLOCK_UNKNOWN_NS;
    const int64_t error_ns =
        at < c->pasts ? c->past[at % SOURCE_CLOCK_PAST].error_ns : clock_line_error_ns(&c->line);
    double more_ns = 0;
    for (uint64_t i = oldest; i < c->pasts; i++) {
        const struct clock_step *step = &c->past[i % SOURCE_CLOCK_PAST].step;
        if (until > (double)step->frame && first < (double)step->until)
            more_ns += (double)step->width_ns;
    }
    /* Either line may be right until the step is proven. */
    if (c->suspects && until > (double)c->suspected.frame)
        more_ns += (double)c->suspected.width_ns;
    return clock_round_ns((double)error_ns + more_ns);
}
