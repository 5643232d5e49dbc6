/*
 * Leftovers: what a stream computed with on a device that it has left, closed on a
 * thread of that device (closing.h). Out of memory it leaks.
 *
 * LOOP.
 */
#ifndef CONVOLVD_PIPELINE_LEFTOVER_H
#define CONVOLVD_PIPELINE_LEFTOVER_H

struct engine;
struct plan;
struct recipe;
struct stream_ring;

/* `engine`: the device's. Each of the others may be NULL. */
void leftover_close(const struct engine *engine, struct plan *plan, struct stream_ring *ring,
                    struct recipe *recipe);

#endif
