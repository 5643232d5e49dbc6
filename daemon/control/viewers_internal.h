/*
 * Shared by viewers.c (who wants to see what) and looks.c (what is seen); nobody else includes
 * this.
 */
#ifndef CONVOLVD_CONTROL_VIEWERS_INTERNAL_H
#define CONVOLVD_CONTROL_VIEWERS_INTERNAL_H

#include <pthread.h>
#include <uv.h>

#include "control/tap.h"
#include "control/process.h"
#include "stream/watch.h"

enum {
    VIEWERS_MAX = 4,
    SEEN_MAX = 64,    /* streams' sides of one viewer */
    PENDING_MAX = 64, /* runs of one wake-up, of one stream */
};

/* One side of one stream that a viewer wants to see. */
struct seen {
    char stream[WATCH_NAME_BYTES];
    bool input, minmax;
    uint16_t list[TAP_CHANNELS_MAX];
    uint32_t list_count;
    struct tap *tap; /* NULL: the stream is not there */
};

struct viewer {
    const void *owner; /* NULL: the entry is free */
    void *memory;
    struct watch_writer writer;
    uint32_t request;
    bool levels;
    struct seen seen[SEEN_MAX];
    uint32_t seen_count;
};

/* What was seen of a channel since levels were written last. */
struct gathered {
    double frames, sum, sum_squares, overloads;
    float peak;
};

/* One stream that somebody looks at. */
struct look {
    struct viewers *viewers;
    struct look *next;
    struct pipeline *pipeline;
    struct stream_watch watch;
    /* runs of this wake-up: where their samples lie is valid until flushed */
    struct pending {
        struct tap_run run;
        bool input;
    } pending[PENDING_MAX];
    uint32_t pending_count;
    uint32_t channels;
    struct gathered *levels; /* [channels] */
    uint64_t epoch, frame;   /* of the newest report */
    int64_t capture_ns;
};

struct viewers {
    const struct process *process;
    pthread_mutex_t writing; /* taken by the loops of streams, from here on but for `looks` … */
    uv_timer_t timer;
    struct viewer all[VIEWERS_MAX];
    uint32_t count;
    struct look *looks;
    uint64_t version;  /* of the registry that the looks were made for */
    int64_t credit_ns; /* CPU time that may be spent on looking … */
    double credit_bytes;
    int64_t credited_ns; /* … as of then */
    bool written;        /* points since the timer ran */
    /* … which the main loop alone changes, while the others rest */
};

/* looks.c. Looks at every stream that somebody wants to see; those of before are dropped. */
void looks_make(struct viewers *viewers);
void looks_drop(struct viewers *viewers);
/* Writes the levels and the points gathered since the last time. */
void looks_tick(struct viewers *viewers);

#endif
