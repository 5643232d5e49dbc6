/*
 * Source `rtp`: receives RTP over UDP (RFC 3550) from one sender with one payload type. The
 * extended time stamp is the frame number; the sequence number proves order and loss (ingest.h,
 * sequence.h). It accepts and skips CSRC lists, header extensions and padding. A packet without
 * payload (an idle daemon's heartbeat, the end of an epoch) is no loss. Loop thread.
 */
#include "io/net/network_options.h"
#include "io/net/network_source.h"
#include "wire/rtp.h"
#include "io/sources.h"

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
    *reason = REJECT_PAYLOAD_TYPE;
    return fields->heartbeat || packet.header.payload_type == own->payload_type;
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

static const struct option_row rows[] = {
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
};

static int check(const struct option_check *check, const struct daemon_facts *facts,
                 struct source_options *options)
{
    (void)facts;
    struct network_options *own = options->own;
    own->ingest.ssrc_pinned = option_given(check, "ssrc");
    network_check_payload_type(check, own->ingest.payload_type, &options->format, options->rate_hz,
                               options->channels);
    network_check(check, options, true);
    return 0;
}

const struct source_ops source_rtp = {
    .name = "rtp",
    .sentence = "RTP over UDP",
    .loss = NUMBERED_LOSS,
    .format = "s16be",
    .padded = true,
    .options = rows,
    .option_count = sizeof rows / sizeof rows[0],
    .options_bytes = sizeof(struct network_options),
    .check = check,
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
