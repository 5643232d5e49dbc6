/* Backlogs: see backlog.h. */
#include "control/backlog.h"

#include <string.h>

enum {
    RUN_SAMPLES = 256,    /* what a part of a run takes beside its frames, as samples */
    LEAST_SAMPLES = 2048, /* of a part that ends before its run: else it is not worth its while */
};

/* What a sample takes: before anything was measured, and at most. */
static const double sample_ns_most = 16;
/* What a turn of the loop takes beside what it shows. */
static const int64_t turn_ns = 5000;

static struct noted_run *at(struct backlog *backlog, uint32_t i)
{
    return &backlog->runs[(backlog->first + i) % BACKLOG_RUNS];
}

struct noted_run *backlog_note(struct backlog *backlog, bool input)
{
    if (backlog->count == BACKLOG_RUNS || backlog->sides[input].tap == NULL)
        return NULL;
    struct noted_run *noted = at(backlog, backlog->count++);
    memset(noted, 0, sizeof *noted);
    noted->input = input;
    return noted;
}

static void drop_first(struct backlog *backlog)
{
    backlog->first++;
    backlog->count--;
    backlog->shown = 0;
}

/* ---- one turn ------------------------------------------------------------------------------ */

/* What is left of a turn. */
struct turn {
    uint32_t samples;
    int64_t ns;
};

/* Frames of the next part, of at most `frames`. */
static uint32_t frames_of_part(const struct backlog_side *side, const struct turn *turn,
                               uint32_t frames)
{
    const uint32_t each = tap_samples(side->tap);
    const double frame_ns = side->frame_ns > 0 ? side->frame_ns : each * sample_ns_most;
    const uint32_t timely = (uint32_t)((double)turn->ns / frame_ns), most = turn->samples / each;
    uint32_t part = LEAST_SAMPLES / each + 1;
    part = timely > part ? timely : part;
    part = part < most ? part : most;
    part = part < frames ? part : frames;
    return part > 0 ? part : 1;
}

/* Absent frames, and those that a viewer does not get, take next to no time. */
static bool is_usual(const struct tap_run *run, bool all_allowed)
{
    bool usual = all_allowed;
    for (uint32_t i = 0; i < run->range_count; i++)
        usual = usual && !run->ranges[i].absent;
    return usual;
}

static void learn(struct backlog_side *side, uint32_t frames, int64_t taken_ns)
{
    const double most = tap_samples(side->tap) * sample_ns_most;
    const double taken = (double)taken_ns / frames, frame_ns = taken < most ? taken : most;
    side->frame_ns += side->frame_ns > 0 ? (frame_ns - side->frame_ns) / 4 : frame_ns;
}

/* Whether the first run is shown on, or from its beginning. */
static bool may_show(const struct backlog *backlog, const struct noted_run *noted,
                     const struct backlog_budget *budget)
{
    if (noted->gone || (backlog->shown == 0 && budget->credit_ns <= 0))
        return false;
    return !noted->input || backlog->holds(backlog->context, noted, backlog->shown);
}

/* Shows a part of the first run. */
static void show_part(struct backlog *backlog, struct backlog_budget *budget, struct turn *turn)
{
    const struct noted_run *noted = at(backlog, 0);
    struct backlog_side *side = &backlog->sides[noted->input];
    const struct tap_run *run = &noted->run;
    const uint32_t from = backlog->shown;
    const uint32_t frames = frames_of_part(side, turn, run->frames - from);
    const uint32_t samples = frames * tap_samples(side->tap) + RUN_SAMPLES;
    const int64_t began_ns = budget->cpu_ns();
    if (from == 0)
        backlog->usual = is_usual(run, tap_allow(side->tap, run->frames, &budget->credit_bytes));
    tap_put(side->tap, run, from, from + frames);
    const int64_t taken_ns = budget->cpu_ns() - began_ns;
    if (backlog->usual)
        learn(side, frames, taken_ns);
    budget->credit_ns -= taken_ns;
    turn->ns -= taken_ns;
    turn->samples -= samples < turn->samples ? samples : turn->samples;
    backlog->shown += frames;
    if (backlog->shown == run->frames)
        drop_first(backlog);
}

bool backlog_turn(struct backlog *backlog, struct backlog_budget *budget)
{
    struct turn turn = {BACKLOG_SAMPLES, BACKLOG_NS};
    budget->credit_ns -= turn_ns;
    while (backlog->count > 0 && turn.samples > 2 * LEAST_SAMPLES && turn.ns > BACKLOG_NS / 4) {
        const struct noted_run *noted = at(backlog, 0);
        if (may_show(backlog, noted, budget)) {
            show_part(backlog, budget, &turn);
        } else {
            tap_skip(backlog->sides[noted->input].tap);
            drop_first(backlog);
        }
    }
    return backlog->count > 0;
}

/* ---- memory -------------------------------------------------------------------------------- */

bool backlog_keeps(const struct backlog *backlog, const struct batch *batch)
{
    bool keeps = false;
    for (uint32_t i = 0; i < backlog->count; i++) {
        const struct noted_run *noted = &backlog->runs[(backlog->first + i) % BACKLOG_RUNS];
        keeps = keeps || (noted->batch == batch && !noted->gone);
    }
    return keeps;
}

void backlog_forget(struct backlog *backlog, const struct batch *batch)
{
    for (uint32_t i = 0; i < backlog->count; i++) {
        struct noted_run *noted = at(backlog, i);
        if (!noted->input && (batch == NULL || noted->batch == batch))
            noted->gone = true;
    }
}
