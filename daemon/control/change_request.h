/*
 * A request to change a running stream, and what became of it: see changes.h.
 *
 * Plain data.
 */
#ifndef CONVOLVD_CONTROL_CHANGE_REQUEST_H
#define CONVOLVD_CONTROL_CHANGE_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "core/event.h"
#include "stream/stream.h"

enum change_kind { CHANGE_GAIN, CHANGE_MUTE, CHANGE_FILTER };

struct change_request {
    enum change_kind kind;
    enum {
        RESUMES_NOT,
        RESUMES_NOW,   /* nobody asks: the setting before that a log tells … */
        RESUMES_LATER, /* … and its change, whose frame is known once the epoch begins */
    } resumes;
    uint32_t output;    /* from 1; 0: all */
    float factor;       /* CHANGE_GAIN */
    bool muted;         /* CHANGE_MUTE */
    const char *filter; /* CHANGE_FILTER */
    bool at_given;
    uint64_t at_frame; /* output frame of the epoch, as results number them */
    enum change_how how;
    double fade_s;   /* CHANGE_FADE */
    uint64_t ticket; /* the requester's; comes back with the answer */
    uint64_t group;  /* taken into use together with the others of it that follow; 0: alone */
    char who[EVENT_WHO_BYTES]; /* who asks, as logs and events name it */
};

/* What became of a request: error 0 and the frame from which it holds, or a sentence why not. */
struct change_answer {
    const char *stream;
    enum change_kind kind;
    int error;
    const char *text;
    uint64_t frame;
    uint64_t ticket;
};

#endif
