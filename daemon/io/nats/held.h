/*
 * Held input: what a source has received lately, kept in order so that a worker that takes a
 * partition over can read on from any frame of it. The newest frames push the oldest out.
 *
 *     ring     oldest ──────── run 4 ────────┤├───── run 5 ───── head
 *     position        (the sender's numbers)   (another sender's, or the same one's anew)
 *
 * Frames lie at positions, which only grow. A run holds consecutive frame numbers of one sender;
 * each discontinuity begins one. The frame numbers of RTP are its time stamps, continued beyond 32
 * bits by each receiver for itself: two receivers agree on a frame by its time stamp alone.
 *
 * One reader follows a position of its own. Frames that are missing before it are awaited for
 * `reorder`, then given up: nothing is put before the reader's position any more.
 *
 * One thread; allocates when it is opened only.
 */
#ifndef CONVOLVD_IO_NATS_HELD_H
#define CONVOLVD_IO_NATS_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include "io/nats/numbered.h"
#include "stream/source_clock.h"
#include "stream/packet.h"

enum { HELD_RUNS = 16, HELD_GAPS = 256 };

struct held_options {
    uint64_t frames; /* that it holds, at least 1 */
    uint32_t frame_bytes;
    double rate_hz;
    int64_t reorder_ns;
};

/* Consecutive frame numbers of one sender. */
struct held_run {
    uint32_t ssrc;
    uint64_t first; /* frame number, as the source counts … */
    uint64_t from;  /* … at this position */
    struct source_clock times;
    int64_t offset_ns; /* realtime - monotonic, when a packet came last */
    enum clock_source clock;
};

struct held_gap {
    uint64_t from, until;
    int64_t seen_ns; /* monotonic: when a frame behind it came */
    enum invalid_cause cause;
};

/* The members are for held.c. */
struct held {
    struct held_options options;
    uint8_t *bytes;    /* [frames] */
    uint64_t *present; /* a bit for each */
    uint64_t head;     /* position behind the newest frame */
    uint64_t read;     /* the reader's: nothing is put before it */
    uint64_t run_next; /* number of the next run; those before lie at number % HELD_RUNS */
    struct held_run runs[HELD_RUNS];
    uint64_t gap_next;
    struct held_gap gaps[HELD_GAPS];
    enum invalid_cause blamed; /* of frames missing before the next packet */
};

/* 0 or ERROR_MEMORY. */
int held_open(struct held *h, const struct held_options *options);
void held_close(struct held *h);

/* A packet of the sender `ssrc`, which counts only where the packet begins a run. */
enum verdict held_put(struct held *h, const struct packet *packet, uint32_t ssrc);
/* The socket has dropped datagrams: frames missing before the next packet are its fault. */
void held_blame(struct held *h);
/* The sender never sent frames [from, until), numbered as packets are. */
void held_unsent(struct held *h, uint64_t from, uint64_t until);

/* The oldest position that is held; as `head` where nothing is. */
uint64_t held_oldest(const struct held *h);
/* Runs are numbered; those in [held_first_run, run_next) are known, the oldest of which may have
 * been pushed out. */
uint64_t held_first_run(const struct held *h);
static inline const struct held_run *held_run(const struct held *h, uint64_t number)
{
    return &h->runs[number % HELD_RUNS];
}
/* Behind the last frame of the run; `head` for the newest. */
uint64_t held_run_until(const struct held *h, uint64_t number);
/* Realtime of the frame at the position of the run, when it was captured. */
int64_t held_capture_ns(const struct held_run *run, uint64_t position);
/* Half-width of the times of `frames` frames from `position` on. */
int64_t held_error_ns(const struct held_run *run, uint64_t position, uint64_t frames);
/* The sender's time stamp of the frame at `position`, which may lie before the run. */
uint32_t held_timestamp(const struct held_run *run, int64_t position);

/* The position of that frame, which may lie before what is held or behind it (or before 0), and the
 * run that numbers it so. False: no run has the numbering that the mark is of. */
bool held_find(const struct held *h, const struct numbered_mark *mark, uint64_t *run,
               int64_t *position);

/* What stands at the reader's position. */
enum held_kind {
    HELD_NOTHING, /* not yet: look again at piece.due_ns, or when a packet has come */
    HELD_FRAMES,  /* `frames` of them lie at `bytes` */
    HELD_ABSENT,  /* `frames` were given up, because of `cause` */
    HELD_END,     /* the run ends here, and the next one begins */
    HELD_LOST,    /* the reader is too late: what lay here was pushed out */
};

struct held_piece {
    enum held_kind kind;
    const uint8_t *bytes;
    uint64_t frames;
    enum invalid_cause cause;
    int64_t due_ns; /* HELD_NOTHING; INT64_MAX: only a packet helps */
};

/* For the reader at `position` of a run; what came before is not awaited any more. */
struct held_piece held_next(struct held *h, uint64_t run, uint64_t position, int64_t now_ns);
/* There is no reader. */
void held_unread(struct held *h);

#endif
