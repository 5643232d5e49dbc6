/*
 * Sequence: turns the sequence numbers and time stamps of a datagram stream into 64-bit frame
 * numbers, and decides which packets to accept. The rules are those of RFC 3550 A.1 (probation,
 * MAX_DROPOUT, MAX_MISORDER, restart by two consecutive packets) with limits given as times, which
 * the measured packet size and the nominal rate turn into packets and frames. Sequence numbers (16
 * or 64 bits) prove order and loss; 32-bit time stamps are extended to 64 bits around the newest
 * frame number.
 *
 * Rules:
 * - The first packet of a sender is held until the next in order proves it; then both are accepted,
 *   so a clean start loses nothing. A held packet that the next one does not follow is replaced.
 * - A step forward of at most the reorder window (and always one of two packets) is accepted at
 *   once, provided that the sequence numbers can explain it: each lost packet held at least one
 *   frame.
 * - A larger jump forward (up to max_gap), a jump beyond it, or a jump backwards past max_misorder
 *   is held until the next packet of the same sender continues it. Then both are accepted: as a gap
 *   up to max_gap and max_dropout, as a discontinuity beyond or backwards. If the next packet
 *   continues the numbers before the jump instead, the held one is rejected, unless the newest
 * frame number is now so near that the held packet follows by the rule above. So one forged packet
 * never moves the stream.
 * - Within reach backwards (the largest of max_misorder, the reorder window and two packets) a
 *   packet is a reordered one, before the newest; it does not decide about a held one.
 * - Record mode: the marker on the next packet in order begins a record at once; a jump that lost
 *   packets do not explain begins one when it is confirmed.
 * - A packet that belongs to the numbers before the last discontinuity is late.
 * - A packet of the sender without frames for this stream (another payload type, no payload) has a
 *   number and no place: packets around it are neighbours. When time stamps continue exactly,
 * numbers missing in between were such packets too: nothing is lost.
 * - Two neighbours whose time stamps leave frames out prove that the sender never sent those
 *   (`unsent`). The numbers of the newest SEQUENCE_SEEN packets are remembered, so that a packet
 * that comes reordered proves it too.
 *
 * Frame numbers continue over gaps, and over forward jumps of a sender whose sequence numbers
 * continue (time stamps are then extended with the time that has passed). PACKET_DISCONTINUITY says
 * that the numbering begins anew. Frame numbers start at 2^32, so that a reordered packet never has
 * a negative one.
 *
 * Pure state machine, no clock, no sockets: driven by the arguments alone. One owner.
 */
#ifndef CONVOLVD_STREAM_SEQUENCE_H
#define CONVOLVD_STREAM_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#define SEQUENCE_ORIGIN (UINT64_C(1) << 32)

struct sequence_options {
    double rate_hz;
    uint32_t timestamp_bits; /* 32 (RTP) or 0: sequence · frames (64-bit sequence framings) */
    uint32_t sequence_bits;  /* 16 or 64 */
    int64_t reorder_ns, max_gap_ns, max_dropout_ns, max_misorder_ns;
    bool records; /* record mode: a confirmed jump or the marker starts a record */
};

struct sequence_packet {
    uint64_t sequence;  /* as on the wire */
    uint64_t timestamp; /* as on the wire; frames */
    uint32_t frames;    /* > 0 */
    bool marker;
    int64_t receive_ns; /* monotonic */
};

enum sequence_verdict {
    SEQUENCE_ACCEPT,    /* at first_frame; flags say what begins with it */
    SEQUENCE_HOLD,      /* keep a copy: a later call decides about it (see `held`) */
    SEQUENCE_DUPLICATE, /* of the held packet: drop it */
    SEQUENCE_LATE,      /* from before the last discontinuity: drop it */
};

enum {
    SEQUENCE_SEEN = 512, /* newest numbers that are remembered; a power of two */
    SEQUENCE_UNSENT = 4, /* two for each packet that a step accepts */
};

/* Frames [from, until). */
struct sequence_range {
    uint64_t from, until;
};

/* What becomes of the packet held before this call. */
enum sequence_held {
    HELD_NONE,          /* there is none, or it stays */
    HELD_RELEASE,       /* deliver it before this one */
    HELD_RELEASE_AFTER, /* deliver it after this one */
    HELD_REJECT,
};

struct sequence_step {
    enum sequence_verdict verdict;
    uint64_t first_frame; /* ACCEPT: 64-bit number of its first frame */
    uint32_t flags;       /* PACKET_DISCONTINUITY, PACKET_RECORD */
    enum sequence_held held;
    uint64_t held_first_frame; /* HELD_RELEASE, HELD_RELEASE_AFTER */
    uint32_t held_flags;
    bool held_unproven;    /* HELD_REJECT: it was the first of a sender, not a jump */
    uint32_t unsent_count; /* frames that the sender never sent, known by what is accepted now */
    struct sequence_range unsent[SEQUENCE_UNSENT];
};

/* The newest packet of one run of numbers. */
struct sequence_newest {
    uint64_t sequence; /* as on the wire */
    uint64_t first_frame;
    uint32_t frames;
    int64_t receive_ns;
};

/* A number that a packet had. */
struct sequence_seen {
    uint64_t first_frame;
    uint32_t frames; /* 0: a packet without frames for this stream */
    bool seen;
};

struct sequence {
    struct sequence_options options;
    bool started;
    struct sequence_newest newest;
    bool has_others;          /* the sender has sent packets without frames for this stream */
    double frames_per_packet; /* smoothed */
    bool holding;
    struct sequence_packet held;
    uint64_t held_first_frame;
    uint32_t held_flags;
    uint32_t held_others; /* packets without frames, in order behind the held one */
    bool has_previous;    /* before the last discontinuity, while reordered packets may come */
    struct sequence_newest previous;
    uint64_t seen_last;                       /* the highest number in `seen` */
    struct sequence_seen seen[SEQUENCE_SEEN]; /* number n in slot n mod SEQUENCE_SEEN; with time
                                                 stamps only */
};

/* Forgets everything, as before the first packet. */
void sequence_reset(struct sequence *sequence, const struct sequence_options *options);
struct codec;
/* What another state machine with the same options goes on from, see core/codec.h; a packet that is
 * held is left out. Reading fails (codec->failed) on what none could have been. */
void sequence_walk(struct sequence *sequence, struct codec *codec);
/* A packet without frames for this stream has this number. True: its number is the last between two
 * packets that were accepted, and proves that the sender never sent the frames *unsent between
 * them.
 */
bool sequence_other(struct sequence *sequence, uint64_t number, struct sequence_range *unsent);
/* Distance in numbers from the newest packet to the next one in order: 1, and more where packets
 * without frames follow the newest. */
uint64_t sequence_next_distance(const struct sequence *sequence);
/* What to do with this packet, and with the one held before. Never fails: any field may be hostile.
 */
struct sequence_step sequence_next(struct sequence *sequence, const struct sequence_packet *packet);

#endif
