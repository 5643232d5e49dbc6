/*
 * Replay: the common part of sources whose frames are made or read by a thread of their own
 * (`file`, `generator`, `tradb`). The producer thread fills chunks ahead of time; the loop puts
 * them into the stream, either in real time (by a timerfd, never more frames than the clock says
 * are due) or as fast as the stream has room. Frames are contiguous from 0, or lie where the
 * driver's `place` says, and none is dropped: without room the replay waits.
 *
 *     producer: free ──► fill ──► ready        loop: ready ──► host->put ──► free
 *
 * replay.c defines struct source; each driver brings its `fill`. replay_open runs on a worker
 * thread, everything else on the loop.
 */
#ifndef CONVOLVD_IO_REPLAY_H
#define CONVOLVD_IO_REPLAY_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/error.h"
#include "io/source.h"

/* source_ops.loss of a source that waits. */
#define REPLAY_LOSS "none: the source waits, nothing can be lost before the ring"

/* Where the frames of a chunk lie, for sources whose frames are not one endless signal. */
struct replay_place {
    uint64_t first_frame; /* grows with time, also over gaps: pacing follows it */
    bool begins, ends;    /* a record, with the chunk's first or last frame */
    int64_t capture_ns;   /* realtime of the first frame */
    enum clock_source clock;
    int64_t clock_error_ns;
    /* Frames that the source knows to be lost, flagged as INVALID_CAPTURE; equal: none. */
    uint64_t invalid_from, invalid_until;
};

enum { REPLAY_RANGES_MAX = 32 };

/* What a chunk carries beside its frames, for sources whose frames follow each other. */
struct replay_flags {
    uint32_t count; /* invalid ranges in the chunk, as packets number frames */
    struct invalid_range invalid[REPLAY_RANGES_MAX];
    bool is_cut; /* behind the chunk's last frame */
    struct source_cut cut;
};

struct replay_spec {
    const char *stream; /* for messages */
    double rate_hz;     /* of the frames, for pacing and capture times */
    uint32_t frame_bytes;
    bool paced;
    uint64_t all_frames;   /* until `fill` comes to its end; 0: it has none, or none is known */
    uint32_t chunk_frames; /* the most `fill` is asked for: replay_chunk_frames(frame_bytes) */
    /* Producer thread: writes up to `frames` frames and returns how many; fewer means the end. */
    uint32_t (*fill)(void *context, uint8_t *payload, uint32_t frames);
    bool short_chunks; /* `fill` returns what there is, and 0 at the end */
    /* Producer thread: where the frames lie that `fill` has just returned, all of one record. NULL:
     * they follow each other, and the first is frame 0. */
    void (*place)(void *context, struct replay_place *place);
    /* Producer thread: what `fill` has just found out. NULL: nothing. */
    void (*flags)(void *context, struct replay_flags *flags);
    /* [mark_count] by frame, each reported once; valid until `release`. */
    const struct source_mark *marks;
    uint32_t mark_count;
    /* Loop thread: `fill` may be waiting for its input and must return. NULL: it never waits. */
    void (*interrupt)(void *context);
    /* The context is no longer used; loop thread, or the thread of a failed replay_open. */
    void (*release)(void *context);
    void *context;
};

/* Frames of a chunk of about 256 KiB, at least 1. */
uint32_t replay_chunk_frames(uint32_t frame_bytes);

/* Owns spec->context from here on: `release` is called for it, also when this fails. Returns 0,
 * ERROR_MEMORY or ERROR_SYSTEM. */
int replay_open(const struct replay_spec *spec, const struct io_environment *environment,
                const struct source_host *host, struct source **out, struct problem *problem);

/* The rows of struct source_ops, as documented there. */
int replay_arm(struct source *source, struct problem *problem);
int replay_start(struct source *source, struct problem *problem);
void replay_resume(struct source *source);
void replay_stop(struct source *source);
void replay_close(struct source *source, void (*closed)(void *context), void *context);
void replay_ledger(const struct source *source, struct source_ledger *ledger);
uint16_t replay_port(const struct source *source);
/* What the chunks of such frames take [bytes]. */
uint64_t replay_memory(uint32_t frame_bytes);
bool replay_progress(const struct source *source, uint64_t *done, uint64_t *all);
bool replay_working(const struct source *source, uint64_t *done);

#endif
