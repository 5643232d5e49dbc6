/*
 * RTP on the wire: see rtp.h. Each function checks a length against the datagram before it reads
 * what the length covers. Pure functions, any thread; the client library links this file too, so it
 * includes nothing of the daemon.
 */
#include "wire/rtp.h"

#include <string.h>

enum {
    ELEMENT_CAPTURE = 1,
    ELEMENT_STAGES = 2,
    ELEMENT_QUALITY = 3,
    ELEMENT_FRAME = 4,
    ELEMENT_INVALID = 5,
    ELEMENT_DECIMATION = 6,
    ELEMENT_HOLE = 7,
    ELEMENT_GAIN = 8,
    ELEMENT_NEEDED = ELEMENT_INVALID, /* the first to the fifth; a sender may lack later ones */
    ELEMENT_LAST = ELEMENT_GAIN,
    ELEMENT_STOP = 15, /* RFC 8285 section 4.2: nothing behind it may be read */
};

static const uint8_t element_bytes[ELEMENT_LAST + 1] = {
    [ELEMENT_CAPTURE] = 8, [ELEMENT_STAGES] = 16,    [ELEMENT_QUALITY] = 16, [ELEMENT_FRAME] = 16,
    [ELEMENT_INVALID] = 4, [ELEMENT_DECIMATION] = 2, [ELEMENT_HOLE] = 14,    [ELEMENT_GAIN] = 12,
};

/* ---- integers ---------------------------------------------------------------------------- */

static uint16_t load16(const uint8_t *p)
{
    return (uint16_t)((uint32_t)p[0] << 8 | p[1]);
}

static uint32_t load32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint64_t load64(const uint8_t *p)
{
    return (uint64_t)load32(p) << 32 | load32(p + 4);
}

static uint8_t *store16(uint8_t *p, uint16_t value)
{
    p[0] = (uint8_t)(value >> 8);
    p[1] = (uint8_t)value;
    return p + 2;
}

static uint8_t *store32(uint8_t *p, uint32_t value)
{
    return store16(store16(p, (uint16_t)(value >> 16)), (uint16_t)value);
}

static uint8_t *store64(uint8_t *p, uint64_t value)
{
    return store32(store32(p, (uint32_t)(value >> 32)), (uint32_t)value);
}

/* ---- reading ----------------------------------------------------------------------------- */

enum rtp_parse_result rtp_parse(const uint8_t *datagram, size_t bytes, struct rtp_packet *packet)
{
    if (bytes < RTP_HEADER_BYTES)
        return RTP_TOO_SHORT;
    if (datagram[0] >> 6 != 2)
        return RTP_VERSION;

    bool padded = datagram[0] & 0x20, extended = datagram[0] & 0x10;
    *packet = (struct rtp_packet){
        .header = {.marker = datagram[1] >> 7,
                   .payload_type = datagram[1] & 0x7F,
                   .sequence = load16(datagram + 2),
                   .timestamp = load32(datagram + 4),
                   .ssrc = load32(datagram + 8)},
    };

    size_t used = RTP_HEADER_BYTES + 4u * (datagram[0] & 0x0F); /* the list of CSRCs */
    if (bytes < used)
        return RTP_TOO_SHORT;
    if (extended) {
        if (bytes - used < 4)
            return RTP_TOO_SHORT;
        packet->extension_profile = load16(datagram + used);
        packet->extension_bytes = 4u * load16(datagram + used + 2);
        used += 4;
        if (bytes - used < packet->extension_bytes)
            return RTP_TOO_SHORT;
        packet->extension = datagram + used;
        used += packet->extension_bytes;
    }
    packet->payload = datagram + used;
    packet->payload_bytes = bytes - used;
    if (padded) {
        if (packet->payload_bytes == 0)
            return RTP_TOO_SHORT;
        size_t padding = datagram[bytes - 1];
        if (padding == 0 || padding > packet->payload_bytes)
            return RTP_PADDING;
        packet->payload_bytes -= padding;
    }
    return RTP_OK;
}

