/* Telling a device that hangs from a process that could not run: see stall.h. */
#include "stream/stall.h"

#include "core/clock.h"

/* Checks while a batch runs. The time up to the first is counted whole; it takes the sample that
 * the others compare with. Most batches are back before it, and cost nothing. */
enum { CHECKS = 4 };

static const int64_t excused_most_ns = 30 * NS_PER_SECOND;

void stall_open(struct stall *stall, int64_t (*waited)(void *context, int64_t now_ns),
                void *context)
{
    *stall = (struct stall){.waited = waited, .context = context};
    stall_reset(stall);
}

void stall_reset(struct stall *stall)
{
    stall->batch = 0;
    stall->due_ns = INT64_MAX;
}

/* The time for which threads had no processor, of the elapsed_ns since the last check. */
static int64_t excuse(struct stall *stall, int64_t elapsed_ns, int64_t now_ns)
{
    int64_t waited_ns = stall->waited(stall->context, now_ns);
    if (!stall->sampled)
        waited_ns = 0; /* since a sample for an earlier batch */
    stall->sampled = true;
    if (waited_ns > elapsed_ns)
        waited_ns = elapsed_ns;
    if (waited_ns > excused_most_ns - stall->excused_ns)
        waited_ns = excused_most_ns - stall->excused_ns;
    stall->excused_ns += waited_ns;
    return waited_ns;
}

bool stall_check(struct stall *stall, uint64_t batch, int64_t given_ns, int64_t now_ns)
{
    if (batch == 0) {
        stall_reset(stall);
        return false;
    }
    if (batch != stall->batch) {
        stall->batch = batch;
        stall->spent_ns = stall->excused_ns = 0;
        stall->sampled = false;
    } else if (now_ns < stall->due_ns) {
        return false;
    } else {
        const int64_t elapsed_ns = stall->due_ns - stall->begun_ns; /* not how late this is */
        stall->spent_ns += elapsed_ns - excuse(stall, elapsed_ns, now_ns);
    }
    stall->begun_ns = now_ns;
    stall->due_ns = now_ns + (given_ns + CHECKS - 1) / CHECKS;
    return stall->spent_ns >= given_ns;
}
