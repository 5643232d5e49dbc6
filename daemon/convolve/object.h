/*
 * The engine's object, for the modules of this folder and of check/. Fields stand in groups by the
 * thread that may touch them.
 */
#ifndef CONVOLVD_CONVOLVE_OBJECT_H
#define CONVOLVD_CONVOLVE_OBJECT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "convolve/arrivals.h"
#include "convolve/feed.h"
#include "convolve/launches.h"
#include "convolve/plan/planner.h"
#include "convolve/rings.h"
#include "convolve/slot.h"
#include "convolve/traffic.h"
#include "core/error.h"
#include "core/spsc.h"
#include "device/device.h"

enum { BATCHES_MAX = 16, LOSS_DETAIL = 160 };

/* An abandoned engine: in use, being closed, closed but for its object. */
enum { RECLAIM_NOT_YET, RECLAIM_BEGUN, RECLAIM_DONE };

enum request_kind { REQUEST_NONE, REQUEST_RUN, REQUEST_FEEDS };

struct engine {
    /* immutable while open; device.h and planner.h say who may touch what is inside */
    struct device device;
    struct planner planner;
    uint32_t slot_count;
    uint32_t depth, depth_short; /* batches in the device's queue; of short ones */
    struct slot *slots;          /* [slot_count + 1]: the last is the worker's */
    pthread_t thread;
    int64_t patience_ns;
    int doorbell; /* eventfd to the device thread */
    bool waits;   /* completions come from the waiter thread, not from the driver's callbacks */
    pthread_t waiter;
    int waiter_bell; /* eventfd to it */

    /* WORKER, under planner.workers */
    struct rings rings;

    /* LOOP */
    struct slot *free_slots[BATCHES_MAX];
    uint32_t free_count;
    uint32_t in_flight;
    const struct batch *flights[BATCHES_MAX]; /* submitted, oldest first, mod BATCHES_MAX */
    uint32_t flight_first;
    uint64_t submissions;
    int64_t busy_ns; /* expected, of the batches in flight */
    bool abandoned;
    uint32_t awaited;         /* batches that were in flight when it was abandoned */
    struct engine *next_left; /* of those abandoned; under lost.c's mutex */
    _Atomic int reclaim;      /* also its thread */

    /* LOOP → device thread, and back */
    struct spsc submitted, completed;
    struct feeds feeds;
    struct traffic traffic;
    _Atomic bool stopping;
    _Atomic bool live;           /* it has computed blocks of streams */
    _Atomic uint64_t parts_done; /* of batches in parts, all together */

    /* ANY → LOOP */
    pthread_mutex_t wake_mutex;  /* whoever wakes LOOP holds it; LOOP takes it once, to abandon */
    void (*wake)(void *context); /* NULL: abandoned */
    void *wake_context;
    pthread_mutex_t loss_mutex;
    _Atomic int loss; /* enum engine_loss */
    char loss_detail[LOSS_DETAIL];
    struct ring_memory *rings_left; /* under loss_mutex */

    /* WORKER → device thread, under request_mutex */
    pthread_mutex_t request_mutex;
    pthread_cond_t request_done;
    enum request_kind request;
    bool request_taken, request_finished;
    int request_error;
    struct problem request_problem;

    /* device thread → waiter thread, and back */
    struct spsc waiting;
    _Atomic int64_t last_seen_ns; /* when a thread saw the last batch complete */

    /* device thread */
    struct slot *polled; /* the batch that runs alone and that this thread polls; NULL: none */
    struct slot *running[BATCHES_MAX + 1];
    uint32_t running_count;
    struct slot *parted; /* of them, the one in parts; NULL: none */
    struct parts parts;  /* what is left of it */
    int64_t last_completed_ns;
    struct arrivals arrivals;
    char fault[LOSS_DETAIL]; /* of the first batch that failed; LOOP reads it after such a batch */
    uint64_t launches;       /* batches handed to the device */
    uint64_t failures;       /* of them, refused or failed */
    uint64_t suspect_until;  /* launches up to this one may have read what a failed one left */
    bool copies_ahead;       /* compute[0] has copies that compute[1] has not waited for */
};

/* engine.c, for lost.c: an engine without a device, NULL: out of memory. */
struct engine *engine_new(void);
/* Closes threads, plans, rings and the device of an engine that nobody uses.
 * Holds planner.workers. BLOCKS. */
void engine_close_left(struct engine *engine);
/* Frees the object. */
void engine_free(struct engine *engine);

#endif
