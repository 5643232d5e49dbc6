/*
 * Wants: what a browser asks to see, read from its messages. A message is JSON of at most
 * SESSION_TEXT_MAX bytes from anybody; what want_parse returns is whole and within its ranges.
 *
 * Pure functions, any thread.
 */
#ifndef CONVOLV_WEB_WANT_H
#define CONVOLV_WEB_WANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

enum view_kind {
    VIEW_NONE,
    VIEW_ENVELOPE,
    VIEW_SCOPE,
    VIEW_ASCAN,
    VIEW_SPECTRUM,
    VIEW_HITS, /* events of analyses: no stream, nothing else */
};
enum trigger_mode { TRIGGER_AUTO, TRIGGER_LEVEL, TRIGGER_RECORD, TRIGGER_EXTERNAL };
enum trigger_slope { SLOPE_RISING, SLOPE_FALLING, SLOPE_EITHER };
enum window { WINDOW_HANN, WINDOW_RECTANGULAR, WINDOW_BLACKMAN_HARRIS, WINDOW_FLAT_TOP };

enum {
    WANT_STREAM_MAX = 63,
    WANT_CHANNELS_MAX = 1024, /* envelope */
    WANT_SCOPE_CHANNELS = 16,
    WANT_SPECTRUM_CHANNELS = 8,
    WANT_FRAMES_MAX = 262144,
    WANT_POINTS_MAX = 4000,
    WANT_FFT_MAX = 65536,
    WANT_AVERAGE_MAX = 4096,
};

struct want {
    uint16_t id;
    enum view_kind view; /* NONE: drop the want with this id */
    char stream[WANT_STREAM_MAX + 1];
    bool input;                           /* the side shown */
    uint16_t channel_count;               /* 0: all */
    uint16_t channels[WANT_CHANNELS_MAX]; /* from 0, ascending by place in the message */
    /* envelope */
    double seconds; /* 0.1 … 600 */
    uint32_t points;
    /* scope, ascan */
    uint32_t frames;
    enum trigger_mode trigger;
    enum trigger_slope slope;
    double level;             /* in the channel's unit */
    uint16_t trigger_channel; /* from 0 */
    uint32_t pretrigger;      /* frames, below `frames` */
    bool single;
    uint64_t frame;   /* external: the frame that triggers */
    uint64_t period;  /* ascan: frames from one to the next; 0: records */
    uint32_t average; /* ascan: A-scans; spectrum: segments; at least 1 */
    /* spectrum */
    uint32_t fft; /* a power of two, 64 … WANT_FFT_MAX */
    enum window window;
};

/* Reads one message. 0, or an error with a sentence for the browser and view NONE; want->id is set
 * either way, 0 where the message has none. */
int want_parse(const char *text, size_t bytes, struct want *want, struct problem *problem);

const char *view_name(enum view_kind view);

#endif
