/* Arrivals of batches, see arrivals.h. */
#include "convolve/arrivals.h"

#include <stdbool.h>

#include "core/clock.h"

const int64_t arrivals_early_ns = 110 * NS_PER_US, arrivals_late_ns = 80 * NS_PER_US;

/* An interval that is farther off the mean begins a new one: another rate, or a pause. */
static const int64_t change_ns = 500 * NS_PER_US;
static const int64_t jitter_most_ns = 60 * NS_PER_US;
/* Time awake is at most one part in WAKE_SHARE; an interval counts one part in WEIGHT. */
enum { WAKE_SHARE = 5, WEIGHT = 8 };

void arrivals_note(struct arrivals *arrivals, int64_t submitted_ns)
{
    const int64_t interval_ns = submitted_ns - arrivals->last_ns;
    const int64_t off_ns = interval_ns - arrivals->mean_ns;
    const int64_t size_ns = off_ns < 0 ? -off_ns : off_ns;
    arrivals->last_ns = submitted_ns;
    if (size_ns > change_ns) {
        arrivals->mean_ns = interval_ns;
        arrivals->jitter_ns = change_ns;
    } else {
        arrivals->mean_ns += off_ns / WEIGHT;
        arrivals->jitter_ns += (size_ns - arrivals->jitter_ns) / WEIGHT;
    }
}

int64_t arrivals_next_ns(const struct arrivals *arrivals)
{
    const int64_t least_ns = WAKE_SHARE * (arrivals_early_ns + arrivals_late_ns);
    const bool regular = arrivals->jitter_ns <= jitter_most_ns && arrivals->mean_ns >= least_ns;
    return regular ? arrivals->last_ns + arrivals->mean_ns : 0;
}
