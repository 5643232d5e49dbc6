/*
 * The card of the tests of the source and the sink `portaudio`: takes the place of sound/card.c,
 * so that what is captured, played and lost is the test's to say. One card, one user; test thread.
 */
#ifndef CONVOLVD_TESTS_SOUND_CARD_DOUBLE_H
#define CONVOLVD_TESTS_SOUND_CARD_DOUBLE_H

#include <stdbool.h>
#include <stdint.h>

#include "io/sound/card.h"

struct sound_card {
    struct sound_shared *shared;
    struct sound_card_user user;
    enum sound_direction direction; /* asked for */
    bool started, left;
    bool based, origin_known; /* what the test lets it answer … */
    uint64_t base, origin;    /* … and with what */
};

extern struct sound_card card;

/* Forgets all and lets go of the memory shared with the last user. */
void sound_card_forget(void);

#endif
