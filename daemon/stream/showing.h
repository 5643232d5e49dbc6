/*
 * Showing: when the viewers of a scheduler's streams look at them (watch.h), and what is kept for
 * that. Viewers look last in a turn of the loop, at one stream in each turn:
 *
 *     … results handed on ─ next batches submitted ─ a part shown │ events ─ a part shown │ …
 *
 * On a CPU the device's threads need all processors while they compute a batch: what viewers look
 * at then makes it late. So they look between two batches.
 *
 * A completed batch that they look at is held: its results stay as they are until they have been
 * shown, or until the scheduler needs a batch and has no other.
 *
 * Loop thread; allocates nothing.
 */
#ifndef CONVOLVD_STREAM_SHOWING_H
#define CONVOLVD_STREAM_SHOWING_H

#include <stdbool.h>
#include <stdint.h>

#include "convolve/engine.h"
#include "stream/stream.h"

enum {
    HELD_MAX = 16, /* batches of an engine (engine_options.batches) */
    HELD_IDLY = 1, /* while the device computes the next ones */
};

/* All zero but for its engine: nothing is held. */
struct showing {
    struct engine *engine;
    bool more;                    /* some stream may have something left to show */
    uint32_t next;                /* the stream whose turn it is */
    struct batch *held[HELD_MAX]; /* oldest first */
    uint32_t held_count;
};

/* Whether a part is to be shown in this turn: until then the loop does not sleep. Where the device
 * computes on the processors of the loop, that is while it has nothing to compute, unless so much
 * has been completed meanwhile that it never seems to be idle. */
bool showing_is_due(const struct showing *showing);
/* The batch's results have been handed on: holds it, or releases it when nobody looks at them. */
void showing_hold(struct showing *showing, struct batch *batch);
/* Lets one of the streams show a part, and releases what has been shown. */
void showing_turn(struct showing *showing, struct stream *const *streams, int count);
/* The oldest batch held is needed: the viewers forget it, and it is released. False: there is none.
 */
bool showing_give_up(struct showing *showing, struct stream *const *streams, int count);
/* The same for all: they are of no use any more. */
void showing_forget(struct showing *showing, struct stream *const *streams, int count);
/* The same where no stream is left. */
void showing_release(struct showing *showing);

#endif
