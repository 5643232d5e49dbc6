/*
 * Reader of held input, for one term: from which position on a worker that has taken a partition
 * reads what it holds itself (held.h), and how the partition's epochs number it.
 *
 * The newest record of LOG says which time stamp the frame behind its results has. The run that
 * this time stamp lies in goes on with the record's epoch, `history` frames further back
 * (cluster/term.h); each run behind it begins the next epoch. Where no run has the record's
 * numbering (the sender was started anew meanwhile, or LOG is empty), all that is held begins an
 * epoch. What this worker has not received, or holds no more, is its own gap: the reader goes on
 * behind it, on the grid of blocks.
 *
 * One thread; never allocates.
 */
#ifndef CONVOLVD_IO_NATS_HELD_READER_H
#define CONVOLVD_IO_NATS_HELD_READER_H

#include "cluster/term.h"
#include "io/nats/held.h"
#include "wire/record.h"

struct held_reader {
    const char *stream; /* for messages */
    struct held *held;
    struct term_plan plan;
    struct record newest; /* what the log ended with */
    bool placed;          /* the rest is known: something is held */
    uint64_t run;         /* of held frames */
    uint64_t epoch;       /* of the partition */
    int64_t zero;         /* position of its frame 0, which may never have been held */
    uint64_t timeline;    /* of its frame 0 */
    uint64_t position;    /* of the next frame to read */
    bool begins;          /* the stream begins an epoch with it */
};

void held_reader_begin(struct held_reader *r, const char *stream, struct held *held,
                       const struct term_plan *plan, const struct record *newest);
/* HELD_NOTHING, HELD_FRAMES or HELD_ABSENT, as held_next says. */
struct held_piece held_reader_next(struct held_reader *r, int64_t now_ns);
/* The next frame, as the partition's epoch numbers it. */
uint64_t held_reader_frame(const struct held_reader *r);
/* The epoch that it lies in; `local` is not set, and `start` is right for a frame that begins. */
struct term_epoch held_reader_epoch(const struct held_reader *r);
/* So many frames of the piece were read. */
void held_reader_take(struct held_reader *r, uint64_t frames);

#endif
