/* Closing apart from the loop: see closing.h. */
#include "pipeline/closing.h"

#include <pthread.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "pipeline/job.h"

enum { LANES = 8, POLL_US = 2000 }; /* more devices than lanes share the last one */

struct lane {
    const void *device;
    struct closing *first, **last; /* what waits, and where the next one goes */
    bool runs;                     /* a thread closes, or is to be started again */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of the lanes */
static struct lane lanes[LANES];

/* ---- its thread -------------------------------------------------------------------------- */

static struct closing *take(struct lane *lane)
{
    pthread_mutex_lock(&mutex);
    struct closing *closing = lane->first;
    if (closing == NULL)
        lane->runs = false;
    else if ((lane->first = closing->next) == NULL)
        lane->last = &lane->first;
    pthread_mutex_unlock(&mutex);
    return closing;
}

static void *run(void *argument)
{
    struct closing *closing;
    while ((closing = take(argument)) != NULL)
        closing->close(closing);
    return NULL;
}

/* ---- the loop ---------------------------------------------------------------------------- */

static struct lane *lane_of(const void *device)
{
    struct lane *idle = NULL;
    for (int i = 0; i < LANES; i++) {
        if (lanes[i].runs && lanes[i].device == device)
            return &lanes[i];
        if (!lanes[i].runs && idle == NULL)
            idle = &lanes[i];
    }
    return idle != NULL ? idle : &lanes[LANES - 1];
}

void closing_begin(const void *device, struct closing *closing)
{
    pthread_t thread;
    pthread_mutex_lock(&mutex);
    struct lane *lane = lane_of(device);
    if (lane->first == NULL)
        lane->last = &lane->first;
    closing->next = NULL;
    *lane->last = closing;
    lane->last = &closing->next;
    if (!lane->runs) {
        lane->device = device;
        lane->runs = pthread_create(&thread, NULL, run, lane) == 0;
        if (lane->runs)
            pthread_detach(thread);
        else /* the next one tries again */
            log_warning("no thread can be started to close what a stream used: it stays open");
    }
    pthread_mutex_unlock(&mutex);
}

static bool all_closed(void)
{
    bool closed = true;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < LANES; i++)
        closed = closed && !lanes[i].runs && lanes[i].first == NULL;
    pthread_mutex_unlock(&mutex);
    return closed;
}

bool closings_end(int64_t patience_ns)
{
    const int64_t until_ns = clock_monotonic_ns() + patience_ns;
    if (jobs_left_behind(JOB_OF_CHANGE) + jobs_left_behind(JOB_OF_RESPONSE) > 0)
        return false;
    while (!all_closed()) {
        if (clock_monotonic_ns() > until_ns)
            return false;
        usleep(POLL_US);
    }
    return true;
}
