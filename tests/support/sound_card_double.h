/*
 * A sound card for the tests of the portaudio source and sink: it replaces io/sound/card.c, and the
 * test decides what the card captures, plays and loses. One card with one user; test thread.
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

/* Resets the card and frees the memory shared with its last user. */
void sound_card_forget(void);

#endif
