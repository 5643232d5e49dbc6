/*
 * Sound card: one PortAudio stream on the event loop, shared by the source that captures from it
 * and the sink that plays on it when both say `duplex = yes`. Starts the helper process, rings its
 * users when frames have come or gone, and after a loss opens the device again with back-off,
 * while the numbering of frames goes on by the time that has passed.
 *
 * Frames here are numbered over all sessions: global frame = device frame + sound_card_base. With
 * `duplex` a frame captured and a frame played in one callback have the same number.
 *
 * sound_card_open runs on a worker thread, all else on the loop.
 */
#ifndef CONVOLVD_IO_SOUND_CARD_H
#define CONVOLVD_IO_SOUND_CARD_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/error.h"
#include "io/sound/options.h"
#include "io/sound/playback_follow.h"
#include "io/sound/shared.h"

enum sound_direction { SOUND_CAPTURE, SOUND_PLAYBACK, SOUND_DIRECTIONS };

struct sound_card_user {
    void *context;
    const char
        *label; /* "stream NAME", "sink NAME": what log lines begin with; outlives the card */
    /* A callback has run: frames have come (sound_ring_peek), playback has gone on. */
    void (*rang)(void *context);
    /* A session is over; what was captured has been taken, what was to be played is not. */
    void (*lost)(void *context);
};

struct sound_card;

/* WORKER. Joins the card of the other direction when there is one. A device that is not there (yet)
 * is looked for later; ERROR_UNSUPPORTED: it will never do what is asked for. */
int sound_card_open(const struct sound_options *options, enum sound_direction direction,
                    const struct sound_card_user *user, uv_loop_t *loop, struct sound_card **out,
                    struct problem *problem);
/* Once: by the source, or by the sink when nothing is captured. */
void sound_card_start(struct sound_card *card);
/* mode = direct: what is played goes over to other filters (a descriptor of sound_link_filters,
 * taken in any case) as soon as the helper has made them. False: no card was opened with these
 * options. */
bool sound_card_set_filters(const struct sound_options *options, int filters);
/* The user is called no more. `closed` is called later, from the loop. */
void sound_card_leave(struct sound_card *card, enum sound_direction direction,
                      void (*closed)(void *context), void *context);

struct sound_shared *sound_card_shared(struct sound_card *card);
/* Global number of the open device's frame 0. False while no device is open: there is none. */
bool sound_card_base(const struct sound_card *card, uint64_t *base);

/* The global frame that is frame 0 of the captured stream's timeline: said by the source with its
 * first frames, asked by the sink of the same card. */
void sound_card_set_origin(struct sound_card *card, uint64_t frame);
bool sound_card_origin(const struct sound_card *card, uint64_t *frame);

/* Sums over all sessions, and the device as it was obtained. */
struct sound_status {
    bool running;
    struct sound_obtained obtained;
    uint32_t period_frames; /* as the callbacks show it; 0: not yet */
    uint64_t counters[SOUND_COUNTERS];
    uint64_t sessions; /* opened so far */
    uint64_t base;     /* see sound_card_base */
};
void sound_card_status(const struct sound_card *card, struct sound_status *status);

/* What a source or sink tells of its card, for driver_status. */
struct sound_report {
    struct sound_status card;
    bool plays;              /* a sink: */
    bool anchored;           /* the two below are known */
    uint64_t latency_frames; /* of playback, as declared */
    int64_t offset_frames;   /* output frame n is played as frame n + offset of the card */
    uint64_t level_frames;   /* in the playback ring now */
    bool follows;            /* the stream's clock: no offset is constant, but there is this */
    struct playback_follow_report follow;
};

#endif
