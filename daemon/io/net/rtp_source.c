/*
 * Source `rtp`: receives RTP over UDP (RFC 3550) from one sender with one payload type. The
 * extended time stamp is the frame number; the sequence number proves order and loss (ingest.h,
 * sequence.h). It accepts and skips CSRC lists, header extensions and padding. A packet without
 * payload (an idle daemon's heartbeat, the end of an epoch) is no loss. Packets of other payload
 * types are refused, but take their sequence numbers: a sender numbers all types of one SSRC in one
 * sequence (RFC 3550 section 5.1). RTCP on the same port has no such number. Loop thread.
 */
#include <string.h>

#include "core/clock.h"
#include "io/net/network_options.h"
#include "io/net/network_source.h"
#include "wire/rtp.h"
#include "io/sources.h"

/* RTCP multiplexed on the port, seen as RTP (RFC 5761 section 4): SR, RR, SDES, BYE and APP are the
 * payload types 72 to 76, which RTP does not use; feedback and reports (RTPFB, PSFB, XR) are 77 to
 * 79 with the marker. */
static bool is_rtcp(const struct rtp_header *header)
{
    const unsigned type = header->payload_type;
    return (type >= 72 && type <= 76) || (header->marker && type >= 77 && type <= 79);
}

/* By payload type and SSRC. */
static bool same_kind(const uint8_t *datagram, size_t bytes, const uint8_t *as)
{
    return bytes > RTP_HEADER_BYTES && ((datagram[1] ^ as[1]) & 0x7F) == 0 &&
           memcmp(datagram + 8, as + 8, sizeof(uint32_t)) == 0;
}

static bool parse(const struct source_options *options, const struct received *received,
                  struct ingest_fields *fields, enum reject *reason)
{
    struct rtp_packet packet;
    switch (rtp_parse(received->data, received->bytes, &packet)) {
    case RTP_OK:
        break;
    case RTP_VERSION:
        *reason = REJECT_VERSION;
        return false;
    default:
        *reason = REJECT_MALFORMED;
        return false;
    }
    *fields = (struct ingest_fields){
        .payload = packet.payload,
        .payload_bytes = packet.payload_bytes,
        .sequence = packet.header.sequence,
        .timestamp = packet.header.timestamp,
        .ssrc = packet.header.ssrc,
        .payload_type = packet.header.payload_type,
        .marker = packet.header.marker,
    };
    const struct ingest_options *own = options->own;
    struct rtp_result_info info;
    fields->heartbeat = packet.payload_bytes == 0 && rtp_parse_result_info(&packet, &info) &&
                        rtp_is_heartbeat(&packet, &info);
    fields->numbered = !fields->heartbeat && !is_rtcp(&packet.header);
    *reason = REJECT_PAYLOAD_TYPE;
    return fields->heartbeat || packet.header.payload_type == own->payload_type;
}

const struct ingest_protocol rtp_protocol = {
    .timestamp_bits = 32,
    .sequence_bits = 16,
    .has_ssrc = true,
    .datagrams = true,
    .parse = parse,
    .same_kind = same_kind,
};

static int open_rtp(const struct source_options *options, const struct io_environment *environment,
                    const struct source_host *host, struct source **out, struct problem *problem)
{
    return network_source_open(&rtp_protocol, options, environment, host, out, problem);
}

/* A partition that is released for a worker that does not take it waits for so long. */
enum { HAND_OVER_S = 2 };

