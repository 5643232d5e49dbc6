/*
 * Epochs of a stream: where each one lies in the input ring, on the timeline and in real time, and
 * which of them still have work. Beginning and ending one is ingest.c's.
 *
 * Loop thread; nothing here allocates, locks or logs.
 */
#ifndef CONVOLVD_STREAM_EPOCHS_H
#define CONVOLVD_STREAM_EPOCHS_H

#include <stdbool.h>
#include <stdint.h>

#include "stream/packet.h"

struct epoch;
struct stream;

/* Lowest ring position that submitted or waiting work may still read. Ring slots below it are
 * free. */
uint64_t epochs_low(const struct stream *stream);

/* Position of frame 0 of the next epoch: behind the tail of the newest and a history of zeros. */
uint64_t epochs_next_base(const struct stream *stream);

/* Timeline number of frame 0 of the epoch that `packet` begins. The timeline advances by the time
 * that has passed and never runs into the tail before; the number is a multiple of D. */
uint64_t epochs_next_timeline(const struct stream *stream, const struct packet *packet);

/* Capture time [ns, realtime] of an input frame of the epoch, which may have a fraction, with its
 * clock, and the error bound [ns] of the times of `frames` frames that are counted from it. */
int64_t epochs_capture_ns(const struct stream *stream, const struct epoch *epoch, double frame,
                          uint64_t frames, enum clock_source *clock, int64_t *error_ns);
/* Takes the capture time that the source gives for input frame `first`, the packet's. */
void epochs_take_capture(struct stream *stream, struct epoch *epoch, uint64_t first,
                         const struct packet *packet);
/* The newest step of the source's times, as results number frames: in input frames, or in kept ones
 * `aligned_by` before them. */
struct result_clock_step epochs_clock_step(const struct stream *stream, bool raw,
                                           uint64_t aligned_by);

/* The source clock is about to be reset: epochs whose results are still to come keep its times. */
void epochs_keep_capture_times(struct stream *stream);

/* The epoch has ended, and nothing of it is left to submit or in flight. */
bool epochs_through(const struct stream *stream, const struct epoch *epoch);

/* Forgets epochs that have nothing left to submit, in flight or to tell, except for the newest. */
void epochs_retire(struct stream *stream);

#endif
