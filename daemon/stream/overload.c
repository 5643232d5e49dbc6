/* Overload: see overload.h. */
#include "stream/overload.h"

#include <math.h>

#include "core/clock.h"

/* Device time counts half after this time: long enough to even out batches, short enough that a
 * stream which begins late is not preferred for long. */
static const double used_half_ns = 250e6;

/* A burst that a network has held up is no flood: so much may come at once. */
static const int64_t burst_ns = 250 * NS_PER_MS;
/* Clocks of converters differ: 1/64 above the declared rate is no flood either. */
enum { DRIFT_SHARE = 64 };

/* A stream that has shed and did not catch up for `shedding_ns` sheds again, until it has lost
 * nothing for `settled_ns`. */
static const int64_t shedding_ns = 250 * NS_PER_MS, settled_ns = NS_PER_SECOND;
/* How long a stream may be further behind than its patience before it sheds for the first time. */
static const int64_t grace_ns = 500 * NS_PER_MS;

/* Costs are estimates, and more blocks may come while these are computed: a quarter on top. */
enum { MARGIN_SHARE = 4 };

/* Ranks of streams ahead of their rate, then of those that keep to it. */
enum { RANK_ON_PACE = PRIORITY_MOST + 1, RANKS = 2 * RANK_ON_PACE };

/* ---- the order --------------------------------------------------------------------------- */

/* What counts in overload, the more the later it is shed. */
static uint32_t rank_of(const struct overload_work *work)
{
    return work->ahead ? work->priority : RANK_ON_PACE + work->priority;
}

static bool by_deadline(const struct overload_work *a, const struct overload_work *b)
{
    if (a->live != b->live)
        return a->live;
    return a->deadline_ns < b->deadline_ns;
}

static bool by_rank(const struct overload_work *a, const struct overload_work *b)
{
    if (a->kept != b->kept)
        return a->kept;
    if (a->kept)
        return a->deadline_ns < b->deadline_ns;
    if (rank_of(a) != rank_of(b))
        return rank_of(a) > rank_of(b);
    return a->used_ns < b->used_ns;
}

static void swap(struct overload_work *a, struct overload_work *b)
{
    const struct overload_work c = *a;
    *a = *b;
    *b = c;
}

static void sift_down(struct overload_work *work, uint32_t at, uint32_t count,
                      bool (*before)(const struct overload_work *, const struct overload_work *))
{
    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && before(&work[child], &work[child + 1]))
            child++;
        if (!before(&work[at], &work[child]))
            return;
        swap(&work[at], &work[child]);
    }
}

/* Heapsort: qsort may allocate. */
static void sort(struct overload_work *work, uint32_t count,
                 bool (*before)(const struct overload_work *, const struct overload_work *))
{
    for (uint32_t i = count / 2; i > 0; i--)
        sift_down(work, i - 1, count, before);
    for (uint32_t end = count; end > 1; end--) {
        swap(&work[0], &work[end - 1]);
        sift_down(work, 0, end - 1, before);
    }
}

/* Whether all that has at least this rank is computed by its deadlines, from `at_ns` on; the work
 * is in the order of deadlines. */
static bool feasible(const struct overload_work *work, uint32_t count, uint32_t rank, int64_t at_ns)
{
    for (uint32_t i = 0; i < count; i++) {
        if (rank_of(&work[i]) < rank)
            continue;
        at_ns += work[i].cost_ns + work[i].cost_ns / MARGIN_SHARE;
        if (at_ns > work[i].deadline_ns)
            return false;
    }
    return true;
}

void overload_order(struct overload_work *work, uint32_t count, int64_t now_ns, int64_t busy_ns)
{
    const int64_t at_ns = now_ns + busy_ns;
    uint32_t live = 0, low = 0, high = RANKS;
    sort(work, count, by_deadline);
    while (live < count && work[live].live)
        live++;
    const bool all = feasible(work, live, 0, at_ns);
    for (uint32_t i = 0; i < count; i++)
        work[i].kept = all;
    if (all)
        return;
    /* The lowest rank from which on all deadlines can be met: less work is never harder to do. */
    while (low + 1 < high) {
        const uint32_t middle = (low + high) / 2;
        if (feasible(work, live, middle, at_ns))
            high = middle;
        else
            low = middle;
    }
    for (uint32_t i = 0; i < live; i++)
        work[i].kept = rank_of(&work[i]) >= high;
    sort(work, live, by_rank);
}

/* ---- what a stream has had --------------------------------------------------------------- */

double overload_used(const struct overload_share *share, int64_t now_ns)
{
    const double age_ns = (double)(now_ns - share->used_at_ns);
    return age_ns > 0 ? share->used_ns * exp2(-age_ns / used_half_ns) : share->used_ns;
}

double overload_load(const struct overload_share *share, int64_t now_ns)
{
    return overload_used(share, now_ns) * log(2) / used_half_ns;
}

static int64_t ahead_ns(const struct overload_share *share, int64_t now_ns)
{
    const int64_t passed_ns = now_ns - share->paced_ns;
    const int64_t ahead = share->ahead_ns - passed_ns - passed_ns / DRIFT_SHARE;
    return ahead > 0 ? ahead : 0;
}

bool overload_ahead(const struct overload_share *share, int64_t period_ns, int64_t now_ns)
{
    const int64_t allowed_ns = burst_ns > 4 * period_ns ? burst_ns : 4 * period_ns;
    return ahead_ns(share, now_ns) > allowed_ns;
}

void overload_taken(struct overload_share *share, int64_t span_ns, int64_t cost_ns, int64_t now_ns)
{
    share->used_ns = overload_used(share, now_ns) + (double)cost_ns;
    share->used_at_ns = now_ns;
    share->ahead_ns = ahead_ns(share, now_ns) + span_ns;
    share->paced_ns = now_ns;
}

/* ---- giving up --------------------------------------------------------------------------- */

void overload_caught_up(struct overload_share *share, int64_t now_ns)
{
    share->caught_up_ns = now_ns;
}

void overload_shed(struct overload_share *share, int64_t now_ns)
{
    share->shed_ns = now_ns;
}

bool overload_gives_up(const struct overload_share *share, int64_t ready_ns, int64_t deadline_ns,
                       int64_t patience_ns, int64_t now_ns)
{
    const int64_t behind_ns = now_ns - share->caught_up_ns;
    if (now_ns <= deadline_ns)
        return false;
    if (share->shed_ns != 0 && now_ns - share->shed_ns < settled_ns)
        return behind_ns > shedding_ns;
    return now_ns - ready_ns > patience_ns && behind_ns > patience_ns + grace_ns;
}