const struct option_row rtp_source_rows[RTP_SOURCE_ROWS] = {
    NETWORK_ROWS,
    NETWORK_ROWS_NUMBERED,
    {.key = "payload type",
     .type = OPTION_COUNT,
     .minimum = 0,
     .maximum = 127,
     .fallback = "96",
     OPTION_FIELD(struct ingest_options, payload_type),
     .sentence = "The RTP payload type that carries this stream; 96 to 127 are free to choose, 10 "
                 "and 11 mean L16 at 44.1 kHz."},
    {.key = "ssrc",
     .type = OPTION_UINT32,
     .fallback_words = "learnt from the first sender that proves itself",
     OPTION_FIELD(struct ingest_options, ssrc),
     .sentence = "The one RTP sender (SSRC) to accept, decimal or 0x hexadecimal."},
    {.key = "standby",
     .type = OPTION_COUNT,
     .minimum = 0,
     .maximum = 63,
     .fallback = "0",
     OPTION_FIELD(struct network_options, standby),
     .sentence = "Of a stream whose results go to a log of a partition (sink nats): how many "
                 "workers beside the owner receive the multicast group and hold what came last, so "
                 "that one of them goes on where the owner dies."},
    {.key = "hold",
     .type = OPTION_TIME,
     .minimum = 0.1,
     .maximum = 600,
     .fallback_words = "twice `lease`, and 2 s",
     OPTION_FIELD(struct network_options, hold_ns),
     .sentence = "With standby: how much of the input is held, in memory. It must reach back to "
                 "where the results end when a worker takes over: two leases after the death of a "
                 "worker, 2 s after a hand-over to one that does not take; longer to outlive a "
                 "server's."},
};

/* Owner and standbys have to receive the same packets, and to number them alike. */
static void check_standby(const struct option_check *check, const struct daemon_facts *facts,
                          const struct source_options *options)
{
    struct network_options *own = options->own;
    if (own->standby == 0) {
        if (option_given(check, "hold"))
            option_error(check, "hold", "`hold` is what a standby holds; write standby = 1, too");
        return;
    }
    if (!option_given(check, "hold"))
        own->hold_ns = 2 * facts->lease_ns + HAND_OVER_S * NS_PER_SECOND;
    if (own->hold_ns < 2 * facts->lease_ns)
        option_error(check, "hold",
                     "a worker that hangs is noticed after a lease of %.3g s: write hold = %.3g s "
                     "or more",
                     (double)facts->lease_ns * 1e-9, 2e-9 * (double)facts->lease_ns);
    if (options->mode == MODE_RECORD)
        option_error(check, "mode",
                     "a partition is one endless signal; write mode = continuous, or no `standby`");
    if (own->address != NULL && !network_is_group(own->address))
        option_error(check, "address",
                     "`address = %s` is no multicast group, but with `standby` several workers "
                     "receive the same packets; write the group that the rig sends to, such as "
                     "239.1.2.3:5004",
                     own->address);
}

static const struct source_ops *instead(const struct source_options *options)
{
    const struct network_options *own = options->own;
    return own->standby > 0 ? &source_standby : &source_rtp;
}

static int check(const struct option_check *check, const struct daemon_facts *facts,
                 struct source_options *options)
{
    struct network_options *own = options->own;
    own->ingest.ssrc_pinned = option_given(check, "ssrc");
    network_check_payload_type(check, own->ingest.payload_type, &options->format, options->rate_hz,
                               options->channels);
    network_check(check, options, true);
    check_standby(check, facts, options);
    return 0;
}

const struct source_ops source_rtp = {
    .name = "rtp",
    .sentence = "RTP over UDP",
    .loss = NUMBERED_LOSS,
    .format = "s16be",
    .padded = true,
    .options = rtp_source_rows,
    .option_count = RTP_SOURCE_ROWS,
    .options_bytes = sizeof(struct network_options),
    .check = check,
    .instead = instead,
    .check_all = network_check_all,
    .describe = network_describe,
    .report = network_report,
    .live = true,
    .loss_detectable = true,
    .open = open_rtp,
    .memory = network_source_memory,
    .arm = network_source_arm,
    .start = network_source_start,
    .change = network_source_change,
    .stop = network_source_stop,
    .close = network_source_close,
    .walk = network_source_walk,
    .ledger = network_source_ledger,
    .port = network_source_port,
    .status = &network_source_shown,
    .read_status = network_source_status,
};
