/*
 * Sources `udp` and `udp-seq`: receive plain samples in UDP datagrams, as GNU Radio's UDP sink
 * sends them: without a header, or behind a 64-bit sequence number that counts datagrams.
 *
 * Without a header each datagram continues the one before: what the network loses or reorders
 * cannot be seen. The kernel counts what the socket drops, and the source skips as many frame
 * numbers there. With a sequence number all packets must have one size (the last of a burst may be
 * shorter). Loop thread.
 */
#include <string.h>

#include "io/net/network_options.h"
#include "io/net/network_source.h"
#include "io/sources.h"

enum { SEQUENCE_BYTES = 8 };

/* Takes what lies behind the header as the payload. */
static bool take_payload(const struct received *received, size_t header_bytes,
                         struct ingest_fields *fields, enum reject *reason)
{
    if (received->bytes < header_bytes) {
        *reason = REJECT_MALFORMED;
        return false;
    }
    fields->payload = received->data + header_bytes;
    fields->payload_bytes = received->bytes - header_bytes;
    return true;
}

static bool parse_headerless(const struct source_options *options, const struct received *received,
                             struct ingest_fields *fields, enum reject *reason)
{
    (void)options;
    return take_payload(received, 0, fields, reason);
}

static bool parse_numbered(const struct source_options *options, const struct received *received,
                           struct ingest_fields *fields, enum reject *reason)
{
    const struct network_options *own = options->own;
    if (!take_payload(received, SEQUENCE_BYTES, fields, reason))
        return false;
    if (own->ingest.key != NULL) { /* the tag's trailer; the ingest checks it */
        *reason = REJECT_AUTH;
        if (fields->payload_bytes < AUTH_TRAILER_BYTES)
            return false;
        fields->payload_bytes -= AUTH_TRAILER_BYTES;
    }
    for (int i = 0; i < SEQUENCE_BYTES; i++) {
        int from = own->sequence_big_endian ? i : SEQUENCE_BYTES - 1 - i;
        fields->sequence = fields->sequence << 8 | received->data[from];
    }
    return true;
}

const struct ingest_protocol udp_protocol = {.datagrams = true, .parse = parse_headerless};

const struct ingest_protocol udp_sequence_protocol = {
    .sequence_bits = 64,
    .datagrams = true,
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

static const struct option_row rows[] = {NETWORK_ROWS};

static const struct option_choice orders[] = {{"little", false}, {"big", true}, {NULL, 0}};

static const struct option_row numbered_rows[] = {
    NETWORK_ROWS,
    NETWORK_ROWS_NUMBERED,
    {.key = "sequence order",
     .type = OPTION_CHOICE,
     .fallback = "little",
     .choices = orders,
     OPTION_FIELD(struct network_options, sequence_big_endian),
     .sentence = "Byte order of the 64-bit sequence number; GNU Radio sends the order of its "
                 "machine, little on PCs."},
};

static int check_headerless(const struct option_check *check, const struct daemon_facts *facts,
                            struct source_options *options)
{
    (void)facts;
    network_check(check, options, false);
    return 0;
}

static int check_numbered(const struct option_check *check, const struct daemon_facts *facts,
                          struct source_options *options)
{
    (void)facts;
    network_check(check, options, true);
    return 0;
}

const struct source_ops source_udp = {
    .name = "udp",
    .sentence = "headerless datagrams",
    .loss = "NOT detectable: headerless datagrams carry no numbers, so what the network loses "
            "shortens the signal unseen; only losses in the socket are counted",
    .format = "f32le",
    .padded = true,
    .options = rows,
    .option_count = sizeof rows / sizeof rows[0],
    .options_bytes = sizeof(struct network_options),
    .check = check_headerless,
    .check_all = network_check_all,
    .describe = network_describe,
    .report = network_report,
    .live = true,
    .loss_detectable = false,
    .open = open_headerless,
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

const struct source_ops source_udp_sequence = {
    .name = "udp-seq",
    .sentence = "datagrams that begin with a 64-bit sequence number",
    .loss = NUMBERED_LOSS,
    .format = "f32le",
    .padded = true,
    .options = numbered_rows,
    .option_count = sizeof numbered_rows / sizeof numbered_rows[0],
    .options_bytes = sizeof(struct network_options),
    .check = check_numbered,
    .check_all = network_check_all,
    .describe = network_describe,
    .report = network_report,
    .live = true,
    .loss_detectable = true,
    .open = open_numbered,
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
