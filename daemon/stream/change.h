/*
 * Changing the plan of a running stream: at one frame of an epoch another plan takes the place of
 * the one in use, for all channels at once. stream_change, stream_change_cancel and
 * stream_next_frame (stream.h) are defined here.
 *
 *     frame          x                 x + F
 *     hard    ── old │ new ──────────────────
 *     fade    ── old │ (1 - w) old + w new │ new ──     w = (1 - cos π (i + ½) / F) / 2, i = n - x
 *     clear   ── old │ new; it reads frames before x as zeros ──
 *
 * The mix of a frame depends on its number alone, never on blocks or batches. What the change makes
 * invalid is flagged `filter change`: frame x, the frames of a fade, and those for which the new
 * plan has no true history.
 *
 * A plan that needs more history than the input ring holds brings a larger ring, which the stream
 * takes at once with everything that the old one still holds; positions stay. Presence bits are
 * cleared only while nothing is in flight.
 *
 * Loop thread; nothing here allocates, locks or logs.
 */
#ifndef CONVOLVD_STREAM_CHANGE_H
#define CONVOLVD_STREAM_CHANGE_H

#include <stdbool.h>
#include <stdint.h>

struct epoch;
struct flight;
struct plan;
struct stream;

/* What the pending change lets e->submitted, the next frame to submit, do. */
enum change_phase {
    CHANGE_NONE,    /* the plan in use continues, up to *until */
    CHANGE_INSIDE,  /* the same; the block that *until lies in is for both plans */
    CHANGE_MIXING,  /* a cross-fade: both plans compute, up to *until */
    CHANGE_WAITING, /* submit nothing until every batch in flight has completed */
};

/* Takes the new plan into use once its frame is reached. */
enum change_phase change_follow(struct stream *stream, struct epoch *e, uint64_t *until);
/* The frame of the change lies inside the item just submitted, which both plans computed: flags it;
 * the new plan continues. */
void change_inside(struct stream *stream, struct epoch *e);

/* Whether that of a halted stream may go through: its frame is known. */
bool change_is_due(const struct stream *stream);
/* Of a halted stream: the pending change takes effect at the next frame to submit, and is flagged
 * there; one that clears the history as soon as raw input is level. Nothing is in flight. */
void change_when_halted(struct stream *stream);

/* Both plans that compute a cross-fade. */
void change_fade_plans(const struct stream *stream, struct plan **old, struct plan **new);
/* Mixes the old plan's samples of a flight into those of the new, which then are as any other
 * item's: envelopes are taken after the mix. */
void change_mix(const struct stream *stream, const struct flight *flight, const float *old,
                float *samples);

#endif
