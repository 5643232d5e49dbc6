/*
 * What the plans of one engine share: the device, FFT plans, wisdom, the list of plans that are
 * open and the limits of a batch. Workers make and close plans under the mutex, one at a time.
 */
#ifndef CONVOLVD_CONVOLVE_PLAN_PLANNER_H
#define CONVOLVD_CONVOLVE_PLAN_PLANNER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "convolve/plan/fft_cache.h"
#include "core/limits.h"

struct plan;
struct wisdom;

enum {
    /* Each stream has one, a change two more for a while, a reload's new streams one. */
    PLANS_MAX = 4 * STREAMS_MAX,
    ROWS_PER_BATCH = 1 << 13,
};

struct planner {
    /* immutable while the engine is open */
    struct device *device;
    uint64_t batch_samples, batch_reports; /* what one batch holds: floats, reports */
    _Atomic bool abandoned; /* the device is lost: what is closed is kept for now, see lost.h */
    _Atomic uint32_t held;  /* plans and rings that somebody has and has not closed */
    _Atomic int preparing;  /* workers that build and test plans */
    _Atomic int hung;       /* workers left behind in a call of the driver */
    pthread_mutex_t workers;
    /* under `workers`; the device thread while a worker waits for it */
    struct fft_cache fft_plans;
    struct plan **plans; /* [PLANS_MAX] */
    struct wisdom *wisdom;
};

#endif
