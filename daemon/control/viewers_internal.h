/*
 * Shared by viewers.c (who wants to see what) and looks.c (what is seen); nobody else includes
 * this.
 */
#ifndef CONVOLVD_CONTROL_VIEWERS_INTERNAL_H
#define CONVOLVD_CONTROL_VIEWERS_INTERNAL_H

#include <pthread.h>
#include <uv.h>

#include "control/backlog.h"
#include "control/process.h"
#include "stream/watch.h"

enum {
    VIEWERS_MAX = 4,
    SEEN_MAX = 64, /* streams' sides of one viewer */
};

/* One side of one stream that a viewer wants to see. */
struct seen {
    char stream[WATCH_NAME_BYTES];
    bool input, minmax;
    uint16_t list[TAP_CHANNELS_MAX];
    uint32_t list_count;
    bool found; /* the stream is there */
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
    struct backlog backlog;
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
    uint64_t version; /* of the registry that the looks were made for */
    struct backlog_budget budget;
    int64_t credited_ns; /* as of then */
    /* … which the main loop alone changes, while the others rest */
};

/* looks.c. Looks at every stream that somebody wants to see; those of before are dropped. */
void looks_make(struct viewers *viewers);
void looks_drop(struct viewers *viewers);
/* Writes the levels and the points gathered since the last time. */
void looks_tick(struct viewers *viewers);
/* CPU time of this thread. */
int64_t looks_cpu_ns(void);

#endif
