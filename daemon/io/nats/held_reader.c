/* Reads what is held for a term: see held_reader.h. */
#include "io/nats/held_reader.h"

#include "core/clock.h"
#include "core/log.h"

static uint64_t frame_at(const struct held_reader *r, uint64_t position)
{
    return (uint64_t)((int64_t)position - r->zero);
}

/* ---- where the term begins --------------------------------------------------------------- */

static double frames_between(const struct held_reader *r, int64_t from_ns, int64_t until_ns)
{
    const double frames = (double)(until_ns - from_ns) * 1e-9 * r->held->options.rate_hz;
    return frames > 0 ? frames : 0;
}

static void begin_at(struct held_reader *r, uint64_t frame)
{
    r->position = (uint64_t)(r->zero + (int64_t)frame);
    r->begins = true;
}

/* The position of the oldest frame of the run that is held. */
static uint64_t oldest_of(const struct held_reader *r, uint64_t run)
{
    const uint64_t oldest = held_oldest(r->held), from = held_run(r->held, run)->from;
    return oldest > from ? oldest : from;
}

/* What lay before is pushed out: on with the oldest frame on the grid of blocks. */
static void skip_lost(struct held_reader *r)
{
    const uint64_t oldest = oldest_of(r, r->run);
    const uint64_t frame = term_grid(&r->plan, frame_at(r, oldest));
    begin_at(r, frame);
}

/* Goes on with the epoch of the newest record, if a run has its frames. */
static bool place_behind(struct held_reader *r, const struct record *newest, uint64_t next)
{
    const struct term_plan *plan = &r->plan;
    const struct numbered_mark mark = numbered_mark_of(newest);
    int64_t position;
    if (!(newest->flags & RECORD_SENDER) || !held_find(r->held, &mark, &r->run, &position))
        return false;
    r->epoch = newest->epoch;
    r->zero = position - (int64_t)next;
    r->timeline = (newest->timeline - newest->first) * plan->decimate;
    const int64_t start = r->zero + (int64_t)term_start(plan, newest->next);
    if (start >= (int64_t)oldest_of(r, r->run)) {
        begin_at(r, term_start(plan, newest->next));
        return true;
    }
    const int64_t lost = (int64_t)oldest_of(r, r->run) - position;
    if (lost > 0)
        log_warning("stream %s: this standby has not got the %lld frames behind the newest result: "
                    "they are a gap",
                    r->stream, (long long)lost);
    skip_lost(r);
    return true;
}

/* All that is held is of another numbering than the log's: it begins an epoch. */
static void place_anew(struct held_reader *r, const struct record *newest, uint64_t next)
{
    const uint64_t oldest = held_oldest(r->held), begun = (newest->timeline - newest->first);
    r->run = held_first_run(r->held);
    while (held_run_until(r->held, r->run) <= oldest && r->run + 1 < r->held->run_next)
        r->run++;
    r->zero = (int64_t)oldest;
    r->epoch = newest->epoch;
    r->timeline = 0;
    if (next > 0) {
        const int64_t now_ns = held_capture_ns(held_run(r->held, r->run), oldest);
        r->epoch++;
        r->timeline = begun * r->plan.decimate + next +
                      (uint64_t)frames_between(r, newest->capture_ns, now_ns);
    }
    begin_at(r, 0);
}

static bool place(struct held_reader *r)
{
    const struct record *newest = &r->newest;
    const uint64_t next = newest->next * r->plan.decimate;
    if (r->placed || r->held->head == 0)
        return r->placed;
    if (!place_behind(r, newest, next))
        place_anew(r, newest, next);
    return r->placed = true;
}

/* The next run begins the next epoch. */
static void next_run(struct held_reader *r)
{
    const bool known = r->run >= held_first_run(r->held);
    const uint64_t end = known ? held_run_until(r->held, r->run) : r->position;
    int64_t before_ns = 0;
    if (known)
        before_ns = held_capture_ns(held_run(r->held, r->run), end);
    r->run = known ? r->run + 1 : held_first_run(r->held);
    const uint64_t oldest = oldest_of(r, r->run);
    const int64_t now_ns = held_capture_ns(held_run(r->held, r->run), oldest);
    r->epoch++;
    r->timeline += frame_at(r, end) + (uint64_t)(known ? frames_between(r, before_ns, now_ns) : 0);
    r->zero = (int64_t)oldest;
    begin_at(r, 0);
}

/* The reader is too late, by as many frames as the record behind them says. */
static void lose(struct held_reader *r)
{
    if (r->run < held_first_run(r->held) ||
        (r->run + 1 < r->held->run_next && held_run_until(r->held, r->run) <= held_oldest(r->held)))
        next_run(r);
    else
        skip_lost(r);
}

/* ---- the reader's side ------------------------------------------------------------------- */

void held_reader_begin(struct held_reader *r, const char *stream, struct held *held,
                       const struct term_plan *plan, const struct record *newest)
{
    *r = (struct held_reader){.stream = stream, .held = held, .plan = *plan, .newest = *newest};
    held_unread(held);
}

struct held_piece held_reader_next(struct held_reader *r, int64_t now_ns)
{
    if (!place(r))
        return (struct held_piece){.due_ns = INT64_MAX};
    for (;;) {
        const struct held_piece piece = held_next(r->held, r->run, r->position, now_ns);
        if (piece.kind == HELD_END)
            next_run(r);
        else if (piece.kind == HELD_LOST)
            lose(r);
        else
            return piece;
    }
}

uint64_t held_reader_frame(const struct held_reader *r)
{
    return frame_at(r, r->position);
}

struct term_epoch held_reader_epoch(const struct held_reader *r)
{
    const struct held_run *run = held_run(r->held, r->run);
    return (struct term_epoch){
        .epoch = r->epoch,
        .start = held_reader_frame(r),
        .timeline = r->timeline,
        .sender = {.known = true, .ssrc = run->ssrc, .timestamp = held_timestamp(run, r->zero)}};
}

void held_reader_take(struct held_reader *r, uint64_t frames)
{
    r->begins = false;
    r->position += frames;
}
