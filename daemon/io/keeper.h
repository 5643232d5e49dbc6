/*
 * Keepers: a sink whose stream another daemon may go on with at any frame. What commands change of
 * such a stream (filter, gains, mutes) has to reach the other one, so the sink decides whether the
 * stream takes changes, keeps each of them beside the results, and says what to begin with when it
 * is its turn.
 *
 *     control ── owns, settled ──► sink        control ◄── resume, told ── sink
 *             ── keep, resumed ──►             stream  ◄── place ──────────
 *
 * Loop thread. Frames are of the output and numbered as the sink's readers number them, except
 * where a name says otherwise.
 */
#ifndef CONVOLVD_IO_KEEPER_H
#define CONVOLVD_IO_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

struct setting_change; /* cluster/setting.h */
struct sink;

/* What an epoch of the stream is to the sink's readers. */
struct keeper_frames {
    uint64_t epoch; /* their number of it */
    uint64_t shift; /* added to the stream's frame numbers gives theirs … */
    uint64_t start; /* … and at the input's rate */
    uint64_t least; /* their first frame that a change can have */
};

enum keeper_news {
    KEEPER_KEPT,    /* whoever goes on makes the change that was kept last */
    KEEPER_SETTLED, /* and the next change may come */
    KEEPER_LOST,    /* another daemon goes on: it may not know the change that was kept last */
};

/* Of sink_ops. */
struct keeper_ops {
    /* Whether the stream takes changes here and now; else *problem says who does. `epoch`: the
     * stream's number of the epoch that the change is of. */
    bool (*owns)(struct sink *sink, uint64_t epoch, struct keeper_frames *frames,
                 struct problem *problem);
    /* Whether the change before is kept, and no frame depends on it any more that the sink's
     * readers have not got. */
    bool (*settled)(const struct sink *sink);
    /* Keeps the change that the stream has just accepted; copied. */
    void (*keep)(struct sink *sink, const struct setting_change *change);
    /* What `resume` asked for is in use, or cannot be. */
    void (*resumed)(struct sink *sink, bool done);
};

/* What the sink calls; all NULL: nobody changes the stream. */
struct keeper_host {
    void *context;
    /* The stream is to go on with this setting: `after` alone where `past`, else `before`, and the
     * change to `after` once `place` tells its frame. Whatever else waits is of no use any more.
     * Answered by `resumed`, perhaps from within. */
    void (*resume)(void *context, const struct setting_change *change, bool past);
    /* The stream's next epoch begins at input frame `start` of the readers': the change lies at
     * output frame `frame`, and reads input from `since` on; UINT64_MAX: in a later epoch. */
    void (*place)(void *context, uint64_t start, uint64_t frame, uint64_t since);
    void (*told)(void *context, enum keeper_news news);
};

#endif