/* RFC 8285 section 4.2: id in the high nibble, bytes - 1 in the low one; a zero byte pads. */
static bool find_elements(const struct rtp_packet *packet,
                          const uint8_t *elements[ELEMENT_LAST + 1])
{
    if (packet->extension == NULL || packet->extension_profile != RTP_EXTENSION_ONE_BYTE)
        return false;
    for (size_t at = 0; at < packet->extension_bytes;) {
        uint8_t head = packet->extension[at++];
        if (head == 0)
            continue;
        unsigned id = head >> 4, bytes = (head & 15u) + 1;
        if (id == ELEMENT_STOP || packet->extension_bytes - at < bytes)
            break;
        if (id >= ELEMENT_CAPTURE && id <= ELEMENT_LAST) {
            if (bytes != element_bytes[id])
                return false;
            elements[id] = packet->extension + at;
        }
        at += bytes;
    }
    for (unsigned id = ELEMENT_CAPTURE; id <= ELEMENT_NEEDED; id++) {
        if (elements[id] == NULL)
            return false;
    }
    return true;
}

bool rtp_parse_result_info(const struct rtp_packet *packet, struct rtp_result_info *info)
{
    const uint8_t *elements[ELEMENT_LAST + 1] = {NULL};
    if (!find_elements(packet, elements))
        return false;
    const uint8_t *stages = elements[ELEMENT_STAGES], *quality = elements[ELEMENT_QUALITY],
                  *frame = elements[ELEMENT_FRAME], *invalid = elements[ELEMENT_INVALID];
    *info = (struct rtp_result_info){
        .capture_ns = rtp_ns_from_ntp(load64(elements[ELEMENT_CAPTURE])),
        .stage_100ns = {load32(stages), load32(stages + 4), load32(stages + 8),
                        load32(stages + 12)},
        .clock = quality[0],
        .flags = quality[1],
        .causes = load16(quality + 2),
        .clock_error_ns = load32(quality + 4),
        .egress_100ns = load32(quality + 8),
        .epoch = load32(quality + 12),
        .first_frame = load64(frame),
        .record = load32(frame + 8),
        .delay_half_frames = load32(frame + 12),
        .invalid_from = load16(invalid),
        .invalid_until = load16(invalid + 2),
        .decimate = 1,
    };
    if (elements[ELEMENT_DECIMATION] != NULL && load16(elements[ELEMENT_DECIMATION]) > 0)
        info->decimate = load16(elements[ELEMENT_DECIMATION]);
    const uint8_t *hole = elements[ELEMENT_HOLE];
    if (hole != NULL) {
        info->hole_from = load64(hole);
        info->hole_frames = load32(hole + 8);
        info->hole_causes = load16(hole + 12);
    }
    const uint8_t *gain = elements[ELEMENT_GAIN];
    if (gain != NULL) {
        info->gain_from = load64(gain);
        info->gain_changes = load32(gain + 8);
    }
    return true;
}

bool rtp_is_heartbeat(const struct rtp_packet *packet, const struct rtp_result_info *info)
{
    return packet->header.payload_type == RTP_HEARTBEAT_TYPE && packet->payload_bytes == 0 &&
           info->flags & RTP_HEARTBEAT;
}

/* ---- writing ----------------------------------------------------------------------------- */

static uint8_t *element_begin(uint8_t *out, unsigned id)
{
    *out = (uint8_t)(id << 4 | (element_bytes[id] - 1u));
    return out + 1;
}

static uint8_t *build_info(uint8_t *out, const struct rtp_result_info *info)
{
    out = store16(out, RTP_EXTENSION_ONE_BYTE);
    out = store16(out, (uint16_t)((rtp_info_bytes(info) - RTP_HEADER_BYTES) / 4 - 1));
    out = element_begin(out, ELEMENT_CAPTURE);
    out = store64(out, rtp_ntp_from_ns(info->capture_ns));
    out = element_begin(out, ELEMENT_STAGES);
    for (int i = 0; i < 4; i++)
        out = store32(out, info->stage_100ns[i]);
    out = element_begin(out, ELEMENT_QUALITY);
    *out++ = info->clock;
    *out++ = info->flags;
    out = store16(out, info->causes);
    out = store32(out, info->clock_error_ns);
    out = store32(out, info->egress_100ns);
    out = store32(out, info->epoch);
    out = element_begin(out, ELEMENT_FRAME);
    out = store64(out, info->first_frame);
    out = store32(out, info->record);
    out = store32(out, info->delay_half_frames);
    out = element_begin(out, ELEMENT_INVALID);
    out = store16(out, info->invalid_from);
    out = store16(out, info->invalid_until);
    out = element_begin(out, ELEMENT_DECIMATION);
    out = store16(out, info->decimate); /* a multiple of 4 in all */
    if (info->hole_frames > 0) {
        out = element_begin(out, ELEMENT_HOLE);
        out = store64(out, info->hole_from);
        out = store32(out, info->hole_frames);
        out = store16(out, info->hole_causes);
        *out++ = 0; /* pads */
    }
    if (info->gain_changes > 0) {
        out = element_begin(out, ELEMENT_GAIN);
        out = store64(out, info->gain_from);
        out = store32(out, info->gain_changes);
        memset(out, 0, 3); /* pads */
        out += 3;
    }
    return out;
}

