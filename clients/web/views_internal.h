/*
 * Shared by views.c (wants, what the daemon is asked to watch, its ring) and pictures.c (pictures
 * made of it); nobody else includes this.
 */
#ifndef CONVOLV_WEB_VIEWS_INTERNAL_H
#define CONVOLV_WEB_VIEWS_INTERNAL_H

#include "ascan.h"
#include "envelope.h"
#include "spectrum.h"
#include "trace.h"
#include "trigger.h"
#include "views.h"
#include "wire/watch_ring.h"

enum {
    SOURCES_MAX = 64,         /* sides of streams that are looked at */
    SOURCE_CHANNELS_MAX = 16, /* with all of their frames */
    WANTS_MAX = 16,           /* of one session */
    TRACE_FRAMES_LEAST = 1 << 16,
};

/* One side of one stream that somebody looks at. */
struct source {
    bool used;
    char stream[WANT_STREAM_MAX + 1];
    bool input;
    uint32_t users;
    bool minmax;
    uint16_t list[SOURCE_CHANNELS_MAX]; /* channels whose frames come */
    uint32_t list_count;
    /* what the daemon says of it */
    bool known;
    double rate_hz;
    uint32_t channels, frames_per_point;
    char (*units)[16];  /* [channels] */
    struct trace trace; /* of `list`; opened once known, where list_count > 0 */
};

/* One want of one session, and what its pictures are made of. */
struct view {
    struct view *next;
    struct session *session;
    struct want want;
    struct source *source;
    bool ready; /* the source is known, and the rest is opened */
    uint32_t channels;
    uint16_t list[WANT_SCOPE_CHANNELS]; /* places of the wanted channels in the source's list */
    int64_t sent_ns;
    struct envelope envelope;
    struct spectrum spectrum;
    struct ascan ascan;
    /* scope */
    uint64_t epoch, searched; /* frames below have been searched */
    bool triggered, done;     /* a trigger waits for its frames; a single shot was taken */
    uint64_t trigger_frame;
    bool fresh; /* envelope: points have come since the last picture */
};

struct views {
    struct web *web;
    uv_timer_t timer;
    unsigned sessions;
    struct source sources[SOURCES_MAX];
    struct view *all;
    const void *memory; /* the ring; NULL: none */
    size_t memory_bytes;
    struct watch_reader reader;
    struct watch_record record; /* scratch */
    uint32_t request;           /* number of the request whose answer came last */
    bool changed;               /* the daemon has to be asked anew */
    bool refused;               /* it has refused to show anything, as while it starts */
    uint64_t skipped, levels_count;
};

/* pictures.c. Opens what the view's pictures are made of; false: out of memory. */
bool view_open(struct view *view);
void view_close(struct view *view);
/* Frames of the view's trace have come. */
void view_frames(struct view *view, int64_t now_ns);
/* Points have come: of the source's channels first … on. */
void view_points(struct view *view, const struct watch_record *record);
/* Sends what is due without new frames. */
void view_tick(struct view *view, int64_t now_ns);
/* Frames that the trace of its source has to keep for it. */
uint32_t view_trace_frames(const struct want *want);

#endif
