/* Budget: see budget.h. */
#include "stream/budget.h"

#include "core/clock.h"

/* Shares of the shortest block period of others, and of those of higher priority. */
enum { SHARE = 2, SHARE_ABOVE = 16 };

/* Shorter batches cost more than they save: a launch alone takes about half of this. */
static const int64_t least_ns = 200 * NS_PER_US;
/* The same of a launch that is known, and how many such batches may be in the queue. */
enum { LAUNCHES = 2, QUEUED = 2 };

static int64_t shorter(int64_t a_ns, int64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

static int64_t longer(int64_t a_ns, int64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

void budget_begin(struct budget_streams *streams)
{
    streams->all = streams->waiting = (struct budget_shortest){INT64_MAX, INT64_MAX, UINT32_MAX};
    for (uint32_t p = 0; p < PRIORITY_MOST + 2; p++)
        streams->above_ns[p] = INT64_MAX;
}

static void add_to(struct budget_shortest *of, uint32_t owner, int64_t period_ns)
{
    if (period_ns >= of->first_ns)
        of->second_ns = shorter(of->second_ns, period_ns);
    else
        *of = (struct budget_shortest){period_ns, of->first_ns, owner};
}

void budget_add(struct budget_streams *streams, uint32_t owner, uint8_t priority, int64_t period_ns,
                int64_t overdue_ns)
{
    streams->above_ns[priority] = shorter(streams->above_ns[priority], period_ns);
    add_to(&streams->all, owner, period_ns);
    add_to(&streams->waiting, owner, period_ns + overdue_ns);
}

void budget_end(struct budget_streams *streams)
{
    for (uint32_t p = PRIORITY_MOST; p > PRIORITY_LEAST; p--)
        streams->above_ns[p - 1] = shorter(streams->above_ns[p - 1], streams->above_ns[p]);
}

/* The shortest of all streams but this one. */
static int64_t others(const struct budget_shortest *of, const struct budget_request *request)
{
    return of->owner == request->owner ? of->second_ns : of->first_ns;
}

int64_t budget_reading_ns(const struct budget_streams *streams,
                          const struct budget_request *request, int64_t spent_ns)
{
    const int64_t waiting_ns =
        request->behind ? others(&streams->all, request) : streams->above_ns[request->priority + 1];
    if (waiting_ns == INT64_MAX)
        return INT64_MAX;
    return spent_ns < waiting_ns / SHARE_ABOVE ? waiting_ns / SHARE_ABOVE - spent_ns : 0;
}

bool budget_is_above(const struct budget_streams *streams, uint8_t priority)
{
    return streams->above_ns[priority + 1] != INT64_MAX;
}

struct budget budget_of(const struct budget_streams *streams, const struct budget_request *request,
                        int64_t alone_ns, uint32_t depth)
{
    const int64_t others_ns = others(&streams->waiting, request),
                  above_ns = request->behind ? streams->above_ns[request->priority + 1] : INT64_MAX;
    const int64_t launches_ns = LAUNCHES * shorter(request->launch_ns, alone_ns / LAUNCHES);
    struct budget budget = {alone_ns, alone_ns * depth};
    if (others_ns / SHARE < budget.total_ns) {
        budget = (struct budget){others_ns / SHARE / depth, others_ns / SHARE};
        budget.batch_ns = longer(budget.batch_ns, longer(least_ns, launches_ns));
        budget.total_ns = longer(budget.total_ns, budget.batch_ns * (depth > 1 ? QUEUED : 1));
    }
    if (above_ns / SHARE_ABOVE < budget.total_ns)
        budget.batch_ns = budget.total_ns = longer(above_ns / SHARE_ABOVE, least_ns);
    return budget;
}
