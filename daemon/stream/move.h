/*
 * Moving a stream to another device, with a plan of the same filters and a ring of its own there.
 * The state of a stream is its input: whatever was in flight on a lost device is submitted again
 * from the ring, and no frame goes missing.
 *
 *     stream_halt     device lost: what was in flight waits again; nothing is submitted
 *     stream_pause    the device works: nothing more is submitted; soon nothing is in flight
 *     stream_move     ring and plan of the other device; goes on at the next frame
 *
 * While a stream is halted its ring goes on taking frames; those that fall out of it are shed and
 * flagged `device`. A filter change that is under way when the device is lost takes effect at once
 * (one that clears the history as soon as the raw ports have what it clears, in turns of the loop),
 * with what was in flight shed, and is flagged as such.
 *
 * Loop thread, except stream_ring_like.
 */
#ifndef CONVOLVD_STREAM_MOVE_H
#define CONVOLVD_STREAM_MOVE_H

#include <stdbool.h>

#include "stream/stream.h"

/* WORKER. A ring there for `plan`, which holds what the stream's own holds. 0, ERROR_MEMORY or
 * ERROR_LIMIT. */
int stream_ring_like(struct engine *engine, const struct ring_like *like, const struct plan *plan,
                     struct stream_ring **out, struct problem *problem);

/* Where a stream computes. */
struct stream_home {
    struct engine *engine;
    struct plan *plan;
    struct stream_ring *ring; /* of that engine */
};

/* Delivered results that stream_doubt flags, in output frames of the first and the last epoch. */
struct doubted {
    uint64_t frames; /* output frames of all epochs; 0: none */
    uint64_t first_epoch, from, last_epoch, until;
    uint64_t position; /* ring position behind the last of them: from there on nothing is doubted */
};

/*
 * The device has computed wrong results, and those from ring position `from` on have not been
 * checked since. Flags what was delivered of them as INVALID_UNCERTAIN: the next result of each
 * epoch that is not through carries the range, which lies before its first frame. What is in flight
 * is not delivered: stream_halt computes it again. Call it before stream_halt.
 */
void stream_doubt(struct stream *stream, uint64_t from, struct doubted *doubted);

void stream_halt(struct stream *stream);
bool stream_halted(const struct stream *stream);
/* The halted stream has ended: sheds what nothing computes any more. */
void stream_give_up(struct stream *stream);

/* Whether a change of filters waits for its frame. */
bool stream_changing(const struct stream *stream);

/* Stops submitting, or goes on. */
void stream_pause(struct stream *stream, bool paused);
/* Whether it can move: nothing is in flight and no filter change is under way. */
bool stream_can_move(const struct stream *stream);

/* Nothing is in flight and no change is under way (stream_changing). Takes the plan, which has the
 * same inputs, outputs, block and taps as the one in use, and the ring. *from: what it used, now
 * the caller's. */
void stream_move(struct stream *stream, const struct stream_home *to, struct stream_home *from);

#endif
