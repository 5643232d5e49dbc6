/*
 * Tuning: gains, mutes and filters that OSC has set on a running stream, and how they get there: a
 * plan with other edges is prepared on a worker, then takes the place of the one in use at one
 * output frame (stream_change). Changes that come while one is under way wait in order; gains and
 * mutes for the next block are made together. A change that is refused leaves everything as it was.
 *
 * Loop thread, but the preparation.
 */
#ifndef CONVOLVD_CONTROL_OSC_CHANGES_H
#define CONVOLVD_CONTROL_OSC_CHANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "stream/stream.h"

struct pipeline;
struct service;
struct tunings;

enum tuning_kind { TUNING_GAIN, TUNING_MUTE, TUNING_FILTER };

struct tuning_wish {
    enum tuning_kind kind;
    uint32_t output;    /* from 1; 0: all */
    float factor;       /* TUNING_GAIN */
    bool muted;         /* TUNING_MUTE */
    const char *filter; /* TUNING_FILTER */
    bool at_given;
    uint64_t at_frame; /* output frame of the epoch, as results number them */
    enum change_how how;
    double fade_s;  /* CHANGE_FADE */
    uint64_t asker; /* handed back */
};

/* What became of a wish: error 0 and the frame, or why not. */
struct tuning_answer {
    const char *stream;
    enum tuning_kind kind;
    int error;
    const char *text;
    uint64_t frame;
    uint64_t asker;
};

struct tunings *tunings_open(struct service *service, void *context,
                             void (*answered)(void *context, const struct tuning_answer *answer));
/* Refused at once with its sentence, or answered later. */
int tunings_wish(struct tunings *tunings, struct pipeline *pipeline, const struct tuning_wish *wish,
                 struct problem *problem);
/* No answers from here on. */
void tunings_stop(struct tunings *tunings);
void tunings_free(struct tunings *tunings); /* the loop has ended; NULL is fine */

#endif