size_t rtp_info_bytes(const struct rtp_result_info *info)
{
    return RTP_RESULT_HEADER_BYTES + (info->hole_frames > 0 ? RTP_HOLE_BYTES : 0) +
           (info->gain_changes > 0 ? RTP_GAIN_BYTES : 0);
}

size_t rtp_build(uint8_t *out, const struct rtp_header *header, const struct rtp_result_info *info)
{
    uint8_t *p = out;
    *p++ = info != NULL ? 0x90 : 0x80;
    *p++ = (uint8_t)((header->marker ? 0x80u : 0u) | (header->payload_type & 0x7Fu));
    p = store16(p, header->sequence);
    p = store32(p, header->timestamp);
    p = store32(p, header->ssrc);
    if (info != NULL)
        p = build_info(p, info);
    return (size_t)(p - out);
}

/* ---- sizes ------------------------------------------------------------------------------- */

uint32_t rtp_ip_bytes(bool ipv6, uint32_t header_bytes, uint32_t payload_bytes)
{
    enum { IPV4_BYTES = 20, IPV6_BYTES = 40, UDP_BYTES = 8 };
    return (ipv6 ? IPV6_BYTES : IPV4_BYTES) + UDP_BYTES + header_bytes + payload_bytes;
}

uint32_t rtp_payload_bytes(bool ipv6, uint32_t header_bytes, uint32_t mtu)
{
    const uint32_t headers = rtp_ip_bytes(ipv6, header_bytes, 0);
    return mtu > headers ? mtu - headers : 0;
}

/* ---- time -------------------------------------------------------------------------------- */

/* Seconds from 1900-01-01 (NTP, era 0) to 1970-01-01 (Unix). */
#define NTP_TO_UNIX_S INT64_C(2208988800)
#define SECOND_NS     INT64_C(1000000000)

uint64_t rtp_ntp_from_ns(int64_t realtime_ns)
{
    int64_t seconds = realtime_ns / SECOND_NS, ns = realtime_ns % SECOND_NS;
    if (ns < 0) {
        ns += SECOND_NS;
        seconds--;
    }
    /* Rounds to nearest; 2^-32 s is 0.23 ns, so the conversion back is exact. */
    uint64_t fraction = (((uint64_t)ns << 32) + SECOND_NS / 2) / SECOND_NS;
    return (uint64_t)(uint32_t)(seconds + NTP_TO_UNIX_S) << 32 | fraction;
}

/* The era is the one RFC 4330 section 3 chooses: with the top bit set, 1968 to 2036; without,
 * 2036 to 2104. For every time from 1968 to 2104 this inverts rtp_ntp_from_ns. */
int64_t rtp_ns_from_ntp(uint64_t ntp)
{
    int64_t seconds = (int64_t)(ntp >> 32);
    if (seconds < INT64_C(1) << 31)
        seconds += INT64_C(1) << 32;
    uint64_t fraction = ntp & UINT32_MAX;
    int64_t ns = (int64_t)((fraction * SECOND_NS + (UINT64_C(1) << 31)) >> 32);
    return (seconds - NTP_TO_UNIX_S) * SECOND_NS + ns;
}

uint32_t rtp_100ns(int64_t ns)
{
    if (ns <= 0)
        return 0;
    int64_t units = ns / 100 + (ns % 100 >= 50);
    return units < (int64_t)UINT32_MAX ? (uint32_t)units : UINT32_MAX;
}
