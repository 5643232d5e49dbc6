/*
 * Sources `udp` and `udp-seq`: plain samples in UDP datagrams, as GNU Radio's UDP sink sends
 * them: without a header, or behind a 64-bit sequence number that counts datagrams.
 *
 * Without a header the next frames are simply the next frames: what the network loses or
 * swaps cannot be seen. What the socket drops is counted by the kernel and left out at its
 * place. With a sequence number packets must have one size (a shorter one may end a burst).
 */
#include <string.h>

#include "io/net/network_source.h"
#include "io/sources.h"

enum { SEQUENCE_BYTES = 8 };

static int parse_headerless(const struct source_options *options, const struct received *received,
                            struct ingest_fields *fields)
{
    (void)options;
    fields->payload = received->data;
    fields->payload_bytes = received->bytes;
    return 0;
}

static int parse_numbered(const struct source_options *options, const struct received *received,
                          struct ingest_fields *fields)
{
    if (received->bytes < SEQUENCE_BYTES)
        return 1 + REJECT_MALFORMED;
    for (int i = 0; i < SEQUENCE_BYTES; i++) {
        int from = options->sequence_big_endian ? i : SEQUENCE_BYTES - 1 - i;
        fields->sequence = fields->sequence << 8 | received->data[from];
    }
    fields->payload = received->data + SEQUENCE_BYTES;
    fields->payload_bytes = received->bytes - SEQUENCE_BYTES;
    return 0;
}

const struct ingest_protocol udp_protocol = {.parse = parse_headerless};

const struct ingest_protocol udp_sequence_protocol = {
    .sequence_bits = 64,
    .parse = parse_numbered,
};

static int open_headerless(const struct source_options *options,
                           const struct io_environment *environment, const struct source_host *host,
                           struct source **out, struct problem *problem)
{
    return network_source_open(&udp_protocol, options, environment, host, out, problem);
}

static int open_numbered(const struct source_options *options,
                         const struct io_environment *environment, const struct source_host *host,
                         struct source **out, struct problem *problem)
{
    return network_source_open(&udp_sequence_protocol, options, environment, host, out, problem);
}

const struct source_ops source_udp = {
    .name = "udp",
    .sentence = "UDP datagrams of samples without a header, such as GNU Radio's UDP sink sends; "
                "network loss cannot be seen",
    .live = true,
    .loss_detectable = false,
    .open = open_headerless,
    .start = network_source_start,
    .stop = network_source_stop,
    .close = network_source_close,
    .ledger = network_source_ledger,
    .port = network_source_port,
};

const struct source_ops source_udp_sequence = {
    .name = "udp-seq",
    .sentence = "UDP datagrams of samples behind a 64-bit sequence number, as of GNU Radio's UDP "
                "sink with a sequence header",
    .live = true,
    .loss_detectable = true,
    .open = open_numbered,
    .start = network_source_start,
    .stop = network_source_stop,
    .close = network_source_close,
    .ledger = network_source_ledger,
    .port = network_source_port,
};
