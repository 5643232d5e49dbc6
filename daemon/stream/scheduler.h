/*
 * Scheduler: puts ready blocks of all streams of one engine into batches, and hands completed
 * batches back to their streams. It decides what a batch holds when it closes the batch: streams in
 * the order of overload.h, while the expected device time of everything queued stays within the
 * stream's budget (budget.h): kernels are not preempted, so that limit keeps a saturating stream
 * from making a modest one late.
 *
 * A block that takes longer than its budget waits until the device is idle and, where live streams
 * of higher priority exist, goes there in parts (engine_submit). Until it is back only their blocks
 * are submitted; these overtake it, and may come back before it. A stream's own batches are
 * never out of order: none of its priority or below is submitted meanwhile.
 *
 * Runs once per loop iteration that brought packets or results; owns
 * the one timerfd for reorder windows and idle flushes.
 *
 * Watched streams (watch.h) are looked at when all of that is done: in each iteration one of them
 * shows a bounded part of what it has, while the loop does not sleep. Their completed batches are
 * kept so long, but for those that are needed again.
 *
 * Loop thread; allocates, locks and logs only when streams come and go.
 */
#ifndef CONVOLVD_STREAM_SCHEDULER_H
#define CONVOLVD_STREAM_SCHEDULER_H

#include <uv.h>

#include "convolve/engine.h"
#include "stream/stream.h"

struct scheduler;

/* engine_options.wake for the engine that scheduler_open will get: DEVICE thread, signals the loop.
 * The doorbell exists before the engine does. */
struct scheduler_bell;
int scheduler_bell_open(uv_loop_t *loop, struct scheduler_bell **out);
void scheduler_bell_ring(void *doorbell);
void scheduler_bell_close(
    struct scheduler_bell *doorbell); /* LOOP; frees itself after uv's close */

int scheduler_open(uv_loop_t *loop, struct engine *engine, struct scheduler_bell *doorbell,
                   struct scheduler **out, struct problem *problem);
void scheduler_close(
    struct scheduler *scheduler); /* frees itself after uv's closes; nothing in flight */

int scheduler_add(struct scheduler *scheduler, struct stream *stream);
/* No work of it may be in flight or ready (stream_drained, or abandoned). */
void scheduler_remove(struct scheduler *scheduler, struct stream *stream);

/* The most device time that a batch takes on such a device when no live stream waits for another.
 */
int64_t scheduler_alone_ns(const struct device_info *device);

/* How long the loop may now read for this stream, for the sake of streams of higher priority on the
 * same device [ns], INT64_MAX: as long as it likes; and that it has read for so long. */
int64_t scheduler_may_read_ns(const struct scheduler *scheduler, const struct stream *stream);
void scheduler_has_read(struct scheduler *scheduler, const struct stream *stream, int64_t ns);

/* Something was put: run at the end of this loop iteration. */
void scheduler_kick(struct scheduler *scheduler);

/* Called on the loop once the device is lost (lost.h): a batch failed or missed its deadline, or
 * somebody declared it. From then on nothing is submitted, until another engine takes its place;
 * streams may be removed from within. Without it, failed batches are shed and the next is tried. */
void scheduler_on_lost(struct scheduler *scheduler, void (*lost)(void *context), void *context);
/* The new engine of the lost device; all streams have been halted. */
void scheduler_take_engine(struct scheduler *scheduler, struct engine *engine);

/* Called on the loop after results were delivered and rings have room again: sources resume. */
void scheduler_on_progress(struct scheduler *scheduler, void (*progress)(void *context),
                           void *context);

#endif
