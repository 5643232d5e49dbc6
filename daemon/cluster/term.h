/*
 * A term: one worker's turn at a partition, from where the log ends. It says which frames of the
 * input the worker begins to read, and which of the results that its stream then computes belong
 * into the log.
 *
 *     RAW    ──────────┬───────────────┬──────────►      input frames of the partition's epoch
 *                    start          next in LOG
 *     stream           0 ── settles ──►│                 a new epoch of the stream, frame 0 = start
 *     results                discarded │ appended
 *
 * `start` lies `history` input frames before the block of `next` or further back, on the grid of
 * blocks and decimation, so that every result from `next` on is computed from the same frames in
 * the same blocks as by a worker that began with the epoch: the same bits, given the same plan.
 *
 * Frames are numbered as the partition's epochs number them, results at the output's rate. One
 * thread; never allocates.
 */
#ifndef CONVOLVD_CLUSTER_TERM_H
#define CONVOLVD_CLUSTER_TERM_H

#include <stdbool.h>
#include <stdint.h>

enum { TERM_EPOCHS = 64, TERM_MARKS = 4096 };

/* What of the stream's plan matters here. */
struct term_plan {
    uint32_t history;  /* input frames before a block that its results need */
    uint32_t hop;      /* input frames of a block */
    uint32_t decimate; /* input frames of one of output, at least 1 */
};

/* The first input frame to read for results from output frame `next` on. */
uint64_t term_start(const struct term_plan *plan, uint64_t next);
/* The first frame from `frame` on at which a stream may begin: where the input before is gone. */
uint64_t term_grid(const struct term_plan *plan, uint64_t frame);

/* How the sender of the input numbers it: its SSRC, and its time stamp of frame 0 of the
 * partition's epoch. All zero: it does not, or nobody knows. */
struct term_sender {
    bool known;
    uint32_t ssrc, timestamp;
};

/* An epoch of the stream, and what it is of the partition. */
struct term_epoch {
    uint64_t local;    /* as the stream numbers it */
    uint64_t epoch;    /* of the partition */
    uint64_t start;    /* its input frame 0 */
    uint64_t timeline; /* of frame 0 of the partition's epoch, in input frames */
    struct term_sender sender;
};

/* A record of RAW that was read: it begins with this frame. */
struct term_mark {
    uint64_t epoch, from, sequence;
};

/* All of it; the members are for term.c and tests. */
struct term {
    struct term_plan plan;
    bool open;            /* between term_begin and term_end */
    uint64_t epoch, next; /* the first result that the log has not got */
    uint32_t epoch_count; /* newest at (count - 1) % TERM_EPOCHS */
    struct term_epoch epochs[TERM_EPOCHS];
    uint32_t mark_count;
    struct term_mark marks[TERM_MARKS];
};

/* The log ends before output frame `next` of `epoch`. */
void term_begin(struct term *t, const struct term_plan *plan, uint64_t epoch, uint64_t next);
/* Whatever the stream still hands out belongs to nobody. */
void term_end(struct term *t);

/* The stream has begun an epoch for this term. */
void term_epoch(struct term *t, const struct term_epoch *epoch);
/* What the stream's epoch `local` is of the partition; NULL: not one of this term. */
const struct term_epoch *term_find(const struct term *t, uint64_t local);
/* A record of RAW was read, in order. */
void term_mark(struct term *t, const struct term_mark *mark);
/* The record of RAW from which a successor reads once the log ends at `next`; 0: none is known. */
uint64_t term_sequence(const struct term *t);

/* What of a result belongs into the log. */
enum term_part {
    TERM_FOREIGN, /* nothing: it is of another term */
    TERM_SEEN,    /* nothing: the log has all of it */
    TERM_NEW,     /* its frames from `skip` on */
};

struct term_cut {
    enum term_part part;
    uint32_t skip;        /* frames at its beginning that the log has */
    uint64_t epoch;       /* of the partition */
    uint64_t from, first; /* frames [from, first) are missing: nobody computed them */
    uint64_t next;        /* behind its last frame */
    uint64_t input_next;  /* the same in input frames, at most */
    uint64_t timeline;    /* of `first`, at the output's rate */
    bool begins;          /* the first result of its epoch */
    struct term_sender sender;
};

/* Of a result with frames [first, first + frames) of the stream's epoch `local`. */
struct term_cut term_cut(const struct term *t, uint64_t local, uint64_t first, uint32_t frames);
/* The cut was appended. */
void term_take(struct term *t, const struct term_cut *cut);

#endif
