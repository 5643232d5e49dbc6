/*
 * Backlogs: runs of frames of one stream that viewers have not looked at yet, oldest first, and how
 * they are shown: a bounded part in each turn of the loop, so that whatever else waits for the loop
 * waits no longer than for one part. A part is
 *
 *     at most BACKLOG_SAMPLES samples, of all channels and viewers together, and
 *     as many frames as should take BACKLOG_NS, by what those before took (formats and machines
 *     differ by a factor of 50)
 *
 * A run is shown whole, or not at all where the budget of all viewers is used up when it begins or
 * its memory has been overwritten; the viewers are told of what they do not see.
 *
 * Loop thread; allocates nothing.
 */
#ifndef CONVOLVD_CONTROL_BACKLOG_H
#define CONVOLVD_CONTROL_BACKLOG_H

#include <stdbool.h>
#include <stdint.h>

#include "control/tap.h"
#include "convolve/batch.h"

enum {
    BACKLOG_RUNS = 64,         /* a power of two */
    BACKLOG_SAMPLES = 1 << 17, /* read in one turn */
    BACKLOG_NS = 50000,        /* CPU time of one turn */
};

/* What may be spent on showing, by all viewers together. */
struct backlog_budget {
    int64_t credit_ns;       /* CPU time */
    double credit_bytes;     /* of single frames */
    int64_t (*cpu_ns)(void); /* of this thread */
};

/* Consecutive frames of one side. */
struct noted_run {
    struct tap_run run;
    bool input;
    const struct batch *batch; /* results: they lie in it */
    const struct ring *ring;   /* input: it lies there … */
    uint64_t position;         /* … from this position on */
    bool gone;                 /* its memory */
};

/* One side of the stream. */
struct backlog_side {
    struct tap *tap; /* NULL: nobody wants to see it */
    double frame_ns; /* what showing a frame takes; 0: not known yet */
};

struct backlog {
    struct backlog_side sides[2]; /* [input] */
    /* Whether an input run's memory still holds its frames from frame `from` on. */
    bool (*holds)(void *context, const struct noted_run *noted, uint32_t from);
    void *context;
    struct noted_run runs[BACKLOG_RUNS];
    uint32_t first, count;
    uint32_t shown; /* frames of the first run */
    bool usual;     /* the first run's frames take what frames of its side usually do */
};

/* Room for the next run, zeroed but for its side; NULL: there is none, or nobody wants to see it.
 */
struct noted_run *backlog_note(struct backlog *backlog, bool input);
/* Shows the next part. False: nothing is left. */
bool backlog_turn(struct backlog *backlog, struct backlog_budget *budget);
/* Whether a run of results lies in this batch. */
bool backlog_keeps(const struct backlog *backlog, const struct batch *batch);
/* The memory of results in the batch (NULL: of all results) goes. */
void backlog_forget(struct backlog *backlog, const struct batch *batch);

#endif
