/*
 * Leftovers: what a stream computed with on a device that it has left, closed on a worker, since
 * that may take long. Out of memory it leaks.
 *
 * LOOP.
 */
#ifndef CONVOLVD_PIPELINE_LEFTOVER_H
#define CONVOLVD_PIPELINE_LEFTOVER_H

#include <uv.h>

struct plan;
struct recipe;
struct stream_ring;

/* Each may be NULL. */
void leftover_close(uv_loop_t *loop, struct plan *plan, struct stream_ring *ring,
                    struct recipe *recipe);

#endif
