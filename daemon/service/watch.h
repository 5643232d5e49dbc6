/*
 * The watchdog: about once a second it checks that every stage of every pipeline makes progress,
 * tells systemd about it (sd_notify(3)), and lets losses be logged. Before the streams run it asks
 * for real-time priority and locked memory, as far as the limits allow, and logs what it got.
 *
 * A stage is stuck when it had work at the last check, has work now, and finished nothing in
 * between:
 *
 *     loop     its timer does not fire
 *     device   batches were on the device, or a block was past its deadline; counts those
 *              that succeeded
 *     readers  a file or a generator had a chunk to make; counts chunks
 *     writers  frames were in a recording's queue; counts frames that the writer wrote or dropped
 *              (frames dropped because the queue is full or the recording is stopped are no
 *              progress)
 *
 * While a stage is stuck the watchdog sends no ping. Pings come four times per WATCHDOG_USEC, so
 * systemd acts once nothing has moved for that time.
 *
 * Loop thread.
 */
#ifndef CONVOLVD_SERVICE_WATCH_H
#define CONVOLVD_SERVICE_WATCH_H

#include "control/process.h"

struct watch;

/* `process` outlives it. 0 or ERROR_MEMORY. */
int watch_open(const struct process *process, struct watch **out);
void watch_close(struct watch *watch); /* frees itself after uv's close; NULL is fine */

/* Before the streams run: asks for priority and memory. Where memory is locked, the kernel walks
 * all of it, 15 to 24 ms with a GPU's driver on a Xeon: time in which no stream gets its turn. */
void watch_ask(struct watch *watch);

/* What systemd is told: the daemon is ready (again), reads its configuration again, stops. */
void watch_ready(struct watch *watch);
void watch_reloading(struct watch *watch);
void watch_stopping(struct watch *watch);

/* Lifts the limit of open files as far as the system lets it. Every stream and sink has a
 * descriptor or two; the default of 1024 is for programs that use select(2). */
void watch_raise_descriptors(void);

#endif
