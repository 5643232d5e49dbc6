/*
 * Numbers of RTP packets that several daemons send one after the other: of a partition's results.
 * SSRC, sequence number and the frames of each packet follow from the partition and the frames'
 * numbers alone, so that whoever sends frames again sends the same packets, and a receiver drops
 * those that it has (the idea of SMPTE ST 2022-7).
 *
 *     block      0                 1                 2
 *     frames     ├─────────────────┼─────────────────┼──────
 *     packets    ├──────┼──────┼───┼──────┼──────┼───┼──────     `packet` frames, the last of a
 * block fewer sequence    k      k+1    k+2 k+3    …
 *
 * Never allocates.
 */
#ifndef CONVOLVD_IO_NET_RTP_NUMBERS_H
#define CONVOLVD_IO_NET_RTP_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "io/sink.h"
#include "stream/result.h"

struct rtp_numbers {
    const char *partition; /* NULL: this daemon alone sends, and numbers its packets as it likes */
    uint32_t block;  /* frames; 0: blocks are of no even number of frames: packets are counted */
    uint32_t packet; /* frames */
};

/* `most`: frames of a packet with all that its header may say. */
struct rtp_numbers rtp_numbers_of(const struct sink_options *options, uint32_t most);
/* SSRC and first sequence number of a sink that is opened: as configured, as the sink before it had
 * them, as the partition and the sink's name say, or by chance. */
void rtp_numbers_begin(const struct sink_options *options, uint32_t *ssrc, uint16_t *sequence);
/* How many of `left` frames from number `frame` on the packet that begins there has; all of them
 * where there is no partition. */
uint32_t rtp_numbers_frames(const struct rtp_numbers *n, uint64_t frame, uint32_t left);
/* Of the packet that begins with frame `at` of the result; *next: of the next packet. */
uint16_t rtp_numbers_sequence(const struct rtp_numbers *n, const struct result *result, uint32_t at,
                              uint16_t *next);

#endif
