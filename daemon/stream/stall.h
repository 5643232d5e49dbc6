/*
 * Stall: whether a device hangs, told from a process that could not run. Measures how long the
 * oldest batch in flight has had, and counts only time in which the process could work on it:
 *
 *   - not the time by which this thread comes late to a check: the process was stopped (SIGSTOP, a
 *     paused virtual machine, a debugger), or the whole machine was;
 *   - not the time for which a thread of the process waited for a processor that others had
 *     (core/cpu_wait.h), up to 30 s a batch: a busy machine must not hide a dead device for ever.
 *
 * A batch whose time begins while the process is stopped has had nothing of it: its time begins at
 * the first check that sees it, so a check follows each submission.
 *
 * LOOP; allocates nothing but when opened.
 */
#ifndef CONVOLVD_STREAM_STALL_H
#define CONVOLVD_STREAM_STALL_H

#include <stdbool.h>
#include <stdint.h>

struct stall {
    uint64_t batch;   /* the oldest in flight, see engine_oldest; 0: none is */
    int64_t due_ns;   /* when to check next; INT64_MAX: nothing is in flight */
    int64_t begun_ns; /* of the time that is not counted yet */
    int64_t spent_ns, excused_ns;
    bool sampled;
    int64_t (*waited)(void *context, int64_t now_ns); /* cpu_wait_sample, or a test's */
    void *context;
};

/* `waited` answers how long threads waited for a processor since it was called last. */
void stall_open(struct stall *stall, int64_t (*waited)(void *context, int64_t now_ns),
                void *context);
/* Another engine: what was in flight is no more. */
void stall_reset(struct stall *stall);
/* `batch` is the oldest in flight and may take given_ns. True: it has had that, and the device is
 * stalled. Sets due_ns. */
bool stall_check(struct stall *stall, uint64_t batch, int64_t given_ns, int64_t now_ns);

#endif
