/*
 * The device thread: it makes every OpenCL call for its device that is not a worker's preparation.
 * It sleeps on one eventfd that LOOP rings for a submission, a driver's callback for a completion
 * and a worker for a request. Rings coalesce, so at each wake-up it checks all three.
 *
 * Where the driver reports completions late (device_traits.polled), threads of the engine poll: the
 * device thread polls for a batch that runs alone, a second thread, the waiter, for the batches of
 * a longer queue.
 *
 *     one batch   launch ─► poll, sleep on the doorbell, poll … ─► hand back
 *     several     launch ─► waiter: poll, sleep, poll … ─► doorbell ─► hand back
 *
 * A thread that slept comes back tens of microseconds late, as long as a small batch takes. So on
 * such a device the device thread is awake when the next of regular batches should come.
 *
 * Batches are handed back in the order of their launches, whichever of the device's queues they
 * took.
 */
#ifndef CONVOLVD_CONVOLVE_WORKER_H
#define CONVOLVD_CONVOLVE_WORKER_H

#include "convolve/object.h"

/* The threads' functions; the argument is the engine. */
void *engine_thread(void *engine);
void *engine_waiter(void *engine);

/* Has the device thread do something and waits for it. WORKER, holding planner.workers. */
int engine_request(struct engine *engine, enum request_kind kind, struct problem *problem);

#endif
