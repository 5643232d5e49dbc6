/*
 * Stamp steps: whether the time stamps of one sender count the frames that the configuration finds
 * in its payloads. A sender with another number of channels, another sample width, or another clock
 * of its time stamps makes payloads that look whole, but from one packet to the next by number the
 * time stamp advances by another number of frames than the payload holds, always by the same
 * factor.
 *
 * After eight such pairs in a row the sender is WRONG, until eight pairs in a row fit. Packets that
 * are lost or reordered make no pair and decide nothing. In record mode a step of more frames than
 * the payload holds is a pause between records, so it decides nothing either.
 *
 * Pure state machine; one owner.
 */
#ifndef CONVOLVD_IO_NET_STAMP_STEPS_H
#define CONVOLVD_IO_NET_STAMP_STEPS_H

#include <stdbool.h>
#include <stdint.h>

enum { STAMP_PAIRS = 8 };

enum stamp_verdict {
    STAMPS_FIT,
    STAMPS_SUSPECT, /* two pairs in a row differ by one factor, or all pairs of the sender so far */
    STAMPS_WRONG,
};

/* Start zeroed. */
struct stamp_steps {
    bool started, settled; /* settled: one pair has fitted, or factors differed */
    bool wrong;
    uint64_t sequence; /* of the newest packet */
    uint32_t timestamp, frames;
    uint32_t step, payload; /* frames by time stamps and in the payload, of the pairs in a row */
    unsigned pairs;         /* in a row, at most STAMP_PAIRS */
    bool began;             /* the newest packet made the first of them */
};

struct stamp_packet {
    uint64_t sequence, timestamp; /* as on the wire */
    uint32_t frames;              /* that its payload holds here */
    bool begins_record;
};

/* The verdict on this packet. sequence_mask: all ones of the width of a sequence number. */
enum stamp_verdict stamp_steps_next(struct stamp_steps *steps, const struct stamp_packet *packet,
                                    uint64_t sequence_mask, bool records);

#endif
