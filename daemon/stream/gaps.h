/*
 * Holes and gaps of the newest epoch. A hole is a run of frames that are missing below the newest
 * received one: they may still come, reordered. After the reorder window the stream gives the hole
 * up: what is still missing becomes a gap, is filled with silence, flagged with its cause and
 * counted. A frame is *settled* once every frame up to it is present or given up; only settled
 * frames are processed.
 *
 * Owns the input ledger's gaps: timeline_in = received + awaited + gap[…] holds after every call.
 * Loop thread; nothing here allocates, locks or logs.
 */
#ifndef CONVOLVD_STREAM_GAPS_H
#define CONVOLVD_STREAM_GAPS_H

#include <stdbool.h>
#include <stdint.h>

struct epoch;
struct hole;
struct stream;

/* The oldest hole; NULL: none. Valid until the next call here. */
const struct hole *gaps_oldest(const struct stream *stream);

/* Frames [from, until) are missing, first seen at `seen_ns` (monotonic): the debts of the stream
 * are this hole's. When the list of holes is full, the oldest is given up early. */
void gaps_open(struct stream *stream, struct epoch *e, uint64_t from, uint64_t until,
               int64_t seen_ns);

/* The sender never sent frames [from, until) of the epoch. */
void gaps_note_unsent(struct stream *stream, const struct epoch *e, uint64_t from, uint64_t until);
/* An epoch begins: forgets the holes and causes of the one before. */
void gaps_forget(struct stream *stream);

/* Gives up the holes seen so long ago that their frames are not awaited any more at `now_ns`, and
 * settles. */
void gaps_give_up_due(struct stream *stream, struct epoch *e, int64_t now_ns);
/* Gives up every hole, and settles. Raw input of an epoch that has ended is not handed on. */
void gaps_give_up_all(struct stream *stream, struct epoch *e);

enum { GAPS_TURN_BYTES = 1 << 20 };
/* Raw ports get what is settled, with silence where frames are missing, one epoch after the other:
 * gaps_raw_turn gives them at most GAPS_TURN_BYTES of what is due. */
bool gaps_raw_is_due(const struct stream *stream);
void gaps_raw_turn(struct stream *stream);
/* Hands on what is settled below the ring position, so that its slots may be taken. False: that is
 * more than GAPS_TURN_BYTES, and nothing is handed on. */
bool gaps_raw_clear_below(struct stream *stream, uint64_t position);
/* Hands on raw input of the epoch up to `until`, where every frame is present or given up, and all
 * of those before it. False: that is more than GAPS_TURN_BYTES, and nothing is handed on. */
bool gaps_raw_flush(struct stream *stream, struct epoch *e, uint64_t until);
/* Whether the epoch's list of invalid raw input has room for so many ranges more, if need be after
 * gaps_raw_flush. */
bool gaps_raw_make_room(struct stream *stream, struct epoch *e, uint64_t until, uint32_t ranges);

/* Gives up what is missing below `frame`, before the ring forgets that it is missing, and settles.
 */
void gaps_give_up_until(struct stream *stream, struct epoch *e, uint64_t frame);

/* Moves e->settled over everything that is present or given up; notes when blocks became ready and
 * hands raw input on. */
void gaps_settle(struct stream *stream, struct epoch *e);

/*
 * Frames of [from, until) came after they were given up as lost on the network: the gap's cause is
 * lateness. Each missing frame changes its cause once: it leaves the list of network gaps, so a
 * late duplicate changes nothing.
 */
void gaps_mark_late(struct stream *stream, struct epoch *e, uint64_t from, uint64_t until);

#endif
