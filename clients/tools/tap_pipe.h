/*
 * Pipe: passes what a tap receives to another program, block by block, for readers that cannot
 * keep up with single packets (clients/python). Consecutive packets of one epoch become one
 * record as long as more of them wait in the socket; nothing is held back for it.
 *
 *     | struct tap_pipe_record | invalid ranges | missing ranges | samples |
 *
 * in the byte order of this machine. The samples are [frames][channels] values in the stream's
 * unit: float32 where the wire has floats, else float64, so that no conversion rounds.
 *
 * One owner. Writing blocks while the reader does not read; what the socket cannot hold meanwhile
 * is lost before this program and counted there (`kernel_drops`).
 */
#ifndef CONVOLV_TOOLS_TAP_PIPE_H
#define CONVOLV_TOOLS_TAP_PIPE_H

#include <signal.h>
#include <stdint.h>

#include "convolv.h"
#include "core/error.h"

#define TAP_PIPE_MAGIC 0x50544e43u /* "CNTP" */

enum { TAP_PIPE_VERSION = 1 };

enum tap_pipe_kind {
    TAP_PIPE_OPENING = 1, /* the first record: rate and channels */
    TAP_PIPE_BLOCK = 2,
    TAP_PIPE_QUIET = 3, /* at least every second without a block */
    TAP_PIPE_END = 4,   /* the last one, unless the tap was killed */
};

enum tap_pipe_flags {
    TAP_PIPE_DESCRIBED = 1,
    TAP_PIPE_EPOCH_START = 2,
    TAP_PIPE_EPOCH_END = 4,
    TAP_PIPE_ALIGNED = 8,
    TAP_PIPE_PARTIAL = 16,
    TAP_PIPE_GAIN_DIFFERS = 32,
    TAP_PIPE_LATE = 64,
};

/* Frames [from, until) of the block's epoch. */
struct tap_pipe_range {
    uint64_t from, until;
    uint32_t causes; /* 1 << enum convolv_cause */
    uint32_t zero;
};

/* The fields of struct convolv_block under its names; then the receiver's counts so far. */
struct tap_pipe_record {
    uint32_t magic;
    uint16_t version, kind;
    uint32_t bytes; /* of the whole record */
    uint32_t channels, frames;
    uint16_t invalid, missing; /* ranges of each */
    uint32_t sample_bytes;     /* 4: float32, 8: float64 */
    uint32_t flags;
    uint64_t first_frame;
    uint32_t epoch, record;
    double rate_hz;
    int64_t capture_ns;
    int64_t receive_ns; /* of the last packet */
    uint32_t clock, clock_error_ns;
    double delay_frames;
    uint32_t decimate, gain_changes;
    uint64_t gain_from;
    int64_t stage_ns[CONVOLV_STAGES]; /* the largest of the packets */
    uint64_t lost_before;
    int64_t quiet_ns; /* how long nothing had come when this was written; INT64_MAX: never yet */
    uint64_t datagrams, accepted, heartbeats, rejected, kernel_drops, lost, reordered, frames_lost;
};

struct tap_pipe;

/* `descriptor` stays the caller's. Writing ends when *stopping becomes true. The options give
 * format, channels and rate. */
int tap_pipe_open(int descriptor, const struct convolv_receiver_options *options,
                  const struct convolv_receiver *receiver, const volatile sig_atomic_t *stopping,
                  struct tap_pipe **out, struct problem *problem);
int tap_pipe_put(struct tap_pipe *pipe, const struct convolv_block *block, struct problem *problem);

/* Writes what is held. Call it when nothing waits in the socket. */
int tap_pipe_flush(struct tap_pipe *pipe, struct problem *problem);

/* True once the reader has closed the pipe, after which nothing more is written. */
bool tap_pipe_left(const struct tap_pipe *pipe);

/* Flushes, writes the last record, frees. NULL is fine. */
int tap_pipe_close(struct tap_pipe *pipe, struct problem *problem);

#endif
