/*
 * Sound card: a helper process's device on the event loop. A card has one user for each direction:
 * the source that captures from it, the sink that plays on it. With `duplex = yes` they share one
 * card. The card starts the helper, calls its users after each callback of the device, and after a
 * loss reopens the device with exponential back-off.
 *
 * Frames are numbered over all sessions: global frame = device frame + sound_card_base. While the
 * device is away, numbering continues by the time that passes. With `duplex`, frames that one
 * callback captures and plays have the same number.
 *
 * sound_card_open runs on a worker thread, everything else on the loop thread, unless its comment
 * says otherwise.
 */
#ifndef CONVOLVD_IO_SOUND_CARD_H
#define CONVOLVD_IO_SOUND_CARD_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/error.h"
#include "io/environment.h"
#include "io/sound/options.h"
#include "io/sound/playback_follow.h"
#include "io/sound/shared.h"

enum sound_direction { SOUND_CAPTURE, SOUND_PLAYBACK, SOUND_DIRECTIONS };

/* Of a source or sink; called on the loop thread. */
struct sound_card_user {
    void *context;
    const char *label; /* "stream NAME", "sink NAME": begins log lines; outlives the card */
    /* The device's callback has run, once or more: frames may be captured and played. */
    void (*callback)(void *context);
    /* The session has ended. The user has been called for all that was captured; results that are
     * not played yet never will be. */
    void (*lost)(void *context);
};

struct sound_card;

/* The open cards of a process (io_environment.cards), where the source and the sink of a duplex
 * card find each other. Opened before the first card, closed after the last one has closed. */
struct sound_cards;
int sound_cards_open(struct sound_cards **out, struct problem *problem); /* 0 or ERROR_MEMORY */
void sound_cards_close(struct sound_cards *cards);                       /* NULL is fine */

/* Worker thread. Joins the card that the other direction of a duplex card opened with the same
 * options, or opens one; the options outlive it. When the device is absent, the card opens it
 * later. Without environment->cards nothing is shared. Returns 0, ERROR_UNSUPPORTED (the device
 * cannot do what the options ask for), ERROR_MEMORY or ERROR_SYSTEM. */
int sound_card_open(const struct sound_options *options, enum sound_direction direction,
                    const struct sound_card_user *user, const struct io_environment *environment,
                    struct sound_card **out, struct problem *problem);
/* Starts the device: the source calls it, or the sink of a card that captures nothing. */
void sound_card_start(struct sound_card *card);
/* mode = direct: the card opened with these options changes to other filters as soon as the helper
 * has made a convolver from them. Takes the descriptor (sound_link_filters), also when there is no
 * such card. */
void sound_card_set_filters(struct sound_cards *cards, const struct sound_options *options,
                            int filters);
/* Ends the use of one direction; the user is not called again. Calls `closed` later, from the loop;
 * the last user's `closed` comes after the helper has ended. */
void sound_card_leave(struct sound_card *card, enum sound_direction direction,
                      void (*closed)(void *context), void *context);

struct sound_shared *sound_card_shared(struct sound_card *card);
/* Global number of device frame 0 of this session. Returns false between sessions. */
bool sound_card_base(const struct sound_card *card, uint64_t *base);

/* The origin: the global frame that is frame 0 of the first epoch that the source captured. It sets
 * it with its first frames; the sink of the same card reads it, and gets false before that. */
void sound_card_set_origin(struct sound_card *card, uint64_t frame);
bool sound_card_origin(const struct sound_card *card, uint64_t *frame);

/* The device as it was obtained, and counters summed over all sessions. */
struct sound_status {
    bool running;
    struct sound_obtained obtained;
    uint32_t period_frames; /* of the newest callback; 0: none has run */
    uint64_t counters[SOUND_COUNTERS];
    uint64_t sessions; /* opened so far */
    uint64_t base;     /* see sound_card_base */
};
void sound_card_status(const struct sound_card *card, struct sound_status *status);

/* What a source or sink tells of its card, for driver_status. */
struct sound_report {
    struct sound_status card;
    bool plays;              /* it is a sink's; the members below are set */
    bool anchored;           /* latency and offset are known */
    uint64_t latency_frames; /* of playback, as declared */
    int64_t offset_frames;   /* output frame n is played as frame n + offset of the card */
    uint64_t level_frames;   /* in the playback ring now */
    bool follows;            /* playback follows the stream's clock: the offset varies */
    struct playback_follow_report follow;
};

#endif
