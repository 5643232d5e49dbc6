/*
 * Losing the device: the verdict, how long a batch may take, and leaving an engine behind. A device
 * is lost when a batch fails, misses its deadline, or when somebody finds a wrong result; the
 * scheduler passes the verdict on, and pipeline/takeover.h moves the streams.
 */
#ifndef CONVOLVD_CONVOLVE_LOST_H
#define CONVOLVD_CONVOLVE_LOST_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

struct engine;
struct ring;

/* Why a device is lost. */
#define ENGINE_LOSS_TABLE(X)                                                                       \
    X(FAILED, "failed")             /* it refused or failed a batch */                             \
    X(STALLED, "stalled")           /* a batch missed its deadline */                              \
    X(WRONG_RESULT, "wrong result") /* it computed outside the error bound */
enum engine_loss {
    ENGINE_WORKS,
#define X(name, text) ENGINE_LOSS_##name,
    ENGINE_LOSS_TABLE(X)
#undef X
        ENGINE_LOSSES,
};

/* "works", "failed", "stalled", "wrong result". ANY. */
const char *engine_loss_name(enum engine_loss loss);

/*
 * Declares the device lost: its streams go on elsewhere, see pipeline/takeover.h. `detail`, a
 * phrase for the log and the status, is copied. The first cause counts, later calls do nothing.
 * ANY: also LOOP, the device thread, and whoever checks results.
 */
void engine_declare_lost(struct engine *engine, enum engine_loss cause, const char *detail);
/* ENGINE_WORKS, or why the device is lost; the detail once it is. ANY. */
enum engine_loss engine_lost(const struct engine *engine);
const char *engine_loss_detail(const struct engine *engine);

/* A worker was left behind in a call of the driver, or is back from it. Meanwhile no plan and no
 * ring is made on the device (ERROR_DEVICE): that worker may hold the lock which they need. Batches
 * go on. ANY. */
void engine_note_hung(struct engine *engine, bool hung);

/* What the device answered to the first batch that failed, logged once; "": none did. LOOP, after
 * engine_completed gave a failed batch. */
const char *engine_fault(const struct engine *engine);

/*
 * The oldest batch in flight: a number that grows with each next one, and with each part of one in
 * parts that completes; 0: none is in flight.
 * *given_ns: how long it may take from then on, engine_options.deadline_ns and twenty times its
 * expected cost; while a worker prepares a plan on the device, at least 5 s (on a CPU 30 s: its
 * driver compiles inside the first launch). LOOP.
 */
uint64_t engine_oldest(const struct engine *engine, int64_t *given_ns);

/*
 * An engine that is lost from the start, for a device that did not open: `index` in device_list,
 * `why` the problem's text. It can be asked what device it is on, and another takes its place once
 * the device opens; it holds nothing of it. 0, ERROR_MEMORY, or what device_list answers. WORKER.
 */
int engine_open_lost(int index, int cpu_threads, const char *why, struct engine **out);

/*
 * Leaves a lost engine behind with all it has: a call of the driver may never return. Nothing wakes
 * the loop for it any more, nothing is in flight, and what is closed of it (plans, rings, the
 * engine) stays as it is. Rings keep their memory, which the streams read. LOOP, or whoever closes
 * an engine that LOOP never used.
 */
void engine_abandon(struct engine *engine);
/*
 * Closes the abandoned engines that have come to rest: all their batches came back, late, failed or
 * wrong, and nobody holds a plan or a ring of theirs. Each on a thread of its own, since the driver
 * may hang at that, too. Call it from time to time. LOOP.
 */
void engines_reclaim(void);
/* Engines abandoned in this process and not closed since: what drivers still hold. ANY. */
uint32_t engines_abandoned(void);
/* Frees what engines_reclaim keeps of each engine, so that it can still be asked what device it
 * was. Once nobody asks any more. */
void engines_forget(void);

/* ---- for the modules of this folder --------------------------------------------------------- */

/* ANY but LOOP. Wakes LOOP, unless it has abandoned the engine. */
void engine_wake(struct engine *engine);

/* ANY: the engine can still be used, or ERROR_DEVICE. */
int engine_check_works(const struct engine *engine, struct problem *problem);

/* Keeps a ring of a lost engine, which its owner has closed. ANY. */
void engine_leave_ring(struct engine *engine, struct ring *ring);

/* Device thread: keeps the first fault, a phrase in the manner of printf, and logs it. */
void engine_note_fault(struct engine *engine, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
