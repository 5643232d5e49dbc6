/*
 * Sequence: which packets of a numbered datagram stream are accepted, and at which 64-bit
 * place their first frame lies. RFC 3550 A.1 (probation, MAX_DROPOUT, MAX_MISORDER, restart
 * by two consecutive packets) with its limits as times, turned into packets and frames from
 * the measured packet size and the nominal rate; sequence numbers (16 or 64 bits) prove order
 * and loss, 32-bit time stamps are extended to 64 bits around the newest place.
 *
 * Rules:
 * - A step of at most the reorder window forward of the newest place is accepted at once.
 * - A larger jump forward (up to max_gap), a jump beyond it, or a jump backwards past
 *   max_misorder is held until the next packet of the same sender continues it; then both are
 *   accepted: as a gap up to max_gap, as a discontinuity beyond or backwards. A packet that
 *   continues the old place instead makes the held one an unconfirmed jump. So one forged packet
 *   never moves the stream.
 * - Within reach backwards a packet is a reordered one (place before the newest).
 *
 * Pure state machine, no clock, no sockets: driven by the arguments alone. One owner.
 */
#ifndef CONVOLVD_STREAM_SEQUENCE_H
#define CONVOLVD_STREAM_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

struct sequence_options {
    double rate_hz;
    uint32_t timestamp_bits;   /* 32 (RTP) or 0: place = sequence · frames (64-bit sequence framings) */
    uint32_t sequence_bits;    /* 16 or 64 */
    int64_t reorder_ns, max_gap_ns, max_dropout_ns, max_misorder_ns;
    bool records;              /* record mode: a confirmed jump or the marker starts a record */
};

struct sequence_packet {
    uint64_t sequence;         /* as on the wire */
    uint64_t timestamp;        /* as on the wire; frames */
    uint32_t frames;
    bool marker;
    int64_t receive_ns;        /* monotonic */
};

enum sequence_verdict {
    SEQUENCE_ACCEPT,           /* at `place`; flags say what begins with it */
    SEQUENCE_HOLD,             /* keep a copy: the next call decides (see `held`) */
    SEQUENCE_PROBATION,        /* the sender is not proven yet: drop this one, counted */
};

struct sequence_step {
    enum sequence_verdict verdict;
    uint64_t place;            /* 64-bit frame number of this packet */
    uint32_t flags;            /* PACKET_DISCONTINUITY, PACKET_RECORD */
    /* The packet held before this call, if any: */
    enum { HELD_NONE, HELD_RELEASE, HELD_REJECT } held;
    uint64_t held_place;       /* HELD_RELEASE: deliver it first, at this place */
    uint32_t held_flags;
};

struct sequence {
    struct sequence_options options;
    bool started;
    uint64_t newest_sequence;  /* extended */
    uint64_t newest_place;     /* first frame after the newest packet */
    double frames_per_packet;  /* smoothed */
    bool holding;
    struct sequence_packet held;
    uint64_t held_extended_sequence, held_extended_place;
    uint32_t probation;        /* packets still to be seen in order */
    uint64_t lost_packets;     /* by sequence number, reordered ones given back */
};

void sequence_reset(struct sequence *sequence, const struct sequence_options *options);
struct sequence_step sequence_next(struct sequence *sequence, const struct sequence_packet *packet);

#endif
