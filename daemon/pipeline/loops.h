/*
 * Loops: the event loops that run streams. The main loop runs everything unless `loops` in [daemon]
 * asks for more: then each further loop runs the streams given to it, on a thread of its own, and
 * the main loop runs the others and the control of all.
 *
 *     main loop     ── signals, control, reload, takeover, watchdog, streams that must be here
 *     loop 1 … N    ── source, stream, scheduler and sinks of the streams placed there
 *
 * A loop handles its events in turns: it sleeps until there is one, takes its turn, and sleeps
 * again. Loops 1 to N take turns at the same time. The main loop's turn excludes all others, so
 * that its code may use every stream, and every loop's handles, as if there were one loop. A turn
 * of the main loop begins at most one turn of the others after it wants to: a loop that wants its
 * next turn waits behind it.
 *
 * So code that a stream runs may touch what belongs to its own loop, and what is safe from any
 * thread; it tells the main loop of everything else (core/loop_bell.h).
 *
 * Each declaration names its thread: MAIN, in a turn of the main loop or before loops_run; or ANY.
 */
#ifndef CONVOLVD_PIPELINE_LOOPS_H
#define CONVOLVD_PIPELINE_LOOPS_H

#include <pthread.h>
#include <stdint.h>
#include <uv.h>

#include "core/error.h"
#include "core/limits.h"
#include "core/memory_nodes.h"

struct loops;

/* `main` is open; `more` loops run beside it, at most LOOPS_MAX. With 0 there is no thread and no
 * lock. */
int loops_open(uv_loop_t *main, uint32_t more, struct loops **out, struct problem *problem);

/* ANY. How many run beside the main one; loop 0 is the main one. */
uint32_t loops_more(const struct loops *loops);
uv_loop_t *loops_at(const struct loops *loops, uint32_t loop);

/* ANY. The loop 1 … `more` with the least weight, which `weight` is added to; 0 when there are
 * none. loops_leave takes it off again. */
uint32_t loops_choose(struct loops *loops, double weight);
void loops_leave(struct loops *loops, uint32_t loop, double weight);

/* MAIN. The threads of loops 1 … `more` run at this priority from now on. 0 or an errno value. */
int loops_prioritise(struct loops *loops, int policy, const struct sched_param *priority);

/* MAIN. The loop's thread runs on these processors from now on. 0 or an errno value. */
int loops_run_on(struct loops *loops, uint32_t loop, const struct number_set *processors);

/* MAIN. Runs until the main loop has no handles left; the others run meanwhile. */
void loops_run(struct loops *loops);

/* The main loop has ended, and everything on the others is closed or closing: waits until it is
 * closed, and ends their threads. loops_close frees what loops_leave needed until then. NULL is
 * fine for both. */
void loops_stop(struct loops *loops);
void loops_close(struct loops *loops);

#endif
