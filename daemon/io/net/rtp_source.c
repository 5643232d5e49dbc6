/*
 * Source `rtp`: RTP over UDP (RFC 3550), one sender, one payload type. Place is the extended
 * time stamp, order and loss are proven by the sequence number; see ingest.h and sequence.h.
 * CSRC lists, header extensions and padding are accepted and skipped.
 */
#include "io/net/network_source.h"
#include "wire/rtp.h"
#include "io/sources.h"

static int parse(const struct source_options *options, const struct received *received,
                 struct ingest_fields *fields)
{
    struct rtp_packet packet;
    switch (rtp_parse(received->data, received->bytes, &packet)) {
    case RTP_OK:
        break;
    case RTP_VERSION:
        return 1 + REJECT_VERSION;
    default:
        return 1 + REJECT_MALFORMED;
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
    return packet.header.payload_type == options->payload_type ? 0 : 1 + REJECT_PAYLOAD_TYPE;
}

const struct ingest_protocol rtp_protocol = {
    .timestamp_bits = 32,
    .sequence_bits = 16,
    .has_ssrc = true,
    .parse = parse,
};

static int open_rtp(const struct source_options *options, const struct io_environment *environment,
                    const struct source_host *host, struct source **out, struct problem *problem)
{
    return network_source_open(&rtp_protocol, options, environment, host, out, problem);
}

const struct source_ops source_rtp = {
    .name = "rtp",
    .sentence = "RTP over UDP, unicast or multicast: L16, L24, 32-bit integer or float, from "
                "convolv-rig, ffmpeg, GStreamer or PipeWire",
    .live = true,
    .loss_detectable = true,
    .open = open_rtp,
    .start = network_source_start,
    .stop = network_source_stop,
    .close = network_source_close,
    .ledger = network_source_ledger,
    .port = network_source_port,
};
