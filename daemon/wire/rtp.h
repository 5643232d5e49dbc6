/*
 * RTP on the wire (RFC 3550) and the header extensions convolvd's results carry (RFC 8285,
 * one-byte form, in every packet, at one size):
 *
 *   id 1   8 bytes  capture time of the packet's first frame, 64-bit NTP format (RFC 6051,
 *                   urn:ietf:params:rtp-hdrext:ntp-64)
 *   id 2  16 bytes  stage latencies accumulate, ingest, wait, device: 4 × u32, 100 ns each
 *                   (urn:x-convolvd:stages)
 *   id 3  16 bytes  u8 clock source, u8 flags (1 invalid, 2 epoch start, 4 epoch end,
 *                   8 aligned), u16 bit mask of invalid causes, u32 clock error bound [ns],
 *                   u32 egress latency until the packet was built [100 ns], u32 epoch
 *                   (urn:x-convolvd:quality)
 *   id 4  16 bytes  u64 first frame number within the epoch, u32 record, u32 filter delay
 *                   [half frames at the source's rate] (urn:x-convolvd:place)
 *   id 5   4 bytes  u16 from, u16 until: frames of this packet that lie between the first and
 *                   the last invalid one (urn:x-convolvd:invalid)
 *   id 6   2 bytes  u16 decimation: frames at the source's rate for one frame here; 1 where
 *                   the element is missing (urn:x-convolvd:decimation)
 *
 *   id 7  14 bytes  the frames missing before this packet, only in the first packet after them: u64
 *                   first of them, u32 how many, u16 bit mask of causes
 *                   (urn:x-convolvd:hole)
 *   id 8  12 bytes  only once gains or mutes were changed while running: u64 frame number within
 * the epoch from which those in force apply, u32 how many changes there have been
 *                   (urn:x-convolvd:gain)
 *
 * All integers big-endian; durations saturate. 72 bytes with the extension header, 16 more
 * with id 7, and with id 8.
 *
 * A heartbeat is a packet without payload that repeats the newest packet's sequence number and time
 * stamp with payload type 95, which RFC 3551 leaves unassigned, and has flag 16: clients that do
 * not know it drop it as another payload type or as a duplicate, and miss nothing. Its first frame
 * is the one that follows the newest packet's last, its capture time is when it was sent.
 *
 * Pure functions, any thread; parsing checks every length before it reads (fuzzed). libconvolv
 * links this module too.
 */
#ifndef CONVOLVD_WIRE_RTP_H
#define CONVOLVD_WIRE_RTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RTP_HEADER_BYTES = 12,
    RTP_EXTENSION_BYTES = 72, /* ours, with its 4-byte header */
    RTP_HOLE_BYTES = 16,      /* more, with the element of a hole */
    RTP_GAIN_BYTES = 16,      /* more, with the element of changed gains */
    RTP_RESULT_HEADER_BYTES = RTP_HEADER_BYTES + RTP_EXTENSION_BYTES,
    RTP_HEADER_BYTES_MAX = RTP_RESULT_HEADER_BYTES + RTP_HOLE_BYTES + RTP_GAIN_BYTES,
    RTP_MTU_DEFAULT = 1500, /* of Ethernet */
    RTP_EXTENSION_ONE_BYTE = 0xBEDE,
    RTP_HEARTBEAT_TYPE = 95, /* payload type of heartbeats */
};

struct rtp_header {
    bool marker;
    uint8_t payload_type; /* 0…127 */
    uint16_t sequence;
    uint32_t timestamp;
    uint32_t ssrc;
};

enum rtp_quality_flags {
    RTP_INVALID = 1,
    RTP_EPOCH_START = 2,
    RTP_EPOCH_END = 4,
    RTP_ALIGNED = 8,
    RTP_HEARTBEAT = 16,
    RTP_GAIN = 32,    /* gains or mutes differ from those of the configuration */
    RTP_PARTIAL = 64, /* some frames were computed before their whole block had come */
};

/* The extension of a result packet. */
struct rtp_result_info {
    int64_t capture_ns;      /* realtime, ns since the Unix epoch; the wire keeps 2^-32 s */
    uint32_t stage_100ns[4]; /* accumulate, ingest, wait, device */
    uint32_t egress_100ns;
    uint8_t clock;   /* enum clock_source */
    uint8_t flags;   /* enum rtp_quality_flags */
    uint16_t causes; /* 1 << enum invalid_cause */
    uint32_t clock_error_ns;
    uint32_t epoch;
    uint64_t first_frame;
    uint32_t record;
    uint32_t delay_half_frames; /* at the source's rate: delay · decimate at this one's */
    uint16_t invalid_from, invalid_until;
    uint16_t decimate; /* at least 1 */
    /* Frames [hole_from, hole_from + hole_frames) of the epoch are missing before this packet, for
     * these causes (1 << enum invalid_cause); 0 frames: none. */
    uint64_t hole_from;
    uint32_t hole_frames;
    uint16_t hole_causes;
    /* Gains and mutes were changed so often; those in force apply from this frame of the epoch on.
     */
    uint32_t gain_changes;
    uint64_t gain_from;
};

/* What rtp_parse found; points into the datagram. */
struct rtp_packet {
    struct rtp_header header;
    const uint8_t *payload;
    size_t payload_bytes;     /* padding removed */
    const uint8_t *extension; /* NULL: none; the body, without its 4-byte header */
    size_t extension_bytes;
    uint16_t extension_profile;
};

enum rtp_parse_result {
    RTP_OK = 0,
    RTP_TOO_SHORT = -1, /* shorter than its header, CSRC list, extension or padding says */
    RTP_VERSION = -2,   /* not version 2 */
    RTP_PADDING = -3,   /* padding count 0 or beyond the payload */
};

enum rtp_parse_result rtp_parse(const uint8_t *datagram, size_t bytes, struct rtp_packet *packet);

/* Reads our extension elements; false unless ids 1…5 are all there at their sizes, and later
 * ones at theirs if they are. */
bool rtp_parse_result_info(const struct rtp_packet *packet, struct rtp_result_info *info);

/* Bytes of a header with the extension of `info`. */
size_t rtp_info_bytes(const struct rtp_result_info *info);

/* Writes a header (12 bytes), and with info != NULL the extension (rtp_info_bytes in all). Returns
 * the bytes written. The X bit is set with info. */
size_t rtp_build(uint8_t *out, const struct rtp_header *header, const struct rtp_result_info *info);

/* Bytes of the IP packet that carries `payload_bytes` behind the headers of IP (20 bytes, IPv6 40),
 * UDP (8) and `header_bytes` of the protocol: RTP_RESULT_HEADER_BYTES for the daemon's results. */
uint32_t rtp_ip_bytes(bool ipv6, uint32_t header_bytes, uint32_t payload_bytes);

/* The inverse: bytes of payload that fit an IP packet of `mtu` bytes; 0 when its headers do not. */
uint32_t rtp_payload_bytes(bool ipv6, uint32_t header_bytes, uint32_t mtu);

/* ns since the Unix epoch ↔ 64-bit NTP time stamp (times from 1968 to 2104). */
uint64_t rtp_ntp_from_ns(int64_t realtime_ns);
int64_t rtp_ns_from_ntp(uint64_t ntp);

/* True for a heartbeat; `info`: what rtp_parse_result_info found. */
bool rtp_is_heartbeat(const struct rtp_packet *packet, const struct rtp_result_info *info);

/* Saturating ns → 100 ns units. */
uint32_t rtp_100ns(int64_t ns);

#endif
